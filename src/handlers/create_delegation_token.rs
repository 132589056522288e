//! CreateDelegationToken.
//!
//! Behavior: nobody can authenticate yet: SECURITY_DISABLED. (A Kafka without security says
//! DELEGATION_TOKEN_REQUEST_NOT_ALLOWED; ADR 42.)

use super::{Context, Outcome};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::create_delegation_token::{CreateDelegationTokenRequest, CreateDelegationTokenResponse};

/// What Kafka says where there is no time.
const NO_TIME: i64 = -1;

pub fn handle(cx: &Context, _: CreateDelegationTokenRequest) -> Outcome {
    cx.reply(&CreateDelegationTokenResponse {
        error_code: ErrorCode::SECURITY_DISABLED.code(),
        issue_timestamp_ms: NO_TIME,
        expiry_timestamp_ms: NO_TIME,
        max_timestamp_ms: NO_TIME,
        ..Default::default()
    })
}
