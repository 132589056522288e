//! Metadata: brokers, topics, partitions and their leaders.
//!
//! Behavior:
//! - Every gateway names the same brokers, those that are alive, and spreads the same leaders over them, with leader epoch
//!   0. That is a hint to clients: any gateway serves any partition.
//! - Before the store was reached for the first time a gateway without `--node-id` names no broker; clients ask again.
//! - A topic nobody made is made, if the request and `--auto-create` allow it, before it is answered.
//! - Known topics are answered from memory, also while the store cannot be reached; others then get a code that
//!   clients retry. If nothing was ever read and all topics are asked for, no list can be given: the connection is
//!   closed, for an empty list would be taken for the truth (from version 13 on there is an error code instead).
//! - Rows come in the order of the request, each topic once.
//!
//! Version notes: in 0 an empty list asks for all topics, from 1 on null does; before 4 every request may create;
//! topic ids are answered from 10 on and asked for from 12 on (KIP-516).

use super::authorized::{CLUSTER_OPERATIONS, TOPIC_OPERATIONS};
use super::errors::for_admin;
use super::{Context, Outcome, Services};
use crate::catalog::{CreateTopicError, NewTopic, Topic, names};
use crate::cluster::{Broker, Cluster};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};
use crate::wire::Uuid;
use slog::warn;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the topics of one request may take to be made.
const CREATION_TIMEOUT: Duration = Duration::from_secs(15);

/// The first version whose requests may name topics by id.
const TOPIC_IDS_SINCE: i16 = 12;

pub fn handle(cx: &Context, request: MetadataRequest) -> Outcome {
    let version = cx.header.api_version;
    let brokers = cx.services.cluster.brokers();
    let mut response = MetadataResponse {
        brokers: brokers.iter().map(broker_row).collect(),
        cluster_id: cx.services.cluster.id().ok().map(str::to_owned),
        controller_id: Cluster::controller(&brokers),
        ..Default::default()
    };
    if request.include_cluster_authorized_operations {
        response.cluster_authorized_operations = CLUSTER_OPERATIONS;
    }
    match asked(version, &request) {
        None => match cx.services.catalog.topics() {
            Ok(topics) => {
                let silent = cx.services.catalog.silent_topics().into_iter();
                let refused = silent.map(|name| refusal(Some(name), Uuid::ZERO, ErrorCode::LEADER_NOT_AVAILABLE));
                response.topics = topics.iter().map(|topic| row(&brokers, topic)).chain(refused).collect();
            }
            Err(error) if version >= 13 => response.error_code = for_admin(&error).code(),
            Err(error) => return cx.close_unlisted(&error),
        },
        Some(topics) => {
            let deadline = cx.now.mono + CREATION_TIMEOUT;
            let may_create = request.allow_auto_topic_creation && cx.services.config.auto_create;
            let mut seen = HashSet::new();
            let topics = topics.iter().filter(|topic| seen.insert(key(topic)));
            response.topics =
                topics.map(|topic| asked_row(cx, &brokers, topic, may_create.then_some(deadline))).collect();
        }
    }
    if request.include_topic_authorized_operations {
        let found = response.topics.iter_mut().filter(|row| row.error_code == ErrorCode::NONE.code());
        found.for_each(|row| row.topic_authorized_operations = TOPIC_OPERATIONS);
    }
    cx.reply(&response)
}

/// Whether the catalog's memory answers this request.
pub(super) fn is_in_memory(services: &Services, version: i16, request: &MetadataRequest) -> bool {
    let has_id = services.cluster.known_id().is_some();
    has_id
        && asked(version, request).is_some_and(|topics| {
            let known = |topic: &MetadataRequestTopic| {
                topic.topic_id == Uuid::ZERO
                    && topic.name.as_deref().is_some_and(|name| services.catalog.known(name).is_some())
            };
            topics.iter().all(known)
        })
}

/// The topics asked for; `None`: all.
fn asked(version: i16, request: &MetadataRequest) -> Option<&[MetadataRequestTopic]> {
    request.topics.as_deref().filter(|topics| version >= 1 || !topics.is_empty())
}

/// What a topic is asked for by: an id, whatever name stands beside it.
fn key(topic: &MetadataRequestTopic) -> (Uuid, Option<&str>) {
    (topic.topic_id, topic.name.as_deref().filter(|_| topic.topic_id == Uuid::ZERO))
}

fn broker_row(broker: &Broker) -> MetadataResponseBroker {
    MetadataResponseBroker { node_id: broker.id, host: broker.host.clone(), port: i32::from(broker.port), rack: None }
}

/// One topic of the request; `create_by` is the deadline for making it, if it may be made.
fn asked_row(
    cx: &Context,
    brokers: &[Broker],
    asked: &MetadataRequestTopic,
    create_by: Option<Instant>,
) -> MetadataResponseTopic {
    if asked.topic_id != Uuid::ZERO {
        if cx.header.api_version < TOPIC_IDS_SINCE {
            return refusal(asked.name.clone().or_else(no_name), asked.topic_id, ErrorCode::INVALID_REQUEST);
        }
        return match cx.topic_by_id(&asked.topic_id) {
            Ok(Some(topic)) => row(brokers, &topic),
            Ok(None) => refusal(None, asked.topic_id, ErrorCode::UNKNOWN_TOPIC_ID),
            Err(_) => refusal(None, asked.topic_id, ErrorCode::LEADER_NOT_AVAILABLE),
        };
    }
    let Some(name) = &asked.name else {
        let name = if cx.header.api_version < TOPIC_IDS_SINCE { no_name() } else { None };
        return refusal(name, Uuid::ZERO, ErrorCode::INVALID_REQUEST);
    };
    let code = match find_or_create(cx, name, create_by) {
        Ok(topic) => return row(brokers, &topic),
        Err(code) => code,
    };
    MetadataResponseTopic { is_internal: names::is_internal(name), ..refusal(Some(name.clone()), Uuid::ZERO, code) }
}

fn find_or_create(cx: &Context, name: &str, create_by: Option<Instant>) -> Result<Arc<Topic>, ErrorCode> {
    let catalog = &cx.services.catalog;
    if names::fault(name).is_some() {
        return Err(ErrorCode::INVALID_TOPIC_EXCEPTION);
    }
    let found = create_by.map_or_else(|| cx.topic(name), |deadline| cx.topic_by(name, deadline));
    match found {
        Ok(Some(topic)) => return Ok(topic),
        Ok(None) => {}
        Err(_) => return Err(ErrorCode::LEADER_NOT_AVAILABLE),
    }
    let deadline = create_by.ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let defaults = catalog.defaults();
    let new = NewTopic {
        name: name.to_owned(),
        partitions: defaults.partitions,
        replicas: defaults.replicas,
        settings: Default::default(),
    };
    match catalog.create(new, deadline) {
        Ok(topic) => Ok(topic),
        // Another was faster; if its topic is not whole yet, the client asks again.
        Err(CreateTopicError::Exists(_)) => catalog.topic(name).ok().flatten().ok_or(ErrorCode::LEADER_NOT_AVAILABLE),
        Err(error) => {
            if let Some(held_back) = cx.services.uncreated_brake.pass(cx.services.clock.now().mono) {
                warn!(cx.services.logger, "a topic could not be created";
                    "topic" => name, "error" => %error, "held_back" => held_back);
            }
            match error {
                CreateTopicError::Store(_) => Err(ErrorCode::LEADER_NOT_AVAILABLE),
                _ => Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            }
        }
    }
}

fn row(brokers: &[Broker], topic: &Topic) -> MetadataResponseTopic {
    let partition = |partition_index: i32| {
        let leader = Cluster::leader(brokers, topic.id, partition_index);
        let error = if leader.is_some() { ErrorCode::NONE } else { ErrorCode::LEADER_NOT_AVAILABLE };
        MetadataResponsePartition {
            error_code: error.code(),
            partition_index,
            leader_id: leader.unwrap_or(-1),
            leader_epoch: 0,
            replica_nodes: leader.into_iter().collect(),
            isr_nodes: leader.into_iter().collect(),
            offline_replicas: Vec::new(),
        }
    };
    MetadataResponseTopic {
        error_code: ErrorCode::NONE.code(),
        name: Some(topic.name.clone()),
        topic_id: topic.id,
        is_internal: names::is_internal(&topic.name),
        partitions: (0..).zip(&topic.partitions).map(|(index, _)| partition(index)).collect(),
        ..Default::default()
    }
}

fn refusal(name: Option<String>, topic_id: Uuid, code: ErrorCode) -> MetadataResponseTopic {
    MetadataResponseTopic { error_code: code.code(), name, topic_id, ..Default::default() }
}

/// What stands for a name that was not given, in versions without null.
fn no_name() -> Option<String> {
    Some(String::new())
}
