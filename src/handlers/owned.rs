//! Requests that only the owner of a group may answer: found out who that is, and sent there if it is another gateway.
//!
//! One hop only. What another gateway sent is answered here, be it with NOT_COORDINATOR.

use super::awaited::STORE_WAIT;
use super::{Context, Outcome, Parked};
use crate::clock::Now;
use crate::forward::{Answer, Failure, Visit};
use crate::group::Route;
use crate::promise::{Pending, promise};
use crate::protocol::api::Request;
use crate::protocol::error_code::ErrorCode;
use crate::protocol::frame;
use crate::wake::WatchKey;
use bytes::Bytes;
use slog::debug;
use std::time::{Duration, Instant};

/// What the way to the owner and back may add to the owner's own deadline.
const WAY_MAX: Duration = Duration::from_secs(2);

/// What stands before a frame on a connection.
const LENGTH_BYTES: usize = 4;

/// A request about one group.
pub trait OfGroup: Request + Send + 'static {
    fn group_id(&self) -> &str;

    /// How long the owner may take to answer.
    fn wait(&self) -> Duration {
        STORE_WAIT
    }

    /// The answer that refuses it as a whole.
    fn refused(self, cx: &Context, code: ErrorCode) -> Outcome;
}

/// Where the request is to be answered.
pub fn route(cx: &Context, group: &str) -> Route {
    if cx.is_visit { Route::Here } else { cx.services.groups.route(group) }
}

/// Has the request answered by another process.
pub fn forward<R: OfGroup>(cx: &Context, to: String, request: R, frame: &Bytes) -> Outcome {
    let (kept, pending) = promise(&cx.services.wakeups);
    let visit = Visit { client_host: cx.client_host, group: request.group_id().to_owned(), frame: frame.clone() };
    let deadline = cx.now.mono + request.wait() + WAY_MAX;
    let token = cx.services.forwarder.ask(&to, &visit, Box::new(move |answer| kept.keep(answer)));
    let refuse = Box::new(move |cx: &Context, code| request.refused(cx, code));
    Outcome::Park(Box::new(Away {
        cx: cx.clone(),
        to,
        group: visit.group,
        token,
        pending,
        deadline,
        refuse: Some(refuse),
    }))
}

/// What is to be told where another gateway's answer did not come, and what is to be remembered.
pub fn failed(cx: &Context, to: &str, group: &str, failure: Failure) -> ErrorCode {
    debug!(cx.services.logger, "another gateway did not answer"; "group" => group, "gateway" => to,
        "failure" => ?failure);
    let groups = &cx.services.groups;
    groups.forget_owner(group, to);
    match failure {
        Failure::Full => ErrorCode::COORDINATOR_NOT_AVAILABLE,
        Failure::TooLarge => ErrorCode::GROUP_MAX_SIZE_REACHED,
        Failure::Silent => {
            groups.avoid(to);
            ErrorCode::NOT_COORDINATOR
        }
        Failure::Lost | Failure::Gone => ErrorCode::NOT_COORDINATOR,
    }
}

/// Asks another process about one of several groups. `done` gets the answer, or the code to be told; it must not block.
pub fn ask<R: Request>(
    cx: &Context,
    to: String,
    group: &str,
    request: &R,
    done: impl FnOnce(Result<R::Response, ErrorCode>) + Send + 'static,
) {
    let frame = Bytes::from(frame::request(&cx.header, request)).slice(LENGTH_BYTES..);
    let visit = Visit { client_host: cx.client_host, group: group.to_owned(), frame };
    let forwarder = cx.services.forwarder.clone();
    let (cx, process, group) = (cx.clone(), to.clone(), group.to_owned());
    let read = move |answer: Answer| {
        let read = answer.and_then(|returned| {
            let frame = returned.frame.get(LENGTH_BYTES..).map(Bytes::copy_from_slice).unwrap_or_default();
            frame::read_response::<R>(cx.header.api_version, frame).map_err(|_| Failure::Lost)
        });
        done(read.map(|(_, response)| response).map_err(|failure| failed(&cx, &process, &group, failure)));
    };
    forwarder.ask(&to, &visit, Box::new(read));
}

type Refuse = Box<dyn FnOnce(&Context, ErrorCode) -> Outcome + Send>;

/// A request that another gateway answers.
struct Away {
    cx: Context,
    to: String,
    group: String,
    token: u64,
    pending: Pending<Answer>,
    deadline: Instant,
    refuse: Option<Refuse>,
}

impl Parked for Away {
    fn poll(&mut self, now: Now) -> Option<Outcome> {
        let answer = match self.pending.take_one() {
            Some(answer) => answer.unwrap_or(Err(Failure::Lost)),
            None if now.mono < self.deadline => return None,
            None => {
                self.abandon();
                Err(Failure::Lost)
            }
        };
        let failure = match answer {
            Ok(returned) if is_answer_to(&self.cx, &returned.frame) => {
                if !returned.served {
                    self.cx.services.groups.forget_owner(&self.group, &self.to);
                }
                return Some(Outcome::Reply(returned.frame.into()));
            }
            Ok(_) => Failure::Lost,
            Err(failure) => failure,
        };
        let code = failed(&self.cx, &self.to, &self.group, failure);
        let refuse = self.refuse.take()?;
        Some(refuse(&self.cx, code))
    }

    fn keys(&self) -> Vec<WatchKey> {
        vec![self.pending.key()]
    }

    fn deadline(&self) -> Instant {
        self.deadline
    }

    fn abandon(&mut self) {
        self.cx.services.forwarder.abandon(self.token);
    }
}

/// Whether the frame carries the number that the client waits for: what a gateway of another making sends is not passed on.
fn is_answer_to(cx: &Context, frame: &[u8]) -> bool {
    frame.get(4..8) == Some(&cx.header.correlation_id.to_be_bytes()[..])
}
