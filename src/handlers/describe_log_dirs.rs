//! DescribeLogDirs: what each partition takes.
//!
//! Behavior:
//! - There is one log directory, JetStream, and every partition is in it; a broker tells those that it leads. Sizes are those of the streams, JetStream's own
//!   bytes for each message included.
//! - Total and usable bytes are those of the JetStream account if it has a limit, and unknown (-1) otherwise.
//! - A partition that is asked for and not there is left out, as in Kafka. No partition is ever on its way to another
//!   directory.
//! - Without the store the directory has KAFKA_STORAGE_ERROR, as one that is offline.
//!
//! Version notes: 3 has an error for the whole answer, 4 the size of the volume (KIP-827).

use super::{Context, Outcome, partitions};
use crate::catalog::Topic;
use crate::limits::STORE_CALL_MAX;
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::describe_log_dirs::{
    DescribableLogDirTopic, DescribeLogDirsPartition, DescribeLogDirsRequest, DescribeLogDirsResponse,
    DescribeLogDirsResult, DescribeLogDirsTopic,
};
use crate::store::StoreResult;
use std::collections::{HashMap, HashSet};

/// A path, as tools expect one.
pub(super) const LOG_DIR: &str = "/jetstream";

/// Every partition's stream has one subject below this.
const SUBJECTS: &str = "kafka.>";

pub fn handle(cx: &Context, request: DescribeLogDirsRequest) -> Outcome {
    let result = describe(cx, request.topics.as_deref()).unwrap_or_else(|_| DescribeLogDirsResult {
        error_code: ErrorCode::KAFKA_STORAGE_ERROR.code(),
        log_dir: LOG_DIR.to_owned(),
        ..Default::default()
    });
    cx.reply(&DescribeLogDirsResponse { results: vec![result], ..Default::default() })
}

fn describe(cx: &Context, asked: Option<&[DescribableLogDirTopic]>) -> StoreResult<DescribeLogDirsResult> {
    let deadline = cx.now.mono + STORE_CALL_MAX;
    let volume = cx.services.store.storage(deadline)?;
    let listed = cx.services.store.stream_list(SUBJECTS, deadline)?;
    let sizes: HashMap<&str, u64> = listed.streams.iter().map(|info| (info.name.as_str(), info.state.bytes)).collect();
    let topics = cx.services.catalog.topics()?;
    let wanted: Option<HashSet<(&str, i32)>> = asked.map(|topics| {
        topics.iter().flat_map(|t| t.partitions.iter().map(|index| (t.topic.as_str(), *index))).collect()
    });
    // Tools ask every broker and add up.
    let broker = cx.services.cluster.broker().map_or(-1, |broker| broker.id);
    let is_wanted = |name: &str, index| wanted.as_ref().is_none_or(|wanted| wanted.contains(&(name, index)));
    let row = |topic: &Topic| {
        let places = (0..).zip(&topic.partitions).filter(|(index, _)| is_wanted(&topic.name, *index));
        let ours = places.filter(|(index, _)| partitions::leader(cx, topic, *index) == broker);
        let rows = ours.filter_map(|(index, place)| Some(partition(index, *sizes.get(place.stream.as_str())?)));
        DescribeLogDirsTopic { name: topic.name.clone(), partitions: rows.collect() }
    };
    Ok(DescribeLogDirsResult {
        error_code: ErrorCode::NONE.code(),
        log_dir: LOG_DIR.to_owned(),
        topics: topics.iter().map(|topic| row(topic)).filter(|topic| !topic.partitions.is_empty()).collect(),
        total_bytes: volume.limit.map_or(-1, bytes),
        usable_bytes: volume.limit.map_or(-1, |limit| bytes(limit.saturating_sub(volume.used))),
    })
}

fn partition(partition_index: i32, size: u64) -> DescribeLogDirsPartition {
    DescribeLogDirsPartition { partition_index, partition_size: bytes(size), ..Default::default() }
}

fn bytes(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
