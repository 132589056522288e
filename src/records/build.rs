//! Builds record batches as a producer does; for tests and examples.

use super::batch::{CRC_AT, HEADER_BYTES};
use super::compression::{Compression, compress};

/// Collects records and header fields, then writes one batch.
///
/// ```
/// use hanzo_kafka::records::{BatchBuilder, BatchHeader, Compression};
///
/// let batch = BatchBuilder::new()
///     .compression(Compression::Lz4)
///     .timestamp(1_700_000_000_000)
///     .record(Some(b"key"), Some(b"value"))
///     .header("trace", Some(b"1"))
///     .value("no key")
///     .build();
/// assert_eq!(BatchHeader::parse(&batch).unwrap().record_count, 2);
/// ```
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    base_offset: i64,
    leader_epoch: i32,
    attributes: i16,
    codec: Compression,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    /// Of the records added from here on.
    timestamp: i64,
    records: Vec<NewRecord>,
}

#[derive(Clone, Debug)]
struct NewRecord {
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(String, Option<Vec<u8>>)>,
}

impl Default for BatchBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl BatchBuilder {
    /// No producer id, base offset 0, leader epoch -1, not compressed, timestamps 1,700,000,000,000.
    pub fn new() -> Self {
        BatchBuilder {
            base_offset: 0,
            leader_epoch: -1,
            attributes: 0,
            codec: Compression::None,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            timestamp: 1_700_000_000_000,
            records: Vec::new(),
        }
    }

    pub fn base_offset(mut self, offset: i64) -> Self {
        self.base_offset = offset;
        self
    }

    pub fn leader_epoch(mut self, epoch: i32) -> Self {
        self.leader_epoch = epoch;
        self
    }

    pub fn compression(mut self, codec: Compression) -> Self {
        self.codec = codec;
        self
    }

    /// An idempotent producer's fields.
    pub fn producer(mut self, id: i64, epoch: i16, base_sequence: i32) -> Self {
        self.producer_id = id;
        self.producer_epoch = epoch;
        self.base_sequence = base_sequence;
        self
    }

    /// Sets attribute bits besides the codec: 8 append time, 16 transactional, 32 control.
    pub fn attributes(mut self, bits: i16) -> Self {
        self.attributes |= bits;
        self
    }

    /// The timestamp, in milliseconds, of the records added from here on.
    pub fn timestamp(mut self, wall_ms: i64) -> Self {
        self.timestamp = wall_ms;
        self
    }

    pub fn record(mut self, key: Option<&[u8]>, value: Option<&[u8]>) -> Self {
        self.records.push(NewRecord {
            timestamp: self.timestamp,
            key: key.map(<[u8]>::to_vec),
            value: value.map(<[u8]>::to_vec),
            headers: Vec::new(),
        });
        self
    }

    /// A record without a key.
    pub fn value(self, value: impl AsRef<[u8]>) -> Self {
        self.record(None, Some(value.as_ref()))
    }

    /// Adds a header to the record added last.
    pub fn header(mut self, name: &str, value: Option<&[u8]>) -> Self {
        let record = self.records.last_mut().expect("a header follows its record");
        record.headers.push((name.to_owned(), value.map(<[u8]>::to_vec)));
        self
    }

    /// The batch's bytes. Without records it is a batch that clients may not send: count 0, last offset delta 0.
    pub fn build(&self) -> Vec<u8> {
        let base_timestamp = self.records.first().map_or(-1, |r| r.timestamp);
        let max_timestamp = self.records.iter().map(|r| r.timestamp).max().unwrap_or(-1);
        let mut plain = Vec::new();
        for (delta, record) in (0..).zip(&self.records) {
            write_record(&mut plain, delta, base_timestamp, record);
        }
        let payload = compress(self.codec, &plain).expect("deflating into memory");
        let count = i32::try_from(self.records.len()).expect("a batch's records are counted by an i32");
        let length = i32::try_from(HEADER_BYTES - 12 + payload.len()).expect("a batch is smaller than 2 GiB");
        let mut out = Vec::with_capacity(HEADER_BYTES + payload.len());
        out.extend(self.base_offset.to_be_bytes());
        out.extend(length.to_be_bytes());
        out.extend(self.leader_epoch.to_be_bytes());
        out.push(2);
        out.extend([0; 4]);
        out.extend((self.attributes | self.codec.id()).to_be_bytes());
        out.extend((count - 1).max(0).to_be_bytes());
        out.extend(base_timestamp.to_be_bytes());
        out.extend(max_timestamp.to_be_bytes());
        out.extend(self.producer_id.to_be_bytes());
        out.extend(self.producer_epoch.to_be_bytes());
        out.extend(self.base_sequence.to_be_bytes());
        out.extend(count.to_be_bytes());
        out.extend(payload);
        refresh_crc(&mut out);
        out
    }
}

/// Writes the CRC-32C that fits a batch's bytes.
pub fn refresh_crc(batch: &mut [u8]) {
    let (head, covered) = batch.split_at_mut_checked(CRC_AT + 4).expect("a batch has a header");
    let place = head.get_mut(CRC_AT..).expect("the CRC stands before what it covers");
    place.copy_from_slice(&crc32c::crc32c(covered).to_be_bytes());
}

fn write_record(out: &mut Vec<u8>, offset_delta: i64, base_timestamp: i64, record: &NewRecord) {
    let mut body = vec![0];
    write_varint(&mut body, record.timestamp.wrapping_sub(base_timestamp));
    write_varint(&mut body, offset_delta);
    write_bytes(&mut body, record.key.as_deref());
    write_bytes(&mut body, record.value.as_deref());
    write_varint(&mut body, length(record.headers.len()));
    for (name, value) in &record.headers {
        write_bytes(&mut body, Some(name.as_bytes()));
        write_bytes(&mut body, value.as_deref());
    }
    write_varint(out, length(body.len()));
    out.extend(body);
}

fn write_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    write_varint(out, bytes.map_or(-1, |b| length(b.len())));
    out.extend(bytes.unwrap_or_default());
}

fn length(count: usize) -> i64 {
    i64::try_from(count).expect("a length in memory fits in 63 bits")
}

/// Zigzag, as both varint and varlong are written.
fn write_varint(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        let [low, ..] = rest.to_le_bytes();
        out.push(low | 0x80);
        rest >>= 7;
    }
    let [last, ..] = rest.to_le_bytes();
    out.push(last);
}
