//! AlterReplicaLogDirs: moves partitions to other directories of their broker (KIP-113). 2 is flexible.

use crate::wire::wire;

wire! {
    pub struct AlterReplicaLogDirsRequest {
        dirs: Vec<AlterReplicaLogDir> => 0..;
    }

    pub struct AlterReplicaLogDir {
        path: String => 0..;
        topics: Vec<AlterReplicaLogDirTopic> => 0..;
    }

    pub struct AlterReplicaLogDirTopic {
        name: String => 0..;
        partitions: Vec<i32> => 0..;
    }
}

wire! {
    pub struct AlterReplicaLogDirsResponse {
        throttle_time_ms: i32 => 0..;
        results: Vec<AlterReplicaLogDirTopicResult> => 0..;
    }

    pub struct AlterReplicaLogDirTopicResult {
        topic_name: String => 0..;
        partitions: Vec<AlterReplicaLogDirPartitionResult> => 0..;
    }

    pub struct AlterReplicaLogDirPartitionResult {
        partition_index: i32 => 0..;
        error_code: i16 => 0..;
    }
}
