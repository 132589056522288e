//! The one table of what is served: key, name, versions, first flexible version, request, response.

use super::messages::*;
use crate::wire::Wire;
use std::ops::RangeInclusive;

/// A request or a response of an API.
pub trait Message: Wire {
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
        $request:path => $response:path;)*) => {
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
                $(visitor.visit::<$request>();)*
            }
        }

        $(
            impl Message for $request { const KEY: ApiKey = ApiKey::$name; }
            impl Message for $response { const KEY: ApiKey = ApiKey::$name; }
            impl Request for $request { type Response = $response; }
        )*
    };
}

// Produce: librdkafka compresses only for a broker that tells versions from 0, so 0 is told and 0 to 2 are refused.
// ListOffsets ends before Kafka's 11, OffsetDelete never became flexible.
apis! {
    Produce              = 0,  serves 3..=13, advertises 0, flexible 9, produce::ProduceRequest => produce::ProduceResponse;
    Fetch                = 1,  serves 4..=18, flexible 12, fetch::FetchRequest => fetch::FetchResponse;
    ListOffsets          = 2,  serves 1..=10, flexible 6,  list_offsets::ListOffsetsRequest => list_offsets::ListOffsetsResponse;
    Metadata             = 3,  serves 0..=13, flexible 9,  metadata::MetadataRequest => metadata::MetadataResponse;
    OffsetCommit         = 8,  serves 2..=10, flexible 8,  offset_commit::OffsetCommitRequest => offset_commit::OffsetCommitResponse;
    OffsetFetch          = 9,  serves 1..=10, flexible 6,  offset_fetch::OffsetFetchRequest => offset_fetch::OffsetFetchResponse;
    FindCoordinator      = 10, serves 0..=6,  flexible 3,  find_coordinator::FindCoordinatorRequest => find_coordinator::FindCoordinatorResponse;
    JoinGroup            = 11, serves 0..=9,  flexible 6,  join_group::JoinGroupRequest => join_group::JoinGroupResponse;
    Heartbeat            = 12, serves 0..=4,  flexible 4,  heartbeat::HeartbeatRequest => heartbeat::HeartbeatResponse;
    LeaveGroup           = 13, serves 0..=5,  flexible 4,  leave_group::LeaveGroupRequest => leave_group::LeaveGroupResponse;
    SyncGroup            = 14, serves 0..=5,  flexible 4,  sync_group::SyncGroupRequest => sync_group::SyncGroupResponse;
    DescribeGroups       = 15, serves 0..=6,  flexible 5,  describe_groups::DescribeGroupsRequest => describe_groups::DescribeGroupsResponse;
    ListGroups           = 16, serves 0..=5,  flexible 3,  list_groups::ListGroupsRequest => list_groups::ListGroupsResponse;
    ApiVersions          = 18, serves 0..=4,  flexible 3,  api_versions::ApiVersionsRequest => api_versions::ApiVersionsResponse;
    CreateTopics         = 19, serves 2..=7,  flexible 5,  create_topics::CreateTopicsRequest => create_topics::CreateTopicsResponse;
    DeleteTopics         = 20, serves 1..=6,  flexible 4,  delete_topics::DeleteTopicsRequest => delete_topics::DeleteTopicsResponse;
    InitProducerId       = 22, serves 0..=5,  flexible 2,  init_producer_id::InitProducerIdRequest => init_producer_id::InitProducerIdResponse;
    OffsetForLeaderEpoch = 23, serves 2..=4,  flexible 4,  offset_for_leader_epoch::OffsetForLeaderEpochRequest => offset_for_leader_epoch::OffsetForLeaderEpochResponse;
    DescribeConfigs      = 32, serves 1..=4,  flexible 4,  describe_configs::DescribeConfigsRequest => describe_configs::DescribeConfigsResponse;
    DeleteGroups         = 42, serves 0..=2,  flexible 2,  delete_groups::DeleteGroupsRequest => delete_groups::DeleteGroupsResponse;
    OffsetDelete         = 47, serves 0..=0,  flexible 1,  offset_delete::OffsetDeleteRequest => offset_delete::OffsetDeleteResponse;
    DescribeCluster      = 60, serves 0..=2,  flexible 0,  describe_cluster::DescribeClusterRequest => describe_cluster::DescribeClusterResponse;
}

impl ApiKey {
    pub fn flexible(self, version: i16) -> bool {
        version >= self.first_flexible()
    }

    pub fn serves(self, version: i16) -> bool {
        self.versions().contains(&version)
    }
}
