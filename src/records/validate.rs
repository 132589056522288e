//! What a client may append: everything is checked before anything is stored, and each refusal has Kafka's code.
//!
//! The order of checks and their codes follow Apache Kafka's ProduceRequest, UnifiedLog and LogValidator, with three
//! differences: a batch that stands but is followed by loose bytes is refused (Kafka drops them), inner offsets that do not
//! count from 0 are refused (Kafka rewrites compressed batches), and bytes that do not inflate are INVALID_RECORD, as are LZ4
//! frames of linked blocks (Kafka: UNKNOWN_SERVER_ERROR).

use super::batch::{BatchFault, BatchHeader, crc_matches, walk};
use super::compression::{Compression, CompressionFault, lz4_blocks_stand_alone};
use super::record::{Glance, RecordFault, payload, scan};
use crate::limits::DECOMPRESSED_BYTES_MAX;
use bytes::Bytes;
use std::fmt;
use std::ops::ControlFlow;

/// The settings of the topic and the version of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProduceRules {
    /// `max.message.bytes`: the whole batch as it was sent.
    pub bytes_max: usize,
    /// `message.timestamp.type` is LogAppendTime: the client's timestamps do not count.
    pub append_time: bool,
    pub timestamp_before_ms_max: i64,
    pub timestamp_after_ms_max: i64,
    /// The topic is compacted.
    pub keys_required: bool,
    /// From Produce version 7 on.
    pub zstd_allowed: bool,
}

/// Why a batch is not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no whole batch.
    Empty,
    /// There is more than one batch.
    ManyBatches,
    Magic(i8),
    /// The batch cannot be read, or bytes follow it that are no batch.
    Corrupt(BatchFault),
    Crc,
    TooLarge {
        bytes: usize,
        bytes_max: usize,
    },
    InflatesTooLarge {
        bytes_max: usize,
    },
    /// In the topic's codec (`compression.type`) the batch is larger than allowed.
    PacksTooLarge {
        bytes_max: usize,
    },
    /// The records could not be compressed as the topic asks.
    Unpackable,
    UnknownCodec(i16),
    ZstdTooEarly,
    /// The blocks of an LZ4 frame need those before them, which Java clients do not read.
    LinkedLz4Blocks,
    BaseOffset(i64),
    Count {
        record_count: i32,
        last_offset_delta: i32,
    },
    Control,
    Transactional,
    Sequence(i32),
    ProducerEpoch(i16),
    /// The batch claims LogAppendTime, which only the broker sets.
    AppendTime,
    Record {
        index: i32,
        fault: RecordFault,
    },
    OffsetDelta {
        index: i32,
        offset_delta: i32,
    },
    /// Bytes or records beyond the counted ones.
    RecordsRemaining,
    RecordsMissing {
        found: i32,
    },
    NullKey {
        index: i32,
    },
    Timestamp {
        index: i32,
        timestamp: i64,
        from: i64,
        to: i64,
    },
    TimestampOverflow {
        index: i32,
    },
}

impl Refusal {
    /// Kafka's error code.
    pub fn code(&self) -> i16 {
        const CORRUPT_MESSAGE: i16 = 2;
        const MESSAGE_TOO_LARGE: i16 = 10;
        const INVALID_TIMESTAMP: i16 = 32;
        const UNSUPPORTED_COMPRESSION_TYPE: i16 = 76;
        const INVALID_RECORD: i16 = 87;
        match self {
            Refusal::Corrupt(_) | Refusal::Crc => CORRUPT_MESSAGE,
            Refusal::TooLarge { .. } | Refusal::InflatesTooLarge { .. } | Refusal::PacksTooLarge { .. } => {
                MESSAGE_TOO_LARGE
            }
            Refusal::AppendTime | Refusal::Timestamp { .. } => INVALID_TIMESTAMP,
            Refusal::UnknownCodec(_) | Refusal::ZstdTooEarly => UNSUPPORTED_COMPRESSION_TYPE,
            Refusal::Empty
            | Refusal::ManyBatches
            | Refusal::Magic(_)
            | Refusal::Unpackable
            | Refusal::LinkedLz4Blocks
            | Refusal::BaseOffset(_)
            | Refusal::Count { .. }
            | Refusal::Control
            | Refusal::Transactional
            | Refusal::Sequence(_)
            | Refusal::ProducerEpoch(_)
            | Refusal::Record { .. }
            | Refusal::OffsetDelta { .. }
            | Refusal::RecordsRemaining
            | Refusal::RecordsMissing { .. }
            | Refusal::NullKey { .. }
            | Refusal::TimestampOverflow { .. } => INVALID_RECORD,
        }
    }

    /// The record at fault, counted from 0, where it is one record: `batch_index` in a Produce response's record errors.
    pub fn record_index(&self) -> Option<i32> {
        match self {
            Refusal::Record { index, .. }
            | Refusal::OffsetDelta { index, .. }
            | Refusal::NullKey { index }
            | Refusal::Timestamp { index, .. }
            | Refusal::TimestampOverflow { index } => Some(*index),
            _ => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Empty => f.write_str("There must be one whole record batch for each partition"),
            Refusal::ManyBatches => f.write_str("There must not be more than one record batch for a partition"),
            Refusal::Magic(magic) => write!(f, "Record batches must be of magic 2, this one is of magic {magic}"),
            Refusal::Corrupt(fault) => write!(f, "The record batch is corrupt: {fault}"),
            Refusal::Crc => f.write_str("The record batch is corrupt: its CRC does not match"),
            Refusal::TooLarge { bytes, bytes_max } => {
                write!(f, "The record batch has {bytes} bytes, more than max.message.bytes {bytes_max}")
            }
            Refusal::InflatesTooLarge { bytes_max } => {
                write!(f, "The records have more than {bytes_max} bytes when decompressed")
            }
            Refusal::PacksTooLarge { bytes_max } => {
                write!(f, "Compressed as the topic asks, the batch has more than {bytes_max} bytes")
            }
            Refusal::Unpackable => f.write_str("The records cannot be compressed as the topic asks"),
            Refusal::UnknownCodec(codec) => write!(f, "Unknown compression type {codec}"),
            Refusal::ZstdTooEarly => f.write_str("zstd needs version 7 of the Produce request"),
            Refusal::BaseOffset(offset) => write!(f, "The record batch must have base offset 0, not {offset}"),
            Refusal::Count { record_count, last_offset_delta } => {
                write!(
                    f,
                    "The record batch counts {record_count} records but its last offset delta is {last_offset_delta}"
                )
            }
            Refusal::LinkedLz4Blocks => f.write_str("The blocks of an LZ4 frame must be independent of each other"),
            Refusal::Control => f.write_str("Clients must not write control records"),
            Refusal::Transactional => f.write_str("Transactional records are not supported here"),
            Refusal::Sequence(sequence) => write!(f, "An idempotent producer cannot have sequence number {sequence}"),
            Refusal::ProducerEpoch(epoch) => write!(f, "An idempotent producer cannot have epoch {epoch}"),
            Refusal::AppendTime => f.write_str("Producers must not set the timestamp type to LogAppendTime"),
            Refusal::Record { index, fault } => write!(f, "Record {index} cannot be read: {fault}"),
            Refusal::OffsetDelta { index, offset_delta } => {
                write!(f, "Record {index} must have offset delta {index}, not {offset_delta}")
            }
            Refusal::RecordsRemaining => f.write_str("There is more in the record batch than the records it counts"),
            Refusal::RecordsMissing { found } => write!(f, "There are only {found} records in the record batch"),
            Refusal::NullKey { index } => {
                write!(f, "Record {index} has no key, and a compacted topic takes no record without one")
            }
            Refusal::Timestamp { index, timestamp, from, to } => {
                write!(f, "Record {index} has timestamp {timestamp}, which is outside [{from}, {to}]")
            }
            Refusal::TimestampOverflow { index } => write!(f, "The timestamp of record {index} overflows"),
        }
    }
}

impl std::error::Error for Refusal {}

/// Checks what a Produce request (version 3 or later) brings for one partition: one batch, whole and well formed.
///
/// The header given back is the batch's own but for `max_timestamp`, which is what the records say: where it differs from
/// the bytes, a CreateTime topic wants `set_max_timestamp`, as Kafka corrects it. Null records count as empty.
pub fn validate_produce(records: &Bytes, rules: &ProduceRules, wall_ms: i64) -> Result<BatchHeader, Refusal> {
    let (mut header, batch) = only_batch(records)?;
    let codec = check_header(&header, rules)?;
    if !crc_matches(batch) {
        return Err(Refusal::Crc);
    }
    check_batch(&header)?;
    if codec == Compression::Lz4 && !lz4_blocks_stand_alone(payload(batch)) {
        return Err(Refusal::LinkedLz4Blocks);
    }
    header.max_timestamp = check_records(&header, codec, payload(batch), rules, wall_ms)?;
    Ok(header)
}

/// All records that have no key although they must, or a time that is not accepted, of a batch that was refused for the first
/// of them; at most `max`.
pub fn faulty_records(records: &Bytes, rules: &ProduceRules, wall_ms: i64, max: usize) -> Vec<Refusal> {
    let mut faulty = Vec::new();
    let Ok((header, batch)) = only_batch(records) else { return faulty };
    let Ok(codec) = header.compression() else { return faulty };
    let mut check = RecordCheck::new(&header, rules, wall_ms);
    // What cannot be read ends the list, no more.
    let _ended = scan(codec, payload(batch), DECOMPRESSED_BYTES_MAX, |glance| match check.record(glance) {
        Err(refusal @ (Refusal::NullKey { .. } | Refusal::Timestamp { .. })) if faulty.len() < max => {
            faulty.push(refusal);
            ControlFlow::Continue(())
        }
        Ok(()) => ControlFlow::Continue(()),
        Err(other) => ControlFlow::Break(other),
    });
    faulty
}

fn only_batch(records: &[u8]) -> Result<(BatchHeader, &[u8]), Refusal> {
    let mut batches = walk(records);
    let first = match batches.next() {
        None | Some(Err(BatchFault::Truncated)) => return Err(Refusal::Empty),
        Some(Err(BatchFault::Magic(magic @ (0 | 1)))) => return Err(Refusal::Magic(magic)),
        Some(Err(BatchFault::LastOffsetDelta(last_offset_delta))) => {
            return Err(Refusal::Count { record_count: 0, last_offset_delta });
        }
        Some(Err(fault)) => return Err(Refusal::Corrupt(fault)),
        Some(Ok(first)) => first,
    };
    match batches.next() {
        None => Ok(first),
        Some(Ok(_)) => Err(Refusal::ManyBatches),
        Some(Err(fault)) => Err(Refusal::Corrupt(fault)),
    }
}

fn check_header(header: &BatchHeader, rules: &ProduceRules) -> Result<Compression, Refusal> {
    let codec = header.compression().map_err(|fault| match fault {
        BatchFault::Codec(codec) => Refusal::UnknownCodec(codec),
        other => Refusal::Corrupt(other),
    })?;
    if codec == Compression::Zstd && !rules.zstd_allowed {
        return Err(Refusal::ZstdTooEarly);
    }
    if header.base_offset != 0 {
        return Err(Refusal::BaseOffset(header.base_offset));
    }
    if header.total_bytes > rules.bytes_max {
        return Err(Refusal::TooLarge { bytes: header.total_bytes, bytes_max: rules.bytes_max });
    }
    Ok(codec)
}

fn check_batch(header: &BatchHeader) -> Result<(), Refusal> {
    let BatchHeader { record_count, last_offset_delta, .. } = *header;
    if record_count <= 0 || record_count - 1 != last_offset_delta {
        return Err(Refusal::Count { record_count, last_offset_delta });
    }
    if header.is_control() {
        return Err(Refusal::Control);
    }
    if header.is_transactional() {
        return Err(Refusal::Transactional);
    }
    if header.has_producer() && header.base_sequence < 0 {
        return Err(Refusal::Sequence(header.base_sequence));
    }
    if header.has_producer() && header.producer_epoch < 0 {
        return Err(Refusal::ProducerEpoch(header.producer_epoch));
    }
    if header.is_append_time() {
        return Err(Refusal::AppendTime);
    }
    Ok(())
}

/// Gives the greatest timestamp.
fn check_records(
    header: &BatchHeader,
    codec: Compression,
    payload: &[u8],
    rules: &ProduceRules,
    wall_ms: i64,
) -> Result<i64, Refusal> {
    let mut check = RecordCheck::new(header, rules, wall_ms);
    let scanned = scan(codec, payload, DECOMPRESSED_BYTES_MAX, |glance| match check.record(glance) {
        Ok(()) => ControlFlow::Continue(()),
        Err(refusal) => ControlFlow::Break(refusal),
    });
    match scanned {
        Ok(Some(refusal)) => Err(refusal),
        Ok(None) if check.index < header.record_count => Err(Refusal::RecordsMissing { found: check.index }),
        Ok(None) => Ok(check.max_timestamp),
        Err(RecordFault::Compression(CompressionFault::TooLarge { bytes_max })) => {
            Err(Refusal::InflatesTooLarge { bytes_max })
        }
        Err(_) if check.index == header.record_count => Err(Refusal::RecordsRemaining),
        Err(fault) => Err(Refusal::Record { index: check.index, fault }),
    }
}

struct RecordCheck<'a> {
    header: &'a BatchHeader,
    rules: &'a ProduceRules,
    /// Timestamps within are accepted.
    from: i64,
    to: i64,
    /// Of the next record.
    index: i32,
    max_timestamp: i64,
}

impl<'a> RecordCheck<'a> {
    fn new(header: &'a BatchHeader, rules: &'a ProduceRules, wall_ms: i64) -> Self {
        RecordCheck {
            header,
            rules,
            from: wall_ms.saturating_sub(rules.timestamp_before_ms_max),
            to: wall_ms.saturating_add(rules.timestamp_after_ms_max),
            index: 0,
            max_timestamp: NO_TIMESTAMP,
        }
    }

    fn record(&mut self, glance: Glance) -> Result<(), Refusal> {
        let index = self.index;
        if index == self.header.record_count {
            return Err(Refusal::RecordsRemaining);
        }
        if glance.offset_delta != index {
            return Err(Refusal::OffsetDelta { index, offset_delta: glance.offset_delta });
        }
        self.index += 1;
        if self.rules.keys_required && !glance.has_key {
            return Err(Refusal::NullKey { index });
        }
        let timestamp = self
            .header
            .base_timestamp
            .checked_add(glance.timestamp_delta)
            .ok_or(Refusal::TimestampOverflow { index })?;
        let bounded = !self.rules.append_time && timestamp != NO_TIMESTAMP;
        if bounded && !(self.from..=self.to).contains(&timestamp) {
            return Err(Refusal::Timestamp { index, timestamp, from: self.from, to: self.to });
        }
        self.max_timestamp = self.max_timestamp.max(timestamp);
        Ok(())
    }
}

/// What a client sends that stamps no time.
const NO_TIMESTAMP: i64 = -1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::batch::{HEADER_BYTES, chain_is_valid, set_append_time, stamp};
    use crate::records::build::{BatchBuilder, refresh_crc};
    use crate::records::compression::compress;
    use std::io::Write;

    const WALL_MS: i64 = 1_700_000_000_000;
    const CORRUPT_MESSAGE: i16 = 2;
    const MESSAGE_TOO_LARGE: i16 = 10;
    const INVALID_TIMESTAMP: i16 = 32;
    const UNSUPPORTED_COMPRESSION_TYPE: i16 = 76;
    const INVALID_RECORD: i16 = 87;

    fn rules() -> ProduceRules {
        ProduceRules {
            bytes_max: 1_048_588,
            append_time: false,
            timestamp_before_ms_max: i64::MAX,
            timestamp_after_ms_max: 3_600_000,
            keys_required: false,
            zstd_allowed: true,
        }
    }

    fn validate(bytes: Vec<u8>, rules: &ProduceRules) -> Result<BatchHeader, Refusal> {
        validate_produce(&Bytes::from(bytes), rules, WALL_MS)
    }

    #[track_caller]
    fn check_refused(bytes: Vec<u8>, rules: &ProduceRules, code: i16) -> Refusal {
        let refusal = validate(bytes, rules).expect_err("refused");
        assert_eq!(refusal.code(), code, "{refusal}");
        refusal
    }

    fn three() -> BatchBuilder {
        BatchBuilder::new()
            .record(Some(b"k"), Some(b"v"))
            .header("h", None)
            .header("h", Some(b""))
            .record(Some(b""), None)
            .record(None, Some(&[7; 70_000]))
    }

    #[test]
    fn good_batches_of_every_codec_pass_and_become_chains() {
        for codec in Compression::ALL {
            let mut batch = three().compression(codec).producer(5, 0, 9).build();
            let header = validate(batch.clone(), &rules()).expect("accepted");
            assert_eq!((header.record_count, header.max_timestamp, header.last_sequence()), (3, WALL_MS, 11));
            stamp(&mut batch, 40, 0);
            set_append_time(&mut batch, 77);
            let summary = chain_is_valid(&batch).expect("a chain");
            assert_eq!((summary.base_offset, summary.next_offset, summary.max_timestamp), (40, 43, 77));
        }
    }

    /// What lz4js makes, and the lz4 crate unless told otherwise: Apache Kafka refuses it, and Java consumers stop at it.
    #[test]
    fn lz4_frames_of_linked_blocks_are_refused() {
        let plain = three().build();
        let mut encoder =
            lz4::EncoderBuilder::new().block_mode(lz4::BlockMode::Linked).build(Vec::new()).expect("an encoder");
        encoder.write_all(payload(&plain)).expect("written");
        let mut batch = [&plain[..HEADER_BYTES], &encoder.finish().0].concat();
        let length = i32::try_from(batch.len() - 12).expect("small");
        batch[8..12].copy_from_slice(&length.to_be_bytes());
        batch[22] |= 3;
        refresh_crc(&mut batch);
        assert_eq!(check_refused(batch.clone(), &rules(), INVALID_RECORD), Refusal::LinkedLz4Blocks);
        let lz4_alone = three().compression(Compression::Lz4).build();
        batch.splice(HEADER_BYTES.., lz4_alone[HEADER_BYTES..].iter().copied());
        batch[8..12].copy_from_slice(&lz4_alone[8..12]);
        refresh_crc(&mut batch);
        validate(batch, &rules()).expect("the same records in independent blocks");
    }

    #[test]
    fn what_is_not_one_batch_is_refused() {
        let batch = three().build();
        check_refused(Vec::new(), &rules(), INVALID_RECORD);
        check_refused([batch.clone(), batch.clone()].concat(), &rules(), INVALID_RECORD);
        check_refused([batch.clone(), vec![0; 5]].concat(), &rules(), CORRUPT_MESSAGE);
        for length in 0..batch.len() {
            check_refused(batch[..length].to_vec(), &rules(), INVALID_RECORD);
        }
    }

    /// Every byte of the header and of the records counts: whichever is flipped, the batch is refused or, where the CRC
    /// does not cover it, only the leader epoch changed.
    #[test]
    fn no_flipped_byte_passes() {
        for codec in Compression::ALL {
            let batch = BatchBuilder::new().compression(codec).record(Some(b"key"), Some(&[1; 90])).build();
            for at in 0..batch.len() {
                let mut flipped = batch.clone();
                flipped[at] ^= 0xff;
                let outcome = validate(flipped, &rules());
                assert_eq!(outcome.is_ok(), (12..16).contains(&at), "byte {at}: {outcome:?}");
            }
        }
    }

    /// With a CRC that fits, what stands inside is believed by no one either: no panic, and never more than the claim.
    #[test]
    fn no_flipped_byte_under_a_right_crc_panics() {
        for codec in Compression::ALL {
            let batch = three().compression(codec).build();
            for at in (21..batch.len()).take(3_000) {
                for mask in [0xff, 0x80, 0x01] {
                    let mut flipped = batch.clone();
                    flipped[at] ^= mask;
                    refresh_crc(&mut flipped);
                    if let Ok(header) = validate(flipped, &rules()) {
                        assert_eq!(header.record_count, 3);
                    }
                }
            }
        }
    }

    #[test]
    fn fields_that_clients_may_not_set_are_refused() {
        check_refused(three().base_offset(7).build(), &rules(), INVALID_RECORD);
        check_refused(three().attributes(8).build(), &rules(), INVALID_TIMESTAMP);
        check_refused(three().attributes(16).build(), &rules(), INVALID_RECORD);
        check_refused(three().attributes(32).build(), &rules(), INVALID_RECORD);
        check_refused(three().attributes(6).build(), &rules(), UNSUPPORTED_COMPRESSION_TYPE);
        check_refused(three().producer(4, 0, -1).build(), &rules(), INVALID_RECORD);
        check_refused(three().producer(4, -1, 0).build(), &rules(), INVALID_RECORD);
        check_refused(BatchBuilder::new().build(), &rules(), INVALID_RECORD);
        let mut old = three().build();
        old[16] = 1;
        check_refused(old.clone(), &rules(), INVALID_RECORD);
        old[16] = 3;
        check_refused(old, &rules(), CORRUPT_MESSAGE);
    }

    #[test]
    fn the_rules_of_the_topic_hold() {
        let small = ProduceRules { bytes_max: 200, ..rules() };
        check_refused(three().build(), &small, MESSAGE_TOO_LARGE);
        let size = BatchBuilder::new().value([0; 100]).build().len();
        let exact = ProduceRules { bytes_max: size, ..rules() };
        assert!(validate(BatchBuilder::new().value([0; 100]).build(), &exact).is_ok());

        let keyed = ProduceRules { keys_required: true, ..rules() };
        let refusal = check_refused(three().build(), &keyed, INVALID_RECORD);
        assert_eq!(refusal.record_index(), Some(2), "an empty key is a key");

        let early = ProduceRules { zstd_allowed: false, ..rules() };
        check_refused(three().compression(Compression::Zstd).build(), &early, UNSUPPORTED_COMPRESSION_TYPE);
    }

    /// librdkafka's 0011: the producer tells these records apart from those that only shared their batch.
    #[test]
    fn all_records_without_a_key_are_named() {
        let mut batch = BatchBuilder::new();
        for n in 0..9 {
            batch = batch.record((n % 4 != 0).then_some(b"k"), Some(b"v"));
        }
        let bytes = Bytes::from(batch.build());
        let compacted = ProduceRules { keys_required: true, ..rules() };
        assert_eq!(validate_produce(&bytes, &compacted, WALL_MS), Err(Refusal::NullKey { index: 0 }));
        let named = faulty_records(&bytes, &compacted, WALL_MS, 3);
        assert_eq!(named, [0, 4, 8].map(|index| Refusal::NullKey { index }));
        assert_eq!(faulty_records(&bytes, &compacted, WALL_MS, 2).len(), 2);
    }

    #[test]
    fn timestamps_are_bounded_unless_the_broker_stamps_them() {
        let bounded = ProduceRules { timestamp_before_ms_max: 1000, timestamp_after_ms_max: 500, ..rules() };
        let at = |timestamp| BatchBuilder::new().value("a").timestamp(timestamp).value("b").build();
        for inside in [WALL_MS - 1000, WALL_MS + 500, -1] {
            assert!(validate(at(inside), &bounded).is_ok(), "{inside}");
        }
        for outside in [WALL_MS - 1001, WALL_MS + 501, 0, i64::MAX] {
            let refusal = check_refused(at(outside), &bounded, INVALID_TIMESTAMP);
            assert_eq!(refusal.record_index(), Some(1));
            assert!(validate(at(outside), &ProduceRules { append_time: true, ..bounded }).is_ok());
        }
    }

    #[test]
    fn a_misstated_max_timestamp_is_told() {
        let mut batch = BatchBuilder::new().timestamp(5).value("a").timestamp(3).value("b").build();
        batch[42] = 3;
        refresh_crc(&mut batch);
        assert_eq!(validate(batch, &rules()).expect("accepted").max_timestamp, 5);
    }

    #[test]
    fn counts_and_deltas_must_agree_with_the_records() {
        let with_counts = |last_offset_delta: i32, count: i32| {
            let mut batch = three().build();
            batch[23..27].copy_from_slice(&last_offset_delta.to_be_bytes());
            batch[57..61].copy_from_slice(&count.to_be_bytes());
            refresh_crc(&mut batch);
            batch
        };
        assert!(validate(with_counts(2, 3), &rules()).is_ok());
        for (last_offset_delta, count) in [(1, 2), (3, 4), (2, 4), (-1, 0), (0, 0), (-2, -1), (i32::MAX, i32::MIN)] {
            check_refused(with_counts(last_offset_delta, count), &rules(), INVALID_RECORD);
        }
    }

    /// Kilobytes that inflate beyond every bound, inside a record that claims to hold it all.
    #[test]
    fn a_bomb_is_too_large() {
        let claim = b"\xfe\xff\xff\xff\x0f\0\0\0\x01\xf0\xff\xff\xff\x0f";
        let zeros = vec![0; 1 << 20];
        let mut bomb = compress(Compression::Zstd, claim).expect("compressed");
        bomb.extend(compress(Compression::Zstd, &zeros).expect("compressed").repeat(DECOMPRESSED_BYTES_MAX >> 20));
        let mut batch = BatchBuilder::new().compression(Compression::Zstd).value("").build();
        batch.truncate(HEADER_BYTES);
        batch.extend(&bomb);
        let length = i32::try_from(batch.len() - 12).expect("small");
        batch[8..12].copy_from_slice(&length.to_be_bytes());
        refresh_crc(&mut batch);
        check_refused(batch, &rules(), MESSAGE_TOO_LARGE);
    }
}
