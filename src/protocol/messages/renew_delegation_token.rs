//! RenewDelegationToken (KIP-48). 2 is flexible.

use crate::wire::wire;
use bytes::Bytes;

wire! {
    pub struct RenewDelegationTokenRequest {
        hmac: Bytes => 0..;
        renew_period_ms: i64 => 0..;
    }
}

wire! {
    pub struct RenewDelegationTokenResponse {
        error_code: i16 => 0..;
        expiry_timestamp_ms: i64 => 0..;
        throttle_time_ms: i32 => 0..;
    }
}
