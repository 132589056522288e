//! One consumer group of the classic protocol: what it is made of, and what can be read off it.
//!
//! The transitions are in `rebalance` (joining) and `session` (all else). Nothing here does I/O or asks for the time.

use super::event::{Event, MemberId, Protocol, Reply, Sender, Token};
use super::subscription;
use crate::clock::Now;
use crate::protocol::error_code::ErrorCode;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The protocol type of ordinary consumers, whose metadata names the topics they subscribe to.
pub const CONSUMER_PROTOCOL: &str = "consumer";

/// A new member waits this long in its first join at most; then it must ask again (Kafka's own fixed value).
pub const NEW_MEMBER_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// For so long after an id was given out, a rebalance waits for the member to come back with it. Kafka waits for the whole
/// session timeout; a client that never returns should not hold up the others that long.
pub const PENDING_MEMBER_GRACE: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Empty,
    PreparingRebalance,
    CompletingRebalance,
    Stable,
}

impl State {
    pub const ALL: [State; 4] = [State::Empty, State::PreparingRebalance, State::CompletingRebalance, State::Stable];

    /// Kafka's name.
    pub fn name(self) -> &'static str {
        match self {
            State::Empty => "Empty",
            State::PreparingRebalance => "PreparingRebalance",
            State::CompletingRebalance => "CompletingRebalance",
            State::Stable => "Stable",
        }
    }

    pub fn from_name(name: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// A rebalance waits at least so long, whatever its members ask for: with a timeout of nothing, one that waits on for absent
/// static members would keep a worker busy for as long as their sessions last.
pub const REBALANCE_TIMEOUT_MIN: Duration = Duration::from_millis(500);

/// What the transitions go by.
#[derive(Clone, Debug)]
pub struct Rules {
    pub initial_rebalance_delay: Duration,
    /// Members.
    pub size_max: usize,
    /// What the store takes as one value.
    pub stored_bytes_max: usize,
}

#[derive(Clone, Debug)]
pub struct Member {
    pub id: MemberId,
    pub instance_id: Option<Arc<str>>,
    pub client_id: Arc<str>,
    pub client_host: Arc<str>,
    pub session_timeout: Duration,
    pub rebalance_timeout: Duration,
    pub protocols: Arc<[Protocol]>,
    pub assignment: Bytes,
    /// Members are ordered by when they came.
    pub(super) order: u64,
    /// In no generation yet.
    pub(super) is_new: bool,
    /// When the member is given up unless it is heard of; `None` while it waits in a join or a sync.
    pub(super) session_end: Option<Instant>,
    pub(super) awaiting_join: Option<Token>,
    pub(super) awaiting_sync: Option<Token>,
    /// Has not asked for its assignment in this generation.
    pub(super) pending_sync: bool,
}

impl Member {
    pub fn metadata(&self, protocol_name: &str) -> Bytes {
        self.protocols.iter().find(|p| p.name == protocol_name).map(|p| p.metadata.clone()).unwrap_or_default()
    }

    pub(super) fn touch(&mut self, now: Now) {
        self.session_end = Some(now.mono + self.session_timeout);
    }
}

/// An id that was given out, and whose member has not come back with it.
#[derive(Clone, Debug)]
pub(super) struct PendingMember {
    pub expires: Instant,
    /// Until then a rebalance waits for the member; `None` from then on.
    pub blocks_until: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum JoinTimer {
    /// The first rebalance waits for more members, as long as they keep coming and `remaining` lasts.
    Initial { at: Instant, delay: Duration, remaining: Duration },
    /// The rebalance timeout.
    Rebalance { at: Instant },
}

impl JoinTimer {
    pub(super) fn at(self) -> Instant {
        match self {
            JoinTimer::Initial { at, .. } | JoinTimer::Rebalance { at } => at,
        }
    }
}

/// What a transition asks to be done. With `persist` the replies are held until the new state is stored.
#[derive(Debug, Default)]
pub struct Effects {
    pub replies: Vec<(Token, Reply)>,
    pub persist: bool,
    /// For the log.
    pub notes: Vec<String>,
}

/// One transition: what it goes by, and what it gathers.
pub(super) struct Step<'a> {
    pub now: Now,
    pub rules: &'a Rules,
    pub effects: Effects,
}

#[derive(Clone, Debug)]
pub struct Group {
    pub state: State,
    /// When the state was entered; milliseconds since the epoch.
    pub since_ms: i64,
    pub generation: i32,
    /// Kept when the group becomes empty; `None` for a group that only commits offsets.
    pub protocol_type: Option<String>,
    pub protocol_name: Option<String>,
    pub leader: Option<MemberId>,
    pub(super) members: BTreeMap<MemberId, Member>,
    /// Instance id to member id.
    pub(super) statics: BTreeMap<Arc<str>, MemberId>,
    pub(super) pending: BTreeMap<MemberId, PendingMember>,
    /// Runs in PreparingRebalance.
    pub(super) join_timer: Option<JoinTimer>,
    /// Runs from the forming of a generation until all its members have asked for their assignment.
    pub(super) sync_timer: Option<Instant>,
    /// The rebalance under way began in Empty.
    pub(super) initial: bool,
    pub(super) member_added: bool,
    /// The topics of all members' subscriptions, where they can be read.
    pub(super) subscribed: Option<Arc<BTreeSet<String>>>,
    pub(super) next_order: u64,
}

impl Group {
    /// A group nobody is in yet.
    pub fn new(now: Now) -> Group {
        Group {
            state: State::Empty,
            since_ms: now.wall_ms,
            generation: 0,
            protocol_type: None,
            protocol_name: None,
            leader: None,
            members: BTreeMap::new(),
            statics: BTreeMap::new(),
            pending: BTreeMap::new(),
            join_timer: None,
            sync_timer: None,
            initial: false,
            member_added: false,
            subscribed: None,
            next_order: 0,
        }
    }

    /// Applies one event. If the effects say `persist` and that fails, the group as it was before is the true one.
    pub fn apply(&mut self, event: Event, token: Token, now: Now, rules: &Rules) -> Effects {
        let mut step = Step { now, rules, effects: Effects::default() };
        match event {
            Event::Join(join) => self.join(join, token, &mut step),
            Event::Sync(sync) => self.sync(sync, token, &mut step),
            Event::Leave(leaving) => self.leave(leaving, token, &mut step),
            Event::Abandon(gone) => self.abandon(gone, &mut step),
            Event::Tick => self.tick(&mut step),
        }
        step.effects
    }

    /// When `Event::Tick` is due; `None`: not before something else happens.
    pub fn next_deadline(&self) -> Option<Instant> {
        let sessions = self.members.values().filter_map(|m| m.session_end);
        let pending = self.pending.values().flat_map(|p| [Some(p.expires), p.blocks_until]).flatten();
        let timers = self.join_timer.map(JoinTimer::at).into_iter().chain(self.sync_timer);
        sessions.chain(pending).chain(timers).min()
    }

    /// In the order in which they came.
    pub fn members(&self) -> Vec<&Member> {
        let mut members: Vec<&Member> = self.members.values().collect();
        members.sort_by_key(|m| m.order);
        members
    }

    /// No generation, no members, no ids given out: nothing is lost with it but its committed offsets.
    pub fn is_idle(&self) -> bool {
        self.state == State::Empty && self.pending.is_empty()
    }

    /// Whether a live member may still read the topic, as far as the group can tell.
    pub fn is_subscribed_to(&self, topic: &str) -> bool {
        match &self.subscribed {
            Some(topics) => topics.contains(topic),
            None => self.is_consumer_group(),
        }
    }

    pub fn is_consumer_group(&self) -> bool {
        self.protocol_type.as_deref() == Some(CONSUMER_PROTOCOL)
    }

    pub fn knows_subscriptions(&self) -> bool {
        self.subscribed.is_some()
    }

    /// Whether an offset commit is allowed; what a simple consumer sends has a negative generation.
    pub fn check_commit(&self, sender: &Sender) -> Result<(), ErrorCode> {
        if sender.generation < 0 && self.state == State::Empty {
            return Ok(());
        }
        if sender.generation < 0 && sender.member_id.is_empty() && sender.instance_id.is_none() {
            return Err(ErrorCode::UNKNOWN_MEMBER_ID);
        }
        self.check_sender(sender)?;
        match self.state {
            State::CompletingRebalance => Err(ErrorCode::REBALANCE_IN_PROGRESS),
            _ => Ok(()),
        }
    }

    /// A known member, not fenced, of the present generation.
    pub(super) fn check_sender(&self, sender: &Sender) -> Result<(), ErrorCode> {
        self.check_member(&sender.member_id, sender.instance_id.as_deref())?;
        if sender.generation != self.generation {
            return Err(ErrorCode::ILLEGAL_GENERATION);
        }
        Ok(())
    }

    pub(super) fn check_member(&self, member_id: &str, instance_id: Option<&str>) -> Result<(), ErrorCode> {
        if let Some(instance_id) = instance_id {
            match self.statics.get(instance_id) {
                None => return Err(ErrorCode::UNKNOWN_MEMBER_ID),
                Some(holder) if &**holder != member_id => return Err(ErrorCode::FENCED_INSTANCE_ID),
                Some(_) => {}
            }
        }
        if self.members.contains_key(member_id) { Ok(()) } else { Err(ErrorCode::UNKNOWN_MEMBER_ID) }
    }

    pub(super) fn enter(&mut self, state: State, now: Now) {
        self.state = state;
        self.since_ms = now.wall_ms;
    }

    pub(super) fn is_leader(&self, member_id: &str) -> bool {
        self.leader.as_deref() == Some(member_id)
    }

    pub(super) fn insert(&mut self, mut member: Member) {
        member.order = self.next_order;
        self.next_order += 1;
        if let Some(instance_id) = &member.instance_id {
            self.statics.insert(instance_id.clone(), member.id.clone());
        }
        if self.leader.is_none() {
            self.leader = Some(member.id.clone());
        }
        self.pending.remove(&member.id);
        self.members.insert(member.id.clone(), member);
    }

    pub(super) fn remove(&mut self, member_id: &str) -> Option<Member> {
        self.pending.remove(member_id);
        let removed = self.members.remove(member_id)?;
        if let Some(instance_id) = &removed.instance_id {
            self.statics.remove(instance_id);
        }
        if self.is_leader(member_id) {
            self.leader = self.members.values().min_by_key(|m| m.order).map(|m| m.id.clone());
        }
        Some(removed)
    }

    pub(super) fn awaiting_join_count(&self) -> usize {
        self.members.values().filter(|m| m.awaiting_join.is_some()).count()
    }

    pub(super) fn all_joined(&self, now: Now) -> bool {
        self.members.values().all(|m| m.awaiting_join.is_some())
            && self.pending.values().all(|p| p.blocks_until.is_none_or(|until| until <= now.mono))
    }

    /// The longest of the members': the slowest is waited for.
    pub(super) fn rebalance_timeout(&self) -> Duration {
        let longest = self.members.values().map(|m| m.rebalance_timeout).max().unwrap_or_default();
        longest.max(REBALANCE_TIMEOUT_MIN)
    }

    pub(super) fn supports(&self, protocol_type: &str, protocols: &[Protocol]) -> bool {
        if self.state == State::Empty {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        let common = self.common_protocols();
        self.protocol_type.as_deref() == Some(protocol_type)
            && protocols.iter().any(|p| self.members.is_empty() || common.contains(p.name.as_str()))
    }

    /// The names that every member supports. Each is looked at once: members may name very many.
    fn common_protocols(&self) -> HashSet<&str> {
        let mut supporters: HashMap<&str, usize> = HashMap::new();
        for (before, member) in self.members.values().enumerate() {
            for protocol in member.protocols.iter() {
                let count = supporters.entry(&protocol.name).or_default();
                // Not if one of those before lacks it, nor a second time.
                if *count == before {
                    *count += 1;
                }
            }
        }
        let common = supporters.into_iter().filter(|(_, count)| *count == self.members.len());
        common.map(|(name, _)| name).collect()
    }

    /// Of the protocols all members support, the one that most of them like best; between equals the earlier members' choice.
    pub(super) fn select_protocol(&self) -> Option<String> {
        let common = self.common_protocols();
        let mut votes: Vec<(&str, usize)> = Vec::new();
        for member in self.members() {
            let choice = member.protocols.iter().find(|p| common.contains(p.name.as_str()))?;
            match votes.iter_mut().find(|(name, _)| *name == choice.name) {
                Some((_, count)) => *count += 1,
                None => votes.push((&choice.name, 1)),
            }
        }
        let most = votes.iter().map(|(_, count)| *count).max()?;
        votes.iter().find(|(_, count)| *count == most).map(|(name, _)| (*name).to_owned())
    }

    pub(super) fn read_subscriptions(&mut self) {
        self.subscribed = self.subscriptions().map(Arc::new);
    }

    fn subscriptions(&self) -> Option<BTreeSet<String>> {
        if !self.is_consumer_group() {
            return None;
        }
        if self.members.is_empty() {
            return Some(BTreeSet::new());
        }
        let protocol_name = self.protocol_name.as_deref()?;
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            topics.extend(subscription::topics(&member.metadata(protocol_name))?);
        }
        Some(topics)
    }
}
