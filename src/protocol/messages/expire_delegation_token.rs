//! ExpireDelegationToken (KIP-48). 2 is flexible.

use crate::wire::wire;
use bytes::Bytes;

wire! {
    pub struct ExpireDelegationTokenRequest {
        hmac: Bytes => 0..;
        expiry_time_period_ms: i64 => 0..;
    }
}

wire! {
    pub struct ExpireDelegationTokenResponse {
        error_code: i16 => 0..;
        expiry_timestamp_ms: i64 => 0..;
        throttle_time_ms: i32 => 0..;
    }
}
