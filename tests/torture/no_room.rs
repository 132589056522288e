//! No room: a store that may hold no more, a disk that is full, and a topic that asks for more than there is.

use crate::disk::SmallDisk;
use crate::harness::batch::Batch;
use crate::harness::wire::{LATEST, RETRIABLE, produce_request, produced, topic_name};
use crate::harness::{Gateway, Version, Wire, eventually};
use crate::on_each_server;
use crate::rig::RECOVERY;
use crate::run::say;
use crate::servers::{Servers, Store};
use kafka_protocol::messages::CreateTopicsRequest;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::protocol::StrBytes;

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const INVALID_PARTITIONS: i16 = 37;
const KAFKA_STORAGE_ERROR: i16 = 56;

/// Large enough that a few fill a store, small enough that room for one is soon made.
const RECORD_BYTES: usize = 500_000;

const UNLIMITED: &[(&str, &str)] = &[("retention.bytes", "-1")];

fn gateway(servers: &Servers, replicas: usize) -> Gateway {
    let flags = ["--auto-create=false".to_owned(), format!("--replicas={replicas}")];
    let mut gateway = Gateway::not_ready(&servers.urls(), &flags.each_ref().map(String::as_str));
    gateway.wait_ready();
    gateway
}

/// Another gateway in place of the one that was killed. In a full store it has no lease and does not call itself ready.
fn replaced(old: Gateway, servers: &Servers) -> Gateway {
    drop(old);
    let gateway = Gateway::not_ready(&servers.urls(), &["--auto-create=false"]);
    gateway.wait_listening();
    gateway
}

/// An idempotent producer of large records, one at a time, and what was acknowledged to it.
struct Producer {
    sent: i32,
    acked: Vec<(i64, String)>,
}

impl Producer {
    fn new() -> Producer {
        Producer { sent: 0, acked: Vec::new() }
    }

    /// Sends the next record, or the one again that was not taken; gives the error code.
    fn send(&mut self, port: u16) -> i16 {
        let value = format!("{:04}{}", self.sent, "x".repeat(RECORD_BYTES));
        let batch = Batch::of([&value]).idempotent(4711, 0, self.sent);
        let request = produce_request("t", 0, batch.encode()).with_timeout_ms(3_000);
        let answer = Wire::connect(port).call(9, &request);
        let (error, base) = produced(&answer.responses[0].partition_responses[0]);
        if error == 0 {
            self.acked.push((base, value));
            self.sent += 1;
        }
        error
    }

    /// Sends until nothing is taken any more; gives the error.
    fn fill(&mut self, port: u16) -> i16 {
        for _ in 0..200 {
            match self.send(port) {
                0 => {}
                error => return error,
            }
        }
        panic!("the store is never full");
    }

    /// The record that was not taken is taken now, and so is another one.
    #[track_caller]
    fn go_on(&mut self, port: u16) {
        for _ in 0..2 {
            eventually("the record is taken", RECOVERY, || match self.send(port) {
                0 => Some(()),
                error => {
                    assert!(RETRIABLE.contains(&error), "error {error}");
                    None
                }
            });
        }
    }

    /// The log holds what was acknowledged, each once and where it was told, and nothing else.
    #[track_caller]
    fn expect_log(&self, port: u16) {
        let mut wire = Wire::connect(port);
        let end = i64::try_from(self.acked.len()).expect("few");
        eventually("the end is told", RECOVERY, || (wire.try_list_offset("t", 0, LATEST) == (0, end)).then_some(()));
        let log = wire.read_all("t", 0, 0);
        assert!(log == self.acked, "{:?} are not {:?}", offsets(&log), offsets(&self.acked));
        assert!(log.iter().zip(0..).all(|((offset, _), expected)| *offset == expected), "offsets without a gap");
    }
}

fn offsets(log: &[(i64, String)]) -> Vec<(i64, &str)> {
    log.iter().map(|(offset, value)| (*offset, &value[..4])).collect()
}

/// Produces a small record until that is answered with something else than what passes by itself.
#[track_caller]
fn produce_small(port: u16, topic: &str) -> i16 {
    eventually("a small record is answered", RECOVERY, || {
        let request = produce_request(topic, 0, Batch::of(["small"]).encode()).with_timeout_ms(3_000);
        let answer = Wire::connect(port).call(9, &request);
        let (error, _) = produced(&answer.responses[0].partition_responses[0]);
        (error == KAFKA_STORAGE_ERROR || !RETRIABLE.contains(&error)).then_some(error)
    })
}

on_each_server! {
    /// All that JetStream may store is stored: each publish is refused, whatever the stream.
    fn a_full_store_refuses_records_and_keeps_what_it_took(version) {
        let mut servers = Servers::on(Store::Quota(16 << 20), version, 1);
        let gateway = gateway(&servers, 1);
        let port = gateway.port;
        let mut wire = gateway.wire();
        for topic in ["t", "calm", "filling"] {
            assert_eq!(wire.create_topic_with(topic, 1, UNLIMITED), 0);
            wire.produce_ok(topic, 0, &Batch::of(["first"]));
        }
        let mut producer = Producer::new();
        producer.acked.push((0, "first".to_owned()));
        for _ in 0..8 {
            wire.produce_ok("filling", 0, &Batch::of(["x".repeat(900_000)]));
        }
        assert_eq!(producer.fill(port), KAFKA_STORAGE_ERROR);
        assert_eq!((producer.send(port), produce_small(port, "calm")), (KAFKA_STORAGE_ERROR, KAFKA_STORAGE_ERROR));
        producer.expect_log(port);
        let gateway = replaced(gateway, &servers);
        let port = gateway.port;
        producer.expect_log(port);
        assert_eq!((producer.send(port), produce_small(port, "calm")), (KAFKA_STORAGE_ERROR, KAFKA_STORAGE_ERROR));
        servers.kill_all();
        servers.revive();
        producer.expect_log(port);
        assert_eq!(produce_small(port, "calm"), KAFKA_STORAGE_ERROR);
        assert_eq!(Wire::connect(port).read_all("calm", 0, 0), [(0, "first".to_owned())]);

        // Deleting the topic takes a claim, for which there is no room either.
        servers.jetstream().purge("kafka-filling-0", None);
        producer.go_on(port);
        assert_eq!(produce_small(port, "calm"), 0);
        let gateway = replaced(gateway, &servers);
        producer.expect_log(gateway.port);
    }

    /// 2.10 says so, other streams are served, and room that is made is used. 2.15 answers no publish to a stream
    /// whose file it could not write, until it is started again.
    fn a_full_disk_costs_nothing_that_was_acknowledged(version) {
        let disk = match SmallDisk::new(32 << 20) {
            Ok(disk) => disk,
            Err(error) => return say(&format!("no file system can be mounted here ({error}): skipped")),
        };
        disk.fill(20 << 20).expect("there is room");
        let mut servers = Servers::on(Store::On(disk.path()), version, 1);
        let gateway = gateway(&servers, 1);
        let port = gateway.port;
        let mut wire = gateway.wire();
        for topic in ["t", "calm"] {
            assert_eq!(wire.create_topic_with(topic, 1, UNLIMITED), 0);
            wire.produce_ok(topic, 0, &Batch::of(["first"]));
        }
        let mut producer = Producer::new();
        producer.acked.push((0, "first".to_owned()));
        let error = producer.fill(port);
        assert!(RETRIABLE.contains(&error), "error {error}");
        if version == Version::Oldest {
            assert_eq!(error, KAFKA_STORAGE_ERROR);
        }
        producer.expect_log(port);
        assert_eq!(produce_small(port, "calm"), 0, "what is left is enough for it");
        // And once more with servers and a gateway that find the disk full.
        servers.kill_all();
        servers.revive();
        let gateway = replaced(gateway, &servers);
        let port = gateway.port;
        producer.expect_log(port);
        let error = producer.fill(port);
        assert!(RETRIABLE.contains(&error), "error {error}");
        producer.expect_log(port);

        disk.empty().expect("what fills it is removed");
        if version == Version::Newest {
            servers.kill_all();
            servers.revive();
        }
        producer.go_on(port);
        assert_eq!(produce_small(port, "calm"), 0);
        let gateway = replaced(gateway, &servers);
        producer.expect_log(gateway.port);
    }

    /// JetStream sets `retention.bytes` aside for each partition. Of "halves" there is room for one.
    fn a_topic_that_asks_for_too_much_is_refused_whole(version) {
        refuse(version, 1, &[("second", 1, "60000000"), ("halves", 2, "30000000")]);
    }
}

/// Servers of a cluster learn some seconds late what is set aside on each other, and what is not any more: only what exceeds
/// the whole is refused at once.
#[test]
fn a_topic_that_asks_a_cluster_for_too_much_is_refused_whole() {
    refuse(Version::Newest, 3, &[("second", 2, "160000000")]);
}

fn refuse(version: Version, count: usize, asked: &[(&str, i32, &str)]) {
    let servers = Servers::on(Store::Quota(100_000_000), version, count);
    let gateway = gateway(&servers, count);
    let mut wire = gateway.wire();
    let create = |name: &str, partitions: i32, bytes: &str| {
        let text = |text: &str| StrBytes::from_string(text.to_owned());
        let config = CreatableTopicConfig::default().with_name(text("retention.bytes")).with_value(Some(text(bytes)));
        let topic = CreatableTopic::default()
            .with_name(topic_name(name))
            .with_num_partitions(partitions)
            .with_replication_factor(-1)
            .with_configs(vec![config]);
        let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(20_000);
        let row = gateway.wire().call(5, &request).topics.remove(0);
        (row.error_code, row.error_message.map(|text| text.to_string()).unwrap_or_default())
    };
    assert_eq!(create("first", 1, "60000000").0, 0);
    for (name, partitions, bytes) in asked {
        let (error, text) = create(name, *partitions, bytes);
        assert_eq!(error, INVALID_PARTITIONS, "{text}");
        assert!(text.contains(bytes) && text.contains("retention.bytes"), "what is asked for is named: {text}");
        assert_eq!(wire.topic(name).error_code, UNKNOWN_TOPIC_OR_PARTITION);
    }
    let streams = servers.jetstream().stream_names();
    let topics: Vec<&String> = streams.iter().filter(|name| name.starts_with("kafka-")).collect();
    assert_eq!(topics, ["kafka-first-0"], "nothing is left of what was refused");
    assert_eq!(produce_small(gateway.port, "first"), 0);
    assert_eq!(wire.delete_topic("first"), 0);
    eventually("the room is found again", RECOVERY, || (create("again", 1, "60000000").0 == 0).then_some(()));
    assert_eq!(produce_small(gateway.port, "again"), 0);
}
