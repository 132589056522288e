//! AlterUserScramCredentials.
//!
//! Behavior: nobody can authenticate yet: SECURITY_DISABLED for each user named, each once, in the order of their names.

use super::{Context, Outcome};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::alter_user_scram_credentials::{
    AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, AlterUserScramCredentialsResult,
};
use std::collections::BTreeSet;

pub fn handle(cx: &Context, request: AlterUserScramCredentialsRequest) -> Outcome {
    let deleted = request.deletions.into_iter().map(|deletion| deletion.name);
    let users: BTreeSet<String> =
        deleted.chain(request.upsertions.into_iter().map(|upsertion| upsertion.name)).collect();
    let row = |user: String| AlterUserScramCredentialsResult {
        user,
        error_code: ErrorCode::SECURITY_DISABLED.code(),
        error_message: Some("There are no users: clients cannot authenticate.".to_owned()),
    };
    let results = users.into_iter().map(row).collect();
    cx.reply(&AlterUserScramCredentialsResponse { results, ..Default::default() })
}
