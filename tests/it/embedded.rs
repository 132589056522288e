//! `--embedded`: the gateway brings its own nats-server, keeps it alive and takes it along.

use crate::harness::librdkafka::{self, numbered, texts};
use crate::harness::{Folder, Gateway, SOON, eventually};
use std::time::{Duration, Instant};

/// The pids of nats-servers whose command line names this folder.
fn servers_of(folder: &Folder) -> Vec<libc::pid_t> {
    let name = folder.path().to_str().expect("a path of ours is UTF-8").as_bytes();
    let mut pids = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let program = command.split(|byte| *byte == 0).next().unwrap_or_default();
        if program.ends_with(b"nats-server") && command.windows(name.len()).any(|part| part == name) {
            pids.push(pid);
        }
    }
    pids
}

#[test]
fn an_embedded_store_starts_quickly_and_keeps_its_data() {
    let folder = Folder::new("embedded");
    let started = Instant::now();
    let mut gateway = Gateway::embedded(&folder.path().join("data"), &[]);
    let took = started.elapsed();
    assert!(took < Duration::from_secs(5), "ready after {took:?}");
    librdkafka::produce(&gateway.bootstrap(), "t", &[], &numbered(100));
    for kill in [false, true] {
        if kill {
            gateway.kill();
        } else {
            assert!(gateway.terminate().success(), "SIGTERM is a normal end");
        }
        gateway.restart();
        assert_eq!(texts(&librdkafka::consume(&gateway.bootstrap(), "t", 100)), numbered(100));
    }
}

#[test]
fn retention_that_the_disk_could_not_hold_is_no_reason_to_refuse_a_topic() {
    let folder = Folder::new("embedded");
    let gateway = Gateway::embedded(&folder.path().join("data"), &[]);
    let hundred_terabytes = ("retention.bytes", "100000000000000");
    assert_eq!(gateway.wire().create_topic_with("wide", 4, &[hundred_terabytes]), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn an_embedded_store_that_dies_is_started_again_and_ends_with_the_gateway() {
    let folder = Folder::new("embedded");
    let mut gateway = Gateway::embedded(&folder.path().join("data"), &[]);
    librdkafka::produce(&gateway.bootstrap(), "t", &[], &numbered(10));
    let servers = servers_of(&folder);
    assert_eq!(servers.len(), 1, "one nats-server runs on the data");
    // SAFETY: kill has no memory effects; the pid is the server's that this test's gateway started.
    unsafe { libc::kill(servers[0], libc::SIGKILL) };
    let settings = [("message.timeout.ms", "60000"), ("enable.idempotence", "true")];
    librdkafka::produce(&gateway.bootstrap(), "t", &settings, &numbered(10));
    assert_eq!(librdkafka::consume(&gateway.bootstrap(), "t", 20).len(), 20);
    assert_ne!(servers_of(&folder), servers, "another server runs now");
    gateway.terminate();
    eventually("the server ends with its gateway", SOON, || servers_of(&folder).is_empty().then_some(()));
}

#[cfg(target_os = "linux")]
#[test]
fn an_embedded_store_does_not_outlive_a_killed_gateway() {
    let folder = Folder::new("embedded");
    let mut gateway = Gateway::embedded(&folder.path().join("data"), &[]);
    assert_eq!(servers_of(&folder).len(), 1);
    gateway.kill();
    eventually("the server is gone, or taken over by the next", SOON, || {
        gateway.restart();
        (servers_of(&folder).len() == 1).then_some(())
    });
    gateway.terminate();
    eventually("the server ends with its gateway", SOON, || servers_of(&folder).is_empty().then_some(()));
}
