//! One librdkafka producer through the gateway, against a bare publisher that sends JetStream the same messages.

use crate::harness::jetstream::Delivery;
use crate::harness::{Gateway, JetStream, Nats, Version, librdkafka};
use crate::{Scale, median, rate};
use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const RECORD_BYTES: usize = 1024;

/// Counts what was acknowledged; a record that was not ends the measurement.
#[derive(Clone, Default)]
pub struct Acked(Arc<AtomicUsize>);

impl ClientContext for Acked {}

impl ProducerContext for Acked {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        match result {
            Ok(_) => self.0.fetch_add(1, Ordering::Relaxed),
            Err((error, _)) => panic!("a record was not delivered: {error}"),
        };
    }
}

/// Produces records with librdkafka's own defaults and waits for all acks; gives the time of all but the first, which
/// waits for the connection.
pub fn produce(bootstrap: &str, topic: &str, records: usize, mut value: impl FnMut(usize) -> Vec<u8>) -> Duration {
    let acked = Acked::default();
    let config = librdkafka::config(bootstrap, &[]);
    let producer: BaseProducer<Acked> = config.create_with_context(acked.clone()).expect("a producer");
    let first = value(0);
    producer
        .send(BaseRecord::<[u8], [u8]>::to(topic).partition(0).payload(&first))
        .map_err(|(error, _)| error)
        .expect("room");
    producer.flush(Duration::from_secs(30)).expect("it connects and delivers");
    let started = Instant::now();
    for n in 1..records {
        let value = value(n);
        let mut record = BaseRecord::<[u8], [u8]>::to(topic).partition(0).payload(&value);
        while let Err((error, refused)) = producer.send(record) {
            assert!(matches!(error, KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull)), "{error}");
            producer.poll(Duration::from_millis(5));
            record = refused;
        }
        if n % 1000 == 0 {
            producer.poll(Duration::ZERO);
        }
    }
    producer.flush(Duration::from_secs(120)).expect("all are delivered");
    let took = started.elapsed();
    assert_eq!(acked.0.load(Ordering::Relaxed), records, "every record is acknowledged");
    took
}

pub fn measure(scale: &Scale) {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &["--retention-bytes=-1", "--log-level=info"]);
    let mut jetstream = nats.jetstream();
    let (mut through_gateway, mut bare) = (Vec::new(), Vec::new());
    // Real data does not compress to nothing, neither here nor in the page cache.
    let noise: Vec<u8> = (0..RECORD_BYTES + 997).map(|n| (n * n % 251) as u8).collect();
    for run in 0..scale.runs {
        let topic = format!("bench-{run}");
        gateway.wire().create_topic(&topic, 1);
        let value = |n: usize| noise[n % 997..n % 997 + RECORD_BYTES].to_vec();
        let took = produce(&gateway.bootstrap(), &topic, scale.throughput_records, value);
        let stored = jetstream.messages(&format!("kafka-{topic}-0"));
        let bytes: usize = stored.iter().map(|message| message.payload.len()).sum();
        let shape = format!("{} messages of {} KiB on average", stored.len(), bytes / stored.len() / 1024);
        let replayed = replay(&mut jetstream, &stored);
        println!(
            "  run {run}: gateway {:.0} records/s, bare publisher {:.0} records/s, {shape}",
            rate(scale.throughput_records, took),
            rate(scale.throughput_records, replayed)
        );
        through_gateway.push(rate(scale.throughput_records, took));
        bare.push(rate(scale.throughput_records, replayed));
        gateway.wire().delete_topic(&topic);
    }
    let (through_gateway, bare) = (median(through_gateway), median(bare));
    println!(
        "throughput of one librdkafka producer, 1 KiB records, default batching: gateway {through_gateway:.0} records/s, \
         bare publisher of the same messages {bare:.0} records/s, ratio {:.2} (wanted: at least 0.50)",
        through_gateway / bare
    );
}

/// Publishes the messages to a stream of its own, many in flight, and waits for all acks.
fn replay(jetstream: &mut JetStream, stored: &[Delivery]) -> Duration {
    const IN_FLIGHT_BYTES_MAX: usize = 16 << 20;
    let config = json!({"name": "replay", "subjects": ["replay"], "storage": "file", "allow_direct": true});
    jetstream.api("STREAM.CREATE.replay", &config);
    let headers: Vec<String> = stored
        .iter()
        .map(|message| {
            message.header("Kafka-Writer").map(|writer| format!("Kafka-Writer: {writer}\r\n")).unwrap_or_default()
        })
        .collect();
    let started = Instant::now();
    let (mut acked, mut in_flight) = (0, 0);
    for (message, headers) in stored.iter().zip(&headers) {
        jetstream.begin_store("replay", headers, &message.payload);
        in_flight += message.payload.len();
        while in_flight > IN_FLIGHT_BYTES_MAX {
            in_flight -= finish_one(jetstream, stored, &mut acked);
        }
    }
    while acked < stored.len() {
        finish_one(jetstream, stored, &mut acked);
    }
    let took = started.elapsed();
    jetstream.api("STREAM.DELETE.replay", &serde_json::Value::Null);
    took
}

/// Waits for the next ack and gives the bytes it was for.
fn finish_one(jetstream: &mut JetStream, stored: &[Delivery], acked: &mut usize) -> usize {
    let ack = jetstream.next().expect("an ack");
    assert!(ack.payload.starts_with(b"{\"stream\""), "not stored: {ack:?}");
    *acked += 1;
    stored[*acked - 1].payload.len()
}
