//! ListOffsets: the earliest, the latest, or the first offset at or after a timestamp.
//!
//! Served from 1, the first with one offset an answer (KIP-79). 2 has isolation levels (KIP-98), 4 leader epochs
//! (KIP-320), 6 is flexible, 7 asks for the maximum timestamp with -3 (KIP-734), 8 for the local log start with -4
//! (KIP-405), 9 for the last tiered offset with -5 (KIP-1005), 10 has a timeout for remote storage (KIP-1075).

use crate::wire::wire;

wire! {
    pub struct ListOffsetsRequest {
        replica_id: i32 => 0..;
        isolation_level: i8 => 2..;
        topics: Vec<ListOffsetsTopic> => 0..;
        timeout_ms: i32 => 10..;
    }

    pub struct ListOffsetsTopic {
        name: String => 0..;
        partitions: Vec<ListOffsetsPartition> => 0..;
    }

    pub struct ListOffsetsPartition {
        partition_index: i32 => 0..;
        current_leader_epoch: i32 = -1 => 4..;
        timestamp: i64 => 0..;
    }
}

wire! {
    pub struct ListOffsetsResponse {
        throttle_time_ms: i32 => 2..;
        topics: Vec<ListOffsetsTopicResponse> => 0..;
    }

    pub struct ListOffsetsTopicResponse {
        name: String => 0..;
        partitions: Vec<ListOffsetsPartitionResponse> => 0..;
    }

    pub struct ListOffsetsPartitionResponse {
        partition_index: i32 => 0..;
        error_code: i16 => 0..;
        timestamp: i64 = -1 => 1..;
        offset: i64 = -1 => 1..;
        leader_epoch: i32 = -1 => 4..;
    }
}
