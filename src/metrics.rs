//! Counters of what the gateway does.

use std::sync::atomic::{AtomicU64, Ordering};

/// The process's counters; each may be read at any time and is only roughly in step with the others.
#[derive(Default)]
pub struct Metrics {
    pub connections_accepted: Counter,
    /// Closed at once because `max_connections` were open.
    pub connections_refused: Counter,
    pub connections_open: Gauge,
    pub requests: Counter,
    /// Requests that wait for someone else.
    pub requests_parked: Gauge,
    /// Jobs that panicked, each of which cost one connection or one task.
    pub panics: Counter,
}

#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    pub fn raise(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn lower(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
