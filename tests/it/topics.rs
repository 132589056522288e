//! Topics: made whole or not at all, named as Kafka names them, gone with all that belongs to them.

use crate::harness::batch::Batch;
use crate::harness::wire::topic_name;
use crate::harness::{Gateway, Nats, SOON, Version, Wire, eventually};
use crate::on_each_server;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{CreateTopicsRequest, DescribeConfigsRequest, MetadataRequest};
use kafka_protocol::protocol::StrBytes;
use serde_json::json;

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const INVALID_TOPIC_EXCEPTION: i16 = 17;
const TOPIC_ALREADY_EXISTS: i16 = 36;
const INVALID_REPLICATION_FACTOR: i16 = 38;
const TOPIC_RESOURCE: i8 = 2;

fn creatable(name: &str, partitions: i32, replication_factor: i16) -> CreatableTopic {
    CreatableTopic::default()
        .with_name(topic_name(name))
        .with_num_partitions(partitions)
        .with_replication_factor(replication_factor)
}

fn create(topics: Vec<CreatableTopic>) -> CreateTopicsRequest {
    CreateTopicsRequest::default().with_topics(topics).with_timeout_ms(20_000)
}

/// Names and error codes of the answer to Metadata.
#[track_caller]
fn listed(wire: &mut Wire, version: i16, request: &MetadataRequest) -> Vec<(String, i16)> {
    let response = wire.call(version, request);
    assert!(!response.brokers.is_empty(), "there is always a broker");
    let ids: Vec<i32> = response.brokers.iter().map(|broker| broker.node_id.0).collect();
    if version >= 1 {
        assert!(ids.contains(&response.controller_id.0), "the controller is one of the brokers");
    }
    let name = |topic: &Option<kafka_protocol::messages::TopicName>| topic.as_ref().map(|name| name.0.to_string());
    let mut topics: Vec<_> =
        response.topics.iter().map(|topic| (name(&topic.name).unwrap_or_default(), topic.error_code)).collect();
    topics.sort();
    topics
}

fn asking(names: &[&str], create: bool) -> MetadataRequest {
    let topics = names.iter().map(|name| MetadataRequestTopic::default().with_name(Some(topic_name(name)))).collect();
    MetadataRequest::default().with_topics(Some(topics)).with_allow_auto_topic_creation(create)
}

#[test]
fn illegal_names_are_refused_and_their_neighbours_made() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    let long = "x".repeat(250);
    let bad = ["a/b", "a b", "", ".", "..", "a*", "a>", "\u{fc}", &long];
    let mut topics: Vec<CreatableTopic> = bad.iter().map(|name| creatable(name, 1, 1)).collect();
    topics.push(creatable("good", 1, 1));
    let response = wire.call(5, &create(topics));
    assert_eq!(response.topics.len(), bad.len() + 1, "one row for each topic");
    for row in &response.topics {
        let expected = if row.name.0.as_str() == "good" { 0 } else { INVALID_TOPIC_EXCEPTION };
        assert_eq!(row.error_code, expected, "{:?}", row.name);
    }
    let longest = "y".repeat(249);
    assert_eq!(wire.try_create_topic(&longest, 1), 0);
    assert_eq!(wire.produce_ok(&longest, 0, &Batch::of(["x"])), 0);
    assert_eq!(listed(&mut wire, 9, &MetadataRequest::default().with_topics(None)).len(), 2);
    let streams = nats.jetstream().stream_names().iter().filter(|name| name.starts_with("kafka-")).count();
    assert_eq!(streams, 2, "a refused topic leaves no stream");
}

#[test]
fn counts_and_factors_follow_kafka() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &["--default-partitions=4"]);
    let mut wire = gateway.wire();
    let mut outcome = |topic: CreatableTopic| wire.call(5, &create(vec![topic])).topics[0].error_code;
    assert_eq!(outcome(creatable("three-copies", 1, 3)), INVALID_REPLICATION_FACTOR);
    assert_eq!(outcome(creatable("none", 0, 1)), 37);
    assert_eq!(outcome(creatable("default", -1, -1)), 0);
    assert_eq!(outcome(creatable("default", 1, 1)), TOPIC_ALREADY_EXISTS);
    assert_eq!(wire.topic("default").partitions.len(), 4);
    assert_eq!(wire.topic("three-copies").error_code, UNKNOWN_TOPIC_OR_PARTITION);
}

#[test]
fn validating_only_makes_nothing() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    let request = create(vec![creatable("maybe", 2, 1), creatable("bad name", 1, 1)]).with_validate_only(true);
    let codes: Vec<i16> = wire.call(5, &request).topics.iter().map(|row| row.error_code).collect();
    assert_eq!(codes, [0, INVALID_TOPIC_EXCEPTION]);
    assert_eq!(wire.topic("maybe").error_code, UNKNOWN_TOPIC_OR_PARTITION);
}

on_each_server! {
    fn a_topic_is_made_whole_or_not_at_all(version) {
        let nats = Nats::start(version);
        let gateway = Gateway::start(&nats, &[]);
        let mut jetstream = nats.jetstream();
        // A stream of somebody else's stands where the third partition would.
        let config = json!({"name": "kafka-t-2", "subjects": ["elsewhere"], "storage": "file"});
        jetstream.api("STREAM.CREATE.kafka-t-2", &config);
        let mut wire = gateway.wire();
        assert_ne!(wire.try_create_topic("t", 4), 0);
        let mut left = jetstream.stream_names();
        left.retain(|name| name.starts_with("kafka-"));
        assert_eq!(left, ["kafka-t-2"], "what was made is removed again, what was there is kept");
        assert_ne!(wire.topic("t").error_code, 0);
        jetstream.api("STREAM.DELETE.kafka-t-2", &serde_json::Value::Null);
        eventually("it can be made now", SOON, || (wire.try_create_topic("t", 4) == 0).then_some(()));
        assert_eq!(wire.topic("t").partitions.len(), 4);
    }

    fn topics_survive_a_restart_with_their_ids(version) {
        let nats = Nats::start(version);
        let mut gateway = Gateway::start(&nats, &[]);
        let mut wire = gateway.wire();
        let names = ["plain", "with.dots.and_underscores", "\u{41}-Z"];
        let ids = names.map(|name| {
            wire.create_topic(name, 3);
            wire.topic(name).topic_id
        });
        gateway.kill();
        gateway.restart();
        let mut wire = gateway.wire();
        for (name, id) in names.iter().zip(ids) {
            let topic = wire.topic(name);
            assert_eq!((topic.error_code, topic.partitions.len(), topic.topic_id), (0, 3, id), "{name}");
        }
    }
}

#[test]
fn metadata_lists_and_creates_what_it_is_asked_for() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    wire.create_topic("one", 1);
    let one = vec![("one".to_owned(), 0)];
    assert_eq!(listed(&mut wire, 0, &asking(&[], true)), one, "an empty list meant all in version 0");
    for version in [1, 4, 9, 12] {
        let all = MetadataRequest::default().with_topics(None);
        assert_eq!(listed(&mut wire, version, &all), one, "null means all in version {version}");
        assert_eq!(listed(&mut wire, version, &asking(&[], true)), [], "an empty list means none in version {version}");
    }
    let unknown = vec![("two".to_owned(), UNKNOWN_TOPIC_OR_PARTITION)];
    assert_eq!(listed(&mut wire, 4, &asking(&["two"], false)), unknown, "not created unless allowed");
    let all = MetadataRequest::default().with_topics(None);
    assert_eq!(listed(&mut wire, 4, &all), one);
    listed(&mut wire, 4, &asking(&["two"], true));
    eventually("it is created", SOON, || (wire.topic("two").error_code == 0).then_some(()));

    let strict = Gateway::start(&nats, &["--auto-create=false"]);
    let three = vec![("three".to_owned(), UNKNOWN_TOPIC_OR_PARTITION)];
    assert_eq!(listed(&mut strict.wire(), 4, &asking(&["three"], true)), three);
}

#[test]
fn a_topics_settings_are_described_as_they_were_given() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    assert_eq!(wire.create_topic_with("t", 1, &[("retention.ms", "3600000"), ("cleanup.policy", "compact")]), 0);
    assert_ne!(wire.create_topic_with("u", 1, &[("no.such.setting", "1")]), 0);
    let resource = DescribeConfigsResource::default()
        .with_resource_type(TOPIC_RESOURCE)
        .with_resource_name(StrBytes::from_static_str("t"))
        .with_configuration_keys(None);
    let response = wire.call(4, &DescribeConfigsRequest::default().with_resources(vec![resource]));
    let configs = &response.results[0].configs;
    let value = |name: &str| configs.iter().find(|row| row.name.as_str() == name).and_then(|row| row.value.clone());
    assert_eq!(value("retention.ms").as_deref(), Some("3600000"));
    assert_eq!(value("cleanup.policy").as_deref(), Some("compact"));
    assert_eq!(value("max.message.bytes").as_deref(), Some("1048588"));
    assert!(configs.iter().all(|row| row.value.is_some()), "no setting is without a value");
    let stream = nats.jetstream().api("STREAM.INFO.kafka-t-0", &serde_json::Value::Null);
    assert_eq!(stream["config"]["max_age"].as_u64().unwrap_or(0), 0, "a compacted topic does not age out");
}
