//! ListConfigResources: what has settings. 0 lists client metrics only (KIP-714), 1 the types asked for (KIP-1142).

use crate::wire::wire;

wire! {
    pub struct ListConfigResourcesRequest {
        resource_types: Vec<i8> => 1..;
    }
}

wire! {
    pub struct ListConfigResourcesResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        config_resources: Vec<ConfigResource> => 0..;
    }

    pub struct ConfigResource {
        resource_name: String => 0..;
        resource_type: i8 = 16 => 1..;
    }
}
