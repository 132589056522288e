//! Requests as real clients sent them, in `golden/`, one frame a file: hexadecimal, its length prefix left out, after a
//! line that names the client and what it did. All read, all are written again to the same bytes, and those whose
//! fields are easily mistaken read as expected.

use bytes::Bytes;
use hanzo_kafka::protocol::api::{ApiKey, ApiVisitor, Request};
use hanzo_kafka::protocol::frame::{self, Opened};
use hanzo_kafka::protocol::header::RequestHeader;
use hanzo_kafka::protocol::messages::*;
use hanzo_kafka::wire::{Reader, Uuid};
use std::fmt::Debug;
use std::path::{Path, PathBuf};

const TOPIC_ID: Uuid = Uuid([7; 16]);

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire/golden")
}

fn read(file: &Path) -> Bytes {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let digits: String = text.lines().filter(|line| !line.starts_with('#')).collect();
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("two hexadecimal digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn open(frame: &Bytes) -> (ApiKey, RequestHeader, Reader) {
    match frame::open(frame.clone()) {
        Ok(Opened::Request { api, header, body }) => (api, header, body),
        Ok(_) => panic!("not served"),
        Err(error) => panic!("{error}"),
    }
}

/// Writes a frame's message again.
struct Rewrite<'a> {
    frame: &'a Bytes,
    rewritten: Option<Vec<u8>>,
}

impl ApiVisitor for Rewrite<'_> {
    fn visit<R: Request>(&mut self) {
        let (api, header, body) = open(self.frame);
        if api == R::KEY {
            let message: R = frame::message(body).expect("the message reads");
            self.rewritten = Some(frame::request(&header, &message).split_off(4));
        }
    }
}

#[test]
fn every_frame_reads_and_is_written_again_to_the_same_bytes() {
    let files = std::fs::read_dir(directory()).expect("the directory is there");
    let files: Vec<_> = files.map(|entry| entry.expect("an entry").path()).collect();
    assert!(files.len() >= 42, "only {} frames", files.len());
    for file in files {
        let frame = read(&file);
        let mut rewrite = Rewrite { frame: &frame, rewritten: None };
        ApiKey::visit_all(&mut rewrite);
        assert_eq!(rewrite.rewritten.expect("an API of the table"), frame, "{}", file.display());
    }
}

/// The message in `NAME-vVERSION.hex` and the client id its header must carry.
#[track_caller]
fn check<R: Request + PartialEq + Debug>(name: &str, client_id: &str, expected: R) {
    let frame = read(&directory().join(format!("{name}.hex")));
    let (_, header, body) = open(&frame);
    assert_eq!(header.client_id.as_deref(), Some(client_id));
    assert!(name.ends_with(&format!("-v{}", header.api_version)));
    assert_eq!(frame::message::<R>(body).expect("the message reads"), expected);
}

#[test]
fn api_versions() {
    use api_versions::ApiVersionsRequest;
    check("aiokafka-api-versions-v0", "ap", ApiVersionsRequest::default());
    check(
        "java-api-versions-v4",
        "jp",
        ApiVersionsRequest {
            client_software_name: "apache-kafka-java".into(),
            client_software_version: "4.1.0".into(),
        },
    );
}

#[test]
fn metadata() {
    use metadata::{MetadataRequest, MetadataRequestTopic};
    check("aiokafka-metadata-v5", "ap", MetadataRequest { topics: Some(vec![]), ..Default::default() });
    let topic = MetadataRequestTopic { topic_id: Uuid::ZERO, name: Some("golden".into()) };
    check("librdkafka-metadata-v13", "cp", MetadataRequest { topics: Some(vec![topic]), ..Default::default() });
}

#[track_caller]
fn produced(name: &str, client_id: &str) -> (produce::TopicProduceData, Bytes) {
    let frame = read(&directory().join(format!("{name}.hex")));
    let (_, header, body) = open(&frame);
    assert_eq!(header.client_id.as_deref(), Some(client_id));
    let mut request: produce::ProduceRequest = frame::message(body).expect("the message reads");
    assert_eq!((request.acks, request.transactional_id), (-1, None));
    let mut topic = request.topic_data.pop().expect("a topic");
    let partition = topic.partition_data.pop().expect("a partition");
    assert_eq!((request.topic_data.len(), topic.partition_data.len(), partition.index), (0, 0, 0));
    (topic, partition.records.expect("records"))
}

#[test]
fn produce_names_topics_until_it_knows_their_ids() {
    for (name, client_id) in [("kcat-produce-v7", "kcat"), ("librdkafka-produce-v10", "cp")] {
        let (topic, _) = produced(name, client_id);
        assert_eq!((topic.name.as_str(), topic.topic_id), ("golden", Uuid::ZERO));
    }
    let (topic, _) = produced("java-produce-v13", "jp");
    assert_eq!((topic.name.as_str(), topic.topic_id), ("", TOPIC_ID));
}

#[test]
fn produce_carries_whole_record_batches() {
    for (name, client_id) in [("kcat-produce-v7", "kcat"), ("librdkafka-produce-v10", "cp"), ("java-produce-v13", "jp")]
    {
        let (_, records) = produced(name, client_id);
        let length = u32::from_be_bytes(records[8..12].try_into().expect("four bytes"));
        assert_eq!(records.len(), 12 + length as usize, "{name}: the batch ends where the records end");
        assert_eq!(records[16], 2, "{name}: magic");
    }
}

#[test]
fn fetch() {
    use fetch::{FetchPartition, FetchRequest, FetchTopic};
    let expected = |partition: FetchPartition, topic: FetchTopic| FetchRequest {
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 50 << 20,
        topics: vec![FetchTopic { partitions: vec![partition], ..topic }],
        ..Default::default()
    };
    let by_name = FetchTopic { topic: "golden".into(), ..Default::default() };
    let by_id = FetchTopic { topic_id: TOPIC_ID, ..Default::default() };
    let unknown_epoch = FetchPartition { partition_max_bytes: 1 << 20, ..Default::default() };
    let epoch_0 = FetchPartition { current_leader_epoch: 0, ..unknown_epoch.clone() };

    let request = FetchRequest { isolation_level: 1, ..expected(unknown_epoch, by_name) };
    check("kcat-fetch-v11", "rdkafka", request);
    let request = FetchRequest { isolation_level: 1, ..expected(epoch_0.clone(), by_id.clone()) };
    check("librdkafka-fetch-v16", "cc", request);
    let request = FetchRequest { session_epoch: 0, ..expected(epoch_0.clone(), by_id.clone()) };
    check("java-fetch-v18", "jc", request.clone());
    check("franz-go-fetch-v17", "fc", FetchRequest { max_wait_ms: 5000, rack_id: "r1".into(), ..request });
}

#[test]
fn join_group() {
    use join_group::{JoinGroupRequest, JoinGroupRequestProtocol};
    let protocol = |name: &str, metadata: &'static [u8]| JoinGroupRequestProtocol {
        name: name.into(),
        metadata: Bytes::from_static(metadata),
    };
    let member = |protocols, rebalance_timeout_ms| JoinGroupRequest {
        group_id: "grp".into(),
        session_timeout_ms: 45000,
        rebalance_timeout_ms,
        member_id: "member-1".into(),
        protocol_type: "consumer".into(),
        protocols,
        ..Default::default()
    };
    let metadata = b"\0\x01\0\0\0\x01\0\x06golden\0\0\0\0\0\0\0\0";
    let protocols = vec![protocol("range", metadata), protocol("roundrobin", metadata)];
    check("kcat-join-group-v5", "rdkafka", member(protocols, 300_000));
    let metadata = b"\0\x03\0\0\0\x01\0\x06golden\0\0\0\x04\0\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff";
    let request = JoinGroupRequest {
        reason: Some("beginning to manage the group lifecycle".into()),
        ..member(vec![protocol("cooperative-sticky", metadata)], 60_000)
    };
    check("franz-go-join-group-v9", "fc", request);
}

#[test]
fn sync_group() {
    use sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};
    let assignment = b"\0\0\0\0\0\x01\0\x06golden\0\0\0\x01\0\0\0\0\0\0\0\0";
    let request = SyncGroupRequest {
        group_id: "grp".into(),
        generation_id: 1,
        member_id: "member-1".into(),
        protocol_type: Some("consumer".into()),
        protocol_name: Some("range".into()),
        assignments: vec![SyncGroupRequestAssignment {
            member_id: "member-1".into(),
            assignment: Bytes::from_static(assignment),
        }],
        ..Default::default()
    };
    check("kafka-python-sync-group-v5", "kc", request);
}

#[test]
fn leave_group() {
    use leave_group::{LeaveGroupRequest, MemberIdentity};
    let alone = LeaveGroupRequest { group_id: "grp".into(), member_id: "member-1".into(), members: vec![] };
    check("kcat-leave-group-v1", "rdkafka", alone);
    let members = vec![MemberIdentity {
        member_id: "member-1".into(),
        group_instance_id: None,
        reason: Some("the consumer is being closed".into()),
    }];
    check("java-leave-group-v5", "jc", LeaveGroupRequest { group_id: "grp".into(), members, ..Default::default() });
}

#[test]
fn offset_fetch_asks_for_one_group_until_version_7_and_for_several_from_8_on() {
    use offset_fetch::*;
    let topics = vec![OffsetFetchRequestTopic { name: "golden".into(), partition_indexes: vec![0] }];
    let request = OffsetFetchRequest { group_id: "grp".into(), topics: Some(topics), ..Default::default() };
    check("aiokafka-offset-fetch-v3", "ac", request);
    let topics = vec![OffsetFetchRequestTopics { name: "golden".into(), partition_indexes: vec![0] }];
    let group = OffsetFetchRequestGroup { group_id: "grp".into(), topics: Some(topics), ..Default::default() };
    check(
        "java-offset-fetch-v9",
        "jc",
        OffsetFetchRequest { groups: vec![group], require_stable: true, ..Default::default() },
    );
}

#[test]
fn offset_commit() {
    use offset_commit::*;
    let partition = OffsetCommitRequestPartition { committed_offset: 5, ..Default::default() };
    let request = OffsetCommitRequest {
        group_id: "grp".into(),
        generation_id_or_member_epoch: 1,
        member_id: "member-1".into(),
        group_instance_id: Some("i1".into()),
        topics: vec![OffsetCommitRequestTopic { name: "golden".into(), partitions: vec![partition] }],
        ..Default::default()
    };
    check("librdkafka-offset-commit-v9", "cc", request);
}

#[test]
fn create_topics() {
    use create_topics::*;
    let defaults =
        CreatableTopic { name: "golden".into(), num_partitions: -1, replication_factor: -1, ..Default::default() };
    let request = CreateTopicsRequest { topics: vec![defaults], timeout_ms: 3997, validate_only: false };
    check("java-create-topics-v7", "ja", request);
    let with_setting = CreatableTopic {
        name: "golden".into(),
        num_partitions: 3,
        replication_factor: 1,
        assignments: vec![],
        configs: vec![CreatableTopicConfig { name: "retention.ms".into(), value: Some("1000".into()) }],
    };
    let request = CreateTopicsRequest { topics: vec![with_setting], timeout_ms: 60000, validate_only: false };
    check("librdkafka-create-topics-v4", "rdkafka", request);
}

#[test]
fn list_offsets() {
    use list_offsets::*;
    let expected = |current_leader_epoch, timestamp, timeout_ms| ListOffsetsRequest {
        replica_id: -1,
        topics: vec![ListOffsetsTopic {
            name: "golden".into(),
            partitions: vec![ListOffsetsPartition { partition_index: 0, current_leader_epoch, timestamp }],
        }],
        timeout_ms,
        ..Default::default()
    };
    check("kafka-python-list-offsets-v10", "kc", expected(-1, -1, 0));
    check("java-list-offsets-v10", "jc", expected(0, 5, 4000));
}

#[test]
fn alter_configs() {
    use alter_configs::{AlterConfigsRequest, AlterConfigsResource, AlterableConfig};
    let configs = vec![AlterableConfig { name: "retention.ms".to_owned(), value: Some("60000".to_owned()) }];
    let resources = vec![AlterConfigsResource { resource_type: 2, resource_name: "u".to_owned(), configs }];
    check("librdkafka-alter-configs-v2", "la", AlterConfigsRequest { resources, validate_only: false });
}

#[test]
fn incremental_alter_configs() {
    use incremental_alter_configs::{AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest};
    let config = |name: &str, config_operation, value: Option<&str>| AlterableConfig {
        name: name.to_owned(),
        config_operation,
        value: value.map(str::to_owned),
    };
    let request = |name: &str, configs, validate_only| IncrementalAlterConfigsRequest {
        resources: vec![AlterConfigsResource { resource_type: 2, resource_name: name.to_owned(), configs }],
        validate_only,
    };
    let configs = vec![config("retention.ms", 0, Some("60000")), config("segment.ms", 1, None)];
    check("java-incremental-alter-configs-v1", "ja", request("t", configs, false));
    let configs = vec![config("cleanup.policy", 2, Some("compact"))];
    check("librdkafka-incremental-alter-configs-v1", "la", request("u", configs, true));
}

#[test]
fn create_partitions() {
    use create_partitions::{CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic};
    let request = |name: &str, count, assignments, timeout_ms| CreatePartitionsRequest {
        topics: vec![CreatePartitionsTopic { name: name.to_owned(), count, assignments }],
        timeout_ms,
        validate_only: false,
    };
    let assigned = Some(vec![CreatePartitionsAssignment { broker_ids: vec![1] }]);
    check("java-create-partitions-v3", "ja", request("t", 3, assigned, 30_000));
    check("librdkafka-create-partitions-v2", "la", request("u", 4, None, 60_000));
}

#[test]
fn delete_records() {
    use delete_records::{DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic};
    let partitions = vec![DeleteRecordsPartition { partition_index: 3, offset: -1 }];
    let topics = vec![DeleteRecordsTopic { name: "u".to_owned(), partitions }];
    check("librdkafka-delete-records-v2", "la", DeleteRecordsRequest { topics, timeout_ms: 60_000 });
}
