//! Waiting fetches: they cost nothing, block nobody, and wake at once.

use crate::harness::batch::{Batch, offsets_and_values};
use crate::harness::librdkafka::{self, take};
use crate::harness::wire::{fetch_request, partition_data, produce_request};
use crate::harness::{Gateway, JetStream, Nats, SOON, Version, Wire, eventually};
use crate::on_each_server;
use kafka_protocol::messages::{FetchRequest, HeartbeatRequest, MetadataRequest, ProduceRequest};
use rdkafka::topic_partition_list::Offset;
use std::time::{Duration, Instant};

/// Far longer than anything takes that does not wait for a deadline.
const LONG_MS: i32 = 40_000;

fn waiting_fetch(topic: &str, offset: i64) -> FetchRequest {
    fetch_request(topic, 0, offset).with_max_wait_ms(LONG_MS)
}

/// The questions about partition streams within `span`.
fn reads(watcher: &mut JetStream, span: Duration) -> Vec<String> {
    let asked = watcher.watch(span).into_iter();
    asked
        .filter(|asked| asked.subject.contains(".kafka-"))
        .map(|asked| format!("{} {:?}", asked.subject, asked.payload))
        .collect()
}

/// Sees each question that anybody asks about partition streams.
fn question_watcher(nats: &Nats) -> JetStream {
    let mut watcher = nats.jetstream();
    for subject in ["DIRECT.GET.>", "STREAM.MSG.GET.>", "STREAM.INFO.>", "CONSUMER.>"] {
        watcher.subscribe(&format!("$JS.API.{subject}"));
    }
    watcher
}

on_each_server! {
    fn idle_consumers_cost_no_store_reads(version) {
        let nats = Nats::start(version);
        let gateway = Gateway::start(&nats, &[]);
        let bootstrap = gateway.bootstrap();
        librdkafka::produce(&bootstrap, "idle", &[], &librdkafka::numbered(20));
        let consumers = [0; 3].map(|_| librdkafka::assigned(&bootstrap, "idle", 0, Offset::Beginning));
        for consumer in &consumers {
            take(consumer, 20);
        }
        let mut watcher = question_watcher(&nats);
        // What was under way when the last record came may still be looked at; then it is quiet.
        eventually("a quiet second", SOON, || reads(&mut watcher, Duration::from_secs(1)).is_empty().then_some(()));
        let seen = reads(&mut watcher, Duration::from_secs(6));
        assert!(seen.is_empty(), "{} reads while nothing happened: {seen:?}", seen.len());

        // They did listen all the while.
        librdkafka::produce(&bootstrap, "idle", &[], &["news".to_owned()]);
        for consumer in &consumers {
            assert_eq!(take(consumer, 1)[0].text(), "news");
        }
    }

    fn a_waiting_fetch_wakes_when_something_is_produced(version) {
        let nats = Nats::start(version);
        let gateway = Gateway::start(&nats, &[]);
        let mut producer = gateway.wire();
        producer.create_topic("t", 1);
        let mut waiting = gateway.wire();
        for round in 0..20 {
            let started = Instant::now();
            waiting.send(12, &waiting_fetch("t", round));
            producer.produce_ok("t", 0, &Batch::of([format!("{round}")]));
            let (_, response) = waiting.receive::<FetchRequest>(12);
            let read = offsets_and_values(&partition_data(response).records.expect("records"));
            assert_eq!(read, [(round, round.to_string())]);
            assert!(started.elapsed() < Duration::from_secs(10), "round {round} took {:?}", started.elapsed());
        }
    }
}

#[test]
fn a_fetch_with_nothing_to_give_waits_its_time_and_no_longer() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    wire.create_topic("t", 1);
    let started = Instant::now();
    let data = partition_data(wire.call(12, &fetch_request("t", 0, 0).with_max_wait_ms(1500)));
    assert_eq!((data.error_code, data.records.unwrap_or_default().len()), (0, 0));
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(1400) && took < Duration::from_secs(10), "it took {took:?}");
}

#[test]
fn a_fetch_waits_for_the_bytes_it_asked_for() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut producer = gateway.wire();
    producer.create_topic("t", 1);
    let mut waiting = gateway.wire();
    waiting.send(12, &waiting_fetch("t", 0).with_min_bytes(2500));
    for _ in 0..3 {
        producer.produce_ok("t", 0, &Batch::of([vec![b'x'; 1000]]));
    }
    let (_, response) = waiting.receive::<FetchRequest>(12);
    assert_eq!(offsets_and_values(&partition_data(response).records.expect("records")).len(), 3);
}

#[test]
fn deleting_the_topic_wakes_who_waits_for_it() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    wire.create_topic("t", 1);
    let mut waiting = gateway.wire();
    let started = Instant::now();
    waiting.send(12, &waiting_fetch("t", 0));
    assert_eq!(wire.delete_topic("t"), 0);
    let (_, response) = waiting.receive::<FetchRequest>(12);
    assert_ne!(partition_data(response).error_code, 0);
    assert!(started.elapsed() < Duration::from_secs(20), "it took {:?}", started.elapsed());
}

#[test]
fn answers_of_one_connection_keep_their_order_behind_a_waiting_fetch() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    wire.create_topic("t", 1);
    let sent = [
        wire.send(12, &fetch_request("t", 0, 0).with_max_wait_ms(1000)),
        wire.send(9, &MetadataRequest::default()),
        wire.send(4, &HeartbeatRequest::default()),
        wire.send(9, &produce_request("t", 0, Batch::of(["x"]).encode())),
    ];
    let received = [
        wire.receive::<FetchRequest>(12).0,
        wire.receive::<MetadataRequest>(9).0,
        wire.receive::<HeartbeatRequest>(4).0,
        wire.receive::<ProduceRequest>(9).0,
    ];
    assert_eq!(received, sent);
}

#[test]
fn hundreds_of_waiting_fetches_and_idle_connections_leave_the_workers_free() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    wire.create_topic("quiet", 1);
    wire.create_topic("busy", 1);
    let _idle: Vec<Wire> = (0..300).map(|_| gateway.wire()).collect();
    let mut waiting: Vec<Wire> = (0..200).map(|_| gateway.wire()).collect();
    for waiting in &mut waiting {
        waiting.send(12, &waiting_fetch("quiet", 0));
    }
    let started = Instant::now();
    for offset in 0..50 {
        assert_eq!(wire.produce_ok("busy", 0, &Batch::of(["x"])), offset);
        assert_eq!(wire.topic("busy").error_code, 0);
    }
    assert!(started.elapsed() < Duration::from_secs(20), "50 records took {:?}", started.elapsed());
    wire.produce_ok("quiet", 0, &Batch::of(["wake up"]));
    for waiting in &mut waiting {
        let (_, response) = waiting.receive::<FetchRequest>(12);
        assert_eq!(offsets_and_values(&partition_data(response).records.expect("records")).len(), 1);
    }
}

#[test]
fn a_fetch_is_cut_at_whole_batches_within_its_limits() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    wire.create_topic("t", 2);
    for partition in 0..2 {
        for _ in 0..10 {
            wire.produce_ok("t", partition, &Batch::of([vec![b'x'; 10_000]]));
        }
    }
    let one_batch = Batch::of([vec![b'x'; 10_000]]).encode().len();
    let limited = |bytes: usize| {
        let mut request = fetch_request("t", 0, 0);
        request.topics[0].partitions[0].partition_max_bytes = i32::try_from(bytes).expect("small");
        request
    };
    // Less than one batch: the first is given all the same, or the consumer would be stuck.
    for (limit, batches) in [(1, 1), (one_batch, 1), (3 * one_batch + 5, 3)] {
        let records = partition_data(wire.call(12, &limited(limit))).records.expect("records");
        assert_eq!(records.len(), batches * one_batch, "within {limit} bytes");
    }
    let mut both = fetch_request("t", 0, 0).with_max_bytes(i32::try_from(4 * one_batch).expect("small"));
    let second = fetch_request("t", 1, 0).topics.remove(0).partitions.remove(0);
    both.topics[0].partitions.push(second);
    let response = wire.call(12, &both);
    let bytes: usize =
        response.responses[0].partitions.iter().map(|data| data.records.as_ref().map_or(0, |chain| chain.len())).sum();
    assert_eq!(bytes, 4 * one_batch, "max_bytes is for all partitions together");
}
