//! OffsetCommit: stores a group's offsets.
//!
//! Served from 2. Up to 4 the client names a retention time (dropped by KIP-211), 6 has leader epochs (KIP-320), 7
//! static members (KIP-345), 8 is flexible, 9 also serves the new group protocol (KIP-848).

use crate::wire::wire;

wire! {
    pub struct OffsetCommitRequest {
        group_id: String => 0..;
        generation_id_or_member_epoch: i32 = -1 => 1..;
        member_id: String => 1..;
        group_instance_id: Option<String> => 7..;
        retention_time_ms: i64 = -1 => 2..=4;
        topics: Vec<OffsetCommitRequestTopic> => 0..;
    }

    pub struct OffsetCommitRequestTopic {
        name: String => 0..;
        partitions: Vec<OffsetCommitRequestPartition> => 0..;
    }

    pub struct OffsetCommitRequestPartition {
        partition_index: i32 => 0..;
        committed_offset: i64 => 0..;
        committed_leader_epoch: i32 = -1 => 6..;
        committed_metadata: Option<String> = Some(String::new()) => 0..;
    }
}

wire! {
    pub struct OffsetCommitResponse {
        throttle_time_ms: i32 => 3..;
        topics: Vec<OffsetCommitResponseTopic> => 0..;
    }

    pub struct OffsetCommitResponseTopic {
        name: String => 0..;
        partitions: Vec<OffsetCommitResponsePartition> => 0..;
    }

    pub struct OffsetCommitResponsePartition {
        partition_index: i32 => 0..;
        error_code: i16 => 0..;
    }
}
