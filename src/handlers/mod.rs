//! One file per API: the only place that knows both messages and domain.

pub mod alter_client_quotas;
pub mod alter_configs;
pub mod alter_partition_reassignments;
pub mod alter_replica_log_dirs;
pub mod alter_user_scram_credentials;
pub mod api_versions;
mod authorized;
mod awaited;
mod broker_settings;
pub mod create_acls;
pub mod create_delegation_token;
pub mod create_partitions;
pub mod create_topics;
pub mod delete_acls;
pub mod delete_groups;
pub mod delete_records;
pub mod delete_topics;
pub mod describe_acls;
pub mod describe_client_quotas;
pub mod describe_cluster;
pub mod describe_configs;
pub mod describe_delegation_token;
pub mod describe_groups;
pub mod describe_log_dirs;
pub mod describe_producers;
pub mod describe_quorum;
pub mod describe_topic_partitions;
pub mod describe_user_scram_credentials;
pub mod elect_leaders;
pub mod errors;
pub mod expire_delegation_token;
pub mod fetch;
pub mod find_coordinator;
pub mod get_telemetry_subscriptions;
mod guests;
pub mod heartbeat;
pub mod incremental_alter_configs;
pub mod init_producer_id;
pub mod join_group;
pub mod leave_group;
pub mod list_config_resources;
pub mod list_groups;
pub mod list_offsets;
pub mod list_partition_reassignments;
pub mod metadata;
pub mod offset_commit;
pub mod offset_delete;
pub mod offset_fetch;
pub mod offset_for_leader_epoch;
mod owned;
mod partitions;
pub mod produce;
pub mod renew_delegation_token;
pub mod sync_group;
pub mod unregister_broker;
pub mod update_features;

use crate::activity::{self, Label, Phase};
use crate::catalog::{Catalog, Topic};
use crate::clock::{Clock, Now};
use crate::cluster::Cluster;
use crate::config::Config;
use crate::forward::{Forwarder, Responder, Visit};
use crate::group::{Groups, Route};
use crate::limits::LOOKING_MAX;
use crate::log::Logs;
use crate::logging::Brake;
use crate::metrics::Metrics;
use crate::offsets::Offsets;
use crate::protocol::api::{self, ApiKey, Message, Request};
use crate::protocol::frame::{self, Opened};
use crate::protocol::header::RequestHeader;
use crate::store::{Store, StoreError, StoreResult};
use crate::tasks::Tasks;
use crate::wake::{Wakeups, WatchKey};
use crate::wire::{Reader, Uuid};
use bytes::Bytes;
use guests::Guests;
use owned::OfGroup;
use slog::{Logger, debug, error, info};
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

/// What became of a request.
pub enum Outcome {
    /// The whole response frame, its 4-byte length included.
    Reply(Vec<u8>),
    /// Nothing is written (Produce with acks=0), the connection goes on.
    Silent,
    /// The connection is closed, after the replies before it are written.
    Close,
    /// The answer waits for someone else.
    Park(Box<dyn Parked>),
}

/// A request whose answer waits for someone else.
pub trait Parked: Send {
    /// Answers if it can now. Called once right after parking, then after each wake-up of one of its keys, and at its
    /// deadline; `now.mono >= deadline` means it must answer. Never gives `Outcome::Park`.
    fn poll(&mut self, now: Now) -> Option<Outcome>;

    /// What wakes it; constant over its life.
    fn keys(&self) -> Vec<WatchKey>;

    fn deadline(&self) -> Instant;

    /// Whether it waits for other clients, and not for the store or for us: then its waiting is not slowness, and a server
    /// that stops does not wait with it.
    fn waits_for_others(&self) -> bool {
        false
    }

    /// For whom it waits, for people. Takes no lock.
    fn waits_for(&self) -> String {
        "the store".to_owned()
    }

    /// The client is gone: release what waits on its behalf. What is under way to the store goes on.
    fn abandon(&mut self) {}
}

/// How a frame is to be treated before it is decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Answered from memory: the reserved workers take these.
    Light,
    /// May wait for the store.
    Heavy,
    /// Heavy, and its reply may be large: none is made while too many bytes of replies are not taken by their peers.
    Fetch,
    /// Heavy, and begun before an earlier Produce of its connection has finished.
    Produce,
}

/// What the server knows of the protocol.
pub trait Dispatch: Send + Sync {
    /// Looks at the first bytes of a frame (its length prefix left out).
    fn kind(&self, frame: &[u8]) -> Kind;

    /// Which request a frame is, for people; the frame may hold anything.
    fn label(&self, frame: &[u8], peer: SocketAddr) -> Label;

    /// Decodes and answers one frame (its length prefix left out). A frame that cannot be answered gives `Close`.
    fn dispatch(&self, frame: Bytes, peer: IpAddr) -> Outcome;
}

/// All that handlers work with.
pub struct Services {
    pub config: Arc<Config>,
    pub store: Arc<dyn Store>,
    pub catalog: Arc<Catalog>,
    pub cluster: Arc<Cluster>,
    pub logs: Arc<Logs>,
    pub groups: Arc<Groups>,
    pub offsets: Arc<Offsets>,
    pub forwarder: Arc<Forwarder>,
    pub wakeups: Arc<Wakeups>,
    pub tasks: Arc<dyn Tasks>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
    pub logger: Logger,
    /// For topics that could not be made, and for lists of topics that could not be given.
    pub uncreated_brake: Brake,
    pub unlisted_brake: Brake,
}

/// One request's surroundings.
#[derive(Clone)]
pub struct Context {
    pub services: Arc<Services>,
    pub header: RequestHeader,
    pub client_host: IpAddr,
    pub now: Now,
    /// The request came from another gateway: it goes no further.
    pub is_visit: bool,
}

impl Context {
    /// The topic of that name. Once the request has looked for things for long, memory alone is asked.
    pub fn topic(&self, name: &str) -> StoreResult<Option<Arc<Topic>>> {
        self.topic_by(name, self.now.mono + LOOKING_MAX)
    }

    /// As `topic`, for a request that may take its time until `deadline`.
    pub fn topic_by(&self, name: &str, deadline: Instant) -> StoreResult<Option<Arc<Topic>>> {
        let catalog = &self.services.catalog;
        if self.services.clock.now().mono < deadline { catalog.topic(name) } else { catalog.remembered(name) }
    }

    pub fn topic_by_id(&self, id: &Uuid) -> StoreResult<Option<Arc<Topic>>> {
        if self.is_late() { Err(StoreError::Busy) } else { self.services.catalog.topic_by_id(id) }
    }

    /// Whether the request has looked for things in the store for as long as it may.
    pub fn is_late(&self) -> bool {
        self.services.clock.now().mono >= self.now.mono + LOOKING_MAX
    }

    /// Closes: there is no list of topics, and an empty one would be taken for the truth.
    fn close_unlisted(&self, error: &StoreError) -> Outcome {
        if let Some(held_back) = self.services.unlisted_brake.pass(self.now.mono) {
            info!(self.services.logger, "closed: the topics cannot be listed";
                "peer" => %self.client_host, "error" => %error, "held_back" => held_back);
        }
        Outcome::Close
    }

    pub fn reply<M: Message>(&self, response: &M) -> Outcome {
        let (frame, errors) = frame::response_and_errors(&self.header, response);
        let took = self.services.clock.now().mono.saturating_duration_since(self.now.mono);
        self.services.metrics.apis.answered(self.header.api_key, took, errors.iter());
        Outcome::Reply(frame)
    }
}

/// The gateway as the server sees it.
pub struct Gateway {
    services: Arc<Services>,
    guests: Arc<Guests>,
}

/// A frame above this is not looked into before it is dispatched.
const PEEK_BYTES_MAX: usize = 4096;

impl Gateway {
    /// Begins to answer what other gateways forward.
    pub fn start(services: Arc<Services>) -> Arc<Gateway> {
        let guests = Guests::start(&services);
        let gateway = Arc::new(Gateway { services, guests });
        let serving = Arc::downgrade(&gateway);
        let started = gateway.services.forwarder.start(Box::new(move |visit, responder| {
            if let Some(gateway) = serving.upgrade() {
                gateway.serve_soon(visit, responder);
            }
        }));
        if let Err(error) = started {
            error!(gateway.services.logger, "requests of other gateways cannot be heard"; "error" => %error);
        }
        gateway
    }

    /// What memory answers is answered on this thread: that spares a turn.
    fn serve_soon(self: &Arc<Gateway>, visit: Visit, responder: Responder) {
        if self.kind(&visit.frame) == Kind::Light {
            return self.serve(visit, responder);
        }
        let gateway = self.clone();
        self.services.tasks.spawn(Box::new(move || gateway.serve(visit, responder)));
    }

    /// Answers a request that another gateway's client sent.
    fn serve(&self, visit: Visit, responder: Responder) {
        let outcome = self.dispatch_from(visit.frame, visit.client_host, true);
        self.guests.host(outcome, visit.group, responder);
    }

    pub fn services(&self) -> &Arc<Services> {
        &self.services
    }

    /// Whether memory answers a request, as `is_in_memory` judges it. One that does not decode is closed at once.
    fn is_light<R: Request>(&self, frame: &[u8], is_in_memory: impl FnOnce(&Services, i16, &R) -> bool) -> bool {
        if frame.len() > PEEK_BYTES_MAX {
            return false;
        }
        let Ok(Opened::Request { header, body, .. }) = frame::open(Bytes::copy_from_slice(frame)) else {
            return true;
        };
        match frame::request_message::<R>(body) {
            Ok(request) => is_in_memory(&self.services, header.api_version, &request),
            Err(_) => true,
        }
    }

    /// The table of handlers. `frame` is the whole request, for those that another gateway may have to answer.
    fn answer(&self, cx: &Context, api: ApiKey, body: Reader, frame: &Bytes) -> Outcome {
        match api {
            ApiKey::Produce => run(cx, body, produce::handle),
            ApiKey::Fetch => run(cx, body, fetch::handle),
            ApiKey::ListOffsets => run(cx, body, list_offsets::handle),
            ApiKey::Metadata => run(cx, body, metadata::handle),
            ApiKey::FindCoordinator => run(cx, body, find_coordinator::handle),
            ApiKey::ApiVersions => run(cx, body, api_versions::handle),
            ApiKey::CreateTopics => run(cx, body, create_topics::handle),
            ApiKey::DeleteTopics => run(cx, body, delete_topics::handle),
            ApiKey::DeleteRecords => run(cx, body, delete_records::handle),
            ApiKey::AlterConfigs => run(cx, body, alter_configs::handle),
            ApiKey::IncrementalAlterConfigs => run(cx, body, incremental_alter_configs::handle),
            ApiKey::CreatePartitions => run(cx, body, create_partitions::handle),
            ApiKey::InitProducerId => run(cx, body, init_producer_id::handle),
            ApiKey::OffsetForLeaderEpoch => run(cx, body, offset_for_leader_epoch::handle),
            ApiKey::DescribeConfigs => run(cx, body, describe_configs::handle),
            ApiKey::DescribeCluster => run(cx, body, describe_cluster::handle),
            ApiKey::OffsetCommit => run_at_owner(cx, body, frame, offset_commit::handle),
            ApiKey::OffsetFetch => run(cx, body, offset_fetch::handle),
            ApiKey::JoinGroup => run_at_owner(cx, body, frame, join_group::handle),
            ApiKey::Heartbeat => run_at_owner(cx, body, frame, heartbeat::handle),
            ApiKey::LeaveGroup => run_at_owner(cx, body, frame, leave_group::handle),
            ApiKey::SyncGroup => run_at_owner(cx, body, frame, sync_group::handle),
            ApiKey::DescribeGroups => run(cx, body, describe_groups::handle),
            ApiKey::ListGroups => run(cx, body, list_groups::handle),
            ApiKey::DeleteGroups => run(cx, body, delete_groups::handle),
            ApiKey::OffsetDelete => run_at_owner(cx, body, frame, offset_delete::handle),
            ApiKey::DescribeAcls => run(cx, body, describe_acls::handle),
            ApiKey::CreateAcls => run(cx, body, create_acls::handle),
            ApiKey::DeleteAcls => run(cx, body, delete_acls::handle),
            ApiKey::AlterReplicaLogDirs => run(cx, body, alter_replica_log_dirs::handle),
            ApiKey::DescribeLogDirs => run(cx, body, describe_log_dirs::handle),
            ApiKey::CreateDelegationToken => run(cx, body, create_delegation_token::handle),
            ApiKey::RenewDelegationToken => run(cx, body, renew_delegation_token::handle),
            ApiKey::ExpireDelegationToken => run(cx, body, expire_delegation_token::handle),
            ApiKey::DescribeDelegationToken => run(cx, body, describe_delegation_token::handle),
            ApiKey::ElectLeaders => run(cx, body, elect_leaders::handle),
            ApiKey::AlterPartitionReassignments => run(cx, body, alter_partition_reassignments::handle),
            ApiKey::ListPartitionReassignments => run(cx, body, list_partition_reassignments::handle),
            ApiKey::DescribeClientQuotas => run(cx, body, describe_client_quotas::handle),
            ApiKey::AlterClientQuotas => run(cx, body, alter_client_quotas::handle),
            ApiKey::DescribeUserScramCredentials => run(cx, body, describe_user_scram_credentials::handle),
            ApiKey::AlterUserScramCredentials => run(cx, body, alter_user_scram_credentials::handle),
            ApiKey::DescribeQuorum => run(cx, body, describe_quorum::handle),
            ApiKey::UpdateFeatures => run(cx, body, update_features::handle),
            ApiKey::DescribeProducers => run(cx, body, describe_producers::handle),
            ApiKey::UnregisterBroker => run(cx, body, unregister_broker::handle),
            ApiKey::GetTelemetrySubscriptions => run(cx, body, get_telemetry_subscriptions::handle),
            ApiKey::ListConfigResources => run(cx, body, list_config_resources::handle),
            ApiKey::DescribeTopicPartitions => run(cx, body, describe_topic_partitions::handle),
        }
    }
}

impl Dispatch for Gateway {
    fn kind(&self, frame: &[u8]) -> Kind {
        match frame::peek_api(frame) {
            Some(ApiKey::Produce) => Kind::Produce,
            Some(ApiKey::Fetch) => Kind::Fetch,
            Some(ApiKey::ApiVersions) => Kind::Light,
            Some(ApiKey::Heartbeat) if self.is_light(frame, heartbeat::is_in_memory) => Kind::Light,
            Some(ApiKey::FindCoordinator) if self.is_light(frame, find_coordinator::is_in_memory) => Kind::Light,
            Some(ApiKey::DescribeCluster) if self.services.cluster.known_id().is_some() => Kind::Light,
            Some(ApiKey::Metadata) if self.is_light(frame, metadata::is_in_memory) => Kind::Light,
            Some(_) => Kind::Heavy,
            // Closed at once.
            None => Kind::Light,
        }
    }

    fn label(&self, frame: &[u8], peer: SocketAddr) -> Label {
        let header = frame::peek_header(frame);
        Label {
            api: frame::peek_api(frame).map_or("unknown", ApiKey::name),
            version: header.api_version,
            correlation_id: header.correlation_id,
            client_id: Label::client_id(&header.client_id.unwrap_or_default()),
            peer,
        }
    }

    fn dispatch(&self, frame: Bytes, peer: IpAddr) -> Outcome {
        self.dispatch_from(frame, peer, false)
    }
}

impl Gateway {
    fn dispatch_from(&self, frame: Bytes, peer: IpAddr, is_visit: bool) -> Outcome {
        let logger = &self.services.logger;
        match frame::open(frame.clone()) {
            Ok(Opened::Request { api, header, body }) => {
                let now = self.services.clock.now();
                self.services.metrics.apis.asked(header.api_key);
                let cx = Context { services: self.services.clone(), header, client_host: peer, now, is_visit };
                self.answer(&cx, api, body, &frame)
            }
            Ok(Opened::UnknownApiVersions { header }) => Outcome::Reply(api::unknown_api_versions(&header)),
            Ok(Opened::Unserved { header }) => {
                self.services.metrics.requests_refused.add_one();
                debug!(logger, "closed: this request is not served";
                    "peer" => %peer, "key" => header.api_key, "version" => header.api_version);
                Outcome::Close
            }
            Err(error) => {
                self.services.metrics.requests_refused.add_one();
                debug!(logger, "closed: not a Kafka request"; "peer" => %peer, "error" => %error);
                Outcome::Close
            }
        }
    }
}

/// Leaves out what a request names again. Where an answer may be long, a short request that names one thing very often would
/// have more made than memory holds.
fn once<T, K: Eq + Hash>(named: Vec<T>, key: impl Fn(&T) -> K) -> Vec<T> {
    let mut seen = HashSet::new();
    named.into_iter().filter(|one| seen.insert(key(one))).collect()
}

/// The partitions that a request has named so far.
#[derive(Default)]
struct NamedPartitions(HashMap<String, HashSet<i32>>);

impl NamedPartitions {
    /// As `once`, for partitions of a topic.
    fn leave_out(&mut self, topic: &str, indexes: &mut Vec<i32>) {
        let seen = self.0.entry(topic.to_owned()).or_default();
        indexes.retain(|index| seen.insert(*index));
    }
}

/// Decodes a request and has it answered by the gateway that owns its group.
fn run_at_owner<R: OfGroup>(
    cx: &Context,
    body: Reader,
    frame: &Bytes,
    handle: impl FnOnce(&Context, R) -> Outcome,
) -> Outcome {
    run(cx, body, |cx, request: R| match owned::route(cx, request.group_id()) {
        Route::Here => handle(cx, request),
        Route::At(process) => owned::forward(cx, process, request, frame),
    })
}

/// Decodes a request and has it answered.
fn run<R: Request>(cx: &Context, body: Reader, handle: impl FnOnce(&Context, R) -> Outcome) -> Outcome {
    match frame::request_message::<R>(body) {
        Ok(request) => {
            activity::enter(Phase::Handling);
            handle(cx, request)
        }
        Err(error) => {
            cx.services.metrics.requests_refused.add_one();
            debug!(cx.services.logger, "closed: the request does not decode"; "peer" => %cx.client_host,
                "api" => R::KEY.name(), "version" => cx.header.api_version, "error" => %error);
            Outcome::Close
        }
    }
}

#[cfg(test)]
mod forward_tests;
#[cfg(test)]
mod group_tests;
#[cfg(test)]
mod tests;
