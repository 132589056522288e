//! The partition log over the store in memory, which shows what a healthy server does not.

mod chaos;
mod deleted;
mod faults;
mod foreign;
mod lost;
mod moves;
mod ordinary;
mod proof;
mod ticks;

use crate::catalog::{PartitionPlace, TOPIC_ID_KEY, Topic, TopicSettings};
use crate::clock::{Clock, ManualClock};
use crate::log::{Append, Appended, LogError, LogParts, Logs, PartitionLog};
use crate::promise::{Pending, promise};
use crate::records::batch::{BatchHeader, walk};
use crate::records::build::BatchBuilder;
use crate::store::memory::MemoryStore;
use crate::store::{Sequence, Store};
use crate::tasks::{Task, Tasks};
use crate::wake::Wakeups;
use crate::wire::Uuid;
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const STREAM: &str = "kafka-t-0";
const SUBJECT: &str = "kafka.t.0";

/// Tasks that run when the script says so.
#[derive(Default)]
struct ScriptTasks {
    waiting: Mutex<Vec<(Option<Instant>, Task)>>,
}

impl Tasks for ScriptTasks {
    fn spawn(&self, task: Task) {
        self.waiting.lock().expect("no holder panics").push((None, task));
    }

    fn spawn_at(&self, at: Instant, task: Task) {
        self.waiting.lock().expect("no holder panics").push((Some(at), task));
    }
}

/// One store, and what gateways on it share.
struct World {
    store: Arc<MemoryStore>,
    clock: Arc<ManualClock>,
    topic: Topic,
}

/// One gateway's logs.
struct Gateway {
    logs: Arc<Logs>,
    log: Arc<PartitionLog>,
    tasks: Arc<ScriptTasks>,
    wakeups: Arc<Wakeups>,
    clock: Arc<ManualClock>,
}

impl World {
    fn new() -> World {
        World::replicated(1)
    }

    fn replicated(replicas: u32) -> World {
        let store = Arc::new(MemoryStore::new());
        let place = PartitionPlace { stream: STREAM.to_owned(), subject: SUBJECT.to_owned(), replicas };
        let topic = Topic {
            id: Uuid::random(),
            name: "t".to_owned(),
            partitions: vec![place],
            settings: TopicSettings::default(),
        };
        let world = World { store, clock: Arc::new(ManualClock::new()), topic };
        world.create_stream();
        world
    }

    fn create_stream(&self) {
        let metadata = json!({ TOPIC_ID_KEY: self.topic.id.to_string() });
        let replicas = self.topic.partitions[0].replicas;
        let config = json!({ "name": STREAM, "subjects": [SUBJECT], "metadata": metadata, "num_replicas": replicas });
        self.store.stream_create(&config, Instant::now()).expect("created");
    }

    /// Starts a gateway's logs; dropping the old one is a kill -9.
    fn gateway(&self) -> Gateway {
        let tasks = Arc::new(ScriptTasks::default());
        let wakeups = Arc::new(Wakeups::new());
        let logs = Logs::new(LogParts {
            store: self.store.clone(),
            tasks: tasks.clone(),
            clock: self.clock.clone(),
            wakeups: wakeups.clone(),
            logger: slog::Logger::root(slog::Discard, slog::o!()),
            process: Uuid::random().to_string(),
            replicas: 1,
            // Tests run in one thread, where nobody gives back what another one waits for.
            tail_held_max: Duration::ZERO,
            on_missing: Box::new(|_| ()),
        });
        let log = logs.partition(&self.topic, 0).expect("there is one");
        Gateway { logs, log, tasks, wakeups, clock: self.clock.clone() }
    }

    fn messages(&self) -> u64 {
        self.store.stream_info(STREAM, Instant::now()).expect("there").state.messages
    }

    fn last(&self) -> Sequence {
        self.store.stream_info(STREAM, Instant::now()).expect("there").state.last
    }

    fn foreign(&self, payload: impl Into<bytes::Bytes>) {
        // Behind a proposed message it may not get an answer.
        let _ = self.store.publish_foreign(SUBJECT, payload);
    }
}

impl Gateway {
    fn deadline(&self) -> Instant {
        self.clock.now().mono + Duration::from_secs(30)
    }

    fn begin(&self, batch: Vec<u8>) -> Pending<Result<Appended, LogError>> {
        self.begin_at(&self.log, batch)
    }

    /// Appends to a log that may be another topic's.
    fn begin_at(&self, log: &Arc<PartitionLog>, batch: Vec<u8>) -> Pending<Result<Appended, LogError>> {
        let (promise, pending) = promise(&self.wakeups);
        let header = BatchHeader::parse(&batch).expect("a batch");
        log.append(Append { batch: batch.into(), header, deadline: self.deadline(), promise });
        pending
    }

    /// Appends and runs what that takes, time included.
    fn append(&self, batch: Vec<u8>) -> Result<i64, LogError> {
        let pending = self.begin(batch);
        self.settle(&pending).map(|appended| appended.base_offset)
    }

    fn settle(&self, pending: &Pending<Result<Appended, LogError>>) -> Result<Appended, LogError> {
        for _ in 0..2_000 {
            self.run();
            if let Some(result) = pending.take_one() {
                return result.expect("kept");
            }
            self.clock.advance(Duration::from_millis(20));
        }
        panic!("the append was never settled");
    }

    /// Runs all tasks that are due, and what they spawn.
    fn run(&self) {
        loop {
            let now = self.clock.now().mono;
            let due: Vec<_> = {
                let mut waiting = self.tasks.waiting.lock().expect("no holder panics");
                let (due, later) = waiting.drain(..).partition(|(at, _)| at.is_none_or(|at| at <= now));
                *waiting = later;
                due
            };
            if due.is_empty() {
                return;
            }
            due.into_iter().for_each(|(_, task)| task());
        }
    }

    fn sleep(&self, time: Duration) {
        for _ in 0..100 {
            self.clock.advance(time / 100);
            self.run();
        }
    }

    fn read(&self, offset: i64, bytes_max: usize) -> Result<Vec<(i64, i64)>, LogError> {
        let read = self.log.read(offset, bytes_max, true, self.deadline())?;
        let batches =
            read.records.iter().flat_map(|records| walk(records).flatten().map(|(h, _)| h).collect::<Vec<_>>());
        Ok(batches.map(|header| (header.base_offset, header.next_offset())).collect())
    }

    /// All batches from `offset` to the end, as a consumer reads them.
    fn consume(&self, mut offset: i64, bytes_max: usize) -> Vec<(i64, i64)> {
        let mut all = Vec::new();
        loop {
            let some = self.read(offset, bytes_max).expect("in range");
            let Some((_, next)) = some.last() else {
                return all;
            };
            offset = *next;
            all.extend(some);
        }
    }

    fn end(&self) -> i64 {
        self.log.exact_view(self.deadline()).expect("known").high_watermark
    }

    fn start(&self) -> i64 {
        self.log.exact_start(self.deadline()).expect("known").log_start
    }
}

fn batch(records: usize) -> Vec<u8> {
    sized(records, 10)
}

fn sized(records: usize, bytes: usize) -> Vec<u8> {
    (0..records).fold(BatchBuilder::new().timestamp(1_700_000_000_000), |b, _| b.value(vec![7; bytes])).build()
}

fn idempotent(producer: i64, sequence: i32, records: usize) -> Vec<u8> {
    (0..records).fold(BatchBuilder::new().producer(producer, 0, sequence), |b, _| b.value(b"v")).build()
}
