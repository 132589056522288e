//! Requests over one NATS connection that is made again whenever it is lost or hangs. The only way to ask the server anything.

use super::link::{Handler, Link, Request};
use super::pending::{Lost, Outcome, Reply, Sink};
use super::servers::Servers;
use super::supervisor::{Event, Refusal, Supervisor};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use slog::Logger;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What is known of the server, kept while it is away.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub version: String,
    pub max_payload: usize,
    pub clustered: bool,
    pub refusal: Option<Refusal>,
}

/// What the requester and its supervisor share.
pub struct Shared {
    pub name: &'static str,
    pub started: Instant,
    /// The link in use. Held to clone the handle, or to install another.
    pub link: Mutex<Option<Arc<Link>>>,
    /// What the last connection told.
    pub facts: Mutex<Facts>,
    /// Grows only; a link establishes them in this order.
    pub subscriptions: Mutex<Vec<(String, Handler)>>,
    pub servers: Mutex<Servers>,
    pub events: Sender<Event>,
    pub next_token: AtomicU64,
    /// When the supervisor will look for overdue requests, in milliseconds since `started`.
    pub next_look_ms: AtomicU64,
    /// Counts connections, also those that the crate made again: another number may be another server.
    pub connections: AtomicU64,
    pub links_left_behind: AtomicU64,
}

pub struct Requester {
    shared: Arc<Shared>,
}

impl Drop for Requester {
    fn drop(&mut self) {
        let _ = self.shared.events.send(Event::Stop);
    }
}

impl Requester {
    /// Starts connecting in the background. `name` is short and names threads and the connection.
    pub fn start(name: &'static str, client_name: String, servers: Servers, logger: Logger) -> Requester {
        // Unbounded, as what goes in comes one for one from callers that are bounded, and nobody who sends may block.
        let (events, inbox) = unbounded();
        let shared = Arc::new(Shared {
            name,
            started: Instant::now(),
            link: Mutex::new(None),
            facts: Mutex::default(),
            subscriptions: Mutex::default(),
            servers: Mutex::new(servers),
            events,
            next_token: AtomicU64::new(1),
            next_look_ms: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            links_left_behind: AtomicU64::new(0),
        });
        let supervisor = Supervisor::new(shared.clone(), client_name, logger);
        let thread = std::thread::Builder::new().name(format!("{name}-super"));
        thread.spawn(move || supervisor.run(&inbox)).expect("a thread can be had at start");
        Requester { shared }
    }

    /// Sends a request and returns at once. `done` runs exactly once, never on the calling thread.
    pub fn begin(&self, request: Arc<Request>, deadline: Instant, done: Box<dyn FnOnce(Outcome) + Send>) {
        self.ask(request, deadline, Sink::Once(done));
    }

    /// Sends a request and waits for its one reply.
    pub fn request(&self, request: Request, deadline: Instant) -> Outcome {
        let (sender, receiver) = bounded(1);
        let token = self.ask(
            Arc::new(request),
            deadline,
            Sink::Once(Box::new(move |outcome| {
                let _ = sender.send(outcome);
            })),
        );
        receiver.recv_deadline(deadline).unwrap_or_else(|_| {
            self.forget(token);
            Err(Lost::TimedOut)
        })
    }

    /// Sends a request that gets any number of replies, read from `Replies`.
    pub fn request_many(&self, request: Request, deadline: Instant) -> Replies<'_> {
        let (sender, receiver) = unbounded();
        let token = self.ask(Arc::new(request), deadline, Sink::Many(sender));
        Replies { requester: self, token, deadline, receiver }
    }

    /// Publishes without an answer; dropped while there is no connection.
    pub fn tell(&self, request: Request, deadline: Instant) {
        if let Some(link) = self.link() {
            link.tell(request, deadline);
        }
    }

    /// Subscribes for as long as the requester lasts, over all connections. Waits a little until the server knows.
    pub fn subscribe(&self, subject: String, handler: Handler) {
        self.shared.subscriptions.lock().expect("no holder panics").push((subject, handler));
        let (established, wait) = bounded(0);
        let _ = self.shared.events.send(Event::Subscribed(established));
        if self.is_open() {
            let _ = wait.recv_timeout(Duration::from_secs(2));
        }
    }

    /// Runs `action` on the supervisor thread at or soon after `at`. It must not block.
    pub fn later(&self, at: Instant, action: Box<dyn FnOnce() + Send>) {
        let _ = self.shared.events.send(Event::Later(at, action));
    }

    pub fn is_open(&self) -> bool {
        self.link().is_some_and(|link| link.is_open())
    }

    /// The limit of the present connection, or of the last one.
    pub fn max_payload(&self) -> usize {
        match self.link() {
            Some(link) => link.max_payload(),
            None => self.facts().max_payload,
        }
    }

    pub fn facts(&self) -> Facts {
        self.shared.facts.lock().expect("no holder panics").clone()
    }

    /// Tells connections apart: grows with every one that is made.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    pub fn links_left_behind(&self) -> u64 {
        self.shared.links_left_behind.load(Ordering::Relaxed)
    }

    fn link(&self) -> Option<Arc<Link>> {
        self.shared.link()
    }

    fn ask(&self, request: Arc<Request>, deadline: Instant, sink: Sink) -> u64 {
        let shared = &self.shared;
        let token = shared.next_token.fetch_add(1, Ordering::Relaxed);
        let refused = match shared.link() {
            None => Err((sink, Lost::NotConnected)),
            Some(link) => link.ask(token, request, deadline, sink),
        };
        match refused {
            Ok(()) => {
                let due_ms = shared.ms_of(deadline);
                if shared.next_look_ms.fetch_min(due_ms, Ordering::Relaxed) > due_ms {
                    let _ = shared.events.send(Event::Sooner);
                }
            }
            // Not from here: the caller may hold a lock that its callback takes.
            Err((sink, lost)) => {
                let _ = shared.events.send(Event::Fail(sink, lost));
            }
        }
        token
    }

    fn forget(&self, token: u64) {
        if let Some(link) = self.link() {
            link.forget(token);
        }
    }
}

/// The replies to one request. Dropping it ends the request.
pub struct Replies<'a> {
    requester: &'a Requester,
    token: u64,
    deadline: Instant,
    receiver: Receiver<Outcome>,
}

impl Replies<'_> {
    pub fn next(&self) -> Result<Reply, Lost> {
        self.receiver.recv_deadline(self.deadline).unwrap_or(Err(Lost::TimedOut))
    }
}

impl Drop for Replies<'_> {
    fn drop(&mut self) {
        self.requester.forget(self.token);
    }
}

impl Shared {
    pub fn link(&self) -> Option<Arc<Link>> {
        self.link.lock().expect("no holder panics").clone()
    }

    pub fn ms_of(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.started).as_millis()).unwrap_or(u64::MAX)
    }
}
