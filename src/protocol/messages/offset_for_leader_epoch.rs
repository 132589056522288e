//! OffsetForLeaderEpoch: where a leader epoch ended, so that a consumer sees a truncated log (KIP-320).
//!
//! Served from 2. 3 says who asks (KIP-392), 4 is flexible.

use crate::wire::wire;

wire! {
    pub struct OffsetForLeaderEpochRequest {
        replica_id: i32 = -2 => 3..;
        topics: Vec<OffsetForLeaderTopic> => 0..;
    }

    pub struct OffsetForLeaderTopic {
        topic: String => 0..;
        partitions: Vec<OffsetForLeaderPartition> => 0..;
    }

    pub struct OffsetForLeaderPartition {
        partition: i32 => 0..;
        current_leader_epoch: i32 = -1 => 2..;
        leader_epoch: i32 => 0..;
    }
}

wire! {
    pub struct OffsetForLeaderEpochResponse {
        throttle_time_ms: i32 => 2..;
        topics: Vec<OffsetForLeaderTopicResult> => 0..;
    }

    pub struct OffsetForLeaderTopicResult {
        topic: String => 0..;
        partitions: Vec<EpochEndOffset> => 0..;
    }

    pub struct EpochEndOffset {
        error_code: i16 => 0..;
        partition: i32 => 0..;
        leader_epoch: i32 = -1 => 1..;
        end_offset: i64 = -1 => 0..;
    }
}
