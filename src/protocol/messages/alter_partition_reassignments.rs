//! AlterPartitionReassignments: gives partitions other replicas, or ends what is under way (KIP-455). 1 may forbid
//! another replication factor (KIP-860).

use crate::wire::wire;

wire! {
    pub struct AlterPartitionReassignmentsRequest {
        timeout_ms: i32 = 60_000 => 0..;
        allow_replication_factor_change: bool = true => 1..;
        topics: Vec<ReassignableTopic> => 0..;
    }

    pub struct ReassignableTopic {
        name: String => 0..;
        partitions: Vec<ReassignablePartition> => 0..;
    }

    pub struct ReassignablePartition {
        partition_index: i32 => 0..;
        replicas: Option<Vec<i32>> => 0..;
    }
}

wire! {
    pub struct AlterPartitionReassignmentsResponse {
        throttle_time_ms: i32 => 0..;
        allow_replication_factor_change: bool = true => 1..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        responses: Vec<ReassignableTopicResponse> => 0..;
    }

    pub struct ReassignableTopicResponse {
        name: String => 0..;
        partitions: Vec<ReassignablePartitionResponse> => 0..;
    }

    pub struct ReassignablePartitionResponse {
        partition_index: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
    }
}
