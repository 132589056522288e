//! Produce: appends record batches to partitions.
//!
//! Served from 3, the first with record batches v2 (KIP-98). 7 may carry zstd (KIP-110), 8 names the refused records
//! (KIP-467), 9 is flexible, 10 can hint at the new leader (KIP-951), 11 may answer TRANSACTION_ABORTABLE and 12 lets a
//! produce join its transaction (KIP-890), 13 names topics by id (KIP-516).

use crate::wire::{Uuid, wire};
use bytes::Bytes;

wire! {
    pub struct ProduceRequest {
        transactional_id: Option<String> => 3..;
        acks: i16 => 0..;
        timeout_ms: i32 => 0..;
        topic_data: Vec<TopicProduceData> => 0..;
    }

    pub struct TopicProduceData {
        name: String => 0..=12;
        topic_id: Uuid => 13..;
        partition_data: Vec<PartitionProduceData> => 0..;
    }

    pub struct PartitionProduceData {
        index: i32 => 0..;
        records: Option<Bytes> => 0..;
    }
}

wire! {
    pub struct ProduceResponse {
        responses: Vec<TopicProduceResponse> => 0..;
        throttle_time_ms: i32 => 1..;
        node_endpoints: Vec<NodeEndpoint> => 10.., tag 0;
    }

    pub struct TopicProduceResponse {
        name: String => 0..=12;
        topic_id: Uuid => 13..;
        partition_responses: Vec<PartitionProduceResponse> => 0..;
    }

    pub struct PartitionProduceResponse {
        index: i32 => 0..;
        error_code: i16 => 0..;
        base_offset: i64 => 0..;
        log_append_time_ms: i64 = -1 => 2..;
        log_start_offset: i64 = -1 => 5..;
        record_errors: Vec<BatchIndexAndErrorMessage> => 8..;
        error_message: Option<String> => 8..;
        current_leader: LeaderIdAndEpoch => 10.., tag 0;
    }

    pub struct BatchIndexAndErrorMessage {
        batch_index: i32 => 8..;
        batch_index_error_message: Option<String> => 8..;
    }

    pub struct LeaderIdAndEpoch {
        leader_id: i32 = -1 => 10..;
        leader_epoch: i32 = -1 => 10..;
    }

    pub struct NodeEndpoint {
        node_id: i32 => 10..;
        host: String => 10..;
        port: i32 => 10..;
        rack: Option<String> => 10..;
    }
}
