//! How members join and a generation is formed.
//!
//! Behavior: the first rebalance of an empty group waits `initial_rebalance_delay`, longer while members keep coming, up to
//! the rebalance timeout; later ones wait until all members have joined again, up to the rebalance timeout. Dynamic members
//! that did not join are removed then, static ones stay. A generation is stored before anybody is told of it.
//!
//! Differs from Apache Kafka: an id that was given out (KIP-394) holds up a rebalance for a few seconds only, and a
//! rebalance timeout is half a second at least.

use super::event::{Join, JoinReply, JoinedMember, MemberId, Protocol, Reply, SyncReply, Token};
use super::record;
use super::state::{Group, JoinTimer, Member, NEW_MEMBER_TIMEOUT, PENDING_MEMBER_GRACE, PendingMember};
use super::state::{Rules, State, Step};
use crate::limits::PENDING_MEMBERS_MAX;
use crate::protocol::error_code::ErrorCode;
use bytes::Bytes;
use std::sync::Arc;

impl Group {
    pub(super) fn join(&mut self, join: Join, token: Token, step: &mut Step) {
        let asked = join.member_id.clone();
        let refuse = |step: &mut Step, error, member_id: &str| {
            step.effects.replies.push((token, Reply::Join(JoinReply::refused(error, member_id))));
        };
        if !self.has_place_for(&asked, step.rules) {
            // As Kafka does: a member that rejoins too late for the last place loses its membership.
            self.drop_member(&asked, step);
            self.maybe_complete_join(step);
            return refuse(step, ErrorCode::GROUP_MAX_SIZE_REACHED, "");
        }
        if !self.can_be_stored_with(&join, step.rules) {
            return refuse(step, ErrorCode::GROUP_MAX_SIZE_REACHED, "");
        }
        if !self.supports(&join.protocol_type, &join.protocols) {
            return refuse(step, ErrorCode::INCONSISTENT_GROUP_PROTOCOL, &asked);
        }
        if asked.is_empty() {
            return self.join_new(join, token, step);
        }
        if self.pending.contains_key(asked.as_str()) {
            if join.instance_id.is_some() {
                return refuse(step, ErrorCode::UNKNOWN_MEMBER_ID, &asked);
            }
            return self.add_member(join, asked, token, step);
        }
        if let Err(error) = self.check_member(&asked, join.instance_id.as_deref()) {
            return refuse(step, error, &asked);
        }
        self.join_again(join, token, step);
    }

    /// Someone without a member id: new, or a static member that was restarted.
    fn join_new(&mut self, join: Join, token: Token, step: &mut Step) {
        let id = join.fresh_member_id.clone();
        if let Some(instance_id) = &join.instance_id {
            match self.statics.get(instance_id.as_str()).cloned() {
                Some(old) => self.replace_static(join, &old, id.into(), token, step),
                None => self.add_member(join, id, token, step),
            }
        } else if join.member_id_required && self.pending.len() >= PENDING_MEMBERS_MAX {
            let reply = JoinReply::refused(ErrorCode::GROUP_MAX_SIZE_REACHED, "");
            step.effects.replies.push((token, Reply::Join(reply)));
        } else if join.member_id_required {
            let pending = PendingMember {
                expires: step.now.mono + join.session_timeout,
                blocks_until: Some(step.now.mono + join.session_timeout.min(PENDING_MEMBER_GRACE)),
            };
            self.pending.insert(id.as_str().into(), pending);
            let reply = JoinReply::refused(ErrorCode::MEMBER_ID_REQUIRED, &id);
            step.effects.replies.push((token, Reply::Join(reply)));
        } else {
            self.add_member(join, id, token, step);
        }
    }

    fn join_again(&mut self, join: Join, token: Token, step: &mut Step) {
        let unchanged = self.members.get(join.member_id.as_str()).is_some_and(|m| *m.protocols == *join.protocols);
        let is_leader = self.is_leader(&join.member_id);
        let answer_now = match self.state {
            State::PreparingRebalance | State::Empty => false,
            // It may not have received the answer to its first join.
            State::CompletingRebalance => unchanged,
            // The leader joins again when what it assigns has changed, for example the number of partitions.
            State::Stable => unchanged && !is_leader,
        };
        if answer_now {
            let reply = self.joined(&join.member_id);
            step.effects.replies.push((token, Reply::Join(reply)));
            return;
        }
        let reason = format!("member {} joins again ({})", join.member_id, reason(&join));
        if let Some(member) = self.members.get_mut(join.member_id.as_str()) {
            update(member, &join, token, step);
        }
        self.rebalance_or_complete(&reason, step);
    }

    fn add_member(&mut self, join: Join, id: String, token: Token, step: &mut Step) {
        if self.state == State::PreparingRebalance && self.initial {
            self.member_added = true;
        }
        if self.members.is_empty() {
            self.protocol_type = Some(join.protocol_type.clone());
        }
        let reason = format!("new member {id} ({})", reason(&join));
        self.insert(Member {
            id: id.into(),
            instance_id: join.instance_id.map(Arc::from),
            client_id: join.client_id.into(),
            client_host: join.client_host.into(),
            session_timeout: join.session_timeout,
            rebalance_timeout: join.rebalance_timeout,
            protocols: join.protocols.into(),
            assignment: Bytes::new(),
            order: 0,
            is_new: true,
            session_end: Some(step.now.mono + NEW_MEMBER_TIMEOUT),
            awaiting_join: Some(token),
            awaiting_sync: None,
            pending_sync: false,
        });
        self.rebalance_or_complete(&reason, step);
    }

    /// A restarted static member takes the place of its former self, which is fenced from now on (KIP-345).
    fn replace_static(&mut self, join: Join, old: &str, id: MemberId, token: Token, step: &mut Step) {
        let leader_before = self.leader.clone();
        let Some(mut member) = self.members.remove(old) else { return };
        if let Some(waiting) = member.awaiting_join.take() {
            let reply = JoinReply::refused(ErrorCode::FENCED_INSTANCE_ID, old);
            step.effects.replies.push((waiting, Reply::Join(reply)));
        }
        if let Some(waiting) = member.awaiting_sync.take() {
            let reply = SyncReply::refused(ErrorCode::FENCED_INSTANCE_ID);
            step.effects.replies.push((waiting, Reply::Sync(reply)));
        }
        member.id = id.clone();
        member.client_id = join.client_id.as_str().into();
        member.client_host = join.client_host.as_str().into();
        update(&mut member, &join, token, step);
        member.touch(step.now);
        if let Some(instance_id) = &member.instance_id {
            self.statics.insert(instance_id.clone(), id.clone());
        }
        if self.is_leader(old) {
            self.leader = Some(id.clone());
        }
        self.members.insert(id.clone(), member);
        let reason = format!("static member {id} replaces {old} ({})", reason(&join));
        match self.state {
            State::Stable if self.select_protocol() == self.protocol_name => {
                step.effects.notes.push(format!("{reason}; no rebalance is needed"));
                self.answer_replacement(&join, &id, leader_before, step);
            }
            // The old id may have gone to the leader already: its assignment would not reach the new one.
            State::Stable | State::CompletingRebalance => self.prepare_rebalance(&reason, step),
            State::PreparingRebalance | State::Empty => self.maybe_complete_join(step),
        }
    }

    fn answer_replacement(&mut self, join: &Join, id: &str, leader_before: Option<MemberId>, step: &mut Step) {
        self.read_subscriptions();
        let mut reply = self.joined(id);
        if join.can_skip_assignment {
            reply.skip_assignment = self.is_leader(id);
        } else {
            // An older client would assign again if it learnt that it leads: it is told the leader's former id.
            reply.leader = leader_before.map(|l| l.to_string()).unwrap_or_default();
            reply.members = Vec::new();
        }
        if let Some(token) = self.members.get_mut(id).and_then(|m| m.awaiting_join.take()) {
            step.effects.replies.push((token, Reply::Join(reply)));
        }
        step.effects.persist = true;
    }

    pub(super) fn rebalance_or_complete(&mut self, reason: &str, step: &mut Step) {
        match self.state {
            State::PreparingRebalance => self.maybe_complete_join(step),
            _ => self.prepare_rebalance(reason, step),
        }
    }

    pub(super) fn prepare_rebalance(&mut self, reason: &str, step: &mut Step) {
        if self.state == State::CompletingRebalance {
            self.refuse_syncs(ErrorCode::REBALANCE_IN_PROGRESS, step);
        }
        self.clear_pending_syncs();
        step.effects.notes.push(format!("rebalancing after generation {}: {reason}", self.generation));
        let timeout = self.rebalance_timeout();
        self.initial = self.state == State::Empty;
        self.enter(State::PreparingRebalance, step.now);
        if self.initial {
            let delay = step.rules.initial_rebalance_delay;
            let remaining = timeout.saturating_sub(delay);
            self.join_timer = Some(JoinTimer::Initial { at: step.now.mono + delay, delay, remaining });
            self.member_added = false;
        } else if self.all_joined(step.now) {
            self.complete_join(step);
        } else {
            self.join_timer = Some(JoinTimer::Rebalance { at: step.now.mono + timeout });
        }
    }

    /// Completes the join if nobody is waited for any more; the initial rebalance takes its time in any case.
    pub(super) fn maybe_complete_join(&mut self, step: &mut Step) {
        if self.state == State::PreparingRebalance && !self.initial && self.all_joined(step.now) {
            self.complete_join(step);
        }
    }

    /// The initial rebalance's delay is over: more of it, if members came in meanwhile.
    pub(super) fn extend_or_complete(&mut self, timer: JoinTimer, step: &mut Step) {
        match timer {
            JoinTimer::Initial { delay, remaining, .. } if self.member_added && !remaining.is_zero() => {
                self.member_added = false;
                let next = step.rules.initial_rebalance_delay.min(remaining);
                let remaining = remaining.saturating_sub(delay);
                self.join_timer = Some(JoinTimer::Initial { at: step.now.mono + next, delay: next, remaining });
            }
            _ => self.complete_join(step),
        }
    }

    pub(super) fn complete_join(&mut self, step: &mut Step) {
        self.join_timer = None;
        let missing = |m: &&Member| m.awaiting_join.is_none() && m.instance_id.is_none();
        let late: Vec<MemberId> = self.members.values().filter(missing).map(|m| m.id.clone()).collect();
        for id in late {
            step.effects.notes.push(format!("member {id} did not join in time"));
            self.drop_member(&id, step);
        }
        if !self.members.is_empty() && !self.elect_leader() {
            step.effects.notes.push("nobody joined: waiting on".to_owned());
            self.join_timer = Some(JoinTimer::Rebalance { at: step.now.mono + self.rebalance_timeout() });
            return;
        }
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        self.initial = false;
        self.protocol_name = self.select_protocol();
        self.read_subscriptions();
        self.clear_pending_syncs();
        step.effects.persist = true;
        if self.members.is_empty() {
            step.effects.notes.push(format!("empty with generation {}", self.generation));
            self.enter(State::Empty, step.now);
            return;
        }
        self.enter(State::CompletingRebalance, step.now);
        let form = format!("generation {} has {} members", self.generation, self.members.len());
        step.effects.notes.push(form);
        self.announce_generation(step);
        self.sync_timer = Some(step.now.mono + self.rebalance_timeout());
    }

    fn announce_generation(&mut self, step: &mut Step) {
        let ids: Vec<MemberId> = self.members.keys().cloned().collect();
        for id in ids {
            let reply = self.joined(&id);
            let Some(member) = self.members.get_mut(&id) else { continue };
            if let Some(token) = member.awaiting_join.take() {
                step.effects.replies.push((token, Reply::Join(reply)));
            }
            member.touch(step.now);
            member.is_new = false;
            member.pending_sync = true;
        }
    }

    /// The leader stays if it joined; otherwise the first that did leads.
    fn elect_leader(&mut self) -> bool {
        let joined = |m: &&Member| m.awaiting_join.is_some();
        let leader = self.leader.as_ref().and_then(|id| self.members.get(id)).filter(joined);
        let leader = leader.or_else(|| self.members.values().filter(joined).min_by_key(|m| m.order));
        let Some(leader) = leader.map(|m| m.id.clone()) else { return false };
        self.leader = Some(leader);
        true
    }

    /// The answer that tells a member of the present generation.
    fn joined(&self, member_id: &str) -> JoinReply {
        let protocol_name = self.protocol_name.as_deref().unwrap_or_default();
        let members = if self.is_leader(member_id) { self.members() } else { Vec::new() };
        let member = |m: &Member| JoinedMember {
            member_id: m.id.to_string(),
            instance_id: m.instance_id.as_deref().map(str::to_owned),
            metadata: m.metadata(protocol_name),
        };
        JoinReply {
            error: ErrorCode::NONE,
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            leader: self.leader.as_deref().unwrap_or_default().to_owned(),
            skip_assignment: false,
            member_id: member_id.to_owned(),
            members: members.into_iter().map(member).collect(),
        }
    }

    fn has_place_for(&self, member_id: &str, rules: &Rules) -> bool {
        let known = self.members.get(member_id);
        match self.state {
            State::Empty => true,
            // Counted are those who joined: the last to come back are turned away if the limit was lowered.
            State::PreparingRebalance => {
                known.is_some_and(|m| m.awaiting_join.is_some()) || self.awaiting_join_count() < rules.size_max
            }
            State::CompletingRebalance | State::Stable => known.is_some() || self.members.len() < rules.size_max,
        }
    }

    fn can_be_stored_with(&self, join: &Join, rules: &Rules) -> bool {
        if self.members.get(join.member_id.as_str()).is_some_and(|m| *m.protocols == *join.protocols) {
            return true;
        }
        record::bytes_max(self) + record::join_bytes_max(join) <= rules.stored_bytes_max
    }

    /// Removes a member, if there is such a one, that others know of only if it is part of a stored generation.
    pub(super) fn drop_member(&mut self, member_id: &str, step: &mut Step) {
        let Some(removed) = self.remove(member_id) else { return };
        step.effects.persist |= !removed.is_new;
        // A client that still waits is told to come again as somebody new.
        if let Some(token) = removed.awaiting_join {
            let reply = JoinReply::refused(ErrorCode::UNKNOWN_MEMBER_ID, "");
            step.effects.replies.push((token, Reply::Join(reply)));
        }
        if let Some(token) = removed.awaiting_sync {
            step.effects.replies.push((token, Reply::Sync(SyncReply::refused(ErrorCode::UNKNOWN_MEMBER_ID))));
        }
    }
}

/// Takes over what a known member says of itself in a new join.
fn update(member: &mut Member, join: &Join, token: Token, step: &mut Step) {
    if *member.protocols != *join.protocols {
        member.protocols = Arc::<[Protocol]>::from(join.protocols.clone());
    }
    member.session_timeout = join.session_timeout;
    member.rebalance_timeout = join.rebalance_timeout;
    if let Some(replaced) = member.awaiting_join.replace(token) {
        // Its client gave up that request and sent this one.
        let reply = JoinReply::refused(ErrorCode::REBALANCE_IN_PROGRESS, &member.id);
        step.effects.replies.push((replaced, Reply::Join(reply)));
    }
}

fn reason(join: &Join) -> &str {
    join.reason.as_deref().filter(|r| !r.is_empty()).unwrap_or("no reason given")
}
