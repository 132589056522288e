//! ApiVersions: what this gateway speaks. The rules stand with the table, in `protocol::api`.

use super::{Context, Outcome};
use crate::protocol::api;
use crate::protocol::messages::api_versions::ApiVersionsRequest;

pub fn handle(cx: &Context, request: ApiVersionsRequest) -> Outcome {
    cx.reply(&api::api_versions(cx.header.api_version, &request))
}
