//! AlterPartitionReassignments.
//!
//! Behavior:
//! - The replicas that a partition has already may be asked for, and nothing happens, as in Kafka.
//! - Others are refused with INVALID_REPLICA_ASSIGNMENT: where the copies of a partition are is JetStream's business.
//! - Nothing is ever under way, so nothing can be ended: NO_REASSIGNMENT_IN_PROGRESS.
//!
//! Version notes: 1 may forbid another replication factor (KIP-860), which is then INVALID_REPLICATION_FACTOR.

use super::errors::for_admin;
use super::{Context, Outcome, partitions};
use crate::catalog::Topic;
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, ReassignablePartition,
    ReassignablePartitionResponse, ReassignableTopic, ReassignableTopicResponse,
};
use std::collections::HashSet;

type Refusal = (ErrorCode, String);

pub fn handle(cx: &Context, request: AlterPartitionReassignmentsRequest) -> Outcome {
    let may_resize = request.allow_replication_factor_change;
    let responses = request.topics.iter().map(|topic| reassign(cx, topic, may_resize)).collect();
    cx.reply(&AlterPartitionReassignmentsResponse {
        allow_replication_factor_change: may_resize,
        responses,
        ..Default::default()
    })
}

fn reassign(cx: &Context, topic: &ReassignableTopic, may_resize: bool) -> ReassignableTopicResponse {
    let found = cx.topic(&topic.name).map_err(|error| (for_admin(&error), error.to_string()));
    let row = |(place, partition): (usize, &ReassignablePartition)| {
        let index = partition.partition_index;
        let is_there = |found: &Topic| usize::try_from(index).is_ok_and(|index| index < found.partitions.len());
        // The text stands in each row, which may be as many as a request has bytes for: only the first one names.
        let outcome = found.clone().and_then(|found| match found {
            Some(found) if is_there(&found) => check(cx, &found, partition, may_resize),
            Some(_) if place == 0 => Err(unknown(format!("Unable to find partition {}:{index}.", topic.name))),
            Some(_) => Err(unknown("Unable to find a partition.".to_owned())),
            None if place == 0 => Err(unknown(format!("Unable to find a topic named {}.", topic.name))),
            None => Err(unknown("Unable to find a topic.".to_owned())),
        });
        let (error_code, error_message) = match outcome {
            Ok(()) => (ErrorCode::NONE, None),
            Err((code, text)) => (code, Some(text)),
        };
        ReassignablePartitionResponse { partition_index: index, error_code: error_code.code(), error_message }
    };
    ReassignableTopicResponse {
        name: topic.name.clone(),
        partitions: topic.partitions.iter().enumerate().map(row).collect(),
    }
}

fn unknown(text: String) -> Refusal {
    (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, text)
}

fn check(cx: &Context, topic: &Topic, partition: &ReassignablePartition, may_resize: bool) -> Result<(), Refusal> {
    let Some(replicas) = &partition.replicas else {
        return Err((ErrorCode::NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.".to_owned()));
    };
    let invalid = |text: String| Err((ErrorCode::INVALID_REPLICA_ASSIGNMENT, text));
    if replicas.is_empty() {
        return invalid("The list of replicas is empty.".to_owned());
    }
    let brokers = cx.services.cluster.brokers();
    let mut seen = HashSet::new();
    for id in replicas {
        if !brokers.iter().any(|broker| broker.id == *id) {
            return invalid(format!("There is no broker {id}."));
        }
        if !seen.insert(id) {
            return invalid(format!("Broker {id} is listed more than once."));
        }
    }
    if !may_resize && replicas.len() != 1 {
        let text = format!("The replication factor is changed from 1 to {}.", replicas.len());
        return Err((ErrorCode::INVALID_REPLICATION_FACTOR, text));
    }
    match replicas[..] == [partitions::leader(cx, topic, partition.partition_index)] {
        true => Ok(()),
        false => {
            invalid("JetStream keeps the copies of a partition; brokers have none that could be moved.".to_owned())
        }
    }
}
