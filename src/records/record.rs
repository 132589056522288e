//! The records inside a batch, once inflated. One parser, over bytes that are there or bytes that are just being inflated.
//!
//! Record: length varint, attributes 1, timestamp delta varlong, offset delta varint, key, value, headers. Key and value:
//! length varint (-1: null), bytes. Headers: count varint; each a key (never null) and a value. Varints are zigzag.

use super::batch::{BatchFault, BatchHeader, HEADER_BYTES};
use super::compression::{CHUNK_BYTES, Compression, CompressionFault, Inflater, decompress};
use std::borrow::Cow;
use std::fmt;
use std::ops::ControlFlow;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFault {
    /// The bytes end inside a record.
    Truncated,
    /// A varint is longer than its type allows.
    Varint,
    /// A length or count that cannot be.
    Length(i32),
    /// The record's fields do not fill exactly what its length says.
    Size {
        declared: i32,
        found: u64,
    },
    Batch(BatchFault),
    Compression(CompressionFault),
}

impl fmt::Display for RecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordFault::Truncated => f.write_str("the bytes end inside a record"),
            RecordFault::Varint => f.write_str("a varint is too long"),
            RecordFault::Length(length) => write!(f, "a record has a field of length {length}"),
            RecordFault::Size { declared, found } => {
                write!(f, "a record claims {declared} bytes, its fields fill {found}")
            }
            RecordFault::Batch(fault) => fault.fmt(f),
            RecordFault::Compression(fault) => fault.fmt(f),
        }
    }
}

impl std::error::Error for RecordFault {}

impl From<BatchFault> for RecordFault {
    fn from(fault: BatchFault) -> Self {
        RecordFault::Batch(fault)
    }
}

impl From<CompressionFault> for RecordFault {
    fn from(fault: CompressionFault) -> Self {
        RecordFault::Compression(fault)
    }
}

/// The bytes of a batch after its header, compressed if the batch is. `batch` is one batch, exactly.
pub fn payload(batch: &[u8]) -> &[u8] {
    batch.get(HEADER_BYTES..).unwrap_or_default()
}

/// The inflated records of a batch, for `records`; at most `bytes_max` bytes.
pub fn inflated(batch: &[u8], bytes_max: usize) -> Result<Cow<'_, [u8]>, RecordFault> {
    match BatchHeader::parse(batch)?.compression()? {
        Compression::None => Ok(Cow::Borrowed(payload(batch))),
        codec => Ok(Cow::Owned(decompress(codec, payload(batch), bytes_max)?)),
    }
}

/// The records in inflated bytes, up to their end; a fault ends it.
pub fn records(inflated: &[u8]) -> Records<'_> {
    Records { source: SliceSource { rest: inflated, position: 0 } }
}

/// A record. Null and empty are kept apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Record<'a> {
    pub timestamp_delta: i64,
    pub offset_delta: i32,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: Headers<'a>,
}

/// A record's headers in their order, repeats included: name and value.
#[derive(Clone, Debug, PartialEq)]
pub struct Headers<'a> {
    left: i32,
    source: SliceSource<'a>,
}

impl<'a> Iterator for Headers<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.left <= 0 {
            return None;
        }
        self.left -= 1;
        // They were parsed once when the record was, so this never fails.
        header(&mut self.source).ok()
    }
}

pub struct Records<'a> {
    source: SliceSource<'a>,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, RecordFault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.source.rest.is_empty() {
            return None;
        }
        let parsed = parse(&mut self.source).map(|fields| Record {
            timestamp_delta: fields.timestamp_delta,
            offset_delta: fields.offset_delta,
            key: fields.key,
            value: fields.value,
            headers: Headers { left: fields.header_count, source: SliceSource { rest: fields.headers, position: 0 } },
        });
        if parsed.is_err() {
            self.source.rest = &[];
        }
        Some(parsed)
    }
}

/// What a scan tells of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Glance {
    pub timestamp_delta: i64,
    pub offset_delta: i32,
    pub has_key: bool,
}

/// Looks at every record of a batch until `visit` breaks, inflating in bounded memory; at most `bytes_max` bytes come out.
pub(super) fn scan<B>(
    codec: Compression,
    payload: &[u8],
    bytes_max: usize,
    visit: impl FnMut(Glance) -> ControlFlow<B>,
) -> Result<Option<B>, RecordFault> {
    match codec {
        Compression::None => scan_source(SliceSource { rest: payload, position: 0 }, visit),
        codec => scan_source(InflatingSource::new(Inflater::new(codec, payload, bytes_max)), visit),
    }
}

fn scan_source<S: Source, B>(
    mut source: S,
    mut visit: impl FnMut(Glance) -> ControlFlow<B>,
) -> Result<Option<B>, RecordFault> {
    while !source.at_end()? {
        let fields = parse(&mut source)?;
        let glance = Glance {
            timestamp_delta: fields.timestamp_delta,
            offset_delta: fields.offset_delta,
            has_key: fields.key.is_some(),
        };
        if let ControlFlow::Break(found) = visit(glance) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Where record bytes come from. `Bytes` is what is kept of a byte string: a slice, or nothing.
trait Source {
    type Bytes;
    fn byte(&mut self) -> Result<u8, RecordFault>;
    fn take(&mut self, length: usize) -> Result<Self::Bytes, RecordFault>;
    /// What lies ahead, not taken.
    fn ahead(&self) -> Self::Bytes;
    /// Bytes taken so far.
    fn position(&self) -> u64;
    fn at_end(&mut self) -> Result<bool, RecordFault>;
}

struct Fields<B> {
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<B>,
    value: Option<B>,
    header_count: i32,
    /// From the first header on.
    headers: B,
}

fn parse<S: Source>(source: &mut S) -> Result<Fields<S::Bytes>, RecordFault> {
    let declared = varint(source)?;
    let start = source.position();
    source.byte()?; // The record's attributes: none are defined.
    let timestamp_delta = varlong(source)?;
    let offset_delta = varint(source)?;
    let key = nullable_bytes(source)?;
    let value = nullable_bytes(source)?;
    let header_count = varint(source)?;
    if header_count < 0 {
        return Err(RecordFault::Length(header_count));
    }
    let headers = source.ahead();
    for _ in 0..header_count {
        header(source)?;
    }
    let found = source.position().saturating_sub(start);
    if u64::try_from(declared) != Ok(found) {
        return Err(RecordFault::Size { declared, found });
    }
    Ok(Fields { timestamp_delta, offset_delta, key, value, header_count, headers })
}

fn header<S: Source>(source: &mut S) -> Result<(S::Bytes, Option<S::Bytes>), RecordFault> {
    let name = nullable_bytes(source)?.ok_or(RecordFault::Length(-1))?;
    Ok((name, nullable_bytes(source)?))
}

fn nullable_bytes<S: Source>(source: &mut S) -> Result<Option<S::Bytes>, RecordFault> {
    match varint(source)? {
        -1 => Ok(None),
        length => {
            let length = usize::try_from(length).map_err(|_| RecordFault::Length(length))?;
            source.take(length).map(Some)
        }
    }
}

fn varint<S: Source>(source: &mut S) -> Result<i32, RecordFault> {
    let raw = u32::try_from(unsigned(source, 5)?).map_err(|_| RecordFault::Varint)?;
    Ok((raw >> 1) as i32 ^ -((raw & 1) as i32))
}

fn varlong<S: Source>(source: &mut S) -> Result<i64, RecordFault> {
    let raw = unsigned(source, 10)?;
    Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
}

fn unsigned<S: Source>(source: &mut S, bytes_max: u32) -> Result<u64, RecordFault> {
    let mut value = 0;
    for index in 0..bytes_max {
        let byte = source.byte()?;
        // The tenth byte holds only the highest bit.
        if index == 9 && byte > 1 {
            return Err(RecordFault::Varint);
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(RecordFault::Varint)
}

#[derive(Clone, Debug, PartialEq)]
struct SliceSource<'a> {
    rest: &'a [u8],
    position: u64,
}

impl<'a> Source for SliceSource<'a> {
    type Bytes = &'a [u8];

    fn byte(&mut self) -> Result<u8, RecordFault> {
        let (first, rest) = self.rest.split_first().ok_or(RecordFault::Truncated)?;
        self.rest = rest;
        self.position += 1;
        Ok(*first)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], RecordFault> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(RecordFault::Truncated)?;
        self.rest = rest;
        self.position += length as u64;
        Ok(taken)
    }

    fn ahead(&self) -> &'a [u8] {
        self.rest
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn at_end(&mut self) -> Result<bool, RecordFault> {
        Ok(self.rest.is_empty())
    }
}

/// Holds one chunk of what is being inflated; byte strings are stepped over.
struct InflatingSource<'a> {
    inflater: Inflater<'a>,
    chunk: Vec<u8>,
    /// What of the chunk is filled, and what of that is taken.
    filled: usize,
    taken: usize,
    position: u64,
}

impl<'a> InflatingSource<'a> {
    fn new(inflater: Inflater<'a>) -> Self {
        InflatingSource { inflater, chunk: vec![0; CHUNK_BYTES], filled: 0, taken: 0, position: 0 }
    }

    fn advance(&mut self, count: usize) {
        self.taken += count;
        self.position += count as u64;
    }
}

impl Source for InflatingSource<'_> {
    type Bytes = ();

    fn byte(&mut self) -> Result<u8, RecordFault> {
        if self.at_end()? {
            return Err(RecordFault::Truncated);
        }
        let byte = *self.chunk.get(self.taken).ok_or(RecordFault::Truncated)?;
        self.advance(1);
        Ok(byte)
    }

    fn take(&mut self, length: usize) -> Result<(), RecordFault> {
        let mut left = length;
        while left > 0 {
            if self.at_end()? {
                return Err(RecordFault::Truncated);
            }
            let step = left.min(self.filled - self.taken);
            self.advance(step);
            left -= step;
        }
        Ok(())
    }

    fn ahead(&self) {}

    fn position(&self) -> u64 {
        self.position
    }

    /// Inflates the next chunk when this one is used up.
    fn at_end(&mut self) -> Result<bool, RecordFault> {
        if self.taken == self.filled {
            self.filled = self.inflater.read(&mut self.chunk)?;
            self.taken = 0;
        }
        Ok(self.filled == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::build::BatchBuilder;

    const BYTES_MAX: usize = 10_000_000;

    fn sample(codec: Compression) -> Vec<u8> {
        BatchBuilder::new()
            .compression(codec)
            .timestamp(5_000)
            .record(None, None)
            .timestamp(-3)
            .record(Some(b""), Some(b""))
            .header("", None)
            .header("twice", Some(b""))
            .header("twice", Some(b"x"))
            .timestamp(i64::MAX / 2)
            .record(Some(b"key"), Some(&[9; 100_000]))
            .build()
    }

    #[test]
    fn null_and_empty_are_kept_apart_in_every_codec() {
        for codec in Compression::ALL {
            let batch = sample(codec);
            let plain = inflated(&batch, BYTES_MAX).expect("inflated");
            let read: Vec<Record> = records(&plain).map(|r| r.expect("a record")).collect();
            let [first, second, third] = &read[..] else { panic!("three records, not {}", read.len()) };
            assert_eq!((first.key, first.value, first.timestamp_delta, first.offset_delta), (None, None, 0, 0));
            assert_eq!((second.key, second.value, second.timestamp_delta), (Some(&b""[..]), Some(&b""[..]), -5_003));
            let headers: Vec<(&[u8], Option<&[u8]>)> = second.headers.clone().collect();
            let expected: [(&[u8], Option<&[u8]>); 3] = [(b"", None), (b"twice", Some(b"")), (b"twice", Some(b"x"))];
            assert_eq!(headers, expected);
            assert_eq!((third.key, third.value), (Some(&b"key"[..]), Some(&[9; 100_000][..])));
            assert_eq!((third.timestamp_delta, third.offset_delta), (i64::MAX / 2 - 5_000, 2));
            assert_eq!(third.headers.clone().count(), 0);
        }
    }

    #[test]
    fn a_scan_sees_what_the_iterator_reads() {
        for codec in Compression::ALL {
            let batch = sample(codec);
            let plain = inflated(&batch, BYTES_MAX).expect("inflated");
            let mut glances = Vec::new();
            let all = scan(codec, payload(&batch), BYTES_MAX, |glance| {
                glances.push((glance.timestamp_delta, glance.offset_delta, glance.has_key));
                ControlFlow::<()>::Continue(())
            });
            assert_eq!(all, Ok(None));
            let read: Vec<_> = records(&plain)
                .map(|r| r.map(|r| (r.timestamp_delta, r.offset_delta, r.key.is_some())).expect("a record"))
                .collect();
            assert_eq!(glances, read);
            let second = scan(codec, payload(&batch), BYTES_MAX, |glance| {
                if glance.has_key { ControlFlow::Break(glance.offset_delta) } else { ControlFlow::Continue(()) }
            });
            assert_eq!(second, Ok(Some(1)));
        }
    }

    #[test]
    fn cut_records_end_in_a_fault() {
        let batch = BatchBuilder::new().record(Some(b"key"), Some(b"value")).header("h", Some(b"x")).build();
        let whole = payload(&batch);
        for length in 1..whole.len() {
            let mut read = records(&whole[..length]);
            assert_eq!(read.next().map(|r| r.is_err()), Some(true), "cut to {length}");
            assert!(read.next().is_none());
        }
    }

    #[track_caller]
    fn check_fault(record: &[u8], fault: RecordFault) {
        assert_eq!(records(record).next(), Some(Err(fault)));
    }

    #[test]
    fn lengths_that_cannot_be_are_faults() {
        // Length 6: attributes, timestamp delta, offset delta, null key, null value, no headers.
        assert!(records(&[12, 0, 0, 0, 1, 1, 0]).next().is_some_and(|r| r.is_ok()));
        check_fault(&[14, 0, 0, 0, 1, 1, 0, 0], RecordFault::Size { declared: 7, found: 6 });
        check_fault(&[10, 0, 0, 0, 1, 1, 0], RecordFault::Size { declared: 5, found: 6 });
        check_fault(&[1, 0, 0, 0, 1, 1, 0], RecordFault::Size { declared: -1, found: 6 });
        check_fault(&[12, 0, 0, 0, 3, 1, 0], RecordFault::Length(-2));
        check_fault(&[12, 0, 0, 0, 1, 1, 1], RecordFault::Length(-1));
        check_fault(&[12, 0, 0, 0, 1, 1, 2, 1, 1], RecordFault::Length(-1));
        check_fault(&[0xff, 0xff, 0xff, 0xff, 0xff, 0], RecordFault::Varint);
        check_fault(&[0xff, 0xff, 0xff, 0xff, 0x1f, 0], RecordFault::Varint);
        check_fault(&[2, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], RecordFault::Varint);
        check_fault(&[12, 0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f], RecordFault::Truncated);
    }
}
