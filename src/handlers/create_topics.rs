//! CreateTopics: creates topics, or only checks whether it could.
//!
//! Behavior:
//! - Each topic is made with all its streams or not at all, whatever becomes of the others.
//! - A replication factor means JetStream replicas: up to `--replicas`, rounded up to 1, 3 or 5. More is refused with
//!   INVALID_REPLICATION_FACTOR, unless an option has it cut to what there is. The answer tells what was made.
//! - A manual assignment may name only live brokers; it tells the number of partitions, and the replicas are the
//!   default's, since any gateway serves any partition.
//! - Rows come in the order of the request, a name that is there twice has one row, with INVALID_REQUEST.
//!
//! Version notes: -1 for "the default" since 4 (KIP-464), settings in the answer since 5 (KIP-525), ids since 7.

use super::describe_configs::topic_entries;
use super::errors::{create_topic_error, for_admin};
use super::{Context, Outcome};
use crate::catalog::{CatalogDefaults, NewTopic, Topic, TopicSettings, names, settings};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfigs, CreatableTopicResult, CreateTopicsRequest,
    CreateTopicsResponse,
};
use crate::store::StoreError;
use crate::wire::Uuid;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::{Duration, Instant};

const TIMEOUT_MIN: Duration = Duration::from_secs(1);
const TIMEOUT_MAX: Duration = Duration::from_secs(60);

/// JetStream's replica counts with a majority of their own.
const REPLICA_COUNTS: [u32; 3] = [1, 3, 5];

type Refusal = (ErrorCode, String);

pub fn handle(cx: &Context, request: CreateTopicsRequest) -> Outcome {
    let timeout = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let deadline = cx.now.mono + timeout.clamp(TIMEOUT_MIN, TIMEOUT_MAX);
    let mut once = HashSet::new();
    let twice: HashSet<&str> =
        request.topics.iter().map(|topic| topic.name.as_str()).filter(|name| !once.insert(*name)).collect();
    let mut answered = HashSet::new();
    let topics = request
        .topics
        .iter()
        .filter(|topic| answered.insert(topic.name.as_str()))
        .map(|topic| {
            let outcome = match twice.contains(topic.name.as_str()) {
                true => Err((ErrorCode::INVALID_REQUEST, "Duplicate topic name.".to_owned())),
                false => create(cx, topic, request.validate_only, deadline),
            };
            outcome.unwrap_or_else(|(code, text)| CreatableTopicResult {
                name: topic.name.clone(),
                error_code: code.code(),
                error_message: Some(text),
                configs: Some(Vec::new()),
                ..Default::default()
            })
        })
        .collect();
    cx.reply(&CreateTopicsResponse { topics, ..Default::default() })
}

fn create(
    cx: &Context,
    asked: &CreatableTopic,
    validate_only: bool,
    deadline: Instant,
) -> Result<CreatableTopicResult, Refusal> {
    let catalog = &cx.services.catalog;
    if let Some(fault) = names::fault(&asked.name) {
        return Err((ErrorCode::INVALID_TOPIC_EXCEPTION, fault));
    }
    if asked.name == "__cluster_metadata" {
        return Err((ErrorCode::INVALID_REQUEST, format!("Creation of internal topic {} is prohibited.", asked.name)));
    }
    let exists = match cx.topic_by(&asked.name, deadline) {
        // It is just being made, or the store is away: the creation itself tells.
        Err(StoreError::Unavailable) if !validate_only => None,
        found => found.map_err(|error| (for_admin(&error), error.to_string()))?,
    };
    if exists.is_some() {
        return Err((ErrorCode::TOPIC_ALREADY_EXISTS, format!("Topic '{}' already exists.", asked.name)));
    }
    let defaults = catalog.defaults();
    let settings = given_settings(asked)?;
    let (partitions, replicas) = counts(cx, asked, &defaults)?;
    let new = NewTopic { name: asked.name.clone(), partitions, replicas, settings };
    catalog.validate(&new).map_err(|error| create_topic_error(&error))?;
    if validate_only {
        let settings = settings::resolve(new.settings, &defaults);
        return Ok(result(&asked.name, Uuid::ZERO, partitions, replicas, &settings, &defaults));
    }
    let topic = catalog.create(new, deadline).map_err(|error| create_topic_error(&error))?;
    Ok(result_of(&topic, replicas, &defaults))
}

fn given_settings(asked: &CreatableTopic) -> Result<BTreeMap<String, String>, Refusal> {
    let nulls: Vec<&str> =
        asked.configs.iter().filter(|config| config.value.is_none()).map(|config| config.name.as_str()).collect();
    if !nulls.is_empty() {
        let text = format!("Null value not supported for topic configs: {}", nulls.join(","));
        return Err((ErrorCode::INVALID_CONFIG, text));
    }
    let pairs = asked.configs.iter().filter_map(|config| Some((config.name.clone(), config.value.clone()?)));
    Ok(pairs.collect())
}

/// Partitions and JetStream replicas.
fn counts(cx: &Context, asked: &CreatableTopic, defaults: &CatalogDefaults) -> Result<(usize, u32), Refusal> {
    if !asked.assignments.is_empty() {
        return Ok((assigned_partitions(cx, asked)?, defaults.replicas));
    }
    let replicas = match asked.replication_factor {
        -1 => defaults.replicas,
        factor => replicas(cx, factor, most_replicas(cx, defaults))?,
    };
    let partitions = match asked.num_partitions {
        -1 => defaults.partitions,
        count => usize::try_from(count).ok().filter(|count| *count > 0).ok_or_else(|| {
            let text = "Number of partitions was set to an invalid non-positive value.".to_owned();
            (ErrorCode::INVALID_PARTITIONS, text)
        })?,
    };
    Ok((partitions, replicas))
}

/// What a cluster can place it says itself, in the answer to the creation.
fn most_replicas(cx: &Context, defaults: &CatalogDefaults) -> u32 {
    let is_cluster = cx.services.store.info().clustered && !cx.services.config.accept_any_replication_factor;
    if is_cluster { REPLICA_COUNTS[REPLICA_COUNTS.len() - 1] } else { defaults.replicas }
}

fn replicas(cx: &Context, factor: i16, most: u32) -> Result<u32, Refusal> {
    let Some(factor) = u32::try_from(factor).ok().filter(|factor| *factor > 0) else {
        let text = "Replication factor must be larger than 0, or -1 to use the default value.".to_owned();
        return Err((ErrorCode::INVALID_REPLICATION_FACTOR, text));
    };
    if factor > most && !cx.services.config.accept_any_replication_factor {
        let text = format!("Unable to replicate the partition {factor} time(s): the store keeps {most} replica(s).");
        return Err((ErrorCode::INVALID_REPLICATION_FACTOR, text));
    }
    let rounded = REPLICA_COUNTS.into_iter().find(|count| *count >= factor).unwrap_or(most);
    Ok(rounded.min(most))
}

fn assigned_partitions(cx: &Context, asked: &CreatableTopic) -> Result<usize, Refusal> {
    let wrong = |text: String| Err((ErrorCode::INVALID_REPLICA_ASSIGNMENT, text));
    if asked.replication_factor != -1 || asked.num_partitions != -1 {
        let text = "With a manual partition assignment, numPartitions and replicationFactor must be -1.".to_owned();
        return Err((ErrorCode::INVALID_REQUEST, text));
    }
    let brokers: Vec<i32> = cx.services.cluster.brokers().iter().map(|broker| broker.id).collect();
    let mut indexes = BTreeSet::new();
    let factor = asked.assignments.first().map_or(0, |first| first.broker_ids.len());
    for CreatableReplicaAssignment { partition_index, broker_ids } in &asked.assignments {
        if !indexes.insert(*partition_index) {
            return wrong(format!("Found multiple manual partition assignments for partition {partition_index}"));
        }
        if broker_ids.is_empty() {
            return wrong("The manual partition assignment includes an empty replica list.".to_owned());
        }
        if broker_ids.iter().collect::<HashSet<_>>().len() != broker_ids.len() {
            return wrong("The manual partition assignment includes a broker more than once.".to_owned());
        }
        if let Some(foreign) = broker_ids.iter().find(|id| !brokers.contains(id)) {
            return wrong(format!(
                "The manual partition assignment includes broker {foreign}, but no such broker is registered."
            ));
        }
        if broker_ids.len() != factor {
            return wrong("The manual partition assignment has different numbers of replicas.".to_owned());
        }
    }
    if !indexes.iter().copied().eq((0..).take(indexes.len())) {
        return wrong("partitions should be a consecutive 0-based integer sequence".to_owned());
    }
    Ok(indexes.len())
}

fn result_of(topic: &Topic, replicas: u32, defaults: &CatalogDefaults) -> CreatableTopicResult {
    result(&topic.name, topic.id, topic.partitions.len(), replicas, &topic.settings, defaults)
}

fn result(
    name: &str,
    topic_id: Uuid,
    partitions: usize,
    replicas: u32,
    settings: &TopicSettings,
    defaults: &CatalogDefaults,
) -> CreatableTopicResult {
    let configs = topic_entries(settings, defaults).map(|entry| CreatableTopicConfigs {
        name: entry.name.to_owned(),
        value: entry.value,
        read_only: false,
        config_source: entry.source,
        is_sensitive: false,
    });
    CreatableTopicResult {
        name: name.to_owned(),
        topic_id,
        num_partitions: i32::try_from(partitions).unwrap_or(i32::MAX),
        replication_factor: i16::try_from(replicas).unwrap_or(i16::MAX),
        configs: Some(configs.collect()),
        ..Default::default()
    }
}
