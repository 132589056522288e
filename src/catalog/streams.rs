//! Topics as streams: the configuration of a partition's stream, and a topic put together from the streams found.
//!
//! Every stream carries its topic's name, id, partition and partition count in its metadata; what holds for the whole
//! topic is read from partition 0. Streams of older gateways carry none: they are known by name and subject, and
//! their topic's id is derived from its name and the creation of partition 0.

use super::{CatalogDefaults, PartitionPlace, TOPIC_ID_KEY, Topic, names, settings};
use crate::store::{Sequence, StreamInfo};
use crate::wire::Uuid;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most partitions of a topic: one stream each, and JetStream is advised to hold about a thousand replicated ones.
pub const PARTITIONS_MAX: usize = 10_000;

/// How long a topic may take to be created, in milliseconds. What is incomplete and older was left behind.
pub const CREATION_MS_MAX: i64 = 30_000;

/// No server's max_payload is larger: file storage refuses above 32 MiB.
const MESSAGE_BYTES_MAX: usize = 32 << 20;

/// JetStream's shortest max_age.
const MAX_AGE_MS_MIN: i64 = 100;

const TOPIC: &str = "kafka.topic";
const PARTITION: &str = "kafka.partition";
const PARTITIONS: &str = "kafka.partitions";
/// The sequence that the stream's first message is given at least: a range of this incarnation's own (ADR 8).
const FIRST: &str = "kafka.first";
const SETTING: &str = "kafka.config.";
/// Counts the changes of the topic's limits; where it differs from partition 0's, one was cut short.
const LIMITS_REVISION: &str = "kafka.limits.revision";

/// What a new topic is to be.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub id: Uuid,
    pub name: String,
    pub partitions: usize,
    pub replicas: u32,
    pub given: BTreeMap<String, String>,
}

impl Plan {
    /// The configuration of one partition's stream, whose sequences begin at `first`.
    pub fn config(&self, partition: usize, first: Sequence, defaults: &CatalogDefaults) -> Value {
        let mut metadata = Map::new();
        metadata.insert(TOPIC.to_owned(), json!(self.name));
        metadata.insert(TOPIC_ID_KEY.to_owned(), json!(self.id.to_string()));
        metadata.insert(PARTITION.to_owned(), json!(partition.to_string()));
        metadata.insert(PARTITIONS.to_owned(), json!(self.partitions.to_string()));
        metadata.insert(FIRST.to_owned(), json!(first.0.to_string()));
        for (name, value) in &self.given {
            metadata.insert(format!("{SETTING}{name}"), json!(value));
        }
        let settings = settings::resolve(self.given.clone(), defaults);
        json!({
            "name": names::stream(&self.name, partition),
            "subjects": [names::subject(&self.name, partition)],
            "retention": "limits",
            "storage": "file",
            "discard": "old",
            "num_replicas": self.replicas,
            "max_consumers": -1,
            "max_msgs": -1,
            "max_msgs_per_subject": -1,
            "max_msg_size": -1,
            "max_age": max_age_ns(&settings),
            "max_bytes": max_bytes(&settings, defaults),
            // Never longer than max_age, which the server asks for; nothing is told apart by message id.
            "duplicate_window": MAX_AGE_MS_MIN * 1_000_000,
            "allow_direct": true,
            "deny_delete": false,
            "deny_purge": false,
            "metadata": metadata,
        })
    }
}

/// JetStream's `max_age` for these settings.
pub(super) fn max_age_ns(settings: &super::TopicSettings) -> i64 {
    match settings.retention_ms {
        ms if ms < 0 => 0,
        ms => ms.max(MAX_AGE_MS_MIN).saturating_mul(1_000_000),
    }
}

/// JetStream's `max_bytes` for these settings.
pub(super) fn max_bytes(settings: &super::TopicSettings, defaults: &CatalogDefaults) -> i64 {
    match settings.retention_bytes {
        bytes if bytes < 0 => -1,
        // Room for one message at least, which may carry many batches: Kafka too keeps the segment it writes, however
        // small the limit.
        bytes => {
            let message = defaults.carried_bytes_max.min(MESSAGE_BYTES_MAX);
            bytes.max(i64::try_from(message).unwrap_or(i64::MAX) + 65_536)
        }
    }
}

/// Limits of a stream that are to be set; `None`: left as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Limits {
    pub max_age_ns: Option<i64>,
    pub max_bytes: Option<i64>,
}

impl Limits {
    pub fn is_none(&self) -> bool {
        *self == Limits::default()
    }

    /// Sets them in a stream's configuration; all else stays as it is.
    pub fn apply(&self, config: &mut Value) {
        if let Some(max_age_ns) = self.max_age_ns {
            config["max_age"] = json!(max_age_ns);
            // The server refuses a window longer than the age.
            if max_age_ns > 0 && config["duplicate_window"].as_i64().is_some_and(|window| window > max_age_ns) {
                config["duplicate_window"] = json!(max_age_ns);
            }
        }
        if let Some(max_bytes) = self.max_bytes {
            config["max_bytes"] = json!(max_bytes);
        }
    }

    /// As `apply`, and numbers the change.
    pub fn apply_numbered(&self, config: &mut Value, revision: u64) {
        self.apply(config);
        metadata_of(config).insert(LIMITS_REVISION.to_owned(), json!(revision.to_string()));
    }
}

/// The metadata of a configuration, made if there is none.
fn metadata_of(config: &mut Value) -> &mut Map<String, Value> {
    if !config["metadata"].is_object() {
        config["metadata"] = json!({});
    }
    config["metadata"].as_object_mut().expect("just made")
}

/// Whether two configurations say the same of a topic.
pub(super) fn same_metadata(one: &Value, other: &Value) -> bool {
    let ours = |config: &Value| {
        let map = config["metadata"].as_object().cloned().unwrap_or_default();
        map.into_iter().filter(|(key, _)| key.starts_with("kafka.")).collect::<Map<_, _>>()
    };
    ours(one) == ours(other)
}

/// One partition as found in the store.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub topic: String,
    pub partition: usize,
    /// `None`: made by an older gateway.
    pub id: Option<Uuid>,
    pub stream: String,
    pub created: String,
    pub last: Sequence,
    pub messages: u64,
    partitions: Option<usize>,
    first: Option<Sequence>,
    config: Value,
}

/// The partition that this stream is; `None` for foreign streams.
pub(super) fn read(info: &StreamInfo) -> Option<Found> {
    let [subject] = info.config.get("subjects")?.as_array()?.as_slice() else {
        return None;
    };
    let (stem, partition) = names::parse(&info.name, subject.as_str()?)?;
    let topic = match info.metadata(TOPIC) {
        Some(name) => Some(name.to_owned()).filter(|name| names::stem(name) == stem && names::fault(name).is_none())?,
        None => names::of_stem(stem)?,
    };
    Some(Found {
        topic,
        partition,
        id: info.metadata(TOPIC_ID_KEY).and_then(Uuid::parse).filter(|id| *id != Uuid::ZERO),
        stream: info.name.clone(),
        created: info.created.clone(),
        last: info.state.last,
        messages: info.state.messages,
        partitions: info.metadata(PARTITIONS).and_then(|count| count.parse().ok()),
        first: info.metadata(FIRST).and_then(|first| first.parse().ok()).map(Sequence),
        config: info.config.clone(),
    })
}

/// What the streams found for one name amount to.
pub(super) enum Standing {
    Whole(Known),
    /// Streams are there but not the topic: it is being created or deleted, or was left so.
    Part {
        /// Partitions of which no stream was found.
        missing: Vec<usize>,
        /// Partition 0 has not been moved to its sequence range.
        moving: bool,
        /// The topic that partition 0 belongs to; `None`: it was not found.
        id: Option<Uuid>,
    },
}

impl Standing {
    /// All streams are there, though they may not be in their place yet.
    pub fn is_complete(&self) -> bool {
        match self {
            Standing::Whole(_) => true,
            Standing::Part { missing, moving, .. } => *moving && missing.is_empty(),
        }
    }

    /// The topic that partition 0 belongs to.
    pub fn id(&self) -> Option<Uuid> {
        match self {
            Standing::Whole(known) => Some(known.topic.id),
            Standing::Part { id, .. } => *id,
        }
    }
}

/// A whole topic and what its streams showed.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub topic: Arc<Topic>,
    /// By partition: when the stream was created, and its last sequence.
    pub streams: Vec<(String, Sequence)>,
    /// Made by an older gateway: its metadata should be written.
    pub legacy: bool,
}

/// The streams of one topic, by partition.
pub(super) type Parts = BTreeMap<usize, Found>;

pub(super) fn assemble(parts: &Parts, defaults: &CatalogDefaults, now_ms: i64) -> Standing {
    let Some(zero) = parts.get(&0) else {
        return Standing::Part { missing: vec![0], moving: false, id: None };
    };
    let id = zero.id.unwrap_or_else(|| derived_id(&zero.topic, &zero.created));
    let count = zero.partitions.unwrap_or_else(|| (0..).take_while(|index| parts.contains_key(index)).count());
    if count == 0 || count > PARTITIONS_MAX {
        return Standing::Part { missing: Vec::new(), moving: false, id: Some(id) };
    }
    let missing: Vec<usize> = (0..count).filter(|index| !parts.contains_key(index)).collect();
    let ours: Vec<&Found> = parts.range(..count).map(|(_, part)| part).collect();
    let strange = ours.iter().any(|part| part.id.is_some_and(|other| other != id));
    // Partition 0 is made last, and nobody may write to it before its sequence has been moved.
    let moving = zero.first.is_some_and(|first| zero.last.next() < first) && is_young(&zero.created, now_ms);
    if !missing.is_empty() || strange || moving {
        return Standing::Part { missing, moving, id: Some(id) };
    }
    let topic = Topic {
        id,
        name: zero.topic.clone(),
        partitions: ours.iter().map(|part| part.place()).collect(),
        settings: zero.settings(defaults),
    };
    Standing::Whole(Known {
        topic: Arc::new(topic),
        streams: ours.iter().map(|part| (part.created.clone(), part.last)).collect(),
        legacy: ours.iter().any(|part| part.id.is_none()),
    })
}

impl Found {
    /// Another partition of the topic of this partition 0, whose stream is there but does not answer: all that is to be
    /// known of it for now is its place.
    pub fn silent(&self, partition: usize) -> Found {
        let stream = names::stream(&self.topic, partition);
        Found { partition, stream, last: Sequence(0), ..self.clone() }
    }

    fn place(&self) -> PartitionPlace {
        PartitionPlace {
            stream: self.stream.clone(),
            subject: names::subject(&self.topic, self.partition),
            replicas: self.replicas(),
        }
    }

    pub fn replicas(&self) -> u32 {
        self.config["num_replicas"].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(1)
    }

    /// The stream's configuration as the server sent it.
    pub fn config(&self) -> &Value {
        &self.config
    }

    /// How many partitions the topic has, according to this stream.
    pub fn partition_count(&self) -> Option<usize> {
        self.partitions
    }

    /// The settings that the topic was given.
    pub fn given(&self) -> BTreeMap<String, String> {
        let map = self.config["metadata"].as_object().into_iter().flatten();
        map.filter_map(|(key, value)| Some((key.strip_prefix(SETTING)?.to_owned(), value.as_str()?.to_owned())))
            .collect()
    }

    /// The configuration with these settings in the place of those given before.
    pub fn with_given(&self, given: &BTreeMap<String, String>) -> Value {
        let mut config = self.config.clone();
        let metadata = metadata_of(&mut config);
        metadata.retain(|key, _| !key.starts_with(SETTING));
        metadata.extend(given.iter().map(|(name, value)| (format!("{SETTING}{name}"), json!(value))));
        config
    }

    /// The number of the last change of the topic's limits that this stream knows of.
    pub fn limits_revision(&self) -> u64 {
        let text = self.config["metadata"][LIMITS_REVISION].as_str();
        text.and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    /// The stream's own limits.
    pub fn limits(&self) -> Limits {
        Limits {
            max_age_ns: Some(self.config["max_age"].as_i64().unwrap_or(0)),
            max_bytes: Some(self.config["max_bytes"].as_i64().unwrap_or(-1)),
        }
    }

    /// Nothing bounds this stream: neither age nor bytes nor a count of messages. One that is sealed does not grow.
    pub fn is_unbounded(&self) -> bool {
        if self.config["sealed"] == json!(true) {
            return false;
        }
        let bounded = |field: &str| self.config[field].as_i64().is_some_and(|limit| limit > 0);
        !["max_age", "max_bytes", "max_msgs", "max_msgs_per_subject"].into_iter().any(bounded)
    }

    pub fn settings(&self, defaults: &CatalogDefaults) -> super::TopicSettings {
        let given = self.given();
        let mut settings = settings::resolve(given, defaults);
        // The stream knows the limits that hold, also where another gateway's defaults made them.
        if !settings.given.contains_key("retention.ms") {
            settings.retention_ms =
                self.config["max_age"].as_i64().filter(|ns| *ns > 0).map_or(-1, |ns| ns / 1_000_000);
        }
        if !settings.given.contains_key("retention.bytes") {
            settings.retention_bytes = self.config["max_bytes"].as_i64().filter(|bytes| *bytes > 0).unwrap_or(-1);
        }
        settings
    }

    /// The configuration with the metadata that a stream of an older gateway lacks; all else stays as it is.
    pub fn adopted(&self, topic: &Topic) -> Value {
        let mut config = self.config.clone();
        config["allow_direct"] = json!(true);
        let metadata = metadata_of(&mut config);
        metadata.insert(TOPIC.to_owned(), json!(topic.name));
        metadata.insert(TOPIC_ID_KEY.to_owned(), json!(topic.id.to_string()));
        metadata.insert(PARTITION.to_owned(), json!(self.partition.to_string()));
        metadata.insert(PARTITIONS.to_owned(), json!(topic.partitions.len().to_string()));
        config
    }

    /// The configuration that makes the topic have so many partitions. Of partition 0.
    pub fn with_partitions(&self, count: usize) -> Value {
        let mut config = self.config.clone();
        metadata_of(&mut config).insert(PARTITIONS.to_owned(), json!(count.to_string()));
        config
    }

    /// The configuration of a new partition's stream: as this one, which is partition 0's, but for what is its own.
    pub fn sibling(&self, partition: usize, partitions: usize, first: Sequence) -> Value {
        let mut config = self.config.clone();
        config["name"] = json!(names::stream(&self.topic, partition));
        config["subjects"] = json!([names::subject(&self.topic, partition)]);
        let metadata = metadata_of(&mut config);
        // The server's own keys are its to write.
        metadata.retain(|key, _| !key.starts_with("_nats."));
        metadata.insert(PARTITION.to_owned(), json!(partition.to_string()));
        metadata.insert(PARTITIONS.to_owned(), json!(partitions.to_string()));
        metadata.insert(FIRST.to_owned(), json!(first.0.to_string()));
        config
    }
}

/// Whether something created then may still be under construction. Clocks of gateways and servers are taken to agree
/// within seconds.
pub(super) fn is_young(created: &str, now_ms: i64) -> bool {
    created_ms(created).is_some_and(|at| now_ms.saturating_sub(at) < CREATION_MS_MAX)
}

/// The id of a topic that was created without one: the same on every gateway.
fn derived_id(name: &str, created: &str) -> Uuid {
    let digest = Sha256::new().chain_update(name).chain_update([0]).chain_update(created).finalize();
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
    // As with random ids, the text must not start with a dash.
    bytes[0] &= 0x7f;
    Uuid(bytes)
}

/// Milliseconds since the epoch of an RFC 3339 time in UTC, as JetStream writes them.
fn created_ms(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut clock = clock.split(':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let millis = format!("{:0<3}", fraction).get(..3)?.parse::<i64>().ok()?;
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years are counted from March, so that the leap day is a year's last.
    let (shifted_year, shifted_month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = shifted_year / 4 - shifted_year / 100 + shifted_year / 400;
    let days = shifted_year * 365 + leap_days + (shifted_month * 153 + 2) / 5 + day - 1 - 719_468;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creation_times_are_read() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T12:34:56.789123456Z", Some(951_827_696_789)),
            ("2024-03-01T00:00:00.5Z", Some(1_709_251_200_500)),
            ("2026-11-29T23:25:10.1Z", Some(1_795_994_710_100)),
            ("yesterday", None),
            ("2024-13-01T00:00:00Z", None),
            ("2024-03-01T00:00:00+01:00", None),
        ] {
            assert_eq!(created_ms(text), expected, "{text}");
        }
    }
}
