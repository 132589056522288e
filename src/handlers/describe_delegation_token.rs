//! DescribeDelegationToken.
//!
//! Behavior: nobody can authenticate yet: SECURITY_DISABLED (see CreateDelegationToken).

use super::{Context, Outcome};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::describe_delegation_token::{
    DescribeDelegationTokenRequest, DescribeDelegationTokenResponse,
};

pub fn handle(cx: &Context, _: DescribeDelegationTokenRequest) -> Outcome {
    cx.reply(&DescribeDelegationTokenResponse { error_code: ErrorCode::SECURITY_DISABLED.code(), ..Default::default() })
}
