//! DeleteTopics: deletes topics.
//!
//! Served from 1. 4 is flexible, 5 has error messages (KIP-599 brings a throttling error with it), 6 also takes topic
//! ids (KIP-516).

use crate::wire::{Uuid, wire};

wire! {
    pub struct DeleteTopicsRequest {
        topics: Vec<DeleteTopicState> => 6..;
        topic_names: Vec<String> => 0..=5;
        timeout_ms: i32 => 0..;
    }

    pub struct DeleteTopicState {
        name: Option<String> => 6..;
        topic_id: Uuid => 6..;
    }
}

wire! {
    pub struct DeleteTopicsResponse {
        throttle_time_ms: i32 => 1..;
        responses: Vec<DeletableTopicResult> => 0..;
    }

    pub struct DeletableTopicResult {
        name: Option<String> = Some(String::new()) => 0.., null 6..;
        topic_id: Uuid => 6..;
        error_code: i16 => 0..;
        error_message: Option<String> => 5..;
    }
}
