//! A TCP proxy before a nats-server that knows enough of its protocol to lose or hold back the acks of stored messages.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often a held connection looks whether it may go on.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A connection that more than one thread writes to.
type Sink = Arc<Mutex<TcpStream>>;

#[derive(Default)]
struct Weather {
    /// Of a thousand acks, so many are lost.
    lost_per_mille: AtomicU32,
    /// So many of the next acks are lost, whatever is drawn.
    next_lost: AtomicU32,
    /// Acks that are not lost come this much later, each on its own.
    late_ms: AtomicU64,
    /// Acks of buckets are lost and late as those of partitions are.
    buckets_too: AtomicBool,
    /// All acks that came by: what the draws are made from.
    acks: AtomicU64,
    /// What gateways send stays in the proxy.
    requests_held: AtomicBool,
    /// Of what gateways send, the messages for partitions stay in the proxy, and all else passes.
    publishes_held: AtomicBool,
    /// These messages, oldest first, and where each is to go.
    publishes: Mutex<Vec<(Sink, Vec<u8>)>>,
    /// What the server sends stays in the proxy.
    answers_held: AtomicBool,
    generation: AtomicU64,
}

pub struct Proxy {
    pub port: u16,
    target: Arc<AtomicU16>,
    weather: Arc<Weather>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    pub fn before(target: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port for the proxy");
        let proxy = Proxy {
            port: listener.local_addr().expect("it is bound").port(),
            target: Arc::new(AtomicU16::new(target)),
            weather: Arc::default(),
            connections: Arc::default(),
        };
        let (target, weather, connections) = (proxy.target.clone(), proxy.weather.clone(), proxy.connections.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(("127.0.0.1", target.load(Ordering::Relaxed)));
                let Ok(server) = server else {
                    continue;
                };
                let _ = begin(client, server, &weather, &connections);
            }
        });
        proxy
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub fn lose_acks(&self, per_mille: u32) {
        self.weather.lost_per_mille.store(per_mille, Ordering::Relaxed);
    }

    /// The next ack is lost.
    pub fn lose_next_ack(&self) {
        self.weather.next_lost.fetch_add(1, Ordering::Relaxed);
    }

    /// From now on what befalls acks of partitions befalls those of buckets too.
    pub fn include_buckets(&self) {
        self.weather.buckets_too.store(true, Ordering::Relaxed);
    }

    pub fn delay_acks(&self, late: Duration) {
        self.weather.late_ms.store(u64::try_from(late.as_millis()).expect("short"), Ordering::Relaxed);
    }

    /// Holds what the connections of now send to the server, until `release`; later connections are not held.
    pub fn hold_requests(&self) {
        self.weather.generation.fetch_add(1, Ordering::SeqCst);
        self.weather.requests_held.store(true, Ordering::SeqCst);
    }

    /// Holds the messages for partitions until `release`. How many are held, `publishes_held` tells.
    pub fn hold_publishes(&self) {
        self.weather.publishes_held.store(true, Ordering::SeqCst);
    }

    pub fn publishes_held(&self) -> usize {
        self.weather.publishes.lock().expect("no holder panics").len()
    }

    /// Holds what the server sends to the connections of now; later ones are not held.
    pub fn hold_answers(&self) {
        self.weather.generation.fetch_add(1, Ordering::SeqCst);
        self.weather.answers_held.store(true, Ordering::SeqCst);
    }

    pub fn release(&self) {
        self.weather.requests_held.store(false, Ordering::SeqCst);
        self.weather.answers_held.store(false, Ordering::SeqCst);
        // Under the lock, so that nothing newer overtakes what was held.
        let mut held = self.weather.publishes.lock().expect("no holder panics");
        self.weather.publishes_held.store(false, Ordering::SeqCst);
        for (server, message) in held.drain(..) {
            let _ = server.lock().expect("no holder panics").write_all(&message);
        }
    }

    /// Cuts all connections.
    pub fn cut(&self) {
        for connection in self.connections.lock().expect("no holder panics").drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Good weather again.
    pub fn heal(&self) {
        self.lose_acks(0);
        self.weather.next_lost.store(0, Ordering::Relaxed);
        self.delay_acks(Duration::ZERO);
        self.release();
    }
}

fn begin(
    client: TcpStream,
    server: TcpStream,
    weather: &Arc<Weather>,
    connections: &Mutex<Vec<TcpStream>>,
) -> io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let born = weather.generation.load(Ordering::SeqCst);
    connections.lock().expect("no holder panics").extend([client.try_clone()?, server.try_clone()?]);
    let (from_client, to_server) = (client.try_clone()?, server.try_clone()?);
    let mut requests = Requests { sink: Arc::new(Mutex::new(to_server)), weather: weather.clone(), born };
    std::thread::spawn(move || {
        let done = requests.sink.clone();
        let mut reader = BufReader::with_capacity(256 * 1024, from_client);
        while requests.pass_one(&mut reader).unwrap_or(false) {}
        let _ = done.lock().expect("no holder panics").shutdown(Shutdown::Both);
        let _ = reader.get_ref().shutdown(Shutdown::Both);
    });
    let sky = weather.clone();
    std::thread::spawn(move || {
        let done = client.try_clone();
        let mut answers = Answers { sink: Arc::new(Mutex::new(client)), weather: sky, acks: 0, born };
        let mut reader = BufReader::with_capacity(256 * 1024, server);
        while answers.pass_one(&mut reader).unwrap_or(false) {}
        let _ = reader.get_ref().shutdown(Shutdown::Both);
        let _ = done.map(|done| done.shutdown(Shutdown::Both));
    });
    Ok(())
}

fn wait_while(weather: &Weather, held: &AtomicBool, born: u64) {
    while held.load(Ordering::SeqCst) && weather.generation.load(Ordering::SeqCst) > born {
        std::thread::sleep(LOOK_EVERY);
    }
}

/// One line of the protocol, with the payload that follows if it begins with one of `with_payload`; none at the end.
fn read_frame(reader: &mut BufReader<TcpStream>, with_payload: [&[u8]; 2]) -> io::Result<Option<(Vec<u8>, usize)>> {
    let mut frame = Vec::new();
    if reader.read_until(b'\n', &mut frame)? == 0 {
        return Ok(None);
    }
    let head = frame.len();
    if with_payload.iter().any(|word| frame.starts_with(word)) {
        let line = String::from_utf8_lossy(&frame);
        let size = line.split_whitespace().last().and_then(|word| word.parse::<usize>().ok());
        let size = size.ok_or_else(|| io::Error::other("a message line ends with its size"))?;
        frame.resize(head + size + 2, 0);
        reader.read_exact(&mut frame[head..])?;
    }
    Ok(Some((frame, head)))
}

/// The direction from one gateway connection to the server.
struct Requests {
    sink: Sink,
    weather: Arc<Weather>,
    born: u64,
}

impl Requests {
    /// Passes one protocol line on, with its payload; false at the end.
    fn pass_one(&mut self, reader: &mut BufReader<TcpStream>) -> io::Result<bool> {
        let Some((frame, _)) = read_frame(reader, [b"PUB ", b"HPUB "])? else {
            return Ok(false);
        };
        wait_while(&self.weather, &self.weather.requests_held, self.born);
        if frame.starts_with(b"HPUB kafka.") {
            let mut held = self.weather.publishes.lock().expect("no holder panics");
            if self.weather.publishes_held.load(Ordering::SeqCst) {
                held.push((self.sink.clone(), frame));
                return Ok(true);
            }
        }
        self.sink.lock().expect("no holder panics").write_all(&frame)?;
        Ok(true)
    }
}

/// The direction from the server to one gateway connection.
struct Answers {
    sink: Sink,
    weather: Arc<Weather>,
    acks: u64,
    born: u64,
}

impl Answers {
    /// Passes one protocol line on, with its payload; false at the end.
    fn pass_one(&mut self, reader: &mut BufReader<TcpStream>) -> io::Result<bool> {
        let Some((frame, head)) = read_frame(reader, [b"MSG ", b"HMSG "])? else {
            return Ok(false);
        };
        if head < frame.len() {
            let of_bucket = frame[head..].starts_with(b"{\"stream\":\"KV_");
            let counts = of_bucket && self.weather.buckets_too.load(Ordering::Relaxed);
            if counts || frame[head..].starts_with(b"{\"stream\":\"kafka-") {
                return self.pass_ack(frame);
            }
        }
        wait_while(&self.weather, &self.weather.answers_held, self.born);
        self.sink.lock().expect("no holder panics").write_all(&frame)?;
        Ok(true)
    }

    fn pass_ack(&mut self, frame: Vec<u8>) -> io::Result<bool> {
        self.acks += 1;
        let draw =
            crate::random::Random::new(self.acks ^ (self.weather.acks.fetch_add(1, Ordering::Relaxed) << 20)).next();
        let chosen =
            self.weather.next_lost.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if chosen.is_ok() || draw % 1000 < u64::from(self.weather.lost_per_mille.load(Ordering::Relaxed)) {
            return Ok(true);
        }
        wait_while(&self.weather, &self.weather.answers_held, self.born);
        let late = Duration::from_millis(self.weather.late_ms.load(Ordering::Relaxed));
        if late.is_zero() {
            self.sink.lock().expect("no holder panics").write_all(&frame)?;
        } else {
            let sink = self.sink.clone();
            std::thread::spawn(move || {
                std::thread::sleep(late);
                let _ = sink.lock().expect("no holder panics").write_all(&frame);
            });
        }
        Ok(true)
    }
}
