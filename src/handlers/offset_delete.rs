//! OffsetDelete: removes some of a group's commits (KIP-496).
//!
//! Behavior: topics that a live consumer subscribes to keep theirs; topics and partitions that are not there are refused, each
//! by itself. One row for each partition of a topic, however often it is named.

use super::errors::for_coordinator;
use super::owned::OfGroup;
use super::{Context, Outcome, once};
use crate::group::Groups;
use crate::limits::STORE_CALL_MAX;
use crate::offsets::TopicPartition;
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};

impl OfGroup for OffsetDeleteRequest {
    fn group_id(&self) -> &str {
        &self.group_id
    }

    fn refused(self, cx: &Context, code: ErrorCode) -> Outcome {
        cx.reply(&OffsetDeleteResponse { error_code: code.code(), ..Default::default() })
    }
}

pub fn handle(cx: &Context, request: OffsetDeleteRequest) -> Outcome {
    let refuse = |code: ErrorCode| cx.reply(&OffsetDeleteResponse { error_code: code.code(), ..Default::default() });
    if let Err(error) = Groups::check_id(&request.group_id, false) {
        return refuse(error);
    }
    let mut answer = OffsetDeleteResponse::default();
    let mut places = Vec::new();
    let mut asked = Vec::new();
    for topic in request.topics {
        let found = match cx.topic(&topic.name) {
            Ok(found) => found,
            Err(error) => return refuse(for_coordinator(&error)),
        };
        let partition_count = found.map_or(0, |topic| topic.partitions.len());
        let mut rows = Vec::with_capacity(topic.partitions.len());
        for partition in once(topic.partitions, |partition| partition.partition_index) {
            let partition_index = partition.partition_index;
            let exists = usize::try_from(partition_index).is_ok_and(|index| index < partition_count);
            let error_code = if exists { ErrorCode::NONE } else { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION };
            if exists {
                places.push((answer.topics.len(), rows.len()));
                asked.push(TopicPartition::new(&topic.name, partition_index));
            }
            rows.push(OffsetDeleteResponsePartition { partition_index, error_code: error_code.code() });
        }
        answer.topics.push(OffsetDeleteResponseTopic { name: topic.name, partitions: rows });
    }
    let deadline = cx.now.mono + STORE_CALL_MAX;
    let codes = match cx.services.groups.delete_offsets(&request.group_id, &asked, deadline) {
        Ok(Ok(codes)) => codes,
        Ok(Err(code)) => return refuse(code),
        Err(error) => return refuse(for_coordinator(&error)),
    };
    for ((topic, row), code) in places.into_iter().zip(codes) {
        if let Some(row) = answer.topics.get_mut(topic).and_then(|topic| topic.partitions.get_mut(row)) {
            row.error_code = code.code();
        }
    }
    cx.reply(&answer)
}
