//! Where a request's time went: for a worker, in the store, to its peer. The rest is our own work.

use crate::activity::{Label, take_store_time};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One request's time so far. Its parts follow each other, so they add up to what the client waited, but for what it waited
/// behind earlier requests of its own connection.
pub(super) struct Timing {
    pub label: Arc<Label>,
    pub begun: Instant,
    /// Its connection stood in a worker queue.
    queue: Duration,
    /// Spent in store calls, or parked until the store had answered.
    store: Duration,
    /// Parked until other clients did something: not slowness.
    others: Duration,
    /// On a worker, outside of the store.
    work: Duration,
    /// When the part that runs now began.
    since: Instant,
}

/// A request that is over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Parts {
    pub queue: Duration,
    pub store: Duration,
    pub others: Duration,
    pub work: Duration,
    pub write: Duration,
}

impl Parts {
    /// What the client waited without anybody else's doing.
    pub(super) fn ours(&self) -> Duration {
        self.queue + self.store + self.work + self.write
    }
}

impl Timing {
    /// A worker begins it, after its connection waited `queue` for one.
    pub(super) fn begin(label: Arc<Label>, queue: Duration, now: Instant) -> Timing {
        // What the worker did before it is another's.
        take_store_time();
        let none = Duration::ZERO;
        Timing { label, begun: now, queue, store: none, others: none, work: none, since: now }
    }

    /// Since the last note it ran on this thread.
    pub(super) fn ran(&mut self) {
        let spent = self.lap(Instant::now());
        let store = take_store_time().min(spent);
        self.store += store;
        self.work += spent - store;
    }

    /// Since the last note it was parked; now it is asked.
    pub(super) fn asked(&mut self, waits_for_others: bool) {
        let spent = self.lap(Instant::now());
        if waits_for_others {
            self.others += spent;
        } else {
            self.store += spent;
        }
        take_store_time();
    }

    /// The end of what it was parked was spent in a worker queue.
    pub(super) fn queued_again(&mut self, queued: Duration) {
        self.queue += queued;
        self.since += queued;
    }

    /// Its reply is about to leave: what it waited behind earlier replies is theirs.
    pub(super) fn leaves(&mut self) {
        self.lap(Instant::now());
    }

    /// Its last byte has left.
    pub(super) fn end(mut self, now: Instant) -> (Arc<Label>, Parts) {
        let write = self.lap(now);
        let Timing { label, queue, store, others, work, .. } = self;
        (label, Parts { queue, store, others, work, write })
    }

    fn lap(&mut self, now: Instant) -> Duration {
        let spent = now.saturating_duration_since(self.since);
        self.since = now;
        spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_others_is_told_apart_from_waiting_for_the_store() {
        let ms = Duration::from_millis;
        let peer = "127.0.0.1:1".parse().expect("an address");
        let label = Label { api: "Fetch", version: 4, correlation_id: 1, client_id: String::new(), peer };
        let long_ago = Instant::now().checked_sub(ms(900)).expect("the machine is up");
        let mut timing = Timing::begin(Arc::new(label), ms(5), long_ago);
        timing.queued_again(ms(300));
        timing.asked(true);
        let end = timing.since + ms(40);
        let (_, parts) = timing.end(end);
        assert_eq!((parts.queue, parts.store, parts.write), (ms(305), ms(0), ms(40)));
        assert!(parts.others >= ms(600), "{parts:?}");
        assert_eq!(parts.ours(), ms(345));
    }
}
