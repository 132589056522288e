//! ElectLeaders.
//!
//! Behavior: a partition's leader is its only replica, so it has the leader it prefers, and no election is needed. Asked
//! for all partitions, Kafka leaves out those without need; so every topic comes with an empty list.
//!
//! Version notes: 0 elects preferred leaders only; 1 tells an error for the whole request.

use super::errors::for_admin;
use super::{Context, Outcome};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::elect_leaders::{
    ElectLeadersRequest, ElectLeadersResponse, PartitionResult, ReplicaElectionResult, TopicPartitions,
};

const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;

type Refusal = (ErrorCode, String);

pub fn handle(cx: &Context, request: ElectLeadersRequest) -> Outcome {
    let known = matches!(request.election_type, PREFERRED | UNCLEAN);
    let unknown_type = || (ErrorCode::INVALID_REQUEST, format!("Unknown election type {}", request.election_type));
    let refused = if known { None } else { Some(unknown_type()) };
    let mut response = ElectLeadersResponse::default();
    match (&request.topic_partitions, refused) {
        (asked, Some(refusal)) => {
            response.error_code = refusal.0.code();
            let asked = asked.iter().flatten();
            response.replica_election_results = asked.map(|topic| rows(topic, |_, _| refusal.clone())).collect();
        }
        (Some(asked), None) => {
            response.replica_election_results = asked.iter().map(|topic| elect(cx, topic)).collect();
        }
        (None, None) => match cx.services.catalog.topics() {
            Ok(topics) => {
                let row = |topic: &str| ReplicaElectionResult { topic: topic.to_owned(), partition_result: Vec::new() };
                response.replica_election_results = topics.iter().map(|topic| row(&topic.name)).collect();
            }
            Err(error) => response.error_code = for_admin(&error).code(),
        },
    }
    cx.reply(&response)
}

fn elect(cx: &Context, asked: &TopicPartitions) -> ReplicaElectionResult {
    let unknown = |text: String| (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, text);
    match cx.topic(&asked.topic) {
        Ok(Some(topic)) => rows(asked, |index, is_first| match usize::try_from(index) {
            Ok(place) if place < topic.partitions.len() => {
                let text = "The partition has the leader it prefers; no election is needed.";
                (ErrorCode::ELECTION_NOT_NEEDED, text.to_owned())
            }
            _ if is_first => unknown(format!("No such partition as {}-{index}", asked.topic)),
            _ => unknown("No such partition".to_owned()),
        }),
        Ok(None) => rows(asked, |_, is_first| match is_first {
            true => unknown(format!("No such topic as {}", asked.topic)),
            false => unknown("No such topic".to_owned()),
        }),
        Err(error) => rows(asked, |_, _| (for_admin(&error), error.to_string())),
    }
}

/// The texts but the first must be short: four bytes name a partition.
fn rows(asked: &TopicPartitions, outcome: impl Fn(i32, bool) -> Refusal) -> ReplicaElectionResult {
    let row = |(place, partition_id): (usize, &i32)| {
        let (code, text) = outcome(*partition_id, place == 0);
        PartitionResult { partition_id: *partition_id, error_code: code.code(), error_message: Some(text) }
    };
    let partition_result = asked.partitions.iter().enumerate().map(row).collect();
    ReplicaElectionResult { topic: asked.topic.clone(), partition_result }
}
