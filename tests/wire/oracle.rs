//! The `kafka-protocol` crate as judge: what we write it reads, and writes again to the same bytes, for each message in
//! each served version. It is never used outside of tests: it aborts the process on a hostile array length.

use bytes::{Bytes, BytesMut};
use hanzo_kafka::protocol::api::{ApiKey, Message};
use hanzo_kafka::protocol::error_code::ErrorCode;
use hanzo_kafka::protocol::frame;
use hanzo_kafka::protocol::messages as ours;
use hanzo_kafka::wire::sample::Sampler;
use hanzo_kafka::wire::{Reader, Writer};
use kafka_protocol::error::ResponseError;
use kafka_protocol::messages as theirs;
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion};

const SAMPLES_PER_VERSION: u64 = 200;

macro_rules! judged {
    ($($api:ident: $module:ident :: $request:ident => $response:ident;)*) => {
        const JUDGED: &[ApiKey] = &[$(ApiKey::$api,)*];

        $(
            #[test]
            #[allow(non_snake_case)]
            fn $api() {
                judge::<ours::$module::$request, theirs::$request>();
                judge::<ours::$module::$response, theirs::$response>();
                judge_headers::<theirs::$request, theirs::$response>(ApiKey::$api);
            }
        )*
    };
}

judged! {
    Produce: produce::ProduceRequest => ProduceResponse;
    Fetch: fetch::FetchRequest => FetchResponse;
    ListOffsets: list_offsets::ListOffsetsRequest => ListOffsetsResponse;
    Metadata: metadata::MetadataRequest => MetadataResponse;
    OffsetCommit: offset_commit::OffsetCommitRequest => OffsetCommitResponse;
    OffsetFetch: offset_fetch::OffsetFetchRequest => OffsetFetchResponse;
    FindCoordinator: find_coordinator::FindCoordinatorRequest => FindCoordinatorResponse;
    JoinGroup: join_group::JoinGroupRequest => JoinGroupResponse;
    Heartbeat: heartbeat::HeartbeatRequest => HeartbeatResponse;
    LeaveGroup: leave_group::LeaveGroupRequest => LeaveGroupResponse;
    SyncGroup: sync_group::SyncGroupRequest => SyncGroupResponse;
    DescribeGroups: describe_groups::DescribeGroupsRequest => DescribeGroupsResponse;
    ListGroups: list_groups::ListGroupsRequest => ListGroupsResponse;
    ApiVersions: api_versions::ApiVersionsRequest => ApiVersionsResponse;
    CreateTopics: create_topics::CreateTopicsRequest => CreateTopicsResponse;
    DeleteTopics: delete_topics::DeleteTopicsRequest => DeleteTopicsResponse;
    DeleteRecords: delete_records::DeleteRecordsRequest => DeleteRecordsResponse;
    InitProducerId: init_producer_id::InitProducerIdRequest => InitProducerIdResponse;
    OffsetForLeaderEpoch: offset_for_leader_epoch::OffsetForLeaderEpochRequest => OffsetForLeaderEpochResponse;
    DescribeAcls: describe_acls::DescribeAclsRequest => DescribeAclsResponse;
    CreateAcls: create_acls::CreateAclsRequest => CreateAclsResponse;
    DeleteAcls: delete_acls::DeleteAclsRequest => DeleteAclsResponse;
    DescribeConfigs: describe_configs::DescribeConfigsRequest => DescribeConfigsResponse;
    AlterConfigs: alter_configs::AlterConfigsRequest => AlterConfigsResponse;
    AlterReplicaLogDirs: alter_replica_log_dirs::AlterReplicaLogDirsRequest => AlterReplicaLogDirsResponse;
    DescribeLogDirs: describe_log_dirs::DescribeLogDirsRequest => DescribeLogDirsResponse;
    CreatePartitions: create_partitions::CreatePartitionsRequest => CreatePartitionsResponse;
    CreateDelegationToken: create_delegation_token::CreateDelegationTokenRequest => CreateDelegationTokenResponse;
    RenewDelegationToken: renew_delegation_token::RenewDelegationTokenRequest => RenewDelegationTokenResponse;
    ExpireDelegationToken: expire_delegation_token::ExpireDelegationTokenRequest => ExpireDelegationTokenResponse;
    DescribeDelegationToken: describe_delegation_token::DescribeDelegationTokenRequest => DescribeDelegationTokenResponse;
    DeleteGroups: delete_groups::DeleteGroupsRequest => DeleteGroupsResponse;
    ElectLeaders: elect_leaders::ElectLeadersRequest => ElectLeadersResponse;
    IncrementalAlterConfigs: incremental_alter_configs::IncrementalAlterConfigsRequest => IncrementalAlterConfigsResponse;
    AlterPartitionReassignments: alter_partition_reassignments::AlterPartitionReassignmentsRequest => AlterPartitionReassignmentsResponse;
    ListPartitionReassignments: list_partition_reassignments::ListPartitionReassignmentsRequest => ListPartitionReassignmentsResponse;
    OffsetDelete: offset_delete::OffsetDeleteRequest => OffsetDeleteResponse;
    DescribeClientQuotas: describe_client_quotas::DescribeClientQuotasRequest => DescribeClientQuotasResponse;
    AlterClientQuotas: alter_client_quotas::AlterClientQuotasRequest => AlterClientQuotasResponse;
    DescribeUserScramCredentials: describe_user_scram_credentials::DescribeUserScramCredentialsRequest => DescribeUserScramCredentialsResponse;
    AlterUserScramCredentials: alter_user_scram_credentials::AlterUserScramCredentialsRequest => AlterUserScramCredentialsResponse;
    DescribeQuorum: describe_quorum::DescribeQuorumRequest => DescribeQuorumResponse;
    UpdateFeatures: update_features::UpdateFeaturesRequest => UpdateFeaturesResponse;
    DescribeCluster: describe_cluster::DescribeClusterRequest => DescribeClusterResponse;
    DescribeProducers: describe_producers::DescribeProducersRequest => DescribeProducersResponse;
    UnregisterBroker: unregister_broker::UnregisterBrokerRequest => UnregisterBrokerResponse;
    GetTelemetrySubscriptions: get_telemetry_subscriptions::GetTelemetrySubscriptionsRequest => GetTelemetrySubscriptionsResponse;
    ListConfigResources: list_config_resources::ListConfigResourcesRequest => ListConfigResourcesResponse;
    DescribeTopicPartitions: describe_topic_partitions::DescribeTopicPartitionsRequest => DescribeTopicPartitionsResponse;
}

#[test]
fn every_api_is_judged() {
    assert_eq!(JUDGED, ApiKey::ALL);
}

#[track_caller]
fn judge<Ours: Message + PartialEq + std::fmt::Debug, Theirs: Encodable + Decodable>() {
    for version in Ours::KEY.versions() {
        let flexible = Ours::KEY.flexible(version);
        for seed in 0..SAMPLES_PER_VERSION {
            let sample = Ours::sample(&mut Sampler::new(version, seed + 1));
            let mut writer = Writer::new(version, flexible);
            sample.write(&mut writer);
            let bytes = Bytes::from(writer.into_bytes());

            let again: Ours = frame::message(Reader::new(bytes.clone(), version, flexible))
                .unwrap_or_else(|error| panic!("v{version} seed {seed}: {error}\n{sample:?}\n{bytes:?}"));
            assert_eq!(sample, again, "v{version} seed {seed}");

            let mut unread = bytes.clone();
            let judged = Theirs::decode(&mut unread, version)
                .unwrap_or_else(|error| panic!("v{version} seed {seed}: {error}\n{sample:?}\n{bytes:?}"));
            assert!(unread.is_empty(), "v{version} seed {seed}: the judge left {} bytes of {sample:?}", unread.len());
            let mut rewritten = BytesMut::new();
            judged.encode(&mut rewritten, version).expect("the judge writes what it read");
            assert_eq!(bytes, rewritten, "v{version} seed {seed}: {sample:?}");
        }
    }
}

#[track_caller]
fn judge_headers<TheirRequest: HeaderVersion, TheirResponse: HeaderVersion>(api: ApiKey) {
    for version in api.versions() {
        let request = i16::from(api.flexible(version)) + 1;
        let response = i16::from(hanzo_kafka::protocol::header::response_header_flexible(api, version));
        assert_eq!(request, TheirRequest::header_version(version), "request header of {api:?} v{version}");
        assert_eq!(response, TheirResponse::header_version(version), "response header of {api:?} v{version}");
    }
}

#[test]
fn error_codes_have_kafkas_names() {
    for code in 1..=133 {
        let ours = ErrorCode::from_code(code).name().unwrap_or_else(|| panic!("{code} has a name"));
        let theirs = format!("{:?}", ResponseError::try_from_code(code).expect("an error"));
        assert_eq!(ours.replace('_', "").to_lowercase(), theirs.to_lowercase(), "{code}");
    }
    assert_eq!(ErrorCode::from_code(-1), ErrorCode::UNKNOWN_SERVER_ERROR);
    assert_eq!(ErrorCode::NOT_COORDINATOR.to_string(), "NOT_COORDINATOR");
    assert_eq!(ErrorCode::from_code(9999).to_string(), "9999");
}
