//! DescribeClientQuotas: there are no quotas.
//!
//! Behavior: the filter is checked as Kafka checks it; what passes matches nothing, because none can be set.

use super::{Context, Outcome};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::describe_client_quotas::{
    ComponentData, DescribeClientQuotasRequest, DescribeClientQuotasResponse,
};
use std::collections::HashSet;

const EXACT: i8 = 0;
const DEFAULT: i8 = 1;
const SPECIFIED: i8 = 2;

type Refusal = (ErrorCode, String);

pub fn handle(cx: &Context, request: DescribeClientQuotasRequest) -> Outcome {
    match check(&request.components) {
        Ok(()) => cx.reply(&DescribeClientQuotasResponse::default()),
        Err((code, text)) => cx.reply(&DescribeClientQuotasResponse {
            error_code: code.code(),
            error_message: Some(text),
            entries: None,
            ..Default::default()
        }),
    }
}

fn check(components: &[ComponentData]) -> Result<(), Refusal> {
    let invalid = |text: String| Err((ErrorCode::INVALID_REQUEST, text));
    let mut seen = HashSet::new();
    for component in components {
        let kind = component.entity_type.as_str();
        if kind.is_empty() {
            return invalid("The entity type is empty.".to_owned());
        }
        if !seen.insert(kind) {
            return invalid(format!("The entity type {kind} stands in the filter more than once."));
        }
        if !matches!(kind, "ip" | "user" | "client-id") {
            return Err((ErrorCode::UNSUPPORTED_VERSION, format!("Unsupported entity type {kind}")));
        }
        match (component.match_type, &component.matched) {
            (EXACT, Some(_)) | (DEFAULT | SPECIFIED, None) => {}
            (EXACT, None) => return invalid("An exact match needs a name.".to_owned()),
            (DEFAULT | SPECIFIED, Some(_)) => return invalid("Only an exact match has a name.".to_owned()),
            (other, _) => return invalid(format!("Unknown match type {other}")),
        }
    }
    if seen.contains("ip") && seen.len() > 1 {
        return invalid("An ip cannot be combined with user or client-id.".to_owned());
    }
    Ok(())
}
