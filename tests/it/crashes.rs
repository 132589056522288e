//! kill -9 at bad moments: what was acknowledged is there, at the offset that was told, and offsets never repeat.

use crate::harness::batch::{Batch, offsets_and_values};
use crate::harness::librdkafka::{self, numbered, producer, texts};
use crate::harness::wire::{EARLIEST, LATEST, RETRIABLE};
use crate::harness::{Gateway, JetStream, Nats, SOON, Version, Wire, eventually};
use crate::on_each_server;
use kafka_protocol::messages::FetchRequest;
use serde_json::json;
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

const STREAM: &str = "kafka-t-0";
const OFFSET_OUT_OF_RANGE: i16 = 1;

/// Sends `values` slowly enough that `restarts` kills of the gateway fall among them.
fn produce_while_the_gateway_dies(
    gateway: &mut Gateway,
    settings: &[(&str, &str)],
    values: &[String],
    restarts: usize,
) -> Vec<(String, i64)> {
    let producer = producer(&gateway.bootstrap(), settings);
    for part in values.chunks(values.len().div_ceil(restarts + 1)) {
        for value in part {
            producer.send_value("t", 0, value.as_bytes());
            producer.producer.poll(Duration::from_micros(200));
        }
        if part.last() != values.last() {
            gateway.kill();
            gateway.restart();
        }
    }
    producer.flush();
    producer.deliveries.acked()
}

/// What is stored, by offset.
fn log_of(gateway: &Gateway) -> HashMap<i64, String> {
    let end = gateway.wire().list_offset("t", 0, LATEST);
    let got = librdkafka::consume(&gateway.bootstrap(), "t", usize::try_from(end).expect("an offset"));
    got.iter().map(|got| (got.offset, got.text())).collect()
}

on_each_server! {
    fn an_idempotent_producer_loses_and_repeats_nothing_when_the_gateway_is_killed(version) {
        let nats = Nats::start(version);
        let mut gateway = Gateway::start(&nats, &[]);
        let values = numbered(4000);
        let settings = [("enable.idempotence", "true"), ("message.timeout.ms", "120000")];
        let acked = produce_while_the_gateway_dies(&mut gateway, &settings, &values, 3);
        assert_eq!(acked.len(), values.len(), "all are delivered in the end");
        assert_eq!(gateway.wire().list_offset("t", 0, LATEST), 4000, "nothing is stored twice");
        assert_eq!(texts(&librdkafka::consume(&gateway.bootstrap(), "t", 4000)), values);
        let log = log_of(&gateway);
        for (value, offset) in acked.iter().filter(|(_, offset)| *offset >= 0) {
            assert_eq!(log.get(offset), Some(value), "what was acknowledged at {offset}");
        }
    }

    fn every_acknowledged_record_is_there_when_the_gateway_is_killed(version) {
        let nats = Nats::start(version);
        let mut gateway = Gateway::start(&nats, &[]);
        let values = numbered(4000);
        let settings = [("enable.idempotence", "false"), ("message.timeout.ms", "120000")];
        let acked = produce_while_the_gateway_dies(&mut gateway, &settings, &values, 3);
        let log = log_of(&gateway);
        assert!(!acked.is_empty());
        for (value, offset) in &acked {
            assert_eq!(log.get(offset), Some(value), "what was acknowledged at {offset}");
        }
    }
}

/// After the stream was emptied behind the gateway's back, `spent` offsets must stay spent.
#[track_caller]
fn expect_offsets_go_on(gateway: &Gateway, spent: i64) {
    let mut wire = gateway.wire();
    let latest = wire.list_offset("t", 0, LATEST);
    assert!(latest >= spent, "the end went back to {latest}");
    assert_eq!(wire.list_offset("t", 0, EARLIEST), latest, "an emptied log starts at its end");
    assert_eq!(wire.fetch("t", 0, spent - 1).error_code, OFFSET_OUT_OF_RANGE);
    let base = wire.produce_ok("t", 0, &Batch::of(["after"]));
    assert!(base >= latest, "{base} was spent: the end was {latest}");
    assert_eq!(wire.read_all("t", 0, base), [(base, "after".to_owned())]);
}

fn fill(gateway: &Gateway) -> i64 {
    let mut wire = gateway.wire();
    wire.create_topic("t", 1);
    for n in 0..10 {
        assert_eq!(wire.produce_ok("t", 0, &Batch::of(["x", "y"])), 2 * n);
    }
    20
}

/// Lets the server age everything out, as retention does over days.
fn age_out(jetstream: &mut JetStream) {
    jetstream.reconfigure(STREAM, |config| {
        config["max_age"] = json!(200_000_000_u64);
        config["duplicate_window"] = json!(200_000_000_u64);
    });
    eventually("everything has aged out", SOON, || (jetstream.state(STREAM).messages == 0).then_some(()));
    jetstream.reconfigure(STREAM, |config| config["max_age"] = json!(604_800_000_000_000_u64));
}

/// The server is killed right after an ack, one that the second gateway may not have heard of, and the stream emptied before
/// either has looked at it again.
fn empty_behind_two_gateways(version: Version, gateways_die: bool, empty: impl FnOnce(&mut JetStream)) {
    let mut nats = Nats::start(version);
    let mut gateways = ["--node-id=1", "--node-id=2"].map(|id| Gateway::start(&nats, &[id]));
    let mut spent = fill(&gateways[0]);
    assert_eq!(patiently(&gateways[1], "second"), spent);
    for _ in 0..20 {
        spent = patiently(&gateways[0], "first");
    }
    nats.kill();
    if gateways_die {
        gateways.iter_mut().for_each(Gateway::kill);
    }
    nats.restart();
    empty(&mut nats.jetstream());
    if gateways_die {
        gateways.iter_mut().for_each(Gateway::restart);
    }
    let mut log = Vec::new();
    for round in 0..6 {
        let value = format!("after {round}");
        log.push((patiently(&gateways[(round + 1) % 2], &value), value));
    }
    assert!(log[0].0 > spent && log.is_sorted_by(|a, b| a.0 < b.0), "{log:?}, and {spent} was given before");
    for gateway in &gateways {
        let mut wire = gateway.wire();
        let end = log[5].0 + 1;
        eventually("the end is known", SOON, || (wire.list_offset("t", 0, LATEST) == end).then_some(()));
        assert_eq!(wire.read_all("t", 0, log[0].0), log);
        // One that lived on may still have what it wrote itself.
        let old = wire.fetch("t", 0, spent);
        let found = offsets_and_values(&old.records.unwrap_or_default());
        let kept = !gateways_die && found.first() == Some(&(spent, "first".to_owned()));
        assert!(old.error_code == OFFSET_OUT_OF_RANGE || kept, "{} {found:?}", old.error_code);
    }
}

/// Produces as clients do, again after what may be retried, and gives the offset.
#[track_caller]
fn patiently(gateway: &Gateway, value: &str) -> i64 {
    // Each from a producer of its own, so that what was stored without an answer is not stored again.
    static PRODUCER: AtomicI64 = AtomicI64::new(4711);
    let batch = Batch::of([value]).idempotent(PRODUCER.fetch_add(1, Ordering::Relaxed), 0, 0);
    eventually("the record is taken", SOON, || match gateway.wire().produce("t", 0, &batch) {
        (0, base) => Some(base),
        (error, _) => {
            assert!(RETRIABLE.contains(&error), "error {error}");
            None
        }
    })
}

on_each_server! {
    fn offsets_never_repeat_after_kill_9_and_a_purge(version) {
        let nats = Nats::start(version);
        let mut gateway = Gateway::start(&nats, &[]);
        let spent = fill(&gateway);
        gateway.kill();
        nats.jetstream().purge(STREAM, None);
        gateway.restart();
        expect_offsets_go_on(&gateway, spent);
    }

    fn offsets_never_repeat_after_kill_9_and_ageing_out(version) {
        let nats = Nats::start(version);
        let mut gateway = Gateway::start(&nats, &[]);
        let spent = fill(&gateway);
        gateway.kill();
        age_out(&mut nats.jetstream());
        gateway.restart();
        expect_offsets_go_on(&gateway, spent);
    }

    fn offsets_never_repeat_when_the_server_dies_too(version) {
        let mut nats = Nats::start(version);
        let mut gateway = Gateway::start(&nats, &[]);
        let spent = fill(&gateway);
        gateway.kill();
        nats.jetstream().purge(STREAM, None);
        nats.restart();
        gateway.restart();
        expect_offsets_go_on(&gateway, spent);
    }

    fn offsets_never_repeat_at_two_gateways_when_the_server_dies_and_all_is_purged(version) {
        for gateways_die in [false, true] {
            empty_behind_two_gateways(version, gateways_die, |jetstream| jetstream.purge(STREAM, None));
        }
    }

    fn offsets_never_repeat_at_two_gateways_when_the_server_dies_and_all_ages_out(version) {
        for gateways_die in [false, true] {
            empty_behind_two_gateways(version, gateways_die, age_out);
        }
    }

    fn offsets_go_on_when_the_stream_is_emptied_under_a_running_gateway(version) {
        let nats = Nats::start(version);
        let mut gateway = Gateway::start(&nats, &[]);
        let spent = fill(&gateway);
        nats.jetstream().purge(STREAM, None);
        let base = gateway.wire().produce_ok("t", 0, &Batch::of(["after"]));
        assert_eq!(base, spent, "a running gateway knows the end exactly");
        gateway.kill();
        age_out(&mut nats.jetstream());
        gateway.restart();
        expect_offsets_go_on(&gateway, spent + 1);
    }

    fn a_graceful_restart_wastes_no_offsets(version) {
        let nats = Nats::start(version);
        let mut gateway = Gateway::start(&nats, &[]);
        let spent = fill(&gateway);
        gateway.terminate();
        nats.jetstream().purge(STREAM, None);
        gateway.restart();
        assert_eq!(gateway.wire().produce_ok("t", 0, &Batch::of(["after"])), spent);
    }

    fn a_topic_deleted_and_created_again_under_load_starts_afresh(version) {
        let nats = Nats::start(version);
        let mut gateway = Gateway::start(&nats, &["--auto-create=false"]);
        let mut wire = gateway.wire();
        wire.create_topic("t", 1);
        let mut ids = vec![wire.topic("t").topic_id];
        let settings = [("message.timeout.ms", "120000"), ("topic.metadata.refresh.interval.ms", "300"),
            ("topic.metadata.propagation.max.ms", "60000"), ("enable.idempotence", "false")];
        let producer = producer(&gateway.bootstrap(), &settings);
        let mut next = 0;
        let mut load = |count: usize| {
            for _ in 0..count {
                producer.send_value("t", 0, format!("{next:06}").as_bytes());
                producer.producer.poll(Duration::from_micros(100));
                next += 1;
            }
        };
        for _ in 0..3 {
            load(500);
            assert_eq!(wire.delete_topic("t"), 0);
            load(50);
            eventually("the topic is created again", SOON, || (wire.try_create_topic("t", 1) == 0).then_some(()));
            ids.push(wire.topic("t").topic_id);
            load(200);
        }
        producer.flush();
        let distinct: std::collections::HashSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len(), "each incarnation has an id of its own");
        check_one_incarnation(&mut wire);

        // And the last incarnation is a topic like any other, also for a new gateway.
        let acked = librdkafka::produce(&gateway.bootstrap(), "t", &[], &["999999".to_owned()]);
        gateway.kill();
        gateway.restart();
        let mut wire = gateway.wire();
        check_one_incarnation(&mut wire);
        assert_eq!(wire.read_all("t", 0, acked[0].1), [(acked[0].1, "999999".to_owned())]);
    }

    fn a_topic_created_again_has_none_of_the_old_records(version) {
        let nats = Nats::start(version);
        let gateway = Gateway::start(&nats, &["--auto-create=false"]);
        let mut wire = gateway.wire();
        // nats-server may leave the blocks of a deleted stream to the next one of that name, when deletes follow closely.
        for round in 0..25 {
            eventually("it is created", SOON, || (wire.try_create_topic("t", 1) == 0).then_some(()));
            let value = format!("round {round}");
            assert_eq!(wire.produce_ok("t", 0, &Batch::of([&value])), 0, "offsets start afresh");
            assert_eq!(wire.read_all("t", 0, 0), [(0, value)]);
            assert_eq!(wire.delete_topic("t"), 0);
            assert_ne!(wire.topic("t").error_code, 0);
        }
        let left = nats.jetstream().stream_names();
        assert!(!left.iter().any(|name| name.starts_with("kafka-t-")), "{left:?}");
    }
}

/// The log holds what was sent since its creation: offsets without a gap from 0 on, values once each and in order.
#[track_caller]
fn check_one_incarnation(wire: &mut Wire) {
    let log = wire.read_all("t", 0, 0);
    assert!(!log.is_empty());
    assert!(log.iter().zip(0..).all(|((offset, _), expected)| *offset == expected), "offsets have no gap");
    assert!(log.is_sorted_by(|a, b| a.1 < b.1), "values are once each and in order");
}

#[test]
fn a_client_that_dies_while_it_waits_leaves_nothing_behind() {
    let nats = Nats::start(Version::Newest);
    let mut gateway = Gateway::start(&nats, &[]);
    gateway.wire().create_topic("t", 1);
    let before = gateway.process().resident_bytes();
    for _ in 0..20 {
        let mut waiting: Vec<Wire> = (0..50).map(|_| gateway.wire()).collect();
        for wire in &mut waiting {
            let request: FetchRequest = crate::harness::wire::fetch_request("t", 0, 0).with_max_wait_ms(600_000);
            wire.send(12, &request);
        }
    }
    let mut wire = gateway.wire();
    assert_eq!(wire.produce_ok("t", 0, &Batch::of(["still here"])), 0);
    if let (Some(before), Some(after)) = (before, gateway.process().resident_bytes()) {
        assert!(after < before + (64 << 20), "memory grew from {before} to {after} bytes");
    }
}
