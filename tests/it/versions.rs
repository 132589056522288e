//! What ApiVersions promises is kept: each version of each API is understood, answered and means the same.

use crate::harness::batch::{Batch, offsets_and_values};
use crate::harness::librdkafka::{self, numbered};
use crate::harness::wire::{EARLIEST, LATEST, fetch_request, partition_data, produce_request, produced, topic_name};
use crate::harness::{Gateway, Nats, Version, Wire};
use crate::on_each_server;
use bytes::Buf;
use kafka_protocol::messages::fetch_request::FetchTopic;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::produce_request::TopicProduceData;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Request, StrBytes};

const UNSUPPORTED_VERSION: i16 = 35;
const UNSUPPORTED_COMPRESSION_TYPE: i16 = 76;
const UNKNOWN_TOPIC_ID: i16 = 100;

on_each_server! {
    fn every_fetch_version_gives_the_same_records(version) {
        let nats = Nats::start(version);
        let gateway = Gateway::start(&nats, &[]);
        let mut wire = gateway.wire();
        wire.create_topic("t", 1);
        for values in [["a", "b"], ["c", "d"], ["e", "f"]] {
            wire.produce_ok("t", 0, &Batch::of(values));
        }
        let id = wire.topic("t").topic_id;
        for version in 4..=18 {
            let mut request = fetch_request("t", 0, 2);
            if version >= 13 {
                let topic = request.topics.remove(0);
                request.topics.push(FetchTopic::default().with_topic_id(id).with_partitions(topic.partitions));
            }
            if version >= 15 {
                request.replica_id = BrokerId(-1);
            }
            let response = wire.call(version, &request);
            if version >= 13 {
                assert_eq!(response.responses[0].topic_id, id, "v{version}");
            } else {
                assert_eq!(response.responses[0].topic.0.as_str(), "t", "v{version}");
            }
            if version >= 7 {
                assert_eq!(response.session_id, 0, "v{version}: no fetch session");
            }
            let data = partition_data(response);
            assert_eq!((data.error_code, data.high_watermark, data.last_stable_offset), (0, 6, 6), "v{version}");
            if version >= 5 {
                assert_eq!(data.log_start_offset, 0, "v{version}");
            }
            let read = offsets_and_values(&data.records.expect("records"));
            assert_eq!(read.first().map(|(at, _)| *at), Some(2), "v{version} starts at the batch asked for");
            let read: Vec<&str> = read.iter().map(|(_, value)| value.as_str()).collect();
            assert_eq!(read, ["c", "d", "e", "f"], "v{version}");
        }
    }

    fn a_fetch_before_version_10_gets_zstd_unless_the_topic_asks_for_it(version) {
        let nats = Nats::start(version);
        let gateway = Gateway::start(&nats, &[]);
        let mut wire = gateway.wire();
        wire.create_topic("producers", 1);
        assert_eq!(wire.create_topic_with("asked", 1, &[("compression.type", "zstd")]), 0);
        for topic in ["producers", "asked"] {
            librdkafka::produce(&gateway.bootstrap(), topic, &[("compression.codec", "zstd")], &numbered(100));
        }
        for (fetch_version, topic, expected) in [
            (4, "producers", 0),
            (9, "producers", 0),
            (10, "producers", 0),
            (4, "asked", UNSUPPORTED_COMPRESSION_TYPE),
            (9, "asked", UNSUPPORTED_COMPRESSION_TYPE),
            (10, "asked", 0),
        ] {
            let data = partition_data(wire.call(fetch_version, &fetch_request(topic, 0, 0)));
            assert_eq!(data.error_code, expected, "{topic} v{fetch_version}");
            let empty = data.records.unwrap_or_default().is_empty();
            assert_eq!(empty, expected != 0, "{topic} v{fetch_version}");
        }
    }

    fn every_produce_version_stores_a_record(version) {
        let nats = Nats::start(version);
        let gateway = Gateway::start(&nats, &[]);
        let mut wire = gateway.wire();
        wire.create_topic("t", 1);
        let id = wire.topic("t").topic_id;
        for (offset, version) in (0..).zip(3..=13) {
            let mut request = produce_request("t", 0, Batch::of([format!("v{version}")]).encode());
            if version >= 13 {
                let data = request.topic_data.remove(0).partition_data;
                let topic = TopicProduceData::default().with_topic_id(id).with_partition_data(data);
                request.topic_data.push(topic);
            }
            let response = wire.call(version, &request);
            assert_eq!(produced(&response.responses[0].partition_responses[0]), (0, offset), "v{version}");
        }
        let values: Vec<String> = wire.read_all("t", 0, 0).into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, (3..=13).map(|version| format!("v{version}")).collect::<Vec<_>>());
    }
}

#[test]
fn special_timestamps_are_answered_from_the_version_that_brought_them() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    wire.create_topic("t", 1);
    wire.produce_ok("t", 0, &Batch::of(["a"]));
    for (timestamp, first) in [(LATEST, 1), (EARLIEST, 1), (-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 12)] {
        for list_version in 1..=10 {
            let asked = ListOffsetsPartition::default().with_current_leader_epoch(-1).with_timestamp(timestamp);
            let topic = ListOffsetsTopic::default().with_name(topic_name("t")).with_partitions(vec![asked]);
            let request = ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic]);
            let answer = wire.call(list_version, &request);
            let expected = if list_version < first { UNSUPPORTED_VERSION } else { 0 };
            assert_eq!(answer.topics[0].partitions[0].error_code, expected, "{timestamp} in v{list_version}");
        }
    }
}

#[test]
fn the_id_of_a_deleted_topic_is_refused_at_once() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    wire.create_topic("gone", 1);
    let id = wire.topic("gone").topic_id;
    assert_eq!(wire.delete_topic("gone"), 0);
    wire.create_topic("gone", 1);
    assert_ne!(wire.topic("gone").topic_id, id, "a topic created again has another id");

    let mut request = fetch_request("gone", 0, 0).with_max_wait_ms(20_000);
    let partitions = request.topics.remove(0).partitions;
    request.topics.push(FetchTopic::default().with_topic_id(id).with_partitions(partitions));
    let started = std::time::Instant::now();
    let response = wire.call(13, &request);
    assert_eq!(response.responses[0].topic_id, id);
    assert_eq!(response.responses[0].partitions[0].error_code, UNKNOWN_TOPIC_ID);
    assert!(started.elapsed().as_secs() < 10, "an error does not wait");
}

#[test]
fn an_unknown_apiversions_version_is_answered_in_the_oldest_layout() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    for version in [5_i16, 9, 127] {
        let mut frame = Vec::new();
        frame.extend(18_i16.to_be_bytes());
        frame.extend(version.to_be_bytes());
        frame.extend(7_i32.to_be_bytes());
        frame.extend((-1_i16).to_be_bytes());
        frame.extend([0xee; 20]);
        let mut sent = u32::try_from(frame.len()).expect("small").to_be_bytes().to_vec();
        sent.extend(frame);
        wire.send_bytes(&sent).expect("sent");
        let mut answer = wire.read_frame().expect("an answer, not a closed connection");
        assert_eq!(answer.get_i32(), 7);
        assert_eq!(answer.get_i16(), UNSUPPORTED_VERSION);
        let rows = answer.get_i32();
        assert!(rows >= 0, "the array is never null");
        assert_eq!(answer.remaining(), usize::try_from(rows).expect("small") * 6, "no tagged fields, no throttle time");
    }
    // The same connection goes on at a version that both know.
    assert_eq!(wire.call(0, &ApiVersionsRequest::default()).error_code, 0);
}

#[test]
fn an_unknown_api_or_version_costs_that_connection_only() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut other = gateway.wire();
    other.create_topic("t", 1);
    for (key, version) in [(999_i16, 0_i16), (3, 99), (0, -1), (-1, 0)] {
        let mut wire = gateway.wire();
        let mut frame = vec![0, 0, 0, 10];
        frame.extend(key.to_be_bytes());
        frame.extend(version.to_be_bytes());
        frame.extend(1_i32.to_be_bytes());
        frame.extend((-1_i16).to_be_bytes());
        wire.send_bytes(&frame).expect("sent");
        assert!(wire.is_closed_within(std::time::Duration::from_secs(10)), "key {key} version {version}");
        other.produce_ok("t", 0, &Batch::of(["still served"]));
    }
}

/// The APIs that change topics mean the same in all their versions.
#[test]
fn every_version_that_changes_a_topic_changes_it() {
    use kafka_protocol::messages::alter_configs_request as replaced;
    use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
    use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
    use kafka_protocol::messages::incremental_alter_configs_request as incremental;
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    wire.create_topic("t", 1);
    let text = |text: &str| StrBytes::from_string(text.to_owned());
    let age = || nats.jetstream().api("STREAM.INFO.kafka-t-0", &serde_json::Value::Null)["config"]["max_age"].as_i64();
    for version in 0..=2 {
        let ms = 1_000_000 + i64::from(version);
        let config = replaced::AlterableConfig::default()
            .with_name(text("retention.ms"))
            .with_value(Some(text(&ms.to_string())));
        let resource = replaced::AlterConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(text("t"))
            .with_configs(vec![config]);
        let answer = wire.call(version, &AlterConfigsRequest::default().with_resources(vec![resource]));
        assert_eq!((answer.responses[0].error_code, age()), (0, Some(ms * 1_000_000)), "AlterConfigs v{version}");
    }
    for version in 0..=1 {
        let ms = 2_000_000 + i64::from(version);
        let config = incremental::AlterableConfig::default()
            .with_name(text("retention.ms"))
            .with_value(Some(text(&ms.to_string())));
        let resource = incremental::AlterConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(text("t"))
            .with_configs(vec![config]);
        let answer = wire.call(version, &IncrementalAlterConfigsRequest::default().with_resources(vec![resource]));
        let row = &answer.responses[0];
        assert_eq!((row.error_code, age()), (0, Some(ms * 1_000_000)), "IncrementalAlterConfigs v{version}");
    }
    for version in 0..=3 {
        let count = 2 + i32::from(version);
        let topic =
            CreatePartitionsTopic::default().with_name(topic_name("t")).with_count(count).with_assignments(None);
        let request = CreatePartitionsRequest::default().with_topics(vec![topic]).with_timeout_ms(20_000);
        assert_eq!(wire.call(version, &request).results[0].error_code, 0, "CreatePartitions v{version}");
        assert_eq!(wire.topic("t").partitions.len(), usize::try_from(count).expect("small"), "v{version}");
    }
    for version in 0..=2 {
        wire.produce_ok("t", 0, &Batch::of(["a", "b"]));
        let offset = 1 + i64::from(version);
        let partition = DeleteRecordsPartition::default().with_offset(offset);
        let topic = DeleteRecordsTopic::default().with_name(topic_name("t")).with_partitions(vec![partition]);
        let request = DeleteRecordsRequest::default().with_topics(vec![topic]).with_timeout_ms(20_000);
        let answer = wire.call(version, &request);
        let row = &answer.topics[0].partitions[0];
        assert_eq!((row.error_code, row.low_watermark), (0, offset), "DeleteRecords v{version}");
        assert_eq!(wire.list_offset("t", 0, EARLIEST), offset, "v{version}");
    }
}

/// Sends `request` at each version that the gateway advertises for its API; each must be answered in that version's layout.
#[track_caller]
fn answer_each<R: Request>(port: u16, advertised: &ApiVersionsResponse, lowest: i16, request: &R) {
    let row = advertised.api_keys.iter().find(|row| row.api_key == R::KEY);
    let row = row.unwrap_or_else(|| panic!("key {} is not advertised", R::KEY));
    let highest = row.max_version.min(R::VERSIONS.max);
    assert!(highest >= lowest, "key {} ends at {highest}", R::KEY);
    let mut wire = Wire::connect(port);
    for version in row.min_version.max(lowest).max(R::VERSIONS.min)..=highest {
        wire.call(version, request);
    }
}

/// Each API at each of its versions, with the smallest request that says something; `lowest` is what the issue of serving
/// it began with. Fields that a version does not have stay at their defaults, or the encoder refuses.
#[test]
fn every_advertised_version_is_answered() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let advertised = gateway.wire().call(0, &ApiVersionsRequest::default());
    let port = gateway.port;
    let group = || GroupId(StrBytes::from_static_str("g"));
    let produce = advertised.api_keys.iter().find(|row| row.api_key == 0).expect("Produce");
    assert_eq!(produce.min_version, 0, "librdkafka compresses only where Produce begins at 0");

    answer_each(port, &advertised, 3, &ProduceRequest::default().with_acks(1));
    answer_each(port, &advertised, 4, &FetchRequest::default());
    answer_each(port, &advertised, 1, &ListOffsetsRequest::default().with_replica_id(BrokerId(-1)));
    answer_each(port, &advertised, 0, &MetadataRequest::default());
    answer_each(port, &advertised, 2, &OffsetCommitRequest::default().with_group_id(group()));
    answer_each(port, &advertised, 1, &OffsetFetchRequest::default());
    answer_each(port, &advertised, 0, &FindCoordinatorRequest::default());
    answer_each(port, &advertised, 0, &JoinGroupRequest::default().with_group_id(group()));
    answer_each(port, &advertised, 0, &HeartbeatRequest::default().with_group_id(group()));
    answer_each(port, &advertised, 0, &LeaveGroupRequest::default().with_group_id(group()));
    answer_each(port, &advertised, 0, &SyncGroupRequest::default().with_group_id(group()));
    answer_each(port, &advertised, 0, &DescribeGroupsRequest::default().with_groups(vec![group()]));
    answer_each(port, &advertised, 0, &ListGroupsRequest::default());
    let named = |name: &'static str| StrBytes::from_static_str(name);
    answer_each(
        port,
        &advertised,
        3,
        &ApiVersionsRequest::default()
            .with_client_software_name(named("test"))
            .with_client_software_version(named("1.0")),
    );
    answer_each(port, &advertised, 2, &CreateTopicsRequest::default().with_timeout_ms(1000));
    answer_each(port, &advertised, 1, &DeleteTopicsRequest::default().with_timeout_ms(1000));
    answer_each(
        port,
        &advertised,
        0,
        &InitProducerIdRequest::default().with_transactional_id(None).with_transaction_timeout_ms(1000),
    );
    answer_each(port, &advertised, 2, &OffsetForLeaderEpochRequest::default().with_replica_id(BrokerId(-2)));
    answer_each(port, &advertised, 1, &DescribeConfigsRequest::default());
    answer_each(port, &advertised, 0, &AlterConfigsRequest::default());
    answer_each(port, &advertised, 0, &IncrementalAlterConfigsRequest::default());
    answer_each(port, &advertised, 0, &CreatePartitionsRequest::default().with_timeout_ms(1000));
    answer_each(port, &advertised, 0, &DeleteRecordsRequest::default().with_timeout_ms(1000));
    answer_each(port, &advertised, 0, &DescribeClusterRequest::default());
    answer_each(port, &advertised, 0, &DeleteGroupsRequest::default().with_groups_names(vec![group()]));
    answer_each(port, &advertised, 0, &OffsetDeleteRequest::default().with_group_id(group()));

    let known: Vec<i16> =
        vec![0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22, 23, 32, 33, 37, 42, 44, 47, 60];
    let told: Vec<i16> = advertised.api_keys.iter().map(|row| row.api_key).collect();
    assert!(known.iter().all(|key| told.contains(key)), "advertised: {told:?}");
}

/// The same for what administrators and their tools ask for.
#[test]
fn every_advertised_version_for_administrators_is_answered() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let advertised = gateway.wire().call(0, &ApiVersionsRequest::default());
    let port = gateway.port;
    answer_each(port, &advertised, 1, &DescribeAclsRequest::default());
    answer_each(port, &advertised, 1, &CreateAclsRequest::default());
    answer_each(port, &advertised, 1, &DeleteAclsRequest::default());
    answer_each(port, &advertised, 1, &AlterReplicaLogDirsRequest::default());
    answer_each(port, &advertised, 0, &UnregisterBrokerRequest::default());
    answer_each(port, &advertised, 1, &DescribeLogDirsRequest::default().with_topics(None));
    answer_each(port, &advertised, 1, &CreateDelegationTokenRequest::default());
    answer_each(port, &advertised, 1, &RenewDelegationTokenRequest::default());
    answer_each(port, &advertised, 1, &ExpireDelegationTokenRequest::default());
    answer_each(port, &advertised, 1, &DescribeDelegationTokenRequest::default());
    answer_each(port, &advertised, 0, &ElectLeadersRequest::default().with_topic_partitions(None));
    answer_each(port, &advertised, 0, &AlterPartitionReassignmentsRequest::default());
    answer_each(port, &advertised, 0, &ListPartitionReassignmentsRequest::default());
    answer_each(port, &advertised, 0, &DescribeClientQuotasRequest::default());
    answer_each(port, &advertised, 0, &AlterClientQuotasRequest::default());
    answer_each(port, &advertised, 0, &DescribeUserScramCredentialsRequest::default());
    answer_each(port, &advertised, 0, &AlterUserScramCredentialsRequest::default());
    answer_each(port, &advertised, 0, &DescribeQuorumRequest::default());
    answer_each(port, &advertised, 0, &UpdateFeaturesRequest::default());
    answer_each(port, &advertised, 0, &DescribeProducersRequest::default());
    answer_each(port, &advertised, 0, &GetTelemetrySubscriptionsRequest::default());
    answer_each(port, &advertised, 0, &ListConfigResourcesRequest::default());
    answer_each(port, &advertised, 0, &DescribeTopicPartitionsRequest::default());
}
