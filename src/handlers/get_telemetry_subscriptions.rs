//! GetTelemetrySubscriptions: no client metrics are wanted (KIP-714).
//!
//! Behavior: a client without an id is given one; it is asked for no metrics, and may ask again after five minutes, Kafka's
//! default. PushTelemetry is not served: clients push only what they were asked for.

use super::{Context, Outcome};
use crate::protocol::messages::get_telemetry_subscriptions::{
    GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse,
};
use crate::wire::Uuid;

const PUSH_INTERVAL_MS: i32 = 300_000;

/// Zstandard, LZ4, gzip, Snappy: in Kafka's order of preference.
const COMPRESSION_TYPES: [i8; 4] = [4, 3, 1, 2];

const TELEMETRY_BYTES_MAX: i32 = 1 << 20;

pub fn handle(cx: &Context, request: GetTelemetrySubscriptionsRequest) -> Outcome {
    let client_instance_id = match request.client_instance_id {
        Uuid::ZERO => Uuid::random(),
        known => known,
    };
    cx.reply(&GetTelemetrySubscriptionsResponse {
        client_instance_id,
        accepted_compression_types: COMPRESSION_TYPES.to_vec(),
        push_interval_ms: PUSH_INTERVAL_MS,
        telemetry_max_bytes: TELEMETRY_BYTES_MAX,
        delta_temporality: true,
        ..Default::default()
    })
}
