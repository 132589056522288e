//! CreatePartitions: more partitions for topics that are there.
//!
//! Served from 0; 2 is flexible, 3 may answer THROTTLING_QUOTA_EXCEEDED (KIP-599).

use crate::wire::wire;

wire! {
    pub struct CreatePartitionsRequest {
        topics: Vec<CreatePartitionsTopic> => 0..;
        timeout_ms: i32 => 0..;
        validate_only: bool => 0..;
    }

    pub struct CreatePartitionsTopic {
        name: String => 0..;
        count: i32 => 0..;
        assignments: Option<Vec<CreatePartitionsAssignment>> = Some(Vec::new()) => 0..;
    }

    pub struct CreatePartitionsAssignment {
        broker_ids: Vec<i32> => 0..;
    }
}

wire! {
    pub struct CreatePartitionsResponse {
        throttle_time_ms: i32 => 0..;
        results: Vec<CreatePartitionsTopicResult> => 0..;
    }

    pub struct CreatePartitionsTopicResult {
        name: String => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
    }
}
