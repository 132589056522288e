//! Consumer groups: the classic protocol as pure transitions, and the service that persists them.
//!
//! A group is read and claimed when it is first asked for, and from then on served from memory. What a transition changes is
//! stored before anybody is told of it: one write per group is in flight, events queue behind it, heartbeats and commits
//! go by the committed state meanwhile. When a write fails, all who wait are told to come again, and the group is read
//! anew. Every load claims the group by a write, so a write of ours that was lost on the way can no longer land after it.

mod cell;
pub mod event;
mod ownership;
mod rebalance;
mod record;
mod release;
mod serve;
mod session;
pub mod state;
mod subscription;
mod sweep;
mod view;

pub use ownership::{Leases, OwnerId, Route, Standing};
pub use view::{Described, DescribedMember, Listed};

use crate::clock::Clock;
use crate::config::GroupConfig;
use crate::limits::{GROUP_TOKEN_BYTES_MAX, PAYLOAD_DEFAULT_MAX};
use crate::logging::Brake;
use crate::offsets::{Committed, Offsets, Outcome, Slot, Tenure, TopicPartition};
use crate::promise::Promise;
use crate::protocol::error_code::ErrorCode;
use crate::store::{Sequence, Store, StoreResult, keys};
use crate::tasks::Tasks;
use cell::{Cell, CommitRequest, Phase, ReplyTo, Request};
use event::{Event, Join, JoinReply, LeaveReply, Leaving, Sender, Sync, SyncReply, Token};
use ownership::Others;
use state::Rules;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// The bucket's name.
pub const BUCKET: &str = "kafka-groups";

/// Left free in a message for headers and subject.
const VALUE_SLACK_BYTES: usize = 4_096;

/// Between two lines about groups that cannot be loaded: while the store is away every heartbeat finds that out.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(1);

/// What the service is made of.
pub struct Setup {
    pub store: Arc<dyn Store>,
    pub offsets: Arc<Offsets>,
    pub tasks: Arc<dyn Tasks>,
    pub clock: Arc<dyn Clock>,
    pub settings: GroupConfig,
    /// JetStream replicas of the bucket.
    pub replicas: u32,
    pub owner: OwnerId,
    pub leases: Arc<dyn Leases>,
    pub logger: slog::Logger,
}

pub struct Groups {
    store: Arc<dyn Store>,
    offsets: Arc<Offsets>,
    tasks: Arc<dyn Tasks>,
    clock: Arc<dyn Clock>,
    settings: GroupConfig,
    replicas: u32,
    owner: OwnerId,
    leases: Arc<dyn Leases>,
    logger: slog::Logger,
    /// Where other gateways' groups were seen. A leaf.
    others: Mutex<Others>,
    /// The bucket's revision up to which what others wrote is known. A leaf.
    checked: Mutex<Option<Sequence>>,
    /// Set for good at a graceful stop: no group is claimed any more.
    released: AtomicBool,
    /// The groups in memory. Taken after a cell's lock, never before it.
    cells: Mutex<HashMap<String, Arc<Cell>>>,
    next_token: AtomicU64,
    sweeps: AtomicU64,
    adopted: AtomicBool,
    complaints: Brake,
    this: Weak<Groups>,
}

impl Groups {
    /// Does nothing by itself until `start`.
    pub fn new(setup: Setup) -> Arc<Groups> {
        Arc::new_cyclic(|this| Groups {
            store: setup.store,
            offsets: setup.offsets,
            tasks: setup.tasks,
            clock: setup.clock,
            settings: setup.settings,
            replicas: setup.replicas,
            owner: setup.owner,
            leases: setup.leases,
            logger: setup.logger,
            others: Mutex::default(),
            checked: Mutex::new(None),
            released: AtomicBool::new(false),
            cells: Mutex::new(HashMap::new()),
            next_token: AtomicU64::new(1),
            sweeps: AtomicU64::new(0),
            adopted: AtomicBool::new(false),
            complaints: Brake::new(COMPLAINT_INTERVAL),
            this: this.clone(),
        })
    }

    /// Whether a group can have this id; the empty one can only commit and fetch offsets.
    pub fn check_id(group: &str, may_be_empty: bool) -> Result<(), ErrorCode> {
        let fits = keys::token(group).len() <= GROUP_TOKEN_BYTES_MAX;
        if fits && (may_be_empty || !group.is_empty()) { Ok(()) } else { Err(ErrorCode::INVALID_GROUP_ID) }
    }

    /// Takes a member into the group's next generation. The token is for `abandon`.
    pub fn join(&self, group: &str, join: Join, promise: Promise<JoinReply>) -> Token {
        let token = self.token();
        let bounds = self.settings.session_timeout_min..=self.settings.session_timeout_max;
        let refusal = match Self::check_id(group, false) {
            Ok(()) if bounds.contains(&join.session_timeout) => None,
            Ok(()) => Some(ErrorCode::INVALID_SESSION_TIMEOUT),
            Err(error) => Some(error),
        };
        match refusal {
            Some(error) => promise.keep(JoinReply::refused(error, &join.member_id)),
            None => self.submit(group, Request::Event(Event::Join(join), token, Some(ReplyTo::Join(promise)))),
        }
        token
    }

    /// Asks for a member's assignment, and brings all assignments if it leads.
    pub fn sync(&self, group: &str, sync: Sync, promise: Promise<SyncReply>) -> Token {
        let token = self.token();
        match Self::check_id(group, false) {
            Ok(()) => self.submit(group, Request::Event(Event::Sync(sync), token, Some(ReplyTo::Sync(promise)))),
            Err(error) => promise.keep(SyncReply::refused(error)),
        }
        token
    }

    pub fn leave(&self, group: &str, leaving: Vec<Leaving>, promise: Promise<LeaveReply>) {
        let token = self.token();
        match Self::check_id(group, false) {
            Ok(()) => self.submit(group, Request::Event(Event::Leave(leaving), token, Some(ReplyTo::Leave(promise)))),
            Err(error) => promise.keep(LeaveReply { error, members: Vec::new() }),
        }
    }

    /// Answers a heartbeat from memory; `None`: the group is not there, see `heartbeat_later`. Never blocks.
    pub fn heartbeat(&self, group: &str, sender: &Sender) -> Option<ErrorCode> {
        if let Err(error) = Self::check_id(group, false) {
            return Some(error);
        }
        let cell = self.find(group)?;
        let mut inner = cell.lock();
        match &mut inner.phase {
            Phase::Ready(ready) if !ready.claim.stands() => Some(ErrorCode::NOT_COORDINATOR),
            Phase::Ready(ready) => Some(ready.heartbeat(sender, self.clock.now())),
            Phase::Loading | Phase::Closed => None,
        }
    }

    /// Answers a heartbeat once the group is loaded, which another worker does.
    pub fn heartbeat_later(&self, group: &str, sender: Sender, promise: Promise<ErrorCode>) {
        let (this, group) = (self.this.clone(), group.to_owned());
        self.tasks.spawn(Box::new(move || {
            if let Some(this) = this.upgrade() {
                this.submit(&group, Request::Heartbeat(sender, promise));
            }
        }));
    }

    /// The client that waits for a join or a sync is gone.
    pub fn abandon(&self, group: &str, token: Token) {
        let Some(cell) = self.find(group) else { return };
        {
            let mut inner = cell.lock();
            let queued = |r: &Request| matches!(r, Request::Event(_, queued, _) if *queued == token);
            if let Some(at) = inner.queue.iter().position(queued) {
                inner.queue.remove(at);
                return;
            }
            if let Phase::Ready(ready) = &mut inner.phase {
                ready.replies.remove(&token);
            }
            inner.queue.push_back(Request::Event(Event::Abandon(token), token, None));
        }
        self.drive(&cell);
    }

    /// Commits offsets, one promise for each. A sender with a negative generation makes the group if need be.
    pub fn commit(&self, group: &str, sender: Sender, commits: Vec<(TopicPartition, Committed, Promise<Outcome>)>) {
        let commit = CommitRequest { sender, commits };
        match Self::check_id(group, true) {
            Ok(()) => self.submit(group, Request::Commit(commit)),
            Err(error) => commit.refuse(error),
        }
    }

    /// The group's commits: from memory if this gateway owns it, otherwise read at the leader.
    pub fn committed(&self, group: &str, deadline: Instant) -> StoreResult<BTreeMap<TopicPartition, Slot>> {
        if let Some((claim, _)) = self.find(group).and_then(|cell| cell.claim()).filter(|(claim, _)| claim.stands()) {
            let tenure: Arc<dyn Tenure> = claim;
            if let Some(slots) = self.offsets.owned(group, &tenure, deadline)? {
                return Ok(slots);
            }
        }
        self.offsets.stored(group, deadline)
    }

    /// Removes a group nobody is in, with its commits.
    pub fn delete(&self, group: &str, promise: Promise<ErrorCode>) {
        match Self::check_id(group, true) {
            Ok(()) => self.submit(group, Request::Delete(promise)),
            Err(error) => promise.keep(error),
        }
    }

    fn token(&self) -> Token {
        Token(self.next_token.fetch_add(1, Ordering::Relaxed))
    }

    fn rules(&self) -> Rules {
        let payload_max = match self.store.info().max_payload {
            0 => PAYLOAD_DEFAULT_MAX,
            max => max,
        };
        Rules {
            initial_rebalance_delay: self.settings.initial_rebalance_delay,
            size_max: self.settings.size_max,
            stored_bytes_max: payload_max.saturating_sub(VALUE_SLACK_BYTES),
        }
    }

    fn find(&self, group: &str) -> Option<Arc<Cell>> {
        self.cells.lock().expect("no holder panics").get(group).cloned()
    }
}

/// An id for a new member: its client's or instance's name and a random UUID, as Kafka makes them.
pub fn fresh_member_id(client_id: &str, instance_id: Option<&str>) -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has a random source");
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    format!("{}-{}", instance_id.unwrap_or(client_id), parts.join("-"))
}

#[cfg(test)]
pub(crate) mod tests;
