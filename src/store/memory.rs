//! A store in memory for unit tests, which can lose acks, leave holes, refuse, and commit late.
//!
//! It behaves as one healthy JetStream server until it is told otherwise; `faults` says how. Calls return at once whatever
//! their deadline. Its time stands still until `set_time`. Several gateways share one store as they share a server.

mod faults;
mod stream;
mod subject;

pub use faults::{Chaos, Outage, PublishFault};

use super::{
    From, KvBucket, KvEntry, Message, Pick, PubAck, Publish, PublishDone, Sequence, ServerInfo, Storage, Store,
    StoreError, StoreResult, StreamInfo, StreamListing, kv_entry,
};
use bytes::Bytes;
use faults::Faults;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;
use stream::Stream;

/// What was asked of the store, by kind of call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub publishes: u64,
    pub message_gets: u64,
    pub message_ranges: u64,
    pub stream_reads: u64,
    pub stream_writes: u64,
    pub message_deletes: u64,
    pub kv_reads: u64,
    pub core_publishes: u64,
}

impl Counts {
    /// Calls that read stored state.
    pub fn reads(&self) -> u64 {
        self.message_gets + self.message_ranges + self.stream_reads + self.kv_reads
    }

    /// Calls that change stored state; KV writes are publishes.
    pub fn writes(&self) -> u64 {
        self.publishes + self.stream_writes + self.message_deletes
    }
}

/// See the module.
pub struct MemoryStore {
    /// Protects everything but the subscribers. Never held while a `done` or a handler runs.
    state: Mutex<State>,
    /// Protects the list of core subscriptions. Never held while a handler runs.
    subscribers: Mutex<Vec<Subscriber>>,
}

type Handler = dyn Fn(&str, Bytes) + Send + Sync;

#[derive(Clone)]
struct Subscriber {
    filter: String,
    handler: Arc<Handler>,
}

struct State {
    streams: BTreeMap<String, Stream>,
    /// How many streams were ever made: tells incarnations apart.
    made: u64,
    wall_ms: i64,
    info: ServerInfo,
    counts: Counts,
    faults: Faults,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty store of a 2.10 server with a max_payload of 1 MiB, at the time where a `ManualClock` starts.
    pub fn new() -> Self {
        let info = ServerInfo {
            version: "2.10.26".to_owned(),
            api_level: 0,
            max_payload: 1_048_576,
            connected: true,
            clustered: false,
        };
        let state = State {
            streams: BTreeMap::new(),
            made: 0,
            wall_ms: 1_700_000_000_000,
            info,
            counts: Counts::default(),
            faults: Faults::default(),
        };
        MemoryStore { state: Mutex::new(state), subscribers: Mutex::new(Vec::new()) }
    }

    pub fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// Bytes, headers included.
    pub fn set_max_payload(&self, bytes: usize) {
        self.lock().info.max_payload = bytes;
    }

    pub fn set_clustered(&self, clustered: bool) {
        self.lock().info.clustered = clustered;
    }

    /// Moves the store's clock, and removes what is older than its stream's `max_age`.
    pub fn set_time(&self, wall_ms: i64) {
        let mut state = self.lock();
        state.wall_ms = wall_ms;
        for stream in state.streams.values_mut() {
            stream.expire(wall_ms);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Locks for a call of the given kind, unless nothing answers.
    fn begin(&self, count: impl FnOnce(&mut Counts)) -> StoreResult<MutexGuard<'_, State>> {
        let mut state = self.lock();
        count(&mut state.counts);
        state.settle_by_chance();
        match state.faults.outage {
            Some(outage) => Err(outage.error()),
            None => Ok(state),
        }
    }

    fn deliver(&self, subject: &str, payload: &Bytes) {
        let subscribers = self.subscribers.lock().expect("no holder panics").clone();
        for subscriber in subscribers {
            if subject::matches(&subscriber.filter, subject) {
                (subscriber.handler)(subject, payload.clone());
            }
        }
    }

    /// Tells subscribers what JetStream tells of its streams.
    fn advise(&self, event: &str, stream: &str) {
        if !self.lock().faults.core_dropped {
            let payload = json!({ "stream": stream, "action": event.to_lowercase() }).to_string();
            self.deliver(&format!("$JS.EVENT.ADVISORY.STREAM.{event}.{stream}"), &Bytes::from(payload));
        }
    }
}

impl State {
    fn stream(&self, name: &str) -> StoreResult<&Stream> {
        if self.faults.silent.contains(name) {
            return Err(StoreError::Unavailable);
        }
        self.streams.get(name).ok_or(StoreError::NoStream)
    }

    fn stream_mut(&mut self, name: &str) -> StoreResult<&mut Stream> {
        self.streams.get_mut(name).ok_or(StoreError::NoStream)
    }

    /// Direct gets of a stream that is not there find no responders.
    fn stream_direct(&self, name: &str) -> StoreResult<&Stream> {
        self.streams.get(name).ok_or(StoreError::Unavailable)
    }

    fn stream_of_subject(&mut self, subject: &str) -> StoreResult<&mut Stream> {
        let mut streams = self.streams.values_mut();
        streams.find(|stream| stream.takes(subject)).ok_or(StoreError::Unavailable)
    }

    /// A publish that reaches the stream's leader.
    fn publish(&mut self, message: Publish, proposed_only: bool) -> StoreResult<PubAck> {
        let max = self.info.max_payload;
        let headers: usize = message.headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        if headers + message.payload.len() > max {
            return Err(StoreError::TooLarge { max });
        }
        if self.faults.full {
            return Err(StoreError::NoSpace("insufficient resources".to_owned()));
        }
        let wall_ms = self.wall_ms;
        let stream = self.stream_of_subject(&message.subject)?;
        stream.reach_the_newest();
        stream.check_guards(&message)?;
        // Behind a message that has no quorum nothing gets one.
        if proposed_only || stream.has_proposed() {
            stream.propose(message, wall_ms);
            return Err(StoreError::NoAnswer);
        }
        let sequence = stream.append(message, wall_ms)?;
        Ok(PubAck { stream: stream.name().to_owned(), sequence, duplicate: false })
    }

    /// The bucket as its leader knows it.
    fn kv_stream(&self, bucket: &str) -> StoreResult<&Stream> {
        self.stream(&format!("KV_{bucket}")).map(Stream::as_told)
    }
}

impl Store for MemoryStore {
    fn info(&self) -> ServerInfo {
        let state = self.lock();
        ServerInfo { connected: state.faults.outage != Some(Outage::Unavailable), ..state.info.clone() }
    }

    fn storage(&self, _: Instant) -> StoreResult<Storage> {
        let state = self.begin(|counts| counts.stream_reads += 1)?;
        let used = state.streams.values().map(|stream| stream.info().state.bytes).sum();
        let set_aside = |stream: &Stream| stream.config["max_bytes"].as_u64().unwrap_or(0);
        let reserved = state.streams.values().map(set_aside).sum();
        Ok(Storage { used, reserved, limit: None })
    }

    fn stream_create(&self, config: &Value, _: Instant) -> StoreResult<StreamInfo> {
        let info = {
            let mut state = self.begin(|counts| counts.stream_writes += 1)?;
            let stream = Stream::new(config.clone(), state.made + 1)?;
            if let Some(existing) = state.streams.get(stream.name()) {
                return if existing.config == *config { Ok(existing.info()) } else { Err(StoreError::StreamExists) };
            }
            if state.streams.values().any(|other| other.overlaps(&stream)) {
                return Err(StoreError::Refused {
                    code: 10065,
                    text: "subjects overlap with an existing stream".to_owned(),
                });
            }
            state.made += 1;
            let info = stream.info();
            state.streams.insert(info.name.clone(), stream);
            info
        };
        self.advise("CREATED", &info.name);
        Ok(info)
    }

    fn stream_info(&self, stream: &str, _: Instant) -> StoreResult<StreamInfo> {
        let mut state = self.begin(|counts| counts.stream_reads += 1)?;
        let lag = state.leader_lag(stream);
        state.stream(stream).map(|stream| stream.old_info(lag))
    }

    fn stream_update(&self, config: &Value, _: Instant) -> StoreResult<StreamInfo> {
        let info = {
            let mut state = self.begin(|counts| counts.stream_writes += 1)?;
            let wall_ms = state.wall_ms;
            let name = stream::name_of(config)?;
            let stream = state.stream_mut(&name)?;
            stream.reconfigure(config.clone())?;
            stream.expire(wall_ms);
            stream.info()
        };
        self.advise("UPDATED", &info.name);
        Ok(info)
    }

    fn stream_delete(&self, stream: &str, _: Instant) -> StoreResult<()> {
        let removed = self.begin(|counts| counts.stream_writes += 1)?.streams.remove(stream);
        if removed.is_none() {
            return Err(StoreError::NoStream);
        }
        self.advise("DELETED", stream);
        Ok(())
    }

    fn stream_purge(&self, stream: &str, below: Option<Sequence>, _: Instant) -> StoreResult<()> {
        let mut state = self.begin(|counts| counts.stream_writes += 1)?;
        state.stream_mut(stream)?.purge(below);
        Ok(())
    }

    fn stream_list(&self, subject_filter: &str, _: Instant) -> StoreResult<StreamListing> {
        let state = self.begin(|counts| counts.stream_reads += 1)?;
        let within = state.streams.values().filter(|stream| stream.is_within(subject_filter));
        let (silent, streams): (Vec<&Stream>, Vec<&Stream>) =
            within.partition(|stream| state.faults.silent.contains(stream.name()));
        Ok(StreamListing {
            streams: streams.into_iter().map(Stream::info).collect(),
            silent: silent.into_iter().map(|stream| stream.name().to_owned()).collect(),
        })
    }

    fn publish_begin(&self, message: Publish, _: Instant, done: PublishDone) {
        let outcome = match self.begin(|counts| counts.publishes += 1) {
            Err(error) => Err(error),
            Ok(mut state) => {
                let fault = state.take_fault(&message);
                let outcome = state.publish_with(message, &fault);
                if state.faults.acks_held || fault == Some(PublishFault::Delayed) {
                    state.faults.held.push((done, outcome));
                    return;
                }
                outcome
            }
        };
        done(outcome);
    }

    fn message_get(&self, stream: &str, pick: Pick, from: From, _: Instant) -> StoreResult<Message> {
        let mut state = self.begin(|counts| counts.message_gets += 1)?;
        match from {
            From::Leader => {
                let lag = state.leader_lag(stream);
                state.stream(stream)?.get(&pick, lag)
            }
            From::Any => {
                let lag = state.direct_lag();
                state.stream_direct(stream)?.get(&pick, lag)
            }
        }
    }

    fn messages_read(
        &self,
        stream: &str,
        start: Sequence,
        messages_max: usize,
        bytes_max: usize,
        _: Instant,
    ) -> StoreResult<Vec<Message>> {
        let mut state = self.begin(|counts| counts.message_ranges += 1)?;
        let lag = state.direct_lag();
        Ok(state.stream_direct(stream)?.read(start, messages_max, bytes_max, lag))
    }

    fn message_stored_since(&self, stream: &str, wall_ms: i64, _: Instant) -> StoreResult<Option<Sequence>> {
        let state = self.begin(|counts| counts.message_gets += 1)?;
        Ok(state.stream(stream)?.stored_since(wall_ms))
    }

    fn message_delete(&self, stream: &str, at: Sequence, _: Instant) -> StoreResult<()> {
        let mut state = self.begin(|counts| counts.message_deletes += 1)?;
        state.stream_mut(stream)?.delete(at)
    }

    fn kv_ensure(&self, bucket: &KvBucket, deadline: Instant) -> StoreResult<()> {
        let mut config = json!({
            "name": format!("KV_{}", bucket.name),
            "subjects": [format!("$KV.{}.>", bucket.name)],
            "max_msgs_per_subject": 1,
            "discard": "new",
            "num_replicas": bucket.replicas,
            "allow_direct": true,
        });
        if let Some(age_ms) = bucket.max_age_ms {
            config["max_age"] = json!(age_ms.saturating_mul(1_000_000));
        }
        match self.stream_create(&config, deadline) {
            Ok(_) | Err(StoreError::StreamExists) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn kv_get(&self, bucket: &str, key: &str, _: Instant) -> StoreResult<KvEntry> {
        let mut state = self.begin(|counts| counts.kv_reads += 1)?;
        if state.bucket_is_hidden() {
            return Err(StoreError::NoStream);
        }
        match state.kv_stream(bucket)?.get(&Pick::LastOf(format!("$KV.{bucket}.{key}")), 0) {
            Ok(message) => Ok(kv_entry(message)),
            Err(StoreError::NoMessage) => Ok(KvEntry::default()),
            Err(error) => Err(error),
        }
    }

    fn kv_list(&self, bucket: &str, filter: &str, _: Instant) -> StoreResult<Vec<(String, KvEntry)>> {
        let state = self.begin(|counts| counts.kv_reads += 1)?;
        let prefix = format!("$KV.{bucket}.");
        let newest = state.kv_stream(bucket)?.newest_of_each(&format!("{prefix}{filter}"));
        let entries = newest.into_iter().filter_map(|message| {
            let key = message.subject.strip_prefix(&prefix)?.to_owned();
            Some((key, kv_entry(message))).filter(|(_, entry)| entry.value.is_some())
        });
        Ok(entries.collect())
    }

    fn core_publish(&self, subject: &str, payload: Bytes) {
        let mut state = self.lock();
        state.counts.core_publishes += 1;
        let dropped = state.faults.core_dropped || state.faults.outage.is_some();
        drop(state);
        if !dropped {
            self.deliver(subject, &payload);
        }
    }

    fn core_subscribe(&self, subject: &str, handler: Box<Handler>) -> StoreResult<()> {
        let subscriber = Subscriber { filter: subject.to_owned(), handler: Arc::from(handler) };
        self.subscribers.lock().expect("no holder panics").push(subscriber);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
