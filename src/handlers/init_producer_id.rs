//! InitProducerId: ids for idempotent producers.
//!
//! Behavior:
//! - Without a transactional id every request gets a fresh id with epoch 0, whatever id it names, as in Kafka.
//! - A transactional id is refused with a code that producers take as final, until transactions are built.

use super::errors::for_coordinator;
use super::{Context, Outcome};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};

pub fn handle(cx: &Context, request: InitProducerIdRequest) -> Outcome {
    let refuse = |code: ErrorCode| {
        let error_code = code.code();
        cx.reply(&InitProducerIdResponse { error_code, producer_id: -1, producer_epoch: -1, ..Default::default() })
    };
    match request.transactional_id.as_deref() {
        Some("") => return refuse(ErrorCode::INVALID_REQUEST),
        Some(_) => return refuse(ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        None => {}
    }
    // Half a name of a producer is a mistake (KIP-360).
    if (request.producer_id == -1) != (request.producer_epoch == -1) {
        return refuse(ErrorCode::INVALID_REQUEST);
    }
    match cx.services.cluster.next_producer_id() {
        Ok(producer_id) => cx.reply(&InitProducerIdResponse { producer_id, producer_epoch: 0, ..Default::default() }),
        // Idempotent producers have no coordinator to look for: this is the code that makes them ask again, as
        // Kafka's brokers answer while they have no block of ids.
        Err(error) => match for_coordinator(&error) {
            ErrorCode::UNKNOWN_SERVER_ERROR => refuse(ErrorCode::UNKNOWN_SERVER_ERROR),
            _ => refuse(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS),
        },
    }
}
