//! DeleteRecords: removes the records of a partition before an offset.
//!
//! Behavior:
//! - The log start moves to that offset, on every gateway and for good; -1 means the high watermark. An offset at or below
//!   the log start changes nothing, one above the high watermark is OFFSET_OUT_OF_RANGE.
//! - JetStream's messages are removed as far as all of their records lie before the log start.
//! - A topic whose `cleanup.policy` does not contain delete is refused with POLICY_VIOLATION, as in Kafka.
//!
//! Version notes: none change the meaning.

use super::partitions::{self, Named};
use super::{Context, Outcome};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::delete_records::{
    DeleteRecordsPartition, DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse,
    DeleteRecordsTopicResult,
};
use std::time::{Duration, Instant};

const TIMEOUT_MIN: Duration = Duration::from_secs(1);
const TIMEOUT_MAX: Duration = Duration::from_secs(60);

/// The high watermark, whatever it is.
const ALL: i64 = -1;

pub fn handle(cx: &Context, request: DeleteRecordsRequest) -> Outcome {
    let timeout = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let deadline = cx.now.mono + timeout.clamp(TIMEOUT_MIN, TIMEOUT_MAX);
    let topics = request.topics.iter().map(|topic| {
        let named = Named::Name(&topic.name);
        let found = named.topic(cx);
        let partitions = topic.partitions.iter().map(|asked| {
            let done = found.as_ref().map_err(|code| *code);
            let (low_watermark, code) = match done.and_then(|topic| delete(cx, &named, topic, asked, deadline)) {
                Ok(low_watermark) => (low_watermark, ErrorCode::NONE),
                Err(code) => (-1, code),
            };
            DeleteRecordsPartitionResult {
                partition_index: asked.partition_index,
                low_watermark,
                error_code: code.code(),
            }
        });
        DeleteRecordsTopicResult { name: topic.name.clone(), partitions: partitions.collect() }
    });
    cx.reply(&DeleteRecordsResponse { topics: topics.collect(), ..Default::default() })
}

fn delete(
    cx: &Context,
    named: &Named,
    topic: &crate::catalog::Topic,
    asked: &DeleteRecordsPartition,
    deadline: Instant,
) -> Result<i64, ErrorCode> {
    let log = partitions::log(cx, topic, asked.partition_index)?;
    if topic.settings.never_deleted {
        return Err(ErrorCode::POLICY_VIOLATION);
    }
    let before = match asked.offset {
        ALL => None,
        offset => Some(offset),
    };
    log.delete_before(before, deadline).map_err(|error| named.code(&error))
}
