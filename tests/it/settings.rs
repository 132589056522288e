//! Settings that are changed while a topic is in use: what clients, other gateways and JetStream see of it.

use crate::harness::batch::Batch;
use crate::harness::commands::python;
use crate::harness::librdkafka::{self, numbered, texts};
use crate::harness::wire::{EARLIEST, partition_data, produce_request, topic_name};
use crate::harness::{Gateway, Nats, SOON, Version, Wire, eventually};
use crate::on_each_server;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::{CreatePartitionsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest};
use kafka_protocol::protocol::StrBytes;
use rdkafka::consumer::Consumer;
use rdkafka::producer::BaseRecord;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const TOPIC: i8 = 2;
const SET: i8 = 0;
const DELETE: i8 = 1;

const MESSAGE_TOO_LARGE: i16 = 10;
const INVALID_TIMESTAMP: i16 = 32;
const INVALID_PARTITIONS: i16 = 37;
const INVALID_CONFIG: i16 = 40;
const POLICY_VIOLATION: i16 = 44;

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// Sets settings, or with `None` resets them; the code and the text.
#[track_caller]
pub fn alter(wire: &mut Wire, topic: &str, changes: &[(&str, Option<&str>)]) -> (i16, String) {
    let config = |(name, value): &(&str, Option<&str>)| {
        AlterableConfig::default()
            .with_name(text(name))
            .with_config_operation(if value.is_some() { SET } else { DELETE })
            .with_value(value.map(text))
    };
    let resource = AlterConfigsResource::default()
        .with_resource_type(TOPIC)
        .with_resource_name(text(topic))
        .with_configs(changes.iter().map(config).collect());
    let answer = wire.call(1, &IncrementalAlterConfigsRequest::default().with_resources(vec![resource]));
    let row = &answer.responses[0];
    (row.error_code, row.error_message.as_ref().map(|text| text.to_string()).unwrap_or_default())
}

#[track_caller]
fn set(wire: &mut Wire, topic: &str, name: &str, value: &str) {
    let (code, said) = alter(wire, topic, &[(name, Some(value))]);
    assert_eq!(code, 0, "{name}={value}: {said}");
}

/// A setting's value and source.
#[track_caller]
fn setting(wire: &mut Wire, topic: &str, name: &str) -> (String, i8) {
    let resource = DescribeConfigsResource::default()
        .with_resource_type(TOPIC)
        .with_resource_name(text(topic))
        .with_configuration_keys(Some(vec![text(name)]));
    let answer = wire.call(4, &DescribeConfigsRequest::default().with_resources(vec![resource]));
    let row = &answer.results[0].configs[0];
    (row.value.as_ref().expect("a value").to_string(), row.config_source)
}

#[track_caller]
fn grow(wire: &mut Wire, topic: &str, count: i32) -> (i16, String) {
    let asked = CreatePartitionsTopic::default().with_name(topic_name(topic)).with_count(count).with_assignments(None);
    let request = CreatePartitionsRequest::default().with_topics(vec![asked]).with_timeout_ms(20_000);
    let row = wire.call(3, &request).results.remove(0);
    (row.error_code, row.error_message.map(|text| text.to_string()).unwrap_or_default())
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_millis()).expect("before the year 292 million")
}

fn config(nats: &Nats, stream: &str) -> Value {
    nats.jetstream().api(&format!("STREAM.INFO.{stream}"), &Value::Null)["config"].take()
}

on_each_server! {
    fn a_change_holds_in_every_stream_and_on_every_gateway(version) {
        let nats = Nats::start(version);
        let gateways = [Gateway::start(&nats, &[]), Gateway::start(&nats, &[])];
        let [mut here, mut there] = [gateways[0].wire(), gateways[1].wire()];
        here.create_topic("t", 3);
        assert_eq!(there.topic("t").partitions.len(), 3);
        nats.jetstream().reconfigure("kafka-t-1", |config| {
            config["compression"] = json!("s2");
            config["description"] = json!("by hand");
            config["metadata"]["owner"] = json!("somebody");
        });
        assert_eq!(alter(&mut here, "t", &[("retention.ms", Some("7200000")), ("retention.bytes", Some("90000000"))]), (0, String::new()));
        for partition in 0..3 {
            let config = config(&nats, &format!("kafka-t-{partition}"));
            assert_eq!(config["max_age"], 7_200_000_000_000_i64, "partition {partition}");
            assert_eq!(config["max_bytes"], 90_000_000, "partition {partition}");
        }
        let kept = config(&nats, "kafka-t-1");
        assert_eq!((&kept["compression"], &kept["description"]), (&json!("s2"), &json!("by hand")));
        assert_eq!((&kept["metadata"]["owner"], &kept["allow_direct"]), (&json!("somebody"), &json!(true)));
        let told = |wire: &mut Wire| setting(wire, "t", "retention.ms") == ("7200000".to_owned(), 1);
        eventually("the other gateway tells it", SOON, || told(&mut there).then_some(()));
        // Both change something else: neither change is lost.
        set(&mut there, "t", "max.message.bytes", "100000");
        eventually("it is seen here", SOON, || (setting(&mut here, "t", "max.message.bytes").1 == 1).then_some(()));
        assert_eq!(alter(&mut here, "t", &[("retention.ms", None)]).0, 0);
        eventually("it is the default again", SOON, || (setting(&mut there, "t", "retention.ms") == ("604800000".to_owned(), 5)).then_some(()));
        assert_eq!(setting(&mut there, "t", "max.message.bytes"), ("100000".to_owned(), 1));
        for (name, value) in [("no.such", "1"), ("retention.ms", "soon"), ("cleanup.policy", "keep")] {
            let (code, said) = alter(&mut here, "t", &[("retention.bytes", Some("50000000")), (name, Some(value))]);
            assert_eq!(code, INVALID_CONFIG);
            assert!(said.contains(name), "{said}");
        }
        assert_eq!(config(&nats, "kafka-t-0")["max_bytes"], 90_000_000, "nothing was changed");
    }

    fn append_time_is_stamped_told_and_searched(version) {
        let nats = Nats::start(version);
        let gateway = Gateway::start(&nats, &[]);
        let mut wire = gateway.wire();
        assert_eq!(wire.create_topic_with("t", 1, &[("message.timestamp.type", "LogAppendTime")]), 0);
        let before = now_ms();
        let old = Batch { timestamp: 1, ..Batch::of(["a", "b", "c"]) };
        let answer = wire.call(9, &produce_request("t", 0, old.encode()));
        let row = &answer.responses[0].partition_responses[0];
        let stamped = row.log_append_time_ms;
        assert_eq!(row.error_code, 0);
        assert!((before..=now_ms()).contains(&stamped), "{before} {stamped}");
        wire.produce_ok("t", 0, &Batch { timestamp: 99, ..Batch::of(["d"]) });
        let chain = wire.fetch("t", 0, 0).records.expect("records");
        assert_eq!(chain[22] & 0b1000, 0b1000, "the batch says that the broker set its time");
        assert_eq!(i64::from_be_bytes(chain[35..43].try_into().expect("eight bytes")), stamped);
        assert_eq!(crate::harness::batch::records(&chain).len(), 4, "the checksums are right");
        assert_eq!(wire.list_offset("t", 0, stamped), 0);
        assert_eq!(wire.list_offset("t", 0, now_ms() + 1), -1);
        set(&mut wire, "t", "message.timestamp.type", "CreateTime");
        let answer = wire.call(9, &produce_request("t", 0, Batch::of(["e"]).encode()));
        assert_eq!(answer.responses[0].partition_responses[0].log_append_time_ms, -1);
        let chain = wire.fetch("t", 0, 4).records.expect("records");
        assert_eq!(crate::harness::batch::records(&chain)[0].timestamp, 1_700_000_000_000, "the producer's own");
    }

    fn partitions_are_added_under_producers_and_consumers(version) {
        let nats = Nats::start(version);
        let gateways = [Gateway::start(&nats, &[]), Gateway::start(&nats, &[])];
        gateways[0].wire().create_topic("t", 1);
        let fresh = [("topic.metadata.refresh.interval.ms", "300"), ("group.id", "g")];
        let consumer = librdkafka::consumer(&gateways[0].bootstrap(), &fresh);
        consumer.subscribe(&["t"]).expect("a subscription");
        let producer = librdkafka::producer(&gateways[1].bootstrap(), &fresh[..1]);
        producer.send_value("t", 0, b"before");
        assert_eq!(texts(&librdkafka::take(&consumer, 1)), ["before"]);
        assert_eq!(grow(&mut gateways[0].wire(), "t", 4), (0, String::new()));
        assert_eq!(gateways[0].wire().topic("t").partitions.len(), 4);
        eventually("the other gateway has them", SOON, || {
            (gateways[1].wire().topic("t").partitions.len() == 4).then_some(())
        });
        for partition in 1..4 {
            assert_eq!(gateways[1].wire().produce_ok("t", partition, &Batch::of(["direct"])), 0);
        }
        // A producer that was there before spreads over all of them once it has heard.
        let mut sent = 0;
        eventually("all partitions are used", SOON, || {
            let key = format!("key {sent}");
            producer.send(BaseRecord::to("t").key(key.as_bytes()).payload(&b"spread"[..]));
            producer.flush();
            sent += 1;
            let ends = (0..4).map(|partition| gateways[0].wire().list_offset("t", partition, -1));
            ends.into_iter().all(|end| end >= 2).then_some(())
        });
        let got = librdkafka::take(&consumer, 3 + sent);
        assert!((0..4).all(|partition| got.iter().any(|record| record.partition == partition)), "{got:?}");
        assert_eq!(grow(&mut gateways[1].wire(), "t", 4).0, INVALID_PARTITIONS);
        assert_eq!(grow(&mut gateways[1].wire(), "t", 2).0, INVALID_PARTITIONS);
        // Who still asks for the topic would create it again.
        drop((producer, consumer));
        assert_eq!(gateways[0].wire().delete_topic("t"), 0);
        let left = nats.jetstream().stream_names();
        assert!(!left.iter().any(|name| name.starts_with("kafka-t-")), "{left:?}");
    }

    fn streams_without_limits_are_bounded_at_start(version) {
        let nats = Nats::with_room(version, "150MB");
        let mut jetstream = nats.jetstream();
        let mut make = |topic: &str, rest: Value| {
            let name = format!("kafka-{topic}-0");
            let mut config = json!({
                "name": name, "subjects": [format!("kafka.{topic}.0")], "storage": "file", "description": "by hand",
                "compression": "s2", "max_consumers": 77,
            });
            config.as_object_mut().expect("an object").extend(rest.as_object().expect("an object").clone());
            jetstream.api(&format!("STREAM.CREATE.{name}"), &config);
            jetstream.store(&format!("kafka.{topic}.0"), "", &Batch::of([topic]).encode());
        };
        make("bare", json!({}));
        make("aged", json!({ "max_age": 3_600_000_000_000_i64 }));
        make("sized", json!({ "max_bytes": 50_000_000 }));
        make("counted", json!({ "max_msgs": 1000 }));
        // For the last one the store has no room left; what is sealed and what is foreign is not ours to bound.
        make("sealed", json!({}));
        make("without-room", json!({}));
        jetstream.reconfigure("kafka-sealed-0", |config| config["sealed"] = json!(true));
        jetstream.api("STREAM.CREATE.kafka-foreign", &json!({ "name": "kafka-foreign", "subjects": ["elsewhere"] }));
        let gateway = Gateway::start(&nats, &["--retention=48h", "--retention-bytes=64MiB"]);
        let mut wire = gateway.wire();
        eventually("the stream is bounded", SOON, || (config(&nats, "kafka-bare-0")["max_bytes"] == 64 << 20).then_some(()));
        let bounded = config(&nats, "kafka-bare-0");
        assert_eq!(bounded["max_age"], 48 * 3600 * 1_000_000_000_i64);
        for (field, value) in [("description", json!("by hand")), ("compression", json!("s2")), ("max_consumers", json!(77))] {
            assert_eq!(bounded[field], value, "{field} is kept");
        }
        eventually("what cannot be bounded is told", SOON, || gateway.logged("cannot be bounded").then_some(()));
        for (stream, age, bytes) in [
            ("kafka-aged-0", 3_600_000_000_000_i64, -1),
            ("kafka-sized-0", 0, 50_000_000),
            ("kafka-counted-0", 0, -1),
            ("kafka-sealed-0", 0, -1),
            ("kafka-without-room-0", 0, -1),
            ("kafka-foreign", 0, -1),
        ] {
            let config = config(&nats, stream);
            assert_eq!((config["max_age"].as_i64(), config["max_bytes"].as_i64()), (Some(age), Some(bytes)), "{stream}");
        }
        for topic in ["bare", "aged", "sized", "counted", "sealed", "without-room"] {
            assert_eq!(wire.read_all(topic, 0, 0), [(0, topic.to_owned())], "{topic} serves");
        }
    }

    fn a_topic_without_room_is_refused_with_what_there_is_and_what_to_do(version) {
        let nats = Nats::with_room(version, "100MB");
        let gateway = Gateway::start(&nats, &[]);
        let mut wire = gateway.wire();
        let small = [("retention.bytes", "20000000")];
        assert_eq!(wire.create_topic_with("first", 2, &small), 0);
        let (code, said) = create(&mut wire, "second", 4, &[("retention.bytes", "20000000")]);
        assert_eq!(code, INVALID_PARTITIONS, "{said}");
        for part in ["4 of 20000000 bytes", "are 80000000 bytes", "Set aside already are", "--retention-bytes"] {
            assert!(said.contains(part), "{part} is missing in: {said}");
        }
        assert_eq!(wire.topic("second").error_code, 3, "no half topic");
        let streams = |nats: &Nats| nats.jetstream().stream_names().iter().filter(|name| name.starts_with("kafka-")).count();
        assert_eq!(streams(&nats), 2, "no stray streams");
        let (code, said) = create(&mut wire, "default", 1, &[]);
        assert_eq!(code, INVALID_PARTITIONS, "256 MiB do not fit either: {said}");
        let (code, said) = grow(&mut wire, "first", 6);
        assert_eq!(code, INVALID_PARTITIONS, "{said}");
        assert_eq!((wire.topic("first").partitions.len(), streams(&nats)), (2, 2));
        let (code, said) = alter(&mut wire, "first", &[("retention.bytes", Some("60000000"))]);
        assert_eq!(code, POLICY_VIOLATION, "{said}");
        assert!(said.contains("2 of 60000000 bytes"), "{said}");
        for partition in 0..2 {
            assert_eq!(config(&nats, &format!("kafka-first-{partition}"))["max_bytes"], 20_000_000);
            assert_eq!(wire.produce_ok("first", partition, &Batch::of(["still works"])), 0);
        }
        assert_eq!(setting(&mut wire, "first", "retention.bytes"), ("20000000".to_owned(), 1));
        assert_eq!(create(&mut wire, "less", 1, &[("retention.bytes", "-1")]), (0, String::new()), "nothing set aside");
    }
}

/// The code and the text.
#[track_caller]
fn create(wire: &mut Wire, name: &str, partitions: i32, configs: &[(&str, &str)]) -> (i16, String) {
    use kafka_protocol::messages::CreateTopicsRequest;
    use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
    let config = |(name, value): &(&str, &str)| {
        CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value)))
    };
    let topic = CreatableTopic::default()
        .with_name(topic_name(name))
        .with_num_partitions(partitions)
        .with_replication_factor(1)
        .with_configs(configs.iter().map(config).collect());
    let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(20_000);
    let row = wire.call(5, &request).topics.remove(0);
    (row.error_code, row.error_message.map(|text| text.to_string()).unwrap_or_default())
}

#[test]
fn sizes_and_times_are_bounded_as_the_topic_says() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    wire.create_topic("t", 1);
    let large = Batch::of(["x".repeat(5_000)]);
    let at = |timestamp: i64| Batch { timestamp, ..Batch::of(["timed"]) };
    assert_eq!(wire.produce("t", 0, &large).0, 0);
    set(&mut wire, "t", "max.message.bytes", "4000");
    assert_eq!(wire.produce("t", 0, &large).0, MESSAGE_TOO_LARGE);
    set(&mut wire, "t", "max.message.bytes", "6000");
    assert_eq!(wire.produce("t", 0, &large).0, 0);

    let hour = 3_600_000;
    assert_eq!(wire.produce("t", 0, &at(now_ms() + 2 * hour)).0, INVALID_TIMESTAMP, "an hour ahead is the default");
    assert_eq!(wire.produce("t", 0, &at(1)).0, 0, "how far behind does not matter by default");
    set(&mut wire, "t", "message.timestamp.before.max.ms", "60000");
    assert_eq!(wire.produce("t", 0, &at(now_ms() - hour)).0, INVALID_TIMESTAMP);
    assert_eq!(wire.produce("t", 0, &at(now_ms())).0, 0);
    set(&mut wire, "t", "message.timestamp.after.max.ms", "7300000");
    assert_eq!(wire.produce("t", 0, &at(now_ms() + 2 * hour)).0, 0);
    assert_eq!(wire.list_offset("t", 0, -1), 5);
}

/// Whatever the producer compresses with, the topic's codec is what is stored, and all clients read it.
#[test]
fn batches_are_stored_in_the_codec_that_the_topic_asks_for() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    let values: Vec<String> = numbered(400).into_iter().map(|value| format!("{value} {}", "y".repeat(200))).collect();
    let codecs = [("uncompressed", 0), ("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)];
    for (wanted, id) in codecs {
        let topic = format!("as-{wanted}");
        assert_eq!(wire.create_topic_with(&topic, 1, &[("compression.type", wanted)]), 0);
        for sent in ["none", "gzip", "snappy", "lz4", "zstd"] {
            let settings = [("compression.codec", sent), ("enable.idempotence", "true")];
            librdkafka::produce(&gateway.bootstrap(), &topic, &settings, &values);
        }
        let got = texts(&librdkafka::consume(&gateway.bootstrap(), &topic, 5 * values.len()));
        assert!(got.chunks(values.len()).all(|chunk| chunk == values), "{wanted}");
        for message in nats.jetstream().messages(&format!("kafka-{topic}-0")) {
            let mut rest = &message.payload[..];
            while rest.len() > 61 {
                assert_eq!(rest[22] & 0b111, id, "{wanted}");
                let length = i32::from_be_bytes(rest[8..12].try_into().expect("four bytes"));
                rest = &rest[12 + usize::try_from(length).expect("a length")..];
            }
        }
        // kafka-python comes without libraries for the others.
        if matches!(wanted, "uncompressed" | "gzip") {
            python("kafka_python_copy.py", &[&gateway.bootstrap(), &topic, &format!("copied-{wanted}"), "2000"]);
        }
    }
    // What comes in the right codec keeps its bytes.
    let sent = Batch::of(["as it came"]).encode();
    wire.call(9, &produce_request("as-uncompressed", 0, sent.clone()));
    let end = wire.list_offset("as-uncompressed", 0, -1);
    let data = partition_data(wire.call(12, &crate::harness::wire::fetch_request("as-uncompressed", 0, end - 1)));
    assert_eq!(data.records.expect("records")[16..], sent[16..]);
    // A bomb that inflates beyond what the topic takes.
    let bomb = "\0".repeat(3_000_000);
    let producer =
        librdkafka::producer(&gateway.bootstrap(), &[("compression.codec", "zstd"), ("message.max.bytes", "5000000")]);
    producer.send_value("as-uncompressed", 0, bomb.as_bytes());
    producer.flush();
    assert!(producer.deliveries.all()[0].1.is_err(), "3 MB do not fit below max.message.bytes");
    assert_eq!(wire.list_offset("as-uncompressed", 0, -1), end);
    assert_eq!(wire.list_offset("as-uncompressed", 0, EARLIEST), 0);
}

#[test]
fn retention_is_set_by_flags_and_by_variables() {
    let nats = Nats::start(Version::Newest);
    let limits = |variables: &[(&str, &str)], flags: &[&str]| {
        let mut gateway = Gateway::in_environment(&nats.url(), flags, variables);
        gateway.wait_ready();
        let name = crate::harness::unique("flags");
        gateway.wire().create_topic(&name, 1);
        let config = config(&nats, &format!("kafka-{name}-0"));
        (config["max_age"].as_i64().expect("a number") / 1_000_000, config["max_bytes"].as_i64().expect("a number"))
    };
    let (week, default) = (168 * 3_600_000, 256 << 20);
    assert_eq!(limits(&[], &[]), (week, default));
    assert_eq!(limits(&[], &["--retention=2h", "--retention-bytes=100MiB"]), (7_200_000, 100 << 20));
    assert_eq!(limits(&[], &["--retention=0", "--retention-bytes=0"]), (week, default), "zero takes the default");
    assert_eq!(limits(&[], &["--retention=-1"]), (0, default), "each axis by itself");
    assert_eq!(limits(&[], &["--retention-bytes=-1"]), (week, -1));
    let alternate = [("CLOUD_KAFKA_RETENTION", "3h"), ("CLOUD_KAFKA_RETENTION_BYTES", "-1")];
    assert_eq!(limits(&alternate, &[]), (10_800_000, -1));
    let own = [("HANZO_KAFKA_RETENTION", "4h"), ("HANZO_KAFKA_RETENTION_BYTES", "90MiB")];
    assert_eq!(limits(&[&alternate[..], &own[..]].concat(), &[]), (14_400_000, 90 << 20), "our own come first");
    assert_eq!(limits(&own, &["--retention=5h"]), (18_000_000, 90 << 20), "the flag comes first");
}

#[test]
fn confluent_kafka_alters_describes_adds_and_deletes() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    python("confluent_kafka_admin.py", &[&gateway.bootstrap()]);
}

/// A gateway that is killed between two updates: what it began comes to hold nowhere, or everywhere.
#[test]
fn a_gateway_killed_while_it_changes_limits_leaves_a_topic_that_converges() {
    let nats = Nats::start(Version::Newest);
    let mut killed = Gateway::start(&nats, &[]);
    let other = Gateway::start(&nats, &[]);
    killed.wire().create_topic("t", 40);
    let mut wire = killed.wire();
    let resource =
        AlterConfigsResource::default().with_resource_type(TOPIC).with_resource_name(text("t")).with_configs(vec![
            AlterableConfig::default().with_name(text("retention.ms")).with_value(Some(text("5000000"))),
        ]);
    wire.send(1, &IncrementalAlterConfigsRequest::default().with_resources(vec![resource]));
    let age = |partition: usize| config(&nats, &format!("kafka-t-{partition}"))["max_age"].as_i64();
    eventually("it has begun", SOON, || (age(39) == Some(5_000_000_000_000)).then_some(()));
    killed.kill();
    let limit = SOON + Duration::from_secs(30);
    let first = eventually("all partitions agree", limit, || {
        let first = age(0);
        (1..40).all(|partition| age(partition) == first).then_some(first)
    });
    let told = setting(&mut other.wire(), "t", "retention.ms").0;
    assert_eq!(first.map(|ns| (ns / 1_000_000).to_string()), Some(told));
    // The claim of the dead one runs out.
    eventually("it can be changed again", limit, || {
        (alter(&mut other.wire(), "t", &[("retention.ms", Some("6000000"))]).0 == 0).then_some(())
    });
}
