//! Creating, deleting and describing topics.

use super::*;
use crate::config::Limit;
use crate::protocol::messages::create_topics::{CreatableReplicaAssignment, CreatableTopicConfig};
use crate::protocol::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use crate::protocol::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResult,
};
use crate::protocol::messages::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics};

impl Rig {
    fn create_all(&self, topics: Vec<CreatableTopic>, validate_only: bool) -> Vec<CreatableTopicResult> {
        self.ask(7, &CreateTopicsRequest { topics, validate_only, ..Default::default() }).topics
    }

    fn describe(&self, resource_type: i8, resource_name: &str) -> DescribeConfigsResult {
        let resource_name = resource_name.to_owned();
        let resources = vec![DescribeConfigsResource { resource_type, resource_name, configuration_keys: None }];
        let request = DescribeConfigsRequest { resources, include_synonyms: true, include_documentation: true };
        self.ask(4, &request).results.remove(0)
    }
}

fn with_configs(topic: CreatableTopic, configs: &[(&str, Option<&str>)]) -> CreatableTopic {
    let config = |(name, value): &(&str, Option<&str>)| CreatableTopicConfig {
        name: (*name).to_owned(),
        value: value.map(str::to_owned),
    };
    CreatableTopic { configs: configs.iter().map(config).collect(), ..topic }
}

#[test]
fn created_topics_are_told_as_they_were_made() {
    let rig = Rig::with(|config| (config.default_partitions, config.replicas) = (4, 3));
    let made = rig.create(topic("default", -1, -1));
    assert_eq!((made.error_code, made.num_partitions, made.replication_factor), (0, 4, 3));
    assert_ne!(made.topic_id, Uuid::ZERO);
    let configs = made.configs.expect("they are told");
    let retention = configs.iter().find(|config| config.name == "retention.ms").expect("it has a value");
    assert_eq!((retention.value.as_deref(), retention.config_source), (Some("604800000"), 5));
    let made = rig.create(with_configs(topic("given", 2, 1), &[("cleanup.policy", Some("compact"))]));
    assert_eq!((made.error_code, made.num_partitions, made.replication_factor), (0, 2, 1));
    let policy = made.configs.expect("they are told").into_iter().find(|config| config.name == "cleanup.policy");
    assert_eq!(policy.map(|policy| (policy.value, policy.config_source)), Some((Some("compact".to_owned()), 1)));
    for version in 2..=7 {
        let name = format!("v{version}");
        let request = CreateTopicsRequest { topics: vec![topic(&name, 1, 1)], ..Default::default() };
        assert_eq!(rig.ask(version, &request).topics[0].error_code, 0, "version {version}");
        assert_eq!(rig.metadata(9, &[&name]).topics[0].partitions.len(), 1, "usable at once");
    }
}

#[test]
fn creations_are_refused_with_kafkas_codes() {
    let rig = Rig::new();
    rig.create(topic("there", 1, 1));
    let assigned = |rows: &[(i32, &[i32])]| CreatableTopic {
        assignments: rows
            .iter()
            .map(|(partition_index, ids)| CreatableReplicaAssignment {
                partition_index: *partition_index,
                broker_ids: ids.to_vec(),
            })
            .collect(),
        ..topic("t", -1, -1)
    };
    for (asked, expected) in [
        (topic("there", 1, 1), ErrorCode::TOPIC_ALREADY_EXISTS),
        (topic("t", 0, 1), ErrorCode::INVALID_PARTITIONS),
        (topic("t", -2, 1), ErrorCode::INVALID_PARTITIONS),
        (topic("t", 1_000_000, 1), ErrorCode::INVALID_PARTITIONS),
        (topic("t", i32::MAX, 1), ErrorCode::INVALID_PARTITIONS),
        (topic("t", 1, 0), ErrorCode::INVALID_REPLICATION_FACTOR),
        (topic("t", 1, -2), ErrorCode::INVALID_REPLICATION_FACTOR),
        (topic("t", 1, 100), ErrorCode::INVALID_REPLICATION_FACTOR),
        (with_configs(topic("t", 1, 1), &[("no.such", Some("1"))]), ErrorCode::INVALID_CONFIG),
        (with_configs(topic("t", 1, 1), &[("retention.ms", Some("x"))]), ErrorCode::INVALID_CONFIG),
        (with_configs(topic("t", 1, 1), &[("retention.ms", None)]), ErrorCode::INVALID_CONFIG),
        (CreatableTopic { num_partitions: 1, ..assigned(&[(0, &[3])]) }, ErrorCode::INVALID_REQUEST),
        (CreatableTopic { replication_factor: 1, ..assigned(&[(0, &[3])]) }, ErrorCode::INVALID_REQUEST),
        (assigned(&[(0, &[4])]), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
        (assigned(&[(0, &[])]), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
        (assigned(&[(0, &[3, 3])]), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
        (assigned(&[(0, &[3]), (0, &[3])]), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
        (assigned(&[(1, &[3]), (2, &[3])]), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
        (topic("__cluster_metadata", 1, 1), ErrorCode::INVALID_REQUEST),
    ] {
        for validate_only in [true, false] {
            let result = rig.create_all(vec![asked.clone()], validate_only).remove(0);
            assert_eq!(ErrorCode::from_code(result.error_code), expected, "{asked:?}");
            assert!(result.error_message.is_some_and(|text| !text.is_empty()));
        }
    }
    assert_eq!(rig.streams(), 1);
    let made = rig.create(assigned(&[(1, &[3]), (0, &[3])]));
    assert_eq!((made.error_code, made.num_partitions), (0, 2));
}

#[test]
fn a_replication_factor_means_jetstream_replicas() {
    let rig = Rig::with(|config| config.replicas = 3);
    for (asked, made) in [(1, 1), (2, 3), (3, 3)] {
        assert_eq!(rig.create(topic(&format!("t{asked}"), 1, asked)).replication_factor, made);
        let stream = rig.store.stream_info(&format!("kafka-t{asked}-0"), rig.clock.now().mono).expect("it is there");
        assert_eq!(stream.config["num_replicas"], made);
    }
    check(rig.create(topic("t", 1, 4)).error_code, ErrorCode::INVALID_REPLICATION_FACTOR);
    let lenient = Rig::with(|config| config.accept_any_replication_factor = true);
    let made = lenient.create(topic("t", 1, 3));
    assert_eq!((made.error_code, made.replication_factor), (0, 1), "what there is");
}

#[test]
fn each_topic_stands_for_itself_and_twice_is_a_mistake() {
    let rig = Rig::new();
    let rows = rig.create_all(vec![topic("a", 1, 1), topic("b", 1, 1), topic("a", 2, 1), topic("c", 0, 1)], false);
    let summary: Vec<_> = rows.iter().map(|row| (row.name.as_str(), ErrorCode::from_code(row.error_code))).collect();
    let expected = [("a", ErrorCode::INVALID_REQUEST), ("b", ErrorCode::NONE), ("c", ErrorCode::INVALID_PARTITIONS)];
    assert_eq!(summary, expected);
    assert_eq!(rig.streams(), 1);
}

#[test]
fn validate_only_changes_nothing() {
    let rig = Rig::new();
    let row = rig.create_all(vec![topic("t", 3, -1)], true).remove(0);
    assert_eq!((row.error_code, row.num_partitions, row.replication_factor), (0, 3, 1));
    assert!(row.configs.is_some_and(|configs| !configs.is_empty()));
    assert_eq!(rig.streams(), 0);
    check(rig.ask(9, &no_creation(&["t"])).topics[0].error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
}

#[test]
fn topics_are_deleted_by_name_and_by_id_with_one_row_each() {
    let rig = Rig::new();
    for name in ["a", "b", "c"] {
        rig.create(topic(name, 2, 1));
    }
    let delete = |version: i16, names: &[&str]| {
        let topic_names = names.iter().map(|name| (*name).to_owned()).collect();
        rig.ask(version, &DeleteTopicsRequest { topic_names, timeout_ms: 1000, ..Default::default() }).responses
    };
    let rows = delete(5, &["a", "nothing", "b", "b"]);
    let summary: Vec<_> = rows.iter().map(|row| (row.name.as_deref(), ErrorCode::from_code(row.error_code))).collect();
    let expected = [
        (Some("a"), ErrorCode::NONE),
        (Some("nothing"), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        (Some("b"), ErrorCode::INVALID_REQUEST),
    ];
    assert_eq!(summary, expected);
    assert_eq!(rig.streams(), 4);
    check(delete(1, &["b"])[0].error_code, ErrorCode::NONE);

    let old = rig.ask(12, &no_creation(&["c"])).topics[0].topic_id;
    let state = |name: Option<&str>, topic_id: Uuid| DeleteTopicState { name: name.map(str::to_owned), topic_id };
    let delete = |topics: Vec<DeleteTopicState>| {
        rig.ask(6, &DeleteTopicsRequest { topics, timeout_ms: 1000, ..Default::default() }).responses
    };
    for (asked, expected) in [
        (vec![state(None, Uuid::ZERO)], ErrorCode::INVALID_REQUEST),
        (vec![state(Some("c"), old)], ErrorCode::INVALID_REQUEST),
        (vec![state(None, Uuid([9; 16]))], ErrorCode::UNKNOWN_TOPIC_ID),
        (vec![state(Some("nothing"), Uuid::ZERO)], ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        (vec![state(Some("c"), Uuid::ZERO), state(None, old)], ErrorCode::INVALID_REQUEST),
        (vec![state(None, old), state(None, old)], ErrorCode::INVALID_REQUEST),
    ] {
        let rows = delete(asked.clone());
        assert!(rows.iter().all(|row| row.error_code == expected.code()), "{asked:?}: {rows:?}");
    }
    assert_eq!(rig.streams(), 2);
    rig.create(topic("d", 2, 1));
    // What is left of one that was cut short goes when it is asked for again.
    for asked in [state(None, old), state(Some("d"), Uuid::ZERO)] {
        let name = if asked.name.is_some() { "d" } else { "c" };
        let id = rig.ask(12, &no_creation(&[name])).topics[0].topic_id;
        rig.store.set_silent(&format!("kafka-{name}-1"), true);
        check(delete(vec![asked.clone()])[0].error_code, ErrorCode::REQUEST_TIMED_OUT);
        rig.store.set_silent(&format!("kafka-{name}-1"), false);
        let row = delete(vec![asked.clone()]).remove(0);
        assert_eq!((row.error_code, row.name.as_deref(), row.topic_id), (0, Some(name), id));
        assert_eq!(
            rig.ask(12, &no_creation(&[name])).topics[0].error_code,
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code()
        );
    }
    assert_eq!(rig.streams(), 0);
    let new = rig.create(topic("c", 1, 1)).topic_id;
    assert_ne!(new, old);
    check(delete(vec![state(None, old)])[0].error_code, ErrorCode::UNKNOWN_TOPIC_ID);
    assert_eq!(rig.streams(), 1, "the new topic of that name is another one");
}

fn config<'a>(result: &'a DescribeConfigsResult, name: &str) -> &'a DescribeConfigsResourceResult {
    result.configs.iter().find(|config| config.name == name).unwrap_or_else(|| panic!("{name} is missing"))
}

#[test]
fn topic_settings_are_described_with_sources_and_synonyms() {
    let rig = Rig::with(|config| config.retention = Limit::At(1_000_000));
    let given = [("max.message.bytes", Some("1000")), ("cleanup.policy", Some("compact,delete"))];
    rig.create(with_configs(topic("t", 1, 1), &given));
    let result = rig.describe(2, "t");
    assert_eq!(result.error_code, 0);
    assert!(result.configs.len() > 25);
    for config in &result.configs {
        assert!(config.value.is_some() && !config.read_only && !config.is_sensitive, "{}", config.name);
        assert!(config.documentation.as_ref().is_some_and(|text| !text.is_empty()) && config.config_type > 0);
    }
    let size = config(&result, "max.message.bytes");
    assert_eq!((size.value.as_deref(), size.config_source, size.config_type), (Some("1000"), 1, 3));
    assert_eq!((size.synonyms[0].name.as_str(), size.synonyms[0].source), ("max.message.bytes", 1));
    assert!(size.synonyms.iter().any(|synonym| synonym.name == "message.max.bytes"));
    let retention = config(&result, "retention.ms");
    assert_eq!((retention.value.as_deref(), retention.config_source), (Some("1000000"), 4));
    assert_eq!(retention.synonyms[0].name, "log.retention.ms");
    let replicas = config(&result, "min.insync.replicas");
    assert_eq!((replicas.value.as_deref(), replicas.config_source), (Some("1"), 5));

    let resources = vec![DescribeConfigsResource {
        resource_type: 2,
        resource_name: "t".to_owned(),
        configuration_keys: Some(vec!["retention.ms".to_owned(), "no.such".to_owned()]),
    }];
    let request = DescribeConfigsRequest { resources, ..Default::default() };
    let configs = &rig.ask(1, &request).results[0].configs;
    assert_eq!(configs.iter().map(|config| config.name.as_str()).collect::<Vec<_>>(), ["retention.ms"]);
    assert!(configs[0].synonyms.is_empty());
}

#[test]
fn broker_settings_are_described_and_others_refused() {
    let rig = Rig::with(|config| config.default_partitions = 5);
    let result = rig.describe(4, "3");
    assert_eq!(result.error_code, 0);
    let partitions = config(&result, "num.partitions");
    assert_eq!((partitions.value.as_deref(), partitions.config_source, partitions.read_only), (Some("5"), 4, true));
    assert_eq!(config(&result, "advertised.listeners").value.as_deref(), Some("PLAINTEXT://kafka.example:9092"));
    let dynamic = rig.describe(4, "");
    assert_eq!((dynamic.error_code, dynamic.configs.len()), (0, 0));
    for (resource_type, name, expected) in [
        (4, "4", ErrorCode::INVALID_REQUEST),
        (4, "x", ErrorCode::INVALID_REQUEST),
        (2, "nothing", ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        (2, "a/b", ErrorCode::INVALID_TOPIC_EXCEPTION),
        (99, "x", ErrorCode::INVALID_REQUEST),
        (8, "3", ErrorCode::NONE),
        (16, "metrics", ErrorCode::NONE),
        (32, "group", ErrorCode::NONE),
    ] {
        let result = rig.describe(resource_type, name);
        assert_eq!((result.resource_type, result.resource_name.as_str()), (resource_type, name));
        check(result.error_code, expected);
    }
    assert_eq!(rig.streams(), 0, "describing a topic does not create it");
}

#[test]
fn a_topic_whose_server_is_away_holds_up_no_offsets_of_another() {
    let rig = Rig::new();
    ["a", "b"].iter().for_each(|name| drop(rig.create(topic(name, 1, 1))));
    let asked = |topics: Option<&[&str]>| {
        let topic = |name: &&str| OffsetFetchRequestTopics { name: (*name).to_owned(), partition_indexes: vec![0] };
        let topics = topics.map(|names| names.iter().map(topic).collect());
        let group = OffsetFetchRequestGroup { group_id: "g".to_owned(), topics, ..Default::default() };
        OffsetFetchRequest { groups: vec![group], ..Default::default() }
    };
    // The first look makes the bucket.
    rig.ask(8, &asked(None));
    for name in ["a", "b"] {
        rig.store.publish_foreign(&format!("$KV.kafka-consumer-offsets.g.{name}.0"), "7").expect("stored");
    }
    rig.store.set_silent("kafka-b-0", true);
    // A gateway that never knew b.
    let fresh = Rig::over(rig.store, |_| ());
    let told = &fresh.ask(8, &asked(Some(&["a"]))).groups[0];
    assert_eq!((told.error_code, told.topics[0].partitions[0].committed_offset), (0, 7));
    for all in [Some(&["a", "b"][..]), None] {
        check(fresh.ask(8, &asked(all)).groups[0].error_code, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
    }
}
