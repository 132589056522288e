//! Batches of real clients are taken, read and found in.

use super::batch::{BatchHeader, chain_is_valid};
use super::compression::Compression;
use super::lookup::{OffsetAndTimestamp, first_at_or_after, max_timestamp};
use super::record::{Record, inflated, records};
use super::validate::{ProduceRules, validate_produce};
use bytes::Bytes;

const FIRST_MS: i64 = 1_700_000_000_123;

macro_rules! golden {
    ($($name:literal $codec:ident $producer:literal)*) => {
        &[$(($name, Compression::$codec, $producer, include_bytes!(concat!("golden/", $name, ".batch")))),*]
    };
}

/// Name, codec, whether the producer is idempotent, bytes.
const GOLDEN: &[(&str, Compression, bool, &[u8])] = golden! {
    "java-none" None true
    "java-gzip" Gzip true
    "java-snappy" Snappy true
    "java-lz4" Lz4 true
    "java-zstd" Zstd true
    "rdkafka-none" None false
    "rdkafka-none-idempotent" None true
    "rdkafka-gzip" Gzip false
    "rdkafka-snappy" Snappy false
    "rdkafka-lz4" Lz4 false
    "rdkafka-zstd" Zstd false
    "franz-go-none" None true
    "franz-go-gzip" Gzip true
    "franz-go-snappy" Snappy true
    "franz-go-lz4" Lz4 true
    "franz-go-zstd" Zstd true
    "kafka-python-none" None false
    "kafka-python-gzip" Gzip false
    "kafka-python-snappy" Snappy false
    "kafka-python-lz4" Lz4 false
    "kafka-python-zstd" Zstd false
};

fn rules() -> ProduceRules {
    ProduceRules {
        bytes_max: 1_000,
        append_time: false,
        timestamp_before_ms_max: 1_000,
        timestamp_after_ms_max: 1_000,
        keys_required: false,
        zstd_allowed: true,
    }
}

#[test]
fn they_pass_as_they_are() {
    for (name, codec, has_producer, bytes) in GOLDEN {
        let header = validate_produce(&Bytes::from_static(bytes), &rules(), FIRST_MS).expect(name);
        assert_eq!(header, BatchHeader::parse(bytes).expect(name), "{name}: the max timestamp is right");
        assert_eq!((header.compression(), header.has_producer()), (Ok(*codec), *has_producer), "{name}");
        assert_eq!(chain_is_valid(bytes).map(|chain| chain.next_offset), Some(3), "{name}");
    }
}

type Bytestring<'a> = Option<&'a [u8]>;

#[test]
fn their_records_read_as_they_were_sent() {
    type Headers<'a> = Vec<(&'a [u8], Bytestring<'a>)>;
    let value = "the quick brown fox jumps over the lazy dog, ".repeat(8);
    for (name, _, _, bytes) in GOLDEN {
        let plain = inflated(bytes, 1_000).expect(name);
        let read: Vec<Record> = records(&plain).collect::<Result<_, _>>().expect(name);
        let seen: Vec<_> = read.iter().map(|r| (r.key, r.value, r.timestamp_delta)).collect();
        let sent: [(Bytestring, Bytestring, i64); 3] =
            [(Some(b"k0"), Some(value.as_bytes()), 0), (None, Some(b""), -5), (Some(b""), None, 9)];
        assert_eq!(seen, sent, "{name}");
        let headers: Vec<Headers> = read.iter().map(|r| r.headers.clone().collect()).collect();
        let sent: [Headers; 3] = [vec![(b"h", Some(b"1")), (b"h", None), (b"e", Some(b""))], vec![], vec![]];
        assert_eq!(headers, sent, "{name}");
    }
}

#[test]
fn their_records_are_found_by_time() {
    for (name, _, _, bytes) in GOLDEN {
        let found = |offset, timestamp| Ok(Some(OffsetAndTimestamp { offset, timestamp }));
        assert_eq!(first_at_or_after(bytes, FIRST_MS, 0), found(0, FIRST_MS), "{name}");
        assert_eq!(first_at_or_after(bytes, FIRST_MS + 1, 0), found(2, FIRST_MS + 9), "{name}");
        assert_eq!(max_timestamp(bytes, 0), found(2, FIRST_MS + 9), "{name}");
    }
}
