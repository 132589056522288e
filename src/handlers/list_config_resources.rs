//! ListConfigResources: what has settings.
//!
//! Behavior: brokers and their loggers, and all topics. Client metrics and groups are listed where they were given
//! settings, which they cannot be here. A type that is not known is UNSUPPORTED_VERSION.
//!
//! Version notes: 0 lists client metrics only (KIP-714), 1 the types asked for, none meaning all (KIP-1142).

use super::errors::for_admin;
use super::{Context, Outcome};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::list_config_resources::{
    ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse,
};

/// Types of what has settings, in all requests about them.
pub(super) const TOPIC: i8 = 2;
pub(super) const BROKER: i8 = 4;
pub(super) const BROKER_LOGGER: i8 = 8;
pub(super) const CLIENT_METRICS: i8 = 16;
pub(super) const GROUP: i8 = 32;

pub fn handle(cx: &Context, request: ListConfigResourcesRequest) -> Outcome {
    let supported: &[i8] = if cx.header.api_version == 0 {
        &[CLIENT_METRICS]
    } else {
        &[TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP]
    };
    let refuse =
        |code: ErrorCode| cx.reply(&ListConfigResourcesResponse { error_code: code.code(), ..Default::default() });
    if request.resource_types.iter().any(|asked| !supported.contains(asked)) {
        return refuse(ErrorCode::UNSUPPORTED_VERSION);
    }
    let is_asked = |kind: i8| match &request.resource_types[..] {
        [] => supported.contains(&kind),
        asked => asked.contains(&kind),
    };
    let mut found = Vec::new();
    let mut add =
        |resource_type: i8, resource_name: String| found.push(ConfigResource { resource_name, resource_type });
    for kind in [BROKER_LOGGER, BROKER] {
        if is_asked(kind) {
            cx.services.cluster.brokers().iter().for_each(|broker| add(kind, broker.id.to_string()));
        }
    }
    if is_asked(TOPIC) {
        match cx.services.catalog.topics() {
            Ok(topics) => topics.iter().for_each(|topic| add(TOPIC, topic.name.clone())),
            Err(error) => return refuse(for_admin(&error)),
        }
    }
    cx.reply(&ListConfigResourcesResponse { config_resources: found, ..Default::default() })
}
