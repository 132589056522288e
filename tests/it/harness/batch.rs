//! Record batches (magic 2) written by hand, so that tests can also make bad ones.

use bytes::Bytes;
use kafka_protocol::records::{Record, RecordBatchDecoder};

/// A batch with one record for each value; timestamps count up from `timestamp`.
#[derive(Clone, Debug)]
pub struct Batch {
    pub attributes: i16,
    pub timestamp: i64,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub values: Vec<Vec<u8>>,
}

impl Batch {
    pub fn of<V: AsRef<[u8]>>(values: impl IntoIterator<Item = V>) -> Batch {
        Batch {
            attributes: 0,
            timestamp: 1_700_000_000_000,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            values: values.into_iter().map(|value| value.as_ref().to_vec()).collect(),
        }
    }

    pub fn idempotent(mut self, producer_id: i64, producer_epoch: i16, base_sequence: i32) -> Batch {
        (self.producer_id, self.producer_epoch, self.base_sequence) = (producer_id, producer_epoch, base_sequence);
        self
    }

    pub fn encode(&self) -> Bytes {
        let count = i32::try_from(self.values.len()).expect("few records");
        let last = i64::from(count) - 1;
        let mut summed = Vec::new();
        summed.extend(self.attributes.to_be_bytes());
        summed.extend((count - 1).to_be_bytes());
        summed.extend(self.timestamp.to_be_bytes());
        summed.extend((self.timestamp + last).to_be_bytes());
        summed.extend(self.producer_id.to_be_bytes());
        summed.extend(self.producer_epoch.to_be_bytes());
        summed.extend(self.base_sequence.to_be_bytes());
        summed.extend(count.to_be_bytes());
        for (delta, value) in (0_i64..).zip(&self.values) {
            let mut record = vec![0];
            varint(&mut record, delta);
            varint(&mut record, delta);
            varint(&mut record, -1);
            varint(&mut record, i64::try_from(value.len()).expect("a small value"));
            record.extend(value);
            varint(&mut record, 0);
            varint(&mut summed, i64::try_from(record.len()).expect("a small record"));
            summed.extend(record);
        }
        let mut batch = 0_i64.to_be_bytes().to_vec();
        batch.extend(i32::try_from(summed.len() + 9).expect("a small batch").to_be_bytes());
        batch.extend(0_i32.to_be_bytes());
        batch.push(2);
        batch.extend(crc32c::crc32c(&summed).to_be_bytes());
        batch.extend(summed);
        batch.into()
    }
}

/// Zigzag, as in records.
fn varint(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// All records of a chain of uncompressed batches.
#[track_caller]
pub fn records(chain: &Bytes) -> Vec<Record> {
    let sets = RecordBatchDecoder::decode_all(&mut chain.clone()).expect("a chain of whole, valid batches");
    sets.into_iter().flat_map(|set| set.records).collect()
}

/// Offsets and values of a chain of uncompressed batches.
#[track_caller]
pub fn offsets_and_values(chain: &Bytes) -> Vec<(i64, String)> {
    let text = |value: Option<Bytes>| String::from_utf8_lossy(&value.unwrap_or_default()).into_owned();
    records(chain).into_iter().map(|record| (record.offset, text(record.value))).collect()
}
