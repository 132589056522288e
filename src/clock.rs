//! Time, handed in: domain code never asks the system for it.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// One reading of both clocks: deadlines count on `mono`, timestamps in records and KV values are `wall_ms`.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub mono: Instant,
    /// Milliseconds since the Unix epoch.
    pub wall_ms: i64,
}

pub trait Clock: Send + Sync {
    fn now(&self) -> Now;
}

pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Now {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { mono: Instant::now(), wall_ms: i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX) }
    }
}

/// A clock that moves only when told; for unit tests.
pub struct ManualClock {
    /// Protects the present reading.
    now: Mutex<Now>,
}

impl ManualClock {
    pub fn new() -> Self {
        ManualClock { now: Mutex::new(Now { mono: Instant::now(), wall_ms: 1_700_000_000_000 }) }
    }

    pub fn advance(&self, by: Duration) {
        let mut now = self.now.lock().expect("no holder panics");
        now.mono += by;
        now.wall_ms += i64::try_from(by.as_millis()).expect("test durations are small");
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Now {
        *self.now.lock().expect("no holder panics")
    }
}
