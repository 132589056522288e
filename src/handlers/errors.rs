//! The one map of store errors to Kafka's codes.

use crate::catalog::{AlterTopicError, CreateTopicError, DeleteTopicError};
use crate::protocol::error_code::ErrorCode;
use crate::store::StoreError;

/// For records of a partition: produce, fetch, list offsets.
pub fn for_partition(error: &StoreError) -> ErrorCode {
    error_code(error, Purpose::Partition)
}

/// For groups and committed offsets.
pub fn for_coordinator(error: &StoreError) -> ErrorCode {
    error_code(error, Purpose::Coordinator)
}

/// For reading committed offsets. What a coordinator cannot tell yet is "loading": after COORDINATOR_NOT_AVAILABLE librdkafka
/// looks for a coordinator, and never asks again where to begin.
pub fn for_offset_fetch(error: &StoreError) -> ErrorCode {
    match for_coordinator(error) {
        ErrorCode::COORDINATOR_NOT_AVAILABLE => ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
        other => other,
    }
}

/// For reading records, from the code that other requests for that partition get. REQUEST_TIMED_OUT is none of those that the Java
/// consumer knows in an answer to Fetch: it throws at its application.
pub fn for_fetch(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::REQUEST_TIMED_OUT => ErrorCode::NOT_LEADER_OR_FOLLOWER,
        other => other,
    }
}

/// For topics and settings, asked for by a person or a tool.
pub fn for_admin(error: &StoreError) -> ErrorCode {
    error_code(error, Purpose::Admin)
}

/// What the failed call was for: clients retry other codes for a partition than for a coordinator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    Partition,
    Coordinator,
    Admin,
}

/// What passes by itself gets a code that clients retry; `UNKNOWN_SERVER_ERROR` stays for what should not happen.
fn error_code(error: &StoreError, purpose: Purpose) -> ErrorCode {
    match (error, purpose) {
        // Not the partition's own stream, which would be `LogError::Gone`.
        (StoreError::NoStream, Purpose::Partition) => ErrorCode::NOT_LEADER_OR_FOLLOWER,
        (StoreError::NoStream, Purpose::Admin) => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        (StoreError::NoStream, Purpose::Coordinator) => ErrorCode::COORDINATOR_NOT_AVAILABLE,
        (StoreError::NoMessage, Purpose::Partition) => ErrorCode::NOT_LEADER_OR_FOLLOWER,
        (StoreError::NoMessage, Purpose::Coordinator | Purpose::Admin) => ErrorCode::UNKNOWN_SERVER_ERROR,
        (StoreError::StreamExists, _) => ErrorCode::TOPIC_ALREADY_EXISTS,
        (StoreError::WrongLast(_), Purpose::Partition) => ErrorCode::NOT_LEADER_OR_FOLLOWER,
        (StoreError::WrongLast(_), Purpose::Coordinator) => ErrorCode::NOT_COORDINATOR,
        (StoreError::WrongLast(_), Purpose::Admin) => ErrorCode::REQUEST_TIMED_OUT,
        (StoreError::NoAnswer, Purpose::Partition | Purpose::Admin) => ErrorCode::REQUEST_TIMED_OUT,
        (StoreError::Unavailable | StoreError::Busy, Purpose::Partition) => ErrorCode::NOT_LEADER_OR_FOLLOWER,
        (StoreError::Unavailable | StoreError::Busy, Purpose::Admin) => ErrorCode::REQUEST_TIMED_OUT,
        (StoreError::NoAnswer | StoreError::Unavailable | StoreError::Busy, Purpose::Coordinator) => {
            ErrorCode::COORDINATOR_NOT_AVAILABLE
        }
        (StoreError::TooLarge { .. }, Purpose::Partition | Purpose::Admin) => ErrorCode::MESSAGE_TOO_LARGE,
        (StoreError::TooLarge { .. }, Purpose::Coordinator) => ErrorCode::OFFSET_METADATA_TOO_LARGE,
        (StoreError::NoSpace(_), Purpose::Partition) => ErrorCode::KAFKA_STORAGE_ERROR,
        (StoreError::NoSpace(_), Purpose::Coordinator) => ErrorCode::COORDINATOR_NOT_AVAILABLE,
        (StoreError::NoSpace(_), Purpose::Admin) => ErrorCode::POLICY_VIOLATION,
        (StoreError::NoPeers(_), Purpose::Partition) => ErrorCode::NOT_LEADER_OR_FOLLOWER,
        (StoreError::NoPeers(_), Purpose::Coordinator) => ErrorCode::COORDINATOR_NOT_AVAILABLE,
        (StoreError::NoPeers(_), Purpose::Admin) => ErrorCode::REQUEST_TIMED_OUT,
        (StoreError::Refused { .. } | StoreError::Garbled(_), _) => ErrorCode::UNKNOWN_SERVER_ERROR,
    }
}

/// Code and text of a topic that was not made.
pub fn create_topic_error(error: &CreateTopicError) -> (ErrorCode, String) {
    let code = match error {
        CreateTopicError::InvalidName(_) => ErrorCode::INVALID_TOPIC_EXCEPTION,
        CreateTopicError::InvalidPartitions(_) | CreateTopicError::NoRoom(_) => ErrorCode::INVALID_PARTITIONS,
        CreateTopicError::InvalidReplication(_) => ErrorCode::INVALID_REPLICATION_FACTOR,
        CreateTopicError::InvalidSetting(_) => ErrorCode::INVALID_CONFIG,
        CreateTopicError::Exists(_) => ErrorCode::TOPIC_ALREADY_EXISTS,
        CreateTopicError::Store(error) => for_admin(error),
    };
    (code, error.to_string())
}

/// Code and text of a topic whose settings were not changed.
pub fn alter_topic_error(error: &AlterTopicError) -> (ErrorCode, String) {
    let code = match error {
        AlterTopicError::Unknown(_) => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        AlterTopicError::InvalidSetting(_) => ErrorCode::INVALID_CONFIG,
        AlterTopicError::InvalidPartitions(_) => ErrorCode::INVALID_PARTITIONS,
        AlterTopicError::NoRoom(_) => ErrorCode::POLICY_VIOLATION,
        AlterTopicError::Store(error) => for_admin(error),
    };
    (code, error.to_string())
}

/// Code and text of a topic that was given no more partitions.
pub fn grow_topic_error(error: &AlterTopicError) -> (ErrorCode, String) {
    match error {
        // As where a topic is created.
        AlterTopicError::NoRoom(text) => (ErrorCode::INVALID_PARTITIONS, text.clone()),
        error => alter_topic_error(error),
    }
}

/// Code and text of a topic that was not removed.
pub fn delete_topic_error(error: &DeleteTopicError) -> (ErrorCode, String) {
    match error {
        DeleteTopicError::Unknown => {
            (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic.".to_owned())
        }
        DeleteTopicError::Store(error) => (for_admin(error), error.to_string()),
    }
}
