//! IncrementalAlterConfigs (KIP-339): changes single settings of a topic.
//!
//! Behavior: as AlterConfigs, but what is not named stays. SET, DELETE (back to the default), and for lists APPEND and
//! SUBTRACT. The one logger, `root`, is told by DescribeConfigs; its level comes from the command line and cannot be changed.
//!
//! Version notes: none change the meaning.

use super::alter_configs::{Refusal, alter_nothing, alter_topic, check_broker, check_keys, invalid, repeated, row};
use super::list_config_resources::{BROKER, BROKER_LOGGER, TOPIC};
use super::{Context, Outcome};
use crate::catalog::Alteration;
use crate::catalog::settings::Change;
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterConfigsResourceResponse, AlterableConfig, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
};

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

/// What reassignments set on brokers while they copy. Kafka's tools take it away again after each, whether it was set or
/// not; it never is here.
const THROTTLES: [&str; 3] = [
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
];

/// The one logger there is.
pub(super) const ROOT_LOGGER: &str = "root";

/// Kafka's names.
const LOG_LEVELS: [&str; 6] = ["DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN"];

pub fn handle(cx: &Context, request: IncrementalAlterConfigsRequest) -> Outcome {
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
    cx.reply(&IncrementalAlterConfigsResponse { responses: responses.collect(), ..Default::default() })
}

fn alter(cx: &Context, resource: &AlterConfigsResource, validate_only: bool) -> Result<(), Refusal> {
    let names: Vec<&str> = resource.configs.iter().map(|config| config.name.as_str()).collect();
    let nulls = resource.configs.iter().filter(|config| config.config_operation != DELETE && config.value.is_none());
    check_keys(&names, nulls.map(|config| config.name.as_str()).collect())?;
    let changes = resource.configs.iter().map(change).collect::<Result<Vec<_>, Refusal>>()?;
    match resource.resource_type {
        TOPIC => alter_topic(cx, &resource.resource_name, &Alteration::Each(changes), validate_only),
        BROKER_LOGGER => {
            if resource.resource_name.is_empty() {
                return invalid("Node id must be an integer, but it is: ");
            }
            check_broker(cx, &resource.resource_name)?;
            changes.iter().try_for_each(|(logger, change)| alter_logger(logger, change))
        }
        BROKER => {
            let is_change = |(name, change): &&(String, Change)| {
                !(matches!(change, Change::Delete) && THROTTLES.contains(&name.as_str()))
            };
            let changed: Vec<&str> = changes.iter().filter(is_change).map(|(name, _)| name.as_str()).collect();
            alter_nothing(cx, BROKER, &resource.resource_name, &changed)
        }
        other => alter_nothing(cx, other, &resource.resource_name, &names),
    }
}

fn change(config: &AlterableConfig) -> Result<(String, Change), Refusal> {
    let value = config.value.clone().unwrap_or_default();
    let change = match config.config_operation {
        SET => Change::Set(value),
        DELETE => Change::Delete,
        APPEND => Change::Append(value),
        SUBTRACT => Change::Subtract(value),
        other => return invalid(format!("Unknown operations type {other}")),
    };
    Ok((config.name.clone(), change))
}

fn alter_logger(logger: &str, change: &Change) -> Result<(), Refusal> {
    let wrong = |text: String| Err((ErrorCode::INVALID_CONFIG, text));
    match change {
        _ if logger != ROOT_LOGGER => wrong(format!("Logger {logger} does not exist!")),
        Change::Set(level) if !LOG_LEVELS.contains(&level.as_str()) => wrong(format!(
            "Cannot set the log level of {logger} to {level} as it is not a supported log level. Valid log levels are {}",
            LOG_LEVELS.join(", ")
        )),
        _ => invalid("The log level is set on the gateway's command line, with --log-level."),
    }
}
