//! A store in memory whose stream calls can be watched and interfered with.

use crate::store::memory::MemoryStore;
use crate::store::{
    From, KvBucket, KvEntry, Message, Pick, Publish, PublishDone, Sequence, ServerInfo, Storage, Store, StoreError,
    StoreResult, StreamInfo, StreamListing,
};
use bytes::Bytes;
use serde_json::Value;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Instant;

#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    Create(String),
    Info(String),
    Update(String),
    Delete(String),
    Purge(String),
    List,
}

/// What becomes of a call.
pub enum Fate {
    Pass,
    /// Not done.
    Refuse(StoreError),
    /// Done, but the answer gets lost.
    LoseAnswer,
}

type Handler = dyn Fn(&str, Bytes) + Send + Sync;
type Rule = Box<dyn FnMut(&Call) -> Fate + Send>;

/// One gateway's view of a store that several share.
pub struct Watched {
    pub inner: Arc<MemoryStore>,
    /// Taken out while it runs, so that it may call the store itself.
    rule: Mutex<Option<Rule>>,
    /// Streams that a listing leaves out, as a cluster does where a stream has no leader.
    pub unlisted: Mutex<HashSet<String>>,
}

impl Watched {
    pub fn new(inner: &Arc<MemoryStore>) -> Arc<Watched> {
        Arc::new(Watched { inner: inner.clone(), rule: Mutex::new(None), unlisted: Mutex::new(HashSet::new()) })
    }

    pub fn on_call(&self, rule: impl FnMut(&Call) -> Fate + Send + 'static) {
        *self.rule.lock().expect("no holder panics") = Some(Box::new(rule));
    }

    pub fn leave_alone(&self) {
        *self.rule.lock().expect("no holder panics") = None;
    }

    fn call<T>(&self, call: Call, run: impl FnOnce() -> StoreResult<T>) -> StoreResult<T> {
        let rule = self.rule.lock().expect("no holder panics").take();
        let Some(mut rule) = rule else {
            return run();
        };
        let fate = rule(&call);
        *self.rule.lock().expect("no holder panics") = Some(rule);
        match fate {
            Fate::Pass => run(),
            Fate::Refuse(error) => Err(error),
            Fate::LoseAnswer => run().and(Err(StoreError::NoAnswer)),
        }
    }
}

impl Store for Watched {
    fn info(&self) -> ServerInfo {
        self.inner.info()
    }

    fn storage(&self, deadline: Instant) -> StoreResult<Storage> {
        self.inner.storage(deadline)
    }

    fn stream_create(&self, config: &Value, deadline: Instant) -> StoreResult<StreamInfo> {
        let name = config["name"].as_str().unwrap_or_default().to_owned();
        self.call(Call::Create(name), || self.inner.stream_create(config, deadline))
    }

    fn stream_info(&self, stream: &str, deadline: Instant) -> StoreResult<StreamInfo> {
        self.call(Call::Info(stream.to_owned()), || self.inner.stream_info(stream, deadline))
    }

    fn stream_update(&self, config: &Value, deadline: Instant) -> StoreResult<StreamInfo> {
        let name = config["name"].as_str().unwrap_or_default().to_owned();
        self.call(Call::Update(name), || self.inner.stream_update(config, deadline))
    }

    fn stream_delete(&self, stream: &str, deadline: Instant) -> StoreResult<()> {
        self.call(Call::Delete(stream.to_owned()), || self.inner.stream_delete(stream, deadline))
    }

    fn stream_purge(&self, stream: &str, below: Option<Sequence>, deadline: Instant) -> StoreResult<()> {
        self.call(Call::Purge(stream.to_owned()), || self.inner.stream_purge(stream, below, deadline))
    }

    fn stream_list(&self, subject_filter: &str, deadline: Instant) -> StoreResult<StreamListing> {
        let mut listing = self.call(Call::List, || self.inner.stream_list(subject_filter, deadline))?;
        let unlisted = self.unlisted.lock().expect("no holder panics");
        listing.streams.retain(|info| !unlisted.contains(&info.name));
        Ok(listing)
    }

    fn publish_begin(&self, message: Publish, deadline: Instant, done: PublishDone) {
        self.inner.publish_begin(message, deadline, done);
    }

    fn message_get(&self, stream: &str, pick: Pick, from: From, deadline: Instant) -> StoreResult<Message> {
        self.inner.message_get(stream, pick, from, deadline)
    }

    fn messages_read(
        &self,
        stream: &str,
        start: Sequence,
        messages_max: usize,
        bytes_max: usize,
        deadline: Instant,
    ) -> StoreResult<Vec<Message>> {
        self.inner.messages_read(stream, start, messages_max, bytes_max, deadline)
    }

    fn message_stored_since(&self, stream: &str, wall_ms: i64, deadline: Instant) -> StoreResult<Option<Sequence>> {
        self.inner.message_stored_since(stream, wall_ms, deadline)
    }

    fn message_delete(&self, stream: &str, at: Sequence, deadline: Instant) -> StoreResult<()> {
        self.inner.message_delete(stream, at, deadline)
    }

    fn kv_ensure(&self, bucket: &KvBucket, deadline: Instant) -> StoreResult<()> {
        self.inner.kv_ensure(bucket, deadline)
    }

    fn kv_get(&self, bucket: &str, key: &str, deadline: Instant) -> StoreResult<KvEntry> {
        self.inner.kv_get(bucket, key, deadline)
    }

    fn kv_list(&self, bucket: &str, filter: &str, deadline: Instant) -> StoreResult<Vec<(String, KvEntry)>> {
        self.inner.kv_list(bucket, filter, deadline)
    }

    fn core_publish(&self, subject: &str, payload: Bytes) {
        self.inner.core_publish(subject, payload);
    }

    fn core_subscribe(&self, subject: &str, handler: Box<Handler>) -> StoreResult<()> {
        self.inner.core_subscribe(subject, handler)
    }
}
