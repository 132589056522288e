//! ExpireDelegationToken.
//!
//! Behavior: nobody can authenticate yet: SECURITY_DISABLED (see CreateDelegationToken).

use super::{Context, Outcome};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::expire_delegation_token::{ExpireDelegationTokenRequest, ExpireDelegationTokenResponse};

/// What Kafka says where there is no time.
const NO_TIME: i64 = -1;

pub fn handle(cx: &Context, _: ExpireDelegationTokenRequest) -> Outcome {
    cx.reply(&ExpireDelegationTokenResponse {
        error_code: ErrorCode::SECURITY_DISABLED.code(),
        expiry_timestamp_ms: NO_TIME,
        ..Default::default()
    })
}
