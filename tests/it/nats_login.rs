//! Gateways that log in to NATS, and what a nats-server must let them do.

use crate::harness::batch::Batch;
use crate::harness::librdkafka::{self, numbered, texts};
use crate::harness::process::Process;
use crate::harness::wire::{LATEST, fetch_request, partition_data};
use crate::harness::{Folder, Gateway, JetStream, SOON, Version, eventually, free_port, tool};
use crate::on_each_server;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kafka_protocol::messages::FetchRequest;
use nkeys::KeyPair;
use rdkafka::consumer::{CommitMode, Consumer};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A nats-server that asks for a login.
struct Guarded {
    port: u16,
    version: Version,
    folder: Folder,
    process: Option<Process>,
}

impl Guarded {
    fn start(version: Version, logins: &str) -> Guarded {
        let mut server = Guarded { port: free_port(), version, folder: Folder::new("nats"), process: None };
        server.restart(logins);
        server
    }

    /// Starts it (again) with other logins.
    fn restart(&mut self, logins: &str) {
        self.process = None;
        let config = format!(
            "listen: \"127.0.0.1:{}\"\nserver_name: guarded\nmax_payload: 8388608\n\
             jetstream {{ store_dir: \"{}\", max_file_store: 1TB }}\n{logins}\n",
            self.port,
            self.path("data").display()
        );
        let path = self.path("nats.conf");
        std::fs::write(&path, config).expect("the configuration is written");
        let binary = match self.version {
            Version::Newest => tool("nats-server"),
            Version::Oldest => tool("nats-server-2.10"),
        };
        let mut command = Command::new(binary);
        command.arg("-c").arg(path).stdout(Stdio::null());
        let process = self.process.insert(Process::start(command, &self.folder.path().join("log")));
        let port = self.port;
        eventually("nats-server listens", SOON, || {
            assert!(process.exited().is_none(), "nats-server exited:\n{}", process.log_tail());
            std::net::TcpStream::connect(("127.0.0.1", port)).ok()
        });
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).expect("a file is written");
        path.to_str().expect("a path of ours is UTF-8").to_owned()
    }

    fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }
}

/// A gateway with these flags serves.
#[track_caller]
fn serves(url: &str, flags: &[&str]) {
    let mut gateway = Gateway::not_ready(url, flags);
    gateway.wait_ready();
    let mut wire = gateway.wire();
    wire.create_topic("t", 1);
    assert_eq!(wire.produce_ok("t", 0, &Batch::of(["x"])), 0);
    assert_eq!(wire.read_all("t", 0, 0).len(), 1);
    assert_eq!(wire.delete_topic("t"), 0);
}

/// One line tells what is wrong, at the start and no more often, and the gateway keeps trying.
#[track_caller]
fn is_told(url: &str, flags: &[&str], words: &[&str]) -> Gateway {
    let mut gateway = Gateway::not_ready(url, flags);
    eventually("the reason is logged", SOON, || {
        let log = gateway.process().log();
        let line = log.lines().find(|line| line.contains("level=warn") && words.iter().all(|word| line.contains(word)));
        line.map(str::to_owned)
    });
    gateway
}

fn pair_of(seed_of: fn() -> KeyPair) -> (KeyPair, String) {
    let pair = seed_of();
    let seed = pair.seed().expect("a new pair has its seed");
    (pair, seed)
}

on_each_server! {
    fn by_token(version) {
        let server = Guarded::start(version, "authorization { token: \"s3cr3t\" }");
        let (good, bad) = (server.file("token", "s3cr3t\n"), server.file("bad", "guess"));
        serves(&server.url(), &[&format!("--nats-token-file={good}")]);
        serves(&format!("nats://s3cr3t@127.0.0.1:{}", server.port), &[]);
        is_told(&server.url(), &[&format!("--nats-token-file={bad}")], &["refuses the login", "Authorization Violation"]);
    }

    fn by_user_and_password(version) {
        let logins = |password: &str| format!("authorization {{ users = [{{ user: kafka, password: \"{password}\" }}] }}");
        let mut server = Guarded::start(version, &logins("old"));
        let file = server.file("password", "old");
        let flags = ["--nats-user=kafka".to_owned(), format!("--nats-password-file={file}")];
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        serves(&server.url(), &flags);
        serves(&format!("nats://kafka:old@127.0.0.1:{}", server.port), &[]);
        let mut refused = is_told(&server.url(), &[], &["refuses the login"]);
        assert!(refused.process().exited().is_none(), "it keeps trying");

        // A password that is replaced while the gateway runs is read at the next attempt.
        let mut gateway = Gateway::not_ready(&server.url(), &flags);
        gateway.wait_ready();
        let mut wire = gateway.wire();
        wire.create_topic("t", 1);
        server.restart(&logins("new"));
        eventually("the refusal is logged", SOON, || {
            gateway.process().log().contains("refuses the login").then_some(())
        });
        server.file("password", "new\n");
        eventually("records are taken again", SOON, || (wire.produce("t", 0, &Batch::of(["x"])).0 == 0).then_some(()));
    }

    fn by_nkey(version) {
        let (pair, seed) = pair_of(KeyPair::new_user);
        let (_, other) = pair_of(KeyPair::new_user);
        let logins = format!("authorization {{ users = [{{ nkey: {} }}] }}", pair.public_key());
        let server = Guarded::start(version, &logins);
        let (good, bad) = (server.file("good.nk", &format!("{seed}\n")), server.file("bad.nk", &other));
        serves(&server.url(), &[&format!("--nats-nkey={good}")]);
        is_told(&server.url(), &[&format!("--nats-nkey={bad}")], &["refuses the login"]);
    }

    fn by_credentials_file(version) {
        let (operator, account) = (KeyPair::new_operator(), KeyPair::new_account());
        let (system, (user, seed)) = (KeyPair::new_account(), pair_of(KeyPair::new_user));
        let limits = json!({
            "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
            "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
        });
        let account_jwt = jwt(&operator, &account, json!({ "type": "account", "version": 2, "limits": limits }));
        // JetStream must not be on in the system account.
        let mut no_storage = limits.clone();
        (no_storage["mem_storage"], no_storage["disk_storage"]) = (json!(0), json!(0));
        let system_jwt = jwt(&operator, &system, json!({ "type": "account", "version": 2, "limits": no_storage }));
        let operator_jwt = jwt(&operator, &operator, json!({
            "type": "operator", "version": 2, "system_account": system.public_key(),
        }));
        let logins = format!(
            "operator: {operator_jwt}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{\n {}: {account_jwt}\n {}: \
             {system_jwt}\n}}",
            system.public_key(), account.public_key(), system.public_key()
        );
        let server = Guarded::start(version, &logins);
        let claims = json!({ "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1 });
        let creds = |jwt: String| format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n{seed}\n\
             ------END USER NKEY SEED------\n"
        );
        let good = server.file("good.creds", &creds(jwt(&account, &user, claims.clone())));
        let stranger = KeyPair::new_account();
        let bad = server.file("bad.creds", &creds(jwt(&stranger, &user, claims)));
        serves(&server.url(), &[&format!("--nats-creds={good}")]);
        is_told(&server.url(), &[&format!("--nats-creds={bad}")], &["refuses the login"]);
    }

    /// Everything a gateway does, with the permissions that are documented and no others.
    fn the_documented_permissions_suffice(version) {
        let permissions = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/nats-permissions.conf");
        let permissions = std::fs::read_to_string(permissions).expect("it is there");
        let logins = format!(
            "{permissions}\nno_auth_user: looker\nauthorization {{ users = [\
             {{ user: kafka, password: \"k\", permissions: $KAFKA_GATEWAY }}, {{ user: looker, password: \"l\" }}] }}"
        );
        let server = Guarded::start(version, &logins);
        let url = format!("nats://kafka:k@127.0.0.1:{}", server.port);
        let mut gateways: Vec<Gateway> = (0..2).map(|_| Gateway::not_ready(&url, &[])).collect();
        for gateway in &mut gateways {
            gateway.wait_ready();
        }
        let (mut a, mut b) = (gateways[0].wire(), gateways[1].wire());

        // Topics, records, producer ids; what one creates the other knows (advisories), and a produce wakes it (ticks).
        a.create_topic("t", 2);
        let values = numbered(200);
        let acked = librdkafka::produce(&gateways[0].bootstrap(), "t", &[("enable.idempotence", "true")], &values);
        assert_eq!(acked.len(), values.len());
        let end = eventually("the other knows the end", SOON, || {
            let ends = [b.list_offset("t", 0, LATEST), b.list_offset("t", 1, LATEST)];
            (ends.iter().sum::<i64>() == 200).then_some(ends[0])
        });
        b.send(12, &fetch_request("t", 0, end).with_max_wait_ms(30_000));
        std::thread::sleep(Duration::from_millis(50));
        a.produce_ok("t", 0, &Batch::of(["woken"]));
        let (_, response) = b.receive::<FetchRequest>(12);
        assert_eq!(partition_data(response).high_watermark, end + 1);
        assert!(b.list_offset("t", 0, 0) >= 0, "a search by time");

        // Groups, through either gateway.
        for gateway in &gateways {
            let settings = [("group.id", "g"), ("auto.offset.reset", "earliest")];
            let consumer = librdkafka::consumer(&gateway.bootstrap(), &settings);
            consumer.subscribe(&["t"]).expect("a subscription");
            if gateway.port == gateways[0].port {
                let got = librdkafka::take(&consumer, 201);
                assert_eq!(texts(&got).len(), 201);
                eventually("a commit", SOON, || consumer.commit_consumer_state(CommitMode::Sync).ok());
            }
        }
        assert_eq!(b.delete_topic("t"), 0);
        eventually("the other knows that it is gone", SOON, || (a.topic("t").error_code == 3).then_some(()));

        for gateway in &mut gateways {
            assert!(gateway.terminate().success());
        }
        for gateway in &gateways {
            let log = gateway.log_text();
            assert!(!log.contains("complains"), "{}", log.lines().filter(|line| line.contains("complains")).collect::<String>());
        }
        let mut looker = JetStream::try_connect(server.port).expect("nats-server answers");
        assert!(looker.stream_names().iter().any(|name| name == "KV_kafka-leases"));
    }
}

#[test]
fn a_right_that_is_missing_is_named() {
    let logins = "authorization { users = [{ user: kafka, password: k, permissions: { publish: { allow: [\"$JS.API.>\", \
                  \"$KV.>\", \"_kafka.>\"] }, subscribe: \">\" } }] }";
    let server = Guarded::start(Version::Newest, logins);
    let mut gateway = Gateway::not_ready(&format!("nats://kafka:k@127.0.0.1:{}", server.port), &[]);
    gateway.wait_ready();
    let mut wire = gateway.wire();
    wire.create_topic("t", 1);
    let (error, _) = wire.produce("t", 0, &Batch::of(["x"]));
    assert_ne!(error, 0);
    let log = gateway.log_text();
    assert!(log.contains("nats-server complains") && log.contains("kafka.t.0"), "{log}");
}

/// A token as nsc makes them.
fn jwt(issuer: &KeyPair, subject: &KeyPair, nats: Value) -> String {
    let header = json!({ "typ": "JWT", "alg": "ed25519-nkey" });
    let claims = json!({
        "jti": subject.public_key(), "iat": 1_700_000_000, "iss": issuer.public_key(), "sub": subject.public_key(),
        "name": "test", "nats": nats,
    });
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(&header), part(&claims));
    let signature = issuer.sign(signed.as_bytes()).expect("it has its seed");
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}
