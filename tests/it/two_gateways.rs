//! Two gateway processes on one store: either serves everything, and neither loses what the other wrote.

use crate::harness::batch::{Batch, offsets_and_values};
use crate::harness::wire::{LATEST, fetch_request, partition_data, produce_request, produced};
use crate::harness::{Gateway, Nats, SOON, Wire, eventually};
use crate::on_each_server;
use kafka_protocol::messages::{FetchRequest, ProduceRequest};
use std::time::{Duration, Instant};

/// Produces batches of three, five in flight as clients do, and gives each batch's values and base offset.
fn produce_batches(port: u16, name: &str, batches: usize) -> Vec<(Vec<String>, i64)> {
    let mut wire = Wire::connect(port);
    let mut acked = Vec::new();
    let values = |n: usize| (0..3).map(|i| format!("{name}-{:05}", 3 * n + i)).collect::<Vec<_>>();
    for round in (0..batches).collect::<Vec<_>>().chunks(5) {
        for n in round {
            wire.send(9, &produce_request("t", 0, Batch::of(values(*n)).encode()));
        }
        for n in round {
            let (_, response) = wire.receive::<ProduceRequest>(9);
            let (error, base) = produced(&response.responses[0].partition_responses[0]);
            assert_eq!(error, 0, "batch {n} of {name}");
            acked.push((values(*n), base));
        }
    }
    acked
}

on_each_server! {
    fn two_gateways_producing_to_one_partition_lose_and_repeat_nothing(version) {
        const BATCHES: usize = 200;
        let nats = Nats::start(version);
        let mut gateways = [Gateway::start(&nats, &["--node-id=1"]), Gateway::start(&nats, &["--node-id=2"])];
        gateways[0].wire().create_topic("t", 1);
        let ports = [gateways[0].port, gateways[1].port];
        let writers = ["a", "b"].map(|name| {
            let port = ports[usize::from(name == "b")];
            std::thread::spawn(move || produce_batches(port, name, BATCHES))
        });
        let acked = writers.map(|writer| writer.join().expect("no writer panics"));
        let total = i64::try_from(2 * 3 * BATCHES).expect("small");
        for gateway in &gateways {
            let mut wire = gateway.wire();
            eventually("the gateway has heard of all", SOON, || (wire.list_offset("t", 0, LATEST) == total).then_some(()));
        }
        let log = gateways[0].wire().read_all("t", 0, 0);
        assert_eq!(log.len() as i64, total);
        assert!(log.iter().zip(0..).all(|((offset, _), expected)| *offset == expected), "offsets without a gap");
        for (writer, name) in acked.iter().zip(["a", "b"]) {
            for (values, base) in writer {
                let at = usize::try_from(*base).expect("an offset");
                let stored: Vec<&String> = log[at..at + 3].iter().map(|(_, value)| value).collect();
                assert_eq!(stored, values.iter().collect::<Vec<_>>(), "what was acknowledged at {base}");
            }
            let own: Vec<&String> = log.iter().map(|(_, value)| value).filter(|value| value.starts_with(name)).collect();
            assert!(own.is_sorted(), "the records of writer {name} are in order");
        }
        assert_eq!(gateways[1].wire().read_all("t", 0, 0), log, "both see the same log");
        for gateway in &mut gateways {
            gateway.kill();
        }
        gateways[1].restart();
        assert_eq!(gateways[1].wire().read_all("t", 0, 0), log, "and so does a new one");
    }

    fn producers_through_one_gateway_do_not_starve_those_of_another(version) {
        const LASTING: Duration = Duration::from_secs(3);
        let nats = Nats::start(version);
        let gateways = [Gateway::start(&nats, &["--node-id=1"]), Gateway::start(&nats, &["--node-id=2"])];
        gateways[0].wire().create_topic("t", 1);
        let until = Instant::now() + LASTING;
        let produce = |gateway: &Gateway| {
            let (mut wire, mut batches, mut slowest) = (gateway.wire(), 0, Duration::ZERO);
            while Instant::now() < until {
                let began = Instant::now();
                wire.produce_ok("t", 0, &Batch::of(["a record"]));
                batches += 1;
                slowest = slowest.max(began.elapsed());
            }
            (batches, slowest)
        };
        let (many, one) = std::thread::scope(|scope| {
            let many = [0; 8].map(|_| scope.spawn(|| produce(&gateways[0])));
            let one = produce(&gateways[1]);
            (many.map(|one| one.join().expect("no producer panics")), one)
        });
        let slowest = many.iter().map(|(_, slowest)| *slowest).max().max(Some(one.1)).expect("there are some");
        assert!(slowest < LASTING / 2, "one took {slowest:?}");
        let stored: i64 = one.0 + many.iter().map(|(batches, _)| batches).sum::<i64>();
        assert_eq!(gateways[1].wire().list_offset("t", 0, LATEST), stored);
    }

    fn a_reader_at_the_end_misses_nothing_that_another_gateway_writes(version) {
        const BATCHES: usize = 400;
        let nats = Nats::start(version);
        let writing = Gateway::start(&nats, &["--node-id=1"]);
        let reading = Gateway::start(&nats, &["--node-id=2"]);
        writing.wire().create_topic("t", 1);
        let port = writing.port;
        let writer = std::thread::spawn(move || produce_batches(port, "a", BATCHES));
        let mut wire = reading.wire();
        let total = i64::try_from(3 * BATCHES).expect("small");
        let mut next = 0;
        let deadline = Instant::now() + Duration::from_secs(60);
        while next < total {
            assert!(Instant::now() < deadline, "only {next} of {total} records came");
            let data = partition_data(wire.call(12, &fetch_request("t", 0, next).with_max_wait_ms(200)));
            assert_eq!(data.error_code, 0, "fetching at {next}");
            let asked = next;
            let read = offsets_and_values(&data.records.unwrap_or_default());
            for (offset, _) in read.into_iter().filter(|(offset, _)| *offset >= asked) {
                assert_eq!(offset, next, "a record was skipped");
                next += 1;
            }
        }
        writer.join().expect("the writer does not panic");
    }

    fn what_one_gateway_creates_the_next_request_to_another_finds(version) {
        let nats = Nats::start(version);
        let one = Gateway::start(&nats, &["--node-id=1", "--auto-create=false"]);
        let two = Gateway::start(&nats, &["--node-id=2", "--auto-create=false"]);
        let (mut a, mut b) = (one.wire(), two.wire());
        for n in 0..20 {
            let name = format!("new-{n}");
            a.create_topic(&name, 2);
            assert_eq!(b.produce_ok(&name, 1, &Batch::of(["x"])), 0);
            assert_eq!(b.list_offset(&name, 1, LATEST), 1);
            eventually("the end is the same at both", SOON, || (a.list_offset(&name, 1, LATEST) == 1).then_some(()));
            assert_eq!(a.topic(&name).topic_id, b.topic(&name).topic_id);
        }
    }

    fn a_record_produced_through_one_gateway_wakes_a_fetch_at_the_other(version) {
        let nats = Nats::start(version);
        let one = Gateway::start(&nats, &["--node-id=1"]);
        let two = Gateway::start(&nats, &["--node-id=2"]);
        let (mut a, mut b) = (one.wire(), two.wire());
        a.create_topic("t", 1);
        eventually("both know the topic", Duration::from_secs(10), || (b.topic("t").error_code == 0).then_some(()));
        for round in 0..10 {
            let started = Instant::now();
            b.send(12, &fetch_request("t", 0, round).with_max_wait_ms(40_000));
            a.produce_ok("t", 0, &Batch::of(["x"]));
            let (_, response) = b.receive::<FetchRequest>(12);
            assert_eq!(partition_data(response).high_watermark, round + 1);
            assert!(started.elapsed() < Duration::from_secs(10), "round {round} took {:?}", started.elapsed());
        }
    }

    fn a_repeat_sent_to_the_other_gateway_is_stored_once(version) {
        let nats = Nats::start(version);
        let one = Gateway::start(&nats, &["--node-id=1"]);
        let two = Gateway::start(&nats, &["--node-id=2"]);
        let (mut a, mut b) = (one.wire(), two.wire());
        a.create_topic("t", 1);
        let batch = |sequence| Batch::of(["x"]).idempotent(4711, 0, sequence);
        assert_eq!(a.produce("t", 0, &batch(0)), (0, 0));
        assert_eq!(b.produce("t", 0, &batch(0)), (0, 0));
        assert_eq!(b.produce("t", 0, &batch(1)), (0, 1));
        assert_eq!(a.produce("t", 0, &batch(1)), (0, 1));
        assert_eq!(a.produce("t", 0, &batch(2)), (0, 2));
        eventually("the other gateway has heard of it", SOON, || (b.list_offset("t", 0, LATEST) == 3).then_some(()));
    }
}
