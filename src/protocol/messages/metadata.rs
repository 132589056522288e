//! Metadata: brokers, topics, partitions and their leaders.
//!
//! In 0 an empty list of topics means all; from 1 on null does, and an empty list means none. 4 says whether a topic
//! may be created (KIP-204), 7 has leader epochs (KIP-320), 8 authorized operations (KIP-430), 9 is flexible, 10 has
//! topic ids, 12 accepts them in the request (KIP-516), 13 has a top-level error (KIP-1102).

use crate::wire::{Uuid, wire};

wire! {
    pub struct MetadataRequest {
        topics: Option<Vec<MetadataRequestTopic>> = Some(Vec::new()) => 0.., null 1..;
        allow_auto_topic_creation: bool = true => 4..;
        include_cluster_authorized_operations: bool => 8..=10;
        include_topic_authorized_operations: bool => 8..;
    }

    pub struct MetadataRequestTopic {
        topic_id: Uuid => 10..;
        name: Option<String> = Some(String::new()) => 0.., null 10..;
    }
}

wire! {
    pub struct MetadataResponse {
        throttle_time_ms: i32 => 3..;
        brokers: Vec<MetadataResponseBroker> => 0..;
        cluster_id: Option<String> => 2..;
        controller_id: i32 = -1 => 1..;
        topics: Vec<MetadataResponseTopic> => 0..;
        cluster_authorized_operations: i32 = i32::MIN => 8..=10;
        error_code: i16 => 13..;
    }

    pub struct MetadataResponseBroker {
        node_id: i32 => 0..;
        host: String => 0..;
        port: i32 => 0..;
        rack: Option<String> => 1..;
    }

    pub struct MetadataResponseTopic {
        error_code: i16 => 0..;
        name: Option<String> = Some(String::new()) => 0.., null 12..;
        topic_id: Uuid => 10..;
        is_internal: bool => 1..;
        partitions: Vec<MetadataResponsePartition> => 0..;
        topic_authorized_operations: i32 = i32::MIN => 8..;
    }

    pub struct MetadataResponsePartition {
        error_code: i16 => 0..;
        partition_index: i32 => 0..;
        leader_id: i32 => 0..;
        leader_epoch: i32 = -1 => 7..;
        replica_nodes: Vec<i32> => 0..;
        isr_nodes: Vec<i32> => 0..;
        offline_replicas: Vec<i32> => 5..;
    }
}
