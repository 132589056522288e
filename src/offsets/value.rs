//! A committed offset as it stands in the store, and the keys of the bucket.

use crate::sealed;
use crate::store::keys;
use crate::wire::Uuid;
use bytes::Bytes;
use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    pub topic: String,
    pub partition: i32,
}

impl TopicPartition {
    pub fn new(topic: &str, partition: i32) -> TopicPartition {
        TopicPartition { topic: topic.to_owned(), partition }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Committed {
    /// What the client gave; negative ones mean something to some clients.
    pub offset: i64,
    /// -1: not given.
    pub leader_epoch: i32,
    pub metadata: String,
    /// Milliseconds since the epoch.
    pub commit_ms: i64,
    /// Set by clients before OffsetCommit version 5; milliseconds since the epoch.
    pub expire_ms: Option<i64>,
    /// The topic that was meant; `None` in what older gateways wrote.
    pub topic_id: Option<Uuid>,
}

/// What stands under a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Slot {
    Absent,
    Committed(Committed),
    /// Something is there, but it cannot be read. It must not pass for "nothing was committed".
    Damaged,
}

impl Slot {
    pub fn committed(&self) -> Option<&Committed> {
        match self {
            Slot::Committed(committed) => Some(committed),
            Slot::Absent | Slot::Damaged => None,
        }
    }
}

/// `{group}.{topic}.{partition}`, each a token.
pub(super) fn key(group: &str, at: &TopicPartition) -> String {
    format!("{}.{}.{}", keys::token(group), keys::token(&at.topic), at.partition)
}

/// The group and the partition of a key; `None` for a key that `key` never makes.
pub(super) fn parse_key(text: &str) -> Option<(String, TopicPartition)> {
    let mut tokens = text.split('.');
    let group = keys::text_of(tokens.next()?)?;
    let topic = keys::text_of(tokens.next()?)?;
    let partition: i32 = tokens.next()?.parse().ok()?;
    let at = TopicPartition { topic, partition };
    (tokens.next().is_none() && key(&group, &at) == text).then_some((group, at))
}

pub(super) fn encode(committed: &Committed, nonce: &str) -> Bytes {
    sealed::seal(&json!({
        "offset": committed.offset,
        "leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
        "commit_ms": committed.commit_ms,
        "expire_ms": committed.expire_ms,
        "topic_id": committed.topic_id.map(|id| id.to_string()),
        "nonce": nonce,
    }))
}

/// Reads a value; a plain decimal is what older gateways wrote. `stored_ms` is the store's time for it.
pub(super) fn decode(value: Option<&Bytes>, stored_ms: i64) -> Slot {
    let Some(bytes) = value else { return Slot::Absent };
    if let Some(offset) = plain_decimal(bytes) {
        let metadata = String::new();
        return Slot::Committed(Committed {
            offset,
            leader_epoch: -1,
            metadata,
            commit_ms: stored_ms,
            expire_ms: None,
            topic_id: None,
        });
    }
    sealed::open(bytes).and_then(|value| read(&value)).map_or(Slot::Damaged, Slot::Committed)
}

pub(super) fn nonce_of(value: Option<&Bytes>) -> Option<String> {
    Some(sealed::open(value?)?.get("nonce")?.as_str()?.to_owned())
}

fn plain_decimal(bytes: &[u8]) -> Option<i64> {
    let digits = !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(bytes).ok().filter(|_| digits)?.parse().ok()
}

fn read(value: &Value) -> Option<Committed> {
    let number = |name: &str| value.get(name)?.as_i64();
    let topic_id = match value.get("topic_id").and_then(Value::as_str) {
        Some(text) => Some(Uuid::parse(text)?),
        None => None,
    };
    Some(Committed {
        offset: number("offset")?,
        leader_epoch: i32::try_from(number("leader_epoch")?).ok()?,
        metadata: value.get("metadata")?.as_str()?.to_owned(),
        commit_ms: number("commit_ms")?,
        expire_ms: number("expire_ms"),
        topic_id,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_age_are_read() {
        let committed = Committed {
            offset: 8_872_783_363_889_192_000,
            leader_epoch: 3,
            metadata: "ü \"quoted\"".to_owned(),
            commit_ms: 17,
            expire_ms: Some(42),
            topic_id: Some(Uuid([7; 16])),
        };
        let value = encode(&committed, "n1");
        assert_eq!(decode(Some(&value), 0), Slot::Committed(committed.clone()));
        assert_eq!(nonce_of(Some(&value)).as_deref(), Some("n1"));

        let negative = Committed { offset: -2, ..committed };
        assert_eq!(decode(Some(&encode(&negative, "n1")), 0), Slot::Committed(negative));

        let old = Bytes::from_static(b"8872783363889192000");
        let slot = decode(Some(&old), 99);
        assert_eq!(slot.committed().map(|c| (c.offset, c.commit_ms)), Some((8_872_783_363_889_192_000, 99)));
        assert_eq!(decode(None, 0), Slot::Absent);
        for damaged in ["", "-1", "+1", " 1", "9223372036854775808", "{\"offset\":1}"] {
            assert_eq!(decode(Some(&Bytes::from(damaged)), 0), Slot::Damaged, "{damaged}");
        }
    }

    #[test]
    fn b171_keys_never_meet() {
        let pairs = [("a.b", "c"), ("a", "b.c"), ("a b", "c"), ("*", ">"), ("ü", "t"), ("", "t"), ("g:1", "t")];
        let mut seen = std::collections::HashSet::new();
        for (group, topic) in pairs {
            let at = TopicPartition::new(topic, 7);
            let key = key(group, &at);
            assert_eq!(parse_key(&key), Some((group.to_owned(), at)), "{key}");
            assert!(seen.insert(key));
        }
        assert_eq!(key("plain", &TopicPartition::new("topic", 0)), "plain.topic.0");
        for foreign in ["a.b", "a.b.x", "a.b.01", "a.b.1.c", "a.b.-"] {
            assert_eq!(parse_key(foreign), None, "{foreign}");
        }
    }
}
