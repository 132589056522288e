//! UnregisterBroker: takes a broker that is gone out of the cluster (KIP-631).

use crate::wire::wire;

wire! {
    pub struct UnregisterBrokerRequest {
        broker_id: i32 => 0..;
    }
}

wire! {
    pub struct UnregisterBrokerResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
    }
}
