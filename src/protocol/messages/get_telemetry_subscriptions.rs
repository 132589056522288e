//! GetTelemetrySubscriptions: which metrics a client is asked to send (KIP-714).

use crate::wire::{Uuid, wire};

wire! {
    pub struct GetTelemetrySubscriptionsRequest {
        client_instance_id: Uuid => 0..;
    }
}

wire! {
    pub struct GetTelemetrySubscriptionsResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        client_instance_id: Uuid => 0..;
        subscription_id: i32 => 0..;
        accepted_compression_types: Vec<i8> => 0..;
        push_interval_ms: i32 => 0..;
        telemetry_max_bytes: i32 => 0..;
        delta_temporality: bool => 0..;
        requested_metrics: Vec<String> => 0..;
    }
}
