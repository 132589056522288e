//! What members do between joins: ask for their assignment, heartbeat, leave; and what happens when time passes.
//!
//! Behavior: a member's session ends when nothing was heard of it for its session timeout; while it waits in a join or a
//! sync it cannot speak, and is not expired, except for a new member (5 minutes). Members that do not ask for their assignment
//! within the rebalance timeout are removed.
//!
//! Differs from Apache Kafka: a client whose connection breaks while it waits is noticed at once. A new member is then
//! taken out of the join, a known one has its session timeout left.

use super::event::{LeaveReply, Leaving, MemberId, Reply, Sender, Sync, SyncReply, Token};
use super::record;
use super::state::{Group, PendingMember, State, Step};
use crate::clock::Now;
use crate::protocol::error_code::ErrorCode;
use bytes::Bytes;
use std::collections::HashMap;

impl Group {
    /// Answers a heartbeat. It keeps the session alive, and that is all it changes.
    pub fn heartbeat(&mut self, sender: &Sender, now: Now) -> ErrorCode {
        if let Err(error) = self.check_sender(sender) {
            return error;
        }
        self.touch(&sender.member_id, now);
        match self.state {
            State::PreparingRebalance => ErrorCode::REBALANCE_IN_PROGRESS,
            _ => ErrorCode::NONE,
        }
    }

    /// The member was heard of.
    pub fn touch(&mut self, member_id: &str, now: Now) {
        if let Some(member) = self.members.get_mut(member_id) {
            member.touch(now);
        }
    }

    /// A commit keeps the session alive like a heartbeat, except while assignments are awaited.
    pub fn touch_by_commit(&mut self, member_id: &str, now: Now) {
        if matches!(self.state, State::Stable | State::PreparingRebalance) {
            self.touch(member_id, now);
        }
    }

    pub(super) fn sync(&mut self, sync: Sync, token: Token, step: &mut Step) {
        if let Err(error) = self.check_sync(&sync) {
            step.effects.replies.push((token, Reply::Sync(SyncReply::refused(error))));
            return;
        }
        let id = sync.sender.member_id.clone();
        let stable = self.state == State::Stable;
        let Some(member) = self.members.get_mut(id.as_str()) else { return };
        member.pending_sync = false;
        if stable {
            let reply = self.synced(&id);
            step.effects.replies.push((token, Reply::Sync(reply)));
        } else if let Some(replaced) = member.awaiting_sync.replace(token) {
            let reply = SyncReply::refused(ErrorCode::REBALANCE_IN_PROGRESS);
            step.effects.replies.push((replaced, Reply::Sync(reply)));
        }
        if self.members.values().all(|m| !m.pending_sync) {
            self.sync_timer = None;
        }
        if !stable && self.is_leader(&id) {
            self.assign(sync.assignments, step);
        }
    }

    fn check_sync(&self, sync: &Sync) -> Result<(), ErrorCode> {
        self.check_sender(&sync.sender)?;
        let differs = |theirs: &Option<String>, ours: &Option<String>| match (theirs, ours) {
            (Some(theirs), Some(ours)) => theirs != ours,
            _ => false,
        };
        if differs(&sync.protocol_type, &self.protocol_type) || differs(&sync.protocol_name, &self.protocol_name) {
            return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        match self.state {
            State::Empty => Err(ErrorCode::UNKNOWN_MEMBER_ID),
            State::PreparingRebalance => Err(ErrorCode::REBALANCE_IN_PROGRESS),
            State::CompletingRebalance | State::Stable => Ok(()),
        }
    }

    fn assign(&mut self, assignments: Vec<(String, Bytes)>, step: &mut Step) {
        let mut assignments: HashMap<String, Bytes> = assignments.into_iter().collect();
        for member in self.members.values_mut() {
            member.assignment = assignments.remove(&*member.id).unwrap_or_default();
        }
        if record::bytes_max(self) > step.rules.stored_bytes_max {
            let size = record::bytes_max(self);
            step.effects.notes.push(format!("assignments of {size} bytes are more than can be stored"));
            self.refuse_syncs(ErrorCode::UNKNOWN_SERVER_ERROR, step);
            self.prepare_rebalance("the assignment could not be stored", step);
            return;
        }
        self.enter(State::Stable, step.now);
        step.effects.notes.push(format!("generation {} is stable", self.generation));
        step.effects.persist = true;
        let ids: Vec<MemberId> = self.members.keys().cloned().collect();
        for id in ids {
            let reply = self.synced(&id);
            let Some(member) = self.members.get_mut(&id) else { continue };
            if let Some(token) = member.awaiting_sync.take() {
                member.touch(step.now);
                step.effects.replies.push((token, Reply::Sync(reply)));
            }
        }
    }

    fn synced(&self, member_id: &str) -> SyncReply {
        SyncReply {
            error: ErrorCode::NONE,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            assignment: self.members.get(member_id).map(|m| m.assignment.clone()).unwrap_or_default(),
        }
    }

    /// Drops all assignments and answers those who wait for theirs.
    pub(super) fn refuse_syncs(&mut self, error: ErrorCode, step: &mut Step) {
        for member in self.members.values_mut() {
            member.assignment = Bytes::new();
            if let Some(token) = member.awaiting_sync.take() {
                member.touch(step.now);
                step.effects.replies.push((token, Reply::Sync(SyncReply::refused(error))));
            }
        }
    }

    pub(super) fn clear_pending_syncs(&mut self) {
        self.sync_timer = None;
        for member in self.members.values_mut() {
            member.pending_sync = false;
        }
    }

    pub(super) fn leave(&mut self, leaving: Vec<Leaving>, token: Token, step: &mut Step) {
        let mut outcomes = Vec::with_capacity(leaving.len());
        let mut left = Vec::new();
        for one in leaving {
            let outcome = self.leave_one(&one, step);
            if let Ok(id) = &outcome {
                left.push(id.to_string());
            }
            outcomes.push((one, outcome.err().unwrap_or(ErrorCode::NONE)));
        }
        if !left.is_empty() {
            let reason = format!("{} left", left.join(", "));
            match self.state {
                State::Stable | State::CompletingRebalance => self.prepare_rebalance(&reason, step),
                State::PreparingRebalance => self.maybe_complete_join(step),
                State::Empty => {}
            }
        }
        let reply = LeaveReply { error: ErrorCode::NONE, members: outcomes };
        step.effects.replies.push((token, Reply::Leave(reply)));
    }

    fn leave_one(&mut self, one: &Leaving, step: &mut Step) -> Result<MemberId, ErrorCode> {
        let id: MemberId = if one.member_id.is_empty() {
            let holder = one.instance_id.as_deref().and_then(|instance_id| self.statics.get(instance_id));
            holder.cloned().ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?
        } else {
            one.member_id.as_str().into()
        };
        if self.pending.remove(&id).is_some() {
            return Ok(id);
        }
        if !one.member_id.is_empty() {
            self.check_member(&id, one.instance_id.as_deref())?;
        }
        let reason = one.reason.as_deref().unwrap_or("no reason given");
        step.effects.notes.push(format!("member {id} leaves ({reason})"));
        self.drop_member(&id, step);
        Ok(id)
    }

    /// The client behind a parked request is gone.
    pub(super) fn abandon(&mut self, gone: Token, step: &mut Step) {
        let waits = |t: Option<Token>| t == Some(gone);
        let Some(member) = self.members.values_mut().find(|m| waits(m.awaiting_join) || waits(m.awaiting_sync)) else {
            return;
        };
        member.touch(step.now);
        if waits(member.awaiting_sync) {
            member.awaiting_sync = None;
            return;
        }
        member.awaiting_join = None;
        if !member.is_new {
            return;
        }
        let (id, session_timeout) = (member.id.clone(), member.session_timeout);
        step.effects.notes.push(format!("new member {id} is gone before it joined"));
        self.drop_member(&id, step);
        // It may only have lost its connection, and come back with the id.
        let pending = PendingMember { expires: step.now.mono + session_timeout, blocks_until: None };
        self.pending.insert(id, pending);
        self.maybe_complete_join(step);
    }

    pub(super) fn tick(&mut self, step: &mut Step) {
        let now = step.now.mono;
        self.pending.retain(|_, p| p.expires > now);
        for pending in self.pending.values_mut() {
            pending.blocks_until = pending.blocks_until.filter(|until| *until > now);
        }
        self.expire_sessions(step);
        self.maybe_complete_join(step);
        if self.sync_timer.is_some_and(|at| at <= now) {
            self.expire_syncs(step);
        }
        if let Some(timer) = self.join_timer.filter(|timer| timer.at() <= now) {
            self.extend_or_complete(timer, step);
        }
    }

    fn expire_sessions(&mut self, step: &mut Step) {
        let now = step.now.mono;
        let due = self.members.values_mut().filter(|m| m.session_end.is_some_and(|end| end <= now));
        let mut expired: Vec<MemberId> = Vec::new();
        for member in due {
            let waits = member.awaiting_join.is_some() || member.awaiting_sync.is_some();
            if waits && !member.is_new {
                member.session_end = None;
            } else {
                expired.push(member.id.clone());
            }
        }
        if expired.is_empty() {
            return;
        }
        for id in &expired {
            self.drop_member(id, step);
        }
        let reason = format!("{} not heard of in time", expired.join(", "));
        step.effects.notes.push(reason.clone());
        match self.state {
            State::Stable | State::CompletingRebalance => self.prepare_rebalance(&reason, step),
            State::PreparingRebalance if self.all_joined(step.now) => self.complete_join(step),
            State::PreparingRebalance | State::Empty => {}
        }
    }

    fn expire_syncs(&mut self, step: &mut Step) {
        self.sync_timer = None;
        let late: Vec<MemberId> = self.members.values().filter(|m| m.pending_sync).map(|m| m.id.clone()).collect();
        if late.is_empty() || !matches!(self.state, State::CompletingRebalance | State::Stable) {
            return;
        }
        for id in &late {
            self.drop_member(id, step);
        }
        let reason = format!("{} did not ask for an assignment in time", late.join(", "));
        self.prepare_rebalance(&reason, step);
    }
}
