//! Requests that another gateway process must answer: sent to it over NATS core, at most once, answered by it.
//!
//! NATS core may lose a message and tells nobody. So a gateway that waits says every second for what it waits; whoever does
//! not know such a request (it never came, or its answer was lost) says so, and the client is told to try again. Silence
//! ends the wait as well, and so does the end of the other's lease. Nothing is ever sent twice.
//!
//! A connection that hangs may deliver what it holds much later, when its sender has given it up and the client has had its way
//! by another one: a commit would go back. So requests of one process are taken in the order of their tokens, and what was
//! overtaken, or was told to be given up, is not served.
//!
//! Who may publish to `_kafka.forward.*` may speak for any client: the right belongs to gateways alone.

mod asks;
mod envelope;
mod visits;

pub use envelope::Visit;
pub use visits::Responder;

use crate::clock::Clock;
use crate::group::Leases;
use crate::limits::{FORWARD_TICK_EVERY, PAYLOAD_DEFAULT_MAX};
use crate::store::{Store, StoreResult};
use crate::tasks::{Repeated, Tasks};
use asks::Asks;
use bytes::Bytes;
use envelope::{Content, Envelope, Part, cut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use visits::Visits;

/// The subject of what is sent to a process, which follows as the last token.
const SUBJECT: &str = "_kafka.forward";

/// Why there is no answer. Whether the request was carried out is not known where it is `Lost`, `Silent` or `Gone`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Too much is under way, here or there.
    Full,
    /// Too large to be sent.
    TooLarge,
    /// The other gateway does not know the request.
    Lost,
    /// The other gateway gives no sign of life.
    Silent,
    /// The other gateway's lease has ended.
    Gone,
}

/// What came back: whether the other gateway serves the group, and its response frame, length prefix included.
#[derive(Clone, Debug, PartialEq)]
pub struct Returned {
    pub served: bool,
    pub frame: Bytes,
}

pub type Answer = Result<Returned, Failure>;

/// Takes the answer. Runs on a reader thread: it must not block.
pub type Done = Box<dyn FnOnce(Answer) + Send>;

/// Answers a visiting request. Runs on a reader thread: what may block it hands to a worker.
pub type Serve = Box<dyn Fn(Visit, Responder) + Send + Sync>;

pub struct Forwarder {
    store: Arc<dyn Store>,
    tasks: Arc<dyn Tasks>,
    clock: Arc<dyn Clock>,
    leases: Arc<dyn Leases>,
    process: String,
    /// What this gateway asked of others. A leaf.
    asks: Mutex<Asks>,
    /// What others asked of it. A leaf.
    visits: Mutex<Visits>,
    serve: OnceLock<Serve>,
    next_token: AtomicU64,
    /// Held while a request gets its token and is sent: both in one order. Taken before `asks`.
    sending: Mutex<()>,
    this: Weak<Forwarder>,
}

impl Forwarder {
    /// Sends nothing and hears nothing until `start`.
    pub fn new(
        store: Arc<dyn Store>,
        tasks: Arc<dyn Tasks>,
        clock: Arc<dyn Clock>,
        leases: Arc<dyn Leases>,
        process: &str,
    ) -> Arc<Forwarder> {
        Arc::new_cyclic(|this| Forwarder {
            store,
            tasks,
            clock,
            leases,
            process: process.to_owned(),
            asks: Mutex::default(),
            visits: Mutex::default(),
            serve: OnceLock::new(),
            next_token: AtomicU64::new(1),
            sending: Mutex::default(),
            this: this.clone(),
        })
    }

    /// Begins to hear what others ask.
    pub fn start(&self, serve: Serve) -> StoreResult<()> {
        let _ = self.serve.set(serve);
        let this = self.this.clone();
        let hear = move |_: &str, payload: Bytes| {
            if let (Some(this), Some(envelope)) = (this.upgrade(), Envelope::decode(payload)) {
                this.hear(envelope);
            }
        };
        self.store.core_subscribe(&format!("{SUBJECT}.{}", self.process), Box::new(hear))?;
        let round = |this: &Arc<Forwarder>| {
            this.tick();
            FORWARD_TICK_EVERY
        };
        Repeated { of: self.this.clone(), tasks: self.tasks.clone(), clock: self.clock.clone(), round }
            .after(FORWARD_TICK_EVERY);
        Ok(())
    }

    fn hear(&self, Envelope { from, content }: Envelope) {
        match content {
            Content::Ask(part) => self.ask_came(&from, part),
            Content::Answer(part) => self.answer_came(&from, part),
            Content::Waiting(tokens) => self.waiting_came(&from, &tokens),
            Content::Unknown(tokens) => self.unknown_came(&from, &tokens),
            Content::Abandoned(tokens) => self.abandoned_came(&from, &tokens),
        }
    }

    fn tick(&self) {
        self.tick_asks();
        self.tick_visits();
    }

    /// Gateways came or went: whoever waits for one that is gone is told so now.
    pub fn look_soon(&self) {
        let this = self.this.clone();
        self.tasks.spawn(Box::new(move || {
            if let Some(this) = this.upgrade() {
                this.tick_asks();
            }
        }));
    }

    /// Never blocks. A message that is lost is noticed later.
    fn send(&self, to: &str, content: Content) {
        let envelope = Envelope { from: self.process.clone(), content };
        self.store.core_publish(&format!("{SUBJECT}.{to}"), envelope.encode());
    }

    fn cut(&self, token: u64, whole: Bytes) -> Option<Vec<Part>> {
        let max_payload = match self.store.info().max_payload {
            0 => PAYLOAD_DEFAULT_MAX,
            max => max,
        };
        cut(token, whole, max_payload, &self.process)
    }

    fn token(&self) -> u64 {
        self.next_token.fetch_add(1, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
