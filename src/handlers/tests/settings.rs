//! Altering settings, adding partitions, deleting records.

use super::*;
use crate::protocol::messages::alter_configs::{
    AlterConfigsRequest, AlterConfigsResource, AlterConfigsResourceResponse, AlterableConfig,
};
use crate::protocol::messages::create_partitions::{
    CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic, CreatePartitionsTopicResult,
};
use crate::protocol::messages::create_topics::CreatableTopicConfig;
use crate::protocol::messages::delete_records::{DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic};
use crate::protocol::messages::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use crate::protocol::messages::incremental_alter_configs as incremental;

/// The brokers of each new partition.
type Assigned = &'static [&'static [i32]];

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const LOGGER: i8 = 8;

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

type Op<'a> = (&'a str, i8, Option<&'a str>);

impl Rig {
    /// Code and text.
    fn alter_each(&self, kind: i8, name: &str, ops: &[Op]) -> (ErrorCode, String) {
        self.alter_each_or_not(kind, name, ops, false)
    }

    fn alter_each_or_not(&self, kind: i8, name: &str, ops: &[Op], validate_only: bool) -> (ErrorCode, String) {
        let config = |(name, config_operation, value): &Op| incremental::AlterableConfig {
            name: (*name).to_owned(),
            config_operation: *config_operation,
            value: value.map(str::to_owned),
        };
        let configs = ops.iter().map(config).collect();
        let resource =
            incremental::AlterConfigsResource { resource_type: kind, resource_name: name.to_owned(), configs };
        let request = incremental::IncrementalAlterConfigsRequest { resources: vec![resource], validate_only };
        let row = self.ask(1, &request).responses.remove(0);
        assert_eq!((row.resource_type, row.resource_name.as_str()), (kind, name));
        (ErrorCode::from_code(row.error_code), row.error_message.unwrap_or_default())
    }

    fn alter_all(&self, kind: i8, name: &str, pairs: &[(&str, Option<&str>)]) -> AlterConfigsResourceResponse {
        let resources = vec![all_of(kind, name, pairs)];
        self.ask(2, &AlterConfigsRequest { resources, validate_only: false }).responses.remove(0)
    }

    /// The value and the source.
    fn setting(&self, topic: &str, name: &str) -> (String, i8) {
        let resources = vec![DescribeConfigsResource {
            resource_type: TOPIC,
            resource_name: topic.to_owned(),
            configuration_keys: Some(vec![name.to_owned()]),
        }];
        let request = DescribeConfigsRequest { resources, ..Default::default() };
        let found = self.ask(4, &request).results.remove(0).configs.remove(0);
        (found.value.expect("it has a value"), found.config_source)
    }

    fn grow(&self, topics: &[(&str, i32, Option<Assigned>)], validate_only: bool) -> Vec<CreatePartitionsTopicResult> {
        let assignment = |ids: &&[i32]| CreatePartitionsAssignment { broker_ids: ids.to_vec() };
        let topic = |(name, count, assignments): &(&str, i32, Option<Assigned>)| CreatePartitionsTopic {
            name: (*name).to_owned(),
            count: *count,
            assignments: assignments.map(|rows| rows.iter().map(assignment).collect()),
        };
        let topics = topics.iter().map(topic).collect();
        self.ask(3, &CreatePartitionsRequest { topics, timeout_ms: 5000, validate_only }).results
    }

    fn partitions(&self, topic: &str) -> usize {
        self.ask(9, &no_creation(&[topic])).topics[0].partitions.len()
    }
}

fn all_of(kind: i8, name: &str, pairs: &[(&str, Option<&str>)]) -> AlterConfigsResource {
    let config = |(name, value): &(&str, Option<&str>)| AlterableConfig {
        name: (*name).to_owned(),
        value: value.map(str::to_owned),
    };
    AlterConfigsResource {
        resource_type: kind,
        resource_name: name.to_owned(),
        configs: pairs.iter().map(config).collect(),
    }
}

fn compacted(name: &str) -> CreatableTopic {
    let config = CreatableTopicConfig { name: "cleanup.policy".to_owned(), value: Some("compact".to_owned()) };
    CreatableTopic { configs: vec![config], ..topic(name, 1, 1) }
}

#[test]
fn single_settings_are_set_reset_appended_to_and_subtracted_from() {
    let rig = Rig::new();
    rig.create(topic("t", 3, 1));
    let none = (ErrorCode::NONE, String::new());
    assert_eq!(
        rig.alter_each(TOPIC, "t", &[("retention.ms", SET, Some("5000")), ("max.message.bytes", SET, Some("777"))]),
        none
    );
    assert_eq!(rig.setting("t", "retention.ms"), ("5000".to_owned(), 1));
    assert_eq!(rig.alter_each(TOPIC, "t", &[("retention.ms", SET, Some("6000"))]), none);
    assert_eq!(rig.setting("t", "max.message.bytes"), ("777".to_owned(), 1), "what is not named stays");
    assert_eq!(rig.alter_each(TOPIC, "t", &[("cleanup.policy", APPEND, Some("compact"))]), none);
    assert_eq!(rig.setting("t", "cleanup.policy"), ("delete,compact".to_owned(), 1));
    assert_eq!(rig.alter_each(TOPIC, "t", &[("cleanup.policy", SUBTRACT, Some("compact"))]), none);
    assert_eq!(rig.setting("t", "cleanup.policy"), ("delete".to_owned(), 1), "given, though it is the default");
    assert_eq!(rig.alter_each(TOPIC, "t", &[("cleanup.policy", DELETE, None), ("retention.ms", DELETE, None)]), none);
    assert_eq!(rig.setting("t", "cleanup.policy"), ("delete".to_owned(), 5));
    assert_eq!(rig.setting("t", "retention.ms"), ("604800000".to_owned(), 5));
    for partition in 0..3 {
        let info = rig.store.stream_info(&format!("kafka-t-{partition}"), rig.clock.now().mono).expect("it is there");
        assert_eq!(info.config["max_age"], 604_800_000_000_000_i64);
    }
    assert_eq!(rig.alter_each_or_not(TOPIC, "t", &[("retention.ms", SET, Some("1"))], true), none);
    assert_eq!(rig.setting("t", "retention.ms"), ("604800000".to_owned(), 5), "only checked");
}

#[test]
fn changes_are_refused_with_kafkas_codes_and_by_name() {
    let rig = Rig::new();
    rig.create(topic("t", 1, 1));
    let twice: &[Op] = &[("retention.ms", SET, Some("1")), ("retention.ms", SET, Some("2"))];
    let cases: &[(i8, &str, &[Op], ErrorCode, &str)] = &[
        (TOPIC, "t", &[("no.such", SET, Some("1"))], ErrorCode::INVALID_CONFIG, "no.such"),
        (TOPIC, "t", &[("retention.ms", SET, Some("x"))], ErrorCode::INVALID_CONFIG, "retention.ms"),
        (TOPIC, "t", &[("retention.ms", APPEND, Some("1"))], ErrorCode::INVALID_CONFIG, "retention.ms"),
        (TOPIC, "t", &[("retention.ms", SET, None)], ErrorCode::INVALID_REQUEST, "retention.ms"),
        (TOPIC, "t", &[("retention.ms", 9, Some("1"))], ErrorCode::INVALID_REQUEST, "9"),
        (TOPIC, "t", twice, ErrorCode::INVALID_REQUEST, "duplicate"),
        (TOPIC, "nothing", &[("retention.ms", SET, Some("1"))], ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "nothing"),
        (TOPIC, "nothing", &[("no.such", SET, Some("1"))], ErrorCode::INVALID_CONFIG, "no.such"),
        (TOPIC, "a/b", &[("retention.ms", SET, Some("1"))], ErrorCode::INVALID_TOPIC_EXCEPTION, ""),
        (TOPIC, "", &[("retention.ms", SET, Some("1"))], ErrorCode::INVALID_REQUEST, "Default"),
        (BROKER, "3", &[("log.retention.ms", SET, Some("1"))], ErrorCode::INVALID_REQUEST, "log.retention.ms"),
        (BROKER, "", &[("log.retention.ms", DELETE, None)], ErrorCode::INVALID_REQUEST, "log.retention.ms"),
        (BROKER, "4", &[("log.retention.ms", SET, Some("1"))], ErrorCode::INVALID_REQUEST, "expected 3"),
        (BROKER, "x", &[("log.retention.ms", SET, Some("1"))], ErrorCode::INVALID_REQUEST, "integer"),
        (BROKER, "3", &[], ErrorCode::NONE, ""),
        (LOGGER, "3", &[("root", SET, Some("DEBUG"))], ErrorCode::INVALID_REQUEST, "--log-level"),
        (LOGGER, "3", &[("root", SET, Some("LOUD"))], ErrorCode::INVALID_CONFIG, "LOUD"),
        (LOGGER, "3", &[("kafka", SET, Some("DEBUG"))], ErrorCode::INVALID_CONFIG, "kafka"),
        (16, "m", &[("interval.ms", SET, Some("1"))], ErrorCode::INVALID_REQUEST, "interval.ms"),
        (32, "g", &[("x", SET, Some("1"))], ErrorCode::INVALID_CONFIG, "x"),
        (99, "g", &[("x", SET, Some("1"))], ErrorCode::INVALID_REQUEST, "99"),
    ];
    for (kind, name, ops, expected, part) in cases {
        for validate_only in [true, false] {
            let (code, text) = rig.alter_each_or_not(*kind, name, ops, validate_only);
            assert_eq!(code, *expected, "{kind} {name} {ops:?}: {text}");
            assert!(text.contains(part), "{part} is missing in: {text}");
        }
    }
    assert_eq!(rig.setting("t", "retention.ms"), ("604800000".to_owned(), 5));
}

#[test]
fn all_settings_are_replaced_by_the_older_api() {
    let rig = Rig::new();
    rig.create(topic("t", 1, 1));
    for version in 0..=2 {
        let pairs = [("retention.ms", Some("5000")), ("segment.ms", Some("7"))];
        let request = AlterConfigsRequest { resources: vec![all_of(TOPIC, "t", &pairs)], validate_only: false };
        check(rig.ask(version, &request).responses[0].error_code, ErrorCode::NONE);
    }
    assert_eq!(rig.setting("t", "segment.ms"), ("7".to_owned(), 1));
    check(rig.alter_all(TOPIC, "t", &[("retention.ms", Some("6000"))]).error_code, ErrorCode::NONE);
    assert_eq!(rig.setting("t", "segment.ms"), ("604800000".to_owned(), 5), "not named: back to the default");
    check(rig.alter_all(TOPIC, "t", &[("retention.ms", None)]).error_code, ErrorCode::INVALID_REQUEST);
    check(rig.alter_all(LOGGER, "3", &[("root", Some("DEBUG"))]).error_code, ErrorCode::INVALID_REQUEST);
    let resources = vec![all_of(TOPIC, "t", &[]), all_of(BROKER, "3", &[]), all_of(TOPIC, "t", &[])];
    let rows = rig.ask(2, &AlterConfigsRequest { resources, validate_only: false }).responses;
    let codes: Vec<_> = rows.iter().map(|row| ErrorCode::from_code(row.error_code)).collect();
    assert_eq!(codes, [ErrorCode::INVALID_REQUEST, ErrorCode::NONE, ErrorCode::INVALID_REQUEST]);
    assert_eq!(rig.setting("t", "retention.ms"), ("6000".to_owned(), 1));
}

#[test]
fn what_is_described_can_be_written_back() {
    let rig = Rig::new();
    rig.create(compacted("t"));
    let resource =
        DescribeConfigsResource { resource_type: TOPIC, resource_name: "t".to_owned(), configuration_keys: None };
    let described = rig.ask(4, &DescribeConfigsRequest { resources: vec![resource], ..Default::default() });
    let configs = &described.results[0].configs;
    let pairs: Vec<(&str, Option<&str>)> =
        configs.iter().map(|config| (config.name.as_str(), config.value.as_deref())).collect();
    assert!(pairs.len() > 30);
    let row = rig.alter_all(TOPIC, "t", &pairs);
    assert_eq!((row.error_code, row.error_message), (0, None));
    let ops: Vec<Op> = pairs.iter().map(|(name, value)| (*name, SET, *value)).collect();
    assert_eq!(rig.alter_each(TOPIC, "t", &ops).0, ErrorCode::NONE);
}

#[test]
fn a_broker_tells_all_of_kafkas_settings_and_its_passwords_to_nobody() {
    let rig = Rig::with(|config| config.retention = crate::config::Limit::At(7));
    let resource =
        |kind| DescribeConfigsResource { resource_type: kind, resource_name: "3".to_owned(), configuration_keys: None };
    let request = DescribeConfigsRequest {
        resources: vec![resource(BROKER), resource(LOGGER)],
        include_synonyms: true,
        include_documentation: true,
    };
    let mut results = rig.ask(4, &request).results;
    let loggers = results.remove(1).configs;
    assert_eq!(
        (loggers[0].name.as_str(), loggers[0].value.as_deref(), loggers[0].config_source),
        ("root", Some("INFO"), 6)
    );
    let configs = results.remove(0).configs;
    assert!(configs.len() > 300 && configs.iter().all(|config| config.read_only));
    assert!(configs.iter().all(|config| config.documentation.as_ref().is_some_and(|text| !text.is_empty())));
    let find = |name: &str| configs.iter().find(|config| config.name == name).expect("a setting");
    assert_eq!((find("log.retention.ms").value.as_deref(), find("log.retention.ms").config_source), (Some("7"), 4));
    assert_eq!(
        (find("log.cleaner.threads").value.as_deref(), find("log.cleaner.threads").config_source),
        (Some("1"), 5)
    );
    assert_eq!((&find("log.dirs").value, find("log.dirs").config_type), (&None, 7));
    let secret = find("ssl.keystore.password");
    assert_eq!((&secret.value, secret.is_sensitive, secret.config_type), (&None, true, 9));
}

/// Kafka's tool for reassignments does so at the end of each.
#[test]
fn throttles_that_were_never_set_are_taken_from_a_broker() {
    let rig = Rig::new();
    let rate = "leader.replication.throttled.rate";
    for name in ["3", ""] {
        let deleted = [(rate, DELETE, None), ("follower.replication.throttled.rate", DELETE, None)];
        assert_eq!(rig.alter_each(BROKER, name, &deleted).0, ErrorCode::NONE);
    }
    assert_eq!(rig.alter_each(BROKER, "3", &[(rate, SET, Some("1000"))]).0, ErrorCode::INVALID_REQUEST);
    let (code, text) = rig.alter_each(BROKER, "3", &[(rate, DELETE, None), ("num.partitions", DELETE, None)]);
    assert_eq!(code, ErrorCode::INVALID_REQUEST);
    assert!(text.contains("[num.partitions]"), "{text}");
}

#[test]
fn topics_gain_partitions_or_are_told_why_not() {
    let rig = Rig::new();
    rig.create(topic("t", 2, 1));
    let cases: &[(&str, i32, Option<Assigned>, ErrorCode)] = &[
        ("t", 2, None, ErrorCode::INVALID_PARTITIONS),
        ("t", 1, None, ErrorCode::INVALID_PARTITIONS),
        ("t", -1, None, ErrorCode::INVALID_PARTITIONS),
        ("t", i32::MAX, None, ErrorCode::INVALID_PARTITIONS),
        ("nothing", 3, None, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 4, Some(&[&[3]]), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
        ("t", 3, Some(&[&[9]]), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
        ("t", 3, Some(&[&[]]), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
        ("t", 3, Some(&[&[3, 3]]), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
    ];
    for (name, count, assignments, expected) in cases {
        for validate_only in [true, false] {
            let row = rig.grow(&[(name, *count, *assignments)], validate_only).remove(0);
            assert_eq!(ErrorCode::from_code(row.error_code), *expected, "{name} {count} {assignments:?}");
            assert!(row.error_message.is_some_and(|text| !text.is_empty()));
        }
    }
    assert_eq!((rig.partitions("t"), rig.streams()), (2, 2));
    check(rig.grow(&[("t", 3, Some(&[&[3]]))], true)[0].error_code, ErrorCode::NONE);
    assert_eq!(rig.partitions("t"), 2, "only checked");
    let rows = rig.grow(&[("t", 3, Some(&[&[3]])), ("u", 3, None), ("u", 4, None)], false);
    let summary: Vec<_> = rows.iter().map(|row| (row.name.as_str(), ErrorCode::from_code(row.error_code))).collect();
    assert_eq!(summary, [("t", ErrorCode::NONE), ("u", ErrorCode::INVALID_REQUEST)]);
    assert_eq!((rig.partitions("t"), rig.streams()), (3, 3));
}

#[test]
fn records_are_deleted_where_the_policy_allows_it() {
    let rig = Rig::new();
    rig.create(topic("t", 1, 1));
    rig.create(compacted("compacted"));
    let asked = |name: &str, partition_index, offset| DeleteRecordsTopic {
        name: name.to_owned(),
        partitions: vec![DeleteRecordsPartition { partition_index, offset }],
    };
    for version in 0..=2 {
        let topics = vec![
            asked("t", 0, -1),
            asked("t", 0, 0),
            asked("t", 0, 1),
            asked("t", 0, -2),
            asked("t", 1, 0),
            asked("nothing", 0, 0),
            asked("compacted", 0, 0),
        ];
        let answer = rig.ask(version, &DeleteRecordsRequest { topics, timeout_ms: 5000 });
        let rows = answer.topics.iter().flat_map(|topic| &topic.partitions);
        let summary: Vec<_> = rows.map(|row| (row.low_watermark, ErrorCode::from_code(row.error_code))).collect();
        let expected = [
            (0, ErrorCode::NONE),
            (0, ErrorCode::NONE),
            (-1, ErrorCode::OFFSET_OUT_OF_RANGE),
            (-1, ErrorCode::OFFSET_OUT_OF_RANGE),
            (-1, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            (-1, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            (-1, ErrorCode::POLICY_VIOLATION),
        ];
        assert_eq!(summary, expected, "version {version}");
    }
}
