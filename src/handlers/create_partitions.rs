//! CreatePartitions: gives topics more partitions, or only checks whether it could.
//!
//! Behavior:
//! - A topic gains all of them or none. They are usable on every gateway when the answer comes. Settings, replicas and
//!   limits are those of partition 0.
//! - A manual assignment is checked as Kafka does, against what Metadata tells: live brokers, one replica each. It places
//!   nothing, since any gateway serves any partition.
//! - No increase is INVALID_PARTITIONS, and so is too little room in JetStream, with what was asked and what is free.
//! - One row for each name, in the order of the request; one that is there twice is refused.
//!
//! Version notes: none change the meaning. There are no quotas (KIP-599).

use super::alter_configs::{Refusal, repeated, row};
use super::errors::{for_admin, grow_topic_error};
use super::{Context, Outcome};
use crate::catalog::{AlterTopicError, Catalog};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::create_partitions::{
    CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic,
    CreatePartitionsTopicResult,
};
use std::collections::HashSet;
use std::time::{Duration, Instant};

const TIMEOUT_MIN: Duration = Duration::from_secs(1);
const TIMEOUT_MAX: Duration = Duration::from_secs(60);

/// The replicas of a partition that Metadata tells: the gateway itself.
const REPLICAS_TOLD: usize = 1;

pub fn handle(cx: &Context, request: CreatePartitionsRequest) -> Outcome {
    let timeout = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let deadline = cx.now.mono + timeout.clamp(TIMEOUT_MIN, TIMEOUT_MAX);
    let twice = repeated(request.topics.iter().map(|topic| topic.name.as_str()));
    let mut answered = HashSet::new();
    let results = request.topics.iter().filter(|topic| answered.insert(topic.name.as_str())).map(|topic| {
        let outcome = match twice.contains(topic.name.as_str()) {
            true => Err((ErrorCode::INVALID_REQUEST, "Duplicate topic name.".to_owned())),
            false => grow(cx, topic, request.validate_only, deadline),
        };
        let (error_code, error_message) = row(outcome);
        CreatePartitionsTopicResult { name: topic.name.clone(), error_code, error_message }
    });
    cx.reply(&CreatePartitionsResponse { results: results.collect(), ..Default::default() })
}

fn grow(cx: &Context, asked: &CreatePartitionsTopic, validate_only: bool, deadline: Instant) -> Result<(), Refusal> {
    let catalog = &cx.services.catalog;
    let topic = cx.topic_by(&asked.name, deadline).map_err(|error| (for_admin(&error), error.to_string()))?;
    let unknown = AlterTopicError::Unknown(asked.name.clone());
    let topic = topic.ok_or_else(|| grow_topic_error(&unknown))?;
    let additional = Catalog::validate_growth(&topic, asked.count).map_err(|error| grow_topic_error(&error))?;
    if let Some(assignments) = &asked.assignments {
        check_assignments(cx, assignments, additional)?;
    }
    if validate_only {
        return Ok(());
    }
    catalog.grow(&asked.name, asked.count, deadline).map_err(|error| grow_topic_error(&error))
}

fn check_assignments(
    cx: &Context,
    assignments: &[CreatePartitionsAssignment],
    additional: usize,
) -> Result<(), Refusal> {
    let wrong = |text: String| Err((ErrorCode::INVALID_REPLICA_ASSIGNMENT, text));
    if assignments.len() != additional {
        return wrong(format!(
            "Attempted to add {additional} additional partition(s), but only {} assignment(s) were specified.",
            assignments.len()
        ));
    }
    let brokers: Vec<i32> = cx.services.cluster.brokers().iter().map(|broker| broker.id).collect();
    for CreatePartitionsAssignment { broker_ids } in assignments {
        if broker_ids.is_empty() {
            return wrong("The manual partition assignment includes an empty replica list.".to_owned());
        }
        if let Some(foreign) = broker_ids.iter().find(|id| !brokers.contains(id)) {
            return wrong(format!(
                "The manual partition assignment includes broker {foreign}, but no such broker is registered."
            ));
        }
        if let Some(again) = repeated(broker_ids.iter()).into_iter().next() {
            return wrong(format!("The manual partition assignment includes the broker {again} more than once."));
        }
        if broker_ids.len() != REPLICAS_TOLD {
            return wrong(format!(
                "The manual partition assignment includes a partition with {} replica(s), but this is not consistent with \
                 previous partitions, which have {REPLICAS_TOLD} replica(s).",
                broker_ids.len()
            ));
        }
    }
    Ok(())
}
