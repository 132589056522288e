//! Several gateway processes on one store: clients see one cluster, whichever they ask, and whichever dies.

use crate::harness::balancer::Balancer;
use crate::harness::batch::Batch;
use crate::harness::librdkafka::{self, numbered, texts};
use crate::harness::wire::{LATEST, fetch_request, partition_data};
use crate::harness::{Gateway, Nats, SOON, Version, Wire, eventually, free_port};
use crate::on_each_server;
use kafka_protocol::messages::{DescribeClusterRequest, FetchRequest, MetadataRequest};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Well above what a lease takes to run out: 4 s after it was last seen renewed.
const LEASE_GONE: Duration = Duration::from_secs(20);

/// What Metadata says of the cluster.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    cluster_id: String,
    controller: i32,
    /// Ports by broker id.
    brokers: BTreeMap<i32, i32>,
    /// Of topic t, by partition.
    leaders: Vec<i32>,
}

fn seen(wire: &mut Wire) -> Seen {
    let response = wire.call(12, &MetadataRequest::default().with_topics(None));
    let of_t = response.topics.iter().filter(|topic| topic.name.as_ref().is_some_and(|name| &*name.0 == "t"));
    let mut leaders: Vec<(i32, i32)> =
        of_t.flat_map(|topic| &topic.partitions).map(|row| (row.partition_index, row.leader_id.0)).collect();
    leaders.sort();
    Seen {
        cluster_id: response.cluster_id.map(|id| id.to_string()).unwrap_or_default(),
        controller: response.controller_id.0,
        brokers: response.brokers.iter().map(|broker| (broker.node_id.0, broker.port)).collect(),
        leaders: leaders.into_iter().map(|(_, leader)| leader).collect(),
    }
}

/// Waits until all of these name the same brokers, so many, and gives what they say.
#[track_caller]
fn agreed(gateways: &[&Gateway], brokers: usize, limit: Duration) -> Seen {
    eventually("all gateways say the same", limit, || {
        let mut answers = gateways.iter().map(|gateway| seen(&mut gateway.wire()));
        let first = answers.next()?;
        (first.brokers.len() == brokers && answers.all(|other| other == first)).then_some(first)
    })
}

fn ports(gateways: &[&Gateway]) -> Vec<i32> {
    gateways.iter().map(|gateway| i32::from(gateway.port)).collect()
}

fn moved(before: &[i32], after: &[i32]) -> Vec<(i32, i32)> {
    before.iter().zip(after).filter(|(a, b)| a != b).map(|(a, b)| (*a, *b)).collect()
}

on_each_server! {
    fn every_gateway_names_the_same_brokers_and_leaders(version) {
        const PARTITIONS: i32 = 60;
        let nats = Nats::start(version);
        let mut a = Gateway::start(&nats, &[]);
        let mut b = Gateway::start(&nats, &[]);
        a.wire().create_topic("t", PARTITIONS);
        let two = agreed(&[&a, &b], 2, SOON);
        assert_eq!(two.brokers, (1..).zip(ports(&[&a, &b])).collect(), "ids in the order in which they came");
        assert!(!two.cluster_id.is_empty() && two.controller == 1);
        assert_eq!(two.leaders.len(), PARTITIONS as usize);
        assert!([1, 2].iter().all(|id| two.leaders.iter().filter(|leader| *leader == id).count() >= 15), "{two:?}");

        let mut c = Gateway::start(&nats, &[]);
        let three = agreed(&[&a, &b, &c], 3, SOON);
        let changes = moved(&two.leaders, &three.leaders);
        assert!(!changes.is_empty() && changes.iter().all(|(_, after)| *after == 3), "only its share moves: {changes:?}");
        let described = c.wire().call(0, &DescribeClusterRequest::default());
        let ids: Vec<i32> = described.brokers.iter().map(|broker| broker.broker_id.0).collect();
        assert_eq!((ids, described.controller_id.0), (vec![1, 2, 3], 1));

        // A graceful stop is known at once.
        c.terminate();
        let began = Instant::now();
        let left = agreed(&[&a, &b], 2, LEASE_GONE);
        assert_eq!(left, two);
        eprintln!("a gateway that stopped was gone {:?} after its end", began.elapsed());
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());

        // One that is killed, when its lease has run out.
        let began = Instant::now();
        b.kill();
        let one = agreed(&[&a], 1, LEASE_GONE);
        eprintln!("a gateway that was killed was gone {:?} later", began.elapsed());
        assert!(one.leaders.iter().all(|leader| *leader == 1));

        // Each keeps its id, whoever starts first.
        a.kill();
        c.restart();
        b.restart();
        a.restart();
        assert_eq!(agreed(&[&a, &b, &c], 3, LEASE_GONE), three);
    }

    fn a_gateway_that_was_frozen_is_no_broker_until_it_wakes(version) {
        let nats = Nats::start(version);
        let a = Gateway::start(&nats, &[]);
        let mut b = Gateway::start(&nats, &[]);
        a.wire().create_topic("t", 4);
        agreed(&[&a, &b], 2, SOON);
        b.process().signal(libc::SIGSTOP);
        agreed(&[&a], 1, LEASE_GONE);
        b.process().signal(libc::SIGCONT);
        agreed(&[&a, &b], 2, SOON);
    }

    fn behind_one_address_gateways_are_one_broker(version) {
        let nats = Nats::start(version);
        let balancer = Balancer::start(free_port());
        let advertise = format!("--advertise={}", balancer.address());
        let mut gateways: Vec<Gateway> = (0..3).map(|_| Gateway::start(&nats, &[&advertise])).collect();
        gateways.iter().for_each(|gateway| balancer.add(gateway.port));
        let mut wire = Wire::connect(balancer.port);
        wire.create_topic("t", 4);
        for _ in 0..4 {
            let seen = seen(&mut Wire::connect(balancer.port));
            assert_eq!(seen.brokers, BTreeMap::from([(1, i32::from(balancer.port))]));
            assert_eq!(seen.leaders, [1; 4]);
        }
        // A producer and a reader go on, though one gateway after the other is killed and comes back.
        let values = numbered(3_000);
        let producer = librdkafka::producer(&balancer.address(), &[("enable.idempotence", "true")]);
        for (gateway, part) in gateways.iter_mut().zip(values.chunks(1_000)) {
            for value in &part[..500] {
                producer.send_value("t", 0, value.as_bytes());
            }
            gateway.kill();
            for value in &part[500..] {
                producer.send_value("t", 0, value.as_bytes());
            }
            producer.flush();
            gateway.restart();
        }
        let acked = producer.finish();
        assert_eq!(acked.len(), values.len(), "all were acknowledged");
        let got = librdkafka::take(&librdkafka::assigned(&balancer.address(), "t", 0, rdkafka::Offset::Beginning), 3_000);
        assert_eq!(texts(&got), values, "each once, in order");
    }

    fn a_fetch_wakes_within_milliseconds_of_a_produce_elsewhere(version) {
        const ROUNDS: i64 = 40;
        let nats = Nats::start(version);
        let (one, two) = (Gateway::start(&nats, &[]), Gateway::start(&nats, &[]));
        let (mut a, mut b) = (one.wire(), two.wire());
        a.create_topic("t", 1);
        let first = a.produce_ok("t", 0, &Batch::of(["x"]));
        eventually("the other knows the end", SOON, || (b.list_offset("t", 0, LATEST) == first + 1).then_some(()));
        let mut waits: Vec<Duration> = (1..=ROUNDS)
            .map(|round| {
                b.send(12, &fetch_request("t", 0, round).with_max_wait_ms(20_000));
                // Only what is parked can be woken.
                std::thread::sleep(Duration::from_millis(30));
                a.produce_ok("t", 0, &Batch::of(["x"]));
                let acked = Instant::now();
                let (_, response) = b.receive::<FetchRequest>(12);
                assert_eq!(partition_data(response).high_watermark, round + 1);
                acked.elapsed()
            })
            .collect();
        waits.sort();
        let median = waits[waits.len() / 2];
        eprintln!("woken {median:?} after the acknowledgement (median), {:?} at worst", waits[waits.len() - 1]);
        // Milliseconds; only a machine with nothing to spare needs more. The slow poll would take seconds.
        assert!(median < Duration::from_secs(1), "{waits:?}");
    }

    /// A record whose tick is lost (here: that another program stored) is found when ticks are seen to be missing.
    fn missed_ticks_make_waiting_fetches_look_again(version) {
        let nats = Nats::start(version);
        let gateway = Gateway::start(&nats, &[]);
        let mut wire = gateway.wire();
        wire.create_topic("t", 1);
        let first = wire.produce_ok("t", 0, &Batch::of(["x"]));
        let mut jetstream = nats.jetstream();
        let mut quick = 0;
        for round in 1..=6 {
            wire.send(12, &fetch_request("t", 0, first + round).with_max_wait_ms(20_000));
            std::thread::sleep(Duration::from_millis(50));
            let mut batch = Batch::of(["y"]).encode().to_vec();
            batch[..8].copy_from_slice(&(first + round).to_be_bytes());
            jetstream.store("kafka.t.0", "", &batch);
            // Heard for the first time: whatever it stored before was missed.
            let began = Instant::now();
            jetstream.publish_all(&format!("_kafka.tick.stranger{round}"), [&b"7"[..]]);
            let (_, response) = wire.receive::<FetchRequest>(12);
            assert_eq!(partition_data(response).high_watermark, first + round + 1);
            quick += i32::from(began.elapsed() < Duration::from_secs(1));
        }
        assert!(quick >= 4, "only the slow poll found what was missed: {quick} of 6 were quick");
    }
}

#[test]
fn two_gateways_with_one_id_are_told_alike() {
    let nats = Nats::start(Version::Newest);
    let a = Gateway::start(&nats, &["--node-id=4"]);
    let mut b = Gateway::start(&nats, &["--node-id=4"]);
    let winner = i32::from(a.port.min(b.port));
    let told = eventually("both tell one of them", SOON, || {
        let (a, b) = (seen(&mut a.wire()), seen(&mut b.wire()));
        (a == b).then_some(a.brokers)
    });
    assert_eq!(told, BTreeMap::from([(4, winner)]));
    eventually("the error is logged", SOON, || {
        let log = if b.port == winner as u16 { return Some(()) } else { b.process().log_tail() };
        log.contains("another gateway claims our broker id").then_some(())
    });
}
