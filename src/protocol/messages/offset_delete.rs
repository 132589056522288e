//! OffsetDelete: deletes committed offsets of topics a group has no subscriber for (KIP-496).

use crate::wire::wire;

wire! {
    pub struct OffsetDeleteRequest {
        group_id: String => 0..;
        topics: Vec<OffsetDeleteRequestTopic> => 0..;
    }

    pub struct OffsetDeleteRequestTopic {
        name: String => 0..;
        partitions: Vec<OffsetDeleteRequestPartition> => 0..;
    }

    pub struct OffsetDeleteRequestPartition {
        partition_index: i32 => 0..;
    }
}

wire! {
    pub struct OffsetDeleteResponse {
        error_code: i16 => 0..;
        throttle_time_ms: i32 => 0..;
        topics: Vec<OffsetDeleteResponseTopic> => 0..;
    }

    pub struct OffsetDeleteResponseTopic {
        name: String => 0..;
        partitions: Vec<OffsetDeleteResponsePartition> => 0..;
    }

    pub struct OffsetDeleteResponsePartition {
        partition_index: i32 => 0..;
        error_code: i16 => 0..;
    }
}
