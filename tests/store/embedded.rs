//! The embedded server: ready soon, restarted when it dies, gone when we are.

use super::{contract, logger, server, soon};
use hanzo_kafka::config;
use hanzo_kafka::store::embedded::{Embedded, EmbeddedError};
use hanzo_kafka::store::nats::{NatsOptions, NatsStore};
use hanzo_kafka::store::{From, Pick, Sequence, Store};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A directory that goes with the test.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("hanzo-kafka-embedded-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        Dir(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn start(dir: &Path) -> Result<Embedded, EmbeddedError> {
    Embedded::start(&config::Embedded { data_dir: dir.to_owned(), nats_server: Some(server::newest()) }, logger())
}

fn store(embedded: &Embedded) -> Arc<NatsStore> {
    let options = NatsOptions { urls: vec![embedded.url()], name: "test".to_owned(), ..NatsOptions::default() };
    let store = NatsStore::connect(options, logger()).expect("the options are good");
    store.wait_ready(soon()).expect("the server runs");
    store
}

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let until = soon();
    while !condition() {
        assert!(Instant::now() < until, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn it_is_ready_soon_and_data_survives_a_stop() {
    let dir = Dir::new("restart");
    let began = Instant::now();
    let embedded = start(&dir.0).expect("it starts");
    let took = began.elapsed();
    println!("ready after {} ms", took.as_millis());
    assert!(took < Duration::from_secs(2), "{took:?}");
    let pid = embedded.pid().expect("it runs");
    {
        let store = store(&embedded);
        assert_eq!(store.info().max_payload, 8 << 20);
        contract::fresh(&*store, "kept");
        contract::send(&*store, "kept", "data");
    }
    embedded.stop();
    assert!(!is_alive(pid) && embedded.pid().is_none());
    let embedded = start(&dir.0).expect("it starts again");
    let message =
        store(&embedded).message_get("kept", Pick::At(Sequence(1)), From::Leader, soon()).expect("it is kept");
    assert_eq!(message.payload.as_ref(), b"data");
}

#[test]
fn a_server_that_dies_is_started_again_at_the_same_place() {
    let dir = Dir::new("dies");
    let embedded = start(&dir.0).expect("it starts");
    let store = store(&embedded);
    contract::fresh(&*store, "kept");
    let pid = embedded.pid().expect("it runs");
    // SAFETY: kill touches no memory; the child is supervised and its id its own until it is dead.
    unsafe { libc::kill(i32::try_from(pid).expect("pids are small"), libc::SIGKILL) };
    wait_until("a new server", || embedded.pid().is_some_and(|new| new != pid));
    wait_until("an answer", || store.stream_info("kept", soon()).is_ok());
}

#[test]
fn a_data_directory_has_one_server() {
    let dir = Dir::new("twice");
    let _embedded = start(&dir.0).expect("it starts");
    assert!(matches!(start(&dir.0).map(drop), Err(EmbeddedError::InUse { .. })));
}

#[test]
fn what_the_server_says_when_it_does_not_start_is_told() {
    let dir = Dir::new("refuses");
    std::fs::create_dir_all(&dir.0).expect("it is writable");
    std::fs::write(dir.0.join("jetstream"), "a file where the store should be").expect("it is writable");
    match start(&dir.0).map(drop) {
        Err(EmbeddedError::NotReady { log, .. }) => assert!(log.to_lowercase().contains("jetstream"), "{log}"),
        other => panic!("{other:?}"),
    }
}

/// The process that `a_killed_gateway_takes_its_server_along` kills.
#[test]
fn stand_in_gateway() {
    if let Some(dir) = std::env::var_os("EMBEDDED_STAND_IN") {
        let embedded = start(Path::new(&dir)).expect("it starts");
        println!("\npid {}", embedded.pid().expect("it runs"));
        std::thread::sleep(Duration::from_secs(60));
    }
}

#[test]
fn a_killed_gateway_takes_its_server_along() {
    let dir = Dir::new("killed");
    let mut gateway = Command::new(std::env::current_exe().expect("it is known"))
        .args(["--exact", "embedded::stand_in_gateway", "--nocapture"])
        .env("EMBEDDED_STAND_IN", &dir.0)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let lines = BufReader::new(gateway.stdout.take().expect("it is piped")).lines();
    let pid = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("pid ")?.parse().ok()).expect("it starts");
    gateway.kill().expect("it is ours");
    gateway.wait().expect("it is ours");
    let embedded = start(&dir.0).expect("the directory is free at once");
    assert!(!is_alive(pid));
    assert_ne!(embedded.pid(), Some(pid));
}
