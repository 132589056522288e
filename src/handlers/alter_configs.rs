//! AlterConfigs: replaces all settings of a topic.
//!
//! Behavior:
//! - What the request does not name goes back to its default. A topic's settings change together or not at all, and
//!   hold for all gateways when the answer comes.
//! - `retention.ms` and `retention.bytes` reach the streams of all partitions. If JetStream has no room for what would have
//!   to be set aside, the code is POLICY_VIOLATION and nothing is changed.
//! - A broker's settings come from its command line: none can be changed here, which is refused as Kafka refuses what is
//!   read-only. Groups and client metrics have no settings, so that every name is unknown.
//! - One row for each resource, in the order of the request; one that is there twice is refused in both rows.
//!
//! Version notes: none change the meaning. Loggers are not for this API; see IncrementalAlterConfigs.

use super::errors::alter_topic_error;
use super::list_config_resources::{BROKER, CLIENT_METRICS, GROUP, TOPIC};
use super::{Context, Outcome};
use crate::catalog::{Alteration, names};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::alter_configs::{
    AlterConfigsRequest, AlterConfigsResource, AlterConfigsResourceResponse, AlterConfigsResponse,
};
use std::collections::HashSet;
use std::hash::Hash;
use std::time::Duration;

/// How long a change may take, below the clients' request timeout of 30 s: the request brings none of its own.
const CHANGE_MAX: Duration = Duration::from_secs(20);

pub(super) type Refusal = (ErrorCode, String);

pub fn handle(cx: &Context, request: AlterConfigsRequest) -> Outcome {
    let twice = repeated(request.resources.iter().map(|resource| (resource.resource_type, &resource.resource_name)));
    let responses = request.resources.iter().map(|resource| {
        let outcome = match twice.contains(&(resource.resource_type, &resource.resource_name)) {
            true => invalid("Each resource must appear at most once."),
            false => alter(cx, resource, request.validate_only),
        };
        let (code, message) = row(outcome);
        AlterConfigsResourceResponse {
            error_code: code,
            error_message: message,
            resource_type: resource.resource_type,
            resource_name: resource.resource_name.clone(),
        }
    });
    cx.reply(&AlterConfigsResponse { responses: responses.collect(), ..Default::default() })
}

fn alter(cx: &Context, resource: &AlterConfigsResource, validate_only: bool) -> Result<(), Refusal> {
    let names: Vec<&str> = resource.configs.iter().map(|config| config.name.as_str()).collect();
    let nulls = resource.configs.iter().filter(|config| config.value.is_none()).map(|config| config.name.as_str());
    check_keys(&names, nulls.collect())?;
    match resource.resource_type {
        TOPIC => {
            let pairs = resource.configs.iter().filter_map(|config| Some((config.name.clone(), config.value.clone()?)));
            alter_topic(cx, &resource.resource_name, &Alteration::All(pairs.collect()), validate_only)
        }
        other => alter_nothing(cx, other, &resource.resource_name, &names),
    }
}

/// Refuses keys that are there twice, and values that are missing.
pub(super) fn check_keys(names: &[&str], nulls: Vec<&str>) -> Result<(), Refusal> {
    if !repeated(names.iter()).is_empty() {
        return invalid("Error due to duplicate config keys");
    }
    if !nulls.is_empty() {
        return invalid(format!("Null value not supported for : {}", nulls.join(", ")));
    }
    Ok(())
}

pub(super) fn alter_topic(
    cx: &Context,
    name: &str,
    alteration: &Alteration,
    validate_only: bool,
) -> Result<(), Refusal> {
    if name.is_empty() {
        return invalid("Default topic resources are not allowed.");
    }
    if let Some(fault) = names::fault(name) {
        return Err((ErrorCode::INVALID_TOPIC_EXCEPTION, fault));
    }
    let (catalog, deadline) = (&cx.services.catalog, cx.now.mono + CHANGE_MAX);
    if cx.services.clock.now().mono >= deadline {
        return Err((ErrorCode::REQUEST_TIMED_OUT, "The changes before this one took all the time.".to_owned()));
    }
    let outcome = match validate_only {
        true => catalog.validate_alteration(name, alteration),
        false => catalog.alter(name, alteration, deadline),
    };
    outcome.map_err(|error| alter_topic_error(&error))
}

/// What has no settings that could be changed: fine as long as none is named.
pub(super) fn alter_nothing(cx: &Context, resource_type: i8, name: &str, keys: &[&str]) -> Result<(), Refusal> {
    match resource_type {
        BROKER => {
            check_broker(cx, name)?;
            if keys.is_empty() {
                return Ok(());
            }
            invalid(format!(
                "Cannot update these configs dynamically: [{}]. They are set on the gateway's command line.",
                keys.join(", ")
            ))
        }
        GROUP if name.is_empty() => invalid("Default group resources are not allowed."),
        GROUP => match keys.first() {
            Some(key) => Err((ErrorCode::INVALID_CONFIG, format!("Unknown group config name: {key}"))),
            None => Ok(()),
        },
        CLIENT_METRICS if name.is_empty() => invalid("Default client metrics resources are not allowed."),
        CLIENT_METRICS => match keys.first() {
            Some(key) => invalid(format!("Unknown client metrics configuration: {key}")),
            None => Ok(()),
        },
        other => invalid(format!("Unknown resource type {other}")),
    }
}

/// The empty name stands for all brokers; any other must be this one.
pub(super) fn check_broker(cx: &Context, name: &str) -> Result<(), Refusal> {
    let own = cx.services.cluster.broker().map(|broker| broker.id);
    match (name.parse::<i32>(), own) {
        _ if name.is_empty() => Ok(()),
        (Ok(id), Some(own)) if id == own => Ok(()),
        (Ok(_), Some(own)) => invalid(format!("Unexpected broker id, expected {own}, but received {name}")),
        (Ok(_), None) => invalid(format!("Unexpected broker id {name}: this broker has none yet")),
        (Err(_), _) => invalid(format!("Node id must be an integer, but it is: {name}")),
    }
}

pub(super) fn invalid<T>(text: impl Into<String>) -> Result<T, Refusal> {
    Err((ErrorCode::INVALID_REQUEST, text.into()))
}

/// What is there more than once.
pub(super) fn repeated<T: Hash + Eq + Copy>(items: impl Iterator<Item = T>) -> HashSet<T> {
    let mut once = HashSet::new();
    items.filter(|item| !once.insert(*item)).collect()
}

pub(super) fn row(outcome: Result<(), Refusal>) -> (i16, Option<String>) {
    match outcome {
        Ok(()) => (ErrorCode::NONE.code(), None),
        Err((code, text)) => (code.code(), Some(text)),
    }
}
