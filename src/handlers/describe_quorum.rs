//! DescribeQuorum: who keeps the metadata of the cluster.
//!
//! Behavior:
//! - JetStream keeps it, and has no KRaft log. What is told is the quorum that clients see otherwise: the brokers are the
//!   voters, the controller leads them, and the log is empty and quiet (offsets 0, nobody lags). No observers.
//! - Only partition 0 of `__cluster_metadata` can be asked for; anything else is UNKNOWN_TOPIC_OR_PARTITION.
//!
//! Version notes: 1 has times (KIP-836), 2 the voters' addresses (KIP-853); there are no directory ids.

use super::{Context, Outcome};
use crate::cluster::Broker;
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::describe_quorum::{
    DescribeQuorumRequest, DescribeQuorumResponse, Listener, Node, PartitionData, PartitionRequest, ReplicaState,
    TopicData, TopicRequest,
};

const METADATA_TOPIC: &str = "__cluster_metadata";
const LISTENER: &str = "PLAINTEXT";

pub fn handle(cx: &Context, request: DescribeQuorumRequest) -> Outcome {
    let is_metadata = match &request.topics[..] {
        [topic] => {
            topic.topic_name == METADATA_TOPIC && matches!(topic.partitions[..], [ref p] if p.partition_index == 0)
        }
        _ => false,
    };
    if !is_metadata {
        let topics = request.topics.into_iter().map(unknown).collect();
        return cx.reply(&DescribeQuorumResponse { topics, ..Default::default() });
    }
    let brokers = cx.services.cluster.brokers();
    let metadata = TopicData { topic_name: METADATA_TOPIC.to_owned(), partitions: vec![quorum(cx, &brokers)] };
    let nodes = brokers.iter().map(node).collect();
    cx.reply(&DescribeQuorumResponse { topics: vec![metadata], nodes, ..Default::default() })
}

fn quorum(cx: &Context, brokers: &[Broker]) -> PartitionData {
    let now_ms = cx.now.wall_ms;
    let voter = |broker: &Broker| ReplicaState {
        replica_id: broker.id,
        last_fetch_timestamp: now_ms,
        last_caught_up_timestamp: now_ms,
        ..Default::default()
    };
    PartitionData {
        leader_id: cx.services.cluster.controller_id(),
        current_voters: brokers.iter().map(voter).collect(),
        ..Default::default()
    }
}

fn node(broker: &Broker) -> Node {
    let listener = Listener { name: LISTENER.to_owned(), host: broker.host.clone(), port: broker.port };
    Node { node_id: broker.id, listeners: vec![listener] }
}

fn unknown(asked: TopicRequest) -> TopicData {
    let row = |partition: PartitionRequest| PartitionData {
        partition_index: partition.partition_index,
        error_code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code(),
        error_message: Some("This server does not host this topic-partition.".to_owned()),
        ..Default::default()
    };
    TopicData { topic_name: asked.topic_name, partitions: asked.partitions.into_iter().map(row).collect() }
}
