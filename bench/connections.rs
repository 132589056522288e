//! Ten thousand connections over three gateways: that each is served, and what they take.

use crate::harness::batch::Batch;
use crate::harness::wire::fetch_request;
use crate::harness::{Gateway, Nats, Version, Wire};
use crate::{Scale, median};
use std::time::Instant;

const GATEWAYS: usize = 3;

/// Of so many connections one waits in a Fetch; the others have asked for metadata and rest.
const FETCHES_EVERY: usize = 10;

pub fn measure(scale: &Scale) {
    let nats = Nats::start(Version::Newest);
    let mut gateways: Vec<Gateway> =
        (0..GATEWAYS).map(|_| Gateway::start(&nats, &["--retention-bytes=-1", "--log-level=info"])).collect();
    gateways[0].wire().create_topic("busy", 1);
    gateways[0].wire().create_topic("quiet", 1);
    let idle_mib: Vec<u64> = gateways.iter_mut().map(resident_mib).collect();
    let alone = latency_us(&gateways, scale.latency_records);

    let began = Instant::now();
    let mut connections: Vec<Wire> = (0..scale.connections)
        .map(|number| {
            let mut wire = gateways[number % GATEWAYS].wire();
            assert_eq!(wire.topic("quiet").error_code, 0, "connection {number} is answered");
            if number % FETCHES_EVERY == 0 {
                wire.send(12, &fetch_request("quiet", 0, 0).with_max_wait_ms(600_000));
            }
            wire
        })
        .collect();
    let took = began.elapsed();
    let crowded = latency_us(&gateways, scale.latency_records);

    // One record wakes all fetches, through whichever gateway they wait.
    let began = Instant::now();
    gateways[1].wire().produce_ok("quiet", 0, &Batch::of(["x"]));
    for wire in connections.iter_mut().step_by(FETCHES_EVERY) {
        wire.read_frame().expect("the fetch is answered");
    }
    let woken = began.elapsed();
    // And every connection is still served.
    for (number, wire) in connections.iter_mut().enumerate() {
        assert_eq!(wire.topic("quiet").error_code, 0, "connection {number} is still answered");
    }
    println!("{} connections over {GATEWAYS} gateways, opened and answered in {took:.1?}", connections.len());
    for (gateway, idle) in gateways.iter_mut().zip(idle_mib) {
        let (resident, threads) = (resident_mib(gateway), threads(gateway));
        println!("  a gateway: {idle} MiB before, {resident} MiB with its share, {threads} threads");
    }
    println!(
        "  median produce latency: {alone:.0} us before, {crowded:.0} us beside them, ratio {:.2}",
        crowded / alone
    );
    println!("  {} waiting fetches answered {woken:.1?} after one record", connections.len().div_ceil(FETCHES_EVERY));
}

fn latency_us(gateways: &[Gateway], records: usize) -> f64 {
    let batch = Batch::of([[b'x'; 100]]);
    let mut wire = gateways[0].wire();
    wire.produce_ok("busy", 0, &batch);
    let latencies = (0..records).map(|_| {
        let started = Instant::now();
        wire.produce_ok("busy", 0, &batch);
        started.elapsed().as_secs_f64() * 1e6
    });
    median(latencies.collect())
}

fn resident_mib(gateway: &mut Gateway) -> u64 {
    gateway.process().resident_bytes().unwrap_or(0) / (1024 * 1024)
}

fn threads(gateway: &mut Gateway) -> usize {
    std::fs::read_dir(format!("/proc/{}/task", gateway.process().pid())).map_or(0, Iterator::count)
}
