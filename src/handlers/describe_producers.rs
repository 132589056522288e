//! DescribeProducers: the idempotent producers that a partition remembers (KIP-664).
//!
//! Behavior:
//! - All that `PartitionLog` remembers are told, in the order of their ids. A cold log is loaded first.
//! - A partition has one row, however often it is named.
//! - Times of batches are not remembered under CreateTime: the last timestamp is then -1, unknown. There are no
//!   transactions, so no coordinator epoch and no start of one.

use super::partitions::{self, Named};
use super::{Context, NamedPartitions, Outcome};
use crate::catalog::{Topic, names};
use crate::limits::STORE_CALL_MAX;
use crate::log::ProducerSeen;
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::describe_producers::{
    DescribeProducersRequest, DescribeProducersResponse, PartitionResponse, ProducerState, TopicRequest, TopicResponse,
};

const NO_COORDINATOR_EPOCH: i32 = -1;

pub fn handle(cx: &Context, request: DescribeProducersRequest) -> Outcome {
    let mut seen = NamedPartitions::default();
    let topics = request.topics.into_iter().map(|mut asked| {
        seen.leave_out(&asked.name, &mut asked.partition_indexes);
        describe(cx, asked)
    });
    let topics = topics.collect();
    cx.reply(&DescribeProducersResponse { topics, ..Default::default() })
}

fn describe(cx: &Context, asked: TopicRequest) -> TopicResponse {
    let topic = match names::fault(&asked.name) {
        Some(_) => Err(ErrorCode::INVALID_TOPIC_EXCEPTION),
        None => Named::Name(&asked.name).topic(cx),
    };
    let row = |index: &i32| {
        let found = topic.as_deref().map_err(|code| *code).and_then(|topic| producers(cx, topic, *index));
        let (code, active_producers) = match found {
            Ok(producers) => (ErrorCode::NONE, producers),
            Err(code) => (code, Vec::new()),
        };
        PartitionResponse { partition_index: *index, error_code: code.code(), active_producers, ..Default::default() }
    };
    let partitions = asked.partition_indexes.iter().map(row).collect();
    TopicResponse { name: asked.name, partitions }
}

fn producers(cx: &Context, topic: &Topic, index: i32) -> Result<Vec<ProducerState>, ErrorCode> {
    let log = partitions::log(cx, topic, index)?;
    let seen = log.producers(cx.now.mono + STORE_CALL_MAX);
    let seen = seen.map_err(|error| Named::Name(&topic.name).code(&error))?;
    let row = |producer: ProducerSeen| ProducerState {
        producer_id: producer.id,
        producer_epoch: i32::from(producer.epoch),
        last_sequence: producer.last_sequence,
        last_timestamp: producer.append_time_ms,
        coordinator_epoch: NO_COORDINATOR_EPOCH,
        ..Default::default()
    };
    Ok(seen.into_iter().map(row).collect())
}
