//! Requests that name very much.

use super::*;
use crate::protocol::messages::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use crate::protocol::messages::describe_groups::DescribeGroupsRequest;
use crate::protocol::messages::describe_producers::{DescribeProducersRequest, TopicRequest};
use crate::protocol::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use crate::protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};

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
    let configs = DescribeConfigsRequest { resources: vec![t; 5], ..Default::default() };
    assert_eq!(rig.ask(4, &configs).results.len(), 1);

    let groups = vec!["g".to_owned(), "h".to_owned(), "g".to_owned()];
    let described = rig.ask(5, &DescribeGroupsRequest { groups, ..Default::default() });
    let named: Vec<_> = described.groups.iter().map(|group| group.group_id.as_str()).collect();
    assert_eq!(named, ["g", "h"]);

    let g = OffsetFetchRequestGroup { group_id: "g".to_owned(), ..Default::default() };
    let fetched = rig.ask(8, &OffsetFetchRequest { groups: vec![g; 5], ..Default::default() });
    assert_eq!(fetched.groups.len(), 1);

    let t = TopicRequest { name: "t".to_owned(), partition_indexes: vec![0, 0, 0] };
    let producers = rig.ask(0, &DescribeProducersRequest { topics: vec![t; 5] });
    assert_eq!(producers.topics.iter().map(|topic| topic.partitions.len()).sum::<usize>(), 1);
}

/// Each row repeats the metadata, and four bytes ask for it.
#[test]
fn a_commit_is_told_once_however_often_its_partition_is_named() {
    let rig = Rig::new();
    rig.create(topic("t", 2, 1));
    let name = || "t".to_owned();
    let fetch = |indexes: &[&[i32]]| {
        let named = |partition_indexes: &&[i32]| OffsetFetchRequestTopics {
            name: name(),
            partition_indexes: partition_indexes.to_vec(),
        };
        let topics = Some(indexes.iter().map(named).collect());
        let group = OffsetFetchRequestGroup { group_id: "g".to_owned(), topics, ..Default::default() };
        let group = rig.ask(8, &OffsetFetchRequest { groups: vec![group], ..Default::default() }).groups.remove(0);
        let told = group.topics.iter().flat_map(|topic| topic.partitions.iter().map(|p| p.partition_index));
        (group.error_code, told.collect::<Vec<_>>())
    };
    assert_eq!(fetch(&[&[0, 0, 1, 0], &[1, 7, 0]]), (0, vec![0, 1, 7]));
    let topics = Some(vec![OffsetFetchRequestTopic { name: name(), partition_indexes: vec![0; 5] }; 2]);
    let single = rig.ask(7, &OffsetFetchRequest { group_id: "g".to_owned(), topics, ..Default::default() });
    assert_eq!(single.topics.iter().map(|topic| topic.partitions.len()).sum::<usize>(), 1);
    rig.store.set_outage(Some(Outage::NoAnswer));
    let loading = ErrorCode::COORDINATOR_LOAD_IN_PROGRESS.code();
    assert_eq!(fetch(&[&[0, 0, 1, 0], &[1, 7, 0]]), (loading, vec![0, 1, 7]));
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
