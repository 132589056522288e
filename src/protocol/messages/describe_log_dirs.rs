//! DescribeLogDirs: how much each partition takes where it is stored (KIP-113).
//!
//! 2 is flexible, 3 has an error for the whole answer, 4 the size of the volume (KIP-827).

use crate::wire::wire;

wire! {
    pub struct DescribeLogDirsRequest {
        topics: Option<Vec<DescribableLogDirTopic>> = Some(Vec::new()) => 0..;
    }

    pub struct DescribableLogDirTopic {
        topic: String => 0..;
        partitions: Vec<i32> => 0..;
    }
}

wire! {
    pub struct DescribeLogDirsResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 3..;
        results: Vec<DescribeLogDirsResult> => 0..;
    }

    pub struct DescribeLogDirsResult {
        error_code: i16 => 0..;
        log_dir: String => 0..;
        topics: Vec<DescribeLogDirsTopic> => 0..;
        total_bytes: i64 = -1 => 4..;
        usable_bytes: i64 = -1 => 4..;
    }

    pub struct DescribeLogDirsTopic {
        name: String => 0..;
        partitions: Vec<DescribeLogDirsPartition> => 0..;
    }

    pub struct DescribeLogDirsPartition {
        partition_index: i32 => 0..;
        partition_size: i64 => 0..;
        offset_lag: i64 => 0..;
        is_future_key: bool => 0..;
    }
}
