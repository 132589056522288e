//! UnregisterBroker.
//!
//! Behavior: a gateway is a broker for as long as it runs. One that is gone is not registered any more, which is
//! BROKER_ID_NOT_REGISTERED; one that runs cannot be taken out by others, which Kafka would let them: POLICY_VIOLATION.

use super::{Context, Outcome};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::unregister_broker::{UnregisterBrokerRequest, UnregisterBrokerResponse};

pub fn handle(cx: &Context, request: UnregisterBrokerRequest) -> Outcome {
    let id = request.broker_id;
    let (code, text) = match cx.services.cluster.brokers().iter().any(|broker| broker.id == id) {
        true => (ErrorCode::POLICY_VIOLATION, format!("Broker {id} is running; it is unregistered when it stops.")),
        false => (ErrorCode::BROKER_ID_NOT_REGISTERED, format!("Broker ID {id} is not currently registered")),
    };
    let (error_code, error_message) = (code.code(), Some(text));
    cx.reply(&UnregisterBrokerResponse { error_code, error_message, ..Default::default() })
}
