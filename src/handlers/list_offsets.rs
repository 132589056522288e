//! ListOffsets.
//!
//! Behavior: earliest (-2) looks whether retention moved the log's start; latest (-1) makes sure of the end first, at the
//! leader wherever other gateways are heard; a timestamp finds the exact record, inside its batch. Not found is offset -1 without an error.
//!
//! Version notes: -3, the newest record, from 7 (KIP-734); -4, the earliest local one, from 8 (KIP-405): all of the log
//! is local; -5, the last in remote storage, from 9 (KIP-1005): there is none. 10 brings a timeout. 11, with -6
//! (KIP-1023), is not served. A negative timestamp that its version does not know is UNSUPPORTED_VERSION, as in Kafka.

use crate::handlers::partitions::{self, Named};
use crate::handlers::{Context, Outcome};
use crate::limits::LIST_OFFSETS_MAX;
use crate::log::{LogError, TimeQuery};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopicResponse,
};
use crate::records::lookup::OffsetAndTimestamp;
use std::time::Instant;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;

pub fn handle(cx: &Context, request: ListOffsetsRequest) -> Outcome {
    let deadline = cx.now.mono + LIST_OFFSETS_MAX;
    let topics = request.topics.iter().map(|topic| {
        let named = Named::Name(&topic.name);
        let found = named.topic(cx);
        let rows = topic.partitions.iter().map(|asked| {
            let row = ListOffsetsPartitionResponse { partition_index: asked.partition_index, ..Default::default() };
            let looked =
                found.as_ref().map_err(|code| *code).and_then(|topic| look(cx, &named, topic, asked, deadline));
            match looked {
                Ok(Some(found)) => ListOffsetsPartitionResponse {
                    timestamp: found.timestamp,
                    offset: found.offset,
                    leader_epoch: 0,
                    ..row
                },
                Ok(None) => row,
                Err(code) => ListOffsetsPartitionResponse { error_code: code.code(), ..row },
            }
        });
        ListOffsetsTopicResponse { name: topic.name.clone(), partitions: rows.collect() }
    });
    let topics = topics.collect();
    cx.reply(&ListOffsetsResponse { throttle_time_ms: 0, topics })
}

fn look(
    cx: &Context,
    named: &Named,
    topic: &crate::catalog::Topic,
    asked: &ListOffsetsPartition,
    deadline: Instant,
) -> Result<Option<OffsetAndTimestamp>, ErrorCode> {
    if asked.timestamp < 0 && first_version(asked.timestamp).is_none_or(|first| cx.header.api_version < first) {
        return Err(ErrorCode::UNSUPPORTED_VERSION);
    }
    let log = partitions::log(cx, topic, asked.partition_index)?;
    partitions::check_epoch(asked.current_leader_epoch)?;
    let at = |offset| Ok(Some(OffsetAndTimestamp { offset, timestamp: -1 }));
    let found = match asked.timestamp {
        LATEST => log.latest_view(deadline).and_then(|view| at(view.high_watermark)),
        EARLIEST | EARLIEST_LOCAL => log.exact_start(deadline).and_then(|view| at(view.log_start)),
        MAX_TIMESTAMP => log.newest(deadline),
        LATEST_TIERED => Ok(None),
        timestamp => {
            let settings = &topic.settings;
            let ahead_ms_max = if settings.append_time { 0 } else { settings.timestamp_after_ms_max };
            log.first_since(TimeQuery { timestamp, ahead_ms_max }, deadline)
        }
    };
    found.map_err(|error: LogError| named.code(&error))
}

/// The first version that knows a negative timestamp.
fn first_version(timestamp: i64) -> Option<i16> {
    match timestamp {
        LATEST | EARLIEST => Some(1),
        MAX_TIMESTAMP => Some(7),
        EARLIEST_LOCAL => Some(8),
        LATEST_TIERED => Some(9),
        _ => None,
    }
}
