//! DescribeConfigs: settings of topics and brokers.
//!
//! Served from 1, the first with sources and synonyms (KIP-226). 3 has types and documentation (KIP-569), 4 is
//! flexible.

use crate::wire::wire;

wire! {
    pub struct DescribeConfigsRequest {
        resources: Vec<DescribeConfigsResource> => 0..;
        include_synonyms: bool => 1..;
        include_documentation: bool => 3..;
    }

    pub struct DescribeConfigsResource {
        resource_type: i8 => 0..;
        resource_name: String => 0..;
        configuration_keys: Option<Vec<String>> = Some(Vec::new()) => 0..;
    }
}

wire! {
    pub struct DescribeConfigsResponse {
        throttle_time_ms: i32 => 0..;
        results: Vec<DescribeConfigsResult> => 0..;
    }

    pub struct DescribeConfigsResult {
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        resource_type: i8 => 0..;
        resource_name: String => 0..;
        configs: Vec<DescribeConfigsResourceResult> => 0..;
    }

    pub struct DescribeConfigsResourceResult {
        name: String => 0..;
        value: Option<String> = Some(String::new()) => 0..;
        read_only: bool => 0..;
        config_source: i8 = -1 => 1..;
        is_sensitive: bool => 0..;
        synonyms: Vec<DescribeConfigsSynonym> => 1..;
        config_type: i8 => 3..;
        documentation: Option<String> = Some(String::new()) => 3..;
    }

    pub struct DescribeConfigsSynonym {
        name: String => 1..;
        value: Option<String> = Some(String::new()) => 1..;
        source: i8 => 1..;
    }
}
