//! The log end that survives an emptied stream: one KV entry per partition, by compare-and-set, never decreasing.
//!
//! The entry is an anchor: at `sequence` the next offset was `next_offset`, exactly. No append whose last offset reaches
//! `ceiling` is published, so an end that can no longer be read is known to lie below it.

use crate::limits::PRODUCERS_PER_SNAPSHOT_MAX;
use crate::log::producers::Producers;
use crate::sealed;
use crate::store::{
    KvBucket, KvEntry, Sequence, Store, StoreError, StoreResult, kv_get_or_make, kv_get_present, kv_replace,
};
use crate::wire::Uuid;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Instant;

/// The bucket of end entries.
pub const BUCKET: &str = "kafka-ends";

/// How often a write that another gateway's came before is merged and tried again.
const ATTEMPTS_MAX: u32 = 8;

/// The batch that holds the largest timestamp seen so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NewestTime {
    pub timestamp: i64,
    pub base_offset: i64,
}

impl NewestTime {
    /// Takes note of a batch: the first one with the greatest time stays.
    pub fn note(newest: &mut Option<NewestTime>, timestamp: i64, base_offset: i64) {
        if newest.is_none_or(|newest| timestamp > newest.timestamp) {
            *newest = Some(NewestTime { timestamp, base_offset });
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndEntry {
    /// Up to and including this message, all is accounted for.
    pub sequence: Sequence,
    pub next_offset: i64,
    /// Offsets below this may have been given.
    pub ceiling: i64,
    /// Records below this offset were seen to be gone.
    pub log_start: i64,
    pub newest_time: Option<NewestTime>,
    pub producers: Producers,
}

/// The key of a partition's entry: topic ids are legal tokens.
pub fn key(topic_id: Uuid, index: i32) -> String {
    format!("{topic_id}.{index}")
}

/// Reads the entry at the leader; `None` where there never was one. Makes the bucket where there is none.
pub fn read(store: &dyn Store, replicas: u32, key: &str, deadline: Instant) -> StoreResult<Option<EndEntry>> {
    let bucket = KvBucket { name: BUCKET.to_owned(), replicas, max_age_ms: None };
    parse(&kv_get_or_make(store, &bucket, key, deadline)?)
}

/// What an entry says of a log's bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Anchor {
    pub sequence: Sequence,
    pub next_offset: i64,
    pub log_start: i64,
}

/// The entries whose keys match, read at the leader; damaged ones are left out.
pub fn anchors(store: &dyn Store, filter: &str, deadline: Instant) -> StoreResult<HashMap<String, Anchor>> {
    let entries = match store.kv_list(BUCKET, filter, deadline) {
        Err(StoreError::NoStream) => Vec::new(),
        listed => listed?,
    };
    let anchor = |entry: &KvEntry| {
        let value = sealed::open(entry.value.as_ref()?)?;
        Some(Anchor {
            sequence: Sequence(value["sequence"].as_u64()?),
            next_offset: value["next_offset"].as_i64()?,
            log_start: value["log_start"].as_i64()?,
        })
    };
    Ok(entries.into_iter().filter_map(|(key, entry)| Some((key, anchor(&entry)?))).collect())
}

/// Writes `entry`, merged with what stands there: each number only grows. Gives the ceiling that stands afterwards.
pub fn write(store: &dyn Store, key: &str, entry: &EndEntry, deadline: Instant) -> StoreResult<i64> {
    write_onto(store, key, |_| true, entry, deadline)
}

/// As `write`, if what stands there is as expected; `WrongLast` otherwise. Reads may have been old news, a write never is.
pub fn write_onto(
    store: &dyn Store,
    key: &str,
    expected: impl Fn(Option<&EndEntry>) -> bool,
    entry: &EndEntry,
    deadline: Instant,
) -> StoreResult<i64> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let found = kv_get_present(store, BUCKET, key, deadline)?;
        let stored = parse(&found)?;
        if !expected(stored.as_ref()) {
            return Err(StoreError::WrongLast(None));
        }
        let merged = stored.as_ref().map_or_else(|| entry.clone(), |stored| merge(stored, entry));
        // The nonce of a write whose answer was lost is not looked for: writing the merged entry again is as good.
        match kv_replace(store, BUCKET, key, Some(sealed::seal(&to_json(&merged))), found.revision, deadline) {
            Ok(_) => return Ok(merged.ceiling),
            Err(StoreError::WrongLast(_)) if attempts < ATTEMPTS_MAX => {}
            // A value that nobody can read yet holds the key: its outcome is open, and so is ours.
            Err(StoreError::WrongLast(_)) => return Err(StoreError::NoAnswer),
            Err(error) => return Err(error),
        }
    }
}

/// Removes the entry of a deleted topic's partition.
pub fn remove(store: &dyn Store, key: &str, deadline: Instant) -> StoreResult<()> {
    let found = store.kv_get(BUCKET, key, deadline)?;
    match found.value {
        Some(_) => kv_replace(store, BUCKET, key, None, found.revision, deadline).map(|_| ()),
        None => Ok(()),
    }
}

fn merge(stored: &EndEntry, ours: &EndEntry) -> EndEntry {
    let ahead = (ours.next_offset, ours.sequence) >= (stored.next_offset, stored.sequence);
    let mut merged = if ahead { ours.clone() } else { stored.clone() };
    merged.ceiling = stored.ceiling.max(ours.ceiling);
    merged.log_start = stored.log_start.max(ours.log_start);
    merged
}

fn to_json(entry: &EndEntry) -> Value {
    json!({
        "sequence": entry.sequence.0,
        "next_offset": entry.next_offset,
        "ceiling": entry.ceiling,
        "log_start": entry.log_start,
        "newest_time": entry.newest_time.map(|newest| [newest.timestamp, newest.base_offset]),
        "producers": entry.producers.snapshot(PRODUCERS_PER_SNAPSHOT_MAX),
    })
}

fn parse(found: &KvEntry) -> StoreResult<Option<EndEntry>> {
    let Some(bytes) = &found.value else {
        return Ok(None);
    };
    let read = || {
        let value = sealed::open(bytes)?;
        let time = &value["newest_time"];
        Some(EndEntry {
            sequence: Sequence(value["sequence"].as_u64()?),
            next_offset: value["next_offset"].as_i64()?,
            ceiling: value["ceiling"].as_i64()?,
            log_start: value["log_start"].as_i64()?,
            newest_time: time[0]
                .as_i64()
                .zip(time[1].as_i64())
                .map(|(timestamp, base_offset)| NewestTime { timestamp, base_offset }),
            producers: Producers::restore(&value["producers"]),
        })
    };
    // A damaged entry must not be taken for a missing one: offsets could repeat.
    read().map(Some).ok_or_else(|| StoreError::Garbled("a log end entry is damaged".to_owned()))
}
