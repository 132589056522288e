//! ElectLeaders: elects preferred or, from 1 on, any leaders (KIP-460). 1 has an error for the whole answer; 2 is
//! flexible.

use crate::wire::wire;

wire! {
    pub struct ElectLeadersRequest {
        election_type: i8 => 1..;
        topic_partitions: Option<Vec<TopicPartitions>> = Some(Vec::new()) => 0..;
        timeout_ms: i32 = 60_000 => 0..;
    }

    pub struct TopicPartitions {
        topic: String => 0..;
        partitions: Vec<i32> => 0..;
    }
}

wire! {
    pub struct ElectLeadersResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 1..;
        replica_election_results: Vec<ReplicaElectionResult> => 0..;
    }

    pub struct ReplicaElectionResult {
        topic: String => 0..;
        partition_result: Vec<PartitionResult> => 0..;
    }

    pub struct PartitionResult {
        partition_id: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
    }
}
