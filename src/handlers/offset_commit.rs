//! OffsetCommit: stores a group's offsets.
//!
//! Behavior:
//! - Topics and partitions that are not there are refused each by itself; all others go out together and are answered, parked,
//!   when they are stored.
//! - A commit carries its topic's id, so that it does not count for a topic created later under the same name.
//! - Simple consumers commit with generation -1 and no member id, while nobody is in the group.
//! - Any offset is stored, also a negative one: kafkajs commits -2 where it means "from the start" and reads it back.
//!
//! Version notes: 2 to 4 name a retention time (KIP-211 dropped it), 6 has leader epochs (KIP-320), 7 static members
//! (KIP-345); from 9 on an unknown group is GROUP_ID_NOT_FOUND, before it ILLEGAL_GENERATION.

use super::awaited::{STORE_WAIT, answer_when_there};
use super::errors::for_coordinator;
use super::owned::OfGroup;
use super::{Context, Outcome};
use crate::catalog::Topic;
use crate::group::event::Sender;
use crate::offsets::{self, CommitError, Committed, TopicPartition};
use crate::promise::promises;
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};

const NOT_FOUND_FROM: i16 = 9;

impl OfGroup for OffsetCommitRequest {
    fn group_id(&self) -> &str {
        &self.group_id
    }

    fn refused(self, cx: &Context, code: ErrorCode) -> Outcome {
        let error_code = told(code).code();
        let row = |partition: OffsetCommitRequestPartition| OffsetCommitResponsePartition {
            partition_index: partition.partition_index,
            error_code,
        };
        let topic = |topic: OffsetCommitRequestTopic| OffsetCommitResponseTopic {
            name: topic.name,
            partitions: topic.partitions.into_iter().map(row).collect(),
        };
        cx.reply(&OffsetCommitResponse { topics: self.topics.into_iter().map(topic).collect(), ..Default::default() })
    }
}

pub fn handle(cx: &Context, request: OffsetCommitRequest) -> Outcome {
    let expire_ms = (request.retention_time_ms >= 0).then(|| cx.now.wall_ms.saturating_add(request.retention_time_ms));
    let mut answer = OffsetCommitResponse::default();
    // Where the row of each commit stands in the answer, and the commit.
    let mut places = Vec::new();
    let mut commits = Vec::new();
    for topic in request.topics {
        let found = cx.topic(&topic.name).map_err(|error| for_coordinator(&error));
        let found = found.and_then(|topic| topic.ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
        let mut rows = Vec::with_capacity(topic.partitions.len());
        for partition in topic.partitions {
            let index = partition.partition_index;
            let checked = found.as_ref().map_err(|code| *code).and_then(|topic| check(cx, topic, partition));
            let error_code = match checked.map_err(told) {
                Ok(mut committed) => {
                    committed.expire_ms = expire_ms;
                    places.push((answer.topics.len(), rows.len()));
                    commits.push((TopicPartition::new(&topic.name, index), committed));
                    ErrorCode::NONE
                }
                Err(code) => code,
            };
            rows.push(OffsetCommitResponsePartition { partition_index: index, error_code: error_code.code() });
        }
        answer.topics.push(OffsetCommitResponseTopic { name: topic.name, partitions: rows });
    }
    if commits.is_empty() {
        return cx.reply(&answer);
    }
    let sender = Sender {
        member_id: request.member_id,
        instance_id: request.group_instance_id,
        generation: request.generation_id_or_member_epoch,
    };
    let (kept, pending) = promises(&cx.services.wakeups, commits.len());
    let commits = commits.into_iter().zip(kept).map(|((at, committed), promise)| (at, committed, promise));
    cx.services.groups.commit(&request.group_id, sender, commits.collect());
    answer_when_there(cx, pending, STORE_WAIT, move |cx, outcomes| {
        for ((topic, row), outcome) in places.iter().zip(outcomes) {
            let row = answer.topics.get_mut(*topic).and_then(|topic| topic.partitions.get_mut(*row));
            if let Some(row) = row {
                row.error_code = code(cx, outcome).code();
            }
        }
        cx.reply(&answer)
    })
}

fn check(cx: &Context, topic: &Topic, partition: OffsetCommitRequestPartition) -> Result<Committed, ErrorCode> {
    let exists = usize::try_from(partition.partition_index).is_ok_and(|index| index < topic.partitions.len());
    let metadata = partition.committed_metadata.unwrap_or_default();
    // Counted as Kafka counts, in UTF-16 units.
    let fits = metadata.encode_utf16().count() <= cx.services.config.groups.offset_metadata_bytes_max;
    match (exists, fits) {
        (false, _) => Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        (_, false) => Err(ErrorCode::OFFSET_METADATA_TOO_LARGE),
        (true, true) => Ok(Committed {
            offset: partition.committed_offset,
            leader_epoch: partition.committed_leader_epoch,
            metadata,
            commit_ms: cx.now.wall_ms,
            expire_ms: None,
            topic_id: Some(topic.id),
        }),
    }
}

/// After NOT_COORDINATOR and COORDINATOR_NOT_AVAILABLE librdkafka closes its connection to the coordinator, and with it
/// fails the commit that it is about to repeat there; that makes it look for the coordinator again, and so on until its
/// session is over. "Loading" it repeats where it is, as all clients do. A heartbeat tells it to move.
fn told(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE => ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
        other => other,
    }
}

fn code(cx: &Context, outcome: Option<offsets::Outcome>) -> ErrorCode {
    told(match outcome {
        Some(Ok(())) => ErrorCode::NONE,
        Some(Err(CommitError::Refused(ErrorCode::GROUP_ID_NOT_FOUND))) if cx.header.api_version < NOT_FOUND_FROM => {
            ErrorCode::ILLEGAL_GENERATION
        }
        Some(Err(CommitError::Refused(code))) => code,
        Some(Err(CommitError::NotOwner)) => ErrorCode::NOT_COORDINATOR,
        Some(Err(CommitError::Store(error))) => for_coordinator(&error),
        None => ErrorCode::COORDINATOR_NOT_AVAILABLE,
    })
}
