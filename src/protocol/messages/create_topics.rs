//! CreateTopics: creates topics, or only checks whether it could.
//!
//! Served from 2. From 4 a partition count or replication factor of -1 means the broker's default (KIP-464), 5 is
//! flexible and answers with the settings (KIP-525), 6 may answer THROTTLING_QUOTA_EXCEEDED (KIP-599), 7 answers with
//! the topic id (KIP-516).

use crate::wire::{Uuid, wire};

wire! {
    pub struct CreateTopicsRequest {
        topics: Vec<CreatableTopic> => 0..;
        timeout_ms: i32 = 60000 => 0..;
        validate_only: bool => 1..;
    }

    pub struct CreatableTopic {
        name: String => 0..;
        num_partitions: i32 => 0..;
        replication_factor: i16 => 0..;
        assignments: Vec<CreatableReplicaAssignment> => 0..;
        configs: Vec<CreatableTopicConfig> => 0..;
    }

    pub struct CreatableReplicaAssignment {
        partition_index: i32 => 0..;
        broker_ids: Vec<i32> => 0..;
    }

    pub struct CreatableTopicConfig {
        name: String => 0..;
        value: Option<String> = Some(String::new()) => 0..;
    }
}

wire! {
    pub struct CreateTopicsResponse {
        throttle_time_ms: i32 => 2..;
        topics: Vec<CreatableTopicResult> => 0..;
    }

    pub struct CreatableTopicResult {
        name: String => 0..;
        topic_id: Uuid => 7..;
        error_code: i16 => 0..;
        error_message: Option<String> => 1..;
        topic_config_error_code: i16 => 5.., tag 0;
        num_partitions: i32 = -1 => 5..;
        replication_factor: i16 = -1 => 5..;
        configs: Option<Vec<CreatableTopicConfigs>> = Some(Vec::new()) => 5..;
    }

    pub struct CreatableTopicConfigs {
        name: String => 5..;
        value: Option<String> = Some(String::new()) => 5..;
        read_only: bool => 5..;
        config_source: i8 = -1 => 5..;
        is_sensitive: bool => 5..;
    }
}
