//! What a real server can do to us: be away, die, hang, hold messages that break the client, cut connections.

use super::contract::{fresh, message, send};
use super::{connect, ready, server, soon};
use bytes::Bytes;
use hanzo_kafka::store::nats::{NatsError, NatsOptions, NatsStore};
use hanzo_kafka::store::{
    From, KvBucket, Message, Pick, PubAck, Publish, Sequence, Store, StoreError, StoreResult, publish,
};
use server::Server;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// How much later than its deadline a call may return on a busy machine.
const SLACK: Duration = Duration::from_millis(750);

/// Counts the log lines that speak of a lost connection.
#[derive(Clone, Default)]
struct Losses(Arc<AtomicUsize>);

impl slog::Drain for Losses {
    type Ok = ();
    type Err = slog::Never;

    fn log(&self, record: &slog::Record, _: &slog::OwnedKVList) -> Result<(), slog::Never> {
        if record.msg().to_string().contains("lost the connection") {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }
}

impl Losses {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

fn ready_and_watched(server: &Server) -> (Arc<NatsStore>, Losses) {
    let losses = Losses::default();
    let logger = slog::Logger::root(losses.clone(), slog::o!());
    let options = NatsOptions { urls: vec![server.url()], name: "test".to_owned(), ..NatsOptions::default() };
    let store = NatsStore::connect(options, logger).expect("the options are good");
    store.wait_ready(soon()).expect("the server runs");
    (store, losses)
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < until, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs a call that has `patience` to be answered, and asserts that it is back in time.
#[track_caller]
fn in_time<T>(patience: Duration, call: impl FnOnce(Instant) -> T) -> T {
    let began = Instant::now();
    let outcome = call(began + patience);
    let took = began.elapsed();
    assert!(took < patience + SLACK, "took {took:?} of {patience:?}");
    outcome
}

/// A publish whose outcome is awaited by the test.
fn begin(store: &NatsStore, message: Publish, deadline: Instant) -> mpsc::Receiver<StoreResult<PubAck>> {
    let (sender, receiver) = mpsc::channel();
    store.publish_begin(message, deadline, Box::new(move |outcome| drop(sender.send(outcome))));
    receiver
}

#[test]
fn a_server_that_is_away_at_start_is_found_when_it_comes() {
    let mut server = Server::unstarted(server::newest());
    let store = in_time(Duration::ZERO, |_| connect(&server));
    assert!(!store.info().connected);
    assert_eq!(publish(&*store, message("s", "x"), soon()), Err(StoreError::Unavailable));
    assert_eq!(store.stream_info("s", soon()).map(drop), Err(StoreError::Unavailable));
    let patience = Duration::from_millis(300);
    let refusal = in_time(patience, |deadline| store.wait_ready(deadline));
    assert!(matches!(refusal, Err(NatsError::Unreachable(_))), "{refusal:?}");
    let (sender, ticks) = mpsc::channel();
    store.core_subscribe("_tick", Box::new(move |_, _| sender.send(()).unwrap_or_default())).expect("it is remembered");
    server.up();
    let info = store.wait_ready(soon()).expect("it is found");
    assert!(info.connected && info.max_payload == 1 << 20 && info.version.starts_with("2."), "{info:?}");
    fresh(&*store, "s");
    assert_eq!(send(&*store, "s", "x"), Sequence(1));
    wait_until("a tick", || {
        store.core_publish("_tick", Bytes::new());
        ticks.recv_timeout(Duration::from_millis(50)).is_ok()
    });
}

#[test]
fn api_levels_are_what_the_servers_say() {
    let newest = Server::start(server::newest());
    assert!(ready(&newest).info().api_level >= 1);
    let oldest = Server::start(server::oldest());
    let info = ready(&oldest).info();
    assert_eq!((info.api_level, info.version.starts_with("2.10.")), (0, true));
}

#[test]
fn an_old_server_is_refused_in_words() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("nats://{}", listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let info = r#"INFO {"server_id":"x","version":"2.9.25","max_payload":1048576,"proto":1,"jetstream":true}"#;
            let _ = (&socket).write_all(format!("{info}\r\n").as_bytes());
        }
    });
    let options = NatsOptions { urls: vec![url], ..NatsOptions::default() };
    let store = NatsStore::connect(options, super::logger()).expect("the options are good");
    let refusal = store.wait_ready(soon()).expect_err("2.9 is too old").to_string();
    assert!(refusal.contains("2.9.25") && refusal.contains("2.10 or newer"), "{refusal}");
    assert!(store.check_version().is_err());
}

/// Three servers that know each other.
fn cluster() -> Vec<Server> {
    let mut servers: Vec<Server> = (0..3).map(|_| Server::unstarted(server::newest())).collect();
    let peers: Vec<Server> = (0..3).map(|_| Server::unstarted(server::newest())).collect();
    let routes: Vec<String> = peers.iter().map(Server::url).collect();
    for ((n, server), peer) in servers.iter_mut().enumerate().zip(&peers) {
        let (listen, routes) = (peer.address(), routes.join(", "));
        server
            .configure(&format!("server_name: n{n}\ncluster {{ name: c, listen: \"{listen}\", routes: [{routes}] }}"));
        server.up();
    }
    servers
}

#[test]
fn a_cluster_goes_on_when_the_server_we_are_on_dies() {
    let mut servers = cluster();
    let (store, _) = ready_and_watched(&servers[0]);
    let replicated =
        serde_json::json!({ "name": "s", "subjects": ["contract.s"], "num_replicas": 3, "allow_direct": true });
    wait_until("a stream on three servers", || {
        store.stream_create(&replicated, Instant::now() + Duration::from_secs(2)).is_ok()
    });
    // Its leader may still be on the way.
    let mut before = None;
    wait_until("the first message", || {
        before = publish(&*store, message("s", "before"), soon()).ok();
        before.is_some()
    });
    servers[0].kill();
    let killed = Instant::now();
    wait_until("an answer", || send_one(&store).is_ok());
    println!("published again after {} ms", killed.elapsed().as_millis());
    wait_until("all connections", || store.info().connected);
    let at = Pick::At(before.expect("it was stored").sequence);
    wait_until("it is kept", || {
        store.message_get("s", at.clone(), From::Leader, soon()).is_ok_and(|kept| kept.payload.as_ref() == b"before")
    });
}

#[test]
fn logins_stand_in_the_url() {
    let logins = [
        ("authorization { user: \"u:1\", password: \"p@ss\" }", "nats://u%3A1:p%40ss@"),
        ("authorization { token: \"s3cret\" }", "nats://s3cret@"),
    ];
    for (config, prefix) in logins {
        let server = Server::configured(server::newest(), config);
        let address = server.address();
        let options = |url: String| NatsOptions { urls: vec![url], ..NatsOptions::default() };
        let store = NatsStore::connect(options(format!("{prefix}{address}")), super::logger()).expect("it parses");
        store.wait_ready(soon()).expect("the login is good");
        let stranger = NatsStore::connect(options(format!("nats://{address}")), super::logger()).expect("it parses");
        let refusal = stranger.wait_ready(Instant::now() + Duration::from_millis(500)).expect_err("no login");
        assert!(refusal.to_string().contains("Authorization Violation"), "{refusal}");
    }
}

#[test]
fn tls_is_refused_before_anything_is_tried() {
    let options = NatsOptions { urls: vec!["tls://localhost:4222".to_owned()], ..NatsOptions::default() };
    let refusal = NatsStore::connect(options, super::logger()).map(drop).expect_err("TLS is not supported");
    assert!(matches!(refusal, NatsError::Tls { .. }), "{refusal}");
}

#[test]
fn of_several_urls_one_that_answers_is_enough() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let nobody = Server::unstarted(server::newest());
    let server = Server::start(server::newest());
    let silent_url = format!("nats://{}", silent.local_addr().expect("it is bound"));
    let urls = vec![nobody.url(), silent_url, server.url()];
    let store =
        NatsStore::connect(NatsOptions { urls, ..NatsOptions::default() }, super::logger()).expect("they parse");
    store.wait_ready(soon()).expect("one runs");
}

#[test]
fn a_killed_server_loses_nothing_that_was_acknowledged() {
    for binary in [server::newest(), server::oldest()] {
        let mut server = Server::start(binary);
        let store = ready(&server);
        fresh(&*store, "s");
        let mut waiting = Vec::new();
        for n in 0..3000 {
            waiting.push(begin(&store, message("s", n.to_string()), soon()));
            if n == 2000 {
                waiting[500].recv_timeout(Duration::from_secs(10)).expect("it ends").expect("it is stored");
                server.kill();
            }
        }
        let outcomes: Vec<_> = waiting
            .iter()
            .enumerate()
            .filter(|(n, _)| *n != 500)
            .map(|(n, wait)| (n, wait.recv().expect("it ends")))
            .collect();
        server.up();
        wait_until("an answer", || store.stream_info("s", soon()).is_ok());
        let stored = read_all(&store, "s");
        for (n, outcome) in outcomes {
            match outcome {
                Ok(ack) => {
                    let found = stored.iter().find(|m| m.sequence == ack.sequence).expect("it is still there");
                    assert_eq!(found.payload.as_ref(), n.to_string().as_bytes());
                }
                Err(error) => assert!(matches!(error, StoreError::NoAnswer | StoreError::Unavailable), "{error}"),
            }
        }
    }
}

fn read_all(store: &NatsStore, stream: &str) -> Vec<Message> {
    let mut all: Vec<Message> = Vec::new();
    loop {
        let next = all.last().map_or(Sequence(1), |m| m.sequence.next());
        let run = store.messages_read(stream, next, 1000, 4 << 20, soon()).expect("it reads");
        if run.is_empty() {
            return all;
        }
        all.extend(run);
    }
}

#[test]
fn a_lost_connection_ends_what_waited_at_once() {
    let mut server = Server::start(server::newest());
    let store = ready(&server);
    fresh(&*store, "s");
    server.freeze();
    let waiting: Vec<_> = (0..10).map(|_| begin(&store, message("s", "x"), soon())).collect();
    let reader = store.clone();
    let reading = std::thread::spawn(move || reader.stream_info("s", soon()).map(drop));
    server.kill();
    in_time(Duration::from_secs(2), |_| {
        for wait in &waiting {
            let outcome = wait.recv().expect("it ends");
            assert!(matches!(outcome, Err(StoreError::NoAnswer | StoreError::Unavailable)), "{outcome:?}");
        }
        assert!(matches!(reading.join(), Ok(Err(StoreError::NoAnswer | StoreError::Unavailable))));
    });
}

#[test]
fn a_hanging_server_costs_deadlines_and_nothing_more() {
    for replaced in [false, true] {
        let mut server = Server::start(server::newest());
        let store = ready(&server);
        fresh(&*store, "s");
        send(&*store, "s", "before");
        store.kv_ensure(&KvBucket { name: "b".to_owned(), replicas: 1, max_age_ms: None }, soon()).expect("it is made");
        let (sender, ticks) = mpsc::channel();
        store
            .core_subscribe("_tick", Box::new(move |_, _| sender.send(()).unwrap_or_default()))
            .expect("it subscribes");

        server.freeze();
        let short = Duration::from_millis(200);
        let began = Instant::now();
        // Through the time before the watchdog acts, while it acts, and after: 16 MiB fill any socket buffer on the way.
        while began.elapsed() < Duration::from_secs(8) {
            let big = message("s", vec![0; 1_000_000]);
            let outcomes: Vec<_> = in_time(Duration::ZERO, |_| {
                (0..4).map(|_| begin(&store, big.clone(), Instant::now() + short)).collect()
            });
            let info = in_time(short, |deadline| store.stream_info("s", deadline));
            assert!(matches!(info, Err(StoreError::NoAnswer | StoreError::Unavailable)), "{info:?}");
            let run = in_time(short, |deadline| store.messages_read("s", Sequence(1), 10, 1000, deadline));
            assert!(run.is_err(), "{run:?}");
            in_time(short, |deadline| store.kv_get("b", "k", deadline)).expect_err("nobody answers");
            in_time(Duration::ZERO, |_| store.core_publish("_tick", Bytes::new()));
            for wait in outcomes {
                let outcome = in_time(short, |_| wait.recv().expect("it ends"));
                assert!(matches!(outcome, Err(StoreError::NoAnswer | StoreError::Unavailable)), "{outcome:?}");
            }
        }
        assert!(store.connections_left_behind() >= 1);
        match replaced {
            false => server.thaw(),
            true => {
                server.kill();
                server.up();
            }
        }
        let back = Instant::now();
        wait_until("an answer", || send_one(&store).is_ok() && store.kv_get("b", "k", soon()).is_ok());
        println!("back after {} ms", back.elapsed().as_millis());
        assert_eq!(read_all(&store, "s")[0].payload.as_ref(), b"before");
        wait_until("a tick", || {
            store.core_publish("_tick", Bytes::new());
            ticks.recv_timeout(Duration::from_millis(50)).is_ok()
        });
    }
}

fn send_one(store: &NatsStore) -> StoreResult<PubAck> {
    publish(store, message("s", "after"), Instant::now() + Duration::from_secs(1))
}

/// Stores a message with a header block of our choice, which no client library lets through.
fn store_raw(server: &Server, stream: &str, block: &[u8], payload: &str) {
    let socket = TcpStream::connect(server.address()).expect("it runs");
    let mut replies = BufReader::new(socket.try_clone().expect("it is a socket"));
    let mut line = String::new();
    replies.read_line(&mut line).expect("INFO");
    let total = block.len() + payload.len();
    let head =
        format!("CONNECT {{\"headers\":true}}\r\nSUB r 1\r\nHPUB contract.{stream} r {} {total}\r\n", block.len());
    let bytes = [head.as_bytes(), block, payload.as_bytes(), b"\r\nPING\r\n"].concat();
    (&socket).write_all(&bytes).expect("it reads");
    while !line.starts_with("MSG") {
        line.clear();
        assert!(replies.read_line(&mut line).expect("it answers") > 0, "it hung up");
    }
    let mut ack = [0; 10];
    replies.read_exact(&mut ack).expect("an acknowledgement");
    assert!(ack.starts_with(b"{\"stream\""), "{}", String::from_utf8_lossy(&ack));
}

const POISON: &[u8] = b"NATS/1.0\r\nthis header has no end of its name\r\n\r\n";

fn check_poison(binary: PathBuf) {
    let server = Server::start(binary);
    let (store, losses) = ready_and_watched(&server);
    fresh(&*store, "s");
    for n in 1..=30 {
        match n {
            10 | 11 => store_raw(&server, "s", POISON, &n.to_string()),
            20 => store_raw(&server, "s", b"NATS/1.0\r\nA: \xff\xfe\r\n\r\n", "20"),
            _ => drop(send(&*store, "s", n.to_string())),
        }
    }
    let check_all = || {
        let all = read_all(&store, "s");
        assert_eq!(all.iter().map(|m| m.sequence.0).collect::<Vec<_>>(), (1..=30).collect::<Vec<_>>());
        assert!(all.iter().all(|m| m.payload.as_ref() == m.sequence.0.to_string().as_bytes()));
    };
    check_all();
    let lost = losses.count();
    assert!(lost > 0, "this block is no poison, the test is worth nothing");
    wait_until("a connection", || store.info().connected);
    check_all();
    for n in [10, 11, 20] {
        let found = store.message_get("s", Pick::At(Sequence(n)), From::Any, soon()).expect("it is there");
        assert_eq!((found.payload.as_ref(), found.headers.len()), (n.to_string().as_bytes(), 0));
        let found = store.message_get("s", Pick::AtOrAfter(Sequence(n)), From::Any, soon()).expect("it is there");
        assert_eq!(found.sequence, Sequence(n));
    }
    assert_eq!(losses.count(), lost, "known poison is stepped around");
    store.message_delete("s", Sequence(10), soon()).expect("it is deleted");
    let run = store.messages_read("s", Sequence(10), 3, 1000, soon()).expect("it reads");
    assert_eq!(run.first().map(|m| m.sequence), Some(Sequence(11)));
}

#[test]
fn poisoned_headers_are_read_around_on_the_newest() {
    check_poison(server::newest());
}

#[test]
fn poisoned_headers_are_read_around_on_2_10() {
    check_poison(server::oldest());
}

#[test]
fn a_message_that_carries_the_servers_own_header_names_is_not_misread() {
    for binary in [server::newest(), server::oldest()] {
        let server = Server::start(binary);
        let store = ready(&server);
        fresh(&*store, "s");
        send(&*store, "s", "1");
        let headers =
            [("Nats-Sequence", "77"), ("Nats-Subject", "else"), ("Nats-Time-Stamp", "never"), ("Status", "404")];
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        publish(&*store, Publish { headers, ..message("s", "2") }, soon()).expect("it is stored");
        send(&*store, "s", "3");
        let all = read_all(&store, "s");
        assert_eq!(all.iter().map(|m| m.sequence.0).collect::<Vec<_>>(), [1, 2, 3]);
        let second = store.message_get("s", Pick::At(Sequence(2)), From::Any, soon()).expect("it is there");
        assert_eq!((second.sequence, second.subject.as_str()), (Sequence(2), "contract.s"));
    }
}

#[test]
fn what_would_inject_a_command_is_refused() {
    let server = Server::start(server::newest());
    let store = ready(&server);
    let store: &dyn Store = &*store;
    fresh(store, "s");
    let injected = Publish { subject: "contract.a\r\nPUB x 0\r\n".to_owned(), ..Publish::default() };
    assert!(matches!(publish(store, injected, soon()), Err(StoreError::Refused { .. })));
    let headers = vec![("A".to_owned(), "b\r\nC: d".to_owned())];
    let injected = Publish { headers, ..message("s", "x") };
    assert!(matches!(publish(store, injected, soon()), Err(StoreError::Refused { .. })));
    assert!(matches!(store.stream_info("a.b", soon()), Err(StoreError::Refused { .. })));
    assert_eq!(send(store, "s", "x"), Sequence(1));
}

#[test]
fn what_exceeds_max_payload_is_refused_and_the_connection_stays() {
    for max_payload in [1 << 20, 8 << 20] {
        let server = Server::with_max_payload(server::newest(), max_payload);
        let (store, losses) = ready_and_watched(&server);
        fresh(&*store, "s");
        let bare = |bytes: usize| message("s", vec![0; bytes]);
        let guarded = |bytes: usize, last| Publish { expected_last: Some(Sequence(last)), ..bare(bytes) };
        let block = "NATS/1.0\r\nNats-Expected-Last-Sequence:2\r\n\r\n".len();
        let send = |message| publish(&*store, message, soon()).map(|ack| ack.sequence);
        assert_eq!(send(bare(max_payload - 1)), Ok(Sequence(1)));
        assert_eq!(send(bare(max_payload)), Ok(Sequence(2)));
        assert_eq!(send(bare(max_payload + 1)), Err(StoreError::TooLarge { max: max_payload }));
        assert_eq!(send(guarded(max_payload - block + 1, 2)), Err(StoreError::TooLarge { max: max_payload }));
        assert_eq!(send(guarded(max_payload - block, 2)), Ok(Sequence(3)));
        assert_eq!(send(guarded(max_payload - block - 1, 3)), Ok(Sequence(4)));
        let sizes: Vec<usize> = read_all(&store, "s").iter().map(|m| m.payload.len()).collect();
        assert_eq!(sizes, [max_payload - 1, max_payload, max_payload - block, max_payload - block - 1]);
        assert_eq!(losses.count(), 0);
    }
}

#[test]
fn many_large_reads_at_once_do_not_get_the_connection_cut() {
    for binary in [server::newest(), server::oldest()] {
        let server = Server::start(binary);
        let (store, losses) = ready_and_watched(&server);
        fresh(&*store, "s");
        let waiting: Vec<_> = (0..48).map(|_| begin(&store, message("s", vec![0; 1_000_000]), soon())).collect();
        waiting.iter().for_each(|wait| drop(wait.recv().expect("it ends").expect("it is stored")));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let run = store.messages_read("s", Sequence(1), 1000, 30 << 20, soon()).expect("it reads");
                    assert!(run.len() >= 16, "{} messages", run.len());
                });
            }
        });
        assert_eq!(losses.count(), 0);
    }
}
