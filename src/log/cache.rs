//! Stored messages kept in memory, for all partitions under one byte budget: the newest, and what readers read ahead.

use crate::limits::CACHE_BYTES_MAX;
use crate::metrics::Counter;
use crate::wire::Uuid;
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Mutex;

pub type PartitionKey = (Uuid, i32);

/// A message that counts, and which offsets it answers for: `from..next`, where `from` is the end of the message before it.
#[derive(Clone, Debug)]
pub struct Chain {
    pub from: i64,
    pub next: i64,
    pub payload: Bytes,
}

#[derive(Default)]
pub struct Cache {
    /// Protects the chains, their age order and their total size.
    held: Mutex<Held>,
    hits: Counter,
    misses: Counter,
}

/// How the cache is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheFacts {
    pub hits: u64,
    pub misses: u64,
    pub bytes: usize,
}

#[derive(Default)]
struct Held {
    partitions: HashMap<PartitionKey, BTreeMap<i64, Chain>>,
    /// Oldest first, each chain once.
    ages: VecDeque<(PartitionKey, i64)>,
    bytes: usize,
}

impl Cache {
    /// The chain that answers for `offset`; counted as a hit or a miss.
    pub fn get(&self, key: PartitionKey, offset: i64) -> Option<Chain> {
        let found = self.peek(key, offset);
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.add_one();
        found
    }

    pub fn facts(&self) -> CacheFacts {
        let bytes = self.held.lock().expect("no holder panics").bytes;
        CacheFacts { hits: self.hits.get(), misses: self.misses.get(), bytes }
    }

    /// The chain that answers for `offset`.
    pub fn peek(&self, key: PartitionKey, offset: i64) -> Option<Chain> {
        let held = self.held.lock().expect("no holder panics");
        let (_, chain) = held.partitions.get(&key)?.range(..=offset).next_back()?;
        (offset < chain.next).then(|| chain.clone())
    }

    pub fn put(&self, key: PartitionKey, chain: Chain) {
        let mut held = self.held.lock().expect("no holder panics");
        let from = chain.from;
        held.bytes += chain.payload.len();
        match held.partitions.entry(key).or_default().insert(from, chain) {
            Some(replaced) => held.bytes -= replaced.payload.len(),
            None => held.ages.push_back((key, from)),
        }
        while held.bytes > CACHE_BYTES_MAX {
            let Some((key, from)) = held.ages.pop_front() else {
                break;
            };
            held.remove(key, from);
        }
    }

    /// Drops what is held of a partition.
    pub fn forget(&self, key: PartitionKey) {
        let mut held = self.held.lock().expect("no holder panics");
        if let Some(chains) = held.partitions.remove(&key) {
            held.bytes -= chains.values().map(|chain| chain.payload.len()).sum::<usize>();
            held.ages.retain(|(k, _)| *k != key);
        }
    }
}

impl Held {
    fn remove(&mut self, key: PartitionKey, from: i64) {
        if let Some(chains) = self.partitions.get_mut(&key) {
            if let Some(chain) = chains.remove(&from) {
                self.bytes -= chain.payload.len();
            }
            if chains.is_empty() {
                self.partitions.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_again_and_again_takes_its_place_once() {
        let cache = Cache::default();
        for _ in 0..1_000 {
            cache.put((Uuid::ZERO, 0), Chain { from: 0, next: 1, payload: Bytes::from_static(b"batch") });
        }
        assert_eq!(cache.facts().bytes, 5);
        assert_eq!(cache.held.lock().expect("no holder panics").ages.len(), 1);
    }

    #[test]
    fn the_oldest_leave_first_and_gaps_belong_to_the_message_after_them() {
        let cache = Cache::default();
        let key = (Uuid::ZERO, 0);
        let payload = Bytes::from(vec![0; CACHE_BYTES_MAX / 4]);
        for i in 0..5 {
            cache.put(key, Chain { from: i * 10, next: i * 10 + 10, payload: payload.clone() });
        }
        assert!(cache.get(key, 0).is_none());
        assert_eq!(cache.get(key, 15).map(|chain| chain.from), Some(10));
        assert!(cache.get(key, 50).is_none());
        let facts = CacheFacts { hits: 1, misses: 2, bytes: CACHE_BYTES_MAX };
        assert_eq!(cache.facts(), facts);
        cache.forget(key);
        assert!(cache.get(key, 15).is_none());
        assert_eq!(cache.held.lock().expect("no holder panics").bytes, 0);
    }
}
