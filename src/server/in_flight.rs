//! The requests of one connection that are begun and not answered, in their order.

use super::timing::Timing;
use crate::activity::Waiting;
use crate::clock::Now;
use crate::handlers::{Kind, Outcome, Parked};
use crate::metrics::Metrics;
use crate::wake::{WaiterId, Wakeups, WatchKey};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

#[derive(Default)]
pub(super) struct InFlight {
    entries: VecDeque<Entry>,
    frame_bytes: usize,
}

struct Entry {
    kind: Kind,
    frame_bytes: usize,
    state: State,
    timing: Timing,
}

enum State {
    Reply(Vec<u8>),
    Silent,
    Close,
    Parked { request: Box<dyn Parked>, keys: Vec<WatchKey> },
}

/// What leaves at the front.
pub(super) enum Settled {
    Reply(Vec<u8>, Timing),
    Silent(Timing),
    Close,
}

/// A frame whose request was begun.
pub(super) struct Frame {
    pub kind: Kind,
    pub frame_bytes: usize,
    pub timing: Timing,
}

/// The waiter's surroundings.
pub(super) struct Watch<'a> {
    pub id: WaiterId,
    pub wakeups: &'a Wakeups,
    pub metrics: &'a Metrics,
}

impl InFlight {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of the frames whose requests are not settled.
    pub(super) fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    pub(super) fn is_all(&self, kind: Kind) -> bool {
        self.entries.iter().all(|entry| entry.kind == kind)
    }

    /// What the first is; none is begun beside a fetch.
    pub(super) fn first_kind(&self) -> Option<Kind> {
        self.entries.front().map(|entry| entry.kind)
    }

    /// What is parked, for people.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Waiting> {
        self.entries.iter().filter_map(|entry| match &entry.state {
            State::Parked { request, .. } => Some(Waiting {
                request: entry.timing.label.clone(),
                since: entry.timing.begun,
                deadline: request.deadline(),
                waits_for: request.waits_for(),
            }),
            _ => None,
        })
    }

    /// Since when the first that is parked was begun.
    pub(super) fn parked_since(&self) -> Option<Instant> {
        self.parked().next().map(|entry| entry.timing.begun)
    }

    pub(super) fn parked_count(&self) -> usize {
        self.parked().count()
    }

    fn parked(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| matches!(entry.state, State::Parked { .. }))
    }

    /// The connection has waited for a worker, to have what is parked asked.
    pub(super) fn add_queued(&mut self, queued: Duration) {
        for entry in self.entries.iter_mut().filter(|entry| matches!(entry.state, State::Parked { .. })) {
            entry.timing.queued_again(queued);
        }
    }

    /// The earliest deadline of what is parked.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let parked = self.entries.iter().filter_map(|entry| match &entry.state {
            State::Parked { request, .. } => Some(request.deadline()),
            _ => None,
        });
        parked.min()
    }

    /// Takes in what became of a frame. What is to be parked is registered first and asked once more then, so that no
    /// wake-up is lost.
    pub(super) fn push(&mut self, frame: Frame, outcome: Outcome, now: Now, watch: &Watch<'_>) {
        let Frame { kind, frame_bytes, timing } = frame;
        let state = match outcome {
            Outcome::Park(request) => {
                let keys = request.keys();
                watch.wakeups.register(watch.id, &keys);
                watch.metrics.requests_parked.raise();
                State::Parked { request, keys }
            }
            outcome => State::of(outcome),
        };
        self.frame_bytes += frame_bytes;
        self.entries.push_back(Entry { kind, frame_bytes, state, timing });
        if let Some(entry) = self.entries.back_mut() {
            entry.poll(watch, |_| now);
        }
    }

    /// Asks everything that is parked whether it can answer now. What has reached its deadline and does not answer, which
    /// would be our own mistake, closes the connection: its client must not wait for ever.
    pub(super) fn poll(&mut self, watch: &Watch<'_>, now_for: impl Fn(&dyn Parked) -> Now) {
        for entry in &mut self.entries {
            entry.poll(watch, &now_for);
        }
    }

    /// Takes the next thing to do at the front, if its request is settled.
    pub(super) fn next_settled(&mut self) -> Option<Settled> {
        if matches!(self.entries.front()?.state, State::Parked { .. }) {
            return None;
        }
        let entry = self.entries.pop_front()?;
        self.frame_bytes -= entry.frame_bytes;
        Some(match entry.state {
            State::Reply(reply) => Settled::Reply(reply, entry.timing),
            State::Silent => Settled::Silent(entry.timing),
            // What is parked stays, see above.
            State::Close | State::Parked { .. } => Settled::Close,
        })
    }

    /// Whether the connection is to be closed once the replies before are written.
    pub(super) fn ends_in_close(&self) -> bool {
        self.entries.iter().any(|entry| matches!(entry.state, State::Close))
    }

    /// Removes and abandons one parked request; `false` when there is none left.
    pub(super) fn abandon_next(&mut self, watch: &Watch<'_>) -> bool {
        while let Some(entry) = self.entries.pop_front() {
            if let State::Parked { mut request, keys } = entry.state {
                watch.release(&keys);
                request.abandon();
                return true;
            }
        }
        false
    }
}

impl Entry {
    fn poll(&mut self, watch: &Watch<'_>, now_for: impl Fn(&dyn Parked) -> Now) {
        let State::Parked { request, keys } = &mut self.state else { return };
        let now = now_for(&**request);
        self.timing.asked(request.waits_for_others());
        let outcome = request.poll(now);
        self.timing.ran();
        if outcome.is_none() && now.mono < request.deadline() {
            return;
        }
        watch.release(keys);
        self.state = outcome.map_or(State::Close, State::of);
    }
}

impl Watch<'_> {
    fn release(&self, keys: &[WatchKey]) {
        self.wakeups.unregister(self.id, keys);
        self.metrics.requests_parked.lower();
    }
}

impl State {
    fn of(outcome: Outcome) -> State {
        match outcome {
            Outcome::Reply(reply) => State::Reply(reply),
            Outcome::Silent => State::Silent,
            // `poll` never parks again; if it did, nobody could answer the request any more.
            Outcome::Close | Outcome::Park(_) => State::Close,
        }
    }
}
