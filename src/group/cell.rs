//! One group as the service holds it: its committed state, what is being written, and who waits.

use super::event::{Event, JoinReply, LeaveReply, Leaving, Reply, Sender, SyncReply, Token};
use super::ownership::Claim;
use super::state::Group;
use crate::offsets::{Committed, Outcome, Tenure, TopicPartition};
use crate::promise::Promise;
use crate::protocol::error_code::ErrorCode;
use crate::store::Sequence;
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

pub(super) struct Cell {
    pub group: String,
    /// The group's key in the bucket.
    pub key: String,
    /// Never held across a store call. Taken before the map of cells and before the offsets' locks.
    inner: Mutex<Inner>,
}

pub(super) struct Inner {
    pub phase: Phase,
    /// What is still to be done, in order.
    pub queue: VecDeque<Request>,
    /// When the one timer that counts runs.
    pub timer_at: Option<Instant>,
}

pub(super) enum Phase {
    /// Somebody reads and claims the group.
    Loading,
    Ready(Box<Ready>),
    /// No longer in the map: whoever holds this cell must look there again.
    Closed,
}

pub(super) struct Ready {
    /// As it stands in the store, plus what is never stored: sessions, timers, who waits.
    pub committed: Group,
    pub revision: Sequence,
    pub claim: Arc<Claim>,
    pub replies: HashMap<Token, ReplyTo>,
    pub busy: Option<Busy>,
}

/// Why events have to wait.
pub(super) enum Busy {
    /// The state after an event is being stored; its replies are held until then.
    Writing { next: Box<Group>, held: Vec<(Token, Reply)> },
    /// The group and its commits are being removed.
    Deleting,
}

pub(super) enum ReplyTo {
    Join(Promise<JoinReply>),
    Sync(Promise<SyncReply>),
    Leave(Promise<LeaveReply>),
}

pub(super) struct CommitRequest {
    pub sender: Sender,
    pub commits: Vec<(TopicPartition, Committed, Promise<Outcome>)>,
}

pub(super) enum Request {
    Event(Event, Token, Option<ReplyTo>),
    Heartbeat(Sender, Promise<ErrorCode>),
    Commit(CommitRequest),
    /// Remove the group and its commits, if nobody is in it.
    Delete(Promise<ErrorCode>),
    /// The sweeper found no commits left: remove the group, if it was empty ever since `empty_since_ms`.
    Retire {
        empty_since_ms: i64,
    },
}

/// The state to be stored.
pub(super) struct Write {
    pub value: Bytes,
    pub nonce: String,
    pub expected: Sequence,
}

impl Cell {
    pub fn new(group: &str) -> Cell {
        let inner = Inner { phase: Phase::Loading, queue: VecDeque::new(), timer_at: None };
        Cell { group: group.to_owned(), key: crate::store::keys::token(group), inner: Mutex::new(inner) }
    }

    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no holder panics")
    }

    /// The committed state, if the group is loaded and ours.
    pub fn committed(&self) -> Option<Group> {
        match &self.lock().phase {
            Phase::Ready(ready) if ready.claim.stands() => Some(ready.committed.clone()),
            Phase::Ready(_) | Phase::Loading | Phase::Closed => None,
        }
    }

    /// The claim under which the group is served and the revision it is known at; `None` while it is loaded or removed.
    pub fn claim(&self) -> Option<(Arc<Claim>, Sequence)> {
        match &self.lock().phase {
            Phase::Ready(ready) if !matches!(ready.busy, Some(Busy::Deleting)) => {
                Some((ready.claim.clone(), ready.revision))
            }
            Phase::Ready(_) | Phase::Loading | Phase::Closed => None,
        }
    }

    /// Whether the group is ours, also while it is removed.
    pub fn claim_stands(&self) -> bool {
        matches!(&self.lock().phase, Phase::Ready(ready) if ready.claim.stands())
    }

    pub fn is_claimed_by(&self, number: u64) -> bool {
        matches!(&self.lock().phase, Phase::Ready(ready) if ready.claim.number == number)
    }
}

impl Ready {
    /// Pairs replies with who waits for them; those whose client is gone are dropped.
    pub fn address(&mut self, replies: Vec<(Token, Reply)>) -> Vec<(ReplyTo, Reply)> {
        let pair = |(token, reply)| self.replies.remove(&token).map(|to| (to, reply));
        replies.into_iter().filter_map(pair).collect()
    }

    /// A heartbeat changes nothing that is stored, so it does not wait for a write; both states learn of it.
    pub fn heartbeat(&mut self, sender: &Sender, now: crate::clock::Now) -> ErrorCode {
        let code = self.committed.heartbeat(sender, now);
        if let (Some(Busy::Writing { next, .. }), true) = (&mut self.busy, code != ErrorCode::UNKNOWN_MEMBER_ID) {
            next.touch(&sender.member_id, now);
        }
        code
    }
}

impl Request {
    /// Whether the request makes a group that does not exist.
    pub fn creates(&self) -> bool {
        match self {
            Request::Event(Event::Join(join), ..) => join.member_id.is_empty(),
            Request::Commit(commit) => commit.sender.generation < 0,
            _ => false,
        }
    }

    /// Whether the request need not wait for the end of a write.
    pub fn overtakes(&self, busy: &Busy) -> bool {
        matches!((self, busy), (Request::Heartbeat(..), _) | (Request::Commit(_), Busy::Writing { .. }))
    }
}

impl ReplyTo {
    pub fn keep(self, reply: Reply) {
        match (self, reply) {
            (ReplyTo::Join(promise), Reply::Join(reply)) => promise.keep(reply),
            (ReplyTo::Sync(promise), Reply::Sync(reply)) => promise.keep(reply),
            (ReplyTo::Leave(promise), Reply::Leave(reply)) => promise.keep(reply),
            // A token stands for one request, so its reply is of that kind.
            (ReplyTo::Join(_) | ReplyTo::Sync(_) | ReplyTo::Leave(_), _) => {}
        }
    }

    pub fn refuse(self, error: ErrorCode) {
        match self {
            ReplyTo::Join(promise) => promise.keep(JoinReply::refused(error, "")),
            ReplyTo::Sync(promise) => promise.keep(SyncReply::refused(error)),
            ReplyTo::Leave(promise) => promise.keep(LeaveReply { error, members: Vec::new() }),
        }
    }
}

impl Request {
    /// Answers with an error that concerns the whole group.
    pub fn refuse(self, error: ErrorCode) {
        match self {
            Request::Event(Event::Join(join), _, Some(ReplyTo::Join(promise))) => {
                promise.keep(JoinReply::refused(error, &join.member_id));
            }
            Request::Event(_, _, reply_to) => {
                if let Some(reply_to) = reply_to {
                    reply_to.refuse(error);
                }
            }
            Request::Heartbeat(_, promise) | Request::Delete(promise) => promise.keep(error),
            Request::Commit(commit) => commit.refuse(error),
            Request::Retire { .. } => {}
        }
    }

    /// Answers that there is no such group; deletions are not for here.
    pub fn refuse_unknown(self) {
        match self {
            Request::Event(Event::Leave(leaving), _, Some(ReplyTo::Leave(promise))) => {
                let unknown = |one: Leaving| (one, ErrorCode::UNKNOWN_MEMBER_ID);
                let members = leaving.into_iter().map(unknown).collect();
                promise.keep(LeaveReply { error: ErrorCode::NONE, members });
            }
            Request::Commit(commit) => commit.refuse(ErrorCode::GROUP_ID_NOT_FOUND),
            other => other.refuse(ErrorCode::UNKNOWN_MEMBER_ID),
        }
    }
}

impl CommitRequest {
    pub fn refuse(self, error: ErrorCode) {
        for (_, _, promise) in self.commits {
            promise.keep(Err(crate::offsets::CommitError::Refused(error)));
        }
    }
}
