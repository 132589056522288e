//! Fetch: reads record batches from partitions, waiting for them up to a time.
//!
//! Served from 4, the first that may carry record batches v2 and transactions (KIP-98). 7 has sessions (KIP-227), 9
//! leader epochs (KIP-320), 10 may carry zstd (KIP-110), 11 racks (KIP-392), 12 is flexible and sees diverging logs
//! (KIP-595), 13 names topics by id (KIP-516), 15 moves the replica id into a tagged field (KIP-903), 16 can name new
//! leaders (KIP-951), 17 and 18 serve followers (KIP-853, KIP-1166).

use crate::wire::{Uuid, wire};
use bytes::Bytes;

wire! {
    pub struct FetchRequest {
        cluster_id: Option<String> => 12.., tag 0;
        replica_id: i32 = -1 => 0..=14;
        replica_state: ReplicaState => 15.., tag 1;
        max_wait_ms: i32 => 0..;
        min_bytes: i32 => 0..;
        max_bytes: i32 = i32::MAX => 3..;
        isolation_level: i8 => 4..;
        session_id: i32 => 7..;
        session_epoch: i32 = -1 => 7..;
        topics: Vec<FetchTopic> => 0..;
        forgotten_topics_data: Vec<ForgottenTopic> => 7..;
        rack_id: String => 11..;
    }

    pub struct ReplicaState {
        replica_id: i32 = -1 => 15..;
        replica_epoch: i64 = -1 => 15..;
    }

    pub struct FetchTopic {
        topic: String => 0..=12;
        topic_id: Uuid => 13..;
        partitions: Vec<FetchPartition> => 0..;
    }

    pub struct FetchPartition {
        partition: i32 => 0..;
        current_leader_epoch: i32 = -1 => 9..;
        fetch_offset: i64 => 0..;
        last_fetched_epoch: i32 = -1 => 12..;
        log_start_offset: i64 = -1 => 5..;
        partition_max_bytes: i32 => 0..;
        replica_directory_id: Uuid => 17.., tag 0;
        high_watermark: i64 = i64::MAX => 18.., tag 1;
    }

    pub struct ForgottenTopic {
        topic: String => 7..=12;
        topic_id: Uuid => 13..;
        partitions: Vec<i32> => 7..;
    }
}

wire! {
    pub struct FetchResponse {
        throttle_time_ms: i32 => 1..;
        error_code: i16 => 7..;
        session_id: i32 => 7..;
        responses: Vec<FetchableTopicResponse> => 0..;
        node_endpoints: Vec<NodeEndpoint> => 16.., tag 0;
    }

    pub struct FetchableTopicResponse {
        topic: String => 0..=12;
        topic_id: Uuid => 13..;
        partitions: Vec<PartitionData> => 0..;
    }

    pub struct PartitionData {
        partition_index: i32 => 0..;
        error_code: i16 => 0..;
        high_watermark: i64 => 0..;
        last_stable_offset: i64 = -1 => 4..;
        log_start_offset: i64 = -1 => 5..;
        diverging_epoch: EpochEndOffset => 12.., tag 0;
        current_leader: LeaderIdAndEpoch => 12.., tag 1;
        snapshot_id: SnapshotId => 12.., tag 2;
        aborted_transactions: Option<Vec<AbortedTransaction>> = Some(Vec::new()) => 4..;
        preferred_read_replica: i32 = -1 => 11..;
        records: Option<Bytes> = Some(Bytes::new()) => 0..;
    }

    pub struct EpochEndOffset {
        epoch: i32 = -1 => 12..;
        end_offset: i64 = -1 => 12..;
    }

    pub struct LeaderIdAndEpoch {
        leader_id: i32 = -1 => 12..;
        leader_epoch: i32 = -1 => 12..;
    }

    pub struct SnapshotId {
        end_offset: i64 = -1 => 0..;
        epoch: i32 = -1 => 0..;
    }

    pub struct AbortedTransaction {
        producer_id: i64 => 4..;
        first_offset: i64 => 4..;
    }

    pub struct NodeEndpoint {
        node_id: i32 => 16..;
        host: String => 16..;
        port: i32 => 16..;
        rack: Option<String> => 16..;
    }
}
