//! CreateAcls.
//!
//! Behavior: there is no authorizer: SECURITY_DISABLED for each rule, as from a Kafka without one.

use super::{Context, Outcome};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::create_acls::{AclCreationResult, CreateAclsRequest, CreateAclsResponse};

pub fn handle(cx: &Context, request: CreateAclsRequest) -> Outcome {
    let refusal = AclCreationResult {
        error_code: ErrorCode::SECURITY_DISABLED.code(),
        error_message: Some("No Authorizer is configured.".to_owned()),
    };
    cx.reply(&CreateAclsResponse { results: vec![refusal; request.creations.len()], ..Default::default() })
}
