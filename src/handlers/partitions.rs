//! From what a request names to a partition's log, and from what the log says to Kafka's codes.

use crate::catalog::Topic;
use crate::cluster::Cluster;
use crate::handlers::{Context, errors};
use crate::log::{LogError, PartitionLog};
use crate::protocol::error_code::ErrorCode;
use crate::wire::Uuid;
use std::sync::Arc;

/// Partitions that are named to people.
const NAMED_MAX: usize = 8;

/// How a request names a topic: by id in newer versions, by name in older ones.
pub enum Named<'a> {
    Name(&'a str),
    Id(Uuid),
}

impl Named<'_> {
    /// The code for a topic that is not there.
    pub fn unknown(&self) -> ErrorCode {
        match self {
            Named::Name(_) => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            Named::Id(_) => ErrorCode::UNKNOWN_TOPIC_ID,
        }
    }

    pub fn topic(&self, cx: &Context) -> Result<Arc<Topic>, ErrorCode> {
        let found = match self {
            Named::Name(name) => cx.topic(name),
            Named::Id(id) => cx.topic_by_id(id),
        };
        found.map_err(|error| errors::for_partition(&error))?.ok_or_else(|| self.unknown())
    }

    /// The code for what a partition's log said.
    pub fn code(&self, error: &LogError) -> ErrorCode {
        match error {
            LogError::Gone => self.unknown(),
            LogError::OutOfRange(_) => ErrorCode::OFFSET_OUT_OF_RANGE,
            LogError::TooLarge => ErrorCode::MESSAGE_TOO_LARGE,
            LogError::Refused(code) => *code,
            LogError::Store(error) => errors::for_partition(error),
        }
    }
}

/// The broker that is told as a partition's leader and only replica; -1 while no broker is known.
pub fn leader(cx: &Context, topic: &Topic, partition: i32) -> i32 {
    Cluster::leader(&cx.services.cluster.brokers(), topic.id, partition).unwrap_or(-1)
}

/// The log of one partition of a topic.
pub fn log(cx: &Context, topic: &Topic, index: i32) -> Result<Arc<PartitionLog>, ErrorCode> {
    cx.services.logs.partition(topic, index).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
}

/// `t-0, t-1 and 7 more`.
pub fn for_people<'a>(logs: impl Iterator<Item = &'a Arc<PartitionLog>>) -> String {
    let mut logs = logs.map(|log| log.name());
    let named: Vec<String> = logs.by_ref().take(NAMED_MAX).collect();
    match logs.count() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// Checks the leader epoch that a client knows against ours, which is always 0 (KIP-320); -1 asks for no check.
pub fn check_epoch(current_leader_epoch: i32) -> Result<(), ErrorCode> {
    match current_leader_epoch {
        -1 | 0 => Ok(()),
        1.. => Err(ErrorCode::UNKNOWN_LEADER_EPOCH),
        _ => Err(ErrorCode::FENCED_LEADER_EPOCH),
    }
}
