//! Requests that name very much.

use super::*;
use crate::limits::RECORD_ERRORS_MAX;
use crate::protocol::messages::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic,
};
use crate::protocol::messages::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use crate::protocol::messages::describe_groups::DescribeGroupsRequest;
use crate::protocol::messages::describe_producers::{DescribeProducersRequest, TopicRequest};
use crate::protocol::messages::elect_leaders::{ElectLeadersRequest, TopicPartitions};
use crate::protocol::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use crate::protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use crate::protocol::messages::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use crate::records::build::BatchBuilder;

/// A request that has been looking for things for long.
fn late<R: Request>(rig: &Rig, version: i16) -> Context {
    let now = rig.clock.now();
    rig.clock.advance(crate::limits::LOOKING_MAX);
    let services = rig.gateway.services().clone();
    let header = RequestHeader { api_key: R::KEY.code(), ..header(version) };
    Context { services, header, client_host: PEER, now, is_visit: false }
}

#[test]
fn a_request_that_names_very_much_comes_to_an_end() {
    let rig = Rig::new();
    rig.metadata(9, &["known"]);
    rig.store.set_outage(Some(Outage::NoAnswer));
    let reads = || rig.store.counts().reads();
    let before = reads();

    let names = no_creation(&["known", "a", "b", "c"]);
    let Outcome::Reply(reply) = metadata::handle(&late::<MetadataRequest>(&rig, 9), names) else {
        panic!("it is answered")
    };
    let (_, response) = frame::read_response::<MetadataRequest>(9, Bytes::from(reply).slice(4..)).expect("readable");
    let unknown = ErrorCode::LEADER_NOT_AVAILABLE.code();
    assert_eq!(codes(&response.topics), [0, unknown, unknown, unknown], "to be asked for again");

    let coordinator_keys = vec!["a".to_owned(), "b".to_owned()];
    let ask = FindCoordinatorRequest { coordinator_keys, ..Default::default() };
    let Outcome::Reply(reply) = find_coordinator::handle(&late::<FindCoordinatorRequest>(&rig, 4), ask) else {
        panic!("it is answered")
    };
    let (_, found) =
        frame::read_response::<FindCoordinatorRequest>(4, Bytes::from(reply).slice(4..)).expect("readable");
    for row in found.coordinators {
        check(row.error_code, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    }
    assert_eq!(reads(), before, "and the store is not asked");
}

/// Half a megabyte of names must not ask for gigabytes.
#[test]
fn what_is_named_again_is_told_once() {
    let rig = Rig::new();
    rig.create(topic("t", 1, 1));
    let t = DescribeConfigsResource { resource_type: 2, resource_name: "t".to_owned(), ..Default::default() };
    let configs = DescribeConfigsRequest { resources: vec![t.clone(); 5], ..Default::default() };
    assert_eq!(rig.ask(4, &configs).results.len(), 1);
    let broker = |id: &str| DescribeConfigsResource { resource_type: 4, resource_name: id.to_owned(), ..t.clone() };
    let resources = vec![broker("3"), broker("03"), broker("+3"), broker("")];
    let told = rig.ask(4, &DescribeConfigsRequest { resources, ..Default::default() }).results;
    assert_eq!(told.iter().map(|row| row.resource_name.as_str()).collect::<Vec<_>>(), ["3", ""]);

    let groups = vec!["g".to_owned(), "h".to_owned(), "g".to_owned()];
    let described = rig.ask(5, &DescribeGroupsRequest { groups, ..Default::default() });
    let named: Vec<_> = described.groups.iter().map(|group| group.group_id.as_str()).collect();
    assert_eq!(named, ["g", "h"]);

    let g = OffsetFetchRequestGroup { group_id: "g".to_owned(), ..Default::default() };
    let fetched = rig.ask(8, &OffsetFetchRequest { groups: vec![g; 5], ..Default::default() });
    assert_eq!(fetched.groups.len(), 1);

    // A commit may have 4 KB of metadata, and is named by four bytes.
    let (name, partition_indexes) = ("t".to_owned(), vec![1, 0, 1, 0]);
    let t = OffsetFetchRequestTopics { name: name.clone(), partition_indexes: partition_indexes.clone() };
    let g = OffsetFetchRequestGroup { group_id: "g".to_owned(), topics: Some(vec![t; 2]), ..Default::default() };
    let fetched = rig.ask(8, &OffsetFetchRequest { groups: vec![g], ..Default::default() });
    let rows = fetched.groups[0].topics.iter().flat_map(|topic| &topic.partitions);
    assert_eq!(rows.map(|row| row.partition_index).collect::<Vec<_>>(), [1, 0]);
    let t = OffsetFetchRequestTopic { name, partition_indexes };
    let request = OffsetFetchRequest { group_id: "g".to_owned(), topics: Some(vec![t; 2]), ..Default::default() };
    let rows = rig.ask(7, &request).topics.into_iter().flat_map(|topic| topic.partitions);
    assert_eq!(rows.map(|row| row.partition_index).collect::<Vec<_>>(), [1, 0]);

    let t = TopicRequest { name: "t".to_owned(), partition_indexes: vec![0, 0, 0] };
    let producers = rig.ask(0, &DescribeProducersRequest { topics: vec![t; 5] });
    assert_eq!(producers.topics.iter().map(|topic| topic.partitions.len()).sum::<usize>(), 1);
}

#[test]
fn a_topic_named_by_its_id_is_told_once_whatever_names_stand_beside_it() {
    let rig = Rig::new();
    let topic_id = rig.create(topic("t", 1, 1)).topic_id;
    let named = |name: &str| MetadataRequestTopic { topic_id, name: Some(name.to_owned()) };
    let topics = Some(vec![named("a"), named("b"), MetadataRequestTopic { topic_id, name: None }]);
    assert_eq!(rig.ask(12, &MetadataRequest { topics, ..Default::default() }).topics.len(), 1);
}

/// Four bytes name a partition, 32,767 may name its topic.
#[test]
fn a_long_name_is_told_once_more_and_not_for_each_partition() {
    const PARTITIONS: i32 = 100;
    let rig = Rig::new();
    let name = "x".repeat(0x7fff);
    let partitions = (0..PARTITIONS).collect();
    let elect = TopicPartitions { topic: name.clone(), partitions };
    let elect = ElectLeadersRequest { topic_partitions: Some(vec![elect]), ..Default::default() };
    let partition = |partition_index| ReassignablePartition { partition_index, replicas: None };
    let reassign = ReassignableTopic { name: name.clone(), partitions: (0..PARTITIONS).map(partition).collect() };
    let reassign = AlterPartitionReassignmentsRequest { topics: vec![reassign], ..Default::default() };
    for frame in [frame_of(1, &elect), frame_of(0, &reassign)] {
        let answer = rig.answer(frame).expect("it is answered");
        assert!(answer.len() < 3 * name.len(), "{} bytes", answer.len());
    }
}

/// A thousand records shrink to two kilobytes, and the sentences about them have a hundred.
#[test]
fn refused_records_are_named_up_to_a_number_in_one_answer() {
    let rig = Rig::new();
    rig.create(topic("t", 1, 1));
    let tomorrow = rig.clock.now().wall_ms + 24 * 3_600_000;
    let batch = (0..RECORD_ERRORS_MAX).fold(BatchBuilder::new().timestamp(tomorrow), |batch, _| batch.value("v"));
    let data = PartitionProduceData { index: 0, records: Some(batch.build().into()) };
    let t = TopicProduceData { name: "t".to_owned(), partition_data: vec![data; 3], ..Default::default() };
    let request = ProduceRequest { acks: -1, topic_data: vec![t], ..Default::default() };
    let Outcome::Park(mut parked) = rig.gateway.dispatch(frame_of(8, &request).into(), PEER) else {
        panic!("a produce waits")
    };
    let Some(Outcome::Reply(frame)) = parked.poll(rig.clock.now()) else { panic!("a refusal is told at once") };
    let (_, response) = frame::read_response::<ProduceRequest>(8, Bytes::from(frame).slice(4..)).expect("it is read");
    let rows = &response.responses[0].partition_responses;
    rows.iter().for_each(|row| check(row.error_code, ErrorCode::INVALID_TIMESTAMP));
    let named: Vec<usize> = rows.iter().map(|row| row.record_errors.len()).collect();
    assert_eq!(named, [RECORD_ERRORS_MAX, 1, 1], "the batch says why it was refused, whatever was told before");
}

#[test]
fn what_is_deleted_is_told_once_however_often_it_is_named() {
    let rig = Rig::new();
    rig.create(topic("t", 2, 1));
    let g = OffsetFetchRequestGroup { group_id: "g".to_owned(), topics: None, ..Default::default() };
    let fetch = OffsetFetchRequest { groups: vec![g], ..Default::default() };
    // The first look makes the bucket.
    assert!(rig.ask(8, &fetch).groups[0].topics.is_empty());
    rig.store.publish_foreign("$KV.kafka-consumer-offsets.g.t.1", "42").expect("stored");
    let partitions = [0, 1, 1, 8, 1, 8].map(|partition_index| OffsetDeleteRequestPartition { partition_index });
    let topics = vec![OffsetDeleteRequestTopic { name: "t".to_owned(), partitions: partitions.to_vec() }];
    let deleted = rig.ask(0, &OffsetDeleteRequest { group_id: "g".to_owned(), topics });
    let told = deleted.topics[0].partitions.iter().map(|p| (p.partition_index, p.error_code));
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code();
    assert_eq!(told.collect::<Vec<_>>(), [(0, 0), (1, 0), (8, unknown)]);
    assert!(rig.ask(8, &fetch).groups[0].topics.is_empty());
}
