//! A request that waits for one promise, or one for each of its rows.

use super::{Context, Outcome, Parked};
use crate::clock::Now;
use crate::group::event::Token;
use crate::promise::Pending;
use crate::wake::WatchKey;
use std::time::{Duration, Instant};

/// How long a request waits for the store and for whatever is queued before it. The domain's own deadlines are shorter.
pub const STORE_WAIT: Duration = Duration::from_secs(30);

/// Makes the answer of what has been delivered; `None` where nothing was.
type Answer<T> = Box<dyn FnMut(&Context, Vec<Option<T>>) -> Outcome + Send>;

/// Answers at once if everything is there already, otherwise later.
pub fn answer_when_there<T: Send + 'static>(
    cx: &Context,
    pending: Pending<T>,
    wait: Duration,
    answer: impl FnMut(&Context, Vec<Option<T>>) -> Outcome + Send + 'static,
) -> Outcome {
    answer_or_abandon(cx, pending, wait, None, answer)
}

/// Like `answer_when_there`; when the client is gone or its time is up, the group is told so.
pub fn answer_or_abandon<T: Send + 'static>(
    cx: &Context,
    pending: Pending<T>,
    wait: Duration,
    member: Option<(String, Token)>,
    mut answer: impl FnMut(&Context, Vec<Option<T>>) -> Outcome + Send + 'static,
) -> Outcome {
    if pending.is_complete() {
        return answer(cx, pending.take());
    }
    let deadline = cx.now.mono + wait;
    Outcome::Park(Box::new(Awaited { cx: cx.clone(), pending, deadline, member, answer: Box::new(answer) }))
}

struct Awaited<T> {
    cx: Context,
    pending: Pending<T>,
    deadline: Instant,
    /// The group and the token under which it waits for a member.
    member: Option<(String, Token)>,
    answer: Answer<T>,
}

impl<T: Send> Parked for Awaited<T> {
    fn poll(&mut self, now: Now) -> Option<Outcome> {
        if !self.pending.is_complete() {
            if now.mono < self.deadline {
                return None;
            }
            self.abandon();
        }
        Some((self.answer)(&self.cx, self.pending.take()))
    }

    fn keys(&self) -> Vec<WatchKey> {
        vec![self.pending.key()]
    }

    fn deadline(&self) -> Instant {
        self.deadline
    }

    fn waits_for_others(&self) -> bool {
        self.member.is_some()
    }

    fn waits_for(&self) -> String {
        match &self.member {
            Some((group, _)) => format!("members of group {group}"),
            None => "the store".to_owned(),
        }
    }

    fn abandon(&mut self) {
        if let Some((group, token)) = self.member.take() {
            self.cx.services.groups.abandon(&group, token);
        }
    }
}
