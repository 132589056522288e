//! A cluster of three nats-servers, and one of them away.

use crate::harness::batch::Batch;
use crate::harness::cluster::Cluster;
use crate::harness::librdkafka::{self, numbered, texts};
use crate::harness::wire::topic_name;
use crate::harness::{Gateway, SOON, Wire, eventually};
use crate::on_each_server;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::{CreateTopicsRequest, MetadataRequest};
use rdkafka::consumer::{CommitMode, Consumer};
use std::collections::BTreeMap;

const LEADER_NOT_AVAILABLE: i16 = 5;
const REQUEST_TIMED_OUT: i16 = 7;

fn start(cluster: &Cluster, flags: &[&str]) -> Gateway {
    let mut gateway = Gateway::not_ready(&cluster.urls(), flags);
    gateway.wait_ready();
    gateway
}

/// Creates a topic with so many replicas; the error and its words.
fn create(wire: &mut Wire, name: &str, partitions: i32, replicas: i16) -> (i16, String) {
    let topic = CreatableTopic::default()
        .with_name(topic_name(name))
        .with_num_partitions(partitions)
        .with_replication_factor(replicas);
    let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(20_000);
    let made = wire.call(5, &request).topics.remove(0);
    (made.error_code, made.error_message.map(|text| text.to_string()).unwrap_or_default())
}

/// Error codes by topic, of all topics.
fn try_all_topics(wire: &mut Wire, version: i16) -> std::io::Result<BTreeMap<String, i16>> {
    let response = wire.try_call(version, &MetadataRequest::default().with_topics(None))?;
    let row = |topic: &kafka_protocol::messages::metadata_response::MetadataResponseTopic| {
        (topic.name.as_ref().map(|name| name.0.to_string()).unwrap_or_default(), topic.error_code)
    };
    Ok(response.topics.iter().map(row).collect())
}

/// Up to version 12 a list that cannot be given closes the connection.
#[track_caller]
fn all_topics(wire: &mut Wire, version: i16) -> BTreeMap<String, i16> {
    try_all_topics(wire, version).expect("the list can be given")
}

#[track_caller]
fn produced_soon(wire: &mut Wire, topic: &str) {
    let codes = [0, 5, 6, 7, 56];
    eventually(&format!("{topic} takes records"), SOON, || {
        let (error, _) = wire.produce(topic, 0, &Batch::of(["x"]));
        assert!(codes.contains(&error), "error {error} for {topic}");
        (error == 0).then_some(())
    });
}

on_each_server! {
    /// Topics without replicas on a server that is away are told of, and nothing else suffers.
    fn a_server_that_is_away_costs_only_what_it_alone_has(version) {
        let mut cluster = Cluster::start(version);
        let old = start(&cluster, &["--replicas=3"]);
        let mut wire = old.wire();
        let names: Vec<String> = (0..6).map(|n| format!("t{n}")).collect();
        for name in &names {
            assert_eq!(create(&mut wire, name, 1, 1), (0, String::new()));
            wire.produce_ok(name, 0, &Batch::of(["x"]));
        }
        assert_eq!(create(&mut wire, "wide", 6, 1), (0, String::new()));
        let place: BTreeMap<&String, usize> =
            names.iter().map(|name| (name, cluster.leader_of(&format!("kafka-{name}-0")))).collect();
        let away = place[&names[0]];
        let (dead, live): (Vec<&String>, Vec<&String>) = names.iter().partition(|name| place[name] == away);
        assert!(!live.is_empty(), "the cluster spreads streams: {place:?}");
        cluster.kill(away);

        for name in &live {
            produced_soon(&mut wire, name);
        }
        for version in [1, 9, 12] {
            let told = all_topics(&mut old.wire(), version);
            assert!(names.iter().all(|name| told.get(name) == Some(&0)), "told as last known: {told:?}");
        }
        let new = start(&cluster, &["--replicas=3"]);
        let mut wire = new.wire();
        let told = eventually("the new gateway has listed the topics", SOON, || {
            let told = try_all_topics(&mut Wire::connect(new.port), 12).ok()?;
            (told.len() == names.len() + 1).then_some(told)
        });
        assert!(live.iter().all(|name| told[*name] == 0), "{told:?}");
        assert!(dead.iter().all(|name| told[*name] == LEADER_NOT_AVAILABLE), "{told:?}");
        for name in &live {
            produced_soon(&mut wire, name);
        }
        assert_eq!(wire.topic(dead[0]).error_code, LEADER_NOT_AVAILABLE);

        cluster.restart(away);
        for name in &names {
            eventually("all is told again", SOON, || (wire.topic(name).error_code == 0).then_some(()));
            produced_soon(&mut wire, name);
            assert!(wire.read_all(name, 0, 0).len() >= 2, "{name} has what was stored before");
        }
    }

    fn with_three_replicas_any_server_may_die(version) {
        let mut cluster = Cluster::start(version);
        let gateway = start(&cluster, &["--replicas=3"]);
        let mut wire = gateway.wire();
        assert_eq!(create(&mut wire, "t", 1, 3), (0, String::new()));
        let (code, text) = create(&mut wire, "five", 1, 5);
        // A cluster that has just formed says the same of three: clients may try again.
        assert_eq!(code, REQUEST_TIMED_OUT, "{text}");
        assert!(text.contains("peers"), "the server's own words: {text}");
        produced_soon(&mut wire, "t");
        let streams = cluster.jetstream().stream_names();
        for stream in ["kafka-t-0", "KV_kafka-ends", "KV_kafka-gateways", "KV_kafka-leases"] {
            assert!(streams.iter().any(|name| name == stream), "{stream} in {streams:?}");
            let info = cluster.jetstream().api(&format!("STREAM.INFO.{stream}"), &serde_json::Value::Null);
            assert_eq!(info["config"]["num_replicas"], 3, "{stream}");
        }
        let values = numbered(3_000);
        let producer = librdkafka::producer(&gateway.bootstrap(), &[("enable.idempotence", "true")]);
        let group = [("group.id", "g"), ("auto.offset.reset", "earliest"), ("session.timeout.ms", "30000")];
        let consumer = librdkafka::consumer(&gateway.bootstrap(), &group);
        consumer.subscribe(&["t"]).expect("a subscription");
        let mut got = Vec::new();
        for (round, part) in values.chunks(1_000).enumerate() {
            let victim = cluster.leader_of("kafka-t-0");
            for (n, value) in part.iter().enumerate() {
                if n == 500 {
                    cluster.kill(victim);
                }
                producer.send_value("t", 0, value.as_bytes());
            }
            producer.flush();
            got.extend(librdkafka::take_within(&consumer, 1_000, 2 * SOON));
            // As an application does, which is told that the coordinator is not available for a moment.
            eventually("a commit", SOON, || consumer.commit_consumer_state(CommitMode::Sync).ok());
            let name = format!("new{round}");
            eventually("topics can be created", SOON, || match create(&mut wire, &name, 1, -1) {
                (0 | 36, _) => Some(()),
                (7 | 41, _) => None,
                other => panic!("{other:?}"),
            });
            produced_soon(&mut wire, &name);
            eventually("topics can be removed", 2 * SOON, || match wire.delete_topic(&name) {
                0 | 3 => Some(()),
                7 => None,
                other => panic!("error {other}"),
            });
            cluster.restart(victim);
        }
        assert_eq!(producer.finish().len(), values.len());
        let expected: Vec<String> = std::iter::once("x".to_owned()).chain(values).collect();
        got.extend(librdkafka::take_within(&consumer, 1, SOON));
        assert_eq!(texts(&got), expected, "each once, in order");
    }

    /// Nobody notices that a server asks its clients to leave.
    fn a_server_in_lame_duck_mode_is_left_without_an_error(version) {
        let cluster = Cluster::start(version);
        let mut gateway = start(&cluster, &["--replicas=3"]);
        let mut wire = gateway.wire();
        assert_eq!(create(&mut wire, "t", 1, 3).0, 0);
        let leader = cluster.leader_of("kafka-t-0");
        // The gateway connects to the first of its servers; that a stream's leader moves is another matter.
        if leader == 0 {
            cluster.step_down("kafka-t-0");
        }
        let producer = librdkafka::producer(&gateway.bootstrap(), &[("enable.idempotence", "true")]);
        let mut sent = 0;
        let mut send = || {
            producer.send_value("t", 0, format!("{sent}").as_bytes());
            producer.flush();
            sent += 1;
        };
        send();
        cluster.lame_duck(0);
        eventually("the gateway changes", SOON, || {
            send();
            let log = gateway.process().log();
            let left = log.matches("about to stop").count();
            let connected = log.matches("connected to nats-server").count();
            (left == 3 && connected == 6).then_some(())
        });
        send();
        assert_eq!(producer.finish().len(), sent, "all were acknowledged");
        assert!(!gateway.process().log().contains("lost the connection"), "no connection was lost");
    }
}
