//! A server with a toy protocol behind it, and a client for that.
//!
//! A request is one operation byte, an id of four bytes, a number of four bytes, and any payload; a reply is the id and a
//! payload.

use bytes::Bytes;
use hanzo_kafka::activity::Label;
use hanzo_kafka::clock::{Now, SystemClock};
use hanzo_kafka::handlers::{Dispatch, Kind, Outcome, Parked};
use hanzo_kafka::logging;
use hanzo_kafka::metrics::Metrics;
use hanzo_kafka::promise::{Pending, Promise, promise};
use hanzo_kafka::server::{Parts, Pool, Server, Settings};
use hanzo_kafka::tasks::Tasks;
use hanzo_kafka::wake::{Wakeups, WatchKey};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

/// How long any condition may take to come true.
pub const PATIENCE: Duration = Duration::from_secs(20);

#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Light: gives the payload back.
    Echo,
    /// Heavy: gives the payload back.
    HeavyEcho,
    /// Produce, answered when the test keeps its promise.
    Produce,
    /// Produce, answered by a task after so many milliseconds.
    ProduceIn,
    /// Heavy, parked until the test keeps its promise, for so many milliseconds at most.
    Await,
    /// Heavy, parked, its promise kept at once by another thread.
    AwaitNow,
    /// Produce without a reply.
    Silent,
    Close,
    Panic,
    /// Heavy, parked; panics when it is woken.
    PanicParked,
    /// Heavy: holds its worker until the test opens the gate.
    Block,
    /// Fetch: a reply of so many bytes.
    Large,
    /// Fetch, parked until the test keeps its promise, for so many milliseconds at most.
    AwaitFetch,
}

const OPS: [Op; 13] = [
    Op::Echo,
    Op::HeavyEcho,
    Op::Produce,
    Op::ProduceIn,
    Op::Await,
    Op::AwaitNow,
    Op::Silent,
    Op::Close,
    Op::Panic,
    Op::PanicParked,
    Op::Block,
    Op::Large,
    Op::AwaitFetch,
];

pub struct Toy {
    pool: Arc<Pool>,
    wakeups: Arc<Wakeups>,
    /// What is parked, by request id, and how it is answered.
    promises: Mutex<HashMap<u32, Promise<Vec<u8>>>>,
    gate_open: Mutex<bool>,
    gate: Condvar,
    pub blocked: AtomicUsize,
    pub silent: AtomicUsize,
    pub abandoned: Arc<AtomicUsize>,
    /// Whether any request ran on a light worker that it must not run on.
    pub heavy_on_light: AtomicBool,
}

impl Toy {
    /// Keeps the promise of request `id`, once it is parked.
    pub fn keep(&self, id: u32, payload: &[u8]) {
        wait_until("the request is parked", || self.promises.lock().unwrap().contains_key(&id));
        let promise = self.promises.lock().unwrap().remove(&id).unwrap();
        promise.keep(payload.to_vec());
    }

    pub fn promised(&self) -> usize {
        self.promises.lock().unwrap().len()
    }

    pub fn open_gate(&self) {
        *self.gate_open.lock().unwrap() = true;
        self.gate.notify_all();
    }

    fn park(&self, op: Op, id: u32, for_ms: u32) -> (Promise<Vec<u8>>, Outcome) {
        let (promise, pending) = promise(&self.wakeups);
        let parked = ToyParked {
            id,
            pending,
            deadline: Instant::now() + Duration::from_millis(for_ms.into()),
            panics: op == Op::PanicParked,
            is_produce: matches!(op, Op::Produce | Op::ProduceIn),
            abandoned: self.abandoned.clone(),
        };
        (promise, Outcome::Park(Box::new(parked)))
    }
}

struct ToyParked {
    id: u32,
    pending: Pending<Vec<u8>>,
    deadline: Instant,
    panics: bool,
    is_produce: bool,
    abandoned: Arc<AtomicUsize>,
}

impl Parked for ToyParked {
    fn poll(&mut self, now: Now) -> Option<Outcome> {
        if let Some(kept) = self.pending.take_one() {
            assert!(!self.panics, "a toy panic in a parked request");
            return Some(Outcome::Reply(reply(self.id, &kept.unwrap_or_default())));
        }
        (now.mono >= self.deadline).then(|| Outcome::Reply(reply(self.id, b"time is up")))
    }

    fn keys(&self) -> Vec<WatchKey> {
        vec![self.pending.key()]
    }

    fn deadline(&self) -> Instant {
        self.deadline
    }

    fn waits_for_others(&self) -> bool {
        !self.is_produce
    }

    fn abandon(&mut self) {
        self.abandoned.fetch_add(1, Ordering::SeqCst);
    }
}

impl Dispatch for Toy {
    fn label(&self, frame: &[u8], peer: SocketAddr) -> Label {
        Label { api: "Toy", version: frame[0].into(), correlation_id: 0, client_id: String::new(), peer }
    }

    fn kind(&self, frame: &[u8]) -> Kind {
        match OPS[frame[0] as usize] {
            Op::Echo | Op::Close | Op::Panic => Kind::Light,
            Op::Produce | Op::ProduceIn | Op::Silent => Kind::Produce,
            Op::Large | Op::AwaitFetch => Kind::Fetch,
            _ => Kind::Heavy,
        }
    }

    fn dispatch(&self, frame: Bytes, _peer: IpAddr) -> Outcome {
        let on_light = std::thread::current().name().is_some_and(|name| name.starts_with("light"));
        if on_light && self.kind(&frame) != Kind::Light {
            self.heavy_on_light.store(true, Ordering::SeqCst);
        }
        let id = u32::from_be_bytes(frame[1..5].try_into().unwrap());
        let number = u32::from_be_bytes(frame[5..9].try_into().unwrap());
        match OPS[frame[0] as usize] {
            Op::Echo | Op::HeavyEcho => Outcome::Reply(reply(id, &frame[9..])),
            Op::Produce | Op::Await | Op::AwaitFetch | Op::PanicParked => {
                let for_ms = if number == 0 { 60_000 } else { number };
                let (promise, outcome) = self.park(OPS[frame[0] as usize], id, for_ms);
                self.promises.lock().unwrap().insert(id, promise);
                outcome
            }
            Op::ProduceIn => {
                let (promise, outcome) = self.park(Op::ProduceIn, id, 60_000);
                let at = Instant::now() + Duration::from_millis(number.into());
                self.pool.spawn_at(at, Box::new(move || promise.keep(b"done".to_vec())));
                outcome
            }
            Op::AwaitNow => {
                let (promise, outcome) = self.park(Op::AwaitNow, id, 60_000);
                self.pool.spawn(Box::new(move || promise.keep(b"woken".to_vec())));
                outcome
            }
            Op::Silent => {
                self.silent.fetch_add(1, Ordering::SeqCst);
                Outcome::Silent
            }
            Op::Close => Outcome::Close,
            Op::Panic => panic!("a toy panic"),
            Op::Block => {
                self.blocked.fetch_add(1, Ordering::SeqCst);
                let open = self.gate_open.lock().unwrap();
                drop(self.gate.wait_while(open, |open| !*open).unwrap());
                Outcome::Reply(reply(id, b"unblocked"))
            }
            Op::Large => Outcome::Reply(reply(id, &vec![0x5a; number as usize])),
        }
    }
}

fn reply(id: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(4 + payload.len()).unwrap();
    [&length.to_be_bytes(), &id.to_be_bytes(), payload].concat()
}

pub fn frame(op: Op, id: u32, number: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(9 + payload.len()).unwrap();
    [&length.to_be_bytes(), [op as u8].as_slice(), &id.to_be_bytes(), &number.to_be_bytes(), payload].concat()
}

/// Tests share it; one that measures the process's memory has it to itself.
static PROCESS: RwLock<()> = RwLock::new(());

enum Turn {
    Shared { _guard: RwLockReadGuard<'static, ()> },
    Alone { _guard: RwLockWriteGuard<'static, ()> },
}

/// A server, stopped when dropped.
pub struct Gateway {
    pub server: Server,
    pub pool: Arc<Pool>,
    pub toy: Arc<Toy>,
    pub wakeups: Arc<Wakeups>,
    pub metrics: Arc<Metrics>,
    _turn: Turn,
}

pub fn settings() -> Settings {
    Settings {
        host: "127.0.0.1".to_owned(),
        port: 0,
        max_connections: 10_000,
        connections_max_idle: Duration::from_secs(600),
        slow_request: Duration::ZERO,
        request_bytes_held_max: 512 << 20,
        reply_bytes_held_max: 512 << 20,
        stall_max: Duration::from_secs(10),
        call_ahead_max: Duration::from_secs(60),
    }
}

impl Gateway {
    pub fn start() -> Self {
        Self::with(settings(), 6)
    }

    pub fn alone() -> Self {
        let guard = PROCESS.write().unwrap_or_else(PoisonError::into_inner);
        Self::with_turn(settings(), 6, Turn::Alone { _guard: guard })
    }

    pub fn with(settings: Settings, workers: usize) -> Self {
        let guard = PROCESS.read().unwrap_or_else(PoisonError::into_inner);
        Self::with_turn(settings, workers, Turn::Shared { _guard: guard })
    }

    fn with_turn(settings: Settings, workers: usize, turn: Turn) -> Self {
        let metrics = Arc::new(Metrics::default());
        let logger = logging::discard();
        let pool = Pool::start(workers, metrics.clone(), logger.clone()).unwrap();
        let wakeups = Arc::new(Wakeups::new());
        let toy = Arc::new(Toy {
            pool: pool.clone(),
            wakeups: wakeups.clone(),
            promises: Mutex::default(),
            gate_open: Mutex::new(false),
            gate: Condvar::new(),
            blocked: AtomicUsize::new(0),
            silent: AtomicUsize::new(0),
            abandoned: Arc::default(),
            heavy_on_light: AtomicBool::new(false),
        });
        let parts = Parts {
            pool: pool.clone(),
            dispatch: toy.clone(),
            wakeups: wakeups.clone(),
            clock: Arc::new(SystemClock),
            metrics: metrics.clone(),
            logger,
        };
        let listeners = Server::bind(&settings).unwrap();
        let server = Server::start(settings, parts, listeners).unwrap();
        Gateway { server, pool, toy, wakeups, metrics, _turn: turn }
    }

    pub fn address(&self) -> SocketAddr {
        self.server.addresses()[0]
    }

    pub fn client(&self) -> Client {
        Self::client_of(TcpStream::connect(self.address()).unwrap())
    }

    /// A client whose kernel takes little ahead of it, so that the server sees how slowly it reads.
    pub fn narrow_client(&self) -> Client {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(16 * 1024).unwrap();
        socket.connect(&self.address().into()).unwrap();
        Self::client_of(socket.into())
    }

    fn client_of(stream: TcpStream) -> Client {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client { stream }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.toy.open_gate();
        let deadline = Instant::now() + Duration::from_secs(5);
        self.server.stop(deadline);
        self.pool.stop(deadline);
        if !std::thread::panicking() {
            assert!(!self.toy.heavy_on_light.load(Ordering::SeqCst), "a light worker ran a heavy request");
            assert_eq!(self.metrics.connections_open.get(), 0, "connections are left");
            assert_eq!(self.metrics.requests_parked.get(), 0, "requests are left");
            assert_eq!(self.wakeups.registered(), 0, "watch keys are left");
            let held = (self.server.request_bytes_held(), self.server.reply_bytes_held());
            assert_eq!(held, (0, 0), "the budget was not given back");
        }
    }
}

pub struct Client {
    pub stream: TcpStream,
}

impl Client {
    pub fn send(&mut self, op: Op, id: u32, number: u32) {
        self.send_bytes(&frame(op, id, number, b""));
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next reply: its id and payload.
    pub fn reply(&mut self) -> (u32, Vec<u8>) {
        let mut head = [0; 8];
        self.stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes(head[..4].try_into().unwrap()) as usize;
        let mut payload = vec![0; length - 4];
        self.stream.read_exact(&mut payload).unwrap();
        (u32::from_be_bytes(head[4..].try_into().unwrap()), payload)
    }

    #[track_caller]
    pub fn expect(&mut self, id: u32, payload: &str) {
        let (got, bytes) = self.reply();
        assert_eq!((got, String::from_utf8_lossy(&bytes).as_ref()), (id, payload));
    }

    #[track_caller]
    pub fn expect_ids(&mut self, ids: impl IntoIterator<Item = u32>) {
        for id in ids {
            assert_eq!(self.reply().0, id);
        }
    }

    /// The server ends the connection in good order, after nothing more.
    #[track_caller]
    pub fn expect_end(&mut self) {
        assert_eq!(self.stream.read(&mut [0; 16]).expect("a FIN, no reset"), 0);
    }

    /// The server ends the connection one way or another.
    #[track_caller]
    pub fn expect_gone(&mut self) {
        match self.stream.read(&mut [0; 16]) {
            Ok(count) => assert_eq!(count, 0),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }

    /// Sends an echo and gives how long its reply took.
    #[track_caller]
    pub fn ping(&mut self, op: Op) -> Duration {
        let start = Instant::now();
        self.send_bytes(&frame(op, 77, 0, b"ping"));
        self.expect(77, "ping");
        start.elapsed()
    }
}

#[track_caller]
pub fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Resident memory of this process, in bytes.
pub fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1024
}
