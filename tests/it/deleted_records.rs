//! DeleteRecords from outside: where the log starts, for whom, and what is left in JetStream.

use crate::harness::batch::Batch;
use crate::harness::librdkafka::{self, numbered, texts};
use crate::harness::wire::{EARLIEST, LATEST, topic_name};
use crate::harness::{Gateway, Nats, SOON, Wire, eventually};
use crate::on_each_server;
use kafka_protocol::messages::DeleteRecordsRequest;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use rdkafka::topic_partition_list::Offset;

const OFFSET_OUT_OF_RANGE: i16 = 1;
const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const POLICY_VIOLATION: i16 = 44;

/// The code and the low watermark.
#[track_caller]
fn delete(wire: &mut Wire, topic: &str, partition: i32, before: i64) -> (i16, i64) {
    let asked = DeleteRecordsPartition::default().with_partition_index(partition).with_offset(before);
    let topic = DeleteRecordsTopic::default().with_name(topic_name(topic)).with_partitions(vec![asked]);
    let request = DeleteRecordsRequest::default().with_topics(vec![topic]).with_timeout_ms(20_000);
    let answer = wire.call(2, &request);
    let row = &answer.topics[0].partitions[0];
    (row.error_code, row.low_watermark)
}

on_each_server! {
    fn the_log_start_moves_for_all_gateways_and_over_restarts(version) {
        let nats = Nats::start(version);
        let mut gateways = [Gateway::start(&nats, &[]), Gateway::start(&nats, &[])];
        let [mut here, mut there] = [gateways[0].wire(), gateways[1].wire()];
        here.create_topic("t", 1);
        for first in 0..10 {
            here.produce_ok("t", 0, &Batch::of((0..10).map(|n| format!("{}", first * 10 + n))));
        }
        assert_eq!(there.read_all("t", 0, 0).len(), 100);
        let before = nats.jetstream().state("kafka-t-0").messages;
        assert_eq!(delete(&mut here, "t", 0, 45), (0, 45));
        for wire in [&mut here, &mut there] {
            eventually("the start is told", SOON, || (wire.list_offset("t", 0, EARLIEST) == 45).then_some(()));
            assert_eq!(wire.list_offset("t", 0, LATEST), 100);
            let data = wire.fetch("t", 0, 44);
            assert_eq!((data.error_code, data.log_start_offset, data.high_watermark), (OFFSET_OUT_OF_RANGE, 45, 100));
            let read = wire.read_all("t", 0, 45);
            assert_eq!((read.len(), &read[0]), (55, &(45, "45".to_owned())), "from inside of a batch");
        }
        let after = nats.jetstream().state("kafka-t-0").messages;
        assert_eq!(after, before - 4 + 1, "four whole messages are gone, a mark has come");
        assert_eq!(delete(&mut there, "t", 0, 45), (0, 45), "again");
        assert_eq!(delete(&mut there, "t", 0, 7), (0, 45), "never back");
        assert_eq!(delete(&mut there, "t", 0, 101), (OFFSET_OUT_OF_RANGE, -1));
        assert_eq!(delete(&mut there, "t", 0, -5), (OFFSET_OUT_OF_RANGE, -1));
        assert_eq!(delete(&mut there, "t", 1, 0), (UNKNOWN_TOPIC_OR_PARTITION, -1));

        gateways[0].kill();
        gateways[0].restart();
        let mut here = gateways[0].wire();
        assert_eq!(here.list_offset("t", 0, EARLIEST), 45);
        assert_eq!(here.fetch("t", 0, 44).error_code, OFFSET_OUT_OF_RANGE);
        assert_eq!(delete(&mut there, "t", 0, -1), (0, 100), "all of it");
        for wire in [&mut here, &mut there] {
            eventually("the start is told", SOON, || (wire.list_offset("t", 0, EARLIEST) == 100).then_some(()));
            assert_eq!(wire.list_offset("t", 0, LATEST), 100);
            assert_eq!(wire.fetch("t", 0, 99).error_code, OFFSET_OUT_OF_RANGE);
        }
        gateways.iter_mut().for_each(Gateway::restart);
        let mut here = gateways[0].wire();
        assert_eq!(here.list_offset("t", 0, EARLIEST), 100);
        assert_eq!(here.produce_ok("t", 0, &Batch::of(["next"])), 100, "no offset is skipped or given twice");
        assert_eq!(gateways[1].wire().read_all("t", 0, 100), [(100, "next".to_owned())]);
    }

    fn a_consumer_in_the_middle_of_what_is_deleted_starts_where_it_is_told(version) {
        let nats = Nats::start(version);
        let gateways = [Gateway::start(&nats, &[]), Gateway::start(&nats, &[])];
        let values = numbered(3000);
        let settings = [("batch.num.messages", "50"), ("linger.ms", "1")];
        librdkafka::produce(&gateways[0].bootstrap(), "t", &settings, &values);
        let consumer = librdkafka::consumer(&gateways[1].bootstrap(), &[("group.id", "g"), ("queued.min.messages", "20"), ("fetch.message.max.bytes", "2000")]);
        let mut list = rdkafka::TopicPartitionList::new();
        list.add_partition_offset("t", 0, Offset::Beginning).expect("a legal offset");
        rdkafka::consumer::Consumer::assign(&consumer, &list).expect("an assignment");
        let first = texts(&librdkafka::take(&consumer, 100));
        assert_eq!(first, values[..100]);
        assert_eq!(delete(&mut gateways[0].wire(), "t", 0, 2500), (0, 2500));
        // What it has fetched already comes first; then it is reset, and nothing comes twice.
        let mut seen = first;
        eventually("the last record", SOON, || {
            seen.extend(texts(&librdkafka::take(&consumer, 1)));
            (seen.last() == values.last()).then_some(())
        });
        assert!(seen.len() < 2500, "it was reset, not led through what is gone");
        assert_eq!(seen[seen.len() - 500..], values[2500..]);
        let before = &seen[..seen.len() - 500];
        assert_eq!(before, &values[..before.len()], "and nothing twice");
    }
}

#[test]
fn a_compacted_topic_is_not_cut() {
    let nats = Nats::start(crate::harness::Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    assert_eq!(wire.create_topic_with("compacted", 1, &[("cleanup.policy", "compact")]), 0);
    assert_eq!(delete(&mut wire, "compacted", 0, -1), (POLICY_VIOLATION, -1));
    assert_eq!(wire.create_topic_with("both", 1, &[("cleanup.policy", "compact,delete")]), 0);
    assert_eq!(delete(&mut wire, "both", 0, -1), (0, 0));
}
