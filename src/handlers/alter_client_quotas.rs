//! AlterClientQuotas: quotas cannot be set.
//!
//! Behavior:
//! - A request is checked as Kafka checks it. One that only takes quotas away succeeds: there are none afterwards.
//! - A quota that would be set is refused with POLICY_VIOLATION, also in a dry run: clients would rely on a limit that
//!   nobody enforces.

use super::{Context, Outcome};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::alter_client_quotas::{
    AlterClientQuotasRequest, AlterClientQuotasResponse, EntityData, EntryData, EntryResult, OpData,
};
use std::collections::HashSet;
use std::net::IpAddr;

/// Keys of users and clients.
const CLIENT_KEYS: &[&str] =
    &["producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"];
const IP_KEYS: &[&str] = &["connection_creation_rate"];
/// Those of all keys that are no whole numbers.
const FRACTIONS: &[&str] = &["request_percentage", "controller_mutation_rate"];

type Refusal = (ErrorCode, String);

pub fn handle(cx: &Context, request: AlterClientQuotasRequest) -> Outcome {
    let row = |entry: EntryData| {
        let (code, error_message) = match check(&entry) {
            Ok(()) => (ErrorCode::NONE, None),
            Err((code, text)) => (code, Some(text)),
        };
        EntryResult { error_code: code.code(), error_message, entity: entry.entity }
    };
    let entries = request.entries.into_iter().map(row).collect();
    cx.reply(&AlterClientQuotasResponse { entries, ..Default::default() })
}

fn check(entry: &EntryData) -> Result<(), Refusal> {
    let keys = check_entity(&entry.entity)?;
    let mut seen = HashSet::new();
    for op in &entry.ops {
        if !seen.insert(&op.key) {
            return invalid(format!("The quota key {} is given more than once.", op.key));
        }
        if !op.remove {
            check_quota(op, keys)?;
        }
    }
    match entry.ops.iter().any(|op| !op.remove) {
        true => Err((ErrorCode::POLICY_VIOLATION, "Quotas are not enforced here, so none can be set.".to_owned())),
        false => Ok(()),
    }
}

/// Gives the keys that this kind of entity may have.
fn check_entity(entity: &[EntityData]) -> Result<&'static [&'static str], Refusal> {
    let mut kinds = HashSet::new();
    for part in entity {
        let kind = part.entity_type.as_str();
        if !matches!(kind, "ip" | "user" | "client-id") {
            return invalid(format!("Unhandled client quota entity type: {kind}"));
        }
        if !kinds.insert(kind) {
            return invalid(format!("The entity type {kind} is given more than once."));
        }
        match part.entity_name.as_deref() {
            Some("") => return invalid(format!("An empty {kind} is not supported.")),
            Some(name) if kind == "ip" && name.parse::<IpAddr>().is_err() => {
                return invalid(format!("{name} is not a valid IP."));
            }
            _ => {}
        }
    }
    match (kinds.contains("ip"), kinds.len()) {
        (_, 0) => invalid("The client quota entity is empty.".to_owned()),
        (true, 1) => Ok(IP_KEYS),
        (true, _) => invalid("An ip cannot be combined with user or client-id.".to_owned()),
        (false, _) => Ok(CLIENT_KEYS),
    }
}

fn check_quota(op: &OpData, keys: &[&str]) -> Result<(), Refusal> {
    let key = op.key.as_str();
    if !keys.contains(&key) {
        return invalid(format!("Invalid configuration key {key}"));
    }
    if op.value <= 0.0 {
        return invalid(format!("Quota {key} must be greater than 0"));
    }
    if !FRACTIONS.contains(&key) && op.value.fract() > 1e-6 {
        return invalid(format!("{key} cannot be a fractional value."));
    }
    Ok(())
}

fn invalid<T>(text: String) -> Result<T, Refusal> {
    Err((ErrorCode::INVALID_REQUEST, text))
}
