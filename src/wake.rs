//! Watch keys: how what happened reaches the requests parked on it.
//!
//! A parked request registers its keys under the id of its connection, checks its condition once more, and only then
//! rests. Whoever changes something notifies its key after the change is visible.

use crate::wire::Uuid;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

/// Identifies a parked connection, or a parked request that has none: a guest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct WaiterId(pub u64);

impl WaiterId {
    const GUESTS_FROM: u64 = 1 << 63;

    pub fn guest(number: u64) -> WaiterId {
        WaiterId(WaiterId::GUESTS_FROM | number)
    }

    fn is_guest(self) -> bool {
        self.0 >= WaiterId::GUESTS_FROM
    }
}

type Sink = Box<dyn Fn(WaiterId) + Send + Sync>;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum WatchKey {
    /// The end of a partition's log moved, or may have, or its topic was deleted.
    Partition { topic_id: Uuid, index: i32 },
    /// A promise was kept; see `promise`.
    Promise(u64),
}

/// The registry of who waits for what. Cloned handles are `Arc`s.
#[derive(Default)]
pub struct Wakeups {
    /// Who is registered on which key. Never held while the sink runs.
    waiters: Mutex<HashMap<WatchKey, BTreeSet<WaiterId>>>,
    sink: OnceLock<Sink>,
    guest_sink: OnceLock<Sink>,
    next_promise: AtomicU64,
}

impl Wakeups {
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets, once, where wake-ups go. The sink must not block; a wake-up for a waiter that is gone is dropped there.
    pub fn set_sink(&self, sink: Sink) {
        let _ = self.sink.set(sink);
    }

    /// The same for guests.
    pub fn set_guest_sink(&self, sink: Sink) {
        let _ = self.guest_sink.set(sink);
    }

    pub fn register(&self, waiter: WaiterId, keys: &[WatchKey]) {
        let mut waiters = self.waiters.lock().expect("no holder panics");
        for key in keys {
            waiters.entry(key.clone()).or_default().insert(waiter);
        }
    }

    pub fn unregister(&self, waiter: WaiterId, keys: &[WatchKey]) {
        let mut waiters = self.waiters.lock().expect("no holder panics");
        for key in keys {
            if let Some(registered) = waiters.get_mut(key) {
                registered.remove(&waiter);
                if registered.is_empty() {
                    waiters.remove(key);
                }
            }
        }
    }

    /// Wakes everyone registered on `key`, in no promised order; they stay registered until they unregister.
    pub fn notify(&self, key: &WatchKey) {
        let woken: Vec<WaiterId> = match self.waiters.lock().expect("no holder panics").get(key) {
            Some(registered) => registered.iter().copied().collect(),
            None => return,
        };
        for waiter in woken {
            let sink = if waiter.is_guest() { self.guest_sink.get() } else { self.sink.get() };
            if let Some(sink) = sink {
                sink(waiter);
            }
        }
    }

    /// Whether somebody waits on `key`.
    pub fn is_awaited(&self, key: &WatchKey) -> bool {
        self.waiters.lock().expect("no holder panics").contains_key(key)
    }

    /// How many registrations stand; for tests and metrics.
    pub fn registered(&self) -> usize {
        self.waiters.lock().expect("no holder panics").values().map(BTreeSet::len).sum()
    }

    pub(crate) fn next_promise_id(&self) -> u64 {
        self.next_promise.fetch_add(1, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    fn partition(index: i32) -> WatchKey {
        WatchKey::Partition { topic_id: Uuid::ZERO, index }
    }

    #[test]
    fn each_waiter_of_a_key_is_woken_once_until_it_unregisters() {
        let (wakeups, woken) = (Wakeups::new(), Arc::new(Mutex::new(Vec::new())));
        let seen = woken.clone();
        wakeups.set_sink(Box::new(move |waiter| seen.lock().unwrap().push(waiter.0)));
        let seen = woken.clone();
        wakeups.set_guest_sink(Box::new(move |guest| seen.lock().unwrap().push(guest.0)));
        let notified = |index| {
            wakeups.notify(&partition(index));
            let mut woken = std::mem::take(&mut *woken.lock().unwrap());
            woken.sort_unstable();
            woken
        };
        let guest = WaiterId::guest(7);
        wakeups.register(WaiterId(1), &[partition(0), partition(0), partition(1)]);
        wakeups.register(WaiterId(2), &[partition(0)]);
        wakeups.register(guest, &[partition(0)]);
        assert_eq!(wakeups.registered(), 4);
        assert_eq!(notified(0), [1, 2, guest.0]);
        assert_eq!(notified(0), [1, 2, guest.0], "they stay registered");
        assert_eq!(notified(1), [1]);
        assert_eq!(notified(2), [0; 0]);
        wakeups.unregister(WaiterId(1), &[partition(0), partition(2)]);
        assert_eq!(notified(0), [2, guest.0]);
        assert_eq!(notified(1), [1]);
        wakeups.unregister(WaiterId(1), &[partition(1)]);
        assert!(!wakeups.is_awaited(&partition(1)));
    }

    /// How long so many waiters take to register and unregister, so many of them at each key.
    fn took(waiters: i32, at_each: i32) -> Duration {
        let wakeups = Wakeups::new();
        let key_of = |waiter: i32| (WaiterId(u64::from(waiter.unsigned_abs())), [partition(waiter / at_each)]);
        let start = Instant::now();
        for (waiter, keys) in (0..waiters).map(key_of) {
            wakeups.register(waiter, &keys);
        }
        for (waiter, keys) in (0..waiters).rev().map(key_of) {
            wakeups.unregister(waiter, &keys);
        }
        assert_eq!(wakeups.registered(), 0);
        start.elapsed()
    }

    #[test]
    fn many_at_one_partition_cost_little_more_than_at_one_each() {
        let best = |at_each| (0..5).map(|_| took(20_000, at_each)).min().unwrap();
        let (apart, together) = (best(1), best(20_000));
        assert!(together < apart * 10, "{together:?} together, {apart:?} apart");
    }
}
