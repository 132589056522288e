//! ApiVersions: what this broker speaks; the first request of most clients.
//!
//! 3 is flexible and names the client's software (KIP-511), and carries features (KIP-584); from 4 on a feature may
//! start at version 0 (KIP-1022).

use crate::wire::wire;

wire! {
    pub struct ApiVersionsRequest {
        client_software_name: String => 3..;
        client_software_version: String => 3..;
    }
}

wire! {
    pub struct ApiVersionsResponse {
        error_code: i16 => 0..;
        api_keys: Vec<ApiVersion> => 0..;
        throttle_time_ms: i32 => 1..;
        supported_features: Vec<SupportedFeatureKey> => 3.., tag 0;
        finalized_features_epoch: i64 = -1 => 3.., tag 1;
        finalized_features: Vec<FinalizedFeatureKey> => 3.., tag 2;
        zk_migration_ready: bool => 3.., tag 3;
    }

    pub struct ApiVersion {
        api_key: i16 => 0..;
        min_version: i16 => 0..;
        max_version: i16 => 0..;
    }

    pub struct SupportedFeatureKey {
        name: String => 3..;
        min_version: i16 => 3..;
        max_version: i16 => 3..;
    }

    pub struct FinalizedFeatureKey {
        name: String => 3..;
        max_version_level: i16 => 3..;
        min_version_level: i16 => 3..;
    }
}
