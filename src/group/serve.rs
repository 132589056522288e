//! The running of one group: loading and claiming it, one event after another, writes and timers.

use super::cell::{Busy, Cell, CommitRequest, Inner, Phase, Ready, ReplyTo, Request, Write};
use super::event::{Event, Reply, Token};
use super::ownership::Claim;
use super::record::{self, Label, Owner};
use super::state::Group;
use super::{BUCKET, Groups, Standing};
use crate::clock::Now;
use crate::limits::{GROUP_QUEUE_MAX, OWNER_UNKNOWN_RETRY, OWNER_UNKNOWN_TRIES, STORE_CALL_MAX};
use crate::offsets::Tenure;
use crate::promise::Promise;
use crate::protocol::error_code::ErrorCode;
use crate::store::{self, KvBucket, KvEntry, PubAck, Sequence, StoreError, StoreResult, kv_message};
use crate::wire::Uuid;
use slog::{error, info, warn};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Each attempt of a claim that fails means that somebody else wrote.
const CLAIM_ATTEMPTS_MAX: usize = 5;

/// How long a deletion waits for commits under way, which takes longer than an answer only where one was lost, and how often it
/// looks.
const DELETE_WAIT_MAX: Duration = STORE_CALL_MAX.saturating_mul(2);
const DELETE_LOOK_EVERY: Duration = Duration::from_millis(10);

/// Repeats of a write whose answer was lost.
const WRITE_ATTEMPTS_MAX: usize = 3;

/// What is done once the cell's lock is released.
enum After {
    Reply(ReplyTo, Reply),
    Answer(Promise<ErrorCode>, ErrorCode),
    RefuseCommit(CommitRequest, ErrorCode),
    Log(String),
    Write(Write),
    /// Of what is enqueued.
    Commit(Arc<Claim>),
    Delete(Promise<ErrorCode>),
    Retire,
    Timer(Instant),
}

/// What became of a group that was to be loaded.
enum Claimed {
    Ready(Box<Ready>),
    /// There is no such group, and nobody who waits would make it.
    Absent,
    /// Whether its owner is alive is not known yet.
    Later,
}

impl Groups {
    /// Puts a request in its group's queue and does what can be done. May block to load the group.
    pub(super) fn submit(&self, group: &str, request: Request) {
        let mut request = Some(request);
        loop {
            let (cell, is_new) = self.find_or_open(group);
            {
                let mut inner = cell.lock();
                if matches!(inner.phase, Phase::Closed) {
                    continue;
                }
                let Some(request) = request.take() else { return };
                if inner.queue.len() >= GROUP_QUEUE_MAX {
                    drop(inner);
                    return request.refuse(ErrorCode::COORDINATOR_NOT_AVAILABLE);
                }
                inner.queue.push_back(request);
            }
            if is_new {
                self.load(&cell, 1);
            }
            return self.drive(&cell);
        }
    }

    fn find_or_open(&self, group: &str) -> (Arc<Cell>, bool) {
        let mut cells = self.cells.lock().expect("no holder panics");
        if let Some(cell) = cells.get(group) {
            return (cell.clone(), false);
        }
        let cell = Arc::new(Cell::new(group));
        cells.insert(group.to_owned(), cell.clone());
        (cell, true)
    }

    fn load(&self, cell: &Arc<Cell>, attempt: usize) {
        match self.claim(cell) {
            Ok(Claimed::Ready(ready)) => cell.lock().phase = Phase::Ready(ready),
            Ok(Claimed::Later) if attempt < OWNER_UNKNOWN_TRIES => self.load_later(cell, attempt + 1),
            Ok(Claimed::Later) => self.fail(cell, ErrorCode::COORDINATOR_NOT_AVAILABLE),
            Ok(Claimed::Absent) => {
                for request in self.close(cell) {
                    match request {
                        Request::Delete(promise) => promise.keep(self.delete_offsets_only(&cell.group)),
                        // It came after the decision that the group need not be made.
                        request if request.creates() => self.submit(&cell.group, request),
                        request => request.refuse_unknown(),
                    }
                }
            }
            Err(code) => self.fail(cell, code),
        }
    }

    fn load_later(&self, cell: &Arc<Cell>, attempt: usize) {
        let (this, cell) = (self.this.clone(), cell.clone());
        let load = move || {
            if let Some(this) = this.upgrade() {
                this.load(&cell, attempt);
                this.drive(&cell);
            }
        };
        self.tasks.spawn_at(self.clock.now().mono + OWNER_UNKNOWN_RETRY, Box::new(load));
    }

    /// Reads the group and makes it ours by a write, if nobody alive owns it.
    fn claim(&self, cell: &Cell) -> Result<Claimed, ErrorCode> {
        for _ in 0..CLAIM_ATTEMPTS_MAX {
            // Before anything is read: a lease that is lost from here on ends the claim.
            let term = self.leases.term();
            if !self.leases.holds() || self.is_released() {
                return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
            }
            let deadline = self.deadline();
            let entry = self.read(&cell.key, deadline).map_err(|error| self.unreadable(cell, &error))?;
            let now = self.clock.now();
            let (group, owner) = match entry.value.as_ref().map(|value| record::decode(value, now)) {
                Some(Some((group, label))) => (group, label.owner),
                Some(None) => {
                    // Members join again by themselves; that is better than a group that can never be used again.
                    error!(self.logger, "a group's stored state is damaged, it begins anew"; "group" => &cell.group);
                    (Group::new(now), None)
                }
                None if !cell.lock().queue.iter().any(Request::creates) => return Ok(Claimed::Absent),
                None => (Group::new(now), None),
            };
            let epoch = owner.as_ref().map_or(0, |owner| owner.epoch);
            if let Some(other) = owner.map(|owner| owner.gateway).filter(|gateway| *gateway != self.owner.0) {
                match self.leases.standing(&other) {
                    Standing::Gone => {}
                    Standing::Unknown => return Ok(Claimed::Later),
                    Standing::Live => {
                        self.learn_owner(&cell.group, &other);
                        return Err(ErrorCode::NOT_COORDINATOR);
                    }
                }
                info!(self.logger, "a group is taken over"; "group" => &cell.group, "from" => other);
            }
            let claim = self.new_claim(&cell.group, term, epoch + 1);
            let label = self.label(claim.epoch, &Uuid::random().to_string());
            let message = kv_message(BUCKET, &cell.key, Some(record::encode(&group, &label)), entry.revision);
            match store::publish(&*self.store, message, deadline) {
                Ok(_) if !claim.stands() => return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE),
                Ok(ack) => return Ok(Claimed::Ready(Box::new(Ready::new(group, ack.sequence, claim)))),
                // Somebody was faster, or the answer was lost: the next read tells. A claim of ours is simply repeated.
                Err(StoreError::WrongLast(_) | StoreError::NoAnswer) => {}
                Err(error) => return Err(self.unreadable(cell, &error)),
            }
        }
        Err(ErrorCode::COORDINATOR_NOT_AVAILABLE)
    }

    fn unreadable(&self, cell: &Cell, error: &StoreError) -> ErrorCode {
        if let Some(held_back) = self.complaints.pass(self.clock.now().mono) {
            warn!(self.logger, "a group cannot be loaded";
                "group" => &cell.group, "error" => %error, "held_back" => held_back);
        }
        ErrorCode::COORDINATOR_NOT_AVAILABLE
    }

    pub(super) fn label(&self, epoch: i64, nonce: &str) -> Label {
        Label { owner: Some(Owner { gateway: self.owner.0.clone(), epoch }), nonce: nonce.to_owned() }
    }

    pub(super) fn deadline(&self) -> Instant {
        self.clock.now().mono + STORE_CALL_MAX
    }

    pub(super) fn read(&self, key: &str, deadline: Instant) -> StoreResult<KvEntry> {
        match self.store.kv_get(BUCKET, key, deadline) {
            Err(StoreError::NoStream) => {
                self.ensure_bucket(deadline)?;
                Ok(KvEntry::default())
            }
            other => other,
        }
    }

    pub(super) fn ensure_bucket(&self, deadline: Instant) -> StoreResult<()> {
        let bucket = KvBucket { name: BUCKET.to_owned(), replicas: self.replicas, max_age_ms: None };
        self.store.kv_ensure(&bucket, deadline)
    }

    /// Does what is queued, as far as it need not wait for a write.
    pub(super) fn drive(&self, cell: &Arc<Cell>) {
        loop {
            if cell.claim().is_some_and(|(claim, _)| !claim.stands()) {
                return self.fail(cell, ErrorCode::NOT_COORDINATOR);
            }
            let mut after = Vec::new();
            let more = self.step(&cell.group, &mut cell.lock(), &mut after);
            for action in after {
                self.perform(cell, action);
            }
            if !more {
                return;
            }
        }
    }

    fn step(&self, group: &str, inner: &mut Inner, after: &mut Vec<After>) -> bool {
        let Phase::Ready(ready) = &mut inner.phase else { return false };
        let next = match &ready.busy {
            Some(busy) => inner.queue.iter().position(|request| request.overtakes(busy)),
            None => (!inner.queue.is_empty()).then_some(0),
        };
        let Some(request) = next.and_then(|at| inner.queue.remove(at)) else {
            if ready.busy.is_none() {
                arm(ready, &mut inner.timer_at, after);
            }
            return false;
        };
        let now = self.clock.now();
        match request {
            Request::Event(event, token, reply_to) => {
                if let Some(reply_to) = reply_to {
                    ready.replies.insert(token, reply_to);
                }
                self.apply(ready, event, token, now, after);
            }
            Request::Heartbeat(sender, promise) => {
                after.push(After::Answer(promise, ready.heartbeat(&sender, now)));
            }
            Request::Commit(commit) => match ready.committed.check_commit(&commit.sender) {
                Ok(()) => {
                    ready.committed.touch_by_commit(&commit.sender.member_id, now);
                    if let Some(Busy::Writing { next, .. }) = &mut ready.busy {
                        next.touch_by_commit(&commit.sender.member_id, now);
                    }
                    // In the order of the queue, and of the generations by which they were checked.
                    self.offsets.enqueue(group, commit.commits, &*ready.claim);
                    after.push(After::Commit(ready.claim.clone()));
                }
                Err(error) => after.push(After::RefuseCommit(commit, error)),
            },
            Request::Delete(promise) => {
                // A member whose time is up counts no more, though the timer may be a moment behind.
                self.apply(ready, Event::Tick, self.token(), now, after);
                if ready.busy.is_some() {
                    inner.queue.push_front(Request::Delete(promise));
                } else if ready.committed.is_idle() {
                    ready.busy = Some(Busy::Deleting);
                    after.push(After::Delete(promise));
                } else {
                    after.push(After::Answer(promise, ErrorCode::NON_EMPTY_GROUP));
                }
            }
            Request::Retire { empty_since_ms } => {
                let idle = ready.committed.is_idle() && ready.committed.since_ms <= empty_since_ms;
                if idle && !self.offsets.holds_any(group) {
                    ready.busy = Some(Busy::Deleting);
                    after.push(After::Retire);
                }
            }
        }
        true
    }

    fn apply(&self, ready: &mut Ready, event: Event, token: Token, now: Now, after: &mut Vec<After>) {
        let due = ready.committed.next_deadline().is_some_and(|at| at <= now.mono);
        if !due && matches!(event, Event::Tick) {
            return;
        }
        let mut group = ready.committed.clone();
        let effects = group.apply(event, token, now, &self.rules());
        after.extend(effects.notes.into_iter().map(After::Log));
        if effects.persist {
            let nonce = Uuid::random().to_string();
            let value = record::encode(&group, &self.label(ready.claim.epoch, &nonce));
            after.push(After::Write(Write { value, nonce, expected: ready.revision }));
            ready.busy = Some(Busy::Writing { next: Box::new(group), held: effects.replies });
        } else {
            ready.committed = group;
            after.extend(ready.address(effects.replies).into_iter().map(|(to, reply)| After::Reply(to, reply)));
        }
    }

    fn perform(&self, cell: &Arc<Cell>, action: After) {
        match action {
            After::Reply(to, reply) => to.keep(reply),
            After::Answer(promise, code) => promise.keep(code),
            After::RefuseCommit(commit, error) => commit.refuse(error),
            After::Log(note) => info!(self.logger, "{}", note; "group" => &cell.group),
            After::Write(write) => self.write(cell, write),
            After::Commit(claim) => {
                let tenure: Arc<dyn Tenure> = claim;
                self.offsets.commit(&cell.group, &tenure);
            }
            After::Delete(promise) => self.remove_when_quiet(cell, promise, self.clock.now().mono + DELETE_WAIT_MAX),
            After::Retire => {
                self.remove_group(cell, false);
            }
            After::Timer(at) => {
                let (this, timed) = (self.this.clone(), cell.clone());
                self.tasks.spawn_at(
                    at,
                    Box::new(move || {
                        if let Some(this) = this.upgrade() {
                            this.timer(&timed, at);
                        }
                    }),
                );
            }
        }
    }

    /// Removes a group, which is marked busy, once no commit of it is under way, and none begins meanwhile. One that is decided
    /// after the commits were removed would be stored behind that, and outlive its group.
    fn remove_when_quiet(&self, cell: &Arc<Cell>, promise: Promise<ErrorCode>, until: Instant) {
        let now = self.clock.now().mono;
        if !self.offsets.is_committing(&cell.group) {
            promise.keep(self.remove_group(cell, true));
        } else if now >= until {
            self.fail(cell, ErrorCode::COORDINATOR_NOT_AVAILABLE);
            promise.keep(ErrorCode::COORDINATOR_NOT_AVAILABLE);
        } else {
            let (this, cell) = (self.this.clone(), cell.clone());
            let look = move || {
                if let Some(this) = this.upgrade() {
                    this.remove_when_quiet(&cell, promise, until);
                }
            };
            self.tasks.spawn_at(now + DELETE_LOOK_EVERY, Box::new(look));
        }
    }

    fn timer(&self, cell: &Arc<Cell>, at: Instant) {
        let token = self.token();
        {
            let mut inner = cell.lock();
            if inner.timer_at != Some(at) {
                return;
            }
            inner.timer_at = None;
            inner.queue.push_back(Request::Event(Event::Tick, token, None));
        }
        self.drive(cell);
    }

    fn write(&self, cell: &Arc<Cell>, write: Write) {
        let (this, tasks, written) = (self.this.clone(), self.tasks.clone(), cell.clone());
        let message = kv_message(BUCKET, &cell.key, Some(write.value.clone()), write.expected);
        let done = move |outcome| {
            tasks.spawn(Box::new(move || {
                if let Some(this) = this.upgrade() {
                    this.written(&written, &write, outcome);
                }
            }));
        };
        self.store.publish_begin(message, self.deadline(), Box::new(done));
    }

    fn written(&self, cell: &Arc<Cell>, write: &Write, outcome: StoreResult<PubAck>) {
        let settled = match outcome {
            Ok(ack) => Ok(ack.sequence),
            Err(error) => self.decide(cell, write, error),
        };
        let revision = match settled {
            Ok(revision) => revision,
            Err(code) => return self.fail(cell, code),
        };
        let mut replies = Vec::new();
        if let Phase::Ready(ready) = &mut cell.lock().phase
            && ready.claim.stands()
        {
            ready.revision = revision;
            if let Some(Busy::Writing { next, held }) = ready.busy.take() {
                ready.committed = *next;
                replies = ready.address(held);
            }
        }
        for (to, reply) in replies {
            to.keep(reply);
        }
        self.drive(cell);
    }

    /// Finds out what became of a write that was not acknowledged; repeats it while its place is not taken.
    fn decide(&self, cell: &Cell, write: &Write, error: StoreError) -> Result<Sequence, ErrorCode> {
        let mut last = error;
        for _ in 0..WRITE_ATTEMPTS_MAX {
            if !matches!(last, StoreError::WrongLast(_) | StoreError::NoAnswer) {
                break;
            }
            let deadline = self.deadline();
            let entry = match self.store.kv_get(BUCKET, &cell.key, deadline) {
                Ok(entry) => entry,
                Err(error) => {
                    last = error;
                    break;
                }
            };
            let label = entry.value.as_ref().and_then(|value| record::label(value));
            if label.is_some_and(|label| label.nonce == write.nonce) {
                return Ok(entry.revision);
            }
            if entry.revision != write.expected {
                warn!(self.logger, "a group is served by another gateway now"; "group" => &cell.group);
                return Err(ErrorCode::NOT_COORDINATOR);
            }
            let message = kv_message(BUCKET, &cell.key, Some(write.value.clone()), write.expected);
            match store::publish(&*self.store, message, deadline) {
                Ok(ack) => return Ok(ack.sequence),
                Err(error) => last = error,
            }
        }
        warn!(self.logger, "a group's state cannot be stored"; "group" => &cell.group, "error" => %last);
        Err(ErrorCode::COORDINATOR_NOT_AVAILABLE)
    }

    /// Gives the group up, as far as memory goes: all who wait are told so, whoever comes next reads it anew.
    pub(super) fn fail(&self, cell: &Arc<Cell>, code: ErrorCode) {
        let left = self.fail_locked(cell, &mut cell.lock());
        left.refuse(code);
    }

    pub(super) fn fail_locked(&self, cell: &Arc<Cell>, inner: &mut Inner) -> Left {
        let replies = match &mut inner.phase {
            Phase::Ready(ready) => std::mem::take(&mut ready.replies),
            Phase::Loading | Phase::Closed => Default::default(),
        };
        Left { queued: self.close_locked(cell, inner), replies: replies.into_values().collect() }
    }

    /// Takes the cell out of the map, and what was queued out of the cell.
    pub(super) fn close(&self, cell: &Arc<Cell>) -> Vec<Request> {
        self.close_locked(cell, &mut cell.lock())
    }

    pub(super) fn close_locked(&self, cell: &Arc<Cell>, inner: &mut Inner) -> Vec<Request> {
        if let Phase::Ready(ready) = &inner.phase {
            ready.claim.end();
            self.offsets.forget(&cell.group);
        }
        inner.phase = Phase::Closed;
        inner.timer_at = None;
        let mut cells = self.cells.lock().expect("no holder panics");
        if cells.get(&cell.group).is_some_and(|mapped| Arc::ptr_eq(mapped, cell)) {
            cells.remove(&cell.group);
        }
        inner.queue.drain(..).collect()
    }
}

/// All who waited at a cell that was closed.
pub(super) struct Left {
    queued: Vec<Request>,
    replies: Vec<ReplyTo>,
}

impl Left {
    pub fn refuse(self, code: ErrorCode) {
        for request in self.queued {
            request.refuse(code);
        }
        for reply_to in self.replies {
            reply_to.refuse(code);
        }
    }
}

impl Ready {
    fn new(committed: Group, revision: Sequence, claim: Arc<Claim>) -> Ready {
        Ready { committed, revision, claim, replies: Default::default(), busy: None }
    }
}

/// One timer runs for a group, for its next deadline; one that turns out too early finds nothing due and is set again.
fn arm(ready: &Ready, timer_at: &mut Option<Instant>, after: &mut Vec<After>) {
    if let Some(at) = ready.committed.next_deadline().filter(|at| timer_at.is_none_or(|set| *at < set)) {
        *timer_at = Some(at);
        after.push(After::Timer(at));
    }
}
