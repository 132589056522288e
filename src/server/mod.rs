//! Sockets, threads, parked requests: from a client's bytes to `handlers::Dispatch` and back.
//!
//! One acceptor, one poller, a fixed pool of workers, one timers thread. A connection is owned by exactly one of poller,
//! queue, worker and parked set (`places`). Its socket never blocks: a partial frame goes back to the poller, an unsent
//! reply waits for writability, and a request that waits for someone else is parked until a watch key or its deadline
//! wakes it. Replies leave in the order of their requests.
//!
//! **Architecture invariant:** nothing here knows a Kafka message; what a frame means is `Dispatch`'s to say.

mod acceptor;
mod budget;
mod buffers;
mod connection;
mod files;
mod hub;
mod in_flight;
mod pace;
mod places;
mod poller;
mod timers;
mod timing;
mod turn;
mod worker;

pub use files::allow_connections;
pub use worker::Pool;

use crate::activity::Dump;
use crate::clock::Clock;
use crate::config::Config;
use crate::handlers::Dispatch;
use crate::limits::{CALL_AHEAD_MAX, PARKED_LISTED_MAX, REPLY_BYTES_HELD_MAX, REQUEST_BYTES_HELD_MAX, STALL_MAX};
use crate::metrics::Metrics;
use crate::wake::Wakeups;
use acceptor::Acceptor;
use hub::{Hub, Stage};
use places::Cause;
use polling::Poller;
use slog::{Logger, info};
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What the server needs of the configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    pub host: String,
    /// 0 takes a free port.
    pub port: u16,
    pub max_connections: usize,
    pub connections_max_idle: Duration,
    /// A request that took longer, what it waited for other clients left out, is logged; zero: none is.
    pub slow_request: Duration,
    pub request_bytes_held_max: usize,
    pub reply_bytes_held_max: usize,
    /// How long a peer may hold what others wait for without moving its share.
    pub stall_max: Duration,
    /// How far ahead a timer looks after a connection.
    pub call_ahead_max: Duration,
}

impl From<&Config> for Settings {
    fn from(config: &Config) -> Self {
        Settings {
            host: config.host.clone(),
            port: config.port,
            max_connections: config.max_connections,
            connections_max_idle: config.connections_max_idle,
            slow_request: config.slow_request,
            request_bytes_held_max: REQUEST_BYTES_HELD_MAX,
            reply_bytes_held_max: REPLY_BYTES_HELD_MAX,
            stall_max: STALL_MAX,
            call_ahead_max: CALL_AHEAD_MAX,
        }
    }
}

/// What the server works with.
pub struct Parts {
    pub pool: Arc<Pool>,
    pub dispatch: Arc<dyn Dispatch>,
    pub wakeups: Arc<Wakeups>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
    pub logger: Logger,
}

#[derive(Debug)]
pub enum ServerError {
    /// The address cannot be listened on.
    Bind { host: String, port: u16, source: io::Error },
    /// The operating system gives no thread, poller or socket.
    System(io::Error),
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerError::Bind { host, port, source } => match source.kind() {
                io::ErrorKind::AddrInUse => {
                    write!(
                        f,
                        "--port {port}: something listens on {host}:{port} already; stop that, or choose another port"
                    )
                }
                io::ErrorKind::PermissionDenied => {
                    write!(f, "--port {port}: no permission to listen there ({source}); choose one above 1023")
                }
                _ => write!(
                    f,
                    "--host {host}: cannot listen on {host}:{port} ({source}); name an address or name of this machine"
                ),
            },
            ServerError::System(source) => write!(f, "the server cannot start: {source}"),
        }
    }
}

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ServerError::Bind { source, .. } | ServerError::System(source) => Some(source),
        }
    }
}

/// A running server. Ends with `stop`; dropping it lets it run on.
pub struct Server {
    hub: Arc<Hub>,
    addresses: Vec<SocketAddr>,
    accepting: Arc<Poller>,
    /// Until `stop` joins them.
    threads: Mutex<Option<Threads>>,
}

struct Threads {
    acceptor: JoinHandle<()>,
    poller: JoinHandle<()>,
}

impl Server {
    /// Takes the port, before anybody is served: who connects meanwhile waits in the kernel.
    pub fn bind(settings: &Settings) -> Result<Vec<TcpListener>, ServerError> {
        crate::listen::bind(&settings.host, settings.port).map_err(|source| ServerError::Bind {
            host: settings.host.clone(),
            port: settings.port,
            source,
        })
    }

    /// Serves who connects to the listeners. The pool must be running, and is not stopped with the server.
    pub fn start(settings: Settings, parts: Parts, listeners: Vec<TcpListener>) -> Result<Server, ServerError> {
        Self::serve(settings, parts, listeners).map_err(ServerError::System)
    }

    fn serve(settings: Settings, parts: Parts, listeners: Vec<TcpListener>) -> io::Result<Server> {
        let addresses = listeners.iter().map(|listener| listener.local_addr()).collect::<io::Result<Vec<_>>>()?;
        let acceptor = Acceptor::new(listeners)?;
        let accepting = acceptor.poller.clone();
        let hub = Arc::new(Hub::new(settings, Poller::new()?, parts));
        let woken = Arc::downgrade(&hub);
        hub.wakeups.set_sink(Box::new(move |waiter| {
            if let Some(hub) = woken.upgrade() {
                hub.take_and_submit(waiter, Cause::WakeUp);
            }
        }));
        hub.sweep();
        let polled = hub.clone();
        let poller = thread::Builder::new().name("poller".to_owned()).spawn(move || poller::run(&polled))?;
        let accepted = hub.clone();
        let acceptor = thread::Builder::new().name("acceptor".to_owned()).spawn(move || acceptor.run(&accepted))?;
        Ok(Server { hub, addresses, accepting, threads: Mutex::new(Some(Threads { acceptor, poller })) })
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Request bytes held at this moment that count against the budget.
    pub fn request_bytes_held(&self) -> usize {
        self.hub.budget.held()
    }

    /// Reply bytes that peers have not taken yet.
    pub fn reply_bytes_held(&self) -> usize {
        self.hub.budget.unsent()
    }

    /// What goes on at this moment.
    pub fn dump(&self) -> Dump {
        let (parked, parked_unlisted) = self.hub.places.parked(PARKED_LISTED_MAX);
        Dump {
            taken: Instant::now(),
            workers: self.hub.pool.workers(),
            queued: self.hub.pool.queued(),
            connections: self.hub.places.len(),
            parked,
            parked_unlisted,
        }
    }

    /// Whether poller, timers and workers still take what comes: asked of them, and seen by `deadline`.
    pub fn answers(&self, deadline: Instant) -> bool {
        let rounds = self.hub.poller_rounds.load(Ordering::Relaxed);
        if self.hub.poller.notify().is_err() || !self.hub.pool.answers(deadline) {
            return false;
        }
        while self.hub.poller_rounds.load(Ordering::Relaxed) == rounds {
            if Instant::now() >= deadline {
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
        true
    }

    pub fn is_stopping(&self) -> bool {
        self.hub.stage() != Stage::Serving
    }

    /// Takes no further connection and begins no further request; what is under way goes on.
    pub fn drain(&self) {
        self.hub.enter_stage(Stage::Draining);
        let _ = self.accepting.notify();
    }

    /// Drains, answers what is in flight, closes every connection and ends by `deadline` or a little after it. Requests that
    /// wait for other clients are answered at once, as if their time were up; what waits for the store gets three quarters of
    /// the time. Gives whether every connection was closed.
    pub fn stop(&self, deadline: Instant) -> bool {
        let Some(threads) = self.threads.lock().expect("no holder panics").take() else {
            return self.hub.places.len() == 0;
        };
        info!(self.hub.logger, "the server stops"; "connections" => self.hub.places.len());
        let time = deadline.saturating_duration_since(Instant::now());
        self.drain();
        let _ = threads.acceptor.join();
        self.hub.rouse_all();
        let mut empty = self.hub.places.wait_until_empty(deadline - time / 4);
        if !empty {
            self.hub.enter_stage(Stage::Releasing);
            self.hub.rouse_all();
            empty = self.hub.places.wait_until_empty(deadline);
        }
        self.hub.enter_stage(Stage::Ended);
        let _ = self.hub.poller.notify();
        let _ = threads.poller.join();
        for connection in self.hub.places.take_all(false, |_| true) {
            self.hub.close(connection, "shut down");
        }
        empty
    }
}
