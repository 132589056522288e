//! The median latency of one producer, alone and beside 2,000 idle connections and 200 parked fetches.

use crate::harness::batch::Batch;
use crate::harness::wire::fetch_request;
use crate::harness::{Gateway, Nats, Version, Wire};
use crate::{Scale, median};
use std::time::Instant;

const IDLE: usize = 2000;
const PARKED: usize = 200;

pub fn measure(scale: &Scale) {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &["--retention-bytes=-1", "--log-level=info"]);
    let mut wire = gateway.wire();
    wire.create_topic("busy", 1);
    wire.create_topic("quiet", 1);
    let (mut alone, mut crowded) = (Vec::new(), Vec::new());
    median_latency_us(&mut wire, scale.latency_records);
    for run in 0..scale.runs {
        alone.push(median_latency_us(&mut wire, scale.latency_records));
        let crowd = Crowd::gather(&gateway);
        crowded.push(median_latency_us(&mut wire, scale.latency_records));
        drop(crowd);
        println!("  run {run}: alone {:.0} us, in the crowd {:.0} us", alone[run], crowded[run]);
    }
    let (alone, crowded) = (median(alone), median(crowded));
    println!(
        "median produce latency, acks=all, one at a time: alone {alone:.0} us, beside {IDLE} idle connections and {PARKED} \
         parked fetches {crowded:.0} us, ratio {:.2} (wanted: at most 2.00)",
        crowded / alone
    );
}

fn median_latency_us(wire: &mut Wire, records: usize) -> f64 {
    let batch = Batch::of([[b'x'; 100]]);
    let latencies = (0..records).map(|_| {
        let started = Instant::now();
        wire.produce_ok("busy", 0, &batch);
        started.elapsed().as_secs_f64() * 1e6
    });
    median(latencies.collect())
}

/// Connections that say nothing, and fetches that wait; gone when dropped.
struct Crowd {
    _idle: Vec<Wire>,
    _parked: Vec<Wire>,
}

impl Crowd {
    fn gather(gateway: &Gateway) -> Crowd {
        let idle = (0..IDLE).map(|_| gateway.wire()).collect();
        let parked = (0..PARKED).map(|_| {
            let mut wire = gateway.wire();
            wire.send(12, &fetch_request("quiet", 0, 0).with_max_wait_ms(600_000));
            wire
        });
        let parked = parked.collect();
        // One answered request behind all of them: they have been accepted, and the fetches begun.
        gateway.wire().topic("quiet");
        Crowd { _idle: idle, _parked: parked }
    }
}
