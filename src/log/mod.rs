//! The partition log: append, read, producer states, and the log end that never goes back.

pub mod append;
mod cache;
mod delete;
mod end;
mod ends;
mod index;
mod load;
mod mark;
mod partition;
mod producers;
mod proof;
mod queue;
mod read;
mod scan;
mod sent_back;
mod survey;
mod ticks;
mod time;
mod turn;
mod way;

#[cfg(test)]
mod tests;

pub use append::Append;
pub use cache::CacheFacts;
pub use partition::{PartitionLog, View};
pub use producers::ProducerSeen;
pub use read::Read;
pub use survey::{Bounds, Surveyed};
pub use time::TimeQuery;

use crate::catalog::Topic;
use crate::clock::Clock;
use crate::limits::SENT_BACK_PRODUCERS_MAX;
use crate::limits::{DOUBTED_APART, DOUBTED_AT_ONCE};
use crate::metrics::{Counter, Histogram};
use crate::protocol::error_code::ErrorCode;
use crate::records::batch::BatchHeader;
use crate::records::build::BatchBuilder;
use crate::store::{Publish, Sequence, Store, StoreError};
use crate::tasks::Tasks;
use crate::wake::Wakeups;
use crate::wire::Uuid;
use bytes::Bytes;
use cache::{Cache, PartitionKey};
use sent_back::SentBack;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use ticks::{News, Ticks};

/// Names who published a message: `<random per process>-<counter>`. Whether a message is ours is decided by this alone.
const WRITER_HEADER: &str = "Kafka-Writer";

/// NATS's default, assumed until the server has told its own.
const MAX_PAYLOAD_DEFAULT: usize = 1024 * 1024;

/// Where an appended batch stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Appended {
    pub base_offset: i64,
    /// The log append time, or -1 where records keep their own.
    pub append_time_ms: i64,
}

#[derive(Clone, Debug, PartialEq)]
pub enum LogError {
    /// The topic is deleted, or its stream is another topic's now.
    Gone,
    /// The offset is not in the log; here are its bounds.
    OutOfRange(View),
    /// Larger than one stored message can be.
    TooLarge,
    /// The batch itself is refused.
    Refused(ErrorCode),
    Store(StoreError),
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Gone => f.write_str("the topic is gone"),
            LogError::OutOfRange(view) => {
                write!(f, "the offset is outside of {}..{}", view.log_start, view.high_watermark)
            }
            LogError::TooLarge => f.write_str("the batch does not fit in one stored message"),
            LogError::Refused(code) => write!(f, "refused: {code:?}"),
            LogError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LogError {}

impl std::convert::From<StoreError> for LogError {
    fn from(error: StoreError) -> Self {
        LogError::Store(error)
    }
}

/// Counters of all logs together.
pub struct LogMetrics {
    /// Appends that found another writer's message in their place.
    pub conflicts: Counter,
    /// Publish attempts whose outcome had to be found out.
    pub undecided_slots: Counter,
    /// How many batches went into one stored message.
    pub commit_batches: Histogram,
    pub commit_bytes: Histogram,
}

impl Default for LogMetrics {
    fn default() -> Self {
        LogMetrics {
            conflicts: Counter::default(),
            undecided_slots: Counter::default(),
            commit_batches: Histogram::counts(),
            commit_bytes: Histogram::bytes(),
        }
    }
}

/// What all partition logs of a process share.
pub(crate) struct Shared {
    store: Arc<dyn Store>,
    tasks: Arc<dyn Tasks>,
    clock: Arc<dyn Clock>,
    wakeups: Arc<Wakeups>,
    logger: slog::Logger,
    cache: Cache,
    ticks: Arc<Ticks>,
    metrics: LogMetrics,
    process: String,
    replicas: u32,
    tail_held_max: Duration,
    writes: AtomicU64,
    /// Told the topic's name when its stream is found missing.
    on_missing: Box<dyn Fn(&str) + Send + Sync>,
}

/// A message to publish and the name it is recognised by.
#[derive(Clone)]
struct Outgoing {
    publish: Publish,
    writer: String,
}

impl Shared {
    fn now(&self) -> Instant {
        self.clock.now().mono
    }

    fn max_payload(&self) -> usize {
        match self.store.info().max_payload {
            0 => MAX_PAYLOAD_DEFAULT,
            bytes => bytes,
        }
    }

    fn message(&self, subject: &str, payload: Bytes, guard: Sequence) -> Outgoing {
        let writer = format!("{}-{}", self.process, self.writes.fetch_add(1, Ordering::Relaxed));
        let publish = Publish {
            subject: subject.to_owned(),
            headers: vec![(WRITER_HEADER.to_owned(), writer.clone())],
            payload,
            expected_last: Some(guard),
            expected_last_on_subject: None,
        };
        Outgoing { publish, writer }
    }

    fn stream_is_gone(&self, topic: &str) {
        (self.on_missing)(topic);
    }
}

/// An empty batch at `offset`: a chain that ends at `offset + 1` and holds no record.
fn marker(offset: i64) -> Vec<u8> {
    BatchBuilder::new().base_offset(offset).build()
}

/// The partition logs of this process.
pub struct Logs {
    shared: Arc<Shared>,
    /// Protects the registry; held only for look-ups.
    open: Mutex<HashMap<PartitionKey, Arc<PartitionLog>>>,
    /// What was sent back while a topic could not be found: by its name or id, and partition. A leaf.
    early: Mutex<HashMap<(String, i32), SentBack>>,
}

/// What the logs are built on.
pub struct LogParts {
    pub store: Arc<dyn Store>,
    pub tasks: Arc<dyn Tasks>,
    pub clock: Arc<dyn Clock>,
    pub wakeups: Arc<Wakeups>,
    pub logger: slog::Logger,
    /// Random per process: part of every writer header and tick.
    pub process: String,
    /// JetStream replicas of the bucket of log ends.
    pub replicas: u32,
    /// How long who needs a partition's tail waits for who has it.
    pub tail_held_max: Duration,
    pub on_missing: Box<dyn Fn(&str) + Send + Sync>,
}

impl Logs {
    pub fn new(parts: LogParts) -> Arc<Logs> {
        let LogParts { store, tasks, clock, wakeups, logger, process, replicas, tail_held_max, on_missing } = parts;
        let ticks = Ticks::new(store.clone(), tasks.clone(), clock.clone(), process.clone());
        let shared = Arc::new(Shared {
            store,
            tasks,
            clock,
            wakeups,
            logger,
            cache: Cache::default(),
            ticks,
            metrics: LogMetrics::default(),
            process,
            replicas,
            tail_held_max,
            writes: AtomicU64::new(0),
            on_missing,
        });
        let logs = Arc::new(Logs { shared, open: Mutex::default(), early: Mutex::default() });
        let (heard, doubted) = (Arc::downgrade(&logs), Arc::downgrade(&logs));
        let on_news = move |key, news| {
            let Some(log) = heard.upgrade().and_then(|logs| logs.get(key)) else { return };
            match news {
                News::Stored { next_offset, sequence, log_start } => {
                    match log_start {
                        Some(log_start) => log.start_moved(log_start),
                        None => log.check_against(next_offset, sequence),
                    }
                    log.hint(sequence);
                    log.take_way_back();
                }
                News::Wanted => log.give_way(),
            }
        };
        let on_doubt = move || {
            if let Some(logs) = doubted.upgrade() {
                logs.look_again();
            }
        };
        logs.shared.ticks.start(Box::new(on_news), Box::new(on_doubt));
        logs
    }

    /// Lets whoever waits on a partition look at its end once more, a portion at a time: each look is a question to the
    /// store.
    fn look_again(&self) {
        let shared = &self.shared;
        let mut awaited: Vec<_> = self.open.lock().expect("no holder panics").values().cloned().collect();
        awaited.retain(|log| shared.wakeups.is_awaited(&log.watch_key()));
        let now = shared.now();
        for (portion, wait) in awaited.chunks(DOUBTED_AT_ONCE).zip(0..) {
            let portion = portion.to_vec();
            let notify = move || portion.iter().for_each(|log| log.notify());
            shared.tasks.spawn_at(now + DOUBTED_APART * wait, Box::new(notify));
        }
    }

    fn get(&self, key: PartitionKey) -> Option<Arc<PartitionLog>> {
        self.open.lock().expect("no holder panics").get(&key).cloned()
    }

    /// The log of a topic's partition; `None` if the topic has no such partition.
    pub fn partition(&self, topic: &Topic, index: i32) -> Option<Arc<PartitionLog>> {
        let place = topic.partitions.get(usize::try_from(index).ok()?)?;
        let key = (topic.id, index);
        let fresh = || Arc::new(PartitionLog::new(self.shared.clone(), topic.name.clone(), key, place.clone()));
        let mut log = self.open.lock().expect("no holder panics").entry(key).or_insert_with(fresh).clone();
        if log.is_gone() {
            // Its stream was missing, and the topic is there all the same: then it was so for a while only.
            let mut open = self.open.lock().expect("no holder panics");
            if open.get(&key).is_none_or(|present| Arc::ptr_eq(present, &log)) {
                open.insert(key, fresh());
            }
            log = open.get(&key).expect("just put there").clone();
        }
        let mut early = self.early.lock().expect("no holder panics");
        if !early.is_empty() {
            let names = [topic.name.clone(), topic.id.to_string()];
            let sent_back: Vec<SentBack> = names.into_iter().filter_map(|name| early.remove(&(name, index))).collect();
            drop(early);
            sent_back.into_iter().for_each(|sent_back| log.lock().sent_back.merge(sent_back));
        }
        Some(log)
    }

    /// A producer was told to send a batch again, because its topic (named by name or id) could not be found.
    pub fn send_back(&self, topic: String, index: i32, header: &BatchHeader) {
        let mut early = self.early.lock().expect("no holder panics");
        if early.len() >= SENT_BACK_PRODUCERS_MAX {
            early.clear();
        }
        early.entry((topic, index)).or_default().note_one(header);
    }

    /// Ends the logs of a deleted topic: who waits on them is answered.
    pub fn forget(&self, topic_id: Uuid) {
        let ended: Vec<_> = {
            let mut open = self.open.lock().expect("no holder panics");
            let keys: Vec<_> = open.keys().filter(|(id, _)| *id == topic_id).copied().collect();
            keys.iter().filter_map(|key| open.remove(key)).collect()
        };
        ended.iter().for_each(|log| log.end());
    }

    /// Removes the end entries of a deleted topic. Entries that remain (the store did not answer) do no harm: the id is
    /// never used again.
    pub fn forget_ends(&self, topic: &Topic, deadline: Instant) {
        for index in 0..topic.partitions.len() {
            let index = i32::try_from(index).expect("partition counts are i32");
            let _ = end::remove(&*self.shared.store, &end::key(topic.id, index), deadline);
        }
    }

    /// The catalog's slow poll saw this stream's last sequence: how foreign publishers are found.
    pub fn observe(&self, topic_id: Uuid, index: i32, last: Sequence) {
        if let Some(log) = self.get((topic_id, index)) {
            log.hint(last);
        }
    }

    /// Writes the exact end of every partition that has one to write, until the deadline; for a graceful stop. An end that
    /// is not written costs the next load some reading, nothing else.
    pub fn write_ends(&self, deadline: Instant) {
        let logs: Vec<_> = self.open.lock().expect("no holder panics").values().cloned().collect();
        for log in logs.iter().filter(|log| log.end_is_behind()) {
            if self.shared.now() >= deadline {
                return;
            }
            log.write_end_by(false, deadline);
        }
    }

    pub fn metrics(&self) -> &LogMetrics {
        &self.shared.metrics
    }

    pub fn cache_facts(&self) -> CacheFacts {
        self.shared.cache.facts()
    }
}
