//! The one table of what is served: key, name, versions, first flexible version, request, response.

use super::error_code::ErrorCode;
use super::frame;
use super::header::RequestHeader;
use super::messages;
use super::messages::api_versions::{ApiVersion, ApiVersionsRequest, ApiVersionsResponse};
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
    Produce              = 0,  serves 3..=13, advertises 0, flexible 9, produce(ProduceRequest => ProduceResponse);
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
    InitProducerId       = 22, serves 0..=5,  flexible 2,  init_producer_id(InitProducerIdRequest => InitProducerIdResponse);
    OffsetForLeaderEpoch = 23, serves 2..=4,  flexible 4,  offset_for_leader_epoch(OffsetForLeaderEpochRequest => OffsetForLeaderEpochResponse);
    DescribeConfigs      = 32, serves 1..=4,  flexible 4,  describe_configs(DescribeConfigsRequest => DescribeConfigsResponse);
    DeleteGroups         = 42, serves 0..=2,  flexible 2,  delete_groups(DeleteGroupsRequest => DeleteGroupsResponse);
    OffsetDelete         = 47, serves 0..=0,  flexible 1,  offset_delete(OffsetDeleteRequest => OffsetDeleteResponse);
    DescribeCluster      = 60, serves 0..=2,  flexible 0,  describe_cluster(DescribeClusterRequest => DescribeClusterResponse);
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
/// not fit Kafka's pattern is answered INVALID_REQUEST and no list. Features are left empty: a client that misses one
/// does without it.
pub fn api_versions(version: i16, request: &ApiVersionsRequest) -> ApiVersionsResponse {
    let named = is_software_name(&request.client_software_name) && is_software_name(&request.client_software_version);
    if version >= 3 && !named {
        return ApiVersionsResponse { error_code: ErrorCode::INVALID_REQUEST.code(), ..Default::default() };
    }
    ApiVersionsResponse { api_keys: advertised(), ..Default::default() }
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
