//! DescribeTopicPartitions: topics and their partitions, page by page (KIP-966).
//!
//! Behavior:
//! - Topics come in the order of their names, each once, from the cursor's topic and partition on.
//! - A page holds at most the partitions asked for, never more than 2,000; the next cursor says where the next begins.
//! - A topic that is not there is told as such, unless all were asked for. None is created.
//! - There are no eligible leader replicas: the lists are empty.
//! - If all topics are asked for and none were ever read, no list can be given, and there is no error code for the whole:
//!   the connection is closed, and clients ask again.

use super::authorized::TOPIC_OPERATIONS;
use super::{Context, Outcome, partitions};
use crate::catalog::{Topic, names};
use crate::limits::DESCRIBED_PARTITIONS_MAX;
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::describe_topic_partitions::{
    Cursor, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
};
use std::collections::BTreeMap;
use std::sync::Arc;

type Found = Result<Arc<Topic>, ErrorCode>;

pub fn handle(cx: &Context, request: DescribeTopicPartitionsRequest) -> Outcome {
    let found = if request.topics.is_empty() {
        match cx.services.catalog.topics() {
            Ok(topics) => topics.into_iter().map(|topic| (topic.name.clone(), Ok(topic))).collect(),
            Err(error) => return cx.close_unlisted(&error),
        }
    } else {
        let names: BTreeMap<&String, ()> = request.topics.iter().map(|topic| (&topic.name, ())).collect();
        let cursor = request.cursor.as_ref();
        let is_legal = cursor.is_none_or(|cursor| names.contains_key(&cursor.topic_name));
        if !is_legal || cursor.is_some_and(|cursor| cursor.partition_index < 0) {
            return cx.reply(&refused(&request));
        }
        let from = cursor.map_or("", |cursor| &cursor.topic_name);
        let names = names.into_keys().filter(|name| name.as_str() >= from);
        names.map(|name| (name.clone(), find(cx, name))).collect()
    };
    let limit = usize::try_from(request.response_partition_limit).unwrap_or(1).clamp(1, DESCRIBED_PARTITIONS_MAX);
    cx.reply(&page(cx, found, request.cursor.as_ref(), limit))
}

fn find(cx: &Context, name: &str) -> Found {
    if names::fault(name).is_some() {
        return Err(ErrorCode::INVALID_TOPIC_EXCEPTION);
    }
    match cx.topic(name) {
        Ok(Some(topic)) => Ok(topic),
        Ok(None) => Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        Err(_) => Err(ErrorCode::LEADER_NOT_AVAILABLE),
    }
}

/// A cursor that names none of the topics asked for, or a partition below zero. There is no error for the whole.
fn refused(request: &DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse {
    let row = |name: &String| refusal(name.clone(), ErrorCode::INVALID_REQUEST);
    let topics = request.topics.iter().map(|topic| row(&topic.name)).collect();
    DescribeTopicPartitionsResponse { topics, ..Default::default() }
}

fn page(
    cx: &Context,
    found: BTreeMap<String, Found>,
    cursor: Option<&Cursor>,
    limit: usize,
) -> DescribeTopicPartitionsResponse {
    let mut response = DescribeTopicPartitionsResponse::default();
    let mut left = limit;
    for (name, found) in found {
        let begin = cursor.filter(|cursor| cursor.topic_name == name).map_or(0, |cursor| cursor.partition_index);
        if cursor.is_some_and(|cursor| name < cursor.topic_name) {
            continue;
        }
        if left == 0 {
            response.next_cursor = Some(Cursor { topic_name: name, partition_index: 0 });
            break;
        }
        let topic = match found {
            Ok(topic) => topic,
            Err(code) => {
                response.topics.push(refusal(name, code));
                continue;
            }
        };
        let indexes = (0..).zip(&topic.partitions).map(|(index, _)| index).filter(|index| *index >= begin);
        let rows: Vec<_> = indexes.clone().take(left).map(|index| partition(cx, &topic, index)).collect();
        left -= rows.len();
        let next = indexes.clone().nth(rows.len());
        response.topics.push(described(&topic, rows));
        if let Some(partition_index) = next {
            response.next_cursor = Some(Cursor { topic_name: name, partition_index });
            break;
        }
    }
    response
}

fn described(
    topic: &Topic,
    partitions: Vec<DescribeTopicPartitionsResponsePartition>,
) -> DescribeTopicPartitionsResponseTopic {
    DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::NONE.code(),
        name: Some(topic.name.clone()),
        topic_id: topic.id,
        is_internal: names::is_internal(&topic.name),
        partitions,
        topic_authorized_operations: TOPIC_OPERATIONS,
    }
}

fn partition(cx: &Context, topic: &Topic, partition_index: i32) -> DescribeTopicPartitionsResponsePartition {
    let leader = partitions::leader(cx, topic, partition_index);
    DescribeTopicPartitionsResponsePartition {
        error_code: ErrorCode::NONE.code(),
        partition_index,
        leader_id: leader,
        leader_epoch: 0,
        replica_nodes: vec![leader],
        isr_nodes: vec![leader],
        eligible_leader_replicas: Some(Vec::new()),
        last_known_elr: Some(Vec::new()),
        offline_replicas: Vec::new(),
    }
}

fn refusal(name: String, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic {
    DescribeTopicPartitionsResponseTopic {
        error_code: code.code(),
        is_internal: names::is_internal(&name),
        name: Some(name),
        ..Default::default()
    }
}
