//! OffsetForLeaderEpoch (KIP-101, KIP-320).
//!
//! Behavior: the log has one epoch, 0, which ends at the high watermark. Any other is undefined: epoch -1, offset -1.

use crate::handlers::partitions::{self, Named};
use crate::handlers::{Context, Outcome};
use crate::limits::LIST_OFFSETS_MAX;
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
};

pub fn handle(cx: &Context, request: OffsetForLeaderEpochRequest) -> Outcome {
    let topics = request.topics.iter().map(|topic| {
        let named = Named::Name(&topic.topic);
        let found = named.topic(cx);
        let rows = topic.partitions.iter().map(|asked| {
            let row = EpochEndOffset { partition: asked.partition, ..Default::default() };
            match found.as_ref().map_err(|code| *code).and_then(|topic| end(cx, &named, topic, asked)) {
                Ok(Some(end_offset)) => EpochEndOffset { leader_epoch: 0, end_offset, ..row },
                Ok(None) => row,
                Err(code) => EpochEndOffset { error_code: code.code(), ..row },
            }
        });
        OffsetForLeaderTopicResult { topic: topic.topic.clone(), partitions: rows.collect() }
    });
    let topics = topics.collect();
    cx.reply(&OffsetForLeaderEpochResponse { throttle_time_ms: 0, topics })
}

fn end(
    cx: &Context,
    named: &Named,
    topic: &crate::catalog::Topic,
    asked: &OffsetForLeaderPartition,
) -> Result<Option<i64>, ErrorCode> {
    let log = partitions::log(cx, topic, asked.partition)?;
    partitions::check_epoch(asked.current_leader_epoch)?;
    if asked.leader_epoch != 0 {
        return Ok(None);
    }
    let view = log.exact_view(cx.now.mono + LIST_OFFSETS_MAX).map_err(|error| named.code(&error))?;
    Ok(Some(view.high_watermark))
}
