//! Retention by time and by bytes removes data while consumers read on.

use crate::harness::batch::Batch;
use crate::harness::librdkafka::{self, texts};
use crate::harness::wire::{EARLIEST, LATEST};
use crate::harness::{Gateway, Nats, SOON, Wire, eventually};
use crate::on_each_server;
use crate::settings::alter;
use rdkafka::consumer::Consumer;
use rdkafka::topic_partition_list::Offset;
use std::collections::HashSet;

const OFFSET_OUT_OF_RANGE: i16 = 1;

/// Checks what holds of the bounds of a log whose start has moved.
#[track_caller]
fn check_bounds(wire: &mut Wire, topic: &str) {
    let earliest = wire.list_offset(topic, 0, EARLIEST);
    assert!(earliest > 0);
    let below = wire.fetch(topic, 0, earliest - 1);
    assert_eq!(below.error_code, OFFSET_OUT_OF_RANGE);
    assert!(below.log_start_offset >= earliest, "{} {earliest}", below.log_start_offset);
}

on_each_server! {
    fn records_go_by_age_and_the_end_stays(version) {
        let nats = Nats::start(version);
        let gateways = [Gateway::start(&nats, &[]), Gateway::start(&nats, &[])];
        let [mut here, mut there] = [gateways[0].wire(), gateways[1].wire()];
        assert_eq!(here.create_topic_with("t", 1, &[("retention.ms", "3600000")]), 0);
        // Whatever the records' own times are: one from the past, one from the future.
        for timestamp in [1, i64::from(i32::MAX)] {
            here.produce_ok("t", 0, &Batch { timestamp, ..Batch::of(["a", "b"]) });
        }
        assert_eq!(there.read_all("t", 0, 0).len(), 4);
        assert_eq!(alter(&mut here, "t", &[("retention.ms", Some("1000"))]).0, 0);
        for wire in [&mut here, &mut there] {
            eventually("all is gone", SOON, || (wire.list_offset("t", 0, EARLIEST) == 4).then_some(()));
            assert_eq!(wire.list_offset("t", 0, LATEST), 4);
            check_bounds(wire, "t");
        }
        assert_eq!(alter(&mut there, "t", &[("retention.ms", Some("3600000"))]).0, 0);
        assert_eq!(there.produce_ok("t", 0, &Batch::of(["kept"])), 4);
        assert_eq!(here.list_offset("t", 0, LATEST), 5);
        assert_eq!(here.read_all("t", 0, 4), [(4, "kept".to_owned())]);
        assert_eq!(here.list_offset("t", 0, EARLIEST), 4);
    }

    fn records_go_by_size_under_a_consumer_that_is_reset_and_reads_on(version) {
        let nats = Nats::with_max_payload(version, 1 << 20);
        let gateway = Gateway::start(&nats, &[]);
        let mut wire = gateway.wire();
        assert_eq!(wire.create_topic_with("t", 1, &[("retention.bytes", "1200000")]), 0);
        let limit = nats.jetstream().api("STREAM.INFO.kafka-t-0", &serde_json::Value::Null)["config"]["max_bytes"].as_u64();
        let limit = limit.expect("a limit");
        let small = [("queued.min.messages", "50"), ("fetch.message.max.bytes", "50000"), ("group.id", "g")];
        let consumer = librdkafka::consumer(&gateway.bootstrap(), &small);
        let mut list = rdkafka::TopicPartitionList::new();
        list.add_partition_offset("t", 0, Offset::Beginning).expect("a legal offset");
        consumer.assign(&list).expect("an assignment");
        let producer = librdkafka::producer(&gateway.bootstrap(), &[("batch.size", "20000"), ("linger.ms", "0")]);
        let filler = "z".repeat(2_000);
        let send = |from: usize, to: usize| {
            (from..to).for_each(|n| producer.send_value("t", 0, format!("{n} {filler}").as_bytes()));
            producer.finish();
        };
        let number = |value: &String| value.split(' ').next().and_then(|n| n.parse::<usize>().ok()).expect("a number");
        send(0, 200);
        let mut seen: Vec<usize> = texts(&librdkafka::take(&consumer, 50)).iter().map(number).collect();
        assert_eq!(seen, (0..50).collect::<Vec<_>>());
        // Much more than there is room for: what the consumer stands at is removed.
        send(200, 4_000);
        let state = nats.jetstream().api("STREAM.INFO.kafka-t-0", &serde_json::Value::Null);
        assert!(state["state"]["bytes"].as_u64().is_some_and(|bytes| bytes <= limit), "{}", state["state"]);
        check_bounds(&mut wire, "t");
        eventually("the last record", SOON, || {
            seen.extend(texts(&librdkafka::take(&consumer, 1)).iter().map(number));
            (seen.last() == Some(&3_999)).then_some(())
        });
        assert!(seen.is_sorted() && seen.iter().collect::<HashSet<_>>().len() == seen.len(), "nothing twice, all in order");
        assert!(seen.len() < 4_000, "it was reset to what is left");
        let left = wire.list_offset("t", 0, LATEST) - wire.list_offset("t", 0, EARLIEST);
        assert!(left > 100 && usize::try_from(left).is_ok_and(|left| seen.len() >= left), "{left}");
        send(4_000, 4_010);
        let more: Vec<usize> = texts(&librdkafka::take(&consumer, 10)).iter().map(number).collect();
        assert_eq!(more, (4_000..4_010).collect::<Vec<_>>(), "and reads on");
    }
}
