//! One connection of the crate and the threads that may block in it: a writer, flushers, a reply reader.
//!
//! Whoever asks something only puts a job on a channel. A link whose server hangs is left behind with its threads; they
//! end when the server resumes or its socket breaks.

use super::NatsError;
use super::pending::{Lost, Outcome, Pending, Reply, Sink};
use super::servers::Server;
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded, select};
use nats::{Connection, HeaderMap, Subscription};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Jobs queued for the writer; their bytes are bounded by whoever asks.
const JOBS_MAX: usize = 64 * 1024;

/// Threads that make the crate write what it has buffered. Each waits for a PONG, so a second one keeps a distant server
/// from holding back what was published meanwhile.
const FLUSHERS: usize = 2;

/// The crate's buffer holds 32 KiB; a message up to this finds room in it more often than not.
const AT_ONCE_BYTES_MAX: usize = 16 * 1024;

/// A flush's socket write gives up after this; the watchdog is faster.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(30);

/// A message to the server, checked.
pub struct Request {
    pub subject: String,
    pub headers: Vec<(String, String)>,
    pub payload: bytes::Bytes,
}

pub type Handler = Arc<dyn Fn(&str, bytes::Bytes) + Send + Sync>;

enum Job {
    Publish { request: Arc<Request>, token: Option<u64>, epoch: u64, deadline: Instant },
    Subscribe { subject: String, handler: Handler, established: Option<Sender<()>> },
}

/// What the crate's callbacks tell the supervisor.
pub enum Signal {
    Lost(Vec<Sink>),
    Back,
    Dead,
    /// The server is about to stop.
    LameDuck,
    /// What the server sent as an error: a permission that is missing, a login that has expired.
    Complaint(String),
}

/// What a link's threads share.
struct Shared {
    pending: Pending,
    /// Flushes begun and ended, and messages received: they stand still when the server hangs.
    flushes_begun: AtomicU64,
    flushes_ended: AtomicU64,
    heard: AtomicU64,
    max_payload: AtomicUsize,
    /// Jobs that the writer has not finished: while there are any, nothing may overtake them.
    queued: AtomicUsize,
    /// Another link has taken over: what subscriptions still deliver here is delivered there too.
    retired: AtomicBool,
}

/// Dropping it leaves the connection behind: the threads end by themselves.
pub struct Link {
    shared: Arc<Shared>,
    jobs: Sender<Job>,
    kicks: Sender<()>,
    inbox: String,
    connection: Connection,
    /// Dropped with the link; the readers listen for that.
    _stop: Sender<()>,
}

impl Link {
    /// Connects and subscribes the inbox. Blocks as long as the crate likes: call it on a thread that may be lost.
    /// `signal` runs on the crate's thread.
    pub fn connect<F>(server: &Server, name: &str, client_name: &str, signal: F) -> Result<Link, NatsError>
    where
        F: Fn(Signal) + Clone + Send + Sync + 'static,
    {
        let failed = |e: std::io::Error| NatsError::Unreachable(format!("{server}: {e}"));
        let shared = Arc::new(Shared {
            pending: Pending::new(),
            flushes_begun: AtomicU64::new(0),
            flushes_ended: AtomicU64::new(0),
            heard: AtomicU64::new(0),
            max_payload: AtomicUsize::new(0),
            queued: AtomicUsize::new(0),
            retired: AtomicBool::new(false),
        });
        let (lost, back, dead) = (shared.clone(), shared.clone(), shared.clone());
        let (tell_lost, tell_back, tell_dead) = (signal.clone(), signal.clone(), signal.clone());
        let (tell_lame, tell_error) = (signal.clone(), signal);
        let (options, url) = server.options()?;
        let connection = options
            .with_name(client_name)
            .max_reconnects(None)
            .reconnect_buffer_size(0)
            .reconnect_delay_callback(reconnect_delay)
            .disconnect_callback(move || tell_lost(Signal::Lost(lost.pending.disconnected())))
            .reconnect_callback(move || {
                back.pending.reconnected();
                tell_back(Signal::Back);
            })
            .close_callback(move || {
                tell_dead(Signal::Lost(dead.pending.disconnected()));
                tell_dead(Signal::Dead);
            })
            .error_callback(move |error| tell_error(Signal::Complaint(error.to_string())))
            .lame_duck_callback(move || tell_lame(Signal::LameDuck))
            .connect(url.as_str())
            .map_err(|error| refused(server, &error))?;
        let inbox = format!("_INBOX.{}", super::random_token());
        let replies = connection.subscribe(&format!("{inbox}.*")).map_err(failed)?;
        connection.flush_timeout(FLUSH_TIMEOUT).map_err(failed)?;
        shared.max_payload.store(connection.max_payload(), Ordering::Relaxed);
        let link = Link::start(shared, connection, inbox, replies, name).map_err(failed)?;
        link.shared.pending.set_ready();
        Ok(link)
    }

    fn start(
        shared: Arc<Shared>,
        connection: Connection,
        inbox: String,
        replies: Subscription,
        name: &str,
    ) -> std::io::Result<Link> {
        let (jobs, jobs_receiver) = bounded(JOBS_MAX);
        let (kicks, kicks_receiver) = bounded(1);
        let (stop, stopped) = bounded(0);
        let spawn = |role: &str, body: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(format!("{name}-{role}")).spawn(body).map(drop)
        };
        let prefix_bytes = inbox.len() + 1;
        let writer = Writer {
            shared: shared.clone(),
            connection: connection.clone(),
            kicks: kicks.clone(),
            inbox: inbox.clone(),
            stopped: stopped.clone(),
        };
        spawn("write", Box::new(move || writer.run(&jobs_receiver)))?;
        for _ in 0..FLUSHERS {
            let (shared, connection, kicks) = (shared.clone(), connection.clone(), kicks_receiver.clone());
            spawn("flush", Box::new(move || flush(&shared, &connection, &kicks)))?;
        }
        let reader = shared.clone();
        spawn(
            "read",
            Box::new(move || {
                receive(&replies, &stopped, |message| {
                    reader.heard.fetch_add(1, Ordering::Relaxed);
                    let token = message.subject.get(prefix_bytes..).and_then(|t| u64::from_str_radix(t, 16).ok());
                    if let Some(token) = token {
                        let reply = Reply { headers: message.headers, payload: message.data };
                        reader.pending.deliver(token, reply);
                    }
                });
            }),
        )?;
        Ok(Link { shared, jobs, kicks, inbox, connection, _stop: stop })
    }

    /// Sends a request whose replies go to `sink`; on failure gives the sink back, unused.
    pub fn ask(&self, token: u64, request: Arc<Request>, deadline: Instant, sink: Sink) -> Result<(), (Sink, Lost)> {
        let max = self.max_payload();
        if request.payload.len() + super::header::bytes_of(&request.headers) > max {
            return Err((sink, Lost::TooLarge { max }));
        }
        let epoch = self.shared.pending.insert(token, deadline, sink).map_err(|sink| (sink, Lost::NotConnected))?;
        if self.write_at_once(Some(token), &request) {
            return Ok(());
        }
        let job = Job::Publish { request, token: Some(token), epoch, deadline };
        match self.queue(job) {
            Ok(()) => Ok(()),
            // If the entry is gone already, it was answered by whoever took it.
            Err(error) => match self.shared.pending.remove(token) {
                Some(sink) => Err((sink, if error.is_full() { Lost::Full } else { Lost::NotConnected })),
                None => Ok(()),
            },
        }
    }

    fn queue(&self, job: Job) -> Result<(), TrySendError<Job>> {
        self.shared.queued.fetch_add(1, Ordering::SeqCst);
        self.jobs.try_send(job).inspect_err(|_| {
            self.shared.queued.fetch_sub(1, Ordering::SeqCst);
        })
    }

    /// Puts a small message into the crate's buffer, if that has room and nobody holds it: the one call of the crate that
    /// cannot block. It spares a thread's turn: with one in flight a fifth more publishes a second.
    fn write_at_once(&self, token: Option<u64>, request: &Request) -> bool {
        if request.payload.len() > AT_ONCE_BYTES_MAX || self.shared.queued.load(Ordering::SeqCst) > 0 {
            return false;
        }
        let reply = token.map(|token| reply_subject(&self.inbox, token));
        let headers = header_map(request);
        let (reply, headers, payload) = (reply.as_deref(), headers.as_ref(), &request.payload);
        let done = self.connection.try_publish_with_reply_or_headers(&request.subject, reply, headers, payload);
        match done {
            None => false,
            Some(Ok(())) => {
                self.kick();
                true
            }
            // The writer learns why, and fails the request.
            Some(Err(_)) => false,
        }
    }

    /// Sends a message that nobody answers; dropped where there is no connection.
    pub fn tell(&self, request: Request, deadline: Instant) {
        let fits = request.payload.len() + super::header::bytes_of(&request.headers) <= self.max_payload();
        if fits && self.is_open() && !self.write_at_once(None, &request) {
            let epoch = self.shared.pending.epoch();
            let _ = self.queue(Job::Publish { request: Arc::new(request), token: None, epoch, deadline });
        }
    }

    /// Subscribes a subject for as long as the link lasts, and tells when the server knows.
    pub fn subscribe(&self, subject: String, handler: Handler, established: Option<Sender<()>>) -> bool {
        let job = Job::Subscribe { subject, handler, established };
        !matches!(self.queue(job), Err(TrySendError::Full(_) | TrySendError::Disconnected(_)))
    }

    pub fn forget(&self, token: u64) {
        self.shared.pending.remove(token);
    }

    pub fn expire(&self, now: Instant) -> (Vec<Sink>, Option<Instant>) {
        self.shared.pending.expire(now)
    }

    /// Closes the link for good and takes all that waited.
    pub fn close(&self) -> Vec<Sink> {
        self.shared.pending.close()
    }

    /// Says good-bye to a server that lives, on a thread that may be lost.
    pub fn hang_up(&self) {
        let connection = self.connection.clone();
        let _ = std::thread::Builder::new().name("nats-close".to_owned()).spawn(move || connection.close());
    }

    pub fn is_open(&self) -> bool {
        self.shared.pending.is_open()
    }

    /// Stops delivering subscriptions; what was asked is still answered.
    pub fn retire(&self) {
        self.shared.retired.store(true, Ordering::Relaxed);
    }

    pub fn max_payload(&self) -> usize {
        self.shared.max_payload.load(Ordering::Relaxed)
    }

    /// Takes over what the server's last INFO said.
    pub fn refresh(&self) {
        self.shared.max_payload.store(self.connection.max_payload(), Ordering::Relaxed);
    }

    /// Starts a flush if none is under way, so that `pulse` moves while the server lives.
    pub fn kick(&self) {
        let _ = self.kicks.try_send(());
    }

    /// A number that moves whenever something came back from the server.
    pub fn pulse(&self) -> u64 {
        let ended = self.shared.flushes_ended.load(Ordering::Relaxed);
        ended.wrapping_add(self.shared.heard.load(Ordering::Relaxed))
    }

    pub fn is_flushing(&self) -> bool {
        self.shared.flushes_begun.load(Ordering::Relaxed) != self.shared.flushes_ended.load(Ordering::Relaxed)
    }
}

/// Why a server did not take us, in words for the operator. The crate wraps what the server said into its own.
fn refused(server: &Server, error: &std::io::Error) -> NatsError {
    let text = error.to_string();
    let said =
        ["Authorization Violation", "Authentication Timeout", "Authentication Expired", "Authentication Revoked"];
    match said.into_iter().find(|said| text.contains(said)) {
        Some(said) => NatsError::Unreachable(format!(
            "{server} refuses the login ({said}): look at --nats-creds, \
             --nats-nkey, --nats-user, the token, or the login in --pubsub-url"
        )),
        None => NatsError::Unreachable(format!("{server}: {text}")),
    }
}

/// 0, 10, 20, 40 … 500 ms: a server that restarts is found soon, one that is gone costs little.
fn reconnect_delay(attempts: usize) -> Duration {
    match attempts {
        0 => Duration::ZERO,
        n => Duration::from_millis(10 << (n - 1).min(6)).min(Duration::from_millis(500)),
    }
}

struct Writer {
    shared: Arc<Shared>,
    connection: Connection,
    kicks: Sender<()>,
    inbox: String,
    stopped: Receiver<()>,
}

impl Writer {
    /// Ends when the link is dropped.
    fn run(&self, jobs: &Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            self.execute(job);
            self.shared.queued.fetch_sub(1, Ordering::SeqCst);
            while let Ok(job) = jobs.try_recv() {
                self.execute(job);
                self.shared.queued.fetch_sub(1, Ordering::SeqCst);
            }
            let _ = self.kicks.try_send(());
        }
    }

    fn execute(&self, job: Job) {
        match job {
            Job::Publish { request, token, epoch, deadline } => {
                // What was asked before a disconnect has been failed, what is late soon will be.
                if epoch != self.shared.pending.epoch() || Instant::now() > deadline {
                    return;
                }
                if self.publish(&request, token).is_err()
                    && let Some(sink) = token.and_then(|token| self.shared.pending.remove(token))
                {
                    end_safely(sink, Err(Lost::Disconnected));
                }
            }
            Job::Subscribe { subject, handler, established } => {
                if let Ok(subscription) = self.connection.subscribe(&subject) {
                    let (stopped, shared) = (self.stopped.clone(), self.shared.clone());
                    let deliver = move || {
                        receive(&subscription, &stopped, |message| {
                            if !shared.retired.load(Ordering::Relaxed) {
                                handler(&message.subject, message.data.into());
                            }
                        });
                    };
                    let spawned = std::thread::Builder::new().name("nats-subject".to_owned()).spawn(deliver);
                    spawned.expect("a thread can be had");
                    let _ = self.connection.flush_timeout(FLUSH_TIMEOUT);
                }
                drop(established);
            }
        }
    }

    fn publish(&self, request: &Request, token: Option<u64>) -> std::io::Result<()> {
        let reply = token.map(|token| reply_subject(&self.inbox, token));
        let headers = header_map(request);
        let (reply, headers) = (reply.as_deref(), headers.as_ref());
        self.connection.publish_with_reply_or_headers(&request.subject, reply, headers, &request.payload)
    }
}

fn reply_subject(inbox: &str, token: u64) -> String {
    format!("{inbox}.{token:x}")
}

fn header_map(request: &Request) -> Option<HeaderMap> {
    let headers = request.headers.iter().map(|(name, value)| (name, value));
    if request.headers.is_empty() { None } else { Some(headers.collect()) }
}

fn flush(shared: &Shared, connection: &Connection, kicks: &Receiver<()>) {
    while kicks.recv().is_ok() {
        shared.flushes_begun.fetch_add(1, Ordering::Relaxed);
        // A failed flush shows as a lost connection, which the crate reports by its callback.
        let _ = connection.flush_timeout(FLUSH_TIMEOUT);
        shared.flushes_ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// Passes messages on until the link is dropped. The last net for a handler that panics: the message is lost, not the reader.
fn receive(subscription: &Subscription, stopped: &Receiver<()>, mut handle: impl FnMut(nats::Message)) {
    let messages = subscription.receiver();
    loop {
        let message = match messages.try_recv() {
            Ok(message) => message,
            Err(_) => select! {
                recv(messages) -> message => match message {
                    Ok(message) => message,
                    Err(_) => return,
                },
                recv(stopped) -> _ => return,
            },
        };
        let _ = catch_unwind(AssertUnwindSafe(|| handle(message)));
    }
}

/// Ends a request; a panic of its callback goes no further.
pub fn end_safely(sink: Sink, outcome: Outcome) {
    let _ = catch_unwind(AssertUnwindSafe(|| sink.end(outcome)));
}
