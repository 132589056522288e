//! ListPartitionReassignments: partitions that are on their way to other replicas (KIP-455).

use crate::wire::wire;

wire! {
    pub struct ListPartitionReassignmentsRequest {
        timeout_ms: i32 = 60_000 => 0..;
        topics: Option<Vec<ListPartitionReassignmentsTopics>> => 0..;
    }

    pub struct ListPartitionReassignmentsTopics {
        name: String => 0..;
        partition_indexes: Vec<i32> => 0..;
    }
}

wire! {
    pub struct ListPartitionReassignmentsResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        topics: Vec<OngoingTopicReassignment> => 0..;
    }

    pub struct OngoingTopicReassignment {
        name: String => 0..;
        partitions: Vec<OngoingPartitionReassignment> => 0..;
    }

    pub struct OngoingPartitionReassignment {
        partition_index: i32 => 0..;
        replicas: Vec<i32> => 0..;
        adding_replicas: Vec<i32> => 0..;
        removing_replicas: Vec<i32> => 0..;
    }
}
