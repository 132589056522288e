//! Peers that are no Kafka clients, or bad ones: they cost their own connection and a bounded amount of memory.

use crate::harness::batch::Batch;
use crate::harness::{Gateway, Nats, Version, Wire};
use kafka_protocol::messages::ApiVersionsRequest;
use std::time::Duration;

/// What hostile peers may make the process grow by, all together: frames in flight have a budget, connections a cap.
const GROWTH_MAX: u64 = 256 << 20;

#[track_caller]
fn expect_served(gateway: &mut Gateway, before: Option<u64>) {
    assert!(gateway.process().exited().is_none(), "the gateway lives");
    assert_eq!(gateway.wire().call(0, &ApiVersionsRequest::default()).error_code, 0);
    if let (Some(before), Some(after)) = (before, gateway.process().resident_bytes()) {
        assert!(after < before + GROWTH_MAX, "memory grew from {before} to {after} bytes");
    }
}

#[test]
fn bytes_that_are_no_kafka_request_cost_one_connection() {
    let nats = Nats::start(Version::Newest);
    let mut gateway = Gateway::start(&nats, &[]);
    let mut bystander = gateway.wire();
    bystander.create_topic("t", 1);
    let hellos: [&[u8]; 7] = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and more of a TLS hello",
        b"\x80\x00\x00\x00",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x00",
        b"\x7f\xff\xff\xff\x00\x03\x00\x01",
        b"\x00\x00\x00\x02\x00\x03",
    ];
    for hello in hellos {
        let mut wire = gateway.wire();
        wire.send_bytes(hello).expect("sent");
        assert!(wire.is_closed_within(Duration::from_secs(10)), "{:?}", String::from_utf8_lossy(hello));
        bystander.produce_ok("t", 0, &Batch::of(["untouched"]));
    }
    expect_served(&mut gateway, None);
}

#[test]
fn huge_counts_in_small_frames_cost_no_memory() {
    let nats = Nats::start(Version::Newest);
    let mut gateway = Gateway::start(&nats, &[]);
    let before = gateway.process().resident_bytes();
    // Metadata v1, Produce v3, Fetch v4 and more: a header, then an array said to have 2^31 - 1 elements.
    for (key, version, start) in [
        (3_i16, 1_i16, &b""[..]),
        (0, 3, b"\xff\xff\x00\x01\x00\x00\x75\x30"),
        (1, 4, b"\xff\xff\xff\xff\x00\x00\x00\x64\x00\x00\x00\x01\x00\x10\x00\x00\x00"),
        (2, 1, b"\xff\xff\xff\xff"),
        (19, 2, b""),
        (42, 0, b""),
    ] {
        let mut frame = Vec::new();
        frame.extend(key.to_be_bytes());
        frame.extend(version.to_be_bytes());
        frame.extend(1_i32.to_be_bytes());
        frame.extend((-1_i16).to_be_bytes());
        frame.extend(start);
        frame.extend(i32::MAX.to_be_bytes());
        let mut sent = u32::try_from(frame.len()).expect("small").to_be_bytes().to_vec();
        sent.extend(frame);
        let mut wire = gateway.wire();
        wire.send_bytes(&sent).expect("sent");
        assert!(wire.is_closed_within(Duration::from_secs(10)), "key {key}");
    }
    expect_served(&mut gateway, before);
}

#[test]
fn ten_thousand_half_open_frames_stay_within_the_memory_budget() {
    let nats = Nats::start(Version::Newest);
    let mut gateway = Gateway::start(&nats, &[]);
    let before = gateway.process().resident_bytes();
    let count = open_files_allowed().saturating_sub(500).min(10_000);
    // A frame of 1 MiB that stops after its first bytes.
    let mut held: Vec<Wire> = Vec::new();
    for _ in 0..count {
        let Ok(mut wire) = Wire::try_connect(gateway.port) else { break };
        // Above its cap of connections the gateway hangs up; that is an answer too.
        let _ = wire.send_bytes(b"\x00\x10\x00\x00\x00\x00\x00\x09\x00\x00\x00\x01\x00\x04half");
        held.push(wire);
    }
    assert!(held.len() > 500, "only {} connections could be opened", held.len());
    if let (Some(before), Some(after)) = (before, gateway.process().resident_bytes()) {
        assert!(after < before + GROWTH_MAX, "{} half frames took {} bytes", held.len(), after - before);
    }
    drop(held);
    let port = gateway.port;
    crate::harness::eventually("new connections are served", Duration::from_secs(20), || {
        Wire::try_connect(port).ok()?.try_call(0, &ApiVersionsRequest::default()).ok()
    });
    expect_served(&mut gateway, before);
}

/// Raises the limit of open files as far as it goes and gives it.
fn open_files_allowed() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls only read or write `limit`, which lives long enough.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max.min(65_536);
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
    limit.rlim_cur
}

#[test]
fn a_peer_that_never_reads_blocks_nobody() {
    let nats = Nats::start(Version::Newest);
    let mut gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    wire.create_topic("t", 1);
    for _ in 0..20 {
        wire.produce_ok("t", 0, &Batch::of([vec![b'x'; 500_000]]));
    }
    let before = gateway.process().resident_bytes();
    // Each asks for 10 MB again and again and reads nothing.
    let mut deaf: Vec<Wire> = (0..30).map(|_| gateway.wire()).collect();
    for wire in &mut deaf {
        for _ in 0..5 {
            wire.send(12, &crate::harness::wire::fetch_request("t", 0, 0));
        }
    }
    for _ in 0..20 {
        wire.produce_ok("t", 0, &Batch::of(["through"]));
    }
    expect_served(&mut gateway, before.map(|bytes| bytes + (128 << 20)));
}
