//! Produce seen from the wire: refusals, acks, idempotence.

use crate::harness::batch::Batch;
use crate::harness::wire::{LATEST, produce_request, produced};
use crate::harness::{Gateway, Nats, Version, Wire};
use crate::on_each_server;
use bytes::Bytes;
use kafka_protocol::messages::{ApiVersionsRequest, InitProducerIdRequest, ProduceRequest};

const CORRUPT_MESSAGE: i16 = 2;
const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const MESSAGE_TOO_LARGE: i16 = 10;
const INVALID_REQUIRED_ACKS: i16 = 21;
const OUT_OF_ORDER_SEQUENCE_NUMBER: i16 = 45;
const INVALID_PRODUCER_EPOCH: i16 = 47;
const INVALID_RECORD: i16 = 87;

#[track_caller]
fn refused(wire: &mut Wire, request: &ProduceRequest) -> i16 {
    let response = wire.call(9, request);
    let (error, _) = produced(&response.responses[0].partition_responses[0]);
    assert_ne!(error, 0, "the gateway took it");
    error
}

#[test]
fn bad_batches_are_refused_by_name_and_nothing_is_stored() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    wire.create_topic("t", 1);
    wire.produce_ok("t", 0, &Batch::of(["good"]));

    let good = Batch::of(["a", "b"]).encode();
    let mut flipped = good.to_vec();
    *flipped.last_mut().expect("bytes") ^= 1;
    assert_eq!(refused(&mut wire, &produce_request("t", 0, flipped.into())), CORRUPT_MESSAGE);
    let cut = good.slice(..good.len() - 5);
    assert!([CORRUPT_MESSAGE, INVALID_RECORD].contains(&refused(&mut wire, &produce_request("t", 0, cut))));
    let transactional = Batch { attributes: 0x10, ..Batch::of(["a"]) }.idempotent(1, 0, 0).encode();
    assert_eq!(refused(&mut wire, &produce_request("t", 0, transactional)), INVALID_RECORD);
    let control = Batch { attributes: 0x20, ..Batch::of(["a"]) }.encode();
    assert_eq!(refused(&mut wire, &produce_request("t", 0, control)), INVALID_RECORD);
    let large = Batch::of([vec![7; 2_000_000]]).encode();
    assert_eq!(refused(&mut wire, &produce_request("t", 0, large)), MESSAGE_TOO_LARGE);
    assert_eq!(refused(&mut wire, &produce_request("t", 0, good.clone()).with_acks(2)), INVALID_REQUIRED_ACKS);
    assert_eq!(refused(&mut wire, &produce_request("t", 7, good.clone())), UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(refused(&mut wire, &produce_request("nowhere", 0, good)), UNKNOWN_TOPIC_OR_PARTITION);

    assert_eq!(wire.read_all("t", 0, 0), [(0, "good".to_owned())]);
    assert_eq!(nats.jetstream().state("kafka-t-0").messages, 1, "nothing bad was stored");
}

#[test]
fn a_refused_partition_leaves_the_others_of_the_request_alone() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    wire.create_topic("t", 3);
    let mut request = produce_request("t", 0, Batch::of(["zero"]).encode());
    let mut bad = Batch::of(["one"]).encode().to_vec();
    bad[17] ^= 1;
    let second = produce_request("t", 1, bad.into()).topic_data.remove(0).partition_data.remove(0);
    let third = produce_request("t", 2, Batch::of(["two"]).encode()).topic_data.remove(0).partition_data.remove(0);
    request.topic_data[0].partition_data.extend([second, third]);
    let response = wire.call(9, &request);
    let mut outcomes: Vec<(i32, i16)> =
        response.responses[0].partition_responses.iter().map(|row| (row.index, row.error_code)).collect();
    outcomes.sort_unstable();
    assert_eq!(outcomes, [(0, 0), (1, CORRUPT_MESSAGE), (2, 0)]);
    assert_eq!([0, 1, 2].map(|partition| wire.list_offset("t", partition, LATEST)), [1, 0, 1]);
}

#[test]
fn acks_0_is_stored_without_an_answer() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    wire.create_topic("t", 1);
    wire.send(9, &produce_request("t", 0, Batch::of(["silent"]).encode()).with_acks(0));
    // The next answer on this connection is the next request's: `call` checks the correlation id.
    wire.call(0, &ApiVersionsRequest::default());
    assert_eq!(wire.produce_ok("t", 0, &Batch::of(["loud"])), 1);
    assert_eq!(wire.read_all("t", 0, 0), [(0, "silent".to_owned()), (1, "loud".to_owned())]);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    wire.create_topic("t", 3);
    let mut sent = Vec::new();
    for n in 0..200_usize {
        let partition = i32::try_from(n % 3).expect("small");
        let batch = Batch::of([vec![b'x'; 1 + (n * 997) % 20_000]]).encode();
        sent.push(wire.send(9, &produce_request("t", partition, batch)));
    }
    for id in sent {
        let (received, response) = wire.receive::<ProduceRequest>(9);
        assert_eq!(received, id);
        assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
    }
    let ends: i64 = [0, 1, 2].map(|partition| wire.list_offset("t", partition, LATEST)).iter().sum();
    assert_eq!(ends, 200);
}

fn new_producer(wire: &mut Wire) -> (i64, i16) {
    let answer =
        wire.call(4, &InitProducerIdRequest::default().with_transactional_id(None).with_transaction_timeout_ms(60_000));
    assert_eq!(answer.error_code, 0);
    (answer.producer_id.0, answer.producer_epoch)
}

on_each_server! {
    fn a_repeated_batch_is_stored_once(version) {
        let nats = Nats::start(version);
        let mut gateway = Gateway::start(&nats, &[]);
        let mut wire = gateway.wire();
        wire.create_topic("t", 1);
        let (id, epoch) = new_producer(&mut wire);
        let batch = |value: &str, sequence| Batch::of([value]).idempotent(id, epoch, sequence);
        assert_eq!(wire.produce("t", 0, &batch("a", 0)), (0, 0));
        assert_eq!(wire.produce("t", 0, &batch("b", 1)), (0, 1));
        assert_eq!(wire.produce("t", 0, &batch("a", 0)), (0, 0), "a repeat answers its first offset");
        assert_eq!(wire.produce("t", 0, &batch("gap", 5)).0, OUT_OF_ORDER_SEQUENCE_NUMBER);

        gateway.kill();
        gateway.restart();
        let mut wire = gateway.wire();
        assert_eq!(wire.produce("t", 0, &batch("b", 1)), (0, 1), "a repeat is known after a restart");
        assert_eq!(wire.produce("t", 0, &batch("gap", 5)).0, OUT_OF_ORDER_SEQUENCE_NUMBER);
        assert_eq!(wire.produce("t", 0, &batch("c", 2)), (0, 2));
        let values: Vec<String> = wire.read_all("t", 0, 0).into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, ["a", "b", "c"]);
    }
}

#[test]
fn a_repeat_still_under_way_shares_the_outcome_of_the_first() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    wire.create_topic("t", 1);
    let (id, epoch) = new_producer(&mut wire);
    let batch = Batch::of(["once"]).idempotent(id, epoch, 0).encode();
    for _ in 0..5 {
        wire.send(9, &produce_request("t", 0, batch.clone()));
    }
    for _ in 0..5 {
        let (_, response) = wire.receive::<ProduceRequest>(9);
        assert_eq!(produced(&response.responses[0].partition_responses[0]), (0, 0));
    }
    assert_eq!(wire.list_offset("t", 0, LATEST), 1);
}

#[test]
fn an_older_epoch_of_a_producer_is_fenced() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    wire.create_topic("t", 1);
    let (id, epoch) = new_producer(&mut wire);
    wire.produce_ok("t", 0, &Batch::of(["new"]).idempotent(id, epoch + 1, 0));
    assert_eq!(wire.produce("t", 0, &Batch::of(["old"]).idempotent(id, epoch, 0)).0, INVALID_PRODUCER_EPOCH);
}

#[test]
fn producer_ids_are_never_given_twice() {
    let nats = Nats::start(Version::Newest);
    let mut gateway = Gateway::start(&nats, &[]);
    let mut ids = Vec::new();
    for _ in 0..3 {
        let mut wire = gateway.wire();
        ids.extend((0..20).map(|_| new_producer(&mut wire).0));
        gateway.kill();
        gateway.restart();
    }
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

#[test]
fn an_empty_request_for_a_partition_is_answered() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    wire.create_topic("t", 1);
    let response = wire.call(9, &produce_request("t", 0, Bytes::new()));
    assert_eq!(response.responses[0].partition_responses.len(), 1);
    assert_eq!(wire.produce_ok("t", 0, &Batch::of(["next"])), 0);
}
