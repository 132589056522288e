//! Topics, their ids and settings, as they stand in JetStream.
//!
//! A topic is its streams, one a partition; nothing else says that it exists. The catalog keeps what it last saw in
//! memory and learns of changes in three ways: JetStream's advisories, a slow poll, and a look at the store before an
//! unknown topic is refused.

mod alter;
mod bounds;
mod change;
mod claim;
mod flight;
mod grow;
mod look;
mod memory;
pub mod names;
mod room;
pub mod settings;
mod streams;

pub use alter::{AlterTopicError, Alteration};
pub use change::{CreateTopicError, DeleteTopicError, NewTopic};
pub use memory::Loss;
pub use streams::PARTITIONS_MAX;

use crate::clock::Clock;
use crate::config::{Config, Limit};
use crate::records::compression::{Compression, Packing};
use crate::store::{Sequence, ServerInfo, Store, StoreError, StoreResult};
use crate::tasks::{Repeated, Tasks};
use crate::wire::Uuid;
use bounds::Neglected;
use flight::Flights;
use look::{add_silent, by_stem};
use memory::{Advice, Found, Memory};
use slog::{Logger, debug, warn};
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, RwLock};
use std::time::Duration;
use streams::{Known, Parts, Standing};

/// The metadata key of a stream's topic id.
pub const TOPIC_ID_KEY: &str = "kafka.topic.id";

/// A topic as last seen in the store. Immutable; a change gives a new one.
#[derive(Clone, Debug, PartialEq)]
pub struct Topic {
    pub id: Uuid,
    pub name: String,
    /// By partition index, dense from 0.
    pub partitions: Vec<PartitionPlace>,
    pub settings: TopicSettings,
}

/// Where a partition's messages are.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionPlace {
    pub stream: String,
    pub subject: String,
    pub replicas: u32,
}

/// The settings that the log and the fetch path act on, resolved with defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicSettings {
    /// Those given for this topic, by Kafka's name, as text.
    pub given: BTreeMap<String, String>,
    /// Bytes of one batch as the client sent it.
    pub max_message_bytes: usize,
    /// LogAppendTime instead of CreateTime.
    pub append_time: bool,
    pub timestamp_before_ms_max: i64,
    pub timestamp_after_ms_max: i64,
    /// `cleanup.policy` contains compact: keys must not be null.
    pub compacted: bool,
    /// `cleanup.policy` does not contain delete: nothing goes by itself, nor when a client asks.
    pub never_deleted: bool,
    /// What batches in another codec are compressed to (`compression.type`).
    pub packing: Option<Packing>,
    /// How long records are kept, in milliseconds since they were stored; -1: for ever.
    pub retention_ms: i64,
    /// What a partition may hold, in bytes; -1: no limit.
    pub retention_bytes: i64,
}

impl TopicSettings {
    /// Whether the topic's `compression.type` asks for zstd, which clients before KIP-110 cannot read.
    pub fn is_zstd(&self) -> bool {
        self.packing.is_some_and(|packing| packing.codec == Compression::Zstd)
    }
}

impl Default for TopicSettings {
    fn default() -> Self {
        TopicSettings {
            given: BTreeMap::new(),
            max_message_bytes: 1_048_588,
            append_time: false,
            timestamp_before_ms_max: i64::MAX,
            timestamp_after_ms_max: 3_600_000,
            compacted: false,
            never_deleted: false,
            packing: None,
            retention_ms: -1,
            retention_bytes: -1,
        }
    }
}

/// What holds for topics that say nothing else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CatalogDefaults {
    /// JetStream replicas of new streams.
    pub replicas: u32,
    /// -1: no limit.
    pub retention_ms: i64,
    /// Of a partition; -1: no limit.
    pub retention_bytes: i64,
    /// Of topics that are created without a count.
    pub partitions: usize,
    /// The largest batch that the server's max_payload can carry beside our headers.
    pub carried_bytes_max: usize,
}

impl Default for CatalogDefaults {
    fn default() -> Self {
        CatalogDefaults {
            replicas: 1,
            retention_ms: 604_800_000,
            retention_bytes: -1,
            partitions: 1,
            carried_bytes_max: usize::MAX,
        }
    }
}

impl CatalogDefaults {
    pub fn of(config: &Config) -> Self {
        let limit = |limit: Limit| match limit {
            Limit::At(value) => value,
            Limit::None => -1,
        };
        CatalogDefaults {
            replicas: config.replicas,
            retention_ms: limit(config.retention),
            retention_bytes: limit(config.retention_bytes),
            partitions: usize::try_from(config.default_partitions).unwrap_or(1).max(1),
            carried_bytes_max: usize::MAX,
        }
    }

    /// The default of `max.message.bytes`: Kafka's, or less where the server carries less.
    pub fn message_bytes_max(&self) -> usize {
        self.carried_bytes_max.min(1_048_588)
    }

    fn carried_by(mut self, server: &ServerInfo) -> Self {
        if server.max_payload > 0 {
            self.carried_bytes_max = server.max_payload.saturating_sub(HEADER_BYTES_MAX);
        }
        self
    }
}

/// One partition's stream as the slow poll saw it.
#[derive(Clone, Debug)]
pub struct Sighting {
    pub topic: Arc<Topic>,
    pub partition: i32,
    /// The stream's creation time: tells incarnations apart.
    pub created: String,
    pub last: Sequence,
}

/// What our own headers take of a message's max_payload, generously.
const HEADER_BYTES_MAX: usize = 512;

/// How often the store is listed: foreign writers and lost advisories are noticed after this long.
const POLL_EVERY: Duration = Duration::from_secs(5);

/// How long "there is no such topic" is believed: many clients ask for one missing topic many times a second.
const ABSENCE_TRUSTED_FOR: Duration = Duration::from_secs(1);

/// How long the store is left in peace after it could not be asked, where memory can answer.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How long one look at the store may take.
const LOOK_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a listing may take: where streams do not answer, a cluster waits four seconds for them, and once more for further
/// pages.
const LISTING_TIMEOUT: Duration = Duration::from_secs(10);

/// How many topics that a listing does not show are asked for in vain before the others wait for the next listing: each
/// may cost the whole `LOOK_TIMEOUT`.
const FAILED_LOOKS_MAX: usize = 3;

type LossListener = Box<dyn Fn(&Arc<Topic>, Loss) + Send + Sync>;
type RefreshListener = Box<dyn Fn(&[Sighting]) + Send + Sync>;

pub struct Catalog {
    store: Arc<dyn Store>,
    defaults: CatalogDefaults,
    clock: Arc<dyn Clock>,
    logger: Logger,
    /// What was seen. Never held across a store call, nor while listeners run.
    memory: Mutex<Memory>,
    looks: Flights<String, Option<Arc<Topic>>>,
    listings: Flights<(), ()>,
    /// Names whose streams this process is making or removing, one change of a name at a time.
    changing: Mutex<HashSet<String>>,
    changed: Condvar,
    /// Ids of topics whose creation failed here and whose streams could not all be removed.
    failed: Mutex<HashSet<Uuid>>,
    loss_listeners: RwLock<Vec<LossListener>>,
    refresh_listeners: RwLock<Vec<RefreshListener>>,
    /// Advisories arrive, so absence may be believed for a while.
    subscribed: AtomicBool,
    /// Topics whose streams lack limits.
    neglected: Mutex<Neglected>,
}

impl Catalog {
    pub fn new(
        store: Arc<dyn Store>,
        defaults: CatalogDefaults,
        clock: Arc<dyn Clock>,
        logger: Logger,
    ) -> Arc<Catalog> {
        Arc::new(Catalog {
            store,
            defaults,
            clock,
            logger,
            memory: Mutex::new(Memory::default()),
            looks: Flights::new(),
            listings: Flights::new(),
            changing: Mutex::new(HashSet::new()),
            changed: Condvar::new(),
            failed: Mutex::new(HashSet::new()),
            loss_listeners: RwLock::new(Vec::new()),
            refresh_listeners: RwLock::new(Vec::new()),
            subscribed: AtomicBool::new(false),
            neglected: Mutex::default(),
        })
    }

    /// Subscribes to JetStream's advisories and begins the slow poll. Called once.
    pub fn start(self: &Arc<Self>, tasks: Arc<dyn Tasks>) {
        let catalog = Arc::downgrade(self);
        let subscription = self.store.core_subscribe(
            "$JS.EVENT.ADVISORY.STREAM.*.>",
            Box::new(move |subject, _| {
                if let Some(catalog) = catalog.upgrade() {
                    catalog.advise(subject);
                }
            }),
        );
        match subscription {
            Ok(()) => self.subscribed.store(true, Ordering::Release),
            Err(error) => warn!(self.logger, "no advisories; topic changes are seen late"; "error" => %error),
        }
        let round = |catalog: &Arc<Catalog>| {
            catalog.poll();
            POLL_EVERY
        };
        let (of, clock) = (Arc::downgrade(self), self.clock.clone());
        Repeated { of, tasks, clock, round }.after(Duration::ZERO);
    }

    /// What holds for topics that say nothing else, with the server's present max_payload.
    pub fn defaults(&self) -> CatalogDefaults {
        self.defaults.carried_by(&self.store.info())
    }

    /// Runs when a topic is not served any more. It must not block for long.
    pub fn on_loss(&self, listener: LossListener) {
        self.loss_listeners.write().expect("no holder panics").push(listener);
    }

    /// Runs after each slow poll with all partitions seen.
    pub fn on_refresh(&self, listener: RefreshListener) {
        self.refresh_listeners.write().expect("no holder panics").push(listener);
    }

    /// The topic of that name: from memory, or after a look at the store. What is known is served also while the store
    /// cannot be reached.
    pub fn topic(&self, name: &str) -> StoreResult<Option<Arc<Topic>>> {
        let now = self.clock.now().mono;
        let doubted = {
            let memory = self.memory.lock().expect("no holder panics");
            match memory.topics.get(name) {
                Some(entry) if !entry.needs_look(now) => return Ok(Some(entry.known.topic.clone())),
                Some(entry) => Some(entry.known.topic.clone()),
                None if self.may_trust_absence() && memory.is_absent(name, now) => return Ok(None),
                None if names::fault(name).is_some() => return Ok(None),
                // Its partition 0 does not answer: a look would only wait for it.
                None if memory.silent.contains(name) => return Err(StoreError::Unavailable),
                None => None,
            }
        };
        match (self.look_shared(name), doubted) {
            (Ok(topic), _) => Ok(topic),
            (Err(_), Some(topic)) => Ok(Some(topic)),
            (Err(error), None) => Err(error),
        }
    }

    /// As `topic`, but from memory alone; `Busy` where memory cannot tell.
    pub fn remembered(&self, name: &str) -> StoreResult<Option<Arc<Topic>>> {
        let memory = self.memory.lock().expect("no holder panics");
        match memory.topics.get(name) {
            Some(entry) => Ok(Some(entry.known.topic.clone())),
            None if names::fault(name).is_some() => Ok(None),
            None if self.may_trust_absence() && memory.is_absent(name, self.clock.now().mono) => Ok(None),
            None => Err(StoreError::Busy),
        }
    }

    /// The topic of that name as memory has it, never asking the store.
    pub fn known(&self, name: &str) -> Option<Arc<Topic>> {
        let memory = self.memory.lock().expect("no holder panics");
        memory.topics.get(name).filter(|entry| entry.doubted.is_none()).map(|entry| entry.known.topic.clone())
    }

    /// The topic with that id: from memory, or after a listing of the store.
    pub fn topic_by_id(&self, id: &Uuid) -> StoreResult<Option<Arc<Topic>>> {
        if let Some(topic) = self.memory.lock().expect("no holder panics").by_id(id, self.clock.now().mono) {
            return Ok(Some(topic));
        }
        let named = || self.memory.lock().expect("no holder panics").name_of(id);
        let name = match named() {
            Some(name) => Some(name),
            None => {
                self.list_if_older_than(ABSENCE_TRUSTED_FOR)?;
                named()
            }
        };
        match name {
            Some(name) => Ok(self.topic(&name)?.filter(|topic| topic.id == *id)),
            None => Ok(None),
        }
    }

    /// All topics, by name: from memory once the store has been listed, which the slow poll repeats.
    pub fn topics(&self) -> StoreResult<Vec<Arc<Topic>>> {
        let listed = self.list_if_older_than(3 * POLL_EVERY);
        let memory = self.memory.lock().expect("no holder panics");
        if memory.listed.is_none() {
            listed?;
        }
        let mut topics: Vec<_> = memory.topics.values().map(|entry| entry.known.topic.clone()).collect();
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(topics)
    }

    /// Names of topics that are there, by the last listing, but of which nothing is known: their servers are away.
    pub fn silent_topics(&self) -> Vec<String> {
        let memory = self.memory.lock().expect("no holder panics");
        memory.silent.iter().filter(|name| !memory.topics.contains_key(*name)).cloned().collect()
    }

    /// Makes the next request for this topic look at the store: its stream is gone, or is another incarnation.
    pub fn invalidate(&self, name: &str) {
        let mut memory = self.memory.lock().expect("no holder panics");
        let moment = memory.tick();
        if let Some(entry) = memory.topics.get_mut(name) {
            entry.doubted = Some(moment);
        }
    }

    /// Lists the store and takes in what changed. What a listing merely does not show is asked for before it counts as
    /// gone: a cluster leaves out streams without a leader.
    pub fn refresh(&self) -> StoreResult<()> {
        self.listings.share(&(), LISTING_TIMEOUT, || self.list()).outcome
    }

    /// Whether an advisory would have told of a topic created meanwhile.
    fn may_trust_absence(&self) -> bool {
        self.subscribed.load(Ordering::Acquire) && self.store.info().connected
    }

    fn list_if_older_than(&self, age: Duration) -> StoreResult<()> {
        for _ in 0..2 {
            let now = self.clock.now().mono;
            {
                let memory = self.memory.lock().expect("no holder panics");
                let fresh = memory.listed.is_some_and(|at| now.duration_since(at) < age) && !memory.listing_stale;
                let failed = memory.listed.is_some()
                    && memory.listing_failed.is_some_and(|at| now.duration_since(at) < RETRY_AFTER);
                if fresh || failed {
                    return Ok(());
                }
            }
            let shared = self.listings.share(&(), LISTING_TIMEOUT, || self.list());
            shared.outcome?;
            if shared.ours {
                break;
            }
        }
        Ok(())
    }

    fn poll(&self) {
        if let Err(error) = self.refresh() {
            debug!(self.logger, "the store could not be listed"; "error" => %error);
        }
        self.look_after_limits();
    }

    /// Takes in `$JS.EVENT.ADVISORY.STREAM.<what>.<stream>`. Runs on a reader thread.
    fn advise(&self, subject: &str) {
        let Some((what, stream)) =
            subject.strip_prefix("$JS.EVENT.ADVISORY.STREAM.").and_then(|rest| rest.split_once('.'))
        else {
            return;
        };
        let Some((stem, _)) = names::parse_stream(stream) else {
            return;
        };
        let advice = match what {
            "CREATED" => Advice::Created,
            "UPDATED" => Advice::Updated,
            "DELETED" => Advice::Deleted,
            _ => return,
        };
        self.memory.lock().expect("no holder panics").advise(stem, advice, self.clock.now().mono);
    }

    fn list(&self) -> StoreResult<()> {
        let now = self.clock.now();
        let (began, before): (u64, HashSet<String>) = {
            let mut memory = self.memory.lock().expect("no holder panics");
            memory.listing_stale = false;
            (memory.tick(), memory.topics.keys().cloned().collect())
        };
        let listed = self.store.stream_list(names::ALL_SUBJECTS, now.mono + LISTING_TIMEOUT);
        let listing = listed.inspect_err(|_| {
            let mut memory = self.memory.lock().expect("no holder panics");
            memory.listing_stale = true;
            memory.listing_failed = Some(self.clock.now().mono);
        })?;
        let mut by_name: BTreeMap<String, Parts> = BTreeMap::new();
        for found in listing.streams.iter().filter_map(streams::read) {
            by_name.entry(found.topic.clone()).or_default().insert(found.partition, found);
        }
        let silent = by_stem(&listing.silent);
        by_name.values_mut().for_each(|parts| add_silent(parts, &silent));
        let (mut whole, mut assembled) = (HashSet::new(), Vec::new());
        let names: Vec<String> = by_name.keys().cloned().collect();
        for (name, parts) in by_name {
            if let Standing::Whole(known) = self.assemble(&parts) {
                self.adopt(&known, &parts);
                whole.insert(name.clone());
                assembled.push((parts, known.topic.clone()));
                self.take_in(&name, Found::Whole(known), began);
            }
        }
        let partly = names.iter().filter(|name| !before.contains(*name));
        let mut failures = 0;
        let unclear = |name: &&String| !whole.contains(*name) && !silent.contains_key(names::stem(name).as_str());
        let unclear: Vec<&String> = before.iter().chain(partly).filter(unclear).collect();
        if !unclear.is_empty() {
            self.wait_for_the_store_to_learn();
        }
        for name in unclear {
            if let Err(error) = self.look(name) {
                debug!(self.logger, "a topic could not be looked at"; "topic" => name, "error" => %error);
                failures += 1;
                if failures >= FAILED_LOOKS_MAX {
                    break;
                }
            }
        }
        let sightings = {
            let mut memory = self.memory.lock().expect("no holder panics");
            memory.listed = Some(now.mono);
            memory.silent = silent.keys().filter_map(|stem| names::of_stem(stem)).collect();
            memory.forget_absent(now.mono, 2 * POLL_EVERY);
            memory.sightings(&whole)
        };
        for listener in self.refresh_listeners.read().expect("no holder panics").iter() {
            listener(&sightings);
        }
        self.note_limits(&assembled);
        Ok(())
    }

    /// Writes the metadata that a topic of an older gateway lacks. Another gateway would write the same; what fails is
    /// tried again at the next poll, and until then the derived id serves.
    fn adopt(&self, known: &Known, parts: &Parts) {
        let now = self.clock.now();
        if !known.legacy || known.streams.iter().any(|(created, _)| streams::is_young(created, now.wall_ms)) {
            return;
        }
        // Partition 0 last: it alone says how many partitions there are.
        let topic = &known.topic;
        let Ok(mut claim) = self.try_claim(&topic.name, now.mono + LOOK_TIMEOUT) else { return };
        for part in parts.range(..topic.partitions.len()).rev().map(|(_, part)| part).filter(|part| part.id.is_none()) {
            let written = self.part(&topic.name, None, part.partition, &mut claim).and_then(|found| match found.id {
                None => self.update(&found.adopted(topic), &mut claim),
                Some(_) => Ok(()),
            });
            if let Err(error) = written {
                debug!(self.logger, "no metadata written"; "stream" => &part.stream, "error" => %error);
                return;
            }
        }
    }

    /// Remembers what a look that began at `began` found, unless something newer is known; gives what holds now.
    fn take_in(&self, name: &str, found: Found, began: u64) -> Option<Arc<Topic>> {
        let (topic, gone) =
            self.memory.lock().expect("no holder panics").take_in(name, found, began, self.clock.now().mono);
        if let Some((gone, loss)) = gone {
            if loss == Loss::Damaged {
                warn!(self.logger, "streams of a topic are missing; it is not served until they are back"; "topic" => name);
            }
            for listener in self.loss_listeners.read().expect("no holder panics").iter() {
                listener(&gone, loss);
            }
        }
        topic
    }
}

#[cfg(test)]
mod tests;
