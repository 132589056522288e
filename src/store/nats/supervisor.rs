//! Keeps one connection: makes links (on threads that may be lost, after a look at the server with timeouts), changes to
//! another server when the present one is about to stop, expires requests, and leaves a link behind whose server has not
//! moved for a while. It never calls the crate.

use super::NatsError;
use super::link::{Link, Signal, end_safely};
use super::pending::{Lost, Sink};
use super::requester::{Facts, Shared};
use super::servers::{Greeting, ProbeError, Server, probe};
use crate::limits::PEER_LOG_INTERVAL;
use crate::logging::Brake;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use slog::{Logger, debug, info, warn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often the supervisor looks whether the server lives: every look sends one PING.
const TICK: Duration = Duration::from_secs(1);

/// A link that hangs for so many ticks is left behind.
const STALLED_TICKS_MAX: u32 = 5;

/// The crate reconnects a broken link by itself; after so many ticks without success another one is made.
const DOWN_TICKS_MAX: u32 = 3;

/// A server that does not send its INFO within this is passed over.
const PROBE_PATIENCE: Duration = Duration::from_secs(2);

/// An attempt to connect that takes longer than this is left behind.
const ATTEMPT_PATIENCE: Duration = Duration::from_secs(15);

const ATTEMPT_DELAY_MIN: Duration = Duration::from_millis(50);
const ATTEMPT_DELAY_MAX: Duration = Duration::from_secs(1);

/// How long a link to a server that is about to stop stays beside its successor: who took hold of it before the change may still
/// ask, and what was asked is answered.
const RETIRING_MIN: Duration = Duration::from_secs(1);
const RETIRING_MAX: Duration = Duration::from_secs(8);

pub enum Event {
    Attempted {
        number: u64,
        result: Result<(Link, Greeting), Refusal>,
    },
    Signal {
        number: u64,
        signal: Signal,
    },
    Greeted(Greeting),
    Fail(Sink, Lost),
    Later(Instant, Box<dyn FnOnce() + Send>),
    Subscribed(Sender<()>),
    /// A request was made that is due before the supervisor would wake.
    Sooner,
    Stop,
}

/// Why there is no link.
#[derive(Clone, Debug)]
pub enum Refusal {
    TooOld { server: String, version: String },
    Unreachable(String),
}

impl Refusal {
    fn text(&self) -> String {
        match self {
            Refusal::TooOld { server, version } => NatsError::too_old(server, version).to_string(),
            Refusal::Unreachable(why) => why.clone(),
        }
    }
}

/// What the watchdog saw at its last looks.
#[derive(Default)]
struct Watch {
    pulse: u64,
    stalled_ticks: u32,
    down_ticks: u32,
    next_tick: Option<Instant>,
}

pub struct Supervisor {
    shared: Arc<Shared>,
    client_name: String,
    logger: Logger,
    /// The attempt under way, and when it is given up.
    attempt: Option<(u64, Instant)>,
    attempts: u64,
    /// The attempt that made the present link.
    link_number: u64,
    failures: u32,
    attempt_at: Instant,
    later: Vec<(Instant, Box<dyn FnOnce() + Send>)>,
    subscriptions_established: usize,
    watch: Watch,
    last_refusal: String,
    /// The present server is about to stop: another is wanted.
    leaving: bool,
    /// Links whose server is about to stop, and since when they are not used any more.
    retiring: Vec<(Arc<Link>, Instant)>,
    complaints: Brake,
}

impl Supervisor {
    pub fn new(shared: Arc<Shared>, client_name: String, logger: Logger) -> Supervisor {
        Supervisor {
            shared,
            client_name,
            logger,
            attempt: None,
            attempts: 0,
            link_number: 0,
            failures: 0,
            attempt_at: Instant::now(),
            later: Vec::new(),
            subscriptions_established: 0,
            watch: Watch::default(),
            last_refusal: String::new(),
            leaving: false,
            retiring: Vec::new(),
            complaints: Brake::new(PEER_LOG_INTERVAL),
        }
    }

    pub fn run(mut self, inbox: &Receiver<Event>) {
        loop {
            let wake = self.look(Instant::now());
            match inbox.recv_deadline(wake) {
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return self.stop(),
                Ok(event) => self.on(event),
                Err(RecvTimeoutError::Timeout) => {}
            }
            // What failed together is answered together, before the next look.
            while let Ok(event) = inbox.try_recv() {
                match event {
                    Event::Stop => return self.stop(),
                    event => self.on(event),
                }
            }
        }
    }

    fn stop(&mut self) {
        for (link, _) in self.retiring.drain(..) {
            end(&link);
        }
        if let Some(link) = self.shared.link.lock().expect("no holder panics").take() {
            end(&link);
        }
    }

    fn on(&mut self, event: Event) {
        match event {
            Event::Attempted { number, result } => self.attempted(number, result),
            Event::Signal { number, signal } => self.signal(number, signal),
            Event::Greeted(greeting) => self.greeted(&greeting),
            Event::Fail(sink, lost) => end_safely(sink, Err(lost)),
            Event::Later(at, action) => self.later.push((at, action)),
            Event::Subscribed(established) => self.establish(Some(established)),
            Event::Sooner | Event::Stop => {}
        }
    }

    /// Does what is due and tells when to look again.
    fn look(&mut self, now: Instant) -> Instant {
        let mut wake = now + TICK;
        let (due, rest) = std::mem::take(&mut self.later).into_iter().partition(|(at, _)| *at <= now);
        self.later = rest;
        let due: Vec<(Instant, Box<dyn FnOnce() + Send>)> = due;
        for (_, action) in due {
            // The last net: a callback that panics must not end the supervisor.
            let _ = catch_unwind(AssertUnwindSafe(action));
        }
        wake = self.later.iter().map(|(at, _)| *at).fold(wake, Instant::min);
        // Raised before the scan, so that a request made meanwhile lowers it again.
        self.shared.next_look_ms.store(self.shared.ms_of(wake), Ordering::Relaxed);
        if let Some(link) = self.shared.link() {
            let (overdue, next) = link.expire(now);
            fail_all(overdue, Lost::TimedOut);
            wake = next.map_or(wake, |next| wake.min(next));
        }
        wake = self.look_at_retiring(now).map_or(wake, |at| wake.min(at));
        self.shared.next_look_ms.fetch_min(self.shared.ms_of(wake), Ordering::Relaxed);
        if self.watch.next_tick.is_none_or(|at| at <= now) {
            self.watch.next_tick = Some(now + TICK);
            self.tick();
        }
        let connect_at = self.connect_if_needed(now);
        connect_at.map_or(wake, |at| wake.min(at))
    }

    /// Ends the links that are not needed any more, and tells when to look at the others again.
    fn look_at_retiring(&mut self, now: Instant) -> Option<Instant> {
        let mut wake: Option<Instant> = None;
        self.retiring.retain(|(link, since)| {
            let (overdue, next) = link.expire(now);
            fail_all(overdue, Lost::TimedOut);
            let age = now.saturating_duration_since(*since);
            if age >= RETIRING_MAX || (age >= RETIRING_MIN && next.is_none()) {
                end(link);
                return false;
            }
            let at = next.unwrap_or(*since + RETIRING_MAX).min(now + RETIRING_MIN);
            wake = Some(wake.map_or(at, |earlier| earlier.min(at)));
            true
        });
        wake
    }

    /// Sees whether the server lives. Counts looks, not time: a gateway that was itself stopped must not blame the server.
    fn tick(&mut self) {
        let Some(link) = self.shared.link() else { return };
        if !link.is_open() {
            self.watch.down_ticks += 1;
            self.watch.stalled_ticks = 0;
            return;
        }
        link.refresh();
        self.watch.down_ticks = 0;
        let pulse = link.pulse();
        if pulse != self.watch.pulse || !link.is_flushing() {
            self.watch.pulse = pulse;
            self.watch.stalled_ticks = 0;
            link.kick();
            return;
        }
        self.watch.stalled_ticks += 1;
        if self.watch.stalled_ticks >= STALLED_TICKS_MAX {
            warn!(self.logger, "nats-server hangs; leaving the connection behind"; "connection" => self.shared.name);
            self.leave_behind();
        }
    }

    fn leave_behind(&mut self) {
        let left = self.shared.link.lock().expect("no holder panics").take();
        self.watch = Watch { next_tick: self.watch.next_tick, ..Watch::default() };
        if let Some(link) = left {
            self.shared.links_left_behind.fetch_add(1, Ordering::Relaxed);
            fail_all(link.close(), Lost::Disconnected);
        }
    }

    fn connect_if_needed(&mut self, now: Instant) -> Option<Instant> {
        if let Some((_, until)) = self.attempt {
            if now < until {
                return Some(until);
            }
            self.attempt = None;
            self.delay_next_attempt();
        }
        let crate_reconnects = self.shared.link().is_some() && self.watch.down_ticks < DOWN_TICKS_MAX;
        if crate_reconnects && !self.leaving {
            return None;
        }
        if now < self.attempt_at {
            return Some(self.attempt_at);
        }
        self.attempts += 1;
        let number = self.attempts;
        self.attempt = Some((number, now + ATTEMPT_PATIENCE));
        let servers = self.shared.servers.lock().expect("no holder panics").list();
        let (events, name) = (self.shared.events.clone(), self.shared.name);
        let client_name = format!("{} {name}", self.client_name);
        let body = move || {
            let signals = events.clone();
            let signal = move |signal| drop(signals.send(Event::Signal { number, signal }));
            let result = attempt(&servers, name, &client_name, signal);
            // If nobody listens any more, the link is dropped here.
            let _ = events.send(Event::Attempted { number, result });
        };
        let thread = std::thread::Builder::new().name(format!("{name}-conn"));
        if thread.spawn(body).is_err() {
            self.attempt = None;
            self.delay_next_attempt();
        }
        Some(now + ATTEMPT_PATIENCE)
    }

    fn delay_next_attempt(&mut self) {
        let delay = ATTEMPT_DELAY_MIN * 2u32.saturating_pow(self.failures.min(8));
        self.failures = self.failures.saturating_add(1);
        self.attempt_at = Instant::now() + delay.min(ATTEMPT_DELAY_MAX);
    }

    fn attempted(&mut self, number: u64, result: Result<(Link, Greeting), Refusal>) {
        if self.attempt.is_none_or(|(awaited, _)| awaited != number) {
            return;
        }
        self.attempt = None;
        let (link, greeting) = match result {
            Ok(made) => made,
            Err(refusal) => return self.refused(refusal),
        };
        let present = self.shared.link().filter(|link| link.is_open());
        match present {
            Some(link) if self.leaving => {
                link.retire();
                self.retiring.push((link, Instant::now()));
            }
            // The crate was faster.
            Some(_) => return,
            None => self.leave_behind_if_any(),
        }
        self.leaving = false;
        self.watch = Watch { next_tick: self.watch.next_tick, ..Watch::default() };
        self.failures = 0;
        self.last_refusal.clear();
        info!(self.logger, "connected to nats-server";
            "connection" => self.shared.name, "version" => &greeting.version, "max_payload" => link.max_payload());
        if !greeting.jetstream {
            warn!(self.logger, "this nats-server has JetStream switched off"; "connection" => self.shared.name);
        }
        self.greeted(&greeting);
        *self.shared.link.lock().expect("no holder panics") = Some(Arc::new(link));
        self.link_number = number;
        self.shared.connections.fetch_add(1, Ordering::Relaxed);
        self.subscriptions_established = 0;
        self.establish(None);
    }

    fn leave_behind_if_any(&mut self) {
        if self.shared.link().is_some() {
            self.leave_behind();
        }
    }

    fn refused(&mut self, refusal: Refusal) {
        let text = refusal.text();
        if text == self.last_refusal {
            debug!(self.logger, "still no nats-server"; "connection" => self.shared.name, "why" => &text);
        } else {
            warn!(self.logger, "no nats-server"; "connection" => self.shared.name, "why" => &text);
        }
        self.last_refusal = text;
        self.shared.facts.lock().expect("no holder panics").refusal = Some(refusal);
        self.delay_next_attempt();
    }

    fn greeted(&mut self, greeting: &Greeting) {
        self.shared.servers.lock().expect("no holder panics").learn(&greeting.cluster_addresses);
        *self.shared.facts.lock().expect("no holder panics") = Facts {
            version: greeting.version.clone(),
            max_payload: greeting.max_payload,
            clustered: greeting.clustered,
            refusal: None,
        };
    }

    fn signal(&mut self, number: u64, signal: Signal) {
        let current = self.link_number == number;
        match signal {
            Signal::Lost(sinks) => {
                if current && self.shared.link().is_some() {
                    self.leaving = false;
                    warn!(self.logger, "lost the connection to nats-server";
                        "connection" => self.shared.name, "waiting" => sinks.len());
                }
                fail_all(sinks, Lost::Disconnected);
            }
            Signal::Back if current => {
                info!(self.logger, "connected to nats-server again"; "connection" => self.shared.name);
                self.watch.down_ticks = 0;
                self.shared.connections.fetch_add(1, Ordering::Relaxed);
                self.look_at_server();
            }
            Signal::Dead if current => self.leave_behind(),
            Signal::LameDuck if current && !self.leaving => {
                info!(self.logger, "this nats-server is about to stop; changing to another"; "connection" => self.shared.name);
                self.leaving = true;
                self.attempt_at = Instant::now();
            }
            Signal::Complaint(text) => {
                if self.complaints.pass(Instant::now()).is_some() {
                    warn!(self.logger, "nats-server complains"; "connection" => self.shared.name, "error" => text);
                }
            }
            Signal::Back | Signal::Dead | Signal::LameDuck => {}
        }
    }

    /// The crate does not say which version it reconnected to.
    fn look_at_server(&self) {
        let servers = self.shared.servers.lock().expect("no holder panics").list();
        let events = self.shared.events.clone();
        let thread = std::thread::Builder::new().name(format!("{}-probe", self.shared.name));
        let _ = thread.spawn(move || {
            if let Some(greeting) = servers.iter().find_map(|server| probe(server, PROBE_PATIENCE).ok()) {
                let _ = events.send(Event::Greeted(greeting));
            }
        });
    }

    /// Hands the link what it has not subscribed yet.
    fn establish(&mut self, established: Option<Sender<()>>) {
        let Some(link) = self.shared.link() else { return };
        let subscriptions = self.shared.subscriptions.lock().expect("no holder panics");
        let last = subscriptions.len();
        while let Some((subject, handler)) = subscriptions.get(self.subscriptions_established) {
            let is_last = self.subscriptions_established + 1 == last;
            let established = established.clone().filter(|_| is_last);
            if !link.subscribe(subject.clone(), handler.clone(), established) {
                return;
            }
            self.subscriptions_established += 1;
        }
    }
}

/// Closes a link for good; what still waited is undecided.
fn end(link: &Link) {
    let was_open = link.is_open();
    fail_all(link.close(), Lost::Disconnected);
    if was_open {
        link.hang_up();
    }
}

fn fail_all(sinks: Vec<Sink>, lost: Lost) {
    for sink in sinks {
        end_safely(sink, Err(lost));
    }
}

/// Finds the first server that answers and connects to it.
fn attempt<F>(servers: &[Server], name: &str, client_name: &str, signal: F) -> Result<(Link, Greeting), Refusal>
where
    F: Fn(Signal) + Clone + Send + Sync + 'static,
{
    let mut refusal = Refusal::Unreachable("no server is named".to_owned());
    for server in servers {
        let greeting = match probe(server, PROBE_PATIENCE) {
            Ok(greeting) => greeting,
            Err(ProbeError::TooOld { server, version }) => {
                refusal = Refusal::TooOld { server, version };
                continue;
            }
            Err(error) => {
                if !matches!(refusal, Refusal::TooOld { .. }) {
                    refusal = Refusal::Unreachable(error.to_string());
                }
                continue;
            }
        };
        match Link::connect(server, name, client_name, signal.clone()) {
            Ok(link) => return Ok((link, greeting)),
            Err(error) => refusal = Refusal::Unreachable(error.to_string()),
        }
    }
    Err(refusal)
}
