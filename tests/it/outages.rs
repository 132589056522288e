//! The store is not there, goes away, or hangs: clients see retriable errors and recover by themselves.

use crate::harness::batch::Batch;
use crate::harness::librdkafka::{self, numbered, producer, take_within, texts};
use crate::harness::wire::{LATEST, RETRIABLE, produce_request, produced};
use crate::harness::{Gateway, Nats, SOON, Version, Wire, eventually};
use crate::on_each_server;
use kafka_protocol::messages::{ApiVersionsRequest, MetadataRequest};
use rdkafka::producer::{BaseRecord, Producer};
use rdkafka::topic_partition_list::Offset;
use std::time::{Duration, Instant};

/// How long a client may need after the store is back: its own back-off included.
const RECOVERY: Duration = Duration::from_secs(60);

/// Produces to partition 1, whose records nobody looks at: what became of such a request is not known.
#[track_caller]
fn expect_retriable(wire: &mut Wire) {
    let started = Instant::now();
    let request = produce_request("t", 1, Batch::of(["stored or not"]).encode()).with_timeout_ms(3000);
    let response = wire.call(9, &request);
    let (error, _) = produced(&response.responses[0].partition_responses[0]);
    assert!(RETRIABLE.contains(&error), "error {error} would stop a client");
    assert!(started.elapsed() < Duration::from_secs(20), "the answer took {:?}", started.elapsed());
}

on_each_server! {
    fn a_gateway_started_before_its_store_serves_once_the_store_is_there(version) {
        let mut nats = Nats::not_started(version, 8 << 20);
        let mut gateway = Gateway::not_ready(&nats.url(), &[]);
        let producer = producer(&gateway.bootstrap(), &[("message.timeout.ms", "120000")]);
        for value in numbered(10) {
            producer.send_value("t", 0, value.as_bytes());
        }
        producer.producer.poll(Duration::from_millis(1500));
        assert!(gateway.process().exited().is_none(), "the gateway waits for its store");
        nats.restart();
        producer.finish();
        assert_eq!(texts(&librdkafka::consume(&gateway.bootstrap(), "t", 10)), numbered(10));
    }

    fn clients_recover_by_themselves_when_the_store_is_lost_and_comes_back(version) {
        let mut nats = Nats::start(version);
        let gateway = Gateway::start(&nats, &[]);
        gateway.wire().create_topic("t", 2);
        let settings = [("enable.idempotence", "true"), ("message.timeout.ms", "120000")];
        let producer = producer(&gateway.bootstrap(), &settings);
        let values = numbered(300);
        for value in &values[..100] {
            producer.send_value("t", 0, value.as_bytes());
        }
        producer.flush();
        let consumer = librdkafka::assigned(&gateway.bootstrap(), "t", 0, Offset::Beginning);
        assert_eq!(texts(&take_within(&consumer, 100, SOON)), values[..100]);

        nats.kill();
        for value in &values[100..200] {
            producer.send_value("t", 0, value.as_bytes());
        }
        let mut wire = gateway.wire();
        for _ in 0..3 {
            expect_retriable(&mut wire);
        }
        assert_eq!(wire.call(0, &ApiVersionsRequest::default()).error_code, 0, "the gateway itself is well");
        nats.restart();
        for value in &values[200..] {
            producer.send_value("t", 0, value.as_bytes());
        }
        producer.finish();
        let all = texts(&librdkafka::consume(&gateway.bootstrap(), "t", 300));
        assert_eq!(all, values, "nothing lost or out of order");
        assert_eq!(gateway.wire().list_offset("t", 0, LATEST), 300, "nothing repeated");
        assert_eq!(texts(&take_within(&consumer, 200, RECOVERY)), values[100..]);
    }

    fn a_store_that_hangs_gives_retriable_errors_in_time(version) {
        let nats = Nats::start(version);
        let gateway = Gateway::start(&nats, &[]);
        let mut wire = gateway.wire();
        wire.create_topic("t", 2);
        wire.produce_ok("t", 0, &Batch::of(["before"]));
        nats.freeze();
        expect_retriable(&mut wire);
        expect_retriable(&mut wire);
        let mut other = gateway.wire();
        assert_eq!(other.call(0, &ApiVersionsRequest::default()).error_code, 0);
        assert_eq!(other.call(9, &MetadataRequest::default().with_topics(Some(Vec::new()))).brokers.len(), 1);
        let producer = producer(&gateway.bootstrap(), &[("enable.idempotence", "true"), ("message.timeout.ms", "120000")]);
        for value in numbered(20) {
            producer.send(BaseRecord::<[u8], [u8]>::to("t").partition(0).payload(value.as_bytes()));
        }
        producer.producer.poll(Duration::from_millis(500));
        nats.thaw();
        producer.producer.flush(RECOVERY).expect("all are delivered after the store resumed");
        producer.finish();
        let log = gateway.wire().read_all("t", 0, 0);
        let values: Vec<&str> = log.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values[0], "before");
        assert_eq!(values[1..], numbered(20));
    }
}

#[test]
fn a_restarted_gateway_without_a_store_still_accepts_connections() {
    let mut nats = Nats::start(Version::Newest);
    let mut gateway = Gateway::start(&nats, &[]);
    gateway.wire().create_topic("t", 1);
    nats.kill();
    gateway.kill();
    let url = nats.url();
    let mut again = Gateway::not_ready(&url, &[]);
    again.wait_listening();
    assert!(again.process().exited().is_none());
    nats.restart();
    let port = again.port;
    eventually("the topic is served again", RECOVERY, || {
        let mut wire = Wire::try_connect(port).ok()?;
        let request = produce_request("t", 0, Batch::of(["back"]).encode());
        let response = wire.try_call(9, &request).ok()?;
        (produced(&response.responses[0].partition_responses[0]).0 == 0).then_some(())
    });
}
