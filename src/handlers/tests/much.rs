//! Requests that name very much.

use super::*;
use crate::protocol::messages::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use crate::protocol::messages::describe_groups::DescribeGroupsRequest;
use crate::protocol::messages::describe_producers::{DescribeProducersRequest, TopicRequest};
use crate::protocol::messages::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup};

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
