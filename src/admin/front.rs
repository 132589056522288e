//! The admin port's sockets: one thread reads requests and writes answers, a few others make the answers that need the store.
//!
//! rouille gives each connection a thread for as long as its peer likes, and reads heads of any size. So the sockets are
//! ours (ADR 28): none blocks, each has a deadline, and when there are too many the slowest makes room. A request that is
//! complete is handed to rouille's router as a `rouille::Request`, and its `Response` is written. One request a
//! connection, so what follows a head is never taken for another.

use super::head::{self, Asked, Head};
use crate::limits::{
    ACCEPT_PAUSE, ADMIN_ANSWERS_MAX, ADMIN_CONNECTIONS_MAX, ADMIN_HEAD_BYTES_MAX, ADMIN_HEAD_MAX, ADMIN_STORE_MAX,
    ADMIN_WRITE_MAX, ADMIN_WRITE_PATIENCE, LINGER_MAX,
};
use crossbeam_channel::{Receiver, Sender, unbounded};
use polling::{Event, Events, Poller};
use rouille::{Request, Response};
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What is served.
pub trait Site: Send + Sync + 'static {
    /// Whether the answer comes from memory: then the socket thread makes it, whatever the store does.
    fn is_quick(&self, request: &Request) -> bool;

    fn answer(&self, request: &Request) -> Response;

    /// An answer panicked: it is told as an internal error.
    fn panicked(&self);
}

/// Threads that make answers with the store.
const ANSWERERS: usize = 3;

/// How late a deadline may be noticed.
const DEADLINE_LOOK_EVERY: Duration = Duration::from_millis(100);

/// The running front; it ends soon after this is dropped.
pub struct Front {
    pub address: SocketAddr,
    poller: Arc<Poller>,
    stopped: Arc<AtomicBool>,
}

impl Front {
    /// Serves who connects to the listeners, of which there is one at least.
    pub fn start(listeners: Vec<TcpListener>, site: Arc<dyn Site>) -> io::Result<Front> {
        let address = listeners[0].local_addr()?;
        let poller = Arc::new(Poller::new()?);
        let stopped = Arc::new(AtomicBool::new(false));
        // Both hold at most what `begin` lets in, `ADMIN_ANSWERS_MAX`, and what a vanished peer left in the queue.
        let (ask, asked) = unbounded();
        let (answer, answered) = unbounded();
        for index in 0..ANSWERERS {
            let (asked, answer) = (asked.clone(), answer.clone());
            let (site, poller) = (site.clone(), poller.clone());
            let life = move || answer_all(&*site, &asked, &answer, &poller);
            thread::Builder::new().name(format!("admin-{index}")).spawn(life)?;
        }
        let sockets = Sockets {
            first_key: listeners.len(),
            next_key: listeners.len(),
            listeners,
            poller: poller.clone(),
            stopped: stopped.clone(),
            site,
            ask,
            answered,
            connections: HashMap::new(),
        };
        thread::Builder::new().name("admin-sockets".to_owned()).spawn(move || sockets.run())?;
        Ok(Front { address, poller, stopped })
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        let _ = self.poller.notify();
    }
}

/// An answerer's life: until the socket thread is gone.
fn answer_all(site: &dyn Site, asked: &Receiver<(usize, Request)>, answer: &Sender<(usize, Vec<u8>)>, poller: &Poller) {
    for (key, request) in asked {
        if answer.send((key, answer_one(site, &request))).is_err() {
            return;
        }
        let _ = poller.notify();
    }
}

fn answer_one(site: &dyn Site, request: &Request) -> Vec<u8> {
    let response = catch_unwind(AssertUnwindSafe(|| site.answer(request))).unwrap_or_else(|_| {
        site.panicked();
        Response::text("internal error\n").with_status_code(500)
    });
    encode(response, request.method() == "HEAD")
}

struct Sockets {
    listeners: Vec<TcpListener>,
    poller: Arc<Poller>,
    stopped: Arc<AtomicBool>,
    site: Arc<dyn Site>,
    ask: Sender<(usize, Request)>,
    answered: Receiver<(usize, Vec<u8>)>,
    connections: HashMap<usize, Connection>,
    first_key: usize,
    next_key: usize,
}

struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    state: State,
    /// When it came into this state.
    since: Instant,
}

enum State {
    Reading(Vec<u8>),
    /// An answerer has its request.
    Answering,
    Writing {
        answer: Vec<u8>,
        sent: usize,
        stored: bool,
    },
    /// All is sent; what still comes is thrown away, for a reset could overtake the answer.
    Lingering,
}

impl State {
    fn time_max(&self) -> Duration {
        match self {
            State::Reading(_) => ADMIN_HEAD_MAX,
            // The answerer has a deadline; this is for the time in its queue too.
            State::Answering => ADMIN_STORE_MAX * 6,
            State::Writing { .. } => ADMIN_WRITE_MAX,
            State::Lingering => LINGER_MAX,
        }
    }

    fn holds_answer(&self) -> bool {
        matches!(self, State::Answering | State::Writing { stored: true, .. })
    }
}

/// What a socket waits for.
enum Wait {
    Readable,
    Writable,
    Answer,
    Nothing,
}

impl Sockets {
    fn run(mut self) {
        for (key, listener) in self.listeners.iter().enumerate() {
            // SAFETY: the listeners are deleted from the poller below, before they are dropped.
            if unsafe { self.poller.add(listener, Event::readable(key)) }.is_err() {
                return;
            }
        }
        let mut events = Events::new();
        while !self.stopped.load(Ordering::Acquire) {
            events.clear();
            let timeout = (!self.connections.is_empty()).then_some(DEADLINE_LOOK_EVERY);
            if self.poller.wait(&mut events, timeout).is_err() {
                thread::sleep(ACCEPT_PAUSE);
            }
            let ready: Vec<usize> = events.iter().map(|event| event.key).collect();
            for key in ready {
                if key < self.first_key { self.accept_all(key) } else { self.go_on(key) }
            }
            while let Ok((key, answer)) = self.answered.try_recv() {
                if let Some(connection) = self.connections.get_mut(&key) {
                    connection.enter(State::Writing { answer, sent: 0, stored: true });
                    self.go_on(key);
                }
            }
            self.close_overdue(Instant::now());
        }
        let open: Vec<usize> = self.connections.keys().copied().collect();
        open.into_iter().for_each(|key| self.close(key));
        for listener in &self.listeners {
            let _ = self.poller.delete(listener);
        }
    }

    fn accept_all(&mut self, listener: usize) {
        loop {
            match self.listeners[listener].accept() {
                Ok((stream, peer)) => self.admit(stream, peer),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(_) => {
                    // No file descriptor left: the listener stays readable, so without a rest this would spin.
                    thread::sleep(ACCEPT_PAUSE);
                    break;
                }
            }
        }
        let _ = self.poller.modify(&self.listeners[listener], Event::readable(listener));
    }

    fn admit(&mut self, stream: TcpStream, peer: SocketAddr) {
        if self.connections.len() >= ADMIN_CONNECTIONS_MAX {
            // Whoever waits for an answerer does so because of us.
            let slow = self.connections.iter().filter(|(_, one)| !matches!(one.state, State::Answering));
            let Some(slowest) = slow.min_by_key(|(_, one)| one.since).map(|(key, _)| *key) else { return };
            self.close(slowest);
        }
        if stream.set_nonblocking(true).is_err() || stream.set_nodelay(true).is_err() {
            return;
        }
        let key = self.next_key;
        self.next_key += 1;
        // SAFETY: `close`, the one way a connection ends, deletes it from the poller before it is dropped.
        if unsafe { self.poller.add(&stream, Event::none(key)) }.is_ok() {
            let state = State::Reading(Vec::new());
            self.connections.insert(key, Connection { stream, peer, state, since: Instant::now() });
            self.go_on(key);
        }
    }

    /// Does for a connection what can be done without waiting.
    fn go_on(&mut self, key: usize) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        let waits = match &mut connection.state {
            State::Reading(_) => self.read(key),
            State::Answering => Ok(Wait::Answer),
            State::Writing { answer, sent, .. } => match write(&connection.stream, answer, sent) {
                Ok(true) => {
                    connection.enter(State::Lingering);
                    connection.stream.shutdown(Shutdown::Write).and_then(|()| linger(&connection.stream))
                }
                Ok(false) => Ok(Wait::Writable),
                Err(error) => Err(error),
            },
            State::Lingering => linger(&connection.stream),
        };
        let Some(connection) = self.connections.get(&key) else { return };
        let event = match waits {
            Ok(Wait::Readable) => Event::readable(key),
            Ok(Wait::Writable) => Event::writable(key),
            Ok(Wait::Answer) => return,
            Ok(Wait::Nothing) | Err(_) => return self.close(key),
        };
        if self.poller.modify(&connection.stream, event).is_err() {
            self.close(key);
        }
    }

    fn read(&mut self, key: usize) -> io::Result<Wait> {
        let Some(Connection { stream, peer, state: State::Reading(bytes), .. }) = self.connections.get_mut(&key) else {
            return Ok(Wait::Nothing);
        };
        let mut piece = [0; 2048];
        let found = loop {
            match (&*stream).read(&mut piece) {
                Ok(0) => return Ok(Wait::Nothing),
                Ok(count) => bytes.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Wait::Readable),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            match head::read(bytes) {
                Head::Partial => debug_assert!(bytes.len() < ADMIN_HEAD_BYTES_MAX),
                found => break found,
            }
        };
        let peer = *peer;
        match found {
            Head::Whole(asked) => self.begin(key, request(peer, asked)),
            Head::Bad(status, why) => self.tell(key, Response::text(format!("{why}\n")).with_status_code(status)),
            Head::Partial => Ok(Wait::Readable),
        }
    }

    fn begin(&mut self, key: usize, request: Request) -> io::Result<Wait> {
        if self.site.is_quick(&request) {
            let answer = answer_one(&*self.site, &request);
            return self.give(key, answer);
        }
        if self.connections.values().filter(|one| one.state.holds_answer()).count() >= ADMIN_ANSWERS_MAX {
            let now = Instant::now();
            let slow = self.connections.iter().filter(|(_, one)| {
                matches!(one.state, State::Writing { stored: true, .. })
                    && now.saturating_duration_since(one.since) >= ADMIN_WRITE_PATIENCE
            });
            let Some(slowest) = slow.min_by_key(|(_, one)| one.since).map(|(key, _)| *key) else {
                let busy = Response::json(&serde_json::json!({ "error": "too many answers are being made" }));
                return self.tell(key, busy.with_status_code(503).with_additional_header("Retry-After", "1"));
            };
            self.close(slowest);
        }
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.enter(State::Answering);
        }
        let _ = self.ask.send((key, request));
        Ok(Wait::Answer)
    }

    fn tell(&mut self, key: usize, response: Response) -> io::Result<Wait> {
        self.give(key, encode(response, false))
    }

    fn give(&mut self, key: usize, answer: Vec<u8>) -> io::Result<Wait> {
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.enter(State::Writing { answer, sent: 0, stored: false });
        }
        Ok(Wait::Writable)
    }

    fn close_overdue(&mut self, now: Instant) {
        let overdue = |one: &Connection| now.saturating_duration_since(one.since) >= one.state.time_max();
        let overdue: Vec<usize> =
            self.connections.iter().filter(|(_, one)| overdue(one)).map(|(key, _)| *key).collect();
        overdue.into_iter().for_each(|key| self.close(key));
    }

    fn close(&mut self, key: usize) {
        if let Some(connection) = self.connections.remove(&key) {
            let _ = self.poller.delete(&connection.stream);
        }
    }
}

impl Connection {
    fn enter(&mut self, state: State) {
        self.state = state;
        self.since = Instant::now();
    }
}

fn request(peer: SocketAddr, asked: Asked) -> Request {
    Request::fake_http_from(peer, asked.method, asked.target, asked.headers, Vec::new())
}

/// Whether all is sent now.
fn write(mut stream: &TcpStream, answer: &[u8], sent: &mut usize) -> io::Result<bool> {
    while *sent < answer.len() {
        match stream.write(&answer[*sent..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => *sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Throws away what comes, in portions, until the peer ends.
fn linger(mut stream: &TcpStream) -> io::Result<Wait> {
    let mut thrown_away = [0; 4096];
    for _ in 0..16 {
        match stream.read(&mut thrown_away) {
            Ok(0) => return Ok(Wait::Nothing),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(Wait::Readable)
}

/// The whole answer as bytes; for HEAD its head alone.
fn encode(response: Response, head_only: bool) -> Vec<u8> {
    let (mut reader, _) = response.data.into_reader_and_size();
    let mut body = Vec::new();
    let status = match reader.read_to_end(&mut body) {
        Ok(_) => response.status_code,
        Err(_) => 500,
    };
    let mut answer = format!("HTTP/1.1 {status} {}\r\n", reason(status)).into_bytes();
    for (name, value) in &response.headers {
        answer.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    answer.extend_from_slice(format!("Content-Length: {}\r\nConnection: close\r\n\r\n", body.len()).as_bytes());
    if !head_only {
        answer.append(&mut body);
    }
    answer
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        302 => "Found",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Other",
    }
}
