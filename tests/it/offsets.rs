//! Offsets as consumers use them: committed, looked up by time, reset when out of range.

use crate::harness::batch::Batch;
use crate::harness::librdkafka::{self, numbered, take, texts};
use crate::harness::wire::{EARLIEST, LATEST, topic_name};
use crate::harness::{Gateway, Nats, SOON, Version, Wire, eventually};
use crate::on_each_server;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::{GroupId, OffsetCommitRequest, OffsetFetchRequest};
use kafka_protocol::protocol::StrBytes;
use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

const LARGE: i64 = 8_872_783_363_889_192_000;
const OFFSET_OUT_OF_RANGE: i16 = 1;

fn group_id(group: &str) -> GroupId {
    GroupId(StrBytes::from_string(group.to_owned()))
}

/// Commits as a consumer without a group membership does.
#[track_caller]
fn commit(wire: &mut Wire, group: &str, topic: &str, offset: i64, metadata: &str) -> i16 {
    let partition = OffsetCommitRequestPartition::default()
        .with_partition_index(0)
        .with_committed_offset(offset)
        .with_committed_leader_epoch(3)
        .with_committed_metadata(Some(StrBytes::from_string(metadata.to_owned())));
    let topic = OffsetCommitRequestTopic::default().with_name(topic_name(topic)).with_partitions(vec![partition]);
    let request = OffsetCommitRequest::default()
        .with_group_id(group_id(group))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic]);
    wire.call(8, &request).topics[0].partitions[0].error_code
}

/// Offset and metadata; retries while the coordinator is moving.
#[track_caller]
fn committed(wire: &mut Wire, group: &str, topic: &str) -> (i64, String) {
    let asked = OffsetFetchRequestTopic::default().with_name(topic_name(topic)).with_partition_indexes(vec![0]);
    let request = OffsetFetchRequest::default().with_group_id(group_id(group)).with_topics(Some(vec![asked]));
    eventually("the coordinator answers", SOON, || {
        let answer = wire.call(7, &request);
        let partition = &answer.topics.first()?.partitions[0];
        let settled = answer.error_code == 0 && partition.error_code == 0;
        let metadata = partition.metadata.as_ref().map(|text| text.as_str().to_owned()).unwrap_or_default();
        settled.then_some((partition.committed_offset, metadata))
    })
}

on_each_server! {
    fn a_committed_offset_of_any_size_survives_restarts(version) {
        let nats = Nats::start(version);
        let mut gateway = Gateway::start(&nats, &[]);
        let mut wire = gateway.wire();
        wire.create_topic("t", 1);
        assert_eq!(committed(&mut wire, "g", "t"), (-1, String::new()));
        for offset in [0, -2, LARGE, i64::MAX] {
            eventually("the commit is taken", SOON, || (commit(&mut wire, "g", "t", offset, "note") == 0).then_some(()));
            assert_eq!(committed(&mut wire, "g", "t"), (offset, "note".to_owned()));
        }
        eventually("the commit is taken", SOON, || (commit(&mut wire, "g", "t", LARGE, "") == 0).then_some(()));
        gateway.kill();
        gateway.restart();
        assert_eq!(committed(&mut gateway.wire(), "g", "t"), (LARGE, String::new()));
        gateway.terminate();
        gateway.restart();
        assert_eq!(committed(&mut gateway.wire(), "g", "t"), (LARGE, String::new()));
    }

    fn a_plain_number_written_by_an_older_gateway_is_a_committed_offset(version) {
        let nats = Nats::start(version);
        let gateway = Gateway::start(&nats, &[]);
        let mut wire = gateway.wire();
        wire.create_topic("a.b", 1);
        let mut jetstream = nats.jetstream();
        eventually("the bucket is there", SOON, || {
            jetstream.stream_names().contains(&"KV_kafka-consumer-offsets".to_owned()).then_some(())
        });
        jetstream.store("$KV.kafka-consumer-offsets.old-group.a=2Eb.0", "", LARGE.to_string().as_bytes());
        assert_eq!(committed(&mut wire, "old-group", "a.b"), (LARGE, String::new()));
    }

    fn a_consumer_whose_offset_is_out_of_range_is_reset(version) {
        let nats = Nats::start(version);
        let gateway = Gateway::start(&nats, &[]);
        let values = numbered(10);
        librdkafka::produce(&gateway.bootstrap(), "t", &[], &values);
        let mut wire = gateway.wire();
        eventually("the commit is taken", SOON, || (commit(&mut wire, "g", "t", LARGE, "") == 0).then_some(()));
        let settings = [("group.id", "g"), ("auto.offset.reset", "earliest")];
        let consumer = librdkafka::consumer(&gateway.bootstrap(), &settings);
        consumer.subscribe(&["t"]).expect("a subscription");
        assert_eq!(texts(&take(&consumer, 10)), values);
    }
}

#[test]
fn librdkafka_resumes_where_it_committed() {
    let nats = Nats::start(Version::Newest);
    let mut gateway = Gateway::start(&nats, &[]);
    let values = numbered(10);
    librdkafka::produce(&gateway.bootstrap(), "t", &[], &values);
    let settings = [("group.id", "g")];
    let consumer = librdkafka::consumer(&gateway.bootstrap(), &settings);
    consumer.subscribe(&["t"]).expect("a subscription");
    assert_eq!(texts(&take(&consumer, 10)), values);
    let mut list = TopicPartitionList::new();
    list.add_partition_offset("t", 0, Offset::Offset(6)).expect("a legal offset");
    consumer.commit(&list, CommitMode::Sync).expect("the commit is taken");
    drop(consumer);
    gateway.kill();
    gateway.restart();
    let consumer = librdkafka::consumer(&gateway.bootstrap(), &settings);
    consumer.subscribe(&["t"]).expect("a subscription");
    assert_eq!(texts(&take(&consumer, 4)), values[6..]);
}

on_each_server! {
    fn times_find_the_exact_record(version) {
        let nats = Nats::start(version);
        let mut gateway = Gateway::start(&nats, &[]);
        let mut wire = gateway.wire();
        wire.create_topic("t", 1);
        assert_eq!(wire.try_list_offset("t", 0, 0), (0, -1), "an empty log has no such record");
        for start in [1000, 2000, 3000] {
            wire.produce_ok("t", 0, &Batch { timestamp: start, ..Batch::of(["x"; 10]) });
        }
        let lookups = [(0, 0), (1000, 0), (1004, 4), (1010, 10), (2000, 10), (2009, 19), (3005, 25), (3010, -1)];
        for (time, offset) in lookups {
            assert_eq!(wire.list_offset("t", 0, time), offset, "the first record at or after {time}");
        }
        gateway.kill();
        gateway.restart();
        let mut wire = gateway.wire();
        for (time, offset) in lookups {
            assert_eq!(wire.list_offset("t", 0, time), offset, "after a restart, at or after {time}");
        }
        assert_eq!(wire.list_offset("t", 0, -3), 29, "the record with the greatest timestamp");
    }

    fn a_removed_start_moves_the_log_start(version) {
        let nats = Nats::start(version);
        let mut gateway = Gateway::start(&nats, &[]);
        let mut wire = gateway.wire();
        wire.create_topic("t", 1);
        let mut jetstream = nats.jetstream();
        for values in [["a", "b"], ["c", "d"], ["e", "f"]] {
            wire.produce_ok("t", 0, &Batch::of(values));
        }
        let last = jetstream.state("kafka-t-0").last;
        jetstream.purge("kafka-t-0", Some(last));
        gateway.kill();
        gateway.restart();
        let mut wire = gateway.wire();
        assert_eq!((wire.list_offset("t", 0, EARLIEST), wire.list_offset("t", 0, LATEST)), (4, 6));
        for outside in [0, 3, 7, LARGE] {
            let data = wire.fetch("t", 0, outside);
            assert_eq!(data.error_code, OFFSET_OUT_OF_RANGE, "a fetch at {outside}");
            assert_eq!(data.records.unwrap_or_default().len(), 0);
        }
        let data = wire.fetch("t", 0, 6);
        assert_eq!((data.error_code, data.log_start_offset, data.high_watermark), (0, 4, 6));
        assert_eq!(wire.read_all("t", 0, 4), [(4, "e".to_owned()), (5, "f".to_owned())]);
    }
}
