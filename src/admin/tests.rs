//! The endpoints over a real socket and the store in memory.

use super::*;
use crate::catalog::NewTopic;
use crate::clock::SystemClock;
use crate::config::Config;
use crate::gateway::{Basis, build};
use crate::group::event::Sender;
use crate::limits::{ADMIN_CONNECTIONS_MAX, STORE_CALL_MAX};
use crate::offsets::{Committed, TopicPartition};
use crate::store::memory::{MemoryStore, Outage};
use crate::tasks::{Task, Tasks};
use crate::wake::Wakeups;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Each task gets a thread; what is due later never comes.
struct Threads;

impl Tasks for Threads {
    fn spawn(&self, task: Task) {
        std::thread::spawn(task);
    }

    fn spawn_at(&self, _: Instant, _: Task) {}
}

struct Rig {
    store: Arc<MemoryStore>,
    services: Arc<Services>,
    admin: Admin,
}

impl Rig {
    fn new() -> Rig {
        let store = Arc::new(MemoryStore::new());
        let gateway = build(Basis {
            config: Arc::new(Config::default()),
            store: store.clone(),
            direct: store.clone(),
            wakeups: Arc::new(Wakeups::new()),
            tasks: Arc::new(Threads),
            clock: Arc::new(SystemClock),
            metrics: Default::default(),
            logger: crate::logging::discard(),
        });
        let services = gateway.services().clone();
        let listeners = Admin::bind("127.0.0.1", 0).expect("a free port");
        let admin = Admin::start(listeners, services.clone(), "nats://store", Box::new(|| None)).expect("threads");
        Rig { store, services, admin }
    }

    fn create(&self, name: &str, partitions: usize) {
        let new = NewTopic { name: name.to_owned(), partitions, replicas: 1, settings: Default::default() };
        self.services.catalog.create(new, Instant::now() + STORE_CALL_MAX).expect("it is created");
    }

    /// Commits as a consumer without a group protocol does.
    fn commit(&self, group: &str, topic: &str, partition: i32, offset: i64) {
        // No gateway serves a group without a lease.
        self.services.cluster.lease().round();
        let at = TopicPartition::new(topic, partition);
        let topic_id = self.services.catalog.topic(topic).expect("it answers").map(|topic| topic.id);
        let committed =
            Committed { offset, leader_epoch: -1, metadata: "m".to_owned(), commit_ms: 1, expire_ms: None, topic_id };
        let (promise, pending) = crate::promise::promise(&self.services.wakeups);
        let sender = Sender { member_id: String::new(), instance_id: None, generation: -1 };
        self.services.groups.commit(group, sender, vec![(at, committed, promise)]);
        while !pending.is_complete() {
            std::thread::yield_now();
        }
        assert_eq!(pending.take(), [Some(Ok(()))]);
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.admin.address()).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout can be set");
        stream
    }

    /// Head and body of the answer to these bytes.
    fn send(&self, bytes: &[u8]) -> (String, String) {
        let mut stream = self.connect();
        stream.write_all(bytes).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        (head.to_owned(), body.to_owned())
    }

    fn ask(&self, request: &str) -> (u16, String) {
        let (head, body) = self.send(format!("{request} HTTP/1.1\r\nHost: anything\r\n\r\n").as_bytes());
        (head.split_whitespace().nth(1).and_then(|status| status.parse().ok()).expect("a status"), body)
    }

    #[track_caller]
    fn json(&self, path: &str) -> Value {
        let (status, body) = self.ask(&format!("GET {path}"));
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).expect("JSON")
    }

    #[track_caller]
    fn check(&self, request: &str, status: u16, body: &str) {
        assert_eq!(self.ask(request), (status, body.to_owned()), "{request}");
    }

    /// The answer's status, and that its body is JSON with a reason.
    #[track_caller]
    fn refuses(&self, request: &str, status: u16, reason: &str) {
        let (got, body) = self.ask(request);
        let told: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(got, status, "{request}: {body}");
        assert!(told["error"].as_str().is_some_and(|told| told.contains(reason)), "{request}: {body}");
    }
}

#[test]
fn probes_tell_the_state_of_the_store_and_of_a_stop() {
    let rig = Rig::new();
    rig.check("GET /healthz", 200, "ok\n");
    rig.check("GET /readyz?verbose", 200, "ok\n");
    rig.check("HEAD /healthz", 200, "");
    rig.store.set_outage(Some(Outage::Unavailable));
    rig.check("GET /healthz", 503, "JetStream cannot be reached\n");
    rig.check("GET /readyz", 503, "JetStream cannot be reached\n");
    rig.store.set_outage(None);
    rig.admin.set_stopping();
    rig.check("GET /healthz", 200, "ok\n");
    rig.check("GET /readyz", 503, "shutting down\n");
}

#[test]
fn a_taken_port_is_named_with_its_flags() {
    let rig = Rig::new();
    let port = rig.admin.address().port();
    let error = Admin::bind("127.0.0.1", port).expect_err("the port is taken");
    assert!(error.to_string().contains(&format!("--admin-host 127.0.0.1 --admin-port {port}")), "{error}");
}

#[test]
fn other_methods_and_paths_are_refused() {
    let rig = Rig::new();
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "BREW"] {
        let (head, body) = rig.send(format!("{method} /healthz HTTP/1.1\r\n\r\n").as_bytes());
        assert!(head.starts_with("HTTP/1.1 405 Method Not Allowed\r\n"), "{method}: {head}");
        assert!(head.contains("\r\nAllow: GET, HEAD\r\n") && body.contains("only GET and HEAD"), "{head}");
    }
    let with_body = b"POST /healthz HTTP/1.1\r\nContent-Length: 100000\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n";
    assert!(rig.send(with_body).0.starts_with("HTTP/1.1 405 "), "what follows is no request");
    for path in ["/nothing", "/healthz/", "/../healthz", "//healthz", "/v1/stream/../../etc/passwd", "/%2e%2e/x", "/;"]
    {
        rig.refuses(&format!("GET {path}"), 404, "nothing under this path");
    }
    let (head, _) = rig.send(b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 302 ") && head.contains("\r\nLocation: /v1/stream/\r\n"), "{head}");
    assert!(head.contains("\r\nX-Content-Type-Options: nosniff\r\n") && head.contains("default-src 'none'"), "{head}");
    let (head, body) = rig.send(b"HEAD /v1/stream/status HTTP/1.0\r\n\r\n");
    assert!(head.contains("Content-Length: ") && !head.contains("Content-Length: 0") && body.is_empty(), "{head}");
}

#[test]
fn only_the_first_request_of_a_connection_is_answered() {
    let rig = Rig::new();
    let (head, body) = rig.send(b"GET /healthz HTTP/1.1\r\n\r\nGET /nothing HTTP/1.1\r\n\r\n");
    assert!(head.contains("Connection: close"), "{head}");
    assert_eq!(body, "ok\n");
    let smuggled = b"GET /healthz HTTP/1.1\r\nContent-Length: 30\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert!(rig.send(smuggled).0.starts_with("HTTP/1.1 400 "));
    let large = [b"GET /healthz HTTP/1.1\r\nX: ", [b'a'; 100_000].as_slice()].concat();
    assert!(rig.send(&large).0.starts_with("HTTP/1.1 431 "));
}

#[test]
fn topics_and_groups_are_told_with_their_lag() {
    let rig = Rig::new();
    assert_eq!(rig.json("/v1/stream/topics"), json!({ "topics": [] }));
    assert_eq!(rig.json("/v1/stream/groups"), json!({ "groups": [] }));
    rig.create("a.b", 2);
    rig.create("c", 1);
    rig.commit("g 1", "a.b", 1, -3);
    let all = rig.json("/v1/stream/topics");
    let names: Vec<_> = all["topics"].as_array().expect("a list").iter().map(|topic| &topic["topic"]).collect();
    assert_eq!(names, ["a.b", "c"]);
    let one = rig.json("/v1/stream/topics?topic=a%2Eb");
    let partition = &one["topics"][0]["partitions"][1];
    assert_eq!(partition["stream"], "kafka-a~b-1");
    assert_eq!(partition["subject"], "kafka.a~b.1");
    assert_eq!((&partition["next_offset"], &partition["next_offset_exact"]), (&json!(0), &json!(true)));
    assert_eq!((&partition["log_start"], &partition["log_start_exact"]), (&json!(0), &json!(true)));

    let groups = rig.json("/v1/stream/groups");
    let group = &groups["groups"][0];
    assert_eq!((&group["group"], &group["state"], &group["lag"]), (&json!("g 1"), &json!("Empty"), &json!(3)));
    assert_eq!(group["members"], json!([]));
    let row = &group["partitions"][0];
    assert_eq!((&row["committed"], &row["log_end"], &row["lag"]), (&json!(-3), &json!(0), &json!(3)));
    assert_eq!(rig.json("/v1/stream/groups?group=g+1&topic=c")["groups"][0]["partitions"], json!([]));
    assert_eq!(rig.json("/v1/stream/groups?topic=c")["groups"], json!([]));
    assert_eq!(rig.json("/v1/stream/groups?topic=a.b")["groups"], groups["groups"]);

    rig.refuses("GET /v1/stream/topics?topic=nobody", 404, "nobody");
    rig.refuses("GET /v1/stream/topics?topic=", 404, "no topic");
    rig.refuses("GET /v1/stream/topics?topic=%00%ff", 404, "no topic");
    rig.refuses("GET /v1/stream/groups?group=nobody", 404, "nobody");
    rig.refuses("GET /v1/stream/groups?topic=nobody", 404, "nobody");
    rig.store.set_outage(Some(Outage::Unavailable));
    rig.refuses("GET /v1/stream/topics", 503, "JetStream cannot be reached");
    rig.refuses("GET /v1/stream/groups?group=g+1", 503, "JetStream cannot be reached");
    assert_eq!(rig.json("/v1/stream/status")["connected"], json!(false));
}

#[test]
fn the_page_is_our_own_files_under_a_strict_policy() {
    let rig = Rig::new();
    let (head, html) = rig.send(b"GET /v1/stream/ HTTP/1.1\r\n\r\n");
    assert!(head.contains("script-src 'self'; style-src 'self'") && !head.contains("unsafe"), "{head}");
    assert!(
        !html.contains("<style") && !html.contains("style=") && !html.contains("onclick") && !html.contains("//"),
        "{html}"
    );
    let scripts: Vec<String> = ROUTES
        .iter()
        .filter(|route| route.path.ends_with(".js"))
        .map(|route| {
            let (status, script) = rig.ask(&format!("GET {}", route.path));
            assert_eq!(status, 200, "{}", route.path);
            script
        })
        .collect();
    for linked in html.split(['"', '\'']).filter(|text| text.starts_with('/')) {
        assert!(ROUTES.iter().any(|route| route.path == linked), "{linked} is not served");
    }
    for script in scripts {
        for way in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "http:",
            "https:",
        ] {
            assert!(!script.contains(way) || way == "http:" && script.contains("http://www.w3.org/2000/svg"), "{way}");
        }
    }
}

#[test]
fn records_are_not_shown_to_pages_of_another_name() {
    let rig = Rig::new();
    rig.create("t", 1);
    for (host, status) in [
        ("localhost:9093", 200),
        ("127.0.0.1:9093", 200),
        ("[::1]:9093", 200),
        ("gateway.localhost", 200),
        ("evil.example", 403),
        ("localhost.evil.example:9093", 403),
        ("127.0.0.1.evil.example", 403),
        ("", 403),
    ] {
        let request = format!("GET /v1/stream/records?topic=t HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let (head, body) = rig.send(request.as_bytes());
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{host}: {head} {body}");
    }
}

#[test]
fn metrics_come_also_while_the_store_is_away() {
    let rig = Rig::new();
    rig.create("t", 1);
    rig.commit("g", "t", 0, -7);
    let (status, text) = rig.ask("GET /metrics");
    assert_eq!(status, 200);
    assert!(text.contains("hanzo_kafka_group_lag{group=\"g\",topic=\"t\",partition=\"0\"} 7\n"), "{text}");
    rig.store.set_outage(Some(Outage::Unavailable));
    let (status, text) = rig.ask("GET /metrics");
    assert!(status == 200 && text.contains("\nhanzo_kafka_store_connected 0\n"), "{text}");
}

#[test]
fn slow_connections_make_room() {
    let rig = Rig::new();
    let mut slow: Vec<TcpStream> = (0..ADMIN_CONNECTIONS_MAX + 40).map(|_| rig.connect()).collect();
    for stream in &mut slow {
        // Those that were closed to make room may refuse it.
        let _ = stream.write_all(b"GET /healthz HTT");
    }
    rig.check("GET /healthz", 200, "ok\n");
    rig.check("GET /v1/stream/topics", 200, "{\"topics\":[]}");
    let mut closed = 0;
    for mut stream in slow {
        // All are ended by the deadline for heads.
        closed += usize::from(matches!(stream.read(&mut [0; 100]), Ok(0) | Err(_)));
    }
    assert_eq!(closed, ADMIN_CONNECTIONS_MAX + 40);
}
