//! Who serves a group: one gateway process at a time, recorded in the group's stored state.

pub use crate::cluster::Standing;

use super::record::{self, Owner};
use super::{BUCKET, Groups};
use crate::clock::Now;
use crate::cluster::Lease;
use crate::limits::{OWNER_TRUSTED_MAX, OWNERS_REMEMBERED_MAX, STORE_CALL_MAX, UNHEARD_AVOIDED};
use crate::offsets::Tenure;
use crate::protocol::error_code::ErrorCode;
use crate::store::{Sequence, StoreResult, keys, kv_changes};
use crate::wire::Uuid;
use slog::warn;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How often what this gateway owns is compared with what is stored.
pub(super) const CHECK_EVERY: Duration = Duration::from_secs(1);

/// A gateway process. A restarted gateway is another process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnerId(pub String);

impl OwnerId {
    pub fn random() -> OwnerId {
        OwnerId(Uuid::random().to_string())
    }
}

/// Which gateway processes are alive. Answered from memory. A group is only taken from one that is gone, and only while
/// our own lease stands.
pub trait Leases: Send + Sync {
    fn standing(&self, process: &str) -> Standing;

    /// Whether our own lease stands. Otherwise others may already take what is ours: we serve no group.
    fn holds(&self) -> bool;

    /// The live process that should take a group without an owner, the same from every gateway's view of the same
    /// leases. Only a hint; `None` while nobody is known.
    fn preferred(&self, group: &str) -> Option<String>;

    /// Grows each time our lease was lost and taken anew: what was claimed before may be another's.
    fn term(&self) -> u64 {
        0
    }
}

impl Leases for Lease {
    fn standing(&self, process: &str) -> Standing {
        self.standing(process)
    }

    fn holds(&self) -> bool {
        self.holds()
    }

    fn preferred(&self, group: &str) -> Option<String> {
        self.preferred(group)
    }

    fn term(&self) -> u64 {
        self.term()
    }
}

/// Where requests of a group go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    Here,
    /// To the process that owns the group, or, where nobody does, should take it.
    At(String),
}

/// What was seen of other gateways. All of it may be old: it is where to ask, never a reason to refuse or to take.
#[derive(Default)]
pub(super) struct Others {
    /// Groups that others own.
    owners: HashMap<String, Seen>,
    /// Processes that did not answer, and until when they are not preferred.
    unheard: HashMap<String, Instant>,
}

struct Seen {
    process: String,
    at: Instant,
}

impl Others {
    fn learn(&mut self, group: &str, process: &str, now: Now) {
        if self.owners.len() >= OWNERS_REMEMBERED_MAX {
            self.owners.retain(|_, seen| seen.at + OWNER_TRUSTED_MAX > now.mono);
            if self.owners.len() >= OWNERS_REMEMBERED_MAX {
                self.owners.clear();
            }
        }
        self.owners.insert(group.to_owned(), Seen { process: process.to_owned(), at: now.mono });
    }

    fn owner(&self, group: &str, now: Now) -> Option<&str> {
        let seen = self.owners.get(group)?;
        (seen.at + OWNER_TRUSTED_MAX > now.mono).then_some(&seen.process)
    }

    fn is_unheard(&self, process: &str, now: Now) -> bool {
        self.unheard.get(process).is_some_and(|until| *until > now.mono)
    }
}

/// One claim on a group, for as long as its cell is open and our lease is the one it was made under.
pub(super) struct Claim {
    pub number: u64,
    pub epoch: i64,
    /// The lease's term at the claim.
    term: u64,
    group: String,
    ended: AtomicBool,
    groups: Weak<Groups>,
}

impl Claim {
    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }
}

impl Tenure for Claim {
    fn number(&self) -> u64 {
        self.number
    }

    fn stands(&self) -> bool {
        let in_force = |groups: Arc<Groups>| groups.leases.holds() && groups.leases.term() == self.term;
        !self.ended.load(Ordering::SeqCst) && self.groups.upgrade().is_some_and(in_force)
    }

    fn verify(&self, deadline: Instant) -> StoreResult<bool> {
        let Some(groups) = self.groups.upgrade().filter(|_| self.stands()) else { return Ok(false) };
        let entry = groups.read(&keys::token(&self.group), deadline)?;
        let owner = entry.value.as_ref().and_then(|value| record::label(value)).and_then(|label| label.owner);
        let ours = owner.is_some_and(|owner| owner.gateway == groups.owner.0 && owner.epoch == self.epoch);
        if !ours && let Some(cell) = groups.find(&self.group).filter(|cell| cell.is_claimed_by(self.number)) {
            groups.fail(&cell, ErrorCode::NOT_COORDINATOR);
        }
        Ok(ours && self.stands())
    }
}

impl Groups {
    /// A claim that is about to be written; `None` while our lease does not stand.
    pub(super) fn new_claim(&self, group: &str, term: u64, epoch: i64) -> Arc<Claim> {
        let (number, ended) = (self.token().0, AtomicBool::new(false));
        Arc::new(Claim { number, epoch, term, group: group.to_owned(), ended, groups: self.this.clone() })
    }

    /// Where a group's requests go, as far as memory tells. Never blocks.
    pub fn route_known(&self, group: &str) -> Option<Route> {
        if self.find(group).is_some() || Self::check_id(group, true).is_err() {
            return Some(Route::Here);
        }
        let now = self.clock.now();
        let others = self.others();
        let owner = others.owner(group, now).map(str::to_owned)?;
        drop(others);
        (self.leases.standing(&owner) == Standing::Live).then_some(Route::At(owner))
    }

    /// Where a group's requests go. May read the group's state. What cannot be found out is `Here`: the load tells why.
    pub fn route(&self, group: &str) -> Route {
        if let Some(known) = self.route_known(group) {
            return known;
        }
        let now = self.clock.now();
        let Ok(entry) = self.read(&keys::token(group), now.mono + STORE_CALL_MAX) else { return Route::Here };
        let owner = entry.value.as_ref().and_then(|value| record::label(value)).and_then(|label| label.owner);
        if let Some(Owner { gateway, .. }) = owner {
            match self.leases.standing(&gateway) {
                _ if gateway == self.owner.0 => return Route::Here,
                Standing::Live => {
                    self.others().learn(group, &gateway, now);
                    return Route::At(gateway);
                }
                Standing::Unknown => return Route::Here,
                Standing::Gone => {}
            }
        }
        match self.leases.preferred(group) {
            Some(process) if process != self.owner.0 && !self.others().is_unheard(&process, now) => Route::At(process),
            _ => Route::Here,
        }
    }

    /// The process told to clients as the group's coordinator: its live owner, or who should take it. `None` if that cannot be
    /// found out; then any gateway may be told.
    pub fn coordinator(&self, group: &str) -> Option<String> {
        match self.route(group) {
            Route::At(process) => Some(process),
            Route::Here => self.coordinator_here(),
        }
    }

    /// Like `coordinator`, from memory alone; `None`: it must be read.
    pub fn coordinator_known(&self, group: &str) -> Option<Option<String>> {
        match self.route_known(group)? {
            Route::At(process) => Some(Some(process)),
            Route::Here => Some(self.coordinator_here()),
        }
    }

    fn coordinator_here(&self) -> Option<String> {
        self.leases.holds().then(|| self.owner.0.clone())
    }

    /// The process that lists a group whose stored owner is this: its coordinator.
    pub(super) fn lister(&self, group: &str, owner: Option<Owner>) -> Option<String> {
        let live = owner.map(|owner| owner.gateway).filter(|owner| self.leases.standing(owner) != Standing::Gone);
        live.or_else(|| self.leases.preferred(group))
    }

    /// Whether this gateway has the group in memory.
    pub fn serves(&self, group: &str) -> bool {
        self.find(group).is_some()
    }

    pub(super) fn learn_owner(&self, group: &str, process: &str) {
        self.others().learn(group, process, self.clock.now());
    }

    /// The process said that it does not serve the group: it is looked up again.
    pub fn forget_owner(&self, group: &str, process: &str) {
        let mut others = self.others();
        if others.owners.get(group).is_some_and(|seen| seen.process == process) {
            others.owners.remove(group);
        }
    }

    /// The process does not answer: for a while no group is sent to it that it does not own.
    pub fn avoid(&self, process: &str) {
        let now = self.clock.now().mono;
        let mut others = self.others();
        others.unheard.retain(|_, until| *until > now);
        others.unheard.insert(process.to_owned(), now + UNHEARD_AVOIDED);
    }

    fn others(&self) -> std::sync::MutexGuard<'_, Others> {
        self.others.lock().expect("no holder panics")
    }

    /// Gives up what is no longer ours: all of it if our lease was lost meanwhile, otherwise what others have written.
    pub(super) fn check_owned(&self) {
        let cells: Vec<_> = self.cells.lock().expect("no holder panics").values().cloned().collect();
        let mut oldest: Option<Sequence> = None;
        for cell in cells {
            let Some((claim, revision)) = cell.claim() else { continue };
            if claim.stands() {
                oldest = Some(oldest.map_or(revision, |oldest| oldest.min(revision)));
            } else {
                self.fail(&cell, ErrorCode::NOT_COORDINATOR);
            }
        }
        let Some(oldest) = oldest else { return };
        let checked = *self.checked.lock().expect("no holder panics");
        let since = checked.unwrap_or(oldest);
        let changes = match kv_changes(&*self.store, BUCKET, since, self.clock.now().mono + STORE_CALL_MAX) {
            Ok(changes) => changes,
            // Asked again in a second. Meanwhile our lease tells that nobody takes anything.
            Err(_) => return,
        };
        let mut upto = changes.upto;
        for (key, entry) in changes.entries {
            let Some(cell) = keys::text_of(&key).and_then(|group| self.find(&group)) else { continue };
            let label = entry.value.as_ref().and_then(|value| record::label(value));
            if label.and_then(|label| label.owner).is_some_and(|owner| owner.gateway == self.owner.0) {
                continue;
            }
            match cell.claim() {
                Some((_, revision)) if entry.revision > revision => {
                    warn!(self.logger, "a group is served by another gateway now"; "group" => &cell.group);
                    self.fail(&cell, ErrorCode::NOT_COORDINATOR);
                }
                Some(_) => {}
                // It is being claimed: whether this came before or after that is seen next time.
                None => upto = upto.min(Sequence(entry.revision.0.saturating_sub(1))),
            }
        }
        *self.checked.lock().expect("no holder panics") = Some(upto);
    }
}
