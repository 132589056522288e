//! Requests as clients send them, through the table of handlers, over a store in memory.

mod admin;
mod fetch;
mod lines;
mod much;
mod security;
mod settings;
mod topics;

use super::*;
use crate::clock::ManualClock;
use crate::gateway::{Basis, build};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use crate::protocol::messages::create_topics::{CreatableTopic, CreatableTopicResult, CreateTopicsRequest};
use crate::protocol::messages::describe_cluster::DescribeClusterRequest;
use crate::protocol::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use crate::protocol::messages::find_coordinator::FindCoordinatorRequest;
use crate::protocol::messages::init_producer_id::InitProducerIdRequest;
use crate::protocol::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic,
};
use crate::store::memory::{MemoryStore, Outage};
use crate::tasks::Task;
use crate::wire::Uuid;
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
    gateway: Arc<Gateway>,
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
        Rig::logged(store, configure, crate::logging::discard())
    }

    fn logged(store: Arc<MemoryStore>, configure: impl FnOnce(&mut Config), logger: Logger) -> Rig {
        let mut config = Config { node_id: Some(3), advertised_host: "kafka.example".to_owned(), ..Default::default() };
        configure(&mut config);
        let clock = Arc::new(ManualClock::new());
        let gateway = build(Basis {
            config: Arc::new(config),
            store: store.clone(),
            direct: store.clone(),
            wakeups: Arc::new(Wakeups::new()),
            tasks: Arc::new(NoTasks),
            clock: clock.clone(),
            metrics: Default::default(),
            logger,
        });
        Rig { gateway, store, clock }
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

    /// Creates a topic with the version that tells most of what was made.
    fn create(&self, topic: CreatableTopic) -> CreatableTopicResult {
        self.ask(7, &CreateTopicsRequest { topics: vec![topic], ..Default::default() }).topics.remove(0)
    }

    fn streams(&self) -> usize {
        self.store.stream_list("kafka.>", self.clock.now().mono).expect("the memory answers").streams.len()
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
    for frame in [
        Vec::new(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3],
        vec![3, 231, 0, 0, 0, 0, 0, 1, 255, 255],
        vec![0, 3, 0, 99, 0, 0, 0, 1, 255, 255],
        vec![0, 0, 0, 0, 0, 0, 0, 1, 255, 255],
        cut,
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

/// The Java consumer throws at its application whatever else it is told.
#[test]
fn a_consumer_is_told_what_it_retries_while_the_store_is_away() {
    let rig = Rig::new();
    rig.create(topic("t", 1, 1));
    rig.store.set_outage(Some(Outage::NoAnswer));
    let of_unknown_topics = Rig::over(rig.store.clone(), |_| ());
    for rig in [rig, of_unknown_topics] {
        let topics = vec![FetchTopic {
            topic: "t".to_owned(),
            partitions: vec![FetchPartition { partition_max_bytes: 1000, ..Default::default() }],
            ..Default::default()
        }];
        let request = FetchRequest { topics, max_bytes: 1000, ..Default::default() };
        let Outcome::Park(mut parked) = rig.gateway.dispatch(frame_of(12, &request).into(), PEER) else {
            panic!("a fetch waits")
        };
        let Some(Outcome::Reply(frame)) = parked.poll(rig.clock.now()) else { panic!("an error is told at once") };
        let (_, response) =
            frame::read_response::<FetchRequest>(12, Bytes::from(frame).slice(4..)).expect("it is read");
        check(response.responses[0].partitions[0].error_code, ErrorCode::NOT_LEADER_OR_FOLLOWER);
    }
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
    assert_eq!(kind(frame_of(12, &FetchRequest::default())), Kind::Fetch, "its reply may be large");
    for garbage in [vec![], vec![0], vec![0, 3], vec![0, 3, 0, 9, 0], vec![77, 77]] {
        kind(garbage);
    }
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
