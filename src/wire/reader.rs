//! The reading cursor: bounds-checked, and charged for every byte it makes a message reserve.

use super::{DecodeError, Fault};
use crate::limits::{ANSWERED_BYTES_MIN, DECODE_BUDGET_BYTES_MAX};
use bytes::Bytes;

/// Reads one frame at one version. No read panics, and none reserves memory that the frame has not paid for: what a
/// message may hold is the size of its frame plus `DECODE_BUDGET_BYTES_MAX`. An element of an array is charged
/// `ANSWERED_BYTES_MIN` at least, so that its row in the answer is paid for, too.
pub struct Reader {
    frame: Bytes,
    at: usize,
    /// Where reading stops: the end of the frame, or of the tagged field being read.
    end: usize,
    version: i16,
    flexible: bool,
    budget_bytes: usize,
    field: &'static str,
}

impl Reader {
    /// `flexible` says whether strings, bytes, arrays and structs have their compact, taggable form (KIP-482).
    pub fn new(frame: Bytes, version: i16, flexible: bool) -> Reader {
        let budget_bytes = frame.len().saturating_add(DECODE_BUDGET_BYTES_MAX);
        Reader { at: 0, end: frame.len(), frame, version, flexible, budget_bytes, field: "header" }
    }

    /// The rest of the frame, read as another version. Offsets in errors go on from the start of the frame.
    pub fn as_version(mut self, version: i16, flexible: bool) -> Reader {
        self.version = version;
        self.flexible = flexible;
        self
    }

    pub fn version(&self) -> i16 {
        self.version
    }

    pub fn flexible(&self) -> bool {
        self.flexible
    }

    /// Names the field that is read next, for errors.
    pub fn enter(&mut self, field: &'static str) {
        self.field = field;
    }

    pub fn field(&self) -> &'static str {
        self.field
    }

    pub fn error(&self, fault: Fault) -> DecodeError {
        DecodeError { field: self.field, offset: self.at, fault }
    }

    pub fn remaining(&self) -> usize {
        self.end.saturating_sub(self.at)
    }

    /// Ends the message: nothing may be left over.
    pub fn finish(mut self) -> Result<(), DecodeError> {
        if self.remaining() > 0 {
            self.enter("end of message");
            return Err(self.error(Fault::TrailingBytes));
        }
        Ok(())
    }

    /// Takes the next `count` bytes without copying them.
    pub fn bytes(&mut self, count: usize) -> Result<Bytes, DecodeError> {
        let start = self.at;
        let stop = self.advance(count)?;
        Ok(self.frame.slice(start..stop))
    }

    pub fn skip(&mut self, count: usize) -> Result<(), DecodeError> {
        self.advance(count).map(|_| ())
    }

    pub fn i8(&mut self) -> Result<i8, DecodeError> {
        self.array().map(i8::from_be_bytes)
    }

    pub fn i16(&mut self) -> Result<i16, DecodeError> {
        self.array().map(i16::from_be_bytes)
    }

    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        self.array().map(i32::from_be_bytes)
    }

    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        self.array().map(i64::from_be_bytes)
    }

    /// Takes the next `N` bytes as they are.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let start = self.at;
        let stop = self.advance(N)?;
        let taken = self.frame.get(start..stop).and_then(|bytes| bytes.try_into().ok());
        taken.ok_or_else(|| self.error(Fault::Truncated))
    }

    /// Kafka's UNSIGNED_VARINT: seven bits a byte, lowest first, at most five bytes.
    pub fn unsigned_varint(&mut self) -> Result<u32, DecodeError> {
        let mut value = 0;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.array()?;
            let bits = u32::from(byte & 0x7f);
            if shift == 28 && byte > 0x0f {
                return Err(self.error(Fault::VarintOverflow));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        Ok(value)
    }

    /// A string's text, its length prefix included; `None` is null.
    pub fn nullable_string(&mut self) -> Result<Option<String>, DecodeError> {
        let length = if self.flexible { self.compact_length()? } else { i64::from(self.i16()?) };
        let Some(length) = self.checked(length)? else { return Ok(None) };
        if length > STRING_BYTES_MAX {
            return Err(self.error(Fault::StringTooLong));
        }
        self.charge(length)?;
        let text = self.bytes(length)?;
        match std::str::from_utf8(&text) {
            Ok(text) => Ok(Some(text.to_owned())),
            Err(_) => Err(self.error(Fault::NotUtf8)),
        }
    }

    /// Bytes or records, their length prefix included; `None` is null. A slice of the frame, no copy.
    pub fn nullable_bytes(&mut self) -> Result<Option<Bytes>, DecodeError> {
        let length = self.length()?;
        match self.checked(length)? {
            Some(length) => self.bytes(length).map(Some),
            None => Ok(None),
        }
    }

    /// An array's count; `None` is null. Every element takes a byte at least, so a count above what remains is a lie.
    pub fn nullable_count(&mut self) -> Result<Option<usize>, DecodeError> {
        let length = self.length()?;
        let count = self.checked(length)?;
        match count {
            Some(count) if count > self.remaining() => Err(self.error(Fault::CountTooLarge)),
            _ => Ok(count),
        }
    }

    /// Makes room for one more of `count` elements: charged first, in steps, so that memory follows what was read.
    pub fn reserve<T>(&mut self, elements: &mut Vec<T>, count: usize) -> Result<(), DecodeError> {
        if elements.len() < elements.capacity() || size_of::<T>() == 0 {
            return Ok(());
        }
        let more = elements.len().max(ELEMENTS_RESERVED_FIRST).min(count.saturating_sub(elements.len())).max(1);
        self.charge(more.saturating_mul(size_of::<T>().max(ANSWERED_BYTES_MIN)))?;
        elements.try_reserve_exact(more).map_err(|_| self.error(Fault::OverBudget))
    }

    /// Reads the tagged fields at a struct's end. `known` reads the value of a tag it knows and gives true, or gives
    /// false and leaves it; an unknown one is skipped.
    pub fn tags(
        &mut self,
        mut known: impl FnMut(&mut Reader, u32) -> Result<bool, DecodeError>,
    ) -> Result<(), DecodeError> {
        self.enter("tagged fields");
        let count = self.unsigned_varint()?;
        for _ in 0..count {
            self.enter("tagged fields");
            let tag = self.unsigned_varint()?;
            let size = self.unsigned_varint()?;
            let outer_end = self.end;
            let value_end = usize::try_from(size).ok().and_then(|size| self.at.checked_add(size));
            self.end = match value_end {
                Some(end) if end <= outer_end => end,
                _ => return Err(self.error(Fault::Truncated)),
            };
            if !known(self, tag)? {
                self.at = self.end;
            }
            if self.at != self.end {
                return Err(self.error(Fault::TagSizeMismatch));
            }
            self.end = outer_end;
        }
        Ok(())
    }

    fn charge(&mut self, bytes: usize) -> Result<(), DecodeError> {
        match self.budget_bytes.checked_sub(bytes) {
            Some(left) => {
                self.budget_bytes = left;
                Ok(())
            }
            None => Err(self.error(Fault::OverBudget)),
        }
    }

    fn advance(&mut self, count: usize) -> Result<usize, DecodeError> {
        match self.at.checked_add(count) {
            Some(stop) if stop <= self.end => {
                self.at = stop;
                Ok(stop)
            }
            _ => Err(self.error(Fault::Truncated)),
        }
    }

    fn length(&mut self) -> Result<i64, DecodeError> {
        if self.flexible { self.compact_length() } else { self.i32().map(i64::from) }
    }

    fn compact_length(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from(self.unsigned_varint()?) - 1)
    }

    fn checked(&self, length: i64) -> Result<Option<usize>, DecodeError> {
        match length {
            -1 => Ok(None),
            _ => usize::try_from(length).map(Some).map_err(|_| self.error(Fault::NegativeLength)),
        }
    }
}

/// Kafka refuses longer strings in compact form too, where the prefix would allow them.
pub(super) const STRING_BYTES_MAX: usize = 0x7fff;

/// Most arrays have a handful of elements: the first reservation covers them.
const ELEMENTS_RESERVED_FIRST: usize = 4;
