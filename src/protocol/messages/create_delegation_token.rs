//! CreateDelegationToken (KIP-48). 2 is flexible, 3 names another owner (KIP-373).

use crate::wire::wire;
use bytes::Bytes;

wire! {
    pub struct CreateDelegationTokenRequest {
        owner_principal_type: Option<String> = Some(String::new()) => 3..;
        owner_principal_name: Option<String> = Some(String::new()) => 3..;
        renewers: Vec<CreatableRenewers> => 0..;
        max_lifetime_ms: i64 => 0..;
    }

    pub struct CreatableRenewers {
        principal_type: String => 0..;
        principal_name: String => 0..;
    }
}

wire! {
    pub struct CreateDelegationTokenResponse {
        error_code: i16 => 0..;
        principal_type: String => 0..;
        principal_name: String => 0..;
        token_requester_principal_type: String => 3..;
        token_requester_principal_name: String => 3..;
        issue_timestamp_ms: i64 => 0..;
        expiry_timestamp_ms: i64 => 0..;
        max_timestamp_ms: i64 => 0..;
        token_id: String => 0..;
        hmac: Bytes => 0..;
        throttle_time_ms: i32 => 0..;
    }
}
