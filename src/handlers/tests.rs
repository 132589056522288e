//! Requests as clients send them, through the table of handlers, over a store in memory.

use super::*;
use crate::catalog::CatalogDefaults;
use crate::clock::ManualClock;
use crate::config::Limit;
use crate::log::LogParts;
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use crate::protocol::messages::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreatableTopicResult, CreateTopicsRequest,
};
use crate::protocol::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use crate::protocol::messages::describe_cluster::DescribeClusterRequest;
use crate::protocol::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResult,
};
use crate::protocol::messages::find_coordinator::FindCoordinatorRequest;
use crate::protocol::messages::init_producer_id::InitProducerIdRequest;
use crate::protocol::messages::metadata::{MetadataRequestTopic, MetadataResponse, MetadataResponseTopic};
use crate::store::memory::{MemoryStore, Outage};
use crate::tasks::Task;
use crate::wire::Uuid;
use slog::o;
use std::net::Ipv4Addr;
use std::time::Duration;

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Background work is not what these tests are about.
struct NoTasks;

impl Tasks for NoTasks {
    fn spawn(&self, _: Task) {}

    fn spawn_at(&self, _: Instant, _: Task) {}
}

struct Rig {
    gateway: Gateway,
    store: Arc<MemoryStore>,
    clock: Arc<ManualClock>,
}

impl Rig {
    fn new() -> Rig {
        Rig::with(|_| ())
    }

    fn with(configure: impl FnOnce(&mut Config)) -> Rig {
        Rig::over(Arc::new(MemoryStore::new()), configure)
    }

    fn over(store: Arc<MemoryStore>, configure: impl FnOnce(&mut Config)) -> Rig {
        let mut config = Config { node_id: 3, advertised_host: "kafka.example".to_owned(), ..Default::default() };
        configure(&mut config);
        let logger = Logger::root(slog::Discard, o!());
        let clock = Arc::new(ManualClock::new());
        let (tasks, wakeups) = (Arc::new(NoTasks), Arc::new(Wakeups::new()));
        let catalog = Catalog::new(store.clone(), CatalogDefaults::of(&config), clock.clone(), logger.clone());
        catalog.start(tasks.clone());
        let logs = Logs::new(LogParts {
            store: store.clone(),
            tasks: tasks.clone(),
            wakeups: wakeups.clone(),
            logger: logger.clone(),
            process: "test".to_owned(),
            on_missing: Box::new(|_| ()),
        });
        let services = Services {
            cluster: Arc::new(Cluster::new(store.clone(), &config, clock.clone(), logger.clone())),
            config: Arc::new(config),
            store: store.clone(),
            catalog,
            logs,
            wakeups,
            tasks,
            clock: clock.clone(),
            logger,
        };
        Rig { gateway: Gateway::new(Arc::new(services)), store, clock }
    }

    /// The frame that answers; `None` where the connection is closed.
    fn answer(&self, frame: Vec<u8>) -> Option<Bytes> {
        match self.gateway.dispatch(Bytes::from(frame), PEER) {
            Outcome::Reply(frame) => Some(Bytes::from(frame).slice(4..)),
            Outcome::Close => None,
            Outcome::Silent | Outcome::Park(_) => panic!("neither silent nor parked"),
        }
    }

    #[track_caller]
    fn ask<R: Request>(&self, version: i16, request: &R) -> R::Response {
        self.try_ask(version, request).expect("it is answered")
    }

    fn try_ask<R: Request>(&self, version: i16, request: &R) -> Option<R::Response> {
        let answer = self.answer(frame_of(version, request))?;
        let (correlation_id, response) = frame::read_response::<R>(version, answer).expect("a client can read it");
        assert_eq!(correlation_id, 77);
        Some(response)
    }

    #[track_caller]
    fn metadata(&self, version: i16, names: &[&str]) -> MetadataResponse {
        self.ask(version, &metadata_request(names))
    }

    /// Creates a topic with 5, the first version that tells what was made.
    fn create(&self, topic: CreatableTopic) -> CreatableTopicResult {
        self.create_all(vec![topic], false).remove(0)
    }

    fn create_all(&self, topics: Vec<CreatableTopic>, validate_only: bool) -> Vec<CreatableTopicResult> {
        self.ask(7, &CreateTopicsRequest { topics, validate_only, ..Default::default() }).topics
    }

    fn describe(&self, resource_type: i8, resource_name: &str) -> DescribeConfigsResult {
        let resource_name = resource_name.to_owned();
        let resources = vec![DescribeConfigsResource { resource_type, resource_name, configuration_keys: None }];
        let request = DescribeConfigsRequest { resources, include_synonyms: true, include_documentation: true };
        self.ask(4, &request).results.remove(0)
    }

    fn streams(&self) -> usize {
        self.store.stream_list("kafka.>", self.clock.now().mono).expect("the memory answers").len()
    }
}

fn header(version: i16) -> RequestHeader {
    RequestHeader { api_key: 0, api_version: version, correlation_id: 77, client_id: Some("test".to_owned()) }
}

/// Without its length prefix.
fn frame_of<R: Request>(version: i16, request: &R) -> Vec<u8> {
    frame::request(&header(version), request).split_off(4)
}

fn metadata_request(names: &[&str]) -> MetadataRequest {
    let topic = |name: &&str| MetadataRequestTopic { topic_id: Uuid::ZERO, name: Some((*name).to_owned()) };
    MetadataRequest { topics: Some(names.iter().map(topic).collect()), ..Default::default() }
}

fn no_creation(names: &[&str]) -> MetadataRequest {
    MetadataRequest { allow_auto_topic_creation: false, ..metadata_request(names) }
}

fn by_id(id: Uuid) -> MetadataRequest {
    let topics = Some(vec![MetadataRequestTopic { topic_id: id, name: None }]);
    MetadataRequest { topics, ..Default::default() }
}

fn topic(name: &str, num_partitions: i32, replication_factor: i16) -> CreatableTopic {
    CreatableTopic { name: name.to_owned(), num_partitions, replication_factor, ..Default::default() }
}

fn with_configs(topic: CreatableTopic, configs: &[(&str, Option<&str>)]) -> CreatableTopic {
    let config = |(name, value): &(&str, Option<&str>)| CreatableTopicConfig {
        name: (*name).to_owned(),
        value: value.map(str::to_owned),
    };
    CreatableTopic { configs: configs.iter().map(config).collect(), ..topic }
}

fn codes(rows: &[MetadataResponseTopic]) -> Vec<i16> {
    rows.iter().map(|row| row.error_code).collect()
}

#[track_caller]
fn check(code: i16, expected: ErrorCode) {
    assert_eq!(ErrorCode::from_code(code), expected);
}

#[test]
fn api_versions_is_answered_in_every_version_and_beyond() {
    let rig = Rig::new();
    for version in 0..=4 {
        let name = "client".to_owned();
        let request = ApiVersionsRequest { client_software_name: name.clone(), client_software_version: name };
        let response = rig.ask(version, &request);
        assert_eq!(response.error_code, 0);
        assert_eq!(response.api_keys.len(), ApiKey::ALL.len());
    }
    // Version 127 with bytes that nobody can read behind the header.
    let mut frame = vec![0, 18, 0, 127, 0, 0, 0, 77, 255, 255];
    frame.extend([9; 20]);
    let answer = rig.answer(frame).expect("it is answered, in version 0");
    let (_, response): (i32, ApiVersionsResponse) =
        frame::read_response::<ApiVersionsRequest>(0, answer).expect("in the layout of version 0");
    check(response.error_code, ErrorCode::UNSUPPORTED_VERSION);
    assert_eq!(rig.ask(3, &ApiVersionsRequest::default()).error_code, ErrorCode::INVALID_REQUEST.code());
}

#[test]
fn what_cannot_be_answered_closes_the_connection() {
    let rig = Rig::new();
    let mut cut = frame_of(12, &metadata_request(&["t"]));
    cut.pop();
    let mut long = frame_of(12, &metadata_request(&["t"]));
    long.push(0);
    for frame in [
        Vec::new(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3],
        vec![3, 231, 0, 0, 0, 0, 0, 1, 255, 255],
        vec![0, 3, 0, 99, 0, 0, 0, 1, 255, 255],
        vec![0, 0, 0, 0, 0, 0, 0, 1, 255, 255],
        cut,
        long,
    ] {
        assert_eq!(rig.answer(frame.clone()), None, "{frame:?}");
    }
    assert_eq!(rig.streams(), 0);
}

#[test]
fn metadata_names_this_gateway_in_every_version() {
    let rig = Rig::with(|config| config.default_partitions = 2);
    let mut ids = std::collections::HashSet::new();
    for version in 0..=13 {
        let response = rig.metadata(version, &["t"]);
        let broker = &response.brokers[0];
        assert_eq!((broker.node_id, broker.host.as_str(), broker.port), (3, "kafka.example", 9092));
        if version >= 1 {
            assert_eq!(response.controller_id, 3, "the controller is among the brokers");
        }
        let row = &response.topics[0];
        assert_eq!((row.error_code, row.name.as_deref()), (0, Some("t")));
        assert_eq!(row.partitions.len(), 2);
        for (index, partition) in (0..).zip(&row.partitions) {
            assert_eq!((partition.error_code, partition.partition_index, partition.leader_id), (0, index, 3));
            assert_eq!((&partition.replica_nodes[..], &partition.isr_nodes[..]), (&[3][..], &[3][..]));
            assert_eq!(partition.leader_epoch, if version >= 7 { 0 } else { -1 });
            assert!(partition.offline_replicas.is_empty());
        }
        if version >= 2 {
            assert!(response.cluster_id.is_some());
        }
        if version >= 10 {
            ids.insert(row.topic_id);
        }
    }
    assert_eq!(ids.len(), 1);
    assert!(!ids.contains(&Uuid::ZERO));
}

#[test]
fn all_topics_or_none_depends_on_the_version() {
    let rig = Rig::new();
    rig.metadata(4, &["a", "b"]);
    let all = MetadataRequest { topics: None, ..Default::default() };
    let none = MetadataRequest { topics: Some(Vec::new()), ..Default::default() };
    assert_eq!(rig.ask(0, &none).topics.len(), 2);
    for version in [1, 4, 9, 12, 13] {
        assert_eq!(rig.ask(version, &all).topics.len(), 2, "version {version}");
        let nothing = rig.ask(version, &none);
        assert_eq!((nothing.topics.len(), nothing.brokers.len()), (0, 1), "version {version}");
    }
}

#[test]
fn a_topic_is_created_only_if_both_sides_allow_it() {
    let rig = Rig::new();
    check(rig.ask(4, &no_creation(&["t"])).topics[0].error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(rig.streams(), 0);
    assert_eq!(rig.metadata(4, &["t"]).topics[0].error_code, 0);
    // Before version 4 nothing in the request forbids it.
    assert_eq!(rig.metadata(1, &["u"]).topics[0].error_code, 0);
    let strict = Rig::with(|config| config.auto_create = false);
    for version in [0, 4, 12] {
        let row = &strict.metadata(version, &["t"]).topics[0];
        check(row.error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        assert_eq!(row.name.as_deref(), Some("t"));
    }
    assert_eq!(strict.streams(), 0);
}

#[test]
fn bad_names_are_refused_and_their_neighbours_served() {
    let rig = Rig::new();
    let long = "x".repeat(250);
    let names = ["a/b", " a", "a b", "", "..", &long, "a*", "a>", "good"];
    let rows = rig.metadata(9, &names).topics;
    assert_eq!(rows.iter().map(|row| row.name.as_deref().unwrap_or_default()).collect::<Vec<_>>(), names);
    let (good, bad) = rows.split_last().expect("there are rows");
    assert_eq!(good.error_code, 0);
    assert!(bad.iter().all(|row| row.error_code == ErrorCode::INVALID_TOPIC_EXCEPTION.code()));
    for name in names {
        let result = rig.create(topic(name, 1, 1));
        let expected =
            if name == "good" { ErrorCode::TOPIC_ALREADY_EXISTS } else { ErrorCode::INVALID_TOPIC_EXCEPTION };
        check(result.error_code, expected);
    }
    assert_eq!(rig.streams(), 1);
}

#[test]
fn topics_are_found_by_id_from_version_12_on() {
    let rig = Rig::new();
    let id = rig.create(topic("t", 1, 1)).topic_id;
    let row = &rig.ask(12, &by_id(id)).topics[0];
    assert_eq!((row.error_code, row.name.as_deref(), row.topic_id), (0, Some("t"), id));
    let foreign = Uuid([9; 16]);
    let row = &rig.ask(13, &by_id(foreign)).topics[0];
    check(row.error_code, ErrorCode::UNKNOWN_TOPIC_ID);
    assert_eq!((row.name.as_deref(), row.topic_id), (None, foreign));
    check(rig.ask(10, &by_id(id)).topics[0].error_code, ErrorCode::INVALID_REQUEST);
    check(rig.ask(12, &by_id(Uuid::ZERO)).topics[0].error_code, ErrorCode::INVALID_REQUEST);
}

#[test]
fn each_topic_has_one_row_in_the_order_asked() {
    let rig = Rig::new();
    let rows = rig.metadata(12, &["b", "a", "b", "c"]).topics;
    assert_eq!(rows.iter().flat_map(|row| row.name.as_deref()).collect::<Vec<_>>(), ["b", "a", "c"]);
}

#[test]
fn allowed_operations_are_told_when_asked() {
    let rig = Rig::new();
    let ask = MetadataRequest {
        include_topic_authorized_operations: true,
        include_cluster_authorized_operations: true,
        ..metadata_request(&["t"])
    };
    let response = rig.ask(8, &ask);
    assert_eq!(response.cluster_authorized_operations, 8096, "as Kafka answers without an authorizer");
    assert_eq!(response.topics[0].topic_authorized_operations, 3576);
    let response = rig.metadata(8, &["t"]);
    assert_eq!(response.cluster_authorized_operations, i32::MIN);
    assert_eq!(response.topics[0].topic_authorized_operations, i32::MIN);
}

#[test]
fn known_topics_are_told_while_the_store_is_away() {
    let rig = Rig::new();
    rig.metadata(9, &["t"]);
    rig.ask(9, &MetadataRequest { topics: None, ..Default::default() });
    rig.store.set_outage(Some(Outage::NoAnswer));
    rig.clock.advance(Duration::from_secs(30));
    assert_eq!(codes(&rig.metadata(9, &["t", "u"]).topics), [0, ErrorCode::LEADER_NOT_AVAILABLE.code()]);
    assert_eq!(rig.ask(9, &MetadataRequest { topics: None, ..Default::default() }).topics.len(), 1);

    let fresh = Rig::over(rig.store.clone(), |_| ());
    let response = fresh.metadata(9, &["t"]);
    check(response.topics[0].error_code, ErrorCode::LEADER_NOT_AVAILABLE);
    assert_eq!((response.brokers.len(), response.cluster_id), (1, None));
    let all = MetadataRequest { topics: None, ..Default::default() };
    assert_eq!(fresh.try_ask(12, &all), None, "an empty list would be taken for the truth");
    check(fresh.ask(13, &all).error_code, ErrorCode::REQUEST_TIMED_OUT);
    check(fresh.create(topic("t", 1, 1)).error_code, ErrorCode::REQUEST_TIMED_OUT);
    check(
        fresh.ask(4, &InitProducerIdRequest { transactional_id: None, ..Default::default() }).error_code,
        ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
    );
}

#[test]
fn light_requests_are_told_by_their_first_bytes() {
    let rig = Rig::new();
    let kind = |frame: Vec<u8>| rig.gateway.kind(&frame);
    assert_eq!(kind(frame_of(9, &metadata_request(&["t"]))), Kind::Heavy, "it asks the store");
    rig.metadata(9, &["t"]);
    assert_eq!(kind(frame_of(9, &metadata_request(&["t"]))), Kind::Light);
    assert_eq!(kind(frame_of(9, &metadata_request(&["t", "u"]))), Kind::Heavy);
    assert_eq!(kind(frame_of(9, &MetadataRequest { topics: None, ..Default::default() })), Kind::Heavy);
    assert_eq!(kind(frame_of(9, &MetadataRequest::default())), Kind::Light);
    assert_eq!(kind(frame_of(0, &ApiVersionsRequest::default())), Kind::Light);
    assert_eq!(kind(frame_of(4, &FindCoordinatorRequest::default())), Kind::Light);
    assert_eq!(kind(frame_of(7, &CreateTopicsRequest::default())), Kind::Heavy);
    assert_eq!(kind(vec![0, 0, 0, 9]), Kind::Produce);
    for garbage in [vec![], vec![0], vec![0, 3], vec![0, 3, 0, 9, 0], vec![77, 77]] {
        kind(garbage);
    }
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
    let row = delete(vec![state(None, old)]).remove(0);
    assert_eq!((row.error_code, row.name.as_deref(), row.topic_id), (0, Some("c"), old));
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
fn the_cluster_is_described() {
    let rig = Rig::new();
    let id = rig.metadata(9, &[]).cluster_id;
    for version in 0..=2 {
        let response = rig.ask(version, &DescribeClusterRequest::default());
        assert_eq!((response.error_code, response.controller_id, response.endpoint_type), (0, 3, 1));
        assert_eq!(Some(response.cluster_id), id);
        assert_eq!((response.brokers[0].broker_id, response.brokers[0].host.as_str()), (3, "kafka.example"));
    }
    let endpoint = |endpoint_type: i8| DescribeClusterRequest { endpoint_type, ..Default::default() };
    check(rig.ask(1, &endpoint(2)).error_code, ErrorCode::MISMATCHED_ENDPOINT_TYPE);
    check(rig.ask(1, &endpoint(9)).error_code, ErrorCode::UNSUPPORTED_ENDPOINT_TYPE);
    let asked = DescribeClusterRequest { include_cluster_authorized_operations: true, ..Default::default() };
    assert_eq!(rig.ask(0, &asked).cluster_authorized_operations, 8096);
}

#[test]
fn idempotent_producers_get_ids_and_transactional_ones_a_final_no() {
    let rig = Rig::new();
    let ask = |version: i16, transactional_id: Option<&str>, producer_id: i64, producer_epoch: i16| {
        let transactional_id = transactional_id.map(str::to_owned);
        rig.ask(
            version,
            &InitProducerIdRequest { transactional_id, transaction_timeout_ms: 1, producer_id, producer_epoch },
        )
    };
    let mut ids = std::collections::HashSet::new();
    for version in 0..=5 {
        let response = ask(version, None, -1, -1);
        assert_eq!((response.error_code, response.producer_epoch), (0, 0));
        assert!(response.producer_id >= 0 && ids.insert(response.producer_id));
    }
    let bumped = ask(4, None, 5, 3);
    assert_eq!((bumped.error_code, bumped.producer_epoch), (0, 0));
    assert!(ids.insert(bumped.producer_id), "always a fresh one");
    check(ask(4, None, 5, -1).error_code, ErrorCode::INVALID_REQUEST);
    check(ask(4, None, -1, 3).error_code, ErrorCode::INVALID_REQUEST);
    check(ask(4, Some(""), -1, -1).error_code, ErrorCode::INVALID_REQUEST);
    let refused = ask(4, Some("tx"), -1, -1);
    check(refused.error_code, ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
    assert_eq!(refused.producer_id, -1);
}

#[test]
fn groups_are_coordinated_here() {
    let rig = Rig::new();
    for version in 0..=3 {
        let response = rig.ask(version, &FindCoordinatorRequest { key: "g".to_owned(), ..Default::default() });
        assert_eq!((response.error_code, response.node_id, response.port), (0, 3, 9092));
        assert_eq!(response.host, "kafka.example");
    }
    let ask = |version: i16, key_type: i8| {
        let coordinator_keys = vec!["g1".to_owned(), "g2".to_owned()];
        rig.ask(version, &FindCoordinatorRequest { coordinator_keys, key_type, ..Default::default() }).coordinators
    };
    let rows = ask(4, 0);
    assert_eq!(rows.iter().map(|row| (row.key.as_str(), row.node_id)).collect::<Vec<_>>(), [("g1", 3), ("g2", 3)]);
    for (key_type, expected) in [
        (1, ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (2, ErrorCode::INVALID_REQUEST),
        (9, ErrorCode::INVALID_REQUEST),
    ] {
        for row in ask(6, key_type) {
            check(row.error_code, expected);
            assert_eq!((row.node_id, row.host.as_str()), (-1, ""));
        }
    }
    let single = FindCoordinatorRequest { key: "tx".to_owned(), key_type: 1, ..Default::default() };
    check(rig.ask(2, &single).error_code, ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
}
