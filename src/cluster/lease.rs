//! Our lease: that other gateways take this process for alive, and how we know who else is.
//!
//! A lease is an entry of the bucket `kafka-leases`, renewed every second by compare-and-set on its revision. We believe in
//! ours until 3 s after the *sending* of the last renewal that was acknowledged; others give it up 4 s after they saw it
//! renewed. So a gateway that was stopped, or cut off, has lost its lease by its own clock before anybody takes what it
//! served. (That clock stands still while the whole machine sleeps; then the owner records and their epochs protect.)
//!
//! A listing is only believed if it shows our own last renewal: a deposed leader, which takes no renewals any more, may
//! still answer reads.

use super::members::{Member, Members, Standing};
use super::stored::Stored;
use super::{Broker, broker_ids};
use crate::clock::Clock;
use crate::limits::{LEASE_CALL_MAX, LEASE_EVERY, LEASE_FENCE, LEASE_KEPT, LEASE_RETRY};
use crate::store::{KvBucket, Sequence, Store, StoreError, StoreResult, kv_replace};
use bytes::Bytes;
use slog::{Logger, debug, error, info, warn};
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::Instant;

/// The bucket of leases. What is not renewed ages out.
pub const BUCKET: &str = "kafka-leases";

/// The subject of news of leases; the process follows as the last token. Whoever hears some looks at the leases at once.
const SUBJECT: &str = "_kafka.lease";

/// Renewals tried in one round: the first may meet a revision that we do not know, or no bucket.
const TRIES: usize = 3;

type Listener = Box<dyn Fn() + Send + Sync>;

pub struct Lease {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    logger: Logger,
    stored: Stored,
    process: String,
    host: String,
    port: u16,
    /// The broker id that the operator chose.
    asked_id: Option<i32>,
    started_ms: i64,
    /// What is known of our lease and the others'. Never held across a store call.
    state: Mutex<State>,
    /// Makes the next round begin at once.
    kick: OnceLock<Listener>,
    listeners: RwLock<Vec<Listener>>,
}

struct State {
    /// Our broker id, once it is recorded.
    id: Option<i32>,
    /// Of our entry in the bucket; 0: there is none.
    revision: Sequence,
    /// Until when we believe in our lease.
    until: Option<Instant>,
    term: u64,
    /// When this term began: what was seen before says nothing.
    term_began: Instant,
    is_released: bool,
    members: Members,
    /// The last round met a store without room: nobody could do better for now.
    is_refused: bool,
    /// Why the last round failed, and which conflict was told of: both are logged once.
    trouble: String,
    conflict: String,
}

/// Who holds the lease.
pub struct Holder {
    pub process: String,
    pub host: String,
    pub port: u16,
    /// `--node-id`.
    pub asked_id: Option<i32>,
    /// JetStream replicas of the buckets.
    pub replicas: u32,
}

impl Lease {
    /// `store` must not queue behind other calls.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, holder: Holder, logger: Logger) -> Arc<Lease> {
        let now = clock.now();
        let state = State {
            id: None,
            revision: Sequence(0),
            until: None,
            term: 0,
            term_began: now.mono,
            is_released: false,
            members: Members::default(),
            is_refused: false,
            trouble: String::new(),
            conflict: String::new(),
        };
        let Holder { process, host, port, asked_id, replicas } = holder;
        let stored = Stored { store: store.clone(), clock: clock.clone(), replicas };
        Arc::new(Lease {
            store,
            clock,
            logger,
            stored,
            process,
            host,
            port,
            asked_id,
            started_ms: now.wall_ms,
            state: Mutex::new(state),
            kick: OnceLock::new(),
            listeners: RwLock::new(Vec::new()),
        })
    }

    /// Sets, once, what makes the next round begin at once, and listens for news of other gateways.
    pub fn start(self: &Arc<Self>, kick: Listener) {
        let _ = self.kick.set(kick);
        let lease = Arc::downgrade(self);
        let handler = move |subject: &str, _: Bytes| {
            if let Some(lease) = lease.upgrade()
                && subject.rsplit('.').next() != Some(&lease.process)
            {
                lease.look_again();
            }
        };
        // A subscription that fails costs time only: the next round finds what there is.
        let _ = self.store.core_subscribe(&format!("{SUBJECT}.*"), Box::new(handler));
    }

    /// Runs when a gateway came or went. It must not block.
    pub fn on_change(&self, listener: Listener) {
        self.listeners.write().expect("no holder panics").push(listener);
    }

    /// Renews the lease and looks at the others'. Tells when to do so again; `None` after the release.
    pub fn round(&self) -> Option<Instant> {
        let began = self.clock.now().mono;
        if self.lock().is_released {
            return None;
        }
        match self.renew().and_then(|revision| self.look(revision)) {
            Ok(changed) => {
                self.settle_conflict();
                {
                    let mut state = self.lock();
                    state.trouble.clear();
                    state.is_refused = false;
                }
                if changed {
                    self.listeners.read().expect("no holder panics").iter().for_each(|listener| listener());
                }
                let next = began + LEASE_EVERY;
                Some(self.lock().members.next_verdict(self.clock.now().mono).map_or(next, |at| next.min(at)))
            }
            Err(error) => {
                self.told(&error);
                Some(self.clock.now().mono + LEASE_RETRY)
            }
        }
    }

    /// Gives the lease back: others need not wait for it to run out.
    pub fn release(&self, deadline: Instant) -> StoreResult<()> {
        let member = {
            let mut state = self.lock();
            state.is_released = true;
            state.until = None;
            state.id.map(|id| self.member(id, true))
        };
        let Some(member) = member else { return Ok(()) };
        for _ in 0..TRIES {
            let revision = self.lock().revision;
            let value = Some(member.to_value());
            match kv_replace(&*self.store, BUCKET, &self.process, value, revision, deadline) {
                Ok(_) => {
                    self.tell("left");
                    return Ok(());
                }
                // A renewal was under way.
                Err(StoreError::WrongLast(_)) => {
                    let entry = self.store.kv_get(BUCKET, &self.process, deadline)?;
                    self.lock().revision = entry.revision;
                }
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::NoAnswer)
    }

    /// What is known of a process, from memory. The first question about one whose lease was not seen is answered with
    /// `Unknown`, and soon after that it is known.
    pub fn standing(&self, process: &str) -> Standing {
        let now = self.clock.now().mono;
        let (standing, wants_look) = {
            let mut state = self.lock();
            if !state.holds(now) {
                return Standing::Unknown;
            }
            if process == self.process {
                return Standing::Live;
            }
            let since = state.term_began;
            state.members.standing(process, now, since)
        };
        if wants_look {
            self.look_again();
        }
        standing
    }

    pub fn holds(&self) -> bool {
        let now = self.clock.now().mono;
        self.lock().holds(now)
    }

    /// Whether clients may be let in: the lease stands, or the store has no room for it. Partitions are served then, and
    /// topics can be deleted; groups wait.
    pub fn may_serve(&self) -> bool {
        let now = self.clock.now().mono;
        let state = self.lock();
        state.holds(now) || (state.is_refused && (state.id.is_some() || self.asked_id.is_some()))
    }

    /// Grows each time the lease was lost and taken anew: what was ours before may be another's.
    pub fn term(&self) -> u64 {
        self.lock().term
    }

    /// The live process that everybody would pick for `what`.
    pub fn preferred(&self, what: &str) -> Option<String> {
        self.lock().members.preferred(what).map(str::to_owned)
    }

    /// This gateway, once its id is known.
    pub fn broker(&self) -> Option<Broker> {
        let id = self.asked_id.or_else(|| self.lock().id)?;
        Some(Broker { id, host: self.host.clone(), port: self.port })
    }

    /// The broker that a live process is told as.
    pub fn broker_of(&self, process: &str) -> Option<Broker> {
        self.lock().members.broker_of(process)
    }

    /// All live brokers, by id, as last seen; this one alone until the leases were listed.
    pub fn brokers(&self) -> Arc<[Broker]> {
        let seen = self.lock().members.brokers();
        if seen.is_empty() { self.broker().into_iter().collect() } else { seen }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    fn look_again(&self) {
        if let Some(kick) = self.kick.get() {
            kick();
        }
    }

    fn tell(&self, news: &'static str) {
        self.store.core_publish(&format!("{SUBJECT}.{}", self.process), Bytes::from_static(news.as_bytes()));
    }

    fn member(&self, id: i32, is_released: bool) -> Member {
        let broker = Broker { id, host: self.host.clone(), port: self.port };
        Member { broker, is_named: self.asked_id.is_some(), started_ms: self.started_ms, is_released }
    }

    fn broker_id(&self) -> StoreResult<i32> {
        let known = self.lock().id;
        if let Some(id) = known {
            return Ok(id);
        }
        let address = format!("{}:{}", self.host, self.port);
        let id = broker_ids::claim(&self.stored, &address, self.asked_id)?;
        info!(self.logger, "broker id"; "id" => id, "advertised" => &address);
        self.lock().id = Some(id);
        Ok(id)
    }

    /// Renews, and gives the new revision.
    fn renew(&self) -> StoreResult<Sequence> {
        let member = self.member(self.broker_id()?, false);
        for _ in 0..TRIES {
            let revision = {
                let state = self.lock();
                // Given back meanwhile.
                if state.is_released {
                    return Err(StoreError::Busy);
                }
                state.revision
            };
            let sent = self.clock.now().mono;
            let value = Some(member.to_value());
            match kv_replace(&*self.store, BUCKET, &self.process, value, revision, sent + LEASE_CALL_MAX) {
                Ok(revision) => {
                    self.renewed(sent, revision);
                    return Ok(revision);
                }
                // Ours may have been stored, or aged out; or there is no bucket.
                Err(StoreError::WrongLast(_) | StoreError::NoAnswer | StoreError::Unavailable) => self.find_entry()?,
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::NoAnswer)
    }

    fn renewed(&self, sent: Instant, revision: Sequence) {
        let now = self.clock.now().mono;
        let is_new = {
            let mut state = self.lock();
            let is_new = !state.holds(now);
            if is_new {
                state.term += 1;
                state.term_began = now;
            }
            state.revision = revision;
            state.until = Some(sent + LEASE_FENCE).filter(|_| !state.is_released);
            is_new
        };
        if is_new {
            self.tell("joined");
        }
    }

    /// Learns the revision of our entry. Where there is none, others may have noticed: the lease is lost.
    fn find_entry(&self) -> StoreResult<()> {
        let deadline = self.clock.now().mono + LEASE_CALL_MAX;
        let entry = match self.store.kv_get(BUCKET, &self.process, deadline) {
            Err(StoreError::NoStream) => {
                let max_age_ms = u64::try_from(LEASE_KEPT.as_millis()).ok();
                let name = BUCKET.to_owned();
                self.store.kv_ensure(&KvBucket { name, replicas: self.stored.replicas, max_age_ms }, deadline)?;
                Default::default()
            }
            outcome => outcome?,
        };
        let mut state = self.lock();
        if entry.value.is_none() {
            state.until = None;
        }
        state.revision = entry.revision;
        Ok(())
    }

    /// Lists all leases; whether somebody came or went. An error if the listing is older than our last renewal.
    fn look(&self, revision: Sequence) -> StoreResult<bool> {
        let began = self.clock.now().mono;
        let listing = self.store.kv_list(BUCKET, ">", began + LEASE_CALL_MAX)?;
        let ended = self.clock.now().mono;
        if !listing.iter().any(|(process, entry)| *process == self.process && entry.revision >= revision) {
            return Err(StoreError::Garbled("the leases that were listed are older than our own".to_owned()));
        }
        Ok(self.lock().members.take_in(listing, began, ended))
    }

    /// Two gateways may claim one id for two addresses, or two ids for one address. The others' decision holds for us too.
    fn settle_conflict(&self) {
        let Some(own) = self.broker() else { return };
        let mut state = self.lock();
        let brokers = state.members.brokers();
        if brokers.contains(&own) {
            state.conflict.clear();
            return;
        }
        let Some(winner) = brokers.iter().find(|other| other.id == own.id || other.is_at(&own)) else { return };
        // An id that was given to us goes to whom the operator gave it; we take another.
        if self.asked_id.is_none() {
            state.id = None;
        }
        let conflict = format!("{winner:?}");
        if state.conflict != conflict {
            error!(self.logger, "another gateway claims our broker id or address, and clients are told of it instead: \
                 give each advertised address one --node-id, or none";
                "ours" => format!("{} at {}:{}", own.id, own.host, own.port),
                "theirs" => format!("{} at {}:{}", winner.id, winner.host, winner.port));
            state.conflict = conflict;
        }
    }

    fn told(&self, error: &StoreError) {
        let text = error.to_string();
        let mut state = self.lock();
        state.is_refused = matches!(error, StoreError::NoSpace(_));
        if state.is_released || state.trouble == text {
            debug!(self.logger, "the lease could still not be renewed"; "error" => text);
        } else {
            warn!(self.logger, "the lease could not be renewed"; "error" => &text);
            state.trouble = text;
        }
    }
}

impl State {
    fn holds(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests;
