//! The writing of commits: guarded, decided when an answer is lost, in order per key.

use super::value::{self, Committed, Slot, TopicPartition};
use super::{BUCKET, GroupOffsets, Offsets, Tenure};
use crate::limits::STORE_CALL_MAX;
use crate::promise::Promise;
use crate::protocol::error_code::ErrorCode;
use crate::store::{self, PubAck, Sequence, StoreError, StoreResult, kv_message};
use crate::wire::Uuid;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Reads and repeats after a failed guard or a lost answer. Each repeat that fails means that somebody else writes.
const ATTEMPTS_MAX: usize = 8;

#[derive(Clone, Debug, PartialEq)]
pub enum CommitError {
    Store(StoreError),
    /// Another gateway owns the group.
    NotOwner,
    /// The group does not accept commits from this sender now.
    Refused(ErrorCode),
}

pub type Outcome = Result<(), CommitError>;

pub type NewCommit = (TopicPartition, Committed, Promise<Outcome>);

/// What was enqueued at once, under one claim.
pub(super) struct Arrival {
    pub group: String,
    tenure: u64,
    commits: Vec<NewCommit>,
}

/// The newest commit of a key whose write is in flight, and all who wait for it.
pub(super) struct Waiting {
    committed: Committed,
    promises: Vec<Promise<Outcome>>,
}

/// One commit on its way.
struct Flight {
    at: TopicPartition,
    committed: Committed,
    expected: Sequence,
    nonce: String,
    promises: Vec<Promise<Outcome>>,
}

/// Commits that were sent together; settled when the last answer is there.
struct Batch {
    offsets: Arc<GroupOffsets>,
    flights: Vec<Flight>,
    outcomes: Vec<Option<StoreResult<PubAck>>>,
    open: usize,
    deadline: Instant,
}

impl Offsets {
    /// Takes commits of a group that this gateway owns, in the order in which they count. Never blocks. Whoever enqueues
    /// calls `commit` next. Each promise is kept when its commit, or a newer one of the same key, is stored or has failed.
    pub fn enqueue(&self, group: &str, commits: Vec<NewCommit>, tenure: &dyn Tenure) {
        let arrival = Arrival { group: group.to_owned(), tenure: tenure.number(), commits };
        self.arrivals.lock().expect("no holder panics").push(arrival);
    }

    /// Sends what was enqueued under this claim, whoever enqueued it: a thread that is quicker takes along what came before
    /// its own. Blocks only to read the group's commits the first time.
    pub fn commit(&self, group: &str, tenure: &Arc<dyn Tenure>) {
        let deadline = self.clock.now().mono + STORE_CALL_MAX;
        let known = self.known(group, tenure, deadline).map_err(CommitError::Store);
        let offsets = match known.and_then(|offsets| offsets.ok_or(CommitError::NotOwner)) {
            Ok(offsets) => offsets,
            Err(error) => {
                for (_, _, promise) in self.arrived(group, &**tenure) {
                    promise.keep(Err(error.clone()));
                }
                return;
            }
        };
        let mut flights = Vec::new();
        {
            // Under this lock, or what another thread takes next could overtake this.
            let mut known = offsets.lock();
            for (at, committed, promise) in self.arrived(group, &**tenure) {
                let cell = known.cells.entry(at.clone()).or_default();
                if cell.in_flight {
                    let earlier = cell.waiting.take();
                    let mut promises = earlier.map_or_else(Vec::new, |waiting| waiting.promises);
                    promises.push(promise);
                    cell.waiting = Some(Waiting { committed, promises });
                    continue;
                }
                cell.in_flight = true;
                let waiting = Waiting { committed, promises: vec![promise] };
                flights.push(waiting.depart(at, cell.revision));
            }
        }
        self.send(offsets, flights, deadline);
    }

    fn arrived(&self, group: &str, tenure: &dyn Tenure) -> Vec<NewCommit> {
        let mut arrivals = self.arrivals.lock().expect("no holder panics");
        let ours = arrivals.extract_if(.., |arrival| arrival.group == group && arrival.tenure == tenure.number());
        ours.flat_map(|arrival| arrival.commits).collect()
    }

    fn send(&self, offsets: Arc<GroupOffsets>, flights: Vec<Flight>, deadline: Instant) {
        let count = flights.len();
        if count == 0 {
            return;
        }
        let messages: Vec<_> = flights.iter().map(|flight| flight.message(&offsets.group)).collect();
        let outcomes = (0..count).map(|_| None).collect();
        let batch = Arc::new(Mutex::new(Some(Batch { offsets, flights, outcomes, open: count, deadline })));
        for (index, message) in messages.into_iter().enumerate() {
            let (batch, this, tasks) = (batch.clone(), self.this.clone(), self.tasks.clone());
            let done = move |outcome| {
                let mut slot = batch.lock().expect("no holder panics");
                let Some(open) = slot.as_mut() else { return };
                if let Some(place) = open.outcomes.get_mut(index) {
                    *place = Some(outcome);
                }
                open.open -= 1;
                if open.open > 0 {
                    return;
                }
                let complete = slot.take();
                drop(slot);
                // Settling may have to read: not on the reply reader.
                tasks.spawn(Box::new(move || {
                    if let (Some(this), Some(batch)) = (this.upgrade(), complete) {
                        this.settle(batch);
                    }
                }));
            };
            self.store.publish_begin(message, deadline, Box::new(done));
        }
    }

    fn settle(&self, batch: Batch) {
        let Batch { offsets, flights, outcomes, deadline, .. } = batch;
        let mut undecided = Vec::new();
        let mut next = Vec::new();
        for (flight, outcome) in flights.into_iter().zip(outcomes) {
            match outcome.unwrap_or(Err(StoreError::NoAnswer)) {
                Ok(ack) => next.extend(land(&offsets, flight, Ok(ack.sequence))),
                Err(error) => undecided.push((flight, error)),
            }
        }
        // Those that are stored do not wait for those whose fate must be found out.
        self.send(offsets.clone(), next, self.clock.now().mono + STORE_CALL_MAX);
        let mut outage: Option<CommitError> = None;
        for (mut flight, error) in undecided {
            let outcome = match &outage {
                Some(error) => Err(error.clone()),
                None => self.decide(&offsets, &mut flight, error, deadline),
            };
            // The store does not answer: the others are not tried one by one, each with a wait of its own.
            if let Err(error @ CommitError::Store(StoreError::NoAnswer | StoreError::Unavailable | StoreError::Busy)) =
                &outcome
            {
                outage = Some(error.clone());
            }
            let next = land(&offsets, flight, outcome);
            self.send(offsets.clone(), next.into_iter().collect(), self.clock.now().mono + STORE_CALL_MAX);
        }
    }

    /// Finds out what became of a write that was not acknowledged, and repeats it where it was not done.
    fn decide(
        &self,
        offsets: &GroupOffsets,
        flight: &mut Flight,
        error: StoreError,
        deadline: Instant,
    ) -> Result<Sequence, CommitError> {
        let mut last = error;
        for _ in 0..ATTEMPTS_MAX {
            match last {
                StoreError::WrongLast(_) | StoreError::NoAnswer => {}
                StoreError::NoStream | StoreError::Unavailable => self.ensure_bucket(deadline)?,
                other => return Err(CommitError::Store(other)),
            }
            // A new deadline: the old one may have passed in waiting for the lost answer.
            let deadline = deadline.max(self.clock.now().mono + STORE_CALL_MAX / 2);
            let entry = self.store.kv_get(BUCKET, &value::key(&offsets.group, &flight.at), deadline)?;
            if value::nonce_of(entry.value.as_ref()).as_deref() == Some(flight.nonce.as_str()) {
                return Ok(entry.revision);
            }
            if entry.revision != flight.expected {
                if !offsets.tenure.verify(deadline)? {
                    return Err(CommitError::NotOwner);
                }
                flight.expected = entry.revision;
            }
            if !offsets.tenure.stands() {
                return Err(CommitError::NotOwner);
            }
            // Under an unchanged revision the same message again: at most one copy of it can take the place.
            match store::publish(&*self.store, flight.message(&offsets.group), deadline) {
                Ok(ack) => return Ok(ack.sequence),
                Err(error) => last = error,
            }
        }
        Err(CommitError::Store(last))
    }
}

/// Records the outcome, answers those who waited for it, and gives the commit that goes next on that key. Where the claim has
/// ended meanwhile, somebody else may have read the commits before this one was stored: it does not count.
fn land(offsets: &GroupOffsets, flight: Flight, outcome: Result<Sequence, CommitError>) -> Option<Flight> {
    let ended = !offsets.tenure.stands();
    let outcome = if ended { Err(CommitError::NotOwner) } else { outcome };
    let mut left = None;
    let next = {
        let mut known = offsets.lock();
        let cell = known.cells.entry(flight.at.clone()).or_default();
        match &outcome {
            Ok(revision) if *revision >= cell.revision => {
                cell.revision = *revision;
                cell.slot = Slot::Committed(flight.committed);
                cell.certain = true;
            }
            // It was stored, and removed before this was known.
            Ok(_) => {}
            Err(_) => {
                cell.revision = cell.revision.max(flight.expected);
                cell.certain = false;
            }
        }
        let mut waiting = cell.waiting.take();
        if ended {
            left = waiting.take();
        }
        cell.in_flight = waiting.is_some();
        waiting.map(|waiting| waiting.depart(flight.at, cell.revision))
    };
    for promise in flight.promises.into_iter().chain(left.into_iter().flat_map(|waiting| waiting.promises)) {
        promise.keep(outcome.as_ref().map(|_| ()).map_err(Clone::clone));
    }
    next
}

impl Waiting {
    fn depart(self, at: TopicPartition, expected: Sequence) -> Flight {
        let Waiting { committed, promises } = self;
        Flight { at, committed, expected, nonce: Uuid::random().to_string(), promises }
    }
}

impl Flight {
    fn message(&self, group: &str) -> store::Publish {
        let value = value::encode(&self.committed, &self.nonce);
        kv_message(BUCKET, &value::key(group, &self.at), Some(value), self.expected)
    }
}

impl std::convert::From<StoreError> for CommitError {
    fn from(error: StoreError) -> CommitError {
        CommitError::Store(error)
    }
}
