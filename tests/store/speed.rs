//! How fast publishes go, beside a bare socket that does the same. Prints; asserts only that it is not absurd.

use super::{contract, ready, server, soon};
use hanzo_kafka::store::nats::NatsStore;
use hanzo_kafka::store::{PubAck, Publish, Sequence, Store, StoreResult, publish_all};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const PAYLOAD_BYTES: usize = 1024;

/// Publishes `count` messages with `in_flight` of them under way, each ack starting the next; gives messages a second.
fn through_the_store(store: &Arc<NatsStore>, stream: &str, in_flight: u64, count: u64) -> f64 {
    fn next(store: Arc<NatsStore>, message: Publish, left: Arc<AtomicU64>, finished: mpsc::Sender<()>) {
        if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_err() {
            return drop(finished);
        }
        let (again, copy) = (store.clone(), message.clone());
        let done = move |outcome: StoreResult<PubAck>| {
            outcome.expect("it is stored");
            next(again, copy, left, finished);
        };
        store.publish_begin(message, soon() + Duration::from_secs(60), Box::new(done));
    }
    let headers = vec![("Kafka-Writer".to_owned(), "0123456789abcdef-1".to_owned())];
    let message = Publish { headers, ..contract::message(stream, vec![7; PAYLOAD_BYTES]) };
    let (finished, wait) = mpsc::channel();
    let left = Arc::new(AtomicU64::new(count));
    let began = Instant::now();
    for _ in 0..in_flight {
        next(store.clone(), message.clone(), left.clone(), finished.clone());
    }
    drop(finished);
    let _ = wait.recv();
    count as f64 / began.elapsed().as_secs_f64()
}

/// One worker that waits for each answer.
fn blocking(store: &NatsStore, stream: &str, count: u64) -> f64 {
    let began = Instant::now();
    for _ in 0..count {
        contract::send(store, stream, vec![7; PAYLOAD_BYTES]);
    }
    count as f64 / began.elapsed().as_secs_f64()
}

/// The same by hand over a socket.
fn by_hand(server: &server::Server, stream: &str, in_flight: u64, count: u64) -> f64 {
    let socket = TcpStream::connect(server.address()).expect("it runs");
    socket.set_nodelay(true).expect("it is a socket");
    let mut replies = BufReader::with_capacity(64 * 1024, socket.try_clone().expect("it is a socket"));
    let mut socket = socket;
    let mut line = String::new();
    replies.read_line(&mut line).expect("INFO");
    socket.write_all(b"CONNECT {\"verbose\":false,\"headers\":true}\r\nSUB r.* 1\r\n").expect("it reads");
    let header = "NATS/1.0\r\nKafka-Writer:0123456789abcdef-1\r\n\r\n";
    let (head, total) = (header.len(), header.len() + PAYLOAD_BYTES);
    let mut message = format!("HPUB contract.{stream} r.1 {head} {total}\r\n{header}").into_bytes();
    message.extend(vec![7; PAYLOAD_BYTES]);
    message.extend(b"\r\n");
    let began = Instant::now();
    let (mut sent, mut received) = (0, 0);
    while received < count {
        let mut burst = Vec::new();
        while sent < count && sent - received < in_flight {
            burst.extend_from_slice(&message);
            sent += 1;
        }
        socket.write_all(&burst).expect("it reads");
        loop {
            line.clear();
            replies.read_line(&mut line).expect("a reply");
            if line.starts_with("MSG") {
                line.clear();
                replies.read_line(&mut line).expect("its payload");
                received += 1;
            }
            if replies.buffer().is_empty() {
                break;
            }
        }
    }
    count as f64 / began.elapsed().as_secs_f64()
}

#[test]
fn publishes_are_about_as_fast_as_a_bare_socket() {
    let server = server::Server::start(server::newest());
    let store = ready(&server);
    contract::fresh(&*store, "speed");
    through_the_store(&store, "speed", 8, 2000);
    let count = if cfg!(debug_assertions) { 5_000 } else { 40_000 };
    println!("blocking publish, one in flight: {:.0}/s", blocking(&store, "speed", count));
    for in_flight in [1, 64] {
        let ours = through_the_store(&store, "speed", in_flight, count);
        let bare = by_hand(&server, "speed", in_flight, count);
        println!("{in_flight} in flight: {ours:.0}/s, bare socket {bare:.0}/s, {:.0} %", 100.0 * ours / bare);
        assert!(ours > 1000.0, "a publish waits for the crate's flush timer: {ours:.0}/s");
    }
}

/// Reads a stream of `count` messages of `bytes` each in runs of 4 MiB; gives megabytes a second.
fn read_through(store: &NatsStore, stream: &str, bytes: usize, count: usize) -> f64 {
    contract::fresh(store, stream);
    let message = contract::message(stream, vec![7; bytes]);
    let outcomes = publish_all(store, vec![message; count], soon() + Duration::from_secs(60));
    assert!(outcomes.iter().all(Result::is_ok));
    let began = Instant::now();
    let (mut next, mut seen) = (Sequence(1), 0);
    while seen < count {
        let run = store.messages_read(stream, next, 10_000, 4 << 20, soon()).expect("it reads");
        next = run.last().expect("there is more").sequence.next();
        seen += run.len();
    }
    (count * bytes) as f64 / 1e6 / began.elapsed().as_secs_f64()
}

#[test]
fn runs_are_read_at_megabytes_a_second() {
    for (name, binary) in [("newest", server::newest()), ("2.10", server::oldest())] {
        let server = server::Server::start(binary);
        let store = ready(&server);
        let total = if cfg!(debug_assertions) { 16 << 20 } else { 64 << 20 };
        for bytes in [1024, 64 * 1024, 1_000_000] {
            let speed = read_through(&store, &format!("read-{bytes}"), bytes, total / bytes);
            println!("{name}: reading messages of {bytes} bytes: {speed:.0} MB/s");
            assert!(speed > 2.0, "one message after the other: {speed:.1} MB/s");
        }
    }
}
