//! OffsetFetch: a group's committed offsets.
//!
//! Served from 1. From 2 a null list of topics means all, and there is a top-level error. 5 has leader epochs
//! (KIP-320), 6 is flexible, 7 can insist on stable offsets (KIP-447), 8 asks for several groups (KIP-709), 9 also
//! serves the new group protocol (KIP-848).

use crate::wire::wire;

wire! {
    pub struct OffsetFetchRequest {
        group_id: String => 0..=7;
        topics: Option<Vec<OffsetFetchRequestTopic>> = Some(Vec::new()) => 0..=7, null 2..;
        groups: Vec<OffsetFetchRequestGroup> => 8..;
        require_stable: bool => 7..;
    }

    pub struct OffsetFetchRequestTopic {
        name: String => 0..=7;
        partition_indexes: Vec<i32> => 0..=7;
    }

    pub struct OffsetFetchRequestGroup {
        group_id: String => 8..;
        member_id: Option<String> => 9..;
        member_epoch: i32 = -1 => 9..;
        topics: Option<Vec<OffsetFetchRequestTopics>> = Some(Vec::new()) => 8..;
    }

    pub struct OffsetFetchRequestTopics {
        name: String => 8..;
        partition_indexes: Vec<i32> => 8..;
    }
}

wire! {
    pub struct OffsetFetchResponse {
        throttle_time_ms: i32 => 3..;
        topics: Vec<OffsetFetchResponseTopic> => 0..=7;
        error_code: i16 => 2..=7;
        groups: Vec<OffsetFetchResponseGroup> => 8..;
    }

    pub struct OffsetFetchResponseTopic {
        name: String => 0..=7;
        partitions: Vec<OffsetFetchResponsePartition> => 0..=7;
    }

    pub struct OffsetFetchResponsePartition {
        partition_index: i32 => 0..=7;
        committed_offset: i64 => 0..=7;
        committed_leader_epoch: i32 = -1 => 5..=7;
        metadata: Option<String> = Some(String::new()) => 0..=7;
        error_code: i16 => 0..=7;
    }

    pub struct OffsetFetchResponseGroup {
        group_id: String => 8..;
        topics: Vec<OffsetFetchResponseTopics> => 8..;
        error_code: i16 => 8..;
    }

    pub struct OffsetFetchResponseTopics {
        name: String => 8..;
        partitions: Vec<OffsetFetchResponsePartitions> => 8..;
    }

    pub struct OffsetFetchResponsePartitions {
        partition_index: i32 => 8..;
        committed_offset: i64 => 8..;
        committed_leader_epoch: i32 = -1 => 8..;
        metadata: Option<String> = Some(String::new()) => 8..;
        error_code: i16 => 8..;
    }
}
