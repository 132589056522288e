//! Topics, their ids and settings, as they stand in JetStream.

use crate::wire::Uuid;
use std::collections::BTreeMap;

/// The metadata key of a stream's topic id.
pub const TOPIC_ID_KEY: &str = "kafka.topic.id";

/// A topic as last seen in the store. Immutable; a change gives a new one.
#[derive(Clone, Debug, PartialEq)]
pub struct Topic {
    pub id: Uuid,
    pub name: String,
    /// By partition index, dense from 0.
    pub partitions: Vec<PartitionPlace>,
    pub settings: TopicSettings,
}

/// Where a partition's messages are.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionPlace {
    pub stream: String,
    pub subject: String,
    pub replicas: u32,
}

/// The settings that the log and the fetch path act on, resolved with defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicSettings {
    /// Those given for this topic, by Kafka's name, as text.
    pub given: BTreeMap<String, String>,
    /// Bytes of one batch as the client sent it.
    pub max_message_bytes: usize,
    /// LogAppendTime instead of CreateTime.
    pub append_time: bool,
    pub timestamp_before_ms_max: i64,
    pub timestamp_after_ms_max: i64,
    /// `cleanup.policy` contains compact: keys must not be null.
    pub compacted: bool,
}

impl Default for TopicSettings {
    fn default() -> Self {
        TopicSettings {
            given: BTreeMap::new(),
            max_message_bytes: 1_048_588,
            append_time: false,
            timestamp_before_ms_max: i64::MAX,
            timestamp_after_ms_max: 3_600_000,
            compacted: false,
        }
    }
}
