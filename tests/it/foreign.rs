//! Streams that others have written to, deleted from or renumbered: readers and writers go on.

use crate::harness::batch::{Batch, offsets_and_values};
use crate::harness::jetstream::Delivery;
use crate::harness::librdkafka::{self, texts};
use crate::harness::wire::{EARLIEST, LATEST, RETRIABLE};
use crate::harness::{Gateway, JetStream, Nats, SOON, Wire, eventually};
use crate::on_each_server;
use bytes::Bytes;
use std::time::Duration;

const TOPIC: &str = "shared";
const STREAM: &str = "kafka-shared-0";
const SUBJECT: &str = "kafka.shared.0";
const QUINTILLION: u64 = 1_000_000_000_000_000_000;

/// One payload of each kind that is not a chain of batches.
fn poison() -> Vec<Bytes> {
    let good = Batch::of(["never stored as a batch"]).encode();
    let changed = |at: usize, byte: u8| {
        let mut bad = good.to_vec();
        bad[at] ^= byte;
        Bytes::from(bad)
    };
    let with = |at: usize, bytes: &[u8]| {
        let mut bad = good.to_vec();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        Bytes::from(bad)
    };
    vec![
        Bytes::new(),
        Bytes::from_static(b"hello"),
        Bytes::from_static(b"{\"json\": true, \"and\": \"longer than the header of a batch, which has 61 bytes\"}"),
        Bytes::from(vec![0; 61]),
        Bytes::from(vec![0xff; 100_000]),
        good.slice(..30),
        good.slice(..good.len() - 1),
        [&good[..], b"trailing"].concat().into(),
        changed(good.len() - 1, 1),
        changed(17, 1),
        with(8, &(-1_i32).to_be_bytes()),
        with(8, &i32::MAX.to_be_bytes()),
        with(8, &0_i32.to_be_bytes()),
        with(16, &[1]),
        with(16, &[0]),
        with(16, &[3]),
    ]
}

fn publish_poison(jetstream: &mut JetStream) {
    for payload in poison() {
        jetstream.store(SUBJECT, "", &payload);
    }
    jetstream.store(SUBJECT, "Some: header\r\n", b"with a header");
}

fn expected(values: &[&str]) -> Vec<(i64, String)> {
    (0..).zip(values).map(|(offset, value)| (offset, (*value).to_owned())).collect()
}

#[track_caller]
fn expect_log(wire: &mut Wire, values: &[&str]) {
    let end = i64::try_from(values.len()).expect("few");
    assert_eq!(wire.list_offset(TOPIC, 0, LATEST), end, "the end of the log");
    assert_eq!(wire.list_offset(TOPIC, 0, EARLIEST), 0, "the start of the log");
    assert_eq!(wire.read_all(TOPIC, 0, 0), expected(values));
    // Each offset by itself: the search must not stumble over what lies between.
    for (offset, value) in expected(values) {
        let chain = wire.fetch(TOPIC, 0, offset).records.unwrap_or_default();
        let found = offsets_and_values(&chain).into_iter().find(|(at, _)| *at == offset);
        assert_eq!(found, Some((offset, value)));
    }
}

/// Produces as clients do, trying again after a retriable error: what must be read through first takes its time.
#[track_caller]
fn patiently(wire: &mut Wire, batch: &Batch) -> i64 {
    eventually("the record is taken", Duration::from_secs(60), || match wire.produce(TOPIC, 0, batch) {
        (0, base_offset) => Some(base_offset),
        (error, _) => {
            assert!(RETRIABLE.contains(&error), "error {error} would stop a client");
            None
        }
    })
}

on_each_server! {
    fn poison_before_between_and_after_is_stepped_over(version) {
        let nats = Nats::start(version);
        let mut gateway = Gateway::start(&nats, &[]);
        let mut jetstream = nats.jetstream();
        let mut wire = gateway.wire();
        wire.create_topic(TOPIC, 1);
        publish_poison(&mut jetstream);
        assert_eq!(wire.produce_ok(TOPIC, 0, &Batch::of(["a", "b"])), 0);
        publish_poison(&mut jetstream);
        assert_eq!(wire.produce_ok(TOPIC, 0, &Batch::of(["c"])), 2);
        publish_poison(&mut jetstream);
        expect_log(&mut wire, &["a", "b", "c"]);

        gateway.kill();
        gateway.restart();
        let mut wire = gateway.wire();
        expect_log(&mut wire, &["a", "b", "c"]);
        assert_eq!(wire.produce_ok(TOPIC, 0, &Batch::of(["d"])), 3);
        publish_poison(&mut jetstream);
        expect_log(&mut wire, &["a", "b", "c", "d"]);
        let got = librdkafka::consume(&gateway.bootstrap(), TOPIC, 4);
        assert_eq!(texts(&got), ["a", "b", "c", "d"]);
    }

    fn a_stream_of_poison_alone_is_an_empty_log(version) {
        let nats = Nats::start(version);
        let mut gateway = Gateway::start(&nats, &[]);
        gateway.wire().create_topic(TOPIC, 1);
        publish_poison(&mut nats.jetstream());
        gateway.kill();
        gateway.restart();
        let mut wire = gateway.wire();
        expect_log(&mut wire, &[]);
        assert_eq!(wire.produce_ok(TOPIC, 0, &Batch::of(["a"])), 0);
        expect_log(&mut wire, &["a"]);
    }

    fn a_message_with_a_broken_nats_header_is_stepped_over(version) {
        let nats = Nats::start(version);
        let mut gateway = Gateway::start(&nats, &[]);
        let mut jetstream = nats.jetstream();
        let mut wire = gateway.wire();
        wire.create_topic(TOPIC, 1);
        wire.produce_ok(TOPIC, 0, &Batch::of(["a"]));
        jetstream.store(SUBJECT, "no colon here\r\n", b"x");
        wire.produce_ok(TOPIC, 0, &Batch::of(["b"]));
        jetstream.store(SUBJECT, b"Name: caf\xe9 \xff\xfe\r\n", b"x");
        expect_log(&mut wire, &["a", "b"]);
        gateway.kill();
        gateway.restart();
        let mut wire = gateway.wire();
        expect_log(&mut wire, &["a", "b"]);
        wire.produce_ok(TOPIC, 0, &Batch::of(["c"]));
        expect_log(&mut wire, &["a", "b", "c"]);
    }

    fn a_hundred_thousand_foreign_messages_at_the_end_are_stepped_over(version) {
        let nats = Nats::start(version);
        let mut gateway = Gateway::start(&nats, &[]);
        let mut jetstream = nats.jetstream();
        let mut wire = gateway.wire();
        wire.create_topic(TOPIC, 1);
        let foreign = |jetstream: &mut JetStream| {
            let before = jetstream.state(STREAM).messages;
            jetstream.publish_all(SUBJECT, (0..100_000).map(|_| &b"not a batch"[..]));
            eventually("all are stored", SOON, || (jetstream.state(STREAM).messages == before + 100_000).then_some(()));
        };
        wire.produce_ok(TOPIC, 0, &Batch::of(["a", "b"]).idempotent(1, 0, 0));
        foreign(&mut jetstream);
        assert_eq!(patiently(&mut wire, &Batch::of(["c"]).idempotent(1, 0, 2)), 2);
        foreign(&mut jetstream);
        gateway.kill();
        gateway.restart();
        let mut wire = gateway.wire();
        assert_eq!(patiently(&mut wire, &Batch::of(["d"]).idempotent(1, 0, 3)), 3);
        expect_log(&mut wire, &["a", "b", "c", "d"]);
    }

    fn a_copy_of_an_old_batch_is_not_served_again(version) {
        let nats = Nats::start(version);
        let mut gateway = Gateway::start(&nats, &[]);
        let mut jetstream = nats.jetstream();
        let mut wire = gateway.wire();
        wire.create_topic(TOPIC, 1);
        for value in ["a", "b", "c"] {
            wire.produce_ok(TOPIC, 0, &Batch::of([value]));
        }
        let copy = |jetstream: &mut JetStream, original: &Delivery| {
            jetstream.store(SUBJECT, "", &original.payload);
            let writer = original.header("Kafka-Writer").expect("what the gateway wrote names its writer").to_owned();
            jetstream.store(SUBJECT, format!("Kafka-Writer: {writer}\r\n"), &original.payload);
        };
        let stored = jetstream.messages(STREAM);
        copy(&mut jetstream, &stored[1]);
        assert_eq!(wire.produce_ok(TOPIC, 0, &Batch::of(["d"])), 3);
        copy(&mut jetstream, &stored[0]);
        copy(&mut jetstream, &stored[2]);
        expect_log(&mut wire, &["a", "b", "c", "d"]);
        gateway.kill();
        gateway.restart();
        let mut wire = gateway.wire();
        expect_log(&mut wire, &["a", "b", "c", "d"]);
        assert_eq!(wire.produce_ok(TOPIC, 0, &Batch::of(["e"])), 4);
        expect_log(&mut wire, &["a", "b", "c", "d", "e"]);
    }

    fn holes_left_by_deleted_messages_are_stepped_over(version) {
        let nats = Nats::start(version);
        let mut gateway = Gateway::start(&nats, &[]);
        let mut jetstream = nats.jetstream();
        let mut wire = gateway.wire();
        wire.create_topic(TOPIC, 1);
        let mut sequences = Vec::new();
        for values in [["a", "b"], ["c", "d"], ["e", "f"], ["g", "h"], ["i", "j"]] {
            wire.produce_ok(TOPIC, 0, &Batch::of(values));
            sequences.push(jetstream.state(STREAM).last);
        }
        jetstream.delete(STREAM, sequences[1]);
        jetstream.delete(STREAM, sequences[3]);
        let left: Vec<(i64, String)> =
            [(0, "a"), (1, "b"), (4, "e"), (5, "f"), (8, "i"), (9, "j")].map(|(at, value)| (at, value.to_owned())).into();
        // What this gateway still has in memory it may serve; a new one sees what is stored.
        gateway.kill();
        gateway.restart();
        let mut wire = gateway.wire();
        assert_eq!(wire.read_all(TOPIC, 0, 0), left);
        for hole in [2, 3, 6, 7] {
            let data = wire.fetch(TOPIC, 0, hole);
            assert_eq!(data.error_code, 0, "a fetch at the deleted offset {hole}");
            let next = left.iter().find(|(at, _)| *at > hole).expect("something follows").0;
            let found = offsets_and_values(&data.records.unwrap_or_default());
            assert_eq!(found.first().map(|(at, _)| *at), Some(next), "what follows the hole at {hole}");
        }
        assert_eq!(texts(&librdkafka::consume(&gateway.bootstrap(), TOPIC, 6)), ["a", "b", "e", "f", "i", "j"]);
        assert_eq!(wire.produce_ok(TOPIC, 0, &Batch::of(["k"])), 10);

        // The newest message gone: its offsets are spent all the same.
        let last = jetstream.state(STREAM).last;
        jetstream.delete(STREAM, last);
        gateway.kill();
        gateway.restart();
        assert!(gateway.wire().produce_ok(TOPIC, 0, &Batch::of(["l"])) >= 11);
    }

    fn sequences_beyond_a_quintillion_work(version) {
        let nats = Nats::start(version);
        let mut gateway = Gateway::start(&nats, &[]);
        gateway.wire().create_topic(TOPIC, 1);
        gateway.kill();
        let mut jetstream = nats.jetstream();
        jetstream.purge(STREAM, Some(QUINTILLION));
        gateway.restart();
        let mut wire = gateway.wire();
        assert_eq!(wire.list_offset(TOPIC, 0, LATEST), 0);
        assert_eq!(wire.produce_ok(TOPIC, 0, &Batch::of(["a", "b"])), 0);
        publish_poison(&mut jetstream);
        assert_eq!(wire.produce_ok(TOPIC, 0, &Batch::of(["c"])), 2);
        assert!(jetstream.state(STREAM).first >= QUINTILLION);
        expect_log(&mut wire, &["a", "b", "c"]);
        gateway.kill();
        gateway.restart();
        let mut wire = gateway.wire();
        expect_log(&mut wire, &["a", "b", "c"]);
        assert_eq!(wire.produce_ok(TOPIC, 0, &Batch::of(["d"])), 3);
        assert_eq!(texts(&librdkafka::consume(&gateway.bootstrap(), TOPIC, 4)), ["a", "b", "c", "d"]);
    }

    fn streams_that_only_look_like_partitions_are_left_alone(version) {
        let nats = Nats::start(version);
        let mut jetstream = nats.jetstream();
        for (name, subject) in [("kafka-x-1abc", "kafka.x.1abc"), ("kafka-y-0", "other.y.0"), ("kafka-z", "kafka.z.0")] {
            let config = serde_json::json!({"name": name, "subjects": [subject], "storage": "file"});
            jetstream.api(&format!("STREAM.CREATE.{name}"), &config);
        }
        let gateway = Gateway::start(&nats, &["--auto-create=false"]);
        let mut wire = gateway.wire();
        for name in ["x", "y", "z"] {
            assert_eq!(wire.topic(name).error_code, 3, "{name} is no topic");
        }
        let names = jetstream.stream_names();
        assert!(["kafka-x-1abc", "kafka-y-0", "kafka-z"].iter().all(|name| names.iter().any(|have| have == name)));
    }
}
