//! Record batch format v2: the header, walking a chain of batches, and the fields that a broker stamps.
//!
//! Layout: base offset 8, length 4, leader epoch 4, magic 1, CRC 4, attributes 2, last offset delta 4, base timestamp 8,
//! max timestamp 8, producer id 8, producer epoch 2, base sequence 4, record count 4, records. The CRC-32C covers
//! everything from the attributes on, so base offset and leader epoch are changed without touching it.

use super::compression::Compression;
use std::fmt;

/// Bytes of a batch before its records.
pub const HEADER_BYTES: usize = 61;
/// Bytes before what the length field counts.
pub(super) const PREFIX_BYTES: usize = 12;
/// Base offset, length, leader epoch, magic.
pub(super) const CRC_AT: usize = 17;
const MAGIC: i8 = 2;

pub(super) const CODEC_MASK: i16 = 0b111;
const APPEND_TIME: i16 = 1 << 3;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;

/// The header of a batch, as it stands in the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    pub base_offset: i64,
    /// The whole batch, the 12 bytes before the length's count included.
    pub total_bytes: usize,
    pub leader_epoch: i32,
    pub magic: i8,
    pub crc: u32,
    pub attributes: i16,
    /// Never negative.
    pub last_offset_delta: i32,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    /// As the sender claims it; only `validate_produce` compares it with the records.
    pub record_count: i32,
}

/// Why bytes are not a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchFault {
    /// The bytes end before the batch does.
    Truncated,
    /// The length field is negative or too small for a header.
    Length(i32),
    Magic(i8),
    LastOffsetDelta(i32),
    /// The offsets of the batch do not fit in 63 bits.
    OffsetOverflow,
    /// The codec bits of the attributes name no codec.
    Codec(i16),
}

impl fmt::Display for BatchFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BatchFault::Truncated => f.write_str("the bytes end inside a record batch"),
            BatchFault::Length(length) => write!(f, "a record batch cannot have length {length}"),
            BatchFault::Magic(magic) => write!(f, "record batches of magic {magic} are not supported, only of magic 2"),
            BatchFault::LastOffsetDelta(delta) => write!(f, "a record batch cannot have last offset delta {delta}"),
            BatchFault::OffsetOverflow => f.write_str("the offsets of the record batch overflow"),
            BatchFault::Codec(codec) => write!(f, "unknown compression type {codec}"),
        }
    }
}

impl std::error::Error for BatchFault {}

impl BatchHeader {
    /// Reads the header of the batch at the start of `bytes`; the whole batch must be there, more may follow.
    pub fn parse(bytes: &[u8]) -> Result<BatchHeader, BatchFault> {
        let mut rest = bytes;
        let base_offset = i64::from_be_bytes(field(&mut rest)?);
        let length = i32::from_be_bytes(field(&mut rest)?);
        let leader_epoch = i32::from_be_bytes(field(&mut rest)?);
        let magic = i8::from_be_bytes(field(&mut rest)?);
        // The magic stands at the same place in all formats, and older ones may be shorter than this one's header.
        if magic != MAGIC {
            return Err(BatchFault::Magic(magic));
        }
        let total_bytes = usize::try_from(length).map_err(|_| BatchFault::Length(length))?.saturating_add(PREFIX_BYTES);
        if total_bytes < HEADER_BYTES {
            return Err(BatchFault::Length(length));
        }
        if bytes.len() < total_bytes {
            return Err(BatchFault::Truncated);
        }
        let header = BatchHeader {
            base_offset,
            total_bytes,
            leader_epoch,
            magic,
            crc: u32::from_be_bytes(field(&mut rest)?),
            attributes: i16::from_be_bytes(field(&mut rest)?),
            last_offset_delta: i32::from_be_bytes(field(&mut rest)?),
            base_timestamp: i64::from_be_bytes(field(&mut rest)?),
            max_timestamp: i64::from_be_bytes(field(&mut rest)?),
            producer_id: i64::from_be_bytes(field(&mut rest)?),
            producer_epoch: i16::from_be_bytes(field(&mut rest)?),
            base_sequence: i32::from_be_bytes(field(&mut rest)?),
            record_count: i32::from_be_bytes(field(&mut rest)?),
        };
        if header.last_offset_delta < 0 {
            return Err(BatchFault::LastOffsetDelta(header.last_offset_delta));
        }
        match base_offset.checked_add(i64::from(header.last_offset_delta)) {
            Some(last) if last < i64::MAX => Ok(header),
            _ => Err(BatchFault::OffsetOverflow),
        }
    }

    pub fn last_offset(&self) -> i64 {
        self.base_offset.saturating_add(i64::from(self.last_offset_delta))
    }

    /// The offset after the batch's last.
    pub fn next_offset(&self) -> i64 {
        self.last_offset().saturating_add(1)
    }

    pub fn compression(&self) -> Result<Compression, BatchFault> {
        let codec = self.attributes & CODEC_MASK;
        Compression::from_id(codec).ok_or(BatchFault::Codec(codec))
    }

    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    /// The broker set the time: `max_timestamp` is the timestamp of every record.
    pub fn is_append_time(&self) -> bool {
        self.attributes & APPEND_TIME != 0
    }

    /// The producer is idempotent (KIP-98).
    pub fn has_producer(&self) -> bool {
        self.producer_id >= 0
    }

    /// The sequence of the last record; -1 where there are no sequences.
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 { -1 } else { sequence_after(self.base_sequence, self.last_offset_delta) }
    }
}

/// The producer sequence `increment` (not negative) after `sequence`: after `i32::MAX` comes 0.
pub fn sequence_after(sequence: i32, increment: i32) -> i32 {
    let sum = i64::from(sequence) + i64::from(increment);
    i32::try_from(sum).unwrap_or_else(|_| {
        i32::try_from(sum - (i64::from(i32::MAX) + 1)).expect("two i32 exceed i32::MAX by less than another")
    })
}

fn field<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], BatchFault> {
    let (head, tail) = rest.split_first_chunk::<N>().ok_or(BatchFault::Truncated)?;
    *rest = tail;
    Ok(*head)
}

/// The batches of a chain, in order. A chain that does not end exactly where a batch does yields a fault, then nothing.
pub fn walk(chain: &[u8]) -> Walk<'_> {
    Walk { rest: chain }
}

#[derive(Clone, Debug)]
pub struct Walk<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Walk<'a> {
    type Item = Result<(BatchHeader, &'a [u8]), BatchFault>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = std::mem::take(&mut self.rest);
        if rest.is_empty() {
            return None;
        }
        Some(BatchHeader::parse(rest).and_then(|header| {
            let (batch, tail) = rest.split_at_checked(header.total_bytes).ok_or(BatchFault::Truncated)?;
            self.rest = tail;
            Ok((header, batch))
        }))
    }
}

/// Whether the CRC-32C in the header is that of the bytes it covers. `batch` is one batch, exactly.
pub fn crc_matches(batch: &[u8]) -> bool {
    let Some((stored, covered)) = batch.get(CRC_AT..).and_then(|from_crc| from_crc.split_first_chunk::<4>()) else {
        return false;
    };
    u32::from_be_bytes(*stored) == crc32c::crc32c(covered)
}

/// What a chain of batches holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainSummary {
    pub base_offset: i64,
    /// The offset after the chain's last.
    pub next_offset: i64,
    pub batches: usize,
    /// The greatest of the batches' max timestamps.
    pub max_timestamp: i64,
}

/// Whether bytes are a stored chain: at least one batch, walked exactly to the end, every CRC right, offsets not negative
/// and rising. One pass over the bytes, no allocation.
pub fn chain_is_valid(chain: &[u8]) -> Option<ChainSummary> {
    let mut summary: Option<ChainSummary> = None;
    for step in walk(chain) {
        let (header, batch) = step.ok()?;
        let floor = summary.map_or(0, |s| s.next_offset);
        if header.base_offset < floor || !crc_matches(batch) {
            return None;
        }
        summary = Some(ChainSummary {
            base_offset: summary.map_or(header.base_offset, |s| s.base_offset),
            next_offset: header.next_offset(),
            batches: summary.map_or(0, |s| s.batches) + 1,
            max_timestamp: summary.map_or(header.max_timestamp, |s| s.max_timestamp.max(header.max_timestamp)),
        });
    }
    summary
}

/// Writes base offset and leader epoch into a parsed batch. The CRC does not cover them.
pub fn stamp(batch: &mut [u8], base_offset: i64, leader_epoch: i32) {
    put(batch, 0, &base_offset.to_be_bytes());
    put(batch, PREFIX_BYTES, &leader_epoch.to_be_bytes());
}

/// Makes all records of a parsed batch bear the time of the append (LogAppendTime): attribute bit, max timestamp, CRC.
pub fn set_append_time(batch: &mut [u8], wall_ms: i64) {
    let attributes = batch.get(21..).and_then(|b| b.first_chunk::<2>()).expect("the batch was parsed");
    let attributes = i16::from_be_bytes(*attributes) | APPEND_TIME;
    put(batch, 21, &attributes.to_be_bytes());
    set_max_timestamp(batch, wall_ms);
}

/// Corrects the max timestamp of a parsed batch whose sender misstated it, and the CRC.
pub fn set_max_timestamp(batch: &mut [u8], max_timestamp: i64) {
    put(batch, 35, &max_timestamp.to_be_bytes());
    refresh_crc(batch);
}

/// Makes the CRC of a parsed batch right again.
pub(super) fn refresh_crc(batch: &mut [u8]) {
    let crc = crc32c::crc32c(batch.get(CRC_AT + 4..).expect("the batch was parsed"));
    put(batch, CRC_AT, &crc.to_be_bytes());
}

pub(super) fn put(batch: &mut [u8], at: usize, bytes: &[u8]) {
    let place = batch.get_mut(at..at.saturating_add(bytes.len())).expect("the batch was parsed");
    place.copy_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::build::{BatchBuilder, refresh_crc};

    fn batch(base_offset: i64, records: usize) -> Vec<u8> {
        let mut builder = BatchBuilder::new().base_offset(base_offset).timestamp(base_offset);
        for _ in 0..records {
            builder = builder.value("v");
        }
        builder.build()
    }

    #[test]
    fn a_header_reads_back() {
        let bytes = BatchBuilder::new()
            .base_offset(40)
            .leader_epoch(3)
            .producer(7, 2, i32::MAX)
            .attributes(16)
            .value("a")
            .value("b")
            .build();
        let header = BatchHeader::parse(&[bytes.clone(), vec![1]].concat()).expect("parsed");
        assert_eq!((header.total_bytes, header.leader_epoch, header.magic), (bytes.len(), 3, 2));
        assert_eq!((header.last_offset(), header.next_offset(), header.record_count), (41, 42, 2));
        assert_eq!((header.producer_id, header.producer_epoch), (7, 2));
        assert_eq!(header.last_sequence(), 0, "sequences wrap to 0");
        assert!(header.is_transactional() && header.has_producer() && !header.is_control() && !header.is_append_time());
    }

    #[test]
    fn sequences_wrap() {
        assert_eq!(sequence_after(5, 3), 8);
        assert_eq!(sequence_after(i32::MAX - 1, 1), i32::MAX);
        assert_eq!(sequence_after(i32::MAX - 1, 4), 2);
        assert_eq!(sequence_after(i32::MAX, i32::MAX), i32::MAX - 1);
        assert_eq!(BatchHeader::parse(&batch(0, 1)).expect("parsed").last_sequence(), -1);
    }

    #[test]
    fn what_is_no_batch_is_told() {
        let good = batch(1, 2);
        let altered = |at: usize, bytes: &[u8]| {
            let mut altered = good.clone();
            altered[at..at + bytes.len()].copy_from_slice(bytes);
            BatchHeader::parse(&altered)
        };
        for length in 0..good.len() {
            assert_eq!(BatchHeader::parse(&good[..length]), Err(BatchFault::Truncated));
        }
        for length in [-1, 0, 48, i32::MIN] {
            assert_eq!(altered(8, &length.to_be_bytes()), Err(BatchFault::Length(length)));
        }
        assert_eq!(altered(8, &i32::MAX.to_be_bytes()), Err(BatchFault::Truncated));
        assert_eq!(altered(16, &[1]), Err(BatchFault::Magic(1)));
        assert_eq!(altered(23, &(-1i32).to_be_bytes()), Err(BatchFault::LastOffsetDelta(-1)));
        assert_eq!(altered(0, &(i64::MAX - 1).to_be_bytes()), Err(BatchFault::OffsetOverflow));
        assert!(altered(0, &(i64::MAX - 2).to_be_bytes()).is_ok());
        let odd_codec = BatchBuilder::new().attributes(7).value("v").build();
        assert_eq!(BatchHeader::parse(&odd_codec).expect("parsed").compression(), Err(BatchFault::Codec(7)));
    }

    #[test]
    fn a_chain_is_walked_exactly() {
        let chain = [batch(0, 2), batch(2, 1), batch(9, 3)].concat();
        let bases: Vec<i64> = walk(&chain).map(|step| step.expect("a batch").0.base_offset).collect();
        assert_eq!(bases, [0, 2, 9]);
        let mut cut = walk(&chain[..chain.len() - 1]);
        assert!(cut.by_ref().take(2).all(|step| step.is_ok()));
        assert_eq!(cut.next(), Some(Err(BatchFault::Truncated)));
        assert_eq!(cut.next(), None);
    }

    #[test]
    fn only_a_whole_rising_chain_is_valid() {
        let chain = [batch(5, 2), batch(7, 1), batch(90, 3)].concat();
        let summary = chain_is_valid(&chain).expect("valid");
        assert_eq!(summary, ChainSummary { base_offset: 5, next_offset: 93, batches: 3, max_timestamp: 90 });
        assert_eq!(chain_is_valid(&[]), None);
        assert_eq!(chain_is_valid(b"not a batch at all, but long enough to hold a header of sixty-one bytes"), None);
        assert_eq!(chain_is_valid(&[batch(5, 2), batch(6, 1)].concat()), None, "overlap");
        assert_eq!(chain_is_valid(&[batch(5, 2), batch(5, 2)].concat()), None, "repeat");
        assert_eq!(chain_is_valid(&batch(-3, 2)), None, "negative");
        for length in
            (1..chain.len()).filter(|l| ![batch(0, 2).len(), batch(0, 2).len() + batch(0, 1).len()].contains(l))
        {
            assert_eq!(chain_is_valid(&chain[..length]), None, "cut to {length}");
        }
        // Only base offset and leader epoch may change unnoticed by the CRC.
        for at in 0..chain.len() {
            let mut flipped = chain.clone();
            flipped[at] ^= 0x40;
            let _ = chain_is_valid(&flipped);
            if at >= batch(0, 2).len() + batch(0, 1).len() + 16 {
                assert_eq!(chain_is_valid(&flipped), None, "byte {at}");
            }
        }
    }

    #[test]
    fn stamps_keep_the_crc_right() {
        let mut bytes = batch(0, 3);
        stamp(&mut bytes, 1 << 40, 6);
        let header = BatchHeader::parse(&bytes).expect("parsed");
        assert_eq!((header.base_offset, header.leader_epoch), (1 << 40, 6));
        assert!(crc_matches(&bytes));
        set_append_time(&mut bytes, 123_456);
        let stamped = BatchHeader::parse(&bytes).expect("parsed");
        assert!(stamped.is_append_time() && crc_matches(&bytes));
        assert_eq!((stamped.max_timestamp, stamped.base_timestamp), (123_456, header.base_timestamp));
        bytes[30] ^= 1;
        assert!(!crc_matches(&bytes));
        refresh_crc(&mut bytes);
        assert!(crc_matches(&bytes));
        assert!(!crc_matches(&bytes[..20]));
    }
}
