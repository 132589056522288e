//! Produce.
//!
//! Behavior:
//! - Each partition brings exactly one batch, checked before anything is stored; refusals are per partition.
//! - All partitions of a request go out together; the answer waits, parked, for the last commit or the timeout.
//! - acks 1 and -1 are the same: the ack comes after the store's. acks 0 is answered with silence, or, on an error, by
//!   closing the connection, as Kafka does.
//!
//! - A batch in another codec than the topic's `compression.type` is compressed anew; otherwise its bytes stay as they came.
//!
//! Version notes: 3 is the first with batches v2; 7 may carry zstd (KIP-110); 8 tells record errors (KIP-467); 13 names
//! topics by id (KIP-516). Transactional producers are refused with a fatal code.

use crate::catalog::names;
use crate::clock::Now;
use crate::handlers::partitions::{self, Named};
use crate::handlers::{Context, Outcome, Parked};
use crate::limits::{PRODUCE_WAIT_MIN, RECORD_ERRORS_MAX};
use crate::log::{Append, Appended, LogError, PartitionLog};
use crate::promise::{Pending, promises};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::produce::{
    BatchIndexAndErrorMessage, PartitionProduceData, PartitionProduceResponse, ProduceRequest, ProduceResponse,
    TopicProduceResponse,
};
use crate::records::batch::{BatchHeader, set_append_time, set_max_timestamp};
use crate::records::compression::Packing;
use crate::records::repack::{RepackFault, repack};
use crate::records::validate::{ProduceRules, Refusal, faulty_records, validate_produce};
use crate::wake::WatchKey;
use crate::wire::Uuid;
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The first version in which batches may be compressed with zstd.
const ZSTD_FROM: i16 = 7;
const TOPIC_IDS_FROM: i16 = 13;

pub fn handle(cx: &Context, request: ProduceRequest) -> Outcome {
    let wait = Duration::from_millis(request.timeout_ms.max(0).unsigned_abs().into()).max(PRODUCE_WAIT_MIN);
    let mut answer = ProduceResponse::default();
    let mut accepted = Vec::new();
    let mut nameable = RECORD_ERRORS_MAX;
    for topic in request.topic_data {
        let by_id = cx.header.api_version >= TOPIC_IDS_FROM;
        let named = if by_id { Named::Id(topic.topic_id) } else { Named::Name(&topic.name) };
        let refused = check_request(&request.transactional_id, request.acks);
        let found = refused.and_then(|()| named.topic(cx));
        let mut rows = Vec::with_capacity(topic.partition_data.len());
        for data in topic.partition_data {
            let mut row = PartitionProduceResponse { index: data.index, base_offset: -1, ..Default::default() };
            if found.is_err() {
                send_back(cx, &named, &data);
            }
            let found = found.as_ref().map_err(|code| Fault::code(*code));
            match found.and_then(|topic| check(cx, topic, &data, &mut nameable)) {
                Ok((log, batch, header)) => {
                    accepted.push(Accepted {
                        at: (answer.responses.len(), rows.len()),
                        log,
                        batch: Some((batch, header)),
                    });
                }
                Err(fault) => fault.fill(&mut row),
            }
            rows.push(row);
        }
        answer.responses.push(TopicProduceResponse {
            name: topic.name,
            topic_id: topic.topic_id,
            partition_responses: rows,
        });
    }
    let deadline = cx.now.mono + wait;
    let (promises, pending) = promises(&cx.services.wakeups, accepted.len());
    for (accepted, promise) in accepted.iter_mut().zip(promises) {
        if let Some((batch, header)) = accepted.batch.take() {
            accepted.log.append(Append { batch, header, deadline, promise });
        }
    }
    let waiting = Waiting { cx: cx.clone(), acks: request.acks, answer, accepted, pending, deadline };
    Outcome::Park(Box::new(waiting))
}

/// A batch whose topic cannot be found, maybe only now: what its producer has sent behind it must not be taken first.
fn send_back(cx: &Context, named: &Named, data: &PartitionProduceData) {
    let header = data.records.as_ref().and_then(|sent| BatchHeader::parse(sent).ok());
    if let Some(header) = header.filter(BatchHeader::has_producer) {
        let topic = match named {
            // It will never be there.
            Named::Name(name) if names::fault(name).is_some() => return,
            Named::Name(name) => (*name).to_owned(),
            Named::Id(id) => id.to_string(),
        };
        cx.services.logs.send_back(topic, data.index, &header);
    }
}

fn check_request(transactional_id: &Option<String>, acks: i16) -> Result<(), ErrorCode> {
    if !(-1..=1).contains(&acks) {
        return Err(ErrorCode::INVALID_REQUIRED_ACKS);
    }
    match transactional_id {
        Some(_) => Err(ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        None => Ok(()),
    }
}

type Checked = (Arc<PartitionLog>, Bytes, BatchHeader);

/// `nameable`: how many refused records the answer may still name.
fn check(
    cx: &Context,
    topic: &crate::catalog::Topic,
    data: &PartitionProduceData,
    nameable: &mut usize,
) -> Result<Checked, Fault> {
    let log = partitions::log(cx, topic, data.index).map_err(Fault::code)?;
    let settings = &topic.settings;
    let rules = ProduceRules {
        bytes_max: settings.max_message_bytes,
        append_time: settings.append_time,
        timestamp_before_ms_max: settings.timestamp_before_ms_max,
        timestamp_after_ms_max: settings.timestamp_after_ms_max,
        keys_required: settings.compacted,
        zstd_allowed: cx.header.api_version >= ZSTD_FROM,
    };
    let mut sent = data.records.clone().unwrap_or_default();
    let refused = |refusal: Refusal| match refusal {
        Refusal::NullKey { .. } | Refusal::Timestamp { .. } => {
            let faulty = faulty_records(&sent, &rules, cx.now.wall_ms, *nameable);
            *nameable -= faulty.len();
            Fault::refusal(refusal, &faulty)
        }
        other => Fault::refusal(other, &[]),
    };
    let mut header = validate_produce(&sent, &rules, cx.now.wall_ms).map_err(refused)?;
    if let Some(packing) = settings.packing.filter(|packing| header.compression() != Ok(packing.codec)) {
        sent = packed(&sent, &header, packing, rules.bytes_max).map_err(|refusal| Fault::refusal(refusal, &[]))?;
        header.total_bytes = sent.len();
        header.attributes = BatchHeader::parse(&sent).map_or(header.attributes, |packed| packed.attributes);
    }
    let told = BatchHeader::parse(&sent).map_or(header.max_timestamp, |told| told.max_timestamp);
    let batch = if settings.append_time {
        rewritten(&sent, &mut header, |batch| set_append_time(batch, cx.now.wall_ms))
    } else if told != header.max_timestamp {
        let max_timestamp = header.max_timestamp;
        rewritten(&sent, &mut header, |batch| set_max_timestamp(batch, max_timestamp))
    } else {
        sent
    };
    Ok((log, batch, header))
}

/// The batch in the codec that the topic asks for.
fn packed(sent: &Bytes, header: &BatchHeader, packing: Packing, bytes_max: usize) -> Result<Bytes, Refusal> {
    repack(sent, header, packing, bytes_max).map(Bytes::from).map_err(|fault| match fault {
        RepackFault::TooLarge { bytes_max } => Refusal::PacksTooLarge { bytes_max },
        // It was inflated a moment ago.
        RepackFault::Inflating(_) | RepackFault::Deflating(_) => Refusal::Unpackable,
    })
}

/// A changed copy of a batch, and its header.
fn rewritten(sent: &Bytes, header: &mut BatchHeader, change: impl FnOnce(&mut [u8])) -> Bytes {
    let mut copy = sent.to_vec();
    change(&mut copy);
    if let Ok(changed) = BatchHeader::parse(&copy) {
        *header = changed;
    }
    copy.into()
}

/// Why one partition's batch was not taken.
struct Fault {
    code: ErrorCode,
    message: Option<String>,
    /// The records at fault, where it is records, and what is wrong with each (KIP-467).
    records: Vec<BatchIndexAndErrorMessage>,
}

impl Fault {
    fn code(code: ErrorCode) -> Fault {
        Fault { code, message: None, records: Vec::new() }
    }

    /// `faulty` are the records that are refused for themselves, if it is that; a time that is refused decides the code, as in Kafka.
    fn refusal(refusal: Refusal, faulty: &[Refusal]) -> Fault {
        let told = faulty.iter().find(|one| matches!(one, Refusal::Timestamp { .. })).unwrap_or(&refusal);
        let all = if faulty.is_empty() { std::slice::from_ref(&refusal) } else { faulty };
        let row = |one: &Refusal| {
            let batch_index_error_message = Some(one.to_string());
            one.record_index().map(|batch_index| BatchIndexAndErrorMessage { batch_index, batch_index_error_message })
        };
        let message = match faulty.len() {
            0 | 1 => told.to_string(),
            count => format!("{count} records are refused. {told}"),
        };
        let records = all.iter().filter_map(row).collect();
        Fault { code: ErrorCode::from_code(told.code()), message: Some(message), records }
    }

    fn fill(self, row: &mut PartitionProduceResponse) {
        row.error_code = self.code.code();
        row.record_errors = self.records;
        row.error_message = self.message;
    }
}

/// A batch that was queued, and the row of the answer that waits for it.
struct Accepted {
    at: (usize, usize),
    log: Arc<PartitionLog>,
    batch: Option<(Bytes, BatchHeader)>,
}

struct Waiting {
    cx: Context,
    acks: i16,
    answer: ProduceResponse,
    accepted: Vec<Accepted>,
    pending: Pending<Result<Appended, LogError>>,
    deadline: Instant,
}

impl Parked for Waiting {
    fn poll(&mut self, now: Now) -> Option<Outcome> {
        if !self.pending.is_complete() && now.mono < self.deadline {
            return None;
        }
        let by_id = self.cx.header.api_version >= TOPIC_IDS_FROM;
        for (accepted, result) in self.accepted.iter().zip(self.pending.take()) {
            let (topic, row) = accepted.at;
            let Some(topic) = self.answer.responses.get_mut(topic) else { continue };
            let named = if by_id { Named::Id(Uuid::ZERO) } else { Named::Name("") };
            let Some(row) = topic.partition_responses.get_mut(row) else { continue };
            match result {
                Some(Ok(appended)) => {
                    row.base_offset = appended.base_offset;
                    row.log_append_time_ms = appended.append_time_ms;
                    row.log_start_offset = accepted.log.log_start();
                }
                Some(Err(error)) => row.error_code = named.code(&error).code(),
                None => row.error_code = ErrorCode::REQUEST_TIMED_OUT.code(),
            }
        }
        if self.acks == 0 {
            let mut rows = self.answer.responses.iter().flat_map(|topic| &topic.partition_responses);
            return Some(if rows.all(|row| row.error_code == 0) { Outcome::Silent } else { Outcome::Close });
        }
        Some(self.cx.reply(&self.answer))
    }

    fn keys(&self) -> Vec<WatchKey> {
        vec![self.pending.key()]
    }

    fn deadline(&self) -> Instant {
        self.deadline
    }

    fn waits_for(&self) -> String {
        format!("the store's ack for {}", partitions::for_people(self.accepted.iter().map(|accepted| &accepted.log)))
    }
}
