//! What the gateway asks of JetStream, without a Kafka word: streams, guarded publishes, reads, KV entries, core subjects.
//!
//! Calls block, with a deadline; only `publish_begin` returns at once. Two implementations: `nats`, and for unit tests
//! `memory`, which can also show what a healthy server does not.

pub mod embedded;
pub mod gate;
pub mod keys;
pub mod memory;
pub mod nats;

use crate::activity;
use bytes::Bytes;
use serde_json::Value;
use std::fmt;
use std::time::Instant;

/// A stream sequence. Only ordered, never added to an offset.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Sequence(pub u64);

impl Sequence {
    pub fn next(self) -> Sequence {
        Sequence(self.0.saturating_add(1))
    }
}

/// What the server told about itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerInfo {
    pub version: String,
    /// `$JS.API.INFO` → `api.level`; 0 on 2.10 and where it is absent.
    pub api_level: u32,
    /// Bytes, headers included.
    pub max_payload: usize,
    pub connected: bool,
    /// It is part of a cluster, so streams may have replicas.
    pub clustered: bool,
}

impl ServerInfo {
    /// Whether it may be said of a stream with so many replicas that it is not there although it is: who has just been elected does
    /// not know all streams at first, and in a cluster that is asked of those with one replica as well.
    pub fn may_deny(&self, replicas: u32) -> bool {
        replicas > 1 || self.clustered
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamState {
    pub messages: u64,
    pub bytes: u64,
    /// On an empty stream `first` is `last + 1`.
    pub first: Sequence,
    pub last: Sequence,
}

/// What the account's streams take on disk, and may take, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Storage {
    pub used: u64,
    /// Set aside for streams by their `max_bytes`, whether they hold that much or not.
    pub reserved: u64,
    /// `None` where the account has no limit: then the servers' disks are one, which is not told.
    pub limit: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct StreamInfo {
    pub name: String,
    /// The configuration as the server sent it, unknown fields included.
    pub config: Value,
    /// The server's creation time, verbatim: tells incarnations of one name apart.
    pub created: String,
    pub state: StreamState,
    /// The server that leads the stream; empty where there is only one.
    pub leader: String,
}

/// The streams that were asked for.
#[derive(Clone, Debug, Default)]
pub struct StreamListing {
    pub streams: Vec<StreamInfo>,
    /// Names of streams that are there but whose servers do not answer.
    pub silent: Vec<String>,
}

impl StreamInfo {
    /// A value of the stream's `metadata` map.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.config.get("metadata")?.get(key)?.as_str()
    }
}

/// A stored message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub sequence: Sequence,
    pub subject: String,
    /// Header names and values as stored; malformed header blocks yield none.
    pub headers: Vec<(String, String)>,
    pub payload: Bytes,
    /// Store time, milliseconds since the epoch.
    pub stored_ms: i64,
}

impl Message {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
}

/// A message to be stored.
#[derive(Clone, Debug, Default)]
pub struct Publish {
    pub subject: String,
    pub headers: Vec<(String, String)>,
    pub payload: Bytes,
    /// `Nats-Expected-Last-Sequence`.
    pub expected_last: Option<Sequence>,
    /// `Nats-Expected-Last-Subject-Sequence`; 0 means "the subject has none".
    pub expected_last_on_subject: Option<Sequence>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PubAck {
    pub stream: String,
    pub sequence: Sequence,
    pub duplicate: bool,
}

/// How a publish ended. Runs on the connection's reply reader or timer: it must not block and must not panic.
pub type PublishDone = Box<dyn FnOnce(Result<PubAck, StoreError>) + Send>;

/// Takes a core message's subject and payload.
pub type CoreHandler = Box<dyn Fn(&str, Bytes) + Send + Sync>;

/// Which message to read.
#[derive(Clone, Debug, PartialEq)]
pub enum Pick {
    /// Exactly this sequence.
    At(Sequence),
    /// The first message at or after this sequence, whatever its subject; also below the stream's first.
    AtOrAfter(Sequence),
    /// The newest message of a subject.
    LastOf(String),
}

/// Who answers a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// The stream leader: what was acknowledged is seen.
    Leader,
    /// Any replica, by direct get: fast, but may miss the newest. A miss there proves nothing.
    Any,
}

/// A KV entry as it stands. A key never written has revision 0 and no value; a deleted one its marker's revision and no value.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct KvEntry {
    pub revision: Sequence,
    pub value: Option<Bytes>,
    /// Store time, milliseconds since the epoch; 0 where there is none.
    pub stored_ms: i64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct KvBucket {
    pub name: String,
    pub replicas: u32,
    /// Values older than this are removed by the server; `None`: kept.
    pub max_age_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum StoreError {
    /// There is no such stream (or bucket).
    NoStream,
    /// There is no such message.
    NoMessage,
    /// A stream of that name with another configuration exists.
    StreamExists,
    /// The guard did not match; nothing was stored by this publish.
    WrongLast(Option<Sequence>),
    /// No answer came: whether a write was done is not known.
    NoAnswer,
    /// Nobody serves this now (503, no responders, not connected). A write was not delivered by *this* attempt.
    Unavailable,
    /// This stream missed its deadline, or too many calls are waiting: refused at once, not tried.
    Busy,
    /// The payload exceeds the server's max_payload (bytes).
    TooLarge { max: usize },
    /// The server has no room (10047, 10005, 10122, 10023, 10077): its own words.
    NoSpace(String),
    /// The cluster knows too few servers for the replicas asked for (10005), maybe only as yet: its own words.
    NoPeers(String),
    /// Any other refusal, with JetStream's `err_code`.
    Refused { code: u32, text: String },
    /// The answer could not be understood.
    Garbled(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::NoStream => f.write_str("no such stream"),
            StoreError::NoMessage => f.write_str("no such message"),
            StoreError::StreamExists => f.write_str("a stream of that name exists with another configuration"),
            StoreError::WrongLast(Some(last)) => write!(f, "wrong last sequence: {}", last.0),
            StoreError::WrongLast(None) => f.write_str("wrong last sequence"),
            StoreError::NoAnswer => f.write_str("JetStream did not answer in time"),
            StoreError::Unavailable => f.write_str("JetStream cannot be reached"),
            StoreError::Busy => f.write_str("the stream is not answering; refused without trying"),
            StoreError::TooLarge { max } => write!(f, "the message exceeds the server's max_payload of {max} bytes"),
            StoreError::NoSpace(text) => write!(f, "JetStream has no room: {text}"),
            StoreError::NoPeers(text) => write!(f, "JetStream knows too few servers for the replicas: {text}"),
            StoreError::Refused { code, text } => write!(f, "JetStream refused with {code}: {text}"),
            StoreError::Garbled(text) => write!(f, "JetStream's answer could not be read: {text}"),
        }
    }
}

impl std::error::Error for StoreError {}

pub type StoreResult<T> = Result<T, StoreError>;

/// The store. All blocking calls return by `deadline` or a little after it.
pub trait Store: Send + Sync {
    /// The last known facts; never blocks.
    fn info(&self) -> ServerInfo;
    /// What the account takes and may take on disk.
    fn storage(&self, deadline: Instant) -> StoreResult<Storage>;

    // Streams

    /// Creates a stream from raw JetStream JSON. The same name with an equal configuration succeeds.
    fn stream_create(&self, config: &Value, deadline: Instant) -> StoreResult<StreamInfo>;
    /// Read at the leader.
    fn stream_info(&self, stream: &str, deadline: Instant) -> StoreResult<StreamInfo>;
    /// Replaces the configuration by `config`, which should be a changed copy of what `stream_info` gave.
    fn stream_update(&self, config: &Value, deadline: Instant) -> StoreResult<StreamInfo>;
    fn stream_delete(&self, stream: &str, deadline: Instant) -> StoreResult<()>;
    /// Removes all messages below `below`, or all. On an empty stream a larger `below` moves the sequence: the next
    /// message gets `below` or more.
    fn stream_purge(&self, stream: &str, below: Option<Sequence>, deadline: Instant) -> StoreResult<()>;
    /// All streams whose one subject matches `subject_filter` (e.g. `kafka.>`), by name.
    fn stream_list(&self, subject_filter: &str, deadline: Instant) -> StoreResult<StreamListing>;

    // Messages

    /// Sends a message to be stored and returns at once; `done` runs exactly once, by `deadline` or a little after it.
    fn publish_begin(&self, message: Publish, deadline: Instant, done: PublishDone);
    /// Reads one message; `NoMessage` where there is none (with `From::Any` that proves nothing).
    fn message_get(&self, stream: &str, pick: Pick, from: From, deadline: Instant) -> StoreResult<Message>;
    /// Reads consecutive messages from the first at or after `start`, up to about `bytes_max` payload bytes (at least one
    /// message) and `messages_max`, by direct gets, batched where the server can. May come up short, also empty; that
    /// proves nothing. Steps over holes.
    fn messages_read(
        &self,
        stream: &str,
        start: Sequence,
        messages_max: usize,
        bytes_max: usize,
        deadline: Instant,
    ) -> StoreResult<Vec<Message>>;
    /// The first message stored at or after this time (milliseconds since the epoch), if any.
    fn message_stored_since(&self, stream: &str, wall_ms: i64, deadline: Instant) -> StoreResult<Option<Sequence>>;
    fn message_delete(&self, stream: &str, at: Sequence, deadline: Instant) -> StoreResult<()>;

    // KV

    /// Makes the bucket if it is not there; an existing one is left as it is.
    fn kv_ensure(&self, bucket: &KvBucket, deadline: Instant) -> StoreResult<()>;
    /// Read at the leader.
    fn kv_get(&self, bucket: &str, key: &str, deadline: Instant) -> StoreResult<KvEntry>;
    /// All live entries whose key matches `filter` (`>` for all, `g.*.*`), read at the leader, in key order.
    fn kv_list(&self, bucket: &str, filter: &str, deadline: Instant) -> StoreResult<Vec<(String, KvEntry)>>;

    // Core subjects: at most once, not stored.

    fn core_publish(&self, subject: &str, payload: Bytes);
    /// `handler` runs on a reader thread: it must not block. Lasts as long as the store.
    fn core_subscribe(&self, subject: &str, handler: CoreHandler) -> StoreResult<()>;
}

/// How an entry is replaced: the value, or `None` for a delete marker.
pub fn kv_message(bucket: &str, key: &str, value: Option<Bytes>, expected: Sequence) -> Publish {
    let headers = match value {
        Some(_) => Vec::new(),
        None => vec![("KV-Operation".to_owned(), "DEL".to_owned())],
    };
    Publish {
        subject: format!("$KV.{bucket}.{key}"),
        headers,
        payload: value.unwrap_or_default(),
        expected_last: None,
        expected_last_on_subject: Some(expected),
    }
}

/// Publishes and waits for the outcome.
pub fn publish(store: &dyn Store, message: Publish, deadline: Instant) -> StoreResult<PubAck> {
    let mut outcomes = publish_all(store, vec![message], deadline);
    outcomes.pop().expect("one message, one outcome")
}

/// Publishes messages together and waits for all outcomes, in the messages' order.
pub fn publish_all(store: &dyn Store, messages: Vec<Publish>, deadline: Instant) -> Vec<StoreResult<PubAck>> {
    let subject = messages.first().map_or("", |message| &message.subject);
    let _noted = activity::store_call("publish", subject);
    let count = messages.len();
    let (sender, receiver) = crossbeam_channel::bounded(count);
    for (index, message) in messages.into_iter().enumerate() {
        let sender = sender.clone();
        store.publish_begin(
            message,
            deadline,
            Box::new(move |outcome| {
                let _ = sender.send((index, outcome));
            }),
        );
    }
    drop(sender);
    let mut outcomes = vec![Err(StoreError::NoAnswer); count];
    for (index, outcome) in receiver {
        outcomes[index] = outcome;
    }
    outcomes
}

/// Reads a key of a bucket that is there. A cluster whose leader has not heard of it yet says otherwise: that passes, and says
/// nothing of what the bucket is about.
pub fn kv_get_present(store: &dyn Store, bucket: &str, key: &str, deadline: Instant) -> StoreResult<KvEntry> {
    store.kv_get(bucket, key, deadline).map_err(|error| match error {
        StoreError::NoStream => StoreError::Unavailable,
        other => other,
    })
}

/// Reads a key, and makes the bucket if it is not there.
pub fn kv_get_or_make(store: &dyn Store, bucket: &KvBucket, key: &str, deadline: Instant) -> StoreResult<KvEntry> {
    match store.kv_get(&bucket.name, key, deadline) {
        Err(StoreError::NoStream) => {
            store.kv_ensure(bucket, deadline)?;
            kv_get_present(store, &bucket.name, key, deadline)
        }
        outcome => outcome,
    }
}

/// Replaces a KV entry if its revision is still `expected`; gives the new revision.
pub fn kv_replace(
    store: &dyn Store,
    bucket: &str,
    key: &str,
    value: Option<Bytes>,
    expected: Sequence,
    deadline: Instant,
) -> StoreResult<Sequence> {
    publish(store, kv_message(bucket, key, value, expected), deadline).map(|ack| ack.sequence)
}

/// What was written to a bucket.
#[derive(Clone, Debug, Default)]
pub struct KvChanges {
    /// Keys and entries, oldest first; of a key that was written several times only the newest.
    pub entries: Vec<(String, KvEntry)>,
    /// There is nothing else up to this revision.
    pub upto: Sequence,
}

/// What was written to a bucket after `since`. Costs one question while there is nothing new. May come up short: `upto`
/// tells how far it looked.
pub fn kv_changes(store: &dyn Store, bucket: &str, since: Sequence, deadline: Instant) -> StoreResult<KvChanges> {
    let stream = format!("KV_{bucket}");
    let prefix = format!("$KV.{bucket}.");
    let last = store.stream_info(&stream, deadline)?.state.last;
    // A bucket that was made anew counts from the beginning.
    let mut changes = KvChanges { entries: Vec::new(), upto: since.min(last) };
    while changes.upto < last {
        let next = changes.upto.next();
        let messages = store.messages_read(&stream, next, KV_CHANGES_MESSAGES, KV_CHANGES_BYTES, deadline)?;
        let Some(newest) = messages.last().map(|message| message.sequence) else { break };
        changes.upto = changes.upto.max(newest);
        for message in messages {
            if let Some(key) = message.subject.strip_prefix(&prefix).map(str::to_owned) {
                changes.entries.push((key, kv_entry(message)));
            }
        }
    }
    Ok(changes)
}

/// Asked for at once while changes are read.
const KV_CHANGES_MESSAGES: usize = 256;
const KV_CHANGES_BYTES: usize = 1024 * 1024;

/// A stored message as the entry it is. A marker has a revision and no value: a delete, a purge, or what the server leaves
/// when a value aged out.
pub(crate) fn kv_entry(message: Message) -> KvEntry {
    let is_marker = message.header("KV-Operation").is_some_and(|operation| operation == "DEL" || operation == "PURGE")
        || message.header("Nats-Marker-Reason").is_some();
    KvEntry {
        revision: message.sequence,
        value: if is_marker { None } else { Some(message.payload) },
        stored_ms: message.stored_ms,
    }
}
