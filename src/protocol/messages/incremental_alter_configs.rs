//! IncrementalAlterConfigs (KIP-339): single settings set, reset, appended to and subtracted from.
//!
//! Served from 0; 1 is flexible.

use crate::wire::wire;

wire! {
    pub struct IncrementalAlterConfigsRequest {
        resources: Vec<AlterConfigsResource> => 0..;
        validate_only: bool => 0..;
    }

    pub struct AlterConfigsResource {
        resource_type: i8 => 0..;
        resource_name: String => 0..;
        configs: Vec<AlterableConfig> => 0..;
    }

    pub struct AlterableConfig {
        name: String => 0..;
        config_operation: i8 => 0..;
        value: Option<String> = Some(String::new()) => 0..;
    }
}

wire! {
    pub struct IncrementalAlterConfigsResponse {
        throttle_time_ms: i32 => 0..;
        responses: Vec<AlterConfigsResourceResponse> => 0..;
    }

    pub struct AlterConfigsResourceResponse {
        error_code: i16 => 0..;
        error_message: Option<String> = Some(String::new()) => 0..;
        resource_type: i8 => 0..;
        resource_name: String => 0..;
    }
}
