//! The one table of what is served: key, name, versions, first flexible version, request, response.

use super::error_code::ErrorCode;
use super::features::{FEATURES, FINALIZED_EPOCH, Feature};
use super::frame;
use super::header::RequestHeader;
use super::messages;
use super::messages::api_versions::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use crate::wire::Wire;
use std::fmt::Debug;
use std::ops::RangeInclusive;

/// A request or a response of an API.
pub trait Message: Wire + Debug {
    const KEY: ApiKey;
}

/// A request, and what answers it.
pub trait Request: Message {
    type Response: Message;
}

/// Sees the request type of each API in turn; for what must be done for every message.
pub trait ApiVisitor {
    fn visit<R: Request>(&mut self);
}

macro_rules! apis {
    ($($name:ident = $key:literal, serves $versions:expr, $(advertises $advertised:expr,)? flexible $flexible:expr,
        $module:ident($request:ident => $response:ident);)*) => {
        /// An API that is served.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum ApiKey { $($name,)* }

        impl ApiKey {
            /// In the order of their numbers.
            pub const ALL: &'static [ApiKey] = &[$(ApiKey::$name,)*];

            pub fn from_code(code: i16) -> Option<ApiKey> {
                match code {
                    $($key => Some(ApiKey::$name),)*
                    _ => None,
                }
            }

            pub const fn code(self) -> i16 {
                match self { $(ApiKey::$name => $key,)* }
            }

            pub const fn name(self) -> &'static str {
                match self { $(ApiKey::$name => stringify!($name),)* }
            }

            /// The versions that are decoded and answered.
            pub const fn versions(self) -> RangeInclusive<i16> {
                match self { $(ApiKey::$name => $versions,)* }
            }

            /// The lowest version ApiVersions tells; below `versions` only where clients rely on that.
            pub fn advertised_min(self) -> i16 {
                match self {
                    $($(ApiKey::$name => $advertised,)?)*
                    _ => *self.versions().start(),
                }
            }

            /// From this version on strings, arrays and structs are compact and taggable (KIP-482).
            pub const fn first_flexible(self) -> i16 {
                match self { $(ApiKey::$name => $flexible,)* }
            }

            pub fn visit_all(visitor: &mut impl ApiVisitor) {
                $(visitor.visit::<messages::$module::$request>();)*
            }
        }

        $(
            impl Message for messages::$module::$request { const KEY: ApiKey = ApiKey::$name; }
            impl Message for messages::$module::$response { const KEY: ApiKey = ApiKey::$name; }
            impl Request for messages::$module::$request { type Response = messages::$module::$response; }
        )*
    };
}

// Produce: librdkafka compresses only for a broker that tells versions from 0, so 0 is told and 0 to 2 are refused.
// ListOffsets ends before Kafka's 11, OffsetCommit and OffsetFetch before its 10: no independent implementation writes
// those yet. OffsetDelete never became flexible.
apis! {
    Produce              = 0,  serves 3..=13, advertises 0, flexible 9,  produce(ProduceRequest => ProduceResponse);
    Fetch                = 1,  serves 4..=18, flexible 12, fetch(FetchRequest => FetchResponse);
    ListOffsets          = 2,  serves 1..=10, flexible 6,  list_offsets(ListOffsetsRequest => ListOffsetsResponse);
    Metadata             = 3,  serves 0..=13, flexible 9,  metadata(MetadataRequest => MetadataResponse);
    OffsetCommit         = 8,  serves 2..=9,  flexible 8,  offset_commit(OffsetCommitRequest => OffsetCommitResponse);
    OffsetFetch          = 9,  serves 1..=9,  flexible 6,  offset_fetch(OffsetFetchRequest => OffsetFetchResponse);
    FindCoordinator      = 10, serves 0..=6,  flexible 3,  find_coordinator(FindCoordinatorRequest => FindCoordinatorResponse);
    JoinGroup            = 11, serves 0..=9,  flexible 6,  join_group(JoinGroupRequest => JoinGroupResponse);
    Heartbeat            = 12, serves 0..=4,  flexible 4,  heartbeat(HeartbeatRequest => HeartbeatResponse);
    LeaveGroup           = 13, serves 0..=5,  flexible 4,  leave_group(LeaveGroupRequest => LeaveGroupResponse);
    SyncGroup            = 14, serves 0..=5,  flexible 4,  sync_group(SyncGroupRequest => SyncGroupResponse);
    DescribeGroups       = 15, serves 0..=6,  flexible 5,  describe_groups(DescribeGroupsRequest => DescribeGroupsResponse);
    ListGroups           = 16, serves 0..=5,  flexible 3,  list_groups(ListGroupsRequest => ListGroupsResponse);
    ApiVersions          = 18, serves 0..=4,  flexible 3,  api_versions(ApiVersionsRequest => ApiVersionsResponse);
    CreateTopics         = 19, serves 2..=7,  flexible 5,  create_topics(CreateTopicsRequest => CreateTopicsResponse);
    DeleteTopics         = 20, serves 1..=6,  flexible 4,  delete_topics(DeleteTopicsRequest => DeleteTopicsResponse);
    DeleteRecords        = 21, serves 0..=2,  flexible 2,  delete_records(DeleteRecordsRequest => DeleteRecordsResponse);
    InitProducerId       = 22, serves 0..=5,  flexible 2,  init_producer_id(InitProducerIdRequest => InitProducerIdResponse);
    OffsetForLeaderEpoch = 23, serves 2..=4,  flexible 4,  offset_for_leader_epoch(OffsetForLeaderEpochRequest => OffsetForLeaderEpochResponse);
    DescribeAcls         = 29, serves 1..=3,  flexible 2,  describe_acls(DescribeAclsRequest => DescribeAclsResponse);
    CreateAcls           = 30, serves 1..=3,  flexible 2,  create_acls(CreateAclsRequest => CreateAclsResponse);
    DeleteAcls           = 31, serves 1..=3,  flexible 2,  delete_acls(DeleteAclsRequest => DeleteAclsResponse);
    DescribeConfigs      = 32, serves 1..=4,  flexible 4,  describe_configs(DescribeConfigsRequest => DescribeConfigsResponse);
    AlterConfigs         = 33, serves 0..=2,  flexible 2,  alter_configs(AlterConfigsRequest => AlterConfigsResponse);
    AlterReplicaLogDirs  = 34, serves 1..=2,  flexible 2,  alter_replica_log_dirs(AlterReplicaLogDirsRequest => AlterReplicaLogDirsResponse);
    DescribeLogDirs      = 35, serves 1..=4,  flexible 2,  describe_log_dirs(DescribeLogDirsRequest => DescribeLogDirsResponse);
    CreatePartitions     = 37, serves 0..=3,  flexible 2,  create_partitions(CreatePartitionsRequest => CreatePartitionsResponse);
    CreateDelegationToken = 38, serves 1..=3,  flexible 2,  create_delegation_token(CreateDelegationTokenRequest => CreateDelegationTokenResponse);
    RenewDelegationToken = 39, serves 1..=2,  flexible 2,  renew_delegation_token(RenewDelegationTokenRequest => RenewDelegationTokenResponse);
    ExpireDelegationToken = 40, serves 1..=2,  flexible 2,  expire_delegation_token(ExpireDelegationTokenRequest => ExpireDelegationTokenResponse);
    DescribeDelegationToken = 41, serves 1..=3,  flexible 2,  describe_delegation_token(DescribeDelegationTokenRequest => DescribeDelegationTokenResponse);
    DeleteGroups         = 42, serves 0..=2,  flexible 2,  delete_groups(DeleteGroupsRequest => DeleteGroupsResponse);
    ElectLeaders         = 43, serves 0..=2,  flexible 2,  elect_leaders(ElectLeadersRequest => ElectLeadersResponse);
    IncrementalAlterConfigs = 44, serves 0..=1, flexible 1, incremental_alter_configs(IncrementalAlterConfigsRequest => IncrementalAlterConfigsResponse);
    AlterPartitionReassignments = 45, serves 0..=1,  flexible 0,  alter_partition_reassignments(AlterPartitionReassignmentsRequest => AlterPartitionReassignmentsResponse);
    ListPartitionReassignments = 46, serves 0..=0,  flexible 0,  list_partition_reassignments(ListPartitionReassignmentsRequest => ListPartitionReassignmentsResponse);
    OffsetDelete         = 47, serves 0..=0,  flexible 1,  offset_delete(OffsetDeleteRequest => OffsetDeleteResponse);
    DescribeClientQuotas = 48, serves 0..=1,  flexible 1,  describe_client_quotas(DescribeClientQuotasRequest => DescribeClientQuotasResponse);
    AlterClientQuotas    = 49, serves 0..=1,  flexible 1,  alter_client_quotas(AlterClientQuotasRequest => AlterClientQuotasResponse);
    DescribeUserScramCredentials = 50, serves 0..=0,  flexible 0,  describe_user_scram_credentials(DescribeUserScramCredentialsRequest => DescribeUserScramCredentialsResponse);
    AlterUserScramCredentials = 51, serves 0..=0,  flexible 0,  alter_user_scram_credentials(AlterUserScramCredentialsRequest => AlterUserScramCredentialsResponse);
    DescribeQuorum       = 55, serves 0..=2,  flexible 0,  describe_quorum(DescribeQuorumRequest => DescribeQuorumResponse);
    UpdateFeatures       = 57, serves 0..=2,  flexible 0,  update_features(UpdateFeaturesRequest => UpdateFeaturesResponse);
    DescribeCluster      = 60, serves 0..=2,  flexible 0,  describe_cluster(DescribeClusterRequest => DescribeClusterResponse);
    DescribeProducers    = 61, serves 0..=0,  flexible 0,  describe_producers(DescribeProducersRequest => DescribeProducersResponse);
    UnregisterBroker     = 64, serves 0..=0,  flexible 0,  unregister_broker(UnregisterBrokerRequest => UnregisterBrokerResponse);
    GetTelemetrySubscriptions = 71, serves 0..=0,  flexible 0,  get_telemetry_subscriptions(GetTelemetrySubscriptionsRequest => GetTelemetrySubscriptionsResponse);
    ListConfigResources  = 74, serves 0..=1,  flexible 0,  list_config_resources(ListConfigResourcesRequest => ListConfigResourcesResponse);
    DescribeTopicPartitions = 75, serves 0..=0,  flexible 0,  describe_topic_partitions(DescribeTopicPartitionsRequest => DescribeTopicPartitionsResponse);
}

impl ApiKey {
    pub fn flexible(self, version: i16) -> bool {
        version >= self.first_flexible()
    }

    pub fn serves(self, version: i16) -> bool {
        self.versions().contains(&version)
    }
}

/// The answer to an ApiVersions request. From version 3 on the client names its software (KIP-511); a name that does
/// not fit Kafka's pattern is answered INVALID_REQUEST and no list. The features (KIP-584) ride in tagged fields from
/// version 3 on.
pub fn api_versions(version: i16, request: &ApiVersionsRequest) -> ApiVersionsResponse {
    let named = is_software_name(&request.client_software_name) && is_software_name(&request.client_software_version);
    if version >= 3 && !named {
        return ApiVersionsResponse { error_code: ErrorCode::INVALID_REQUEST.code(), ..Default::default() };
    }
    ApiVersionsResponse {
        api_keys: advertised(),
        supported_features: FEATURES.iter().map(supported).collect(),
        finalized_features_epoch: FINALIZED_EPOCH,
        finalized_features: FEATURES.iter().map(finalized).collect(),
        ..Default::default()
    }
}

fn supported(feature: &Feature) -> SupportedFeatureKey {
    SupportedFeatureKey { name: feature.name.to_owned(), min_version: feature.min, max_version: feature.max }
}

fn finalized(feature: &Feature) -> FinalizedFeatureKey {
    let name = feature.name.to_owned();
    FinalizedFeatureKey { name, max_version_level: feature.max, min_version_level: feature.max }
}

/// The whole frame that answers an ApiVersions of a version nobody here knows: UNSUPPORTED_VERSION in the layout of
/// version 0, which every client can read, and the list it may choose from. (Kafka lists only ApiVersions itself
/// there; clients look for that row and pass over the others.)
pub fn unknown_api_versions(header: &RequestHeader) -> Vec<u8> {
    let error_code = ErrorCode::UNSUPPORTED_VERSION.code();
    let response = ApiVersionsResponse { error_code, api_keys: advertised(), ..Default::default() };
    frame::response_in_version(header.correlation_id, 0, &response)
}

fn advertised() -> Vec<ApiVersion> {
    let row = |api: &ApiKey| ApiVersion {
        api_key: api.code(),
        min_version: api.advertised_min(),
        max_version: *api.versions().end(),
    };
    ApiKey::ALL.iter().map(row).collect()
}

/// Letters and digits, with dashes and dots between them.
fn is_software_name(name: &str) -> bool {
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    let bytes = name.as_bytes();
    ends(bytes.first()) && ends(bytes.last()) && bytes.iter().copied().all(inner)
}
