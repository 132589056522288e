//! Watch keys: how what happened reaches the requests parked on it.
//!
//! A parked request registers its keys under the id of its connection, checks its condition once more, and only then
//! rests. Whoever changes something notifies its key after the change is visible.

use crate::wire::Uuid;
use std::collections::HashMap;
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
    waiters: Mutex<HashMap<WatchKey, Vec<WaiterId>>>,
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
            let list = waiters.entry(key.clone()).or_default();
            if !list.contains(&waiter) {
                list.push(waiter);
            }
        }
    }

    pub fn unregister(&self, waiter: WaiterId, keys: &[WatchKey]) {
        let mut waiters = self.waiters.lock().expect("no holder panics");
        for key in keys {
            if let Some(list) = waiters.get_mut(key) {
                list.retain(|w| *w != waiter);
                if list.is_empty() {
                    waiters.remove(key);
                }
            }
        }
    }

    /// Wakes everyone registered on `key`; they stay registered until they unregister.
    pub fn notify(&self, key: &WatchKey) {
        let woken = match self.waiters.lock().expect("no holder panics").get(key) {
            Some(list) => list.clone(),
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
        self.waiters.lock().expect("no holder panics").values().map(Vec::len).sum()
    }

    pub(crate) fn next_promise_id(&self) -> u64 {
        self.next_promise.fetch_add(1, Ordering::Relaxed)
    }
}
