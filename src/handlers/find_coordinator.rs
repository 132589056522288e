//! FindCoordinator: who takes care of a group.
//!
//! Behavior:
//! - Named is the broker of the gateway that owns the group; where nobody does, of the one that should take it. Any other
//!   gateway serves the group as well, by passing requests on, so where the owner cannot be found out this one is named.
//! - Transactional ids are refused for good until transactions are built; share groups are not served.
//!
//! Version notes: 1 adds the kind of key; from 4 on there are several keys, each with a row of its own (KIP-699).

use super::{Context, Outcome, Services};
use crate::cluster::Broker;
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::find_coordinator::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

const KEYS_FROM: i16 = 4;

/// Whether all of it is known without a look at the store.
pub(super) fn is_in_memory(services: &Services, version: i16, request: &FindCoordinatorRequest) -> bool {
    let known = |key: &String| services.groups.coordinator_known(key).is_some();
    match version {
        _ if request.key_type != GROUP => true,
        KEYS_FROM.. => request.coordinator_keys.iter().all(known),
        _ => known(&request.key),
    }
}

pub fn handle(cx: &Context, request: FindCoordinatorRequest) -> Outcome {
    if cx.header.api_version >= KEYS_FROM {
        let keys = request.coordinator_keys.into_iter();
        let coordinators = keys.map(|key| row(find(cx, request.key_type, &key), key)).collect();
        return cx.reply(&FindCoordinatorResponse { coordinators, ..Default::default() });
    }
    let row = row(find(cx, request.key_type, &request.key), request.key);
    cx.reply(&FindCoordinatorResponse {
        error_code: row.error_code,
        error_message: row.error_message,
        node_id: row.node_id,
        host: row.host,
        port: row.port,
        ..Default::default()
    })
}

fn find(cx: &Context, key_type: i8, key: &str) -> Result<Broker, (ErrorCode, &'static str)> {
    match key_type {
        GROUP => {
            let (cluster, groups) = (&cx.services.cluster, &cx.services.groups);
            let late = || (ErrorCode::COORDINATOR_NOT_AVAILABLE, "It was too much to be found out at once.");
            let owner =
                if cx.is_late() { groups.coordinator_known(key).ok_or_else(late)? } else { groups.coordinator(key) };
            let named = owner.and_then(|process| cluster.broker_of(&process));
            let found = named.or_else(|| cluster.broker());
            found.ok_or((ErrorCode::COORDINATOR_NOT_AVAILABLE, "JetStream cannot be reached yet."))
        }
        TRANSACTION => {
            Err((ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Transactions are not available on this server."))
        }
        _ => Err((ErrorCode::INVALID_REQUEST, "This kind of coordinator is not available on this server.")),
    }
}

fn row(found: Result<Broker, (ErrorCode, &'static str)>, key: String) -> Coordinator {
    match found {
        Ok(broker) => Coordinator {
            key,
            node_id: broker.id,
            host: broker.host,
            port: i32::from(broker.port),
            error_code: ErrorCode::NONE.code(),
            error_message: None,
        },
        Err((code, text)) => Coordinator {
            key,
            node_id: -1,
            host: String::new(),
            port: -1,
            error_code: code.code(),
            error_message: Some(text.to_owned()),
        },
    }
}
