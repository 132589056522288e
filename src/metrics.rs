//! Counters of what the gateway does. Counting is an atomic addition or two: no lock, no allocation.

mod apis;
mod histogram;
mod store;

pub use apis::{ApiRow, Apis};
pub use histogram::{Histogram, Reading};
pub use store::{Operation, StoreMetrics};

use std::sync::atomic::{AtomicU64, Ordering};

/// The process's counters; each may be read at any time and is only roughly in step with the others.
#[derive(Default)]
pub struct Metrics {
    pub connections_accepted: Counter,
    /// Closed at once because `max_connections` were open.
    pub connections_refused: Counter,
    pub connections_open: Gauge,
    /// From Kafka clients.
    pub bytes_in: Counter,
    /// To Kafka clients.
    pub bytes_out: Counter,
    pub requests: Counter,
    /// Requests that could not be answered, so that their connection was closed: not served, or not decoded.
    pub requests_refused: Counter,
    /// Requests that wait for someone else.
    pub requests_parked: Gauge,
    /// Jobs that panicked, each of which cost one connection or one task.
    pub panics: Counter,
    pub workers: Workers,
    pub apis: Apis,
    pub store: StoreMetrics,
}

/// What the worker pool does.
#[derive(Default)]
pub struct Workers {
    /// Worker threads that take every job.
    pub regular: Gauge,
    /// Worker threads that take only what memory answers.
    pub light: Gauge,
    pub busy: Gauge,
    /// Jobs that wait for a worker.
    pub queued: Gauge,
    pub jobs: Counter,
    /// Nanoseconds that workers spent in jobs, all together.
    pub busy_ns: Counter,
}

#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add_one(&self) {
        self.add(1);
    }

    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
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

    /// One that is lowered on another thread than it was raised may be read between the two: never as less than nothing.
    pub fn get(&self) -> u64 {
        let value = self.0.load(Ordering::Relaxed);
        if value > u64::MAX / 2 { 0 } else { value }
    }
}
