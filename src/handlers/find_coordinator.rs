//! FindCoordinator: who takes care of a group.
//!
//! Behavior:
//! - This gateway takes care of every group.
//! - Transactional ids are refused for good until transactions are built; share groups are not served.
//!
//! Version notes: 1 adds the kind of key; from 4 on there are several keys, each with a row of its own (KIP-699).

use super::{Context, Outcome};
use crate::cluster::Broker;
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::find_coordinator::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

pub fn handle(cx: &Context, request: FindCoordinatorRequest) -> Outcome {
    let found = find(cx, request.key_type);
    if cx.header.api_version >= 4 {
        let coordinators = request.coordinator_keys.into_iter().map(|key| row(key, &found)).collect();
        return cx.reply(&FindCoordinatorResponse { coordinators, ..Default::default() });
    }
    let row = row(request.key, &found);
    cx.reply(&FindCoordinatorResponse {
        error_code: row.error_code,
        error_message: row.error_message,
        node_id: row.node_id,
        host: row.host,
        port: row.port,
        ..Default::default()
    })
}

fn find(cx: &Context, key_type: i8) -> Result<Broker, (ErrorCode, &'static str)> {
    match key_type {
        GROUP => cx
            .services
            .cluster
            .broker()
            .ok_or((ErrorCode::COORDINATOR_NOT_AVAILABLE, "The store has not been reached yet.")),
        TRANSACTION => {
            Err((ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Transactions are not available on this server."))
        }
        _ => Err((ErrorCode::INVALID_REQUEST, "This kind of coordinator is not available on this server.")),
    }
}

fn row(key: String, found: &Result<Broker, (ErrorCode, &'static str)>) -> Coordinator {
    match found {
        Ok(broker) => Coordinator {
            key,
            node_id: broker.id,
            host: broker.host.clone(),
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
            error_message: Some((*text).to_owned()),
        },
    }
}
