//! A million small records through the gateway and back: each arrives, in order.

use crate::harness::{Gateway, Nats, Version, librdkafka};
use crate::{Scale, rate, throughput};
use rdkafka::message::Message;
use rdkafka::topic_partition_list::Offset;
use std::time::{Duration, Instant};

const RECORD_BYTES: usize = 100;

pub fn measure(scale: &Scale) {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &["--retention-bytes=-1", "--log-level=info"]);
    let records = scale.order_records;
    gateway.wire().create_topic("order", 1);
    let value = |n: usize| format!("{n:0RECORD_BYTES$}").into_bytes();
    let produced = throughput::produce(&gateway.bootstrap(), "order", records, value);
    let consumer = librdkafka::assigned(&gateway.bootstrap(), "order", 0, Offset::Beginning);
    let started = Instant::now();
    let mut next = 0;
    while next < records {
        let Some(message) = consumer.poll(Duration::from_secs(30)) else { panic!("{next} of {records} records came") };
        let message = message.unwrap_or_else(|error| panic!("after {next} records: {error}"));
        let text = std::str::from_utf8(message.payload().unwrap_or_default()).unwrap_or_default();
        assert_eq!(text.parse::<usize>().ok(), Some(next), "the record at offset {}", message.offset());
        next += 1;
    }
    let consumed = started.elapsed();
    println!(
        "{records} records of {RECORD_BYTES} B: produced {:.0}/s, consumed {:.0}/s, all there and in order",
        rate(records, produced),
        rate(records, consumed)
    );
}
