//! What a group's request costs more that comes to another gateway than the group's own.

use crate::harness::member::{RawMember, coordinator};
use crate::harness::{Gateway, Nats, Version, Wire};
use crate::{Scale, median};
use std::time::{Duration, Instant};

pub fn measure(scale: &Scale) {
    let nats = Nats::start(Version::Newest);
    let gateways: Vec<Gateway> = (0..2).map(|_| Gateway::start(&nats, &["--log-level=info"])).collect();
    gateways[0].wire().create_topic("t", 1);
    let member = RawMember::join_alone(&mut gateways[0].wire(), "g", None, 600_000);
    let owner = coordinator(&mut gateways[0].wire(), "g");
    let mut direct = Wire::connect(owner);
    let other = gateways.iter().find(|gateway| gateway.port != owner).expect("two gateways");
    let mut forwarded = other.wire();
    let mut offset = 0;
    for (name, ask) in [("Heartbeat", false), ("OffsetCommit", true)] {
        let (mut times, mut times_forwarded) = (Vec::new(), Vec::new());
        for round in 0..scale.latency_records * 2 {
            let is_direct = round % 2 == 0;
            let wire = if is_direct { &mut direct } else { &mut forwarded };
            offset += 1;
            let began = Instant::now();
            let code = if ask { member.try_commit(wire, offset) } else { member.try_heartbeat(wire) };
            let took = began.elapsed();
            assert_eq!(code.ok(), Some(0));
            if is_direct { &mut times } else { &mut times_forwarded }.push(millis(took));
        }
        let (direct, forwarded) = (median(times), median(times_forwarded));
        println!(
            "forward: {name} {direct:.3} ms at its owner, {forwarded:.3} ms through another gateway: {:.3} ms more (medians)",
            forwarded - direct
        );
    }
}

fn millis(took: Duration) -> f64 {
    took.as_secs_f64() * 1000.0
}
