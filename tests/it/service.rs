//! The process as a service manager and its operator see it: stops, notices, dumps, log lines, errors at start.

use crate::harness::batch::Batch;
use crate::harness::librdkafka::{self, numbered, producer, texts};
use crate::harness::wire::{fetch_request, partition_data, produce_request, produced};
use crate::harness::{Folder, Gateway, Nats, SOON, Version, Wire, eventually, free_port, tool};
use crate::on_each_server;
use bytes::Bytes;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::{FetchRequest, GroupId, JoinGroupRequest, ProduceRequest};
use kafka_protocol::protocol::StrBytes;
use rdkafka::producer::Producer;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::{Duration, Instant};

/// What the gateway allows itself for a stop, and what a busy machine adds.
const STOP_MAX: Duration = Duration::from_secs(10 + 8);

const REQUEST_TIMED_OUT: i16 = 7;
const NOT_COORDINATOR: i16 = 16;
const LONG_MS: i32 = 120_000;

/// SIGTERM; gives the exit code, and how long it took.
#[track_caller]
fn stop(gateway: &mut Gateway) -> (Option<i32>, Duration) {
    let began = Instant::now();
    let status = gateway.terminate();
    (status.code(), began.elapsed())
}

/// A new group's first member: its join is held for the initial rebalance delay.
fn join() -> JoinGroupRequest {
    let protocol = JoinGroupRequestProtocol::default()
        .with_name(StrBytes::from_static_str("range"))
        .with_metadata(Bytes::from_static(b"m"));
    JoinGroupRequest::default()
        .with_group_id(GroupId(StrBytes::from_static_str("g")))
        .with_session_timeout_ms(30_000)
        .with_rebalance_timeout_ms(60_000)
        .with_protocol_type(StrBytes::from_static_str("consumer"))
        .with_protocols(vec![protocol])
}

on_each_server! {
    fn a_stop_under_load_loses_nothing_that_was_acknowledged(version) {
        let nats = Nats::start(version);
        let mut gateway = Gateway::start(&nats, &[]);
        gateway.wire().create_topic("t", 2);
        let producers = [0, 1].map(|_| producer(&gateway.bootstrap(), &[("enable.idempotence", "true")]));
        let values = numbered(60_000);
        let mut unsent = values.iter().enumerate();
        let mut some = |count: usize| {
            for (n, value) in unsent.by_ref().take(count) {
                producers[n % 2].send_value("t", i32::from(n % 4 > 1), value.as_bytes());
            }
        };
        let acked = || producers.iter().map(|producer| producer.deliveries.acked().len()).sum::<usize>();
        eventually("traffic is under way", SOON, || {
            some(1_000);
            producers.iter().for_each(|producer| producer.producer.poll(Duration::ZERO));
            (acked() > 500).then_some(())
        });
        some(2_000);
        let (code, took) = stop(&mut gateway);
        assert_eq!(code, Some(0));
        assert!(took < STOP_MAX, "{took:?}");
        assert!(producers.iter().any(|producer| producer.producer.in_flight_count() > 0), "it stopped under load");

        gateway.restart();
        let mut expected: Vec<String> = producers.iter().flat_map(|producer| producer.finish()).map(|(v, _)| v).collect();
        let mut wire = gateway.wire();
        let mut read: Vec<String> =
            [0, 1].iter().flat_map(|partition| wire.read_all("t", *partition, 0)).map(|(_, value)| value).collect();
        expected.sort_unstable();
        read.sort_unstable();
        assert_eq!(read, expected, "each record once");
    }
}

#[test]
fn requests_that_wait_for_others_are_released_by_a_stop() {
    let nats = Nats::start(Version::Newest);
    let mut gateway = Gateway::start(&nats, &["--group-initial-rebalance-delay=100s"]);
    gateway.wire().create_topic("t", 1);
    let (mut fetching, mut joining) = (gateway.wire(), gateway.wire());
    fetching.send(12, &fetch_request("t", 0, 0).with_max_wait_ms(LONG_MS));
    joining.send(3, &join());
    eventually("both are parked", SOON, || (parked(&gateway) == ["Fetch", "JoinGroup"]).then_some(()));
    let (code, took) = stop(&mut gateway);
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(8), "nothing is to be waited for, it took {took:?}");
    let data = partition_data(fetching.receive::<FetchRequest>(12).1);
    assert_eq!((data.error_code, data.high_watermark), (0, 0), "what is there: nothing");
    assert_eq!(joining.receive::<JoinGroupRequest>(3).1.error_code, NOT_COORDINATOR);
}

#[test]
fn a_stop_ends_in_time_when_the_store_hangs() {
    let nats = Nats::start(Version::Newest);
    let mut gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    wire.create_topic("t", 1);
    wire.produce_ok("t", 0, &Batch::of(["before"]));
    nats.freeze();
    wire.send(9, &produce_request("t", 0, Batch::of(["under way"]).encode()).with_timeout_ms(LONG_MS));
    eventually("it is parked", SOON, || (parked(&gateway) == ["Produce"]).then_some(()));
    let (code, took) = stop(&mut gateway);
    assert_eq!(code, Some(0));
    assert!(took < STOP_MAX, "{took:?}");
    let response = wire.receive::<ProduceRequest>(9).1;
    assert_eq!(produced(&response.responses[0].partition_responses[0]).0, REQUEST_TIMED_OUT, "nobody knows");
    nats.thaw();
}

#[test]
fn a_second_signal_ends_a_stop_at_once() {
    let nats = Nats::start(Version::Newest);
    let mut gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    wire.create_topic("t", 1);
    nats.freeze();
    wire.send(9, &produce_request("t", 0, Batch::of(["x"]).encode()).with_timeout_ms(LONG_MS));
    eventually("it is parked", SOON, || (parked(&gateway) == ["Produce"]).then_some(()));
    let process = gateway.process();
    process.signal(libc::SIGTERM);
    eventually("it stops", SOON, || process.log().contains("msg=stopping").then_some(()));
    let began = Instant::now();
    process.signal(libc::SIGINT);
    let status = eventually("it is gone", SOON, || process.exited());
    assert_eq!(status.code(), Some(128 + libc::SIGINT));
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    nats.thaw();
}

/// What a service manager hears on its socket.
struct Manager {
    listener: UnixDatagram,
    path: std::path::PathBuf,
    _folder: Folder,
}

impl Manager {
    fn new() -> Manager {
        let folder = Folder::new("notify");
        // A socket's path is short; the folder's is not.
        let path = std::env::temp_dir().join(format!("hanzo-kafka-it-{}", std::process::id()));
        let listener = UnixDatagram::bind(&path).expect("a socket");
        listener.set_read_timeout(Some(SOON)).expect("a timeout can be set");
        Manager { listener, path, _folder: folder }
    }

    #[track_caller]
    fn hears(&self, what: &str) -> String {
        let deadline = Instant::now() + SOON;
        loop {
            let mut bytes = [0; 1024];
            let count = self.listener.recv(&mut bytes).expect("a notice");
            let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
            if text.lines().any(|line| line.starts_with(what)) {
                return text;
            }
            assert!(Instant::now() < deadline, "{what} is not heard");
        }
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[test]
fn a_service_manager_is_told_of_ready_alive_the_store_and_stopping() {
    let mut nats = Nats::not_started(Version::Newest, 8 << 20);
    let manager = Manager::new();
    let socket = manager.path.to_str().expect("a path of ours is UTF-8");
    let environment = [("NOTIFY_SOCKET", socket), ("WATCHDOG_USEC", "400000")];
    let mut gateway = Gateway::in_environment(&nats.url(), &[], &environment);
    let ready = manager.hears("READY=1");
    assert!(ready.contains("cannot be reached"), "a start does not wait for the store: {ready}");
    nats.restart();
    gateway.wait_ready();
    manager.hears("STATUS=Kafka on 127.0.0.1:");
    manager.hears("WATCHDOG=1");
    nats.freeze();
    let mut wire = gateway.wire();
    wire.send(9, &produce_request("t", 0, Batch::of(["x"]).encode()).with_timeout_ms(3_000));
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        manager.hears("WATCHDOG=1");
    }
    nats.thaw();
    assert!(gateway.terminate().success());
    manager.hears("STOPPING=1");
}

/// An answer of the admin port: the status line and the body.
fn admin(gateway: &Gateway, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", gateway.admin_port)).expect("the admin port listens");
    stream.set_read_timeout(Some(SOON)).expect("a timeout can be set");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
}

/// The APIs of what is parked, in alphabetical order.
fn parked(gateway: &Gateway) -> Vec<String> {
    let (_, body) = admin(gateway, "/v1/stream/threads");
    let json: Value = serde_json::from_str(body.trim_matches(|c| c != '{' && c != '}')).expect("JSON");
    let parked = json["parked"].as_array().expect("a list");
    let mut apis: Vec<String> =
        parked.iter().map(|row| row["request"]["api"].as_str().expect("a name").to_owned()).collect();
    apis.sort_unstable();
    apis
}

#[test]
fn what_goes_on_is_told_by_http_and_by_sigquit() {
    let nats = Nats::start(Version::Newest);
    let mut gateway = Gateway::start(&nats, &[]);
    gateway.wire().create_topic("orders", 1);
    let mut fetching = gateway.wire();
    fetching.send(12, &fetch_request("orders", 0, 0).with_max_wait_ms(LONG_MS));
    eventually("it is parked", SOON, || (parked(&gateway) == ["Fetch"]).then_some(()));
    let (status, text) = admin(&gateway, "/v1/stream/threads?text");
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(text.contains(r#"waits for "records of orders-0": Fetch v12"#), "{text}");
    assert!(text.contains("  worker-0 ") && text.contains("  light-0 "), "{text}");

    gateway.process().signal(libc::SIGQUIT);
    eventually("it is printed", SOON, || gateway.process().log().contains(r#""records of orders-0""#).then_some(()));
    gateway.wire().produce_ok("orders", 0, &Batch::of(["still served"]));
    assert_eq!(partition_data(fetching.receive::<FetchRequest>(12).1).error_code, 0);

    // A store that hangs is seen with the stream it hangs on.
    gateway.terminate();
    gateway.restart();
    nats.freeze();
    let mut reading = gateway.wire();
    reading.send(12, &fetch_request("orders", 0, 0).with_max_wait_ms(5_000));
    eventually("a worker is seen in its store call", SOON, || {
        let (_, text) = admin(&gateway, "/v1/stream/threads?text");
        text.contains(r#" store stream_info "kafka-orders-0""#).then_some(())
    });
    nats.thaw();
}

#[test]
fn slow_requests_are_logged_with_their_parts_and_waiting_for_records_is_not_slow() {
    let nats = Nats::start(Version::Newest);
    let mut gateway = Gateway::start(&nats, &["--slow-request-ms=700", "--log-level=info"]);
    let mut wire = gateway.wire();
    wire.create_topic("t", 1);
    wire.produce_ok("t", 0, &Batch::of(["x"]));
    let data = partition_data(wire.call(12, &fetch_request("t", 0, 1).with_max_wait_ms(1_500)));
    assert_eq!(data.error_code, 0);
    nats.freeze();
    let request = produce_request("t", 0, Batch::of(["y"]).encode());
    let mut frame = Wire::frame(4_711, 9, &request);
    // The client id stands after key, version and correlation id.
    let at = 4 + 8 + 2;
    assert_eq!(&frame[at..at + 4], b"test");
    frame[at..at + 4].copy_from_slice(b"a\nb\x1b");
    wire.send_bytes(&frame).expect("sent");
    std::thread::sleep(Duration::from_millis(900));
    nats.thaw();
    let (_, response) = wire.receive::<ProduceRequest>(9);
    assert_eq!(produced(&response.responses[0].partition_responses[0]).0, 0);
    let log = eventually("it is logged", SOON, || {
        let log = gateway.process().log();
        log.contains("slow request").then_some(log)
    });
    let slow: Vec<&str> = log.lines().filter(|line| line.contains("slow request")).collect();
    let line = slow.iter().find(|line| line.contains("correlation_id=4711")).unwrap_or_else(|| panic!("{slow:#?}"));
    for part in [
        "level=warning",
        "api=Produce version=9",
        r#"client_id="a\nb\u001b""#,
        "peer=127.0.0.1:",
        "queue_ms=",
        "work_ms=",
        "write_ms=",
    ] {
        assert!(line.contains(part), "{part} is missing in {line}");
    }
    let store_ms = line.split_once("store_ms=").and_then(|(_, rest)| rest.split(' ').next()?.parse::<u64>().ok());
    assert!(store_ms.is_some_and(|ms| ms >= 700), "{line}");
    assert!(!slow.iter().any(|line| line.contains("api=Fetch")), "{slow:#?}");
}

#[test]
fn requests_leave_no_lines_at_info() {
    let nats = Nats::start(Version::Newest);
    let mut gateway = Gateway::start(&nats, &["--log-level=info", "--log-format=json"]);
    let mut wire = gateway.wire();
    wire.create_topic("t", 1);
    wire.produce_ok("t", 0, &Batch::of(["x"]));
    librdkafka::consume(&gateway.bootstrap(), "t", 1);
    let before = gateway.process().log();
    for _ in 0..50 {
        wire.produce_ok("t", 0, &Batch::of(["x"]));
        wire.fetch("t", 0, 0);
    }
    assert!(texts(&librdkafka::consume(&gateway.bootstrap(), "t", 51)).iter().all(|text| text == "x"));
    assert_eq!(gateway.process().log(), before);
    for line in before.lines() {
        let value: Value = serde_json::from_str(line).expect("each line is a JSON object");
        assert!(value["ts"].is_string() && value["level"].is_string() && value["msg"].is_string(), "{line}");
    }
}

/// Runs the gateway until it refuses to start; expects one line that holds all of `words`.
#[track_caller]
fn refused(arguments: &[&str], words: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hanzo-kafka"));
    command.args(["--log-level=error", "--host=127.0.0.1"]).args(arguments);
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<&str> = text.lines().filter(|line| !line.contains(" connection=nats-")).collect();
    assert_eq!(lines.len(), 1, "{arguments:?}: {text}");
    words.iter().for_each(|word| assert!(lines[0].contains(word), "{word} is missing in {text}"));
}

/// A nats-server as far as its greeting goes.
fn greeter(version: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let greeting = json!({"version": version, "max_payload": 1_048_576, "headers": true, "jetstream": true});
            let _ = stream.and_then(|mut stream| write!(stream, "INFO {greeting}\r\n"));
        }
    });
    port
}

#[test]
fn a_start_that_fails_says_in_one_line_what_to_change() {
    let flag = |name: &str, value: &dyn std::fmt::Display| format!("--{name}={value}");
    let (port, admin_port) = (flag("port", &free_port()), flag("admin-port", &free_port()));
    let nobody = flag("pubsub-url", &format!("nats://127.0.0.1:{}", free_port()));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = listener.local_addr().expect("it is bound").port();

    refused(&[&flag("port", &taken), &admin_port, &nobody], &[&format!("--port {taken}"), "choose another port"]);
    refused(&[&port, &flag("admin-port", &taken), &nobody], &[&format!("--admin-port {taken}"), "choose another port"]);
    let old = format!("127.0.0.1:{}", greeter("2.9.25"));
    let old_url = flag("pubsub-url", &format!("nats://{old}"));
    refused(&[&port, &admin_port, &old_url], &["--pubsub-url", &old, "2.9.25", "2.10", "upgrade"]);
    let file = "/nonexistent/file.creds";
    refused(&["--nats-creds", file], &["NATS login", file, "may read"]);
    refused(&["--pubsub-url", "http://x"], &["--pubsub-url http://x", "nats://"]);
    refused(&["--port", "http"], &["--port", "http", "65535"]);
    refused(&["--slow-request-ms", "soon"], &["--slow-request-ms", "soon", "number"]);
    refused(&["--embedded", "--nats-server", file], &["--nats-server", file, "install one"]);
    let folder = Folder::new("data");
    let data_dir = folder.path().join("a file");
    std::fs::write(&data_dir, "").expect("a file");
    let data_dir = data_dir.to_str().expect("a path of ours is UTF-8");
    let server = tool("nats-server");
    let server = server.to_str().expect("a path of ours is UTF-8");
    refused(&["--embedded", "--nats-server", server, "--data-dir", data_dir], &["--data-dir", data_dir, "name one"]);
}

/// Other gateways would tell clients of a broker that never serves; one that has the port has the address, and so the broker's id.
#[test]
fn a_start_that_finds_a_port_taken_leaves_no_lease() {
    let nats = Nats::start(Version::Newest);
    let url = format!("--pubsub-url={}", nats.url());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = listener.local_addr().expect("it is bound").port();
    for (port, admin_port) in [(taken, free_port()), (free_port(), taken)] {
        let (port, admin_port) = (format!("--port={port}"), format!("--admin-port={admin_port}"));
        refused(&[&url, &port, &admin_port], &["choose another port"]);
    }
    assert_eq!(nats.jetstream().stream_names(), Vec::<String>::new());
}

#[test]
fn a_data_dir_in_use_is_told() {
    let folder = Folder::new("data");
    let _gateway = Gateway::embedded(folder.path(), &[]);
    let server = tool("nats-server");
    let server = server.to_str().expect("a path of ours is UTF-8");
    let data_dir = folder.path().to_str().expect("a path of ours is UTF-8");
    refused(&["--embedded", "--nats-server", server, "--data-dir", data_dir], &["--data-dir", data_dir, "in use"]);
}
