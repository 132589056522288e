//! What librdkafka sends is what librdkafka gets, byte for byte.

use crate::harness::librdkafka::{self, Got, numbered, producer, texts};
use crate::harness::{Gateway, Nats, Version, unique};
use crate::on_each_server;
use kafka_protocol::records::{Compression, RecordBatchDecoder};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;
use rdkafka::topic_partition_list::Offset;

on_each_server! {
    fn every_codec_comes_back_as_it_was_sent(version) {
        let nats = Nats::start(version);
        let gateway = Gateway::start(&nats, &[]);
        let codecs = [
            ("none", Compression::None),
            ("gzip", Compression::Gzip),
            ("snappy", Compression::Snappy),
            ("lz4", Compression::Lz4),
            ("zstd", Compression::Zstd),
        ];
        for (codec, expected) in codecs {
            let topic = format!("codec-{codec}");
            let values: Vec<String> = (0..1000).map(|n| format!("{codec} {n} {}", "again ".repeat(n % 40))).collect();
            librdkafka::produce(&gateway.bootstrap(), &topic, &[("compression.codec", codec)], &values);
            let got = librdkafka::consume(&gateway.bootstrap(), &topic, values.len());
            assert_eq!(texts(&got), values);
            assert!(got.iter().zip(0..).all(|(got, offset)| got.offset == offset), "the offsets of {topic}");
            let mut chain = gateway.wire().fetch(&topic, 0, 0).records.expect("records");
            let batches = RecordBatchDecoder::decode_batch_info(&mut chain).expect("whole batches");
            assert!(batches.iter().all(|batch| batch.compression == expected), "{topic} is stored as it was sent");
        }
    }

    fn compressed_records_come_back_after_a_restart(version) {
        let nats = Nats::start(version);
        let mut gateway = Gateway::start(&nats, &[]);
        let values = numbered(2000);
        librdkafka::produce(&gateway.bootstrap(), "kept", &[("compression.codec", "lz4")], &values);
        gateway.kill();
        gateway.restart();
        assert_eq!(texts(&librdkafka::consume(&gateway.bootstrap(), "kept", values.len())), values);
    }
}

#[test]
fn keys_values_and_headers_keep_null_apart_from_empty() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    type Bytes = Option<&'static [u8]>;
    let sent: [(Bytes, Bytes); 4] =
        [(None, None), (Some(b""), Some(b"")), (Some(b"key"), None), (None, Some(b"\x00\xff"))];
    let producer = producer(&gateway.bootstrap(), &[]);
    for (key, value) in sent {
        let headers = OwnedHeaders::new()
            .insert(Header { key: "twice", value: Some("1") })
            .insert(Header { key: "null", value: None::<&str> })
            .insert(Header { key: "empty", value: Some("") })
            .insert(Header { key: "twice", value: Some("2") });
        let mut record = BaseRecord::to("nulls").partition(0).headers(headers);
        record.key = key;
        record.payload = value;
        producer.send(record);
    }
    producer.finish();
    let bytes = |text: &str| Some(text.as_bytes().to_vec());
    let header = |name: &str, value| (name.to_owned(), value);
    let headers = vec![
        header("twice", bytes("1")),
        header("null", None),
        header("empty", bytes("")),
        header("twice", bytes("2")),
    ];
    let expected: Vec<Got> = (0..)
        .zip(sent)
        .map(|(offset, (key, value))| Got {
            partition: 0,
            offset,
            key: key.map(<[u8]>::to_vec),
            value: value.map(<[u8]>::to_vec),
            headers: headers.clone(),
        })
        .collect();
    assert_eq!(librdkafka::consume(&gateway.bootstrap(), "nulls", 4), expected);
}

#[test]
fn incompressible_records_over_one_mebibyte_come_back_whole() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    assert_eq!(wire.create_topic_with("large", 1, &[("max.message.bytes", "5000000")]), 0);
    let large = |seed: u64| -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..3_000_000).map(|_| next()).collect()
    };
    for codec in ["none", "zstd"] {
        let producer =
            producer(&gateway.bootstrap(), &[("message.max.bytes", "5000000"), ("compression.codec", codec)]);
        for seed in 0..3 {
            producer.send_value("large", 0, &large(seed));
        }
        producer.finish();
    }
    let got = librdkafka::consume(&gateway.bootstrap(), "large", 6);
    for (got, seed) in got.iter().zip([0, 1, 2, 0, 1, 2]) {
        assert!(got.value.as_deref() == Some(&large(seed)[..]), "the record at {} came back changed", got.offset);
    }
}

#[test]
fn keyed_records_keep_their_order_within_each_of_many_partitions() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    gateway.wire().create_topic("spread", 6);
    let producer = producer(&gateway.bootstrap(), &[("enable.idempotence", "true")]);
    for n in 0..3000 {
        let (key, value) = (format!("key-{}", n % 50), format!("{n}"));
        producer.send(BaseRecord::to("spread").key(key.as_bytes()).payload(value.as_bytes()));
    }
    producer.finish();
    let mut seen = Vec::new();
    for partition in 0..6 {
        let end = usize::try_from(gateway.wire().list_offset("spread", partition, -1)).expect("an offset");
        let consumer = librdkafka::assigned(&gateway.bootstrap(), "spread", partition, Offset::Beginning);
        let got = librdkafka::take(&consumer, end);
        let numbers: Vec<u32> = got.iter().map(|got| got.text().parse().expect("a number")).collect();
        assert!(numbers.is_sorted(), "partition {partition} is out of order");
        seen.extend(numbers);
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..3000).collect::<Vec<u32>>());
}

#[test]
fn a_topic_made_by_its_first_record_is_usable_at_once() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    for _ in 0..10 {
        let topic = unique("new");
        // No retries: the first attempt after Metadata must already succeed.
        librdkafka::produce(&gateway.bootstrap(), &topic, &[("retries", "0")], &numbered(3));
    }
    let seen = gateway.wire().topic("new-0");
    assert_eq!((seen.error_code, seen.partitions.len()), (0, 1));
}

#[test]
fn names_that_look_alike_are_separate_logs() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let names = ["a.b", "a_b", "a-b", "A.B", "a-0", "a"];
    let mut wire = gateway.wire();
    for name in names {
        assert_eq!(wire.try_create_topic(name, 1), 0, "{name}");
        librdkafka::produce(&gateway.bootstrap(), name, &[], &[name.to_owned()]);
    }
    for name in names {
        assert_eq!(wire.read_all(name, 0, 0), [(0, name.to_owned())]);
    }
    let names_after_restart = {
        let gateway = Gateway::start(&nats, &[]);
        names.map(|name| gateway.wire().topic(name).error_code)
    };
    assert_eq!(names_after_restart, [0; 6]);
}
