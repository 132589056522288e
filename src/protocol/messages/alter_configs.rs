//! AlterConfigs: the settings of topics and brokers, replaced as a whole.
//!
//! Served from 0; 2 is flexible. Newer clients use IncrementalAlterConfigs (KIP-339).

use crate::wire::wire;

wire! {
    pub struct AlterConfigsRequest {
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
        value: Option<String> = Some(String::new()) => 0..;
    }
}

wire! {
    pub struct AlterConfigsResponse {
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
