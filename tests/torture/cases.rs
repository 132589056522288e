//! Named cases: each a way to lose, repeat or refuse a record that a design may overlook.

use crate::committer::{commit_request, lookup_request};
use crate::harness::batch::Batch;
use crate::harness::wire::{LATEST, RETRIABLE, produce_request, produced};
use crate::harness::{Gateway, SOON, Version, Wire, eventually};
use crate::nemesis::stream;
use crate::on_both_servers;
use crate::rig::{Config, RECOVERY, Rig, TOPIC};
use crate::run::say;
use crate::servers::Servers;
use kafka_protocol::messages::{ApiVersionsRequest, ProduceRequest};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn rig(servers: usize, version: Version, gateways: usize) -> Rig {
    Rig::start(Config { servers, version, gateways })
}

/// Produces one batch and gives error and base offset; none where the connection broke.
fn try_produce(port: u16, batch: &Batch, timeout_ms: i32) -> Option<(i16, i64)> {
    let mut wire = Wire::try_connect(port).ok()?;
    let request = produce_request(TOPIC, 0, batch.encode()).with_timeout_ms(timeout_ms);
    let answer = wire.try_call(9, &request).ok()?;
    Some(produced(&answer.responses[0].partition_responses[0]))
}

/// As clients do: again after what is retriable, and nothing else may come.
#[track_caller]
fn patiently(port: u16, batch: &Batch) -> i64 {
    eventually("the batch is taken", RECOVERY, || match try_produce(port, batch, 5_000)? {
        (0, base) => Some(base),
        (error, _) => {
            assert!(RETRIABLE.contains(&error), "error {error}");
            None
        }
    })
}

/// The whole of partition 0, read once the store is well.
#[track_caller]
fn log(port: u16) -> Vec<(i64, String)> {
    let mut wire = Wire::connect(port);
    eventually("the end is told", RECOVERY, || (wire.try_list_offset(TOPIC, 0, LATEST).0 == 0).then_some(()));
    wire.read_all(TOPIC, 0, 0)
}

fn same() -> Batch {
    Batch::of(["the same", "for all"])
}

/// Each of `producers`, spread over the gateways, sends the same batch `each` times; gives all base offsets.
fn produce_the_same(ports: &[u16], producers: usize, each: usize) -> Vec<i64> {
    let request = produce_request(TOPIC, 0, same().encode()).with_timeout_ms(50_000);
    let produce = |number: usize| {
        let mut wire = Wire::connect(ports[number % ports.len()]);
        let one = |_| {
            let answer = wire.call(9, &request);
            let (error, base) = produced(&answer.responses[0].partition_responses[0]);
            assert_eq!(error, 0, "it is only late");
            base
        };
        (0..each).map(one).collect::<Vec<i64>>()
    };
    std::thread::scope(|scope| {
        let produce = &produce;
        let running: Vec<_> = (0..producers).map(|number| scope.spawn(move || produce(number))).collect();
        running.into_iter().flat_map(|producer| producer.join().expect("no producer fails")).collect()
    })
}

on_both_servers! {
    /// The leader has proposed a message that nobody can read, and whose slot is taken all the same.
    fn a_publish_while_both_followers_are_stopped_is_stored_once_and_answered(version) {
        let rig = rig(3, version, 1);
        let port = rig.gateways[0].port;
        assert_eq!(patiently(port, &Batch::of(["before"])), 0);
        let leader = eventually("the stream has a leader", RECOVERY, || rig.servers.leader_of(&stream(0)));
        (0..3).filter(|index| *index != leader).for_each(|index| rig.servers.freeze(index));
        let mut open = rig.gateways[0].wire();
        open.send(9, &produce_request(TOPIC, 0, Batch::of(["open"]).encode()).with_timeout_ms(50_000));
        let repeated = Batch::of(["repeated"]).idempotent(4711, 0, 0);
        // Until the first attempt has run into its deadline, and the next ones have met a slot that is taken.
        let stopped = Instant::now();
        while stopped.elapsed() < Duration::from_secs(9) {
            let (error, _) = try_produce(port, &repeated, 2_000).expect("the gateway answers");
            assert!(RETRIABLE.contains(&error), "error {error}");
        }
        rig.servers.thaw_all();
        let (_, answer) = open.receive::<ProduceRequest>(9);
        let (error, open_at) = produced(&answer.responses[0].partition_responses[0]);
        assert_eq!(error, 0, "it was only late");
        let repeated_at = patiently(port, &repeated);
        // Which of the two was first in the log is the gateway's affair: they came on two connections.
        let mut expected = [(0, "before"), (open_at, "open"), (repeated_at, "repeated")];
        expected.sort_unstable();
        assert_eq!(log(port), expected.map(|(offset, value)| (offset, value.to_owned())));
    }

    /// The first attempt reaches the server after a look has found nothing, right before the second one.
    fn a_publish_that_comes_late_and_again_is_stored_once(version) {
        let rig = rig(1, version, 1);
        let port = rig.gateways[0].port;
        assert_eq!(patiently(port, &Batch::of(["before"])), 0);
        let proxy = rig.servers.proxies().next().expect("there is one server");
        proxy.hold_publishes();
        let mut open = rig.gateways[0].wire();
        open.send(9, &produce_request(TOPIC, 0, Batch::of(["open"]).encode()).with_timeout_ms(50_000));
        eventually("it is sent again", SOON, || (proxy.publishes_held() >= 2).then_some(()));
        proxy.release();
        let (_, answer) = open.receive::<ProduceRequest>(9);
        assert_eq!(produced(&answer.responses[0].partition_responses[0]), (0, 1), "it was only late");
        assert_eq!(patiently(port, &Batch::of(["after"])), 2);
        assert_eq!(log(port), [(0, "before"), (1, "open"), (2, "after")].map(|(at, value)| (at, value.to_owned())));
    }

    fn equal_batches_of_many_producers_are_told_apart_while_acks_are_lost_and_late(version) {
        let rig = rig(1, version, 2);
        let ports: Vec<u16> = rig.gateways.iter().map(|gateway| gateway.port).collect();
        patiently(ports[0], &same());
        rig.servers.proxies().for_each(|proxy| proxy.delay_acks(Duration::from_millis(3)));
        // One at each gateway: what they publish at a time is equal to the last byte.
        let mut bases = produce_the_same(&ports, 2, 100);
        for _ in 0..2 {
            rig.servers.proxies().for_each(|proxy| proxy.lose_next_ack());
            bases.extend(produce_the_same(&ports, 16, 5));
        }
        let distinct: BTreeSet<i64> = bases.iter().copied().collect();
        assert_eq!(distinct.len(), bases.len(), "an offset was given twice");
        let expected: Vec<i64> = (0..i64::try_from(2 * (1 + bases.len())).expect("small")).collect();
        assert_eq!(log(ports[1]).iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), expected, "all once");
    }

    fn a_stopped_server_with_full_sockets_costs_deadlines_and_nothing_more(version) {
        const WRITERS: usize = 24;
        let mut rig = rig(1, version, 1);
        let port = rig.gateways[0].port;
        assert_eq!(patiently(port, &Batch::of(["before"])), 0);
        rig.servers.freeze(0);
        let large = Batch::of([vec![b'x'; 900_000]]);
        std::thread::scope(|scope| {
            for _ in 0..WRITERS {
                scope.spawn(|| {
                    let started = Instant::now();
                    let (error, _) = try_produce(port, &large, 3_000).expect("the gateway answers");
                    assert!(RETRIABLE.contains(&error), "error {error}");
                    assert!(started.elapsed() < Duration::from_secs(20), "the answer took {:?}", started.elapsed());
                });
            }
            let mut wire = Wire::connect(port);
            for _ in 0..20 {
                let asked = Instant::now();
                assert_eq!(wire.call(0, &ApiVersionsRequest::default()).error_code, 0);
                assert!(asked.elapsed() < Duration::from_secs(3), "a light request took {:?}", asked.elapsed());
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        let process = rig.gateways[0].process();
        eventually("the connection is left behind", SOON, || {
            process.log_tail().contains("leaving the connection behind").then_some(())
        });
        rig.servers.thaw_all();
        let base = patiently(port, &Batch::of(["after"]));
        let log = log(port);
        assert_eq!(log.last(), Some(&(base, "after".to_owned())));
        assert!(log.iter().zip(0..).all(|((offset, _), expected)| *offset == expected), "offsets without a gap");
    }

    /// It left the gateway first and reaches the server last.
    fn a_commit_stuck_in_a_stalled_connection_does_not_undo_a_newer_one(version) {
        let rig = rig(1, version, 2);
        let commit = |gateway: usize, offset: i64, patience: Duration| {
            let mut wire = Wire::try_connect(rig.gateways[gateway].port).ok()?;
            wire.wait_at_most(patience).ok()?;
            let answer = wire.try_call(8, &commit_request(TOPIC, 1, offset)).ok()?;
            Some(answer.topics[0].partitions[0].error_code)
        };
        let committed = |gateway: usize| {
            let answer = rig.gateways[gateway].wire().call(7, &lookup_request(TOPIC, 1));
            let partition = answer.topics.first().map(|topic| &topic.partitions[0])?;
            (answer.error_code == 0 && partition.error_code == 0).then_some(partition.committed_offset)
        };
        // The owner of the group is the one that takes its first commit.
        let owner = eventually("a commit is taken", SOON, || {
            (0..2).find(|gateway| commit(*gateway, 1, Duration::from_secs(5)) == Some(0))
        });
        rig.servers.proxies().for_each(|proxy| proxy.hold_requests());
        assert_ne!(commit(owner, 5, Duration::from_secs(1)), Some(0), "it cannot have been stored");
        eventually("a newer commit is taken", RECOVERY, || {
            (0..2).any(|gateway| commit(gateway, 9, Duration::from_secs(10)) == Some(0)).then_some(())
        });
        rig.servers.proxies().for_each(|proxy| proxy.release());
        // What was held is with the server once it has answered a few requests that came later.
        for _ in 0..20 {
            let told = eventually("the offset is told", SOON, || (0..2).find_map(committed));
            assert_eq!(told, 9);
            std::thread::sleep(Duration::from_millis(50));
        }
        let mut rig = rig;
        rig.gateways.iter_mut().for_each(Gateway::kill);
        rig.gateways[0].restart();
        let mut wire = rig.gateways[0].wire();
        let told = eventually("the offset is told", RECOVERY, || {
            let answer = wire.call(7, &lookup_request(TOPIC, 1));
            let partition = answer.topics.first().map(|topic| &topic.partitions[0])?;
            (answer.error_code == 0 && partition.error_code == 0).then_some(partition.committed_offset)
        });
        assert_eq!(told, 9);
    }

    fn a_stored_message_with_a_malformed_header_is_stepped_over(version) {
        let mut rig = rig(1, version, 1);
        let port = rig.gateways[0].port;
        assert_eq!(patiently(port, &Batch::of(["a"])), 0);
        for header in ["no colon here\r\n".as_bytes(), b"Bytes: \xff\xfe\r\n"] {
            rig.servers.jetstream().store("kafka.t.0", header, b"poison");
            let base = patiently(port, &Batch::of(["b"]));
            assert_eq!(log(port).last(), Some(&(base, "b".to_owned())));
        }
        let before = log(port);
        rig.gateways[0].kill();
        rig.gateways[0].restart();
        assert_eq!(log(port), before);
        assert_eq!(before.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(patiently(port, &Batch::of(["c"])), 3);
    }

    /// The second gateway has the old topic's tail, and hears of nothing but what it asks.
    fn a_topic_created_again_under_load_through_two_gateways_has_one_log(version) {
        let rig = rig(1, version, 2);
        let over = AtomicBool::new(false);
        let newest = [Instant::now(); 2].map(Mutex::new);
        let acked: Vec<BTreeMap<i64, (Instant, String)>> = std::thread::scope(|scope| {
            let write = |number: usize| {
                let (mut acked, mut n) = (BTreeMap::new(), 0);
                while !over.load(Ordering::Relaxed) {
                    let (value, sent) = (format!("{number}-{n:06}"), Instant::now());
                    if let Some((0, base)) = try_produce(rig.gateways[number].port, &Batch::of([&value]), 5_000) {
                        acked.insert(base, (sent, value));
                        *newest[number].lock().expect("no holder panics") = sent;
                    }
                    n += 1;
                }
                acked
            };
            let over = Over(&over);
            let writers = [scope.spawn(move || write(0)), scope.spawn(move || write(1))];
            let mut wire = rig.gateways[0].wire();
            let mut created = Instant::now();
            for _ in 0..4 {
                std::thread::sleep(Duration::from_millis(700));
                eventually("it is deleted", SOON, || (wire.delete_topic(TOPIC) == 0).then_some(()));
                rig.create_topic(TOPIC, 1);
                created = Instant::now();
            }
            eventually("both write to the new topic", SOON, || {
                newest.iter().all(|sent| *sent.lock().expect("no holder panics") > created).then_some(())
            });
            std::thread::sleep(Duration::from_secs(1));
            drop(over);
            let fresh = |acked: BTreeMap<i64, (Instant, String)>| {
                acked.into_iter().filter(|(_, (sent, _))| *sent > created).collect()
            };
            writers.map(|writer| fresh(writer.join().expect("no writer fails"))).into()
        });
        let log = log(rig.gateways[1].port);
        assert!(log.iter().zip(0..).all(|((offset, _), expected)| *offset == expected), "offsets without a gap");
        let values: BTreeSet<&String> = log.iter().map(|(_, value)| value).collect();
        assert_eq!(values.len(), log.len(), "each value once");
        for (base, (_, value)) in acked.iter().flatten() {
            let stored = log.get(usize::try_from(*base).expect("an offset"));
            assert_eq!(stored, Some(&(*base, value.clone())), "what was acknowledged at {base}");
        }
        assert!(acked.iter().all(|acked| !acked.is_empty()), "both wrote to the new topic");
    }
}

/// Sets its flag when dropped, also when the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_topic_that_was_created_is_served_at_once_by_every_gateway_of_a_cluster() {
    let rig = rig(3, Version::Newest, 3);
    let batch = Batch::of(["first"]);
    for round in 0..30 {
        let name = format!("new-{round}");
        rig.create_topic(&name, 2);
        std::thread::scope(|scope| {
            for gateway in &rig.gateways[1..] {
                let request = produce_request(&name, 1, batch.encode());
                scope.spawn(move || {
                    let answer = gateway.wire().call(9, &request);
                    let (error, _) = produced(&answer.responses[0].partition_responses[0]);
                    assert!(error == 0 || RETRIABLE.contains(&error), "round {round}: error {error}");
                });
            }
        });
    }
}

/// Produces to each of these in turn for `span`, and gives how long answers took of each: the median and the worst.
fn latencies(streams: [(&mut Wire, &str); 2], span: Duration) -> [(Duration, Duration); 2] {
    let until = Instant::now() + span;
    let mut streams = streams.map(|(wire, topic)| (wire, topic, Vec::new()));
    while Instant::now() < until {
        for (wire, topic, took) in &mut streams {
            let started = Instant::now();
            wire.produce_ok(topic, 0, &Batch::of(["x"]));
            took.push(started.elapsed());
        }
    }
    streams.map(|(_, _, mut took)| {
        took.sort_unstable();
        (took[took.len() / 2], took[took.len() - 1])
    })
}

/// A stream with one replica dies with its server; the gateway is connected to the others. What the machine costs shows at a
/// second gateway, which nobody asks for the dead stream.
#[test]
fn a_dead_stream_does_not_slow_the_healthy_ones() {
    let _alone = crate::rig::alone();
    let servers = Servers::start(Version::Newest, 3);
    let gateways = [(); 2].map(|()| {
        let mut gateway = Gateway::not_ready(&servers.url(0), &["--auto-create=false"]);
        gateway.wait_ready();
        gateway
    });
    let [mut wire, mut calm_wire] = gateways.each_ref().map(Gateway::wire);
    // Streams are made until two stand on the first server and one stands alone elsewhere.
    let (mut healthy, mut dead) = (Vec::new(), None);
    for n in 0.. {
        assert!(n < 60, "the servers do not share the streams: {healthy:?}, {dead:?}");
        let name = format!("t{n}");
        wire.create_topic(&name, 1);
        wire.produce_ok(&name, 0, &Batch::of(["before"]));
        let buckets = servers.leader_of("KV_kafka-ends");
        match servers.leader_of(&format!("kafka-{name}-0")) {
            Some(0) => healthy.push(name),
            at if at.is_some() && at != buckets => dead = at.map(|at| (name, at)),
            _ => {}
        }
        if healthy.len() > 1 && dead.is_some() {
            break;
        }
    }
    let (dead, at) = dead.expect("it was found");
    let [healthy, other] = [&healthy[0], &healthy[1]];
    calm_wire.produce_ok(other, 0, &Batch::of(["before"]));
    servers.freeze(at);
    let over = AtomicBool::new(false);
    let [troubled, calm] = std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let request = produce_request(&dead, 0, Batch::of(["y"]).encode()).with_timeout_ms(2_000);
                    let answer = gateways[0].wire().call(9, &request);
                    let (error, _) = produced(&answer.responses[0].partition_responses[0]);
                    assert!(RETRIABLE.contains(&error), "error {error}");
                }
            });
        }
        let _over = Over(&over);
        latencies([(&mut wire, healthy), (&mut calm_wire, other)], Duration::from_secs(10))
    });
    say(&format!("healthy streams (median, worst): {troubled:?} beside a dead one, {calm:?} at another gateway"));
    assert!(troubled.0 < calm.0 * 5 + Duration::from_millis(10), "{troubled:?} where others get {calm:?}");
    assert!(troubled.1 < calm.1 + Duration::from_secs(1), "{troubled:?} where others get {calm:?}");
}
