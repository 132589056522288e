//! Fetch.
//!
//! Behavior:
//! - Whole batches only; the first batch of the first partition that has one comes whatever its size.
//! - A partition that has more than fits counts towards min_bytes with all that it may bring: Kafka would cut a batch there.
//! - Below min_bytes the request is parked on its partitions until one grows or max_wait_ms is over; nothing is read from
//!   the store meanwhile. An error on any partition is answered at once.
//! - No sessions (KIP-227): every answer has session id 0, which tells clients to send full requests; an incremental
//!   request gets FETCH_SESSION_ID_NOT_FOUND.
//! - A store that does not answer is NOT_LEADER_OR_FOLLOWER where nothing is known of the log: clients look anew and ask again.
//! - Nothing is transactional yet: the last stable offset is the high watermark.
//!
//! Version notes: a topic whose compression.type is zstd needs 10 (KIP-110); what producers compressed themselves is served
//! to every version, as Kafka does. 12 asks for diverging epochs (KIP-595), which a single epoch 0 never has; 13
//! names topics by id (KIP-516).

use crate::clock::Now;
use crate::handlers::errors::for_fetch;
use crate::handlers::partitions::{self, Named};
use crate::handlers::{Context, Outcome, Parked};
use crate::limits::{FETCH_BYTES_MAX, FETCH_READ_MAX, FETCH_READ_MIN};
use crate::log::{LogError, PartitionLog, Read, View};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::fetch::{
    FetchPartition, FetchRequest, FetchResponse, FetchableTopicResponse, PartitionData,
};
use crate::wake::WatchKey;
use crate::wire::Uuid;
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ZSTD_FROM: i16 = 10;
const TOPIC_IDS_FROM: i16 = 13;
const READ_COMMITTED: i8 = 1;

pub fn handle(cx: &Context, request: FetchRequest) -> Outcome {
    // 0 begins a session, -1 asks for none: both name all their partitions.
    if request.session_epoch > 0 {
        let error_code = ErrorCode::FETCH_SESSION_ID_NOT_FOUND.code();
        return cx.reply(&FetchResponse { error_code, ..Default::default() });
    }
    let wait = Duration::from_millis(request.max_wait_ms.max(0).unsigned_abs().into());
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let by_id = cx.header.api_version >= TOPIC_IDS_FROM;
        let named = if by_id { Named::Id(topic.topic_id) } else { Named::Name(&topic.topic) };
        let found = named.topic(cx);
        let asked = topic.partitions.into_iter().map(|partition| {
            let log = found.as_ref().map_err(|code| *code).and_then(|topic| {
                let log = partitions::log(cx, topic, partition.partition)?;
                partitions::check_epoch(partition.current_leader_epoch)?;
                if topic.settings.is_zstd() && cx.header.api_version < ZSTD_FROM {
                    return Err(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE);
                }
                Ok(log)
            });
            Asked { partition, log }
        });
        let partitions = asked.collect();
        topics.push(AskedTopic { name: topic.topic, id: topic.topic_id, partitions });
    }
    let bytes_max = usize::try_from(request.max_bytes).unwrap_or(0).min(FETCH_BYTES_MAX);
    let fetching = Fetching {
        cx: cx.clone(),
        topics,
        // More than the answer may hold never comes.
        bytes_min: usize::try_from(request.min_bytes).unwrap_or(0).min(bytes_max),
        bytes_max,
        read_committed: request.isolation_level == READ_COMMITTED,
        read_max: wait.clamp(FETCH_READ_MIN, FETCH_READ_MAX),
        deadline: cx.now.mono + wait,
    };
    Outcome::Park(Box::new(fetching))
}

struct Fetching {
    cx: Context,
    topics: Vec<AskedTopic>,
    bytes_min: usize,
    bytes_max: usize,
    read_committed: bool,
    /// How long one round of reading may take.
    read_max: Duration,
    deadline: Instant,
}

struct AskedTopic {
    name: String,
    id: Uuid,
    partitions: Vec<Asked>,
}

struct Asked {
    partition: FetchPartition,
    log: Result<Arc<PartitionLog>, ErrorCode>,
}

impl Parked for Fetching {
    fn poll(&mut self, now: Now) -> Option<Outcome> {
        let mut round = Round { bytes: 0, counted: 0, failed: false, by: now.mono + self.read_max };
        let responses = self.topics.iter().map(|topic| FetchableTopicResponse {
            topic: topic.name.clone(),
            topic_id: topic.id,
            partitions: topic.partitions.iter().map(|asked| self.read(topic, asked, &mut round)).collect(),
        });
        let responses: Vec<_> = responses.collect();
        let enough = round.counted >= self.bytes_min || round.failed || responses.is_empty();
        (enough || now.mono >= self.deadline).then(|| self.cx.reply(&FetchResponse { responses, ..Default::default() }))
    }

    fn keys(&self) -> Vec<WatchKey> {
        let asked = self.topics.iter().flat_map(|topic| &topic.partitions);
        asked.filter_map(|asked| asked.log.as_ref().ok()).map(|log| log.watch_key()).collect()
    }

    fn deadline(&self) -> Instant {
        self.deadline
    }

    /// For producers.
    fn waits_for_others(&self) -> bool {
        true
    }

    fn waits_for(&self) -> String {
        let asked = self.topics.iter().flat_map(|topic| &topic.partitions);
        let logs = asked.filter_map(|asked| asked.log.as_ref().ok());
        format!("records of {}", partitions::for_people(logs))
    }
}

/// One pass over all partitions.
struct Round {
    bytes: usize,
    /// What counts towards min_bytes.
    counted: usize,
    failed: bool,
    by: Instant,
}

impl Fetching {
    fn read(&self, topic: &AskedTopic, asked: &Asked, round: &mut Round) -> PartitionData {
        let partition = &asked.partition;
        let mut row = PartitionData {
            partition_index: partition.partition,
            high_watermark: -1,
            aborted_transactions: self.read_committed.then(Vec::new),
            ..Default::default()
        };
        let named = if topic.id == Uuid::ZERO { Named::Name(&topic.name) } else { Named::Id(topic.id) };
        let outcome = match &asked.log {
            Ok(log) => self.read_log(log, partition, round).map_err(|error| (named.code(&error), error)),
            Err(code) => {
                round.failed = true;
                row.error_code = for_fetch(*code).code();
                return row;
            }
        };
        match outcome {
            Ok(read) => {
                tell_bounds(&mut row, read.view);
                row.records = Some(joined(read));
            }
            Err((_, LogError::Store(_))) if asked.log.as_ref().is_ok_and(|log| log.known_view().is_some()) => {
                // The store is slow or away: there may be data, but not yet. Clients ask again.
                let view = asked.log.as_ref().ok().and_then(|log| log.known_view()).unwrap_or_default();
                tell_bounds(&mut row, view);
            }
            Err((code, error)) => {
                round.failed = true;
                row.error_code = for_fetch(code).code();
                if let LogError::OutOfRange(view) = error {
                    tell_bounds(&mut row, view);
                }
            }
        }
        row
    }

    fn read_log(
        &self,
        log: &Arc<PartitionLog>,
        partition: &FetchPartition,
        round: &mut Round,
    ) -> Result<Read, LogError> {
        let wanted = usize::try_from(partition.partition_max_bytes).unwrap_or(0);
        let room = wanted.min(self.bytes_max.saturating_sub(round.bytes));
        // The first batch of all comes whatever its size.
        let oversized = round.bytes == 0;
        let read = log.read(partition.fetch_offset, room, oversized, round.by)?;
        round.bytes += read.bytes;
        round.counted += if read.is_cut { read.bytes.max(room) } else { read.bytes };
        Ok(read)
    }
}

/// Nothing is transactional: all below the watermark is stable.
fn tell_bounds(row: &mut PartitionData, view: View) {
    row.high_watermark = view.high_watermark;
    row.last_stable_offset = view.high_watermark;
    row.log_start_offset = view.log_start;
}

fn joined(read: Read) -> Bytes {
    match <[Bytes; 1]>::try_from(read.records) {
        Ok([only]) => only,
        Err(many) => {
            let mut joined = Vec::with_capacity(read.bytes);
            many.iter().for_each(|records| joined.extend_from_slice(records));
            joined.into()
        }
    }
}
