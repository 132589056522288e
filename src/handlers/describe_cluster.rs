//! DescribeCluster.
//!
//! Behavior:
//! - Told are the live gateways' brokers, never fenced: who loses its lease is not told any more.
//! - Without the store the cluster id is not known, and there is no null for it: a retriable error.
//!
//! Version notes: 1 asks for brokers or controllers (KIP-919); only brokers are there to be asked.

use super::authorized::CLUSTER_OPERATIONS;
use super::errors::for_admin;
use super::{Context, Outcome};
use crate::cluster::Broker;
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::describe_cluster::{
    DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse,
};

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

pub fn handle(cx: &Context, request: DescribeClusterRequest) -> Outcome {
    let refuse = |code: ErrorCode, text: String| {
        let endpoint_type = request.endpoint_type;
        cx.reply(&DescribeClusterResponse {
            error_code: code.code(),
            error_message: Some(text),
            endpoint_type,
            ..Default::default()
        })
    };
    match request.endpoint_type {
        BROKERS => {}
        CONTROLLERS => {
            let text = "The request was sent to an endpoint of type BROKER, but wanted CONTROLLER".to_owned();
            return refuse(ErrorCode::MISMATCHED_ENDPOINT_TYPE, text);
        }
        other => return refuse(ErrorCode::UNSUPPORTED_ENDPOINT_TYPE, format!("Unsupported endpoint type {other}")),
    }
    let cluster = &cx.services.cluster;
    let cluster_id = match cluster.id() {
        Ok(id) => id.to_owned(),
        Err(error) => return refuse(for_admin(&error), error.to_string()),
    };
    let broker = |broker: &Broker| DescribeClusterBroker {
        broker_id: broker.id,
        host: broker.host.clone(),
        port: i32::from(broker.port),
        ..Default::default()
    };
    let operations = if request.include_cluster_authorized_operations { CLUSTER_OPERATIONS } else { i32::MIN };
    cx.reply(&DescribeClusterResponse {
        cluster_id,
        controller_id: cluster.controller_id(),
        brokers: cluster.brokers().iter().map(broker).collect(),
        cluster_authorized_operations: operations,
        ..Default::default()
    })
}
