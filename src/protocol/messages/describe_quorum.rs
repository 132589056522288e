//! DescribeQuorum: voters and observers of the metadata log (KIP-595). 1 has times (KIP-836), 2 directories, texts and
//! the voters' addresses (KIP-853).

use crate::wire::{Uuid, wire};

wire! {
    pub struct DescribeQuorumRequest {
        topics: Vec<TopicRequest> => 0..;
    }

    pub struct TopicRequest {
        topic_name: String => 0..;
        partitions: Vec<PartitionRequest> => 0..;
    }

    pub struct PartitionRequest {
        partition_index: i32 => 0..;
    }
}

wire! {
    pub struct DescribeQuorumResponse {
        error_code: i16 => 0..;
        error_message: Option<String> => 2..;
        topics: Vec<TopicData> => 0..;
        nodes: Vec<Node> => 2..;
    }

    pub struct TopicData {
        topic_name: String => 0..;
        partitions: Vec<PartitionData> => 0..;
    }

    pub struct PartitionData {
        partition_index: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 2..;
        leader_id: i32 => 0..;
        leader_epoch: i32 => 0..;
        high_watermark: i64 => 0..;
        current_voters: Vec<ReplicaState> => 0..;
        observers: Vec<ReplicaState> => 0..;
    }

    pub struct ReplicaState {
        replica_id: i32 => 0..;
        replica_directory_id: Uuid => 2..;
        log_end_offset: i64 => 0..;
        last_fetch_timestamp: i64 = -1 => 1..;
        last_caught_up_timestamp: i64 = -1 => 1..;
    }

    pub struct Node {
        node_id: i32 => 2..;
        listeners: Vec<Listener> => 2..;
    }

    pub struct Listener {
        name: String => 2..;
        host: String => 2..;
        port: u16 => 2..;
    }
}
