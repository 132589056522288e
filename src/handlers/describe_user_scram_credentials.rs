//! DescribeUserScramCredentials.
//!
//! Behavior: nobody can authenticate yet: SECURITY_DISABLED. (Kafka has SCRAM users without an authorizer, too.)

use super::{Context, Outcome};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::describe_user_scram_credentials::{
    DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse,
};

pub fn handle(cx: &Context, _: DescribeUserScramCredentialsRequest) -> Outcome {
    cx.reply(&DescribeUserScramCredentialsResponse {
        error_code: ErrorCode::SECURITY_DISABLED.code(),
        error_message: Some("There are no users: clients cannot authenticate.".to_owned()),
        ..Default::default()
    })
}
