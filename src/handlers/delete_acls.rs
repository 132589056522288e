//! DeleteAcls.
//!
//! Behavior: there is no authorizer: SECURITY_DISABLED for each filter, as from a Kafka without one.

use super::{Context, Outcome};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::delete_acls::{DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse};

pub fn handle(cx: &Context, request: DeleteAclsRequest) -> Outcome {
    let refusal = DeleteAclsFilterResult {
        error_code: ErrorCode::SECURITY_DISABLED.code(),
        error_message: Some("No Authorizer is configured.".to_owned()),
        ..Default::default()
    };
    cx.reply(&DeleteAclsResponse { filter_results: vec![refusal; request.filters.len()], ..Default::default() })
}
