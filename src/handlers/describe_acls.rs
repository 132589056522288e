//! DescribeAcls.
//!
//! Behavior: there is no authorizer: SECURITY_DISABLED, as from a Kafka without one.

use super::{Context, Outcome};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::describe_acls::{DescribeAclsRequest, DescribeAclsResponse};

pub fn handle(cx: &Context, _: DescribeAclsRequest) -> Outcome {
    cx.reply(&DescribeAclsResponse {
        error_code: ErrorCode::SECURITY_DISABLED.code(),
        error_message: Some("No Authorizer is configured on the broker".to_owned()),
        ..Default::default()
    })
}
