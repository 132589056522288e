//! UpdateFeatures: raises or lowers the level of features (KIP-584). 1 has kinds of updates and dry runs; 2 tells errors
//! for the whole request only (KIP-1022).

use crate::wire::wire;

wire! {
    pub struct UpdateFeaturesRequest {
        timeout_ms: i32 = 60_000 => 0..;
        feature_updates: Vec<FeatureUpdateKey> => 0..;
        validate_only: bool => 1..;
    }

    pub struct FeatureUpdateKey {
        feature: String => 0..;
        max_version_level: i16 => 0..;
        allow_downgrade: bool => 0..=0;
        upgrade_type: i8 = 1 => 1..;
    }
}

wire! {
    pub struct UpdateFeaturesResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        results: Vec<UpdatableFeatureResult> => 0..=1;
    }

    pub struct UpdatableFeatureResult {
        feature: String => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
    }
}
