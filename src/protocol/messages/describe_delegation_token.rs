//! DescribeDelegationToken (KIP-48). 2 is flexible, 3 names who asked for a token (KIP-373).

use crate::wire::wire;
use bytes::Bytes;

wire! {
    pub struct DescribeDelegationTokenRequest {
        owners: Option<Vec<DescribeDelegationTokenOwner>> = Some(Vec::new()) => 0..;
    }

    pub struct DescribeDelegationTokenOwner {
        principal_type: String => 0..;
        principal_name: String => 0..;
    }
}

wire! {
    pub struct DescribeDelegationTokenResponse {
        error_code: i16 => 0..;
        tokens: Vec<DescribedDelegationToken> => 0..;
        throttle_time_ms: i32 => 0..;
    }

    pub struct DescribedDelegationToken {
        principal_type: String => 0..;
        principal_name: String => 0..;
        token_requester_principal_type: String => 3..;
        token_requester_principal_name: String => 3..;
        issue_timestamp: i64 => 0..;
        expiry_timestamp: i64 => 0..;
        max_timestamp: i64 => 0..;
        token_id: String => 0..;
        hmac: Bytes => 0..;
        renewers: Vec<DescribedDelegationTokenRenewer> => 0..;
    }

    pub struct DescribedDelegationTokenRenewer {
        principal_type: String => 0..;
        principal_name: String => 0..;
    }
}
