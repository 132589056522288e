//! AlterReplicaLogDirs: there is one directory, and every partition is in it.
//!
//! Behavior: a partition may be sent where it is. Any other directory is LOG_DIR_NOT_FOUND, as in Kafka, whatever the
//! partition.

use super::describe_log_dirs::LOG_DIR;
use super::partitions::Named;
use super::{Context, Outcome};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::alter_replica_log_dirs::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopic, AlterReplicaLogDirTopicResult,
    AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse,
};

pub fn handle(cx: &Context, request: AlterReplicaLogDirsRequest) -> Outcome {
    let results = request.dirs.iter().flat_map(|dir| dir.topics.iter().map(|topic| place(cx, &dir.path, topic)));
    cx.reply(&AlterReplicaLogDirsResponse { results: results.collect(), ..Default::default() })
}

fn place(cx: &Context, path: &str, topic: &AlterReplicaLogDirTopic) -> AlterReplicaLogDirTopicResult {
    let count = match path {
        LOG_DIR => Named::Name(&topic.name).topic(cx).map(|found| found.partitions.len()),
        _ => Err(ErrorCode::LOG_DIR_NOT_FOUND),
    };
    let row = |index: &i32| {
        let code = match count {
            Ok(count) if usize::try_from(*index).is_ok_and(|index| index < count) => ErrorCode::NONE,
            Ok(_) => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            Err(code) => code,
        };
        AlterReplicaLogDirPartitionResult { partition_index: *index, error_code: code.code() }
    };
    let partitions = topic.partitions.iter().map(row).collect();
    AlterReplicaLogDirTopicResult { topic_name: topic.name.clone(), partitions }
}
