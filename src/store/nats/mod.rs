//! The store on a real nats-server, by the synchronous `nats` crate, as raw JetStream JSON and headers.
//!
//! Three connections: a slow read must delay neither an acknowledgement nor a tick. All of the crate's calls are made on
//! threads that may be lost; see `link` and `requester`.

// The crate is deprecated in favour of an asynchronous one; a synchronous one is what is wanted here.
#![allow(deprecated)]

mod api;
mod header;
mod kv;
mod link;
mod pending;
mod publish;
mod read;
mod requester;
pub(crate) mod servers;
mod supervisor;
mod time;

use super::{
    From, KvBucket, KvEntry, Message, Pick, Publish, PublishDone, Sequence, ServerInfo, Storage, Store, StoreError,
    StoreResult, StreamInfo, StreamListing,
};
use crate::config::NatsLogin;
use bytes::Bytes;
use link::Request;
use pending::{Lost, Reply};
use requester::Requester;
use serde_json::Value;
use servers::Servers;
use slog::Logger;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use supervisor::Refusal;

/// A core message that could not be written within this is dropped.
const CORE_PATIENCE: Duration = Duration::from_secs(5);

/// A cluster without a leader leaves a question unanswered: it is asked again.
const ANSWER_PATIENCE: Duration = Duration::from_millis(500);

const READY_LOOK_EVERY: Duration = Duration::from_millis(10);

/// Where the store is and who we are.
#[derive(Clone, Debug, Default)]
pub struct NatsOptions {
    /// `nats://host:port`, `nats://user:password@host`, `nats://token@host`, each text also several with commas between.
    pub urls: Vec<String>,
    /// Takes the place of a login in the URLs.
    pub login: NatsLogin,
    /// What the server's monitoring shows.
    pub name: String,
}

/// Why the store cannot be used, in words for the operator.
#[derive(Clone, Debug, PartialEq)]
pub enum NatsError {
    Url {
        url: String,
        why: String,
    },
    Tls {
        url: String,
    },
    /// A file of the login.
    Login {
        path: PathBuf,
        why: String,
    },
    TooOld {
        server: String,
        version: String,
    },
    Unreachable(String),
}

impl NatsError {
    fn too_old(server: &str, version: &str) -> NatsError {
        NatsError::TooOld { server: server.to_owned(), version: version.to_owned() }
    }
}

impl fmt::Display for NatsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NatsError::Url { url, why } => write!(f, "the NATS URL {url:?} is not usable: {why}"),
            NatsError::Tls { url } => {
                write!(
                    f,
                    "the NATS URL {url:?} asks for TLS, which is not supported yet; use nats:// on a private network"
                )
            }
            NatsError::Login { path, why } => {
                write!(f, "the file {} for the NATS login cannot be used: {why}", path.display())
            }
            NatsError::TooOld { server, version } => {
                let (major, minor) = servers::VERSION_MIN;
                write!(f, "nats-server {version} at {server} is too old: {major}.{minor} or newer is needed")
            }
            NatsError::Unreachable(why) => write!(f, "no nats-server can be reached: {why}"),
        }
    }
}

impl std::error::Error for NatsError {}

/// JetStream behind three connections.
pub struct NatsStore {
    writes: Arc<Requester>,
    reads: Requester,
    control: Requester,
    address: String,
    budget: read::Budget,
    /// Messages that may only be read at the leader.
    poisoned: Mutex<read::Poisoned>,
    /// What the server said last of its API level. Not held while it is asked.
    level: Mutex<api::Level>,
    logger: Logger,
}

impl NatsStore {
    /// Starts connecting and returns at once, also when no server can be reached: the store keeps trying, and answers
    /// `Unavailable` meanwhile. Errors: what no server could mend.
    pub fn connect(options: NatsOptions, logger: Logger) -> Result<Arc<NatsStore>, NatsError> {
        let servers = || Servers::parse(&options.urls, &options.login);
        let start = |name| Ok(Requester::start(name, options.name.clone(), servers()?, logger.clone()));
        Ok(Arc::new(NatsStore {
            writes: Arc::new(start("nats-pub")?),
            reads: start("nats-get")?,
            control: start("nats-ctl")?,
            address: options.urls.iter().map(|url| servers::without_password(url)).collect::<Vec<_>>().join(","),
            budget: read::Budget::new(),
            poisoned: Mutex::default(),
            level: Mutex::default(),
            logger,
        }))
    }

    /// Waits until all connections stand and the API level is known. Errors: `TooOld` at once, `Unreachable` at the deadline.
    pub fn wait_ready(&self, deadline: Instant) -> Result<ServerInfo, NatsError> {
        loop {
            let info = self.info();
            if info.connected && self.ask_level(deadline.min(Instant::now() + ANSWER_PATIENCE)).is_ok() {
                return Ok(self.info());
            }
            self.check_version()?;
            if Instant::now() >= deadline {
                let refusal = self.control.facts().refusal;
                return Err(NatsError::Unreachable(match refusal {
                    Some(Refusal::Unreachable(why)) => why,
                    _ => "JetStream does not answer".to_owned(),
                }));
            }
            std::thread::sleep(READY_LOOK_EVERY);
        }
    }

    /// An error if the server that was found is too old to be used; it was not connected to.
    pub fn check_version(&self) -> Result<(), NatsError> {
        match self.control.facts().refusal {
            Some(Refusal::TooOld { server, version }) => Err(NatsError::TooOld { server, version }),
            _ => Ok(()),
        }
    }

    /// The servers' URLs without passwords, for people.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Connections whose server hung and which were left behind with their threads.
    pub fn connections_left_behind(&self) -> u64 {
        self.writes.links_left_behind() + self.reads.links_left_behind() + self.control.links_left_behind()
    }
}

impl Store for NatsStore {
    fn info(&self) -> ServerInfo {
        let facts = self.control.facts();
        ServerInfo {
            version: facts.version,
            api_level: self.level.lock().expect("no holder panics").number,
            max_payload: self.writes.max_payload(),
            clustered: facts.clustered,
            connected: self.writes.is_open() && self.reads.is_open() && self.control.is_open(),
        }
    }

    fn storage(&self, deadline: Instant) -> StoreResult<Storage> {
        self.api_storage(deadline)
    }

    fn stream_create(&self, config: &Value, deadline: Instant) -> StoreResult<StreamInfo> {
        self.api_stream_create(config, deadline)
    }

    fn stream_info(&self, stream: &str, deadline: Instant) -> StoreResult<StreamInfo> {
        self.api_stream_info(stream, deadline)
    }

    fn stream_update(&self, config: &Value, deadline: Instant) -> StoreResult<StreamInfo> {
        self.api_stream_update(config, deadline)
    }

    fn stream_delete(&self, stream: &str, deadline: Instant) -> StoreResult<()> {
        self.api_stream_delete(stream, deadline)
    }

    fn stream_purge(&self, stream: &str, below: Option<Sequence>, deadline: Instant) -> StoreResult<()> {
        self.api_stream_purge(stream, below, deadline)
    }

    fn stream_list(&self, subject_filter: &str, deadline: Instant) -> StoreResult<StreamListing> {
        self.api_stream_list(subject_filter, deadline)
    }

    fn publish_begin(&self, message: Publish, deadline: Instant, done: PublishDone) {
        publish::begin(&self.writes, message, deadline, done);
    }

    fn message_get(&self, stream: &str, pick: Pick, from: From, deadline: Instant) -> StoreResult<Message> {
        header::check_stream(stream)?;
        match from {
            From::Leader => self.leader_get(stream, &pick, deadline),
            From::Any => self.direct_get(stream, &pick, deadline),
        }
    }

    fn messages_read(
        &self,
        stream: &str,
        start: Sequence,
        messages_max: usize,
        bytes_max: usize,
        deadline: Instant,
    ) -> StoreResult<Vec<Message>> {
        header::check_stream(stream)?;
        self.read_run(stream, start, read::Wanted { messages_max, bytes_max }, deadline)
    }

    fn message_stored_since(&self, stream: &str, wall_ms: i64, deadline: Instant) -> StoreResult<Option<Sequence>> {
        header::check_stream(stream)?;
        self.stored_since(stream, wall_ms, deadline)
    }

    fn message_delete(&self, stream: &str, at: Sequence, deadline: Instant) -> StoreResult<()> {
        self.api_message_delete(stream, at, deadline)
    }

    fn kv_ensure(&self, bucket: &KvBucket, deadline: Instant) -> StoreResult<()> {
        self.bucket_ensure(bucket, deadline)
    }

    fn kv_get(&self, bucket: &str, key: &str, deadline: Instant) -> StoreResult<KvEntry> {
        self.entry_get(bucket, key, deadline)
    }

    fn kv_list(&self, bucket: &str, filter: &str, deadline: Instant) -> StoreResult<Vec<(String, KvEntry)>> {
        self.entry_list(bucket, filter, deadline)
    }

    fn core_publish(&self, subject: &str, payload: Bytes) {
        if header::check_subject(subject).is_ok() {
            let request = Request { subject: subject.to_owned(), headers: Vec::new(), payload };
            self.control.tell(request, Instant::now() + CORE_PATIENCE);
        }
    }

    fn core_subscribe(&self, subject: &str, handler: Box<dyn Fn(&str, Bytes) + Send + Sync>) -> StoreResult<()> {
        header::check_subject(subject)?;
        self.control.subscribe(subject.to_owned(), Arc::from(handler));
        Ok(())
    }
}

/// What a lost reply means to whoever asked.
fn lost_error(lost: Lost) -> StoreError {
    match lost {
        Lost::NotConnected => StoreError::Unavailable,
        Lost::Disconnected | Lost::TimedOut => StoreError::NoAnswer,
        Lost::TooLarge { max } => StoreError::TooLarge { max },
        Lost::Full => StoreError::Busy,
    }
}

/// The JSON of a reply, or the error it carries.
fn json_of(outcome: Result<Reply, Lost>) -> StoreResult<Value> {
    let reply = outcome.map_err(lost_error)?;
    if reply.has_no_responders() {
        return Err(StoreError::Unavailable);
    }
    let json: Value = serde_json::from_slice(&reply.payload).map_err(|e| StoreError::Garbled(e.to_string()))?;
    match json.get("error") {
        Some(error) => Err(api::store_error(error)),
        None => Ok(json),
    }
}

/// Sixteen hex digits that nobody else has.
fn random_token() -> String {
    format!("{:016x}", getrandom::u64().expect("the system has random numbers"))
}
