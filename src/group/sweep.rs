//! What is done without being asked: commits expire, groups without any are removed, abandoned groups are looked after.
//!
//! Behavior: commits of a group expire when it has been empty for the retention time, those of a group without members of
//! its own (a simple consumer) that long after they were made, as do those of topics that a consumer group no longer
//! subscribes to; an expiry that the client named itself (OffsetCommit below version 5) comes first. A group that is empty
//! and has no commits left is removed.

use super::cell::{Cell, Phase, Request};
use super::event::Event;
use super::ownership::CHECK_EVERY;
use super::record::{self, Label};
use super::state::{Group, State};
use super::{BUCKET, Groups};
use crate::clock::Now;
use crate::limits::STORE_CALL_MAX;
use crate::offsets::{Committed, Slot, Tenure};
use crate::protocol::error_code::ErrorCode;
use crate::store::{KvEntry, Sequence, StoreError, StoreResult, keys, kv_replace};
use crate::tasks::Repeated;
use crate::wire::Uuid;
use slog::{info, warn};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const SWEEP_INTERVAL_MAX: Duration = Duration::from_secs(60);

/// The first sweep comes soon: members of groups that were left behind begin to expire with it.
const FIRST_SWEEP: Duration = Duration::from_secs(2);

/// Nobody waits for a sweep. Some ten thousand keys a second are listed, and there may be a few hundred thousand.
const LISTING_MAX: Duration = Duration::from_secs(30);

/// Every so many sweeps all groups are examined, not only those that have been empty for the retention time.
const FULL_SWEEP_EVERY: u64 = 10;

/// A group must have been empty for so long to be removed for having no commits, or to be dropped from memory.
const EMPTY_MS_MIN: i64 = 60_000;

/// Times that a deletion of a group's commits is repeated because somebody commits meanwhile.
const DELETE_ATTEMPTS_MAX: usize = 3;

impl Groups {
    /// Begins the sweeps.
    pub fn start(&self) {
        self.repeat(FIRST_SWEEP, |this| {
            this.sweep();
            (this.settings.offsets_retention / 4).clamp(Duration::from_secs(1), SWEEP_INTERVAL_MAX)
        });
        self.repeat(CHECK_EVERY, |this| {
            this.check_owned();
            CHECK_EVERY
        });
    }

    fn repeat(&self, pause: Duration, round: fn(&Arc<Groups>) -> Duration) {
        Repeated { of: self.this.clone(), tasks: self.tasks.clone(), clock: self.clock.clone(), round }.after(pause);
    }

    /// One sweep over all stored groups.
    pub fn sweep(&self) {
        let full = self.sweeps.fetch_add(1, Ordering::Relaxed) % FULL_SWEEP_EVERY == FULL_SWEEP_EVERY - 1;
        let now = self.clock.now();
        let swept = self.sweep_groups(full, now);
        if let Err(error) = swept {
            warn!(self.logger, "the sweep over groups was cut short"; "error" => %error);
        }
        self.offsets.forget_unused(now.mono);
    }

    fn sweep_groups(&self, full: bool, now: Now) -> StoreResult<()> {
        for (key, entry) in self.entries(now.mono + LISTING_MAX)? {
            let Some(group) = keys::text_of(&key) else { continue };
            let Some((stored, label)) = entry.value.as_ref().and_then(|value| record::decode(value, now)) else {
                continue;
            };
            if let Some(cell) = self.find(&group) {
                if let (Some(known), Some((claim, _))) = (cell.committed(), cell.claim()) {
                    self.sweep_owned(&group, &known, &(claim as Arc<dyn Tenure>), full)?;
                    if full {
                        self.rest(&cell, now);
                    }
                }
                continue;
            }
            // A group without a live owner is left to the one that all gateways prefer.
            if self.lister(&group, label.owner).is_some_and(|process| process != self.owner.0) {
                continue;
            }
            if stored.state != State::Empty {
                // Nobody serves it: from now on its members expire if they are not heard of.
                self.submit(&group, Request::Event(Event::Tick, self.token(), None));
            } else if full || self.is_ripe(&stored, now) {
                self.sweep_unowned(&group, &key, &stored, entry.revision)?;
            }
        }
        // Last, because it reads all commits there are: what takes too long holds up nothing.
        self.adopt_once(self.clock.now().mono + LISTING_MAX)
    }

    fn sweep_owned(&self, group: &str, known: &Group, tenure: &Arc<dyn Tenure>, full: bool) -> StoreResult<()> {
        let now = self.clock.now();
        if !full && !self.is_ripe(known, now) {
            return Ok(());
        }
        let Some(commits) = self.offsets.owned(group, tenure, now.mono + STORE_CALL_MAX)? else { return Ok(()) };
        let mut left = commits.len();
        if commits.iter().any(|(at, slot)| self.has_expired(known, &at.topic, slot, now)) {
            left = self.expire(group, known, now)?;
        }
        if left == 0 && known.state == State::Empty {
            self.submit(group, Request::Retire { empty_since_ms: now.wall_ms - EMPTY_MS_MIN });
        }
        Ok(())
    }

    fn sweep_unowned(&self, group: &str, key: &str, stored: &Group, revision: Sequence) -> StoreResult<()> {
        let now = self.clock.now();
        let left = self.expire(group, stored, now)?;
        if left == 0 && stored.since_ms <= now.wall_ms - EMPTY_MS_MIN {
            info!(self.logger, "an empty group without commits is removed"; "group" => group);
            // A claim that came in between has changed the revision, and the group stays.
            match kv_replace(&*self.store, BUCKET, key, None, revision, now.mono + STORE_CALL_MAX) {
                Ok(_) | Err(StoreError::WrongLast(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether all of its commits may have expired because it has been empty for long.
    fn is_ripe(&self, group: &Group, now: Now) -> bool {
        group.state == State::Empty && now.wall_ms.saturating_sub(group.since_ms) >= self.retention_ms()
    }

    fn expire(&self, group: &str, known: &Group, now: Now) -> StoreResult<usize> {
        let unwanted = |topic: &str, slot: &Slot| self.has_expired(known, topic, slot, now);
        let removal = self.offsets.remove(group, now.mono + STORE_CALL_MAX, &|at, slot| unwanted(&at.topic, slot))?;
        if removal.removed > 0 {
            info!(self.logger, "committed offsets have expired"; "group" => group, "count" => removal.removed);
        }
        Ok(removal.left)
    }

    fn has_expired(&self, group: &Group, topic: &str, slot: &Slot, now: Now) -> bool {
        let Slot::Committed(committed) = slot else { return false };
        let since = |committed: &Committed| match (group.protocol_type.is_some(), group.state) {
            (false, _) => Some(committed.commit_ms),
            (true, State::Empty) => Some(group.since_ms),
            (true, State::Stable) if group.knows_subscriptions() => Some(committed.commit_ms),
            (true, _) => None,
        };
        let Some(since_ms) = since(committed) else { return false };
        let expired = match committed.expire_ms {
            Some(expire_ms) => now.wall_ms >= expire_ms,
            None => now.wall_ms.saturating_sub(since_ms) >= self.retention_ms(),
        };
        expired && !group.is_subscribed_to(topic)
    }

    fn retention_ms(&self) -> i64 {
        i64::try_from(self.settings.offsets_retention.as_millis()).unwrap_or(i64::MAX)
    }

    /// Drops a group from memory that has long been empty; it is read again when it is asked for.
    fn rest(&self, cell: &Arc<Cell>, now: Now) {
        let mut inner = cell.lock();
        let Phase::Ready(ready) = &inner.phase else { return };
        let long_empty = ready.committed.is_idle() && ready.committed.since_ms <= now.wall_ms - EMPTY_MS_MIN;
        let unused = ready.busy.is_none() && ready.replies.is_empty() && inner.queue.is_empty();
        if long_empty && unused && !self.offsets.is_committing(&cell.group) {
            self.close_locked(cell, &mut inner);
        }
    }

    pub(super) fn entries(&self, deadline: Instant) -> StoreResult<Vec<(String, KvEntry)>> {
        match self.store.kv_list(BUCKET, ">", deadline) {
            Err(StoreError::NoStream) => {
                self.ensure_bucket(deadline)?;
                Ok(Vec::new())
            }
            other => other,
        }
    }

    /// Once in a process: gives a record to groups that have commits only, which older gateways made.
    fn adopt_once(&self, deadline: Instant) -> StoreResult<()> {
        if self.adopted.load(Ordering::Relaxed) {
            return Ok(());
        }
        let now = self.clock.now();
        // Only those without a record are read one by one: the others may be many.
        let recorded = self.entries(deadline)?.into_iter().filter(|(_, entry)| entry.value.is_some());
        let recorded: HashSet<String> = recorded.map(|(key, _)| key).collect();
        for group in self.offsets.groups_stored(deadline)? {
            let key = keys::token(&group);
            if recorded.contains(&key) {
                continue;
            }
            let entry = self.read(&key, deadline)?;
            if entry.value.is_some() {
                continue;
            }
            let label = Label { owner: None, nonce: Uuid::random().to_string() };
            let value = record::encode(&Group::new(now), &label);
            match kv_replace(&*self.store, BUCKET, &key, Some(value), entry.revision, deadline) {
                Ok(_) | Err(StoreError::WrongLast(_)) => {}
                Err(error) => return Err(error),
            }
        }
        self.adopted.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Removes an idle group, which is marked busy; whoever came meanwhile finds no group.
    pub(super) fn remove_group(&self, cell: &Arc<Cell>, with_commits: bool) -> ErrorCode {
        let is_ours = || cell.claim_stands();
        if with_commits && let Err(error) = self.delete_commits(&cell.group, &is_ours) {
            warn!(self.logger, "commits cannot be removed"; "group" => &cell.group, "error" => %error);
            self.fail(cell, ErrorCode::COORDINATOR_NOT_AVAILABLE);
            return ErrorCode::COORDINATOR_NOT_AVAILABLE;
        }
        let revision = match &cell.lock().phase {
            Phase::Ready(ready) => ready.revision,
            Phase::Loading | Phase::Closed => return ErrorCode::COORDINATOR_NOT_AVAILABLE,
        };
        let deadline = self.deadline();
        let removed = match kv_replace(&*self.store, BUCKET, &cell.key, None, revision, deadline) {
            Ok(_) => true,
            // Whoever removed it: it is gone if nothing stands there.
            Err(_) => self.read(&cell.key, deadline).is_ok_and(|entry| entry.value.is_none()),
        };
        if !removed {
            self.fail(cell, ErrorCode::COORDINATOR_NOT_AVAILABLE);
            return ErrorCode::COORDINATOR_NOT_AVAILABLE;
        }
        info!(self.logger, "the group is removed"; "group" => &cell.group);
        for request in self.close(cell) {
            self.submit(&cell.group, request);
        }
        ErrorCode::NONE
    }

    /// Deletes a group of which only commits are stored.
    pub(super) fn delete_offsets_only(&self, group: &str) -> ErrorCode {
        match self.delete_commits(group, &|| true) {
            Ok(0) => ErrorCode::GROUP_ID_NOT_FOUND,
            Ok(_) => ErrorCode::NONE,
            Err(error) => {
                warn!(self.logger, "commits cannot be removed"; "group" => group, "error" => %error);
                ErrorCode::COORDINATOR_NOT_AVAILABLE
            }
        }
    }

    /// Removes a group's commits, but none that was made after `is_ours` ended.
    fn delete_commits(&self, group: &str, is_ours: &dyn Fn() -> bool) -> StoreResult<usize> {
        let mut total = 0;
        for _ in 0..DELETE_ATTEMPTS_MAX {
            let removal = self.offsets.remove(group, self.deadline(), &|_, _| is_ours())?;
            total += removal.removed;
            if removal.left == 0 {
                break;
            }
        }
        Ok(total)
    }
}
