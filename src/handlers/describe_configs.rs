//! DescribeConfigs: settings of topics and brokers.
//!
//! Behavior:
//! - A topic shows every setting Kafka knows, given ones with source DYNAMIC_TOPIC_CONFIG, the gateway's own defaults
//!   (retention, largest message) as STATIC_BROKER_CONFIG where they differ from Kafka's, the rest as DEFAULT_CONFIG.
//! - A broker shows the settings that have a meaning here, all read-only; the cluster-wide dynamic ones (empty name),
//!   loggers, client metrics and groups are empty lists: nothing can be set there.
//! - A name in the filter that is not known is left out.
//!
//! Version notes: types and documentation since 3 (KIP-569).

use super::errors::for_admin;
use super::{Context, Outcome};
use crate::catalog::settings::{Kind, SETTINGS, Setting};
use crate::catalog::{CatalogDefaults, TopicSettings, names};
use crate::config::{Config, Limit};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResponse,
    DescribeConfigsResult, DescribeConfigsSynonym,
};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const BROKER_LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;
const GROUP: i8 = 32;

const SOURCE_TOPIC: i8 = 1;
const SOURCE_STATIC_BROKER: i8 = 4;
const SOURCE_DEFAULT: i8 = 5;

type Refusal = (ErrorCode, String);

/// One setting as it stands.
pub(super) struct Entry {
    pub name: &'static str,
    pub value: String,
    pub source: i8,
    kind: Kind,
    documentation: &'static str,
    read_only: bool,
    /// Name, value and source, the one that holds first.
    synonyms: Vec<(&'static str, String, i8)>,
}

pub fn handle(cx: &Context, request: DescribeConfigsRequest) -> Outcome {
    let results = request.resources.iter().map(|resource| match entries(cx, resource) {
        Ok(entries) => DescribeConfigsResult {
            resource_type: resource.resource_type,
            resource_name: resource.resource_name.clone(),
            configs: entries
                .into_iter()
                .filter(|entry| is_wanted(resource, entry.name))
                .map(|entry| result(entry, request.include_synonyms, request.include_documentation))
                .collect(),
            ..Default::default()
        },
        Err((code, text)) => DescribeConfigsResult {
            error_code: code.code(),
            error_message: Some(text),
            resource_type: resource.resource_type,
            resource_name: resource.resource_name.clone(),
            configs: Vec::new(),
        },
    });
    cx.reply(&DescribeConfigsResponse { results: results.collect(), ..Default::default() })
}

/// All settings of a topic, in the order of their names.
pub(super) fn topic_entries<'a>(
    settings: &'a TopicSettings,
    defaults: &'a CatalogDefaults,
) -> impl Iterator<Item = Entry> + 'a {
    SETTINGS.iter().map(move |setting| topic_entry(setting, settings, defaults))
}

fn entries(cx: &Context, resource: &DescribeConfigsResource) -> Result<Vec<Entry>, Refusal> {
    let invalid = |text: String| Err((ErrorCode::INVALID_REQUEST, text));
    let name = resource.resource_name.as_str();
    match resource.resource_type {
        TOPIC => {
            if let Some(fault) = names::fault(name) {
                return Err((ErrorCode::INVALID_TOPIC_EXCEPTION, fault));
            }
            let catalog = &cx.services.catalog;
            let topic = catalog.topic(name).map_err(|e| (for_admin(&e), e.to_string()))?;
            let missing = || (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, format!("There is no topic {name}."));
            Ok(topic_entries(&topic.ok_or_else(missing)?.settings, &catalog.defaults()).collect())
        }
        BROKER if name.is_empty() => Ok(Vec::new()),
        BROKER | BROKER_LOGGER => match name.parse::<i32>() {
            Ok(id) if !cx.services.cluster.brokers().iter().any(|broker| broker.id == id) => {
                invalid(format!("There is no broker with id {id}."))
            }
            Ok(id) if resource.resource_type == BROKER => Ok(broker_entries(id, &cx.services.config, cx)),
            Ok(_) => Ok(Vec::new()),
            Err(_) => invalid(format!("Broker id must be an integer, but it is: {name}")),
        },
        CLIENT_METRICS | GROUP if name.is_empty() => invalid("The resource name must not be empty.".to_owned()),
        CLIENT_METRICS | GROUP => Ok(Vec::new()),
        other => invalid(format!("Unexpected resource type {other} for resource {name}")),
    }
}

fn is_wanted(resource: &DescribeConfigsResource, name: &str) -> bool {
    match resource.configuration_keys.as_deref() {
        None | Some([]) => true,
        Some(keys) => keys.iter().any(|key| key == name),
    }
}

fn topic_entry(setting: &Setting, settings: &TopicSettings, defaults: &CatalogDefaults) -> Entry {
    let default = setting.default_value(defaults);
    let mut synonyms = Vec::new();
    let given = settings.given.get(setting.name);
    if let Some(value) = given {
        synonyms.push((setting.name, value.clone(), SOURCE_TOPIC));
    }
    if let Some(broker_name) = setting.broker_name {
        if default != setting.default_value(&CatalogDefaults::default()) {
            synonyms.push((broker_name, default.clone(), SOURCE_STATIC_BROKER));
        }
        synonyms.push((broker_name, setting.default_value(&CatalogDefaults::default()), SOURCE_DEFAULT));
    }
    // A stream keeps the limits it was made with; one that is never cleaned by age or size has none to show.
    let value = match (given, setting.name) {
        (Some(value), _) => value.clone(),
        (None, "retention.ms") if !settings.compacted => settings.retention_ms.to_string(),
        (None, "retention.bytes") if !settings.compacted => settings.retention_bytes.to_string(),
        (None, _) => default,
    };
    Entry {
        name: setting.name,
        value,
        source: synonyms.first().map_or(SOURCE_DEFAULT, |(_, _, source)| *source),
        kind: setting.kind,
        documentation: setting.documentation,
        read_only: false,
        synonyms,
    }
}

fn result(entry: Entry, with_synonyms: bool, with_documentation: bool) -> DescribeConfigsResourceResult {
    let synonym = |(name, value, source): (&str, String, i8)| DescribeConfigsSynonym {
        name: name.to_owned(),
        value: Some(value),
        source,
    };
    DescribeConfigsResourceResult {
        name: entry.name.to_owned(),
        value: Some(entry.value),
        read_only: entry.read_only,
        config_source: entry.source,
        is_sensitive: false,
        synonyms: if with_synonyms { entry.synonyms.into_iter().map(synonym).collect() } else { Vec::new() },
        config_type: entry.kind.id(),
        documentation: with_documentation.then(|| entry.documentation.to_owned()),
    }
}

/// The broker settings that have a meaning here, in the order of their names.
fn broker_entries(id: i32, config: &Config, cx: &Context) -> Vec<Entry> {
    use Kind::{Boolean, Int, List, Long, String as Text};
    let defaults = cx.services.catalog.defaults();
    let listener = |host: &str, port: u16| match host.contains(':') {
        true => format!("PLAINTEXT://[{host}]:{port}"),
        false => format!("PLAINTEXT://{host}:{port}"),
    };
    let limit = |limit: Limit| match limit {
        Limit::At(value) => value.to_string(),
        Limit::None => "-1".to_owned(),
    };
    let millis = |duration: std::time::Duration| duration.as_millis().to_string();
    let groups = &config.groups;
    let group_size = i32::try_from(groups.size_max).unwrap_or(i32::MAX).to_string();
    let offsets_retention = (groups.offsets_retention.as_secs() / 60).to_string();
    let advertised = listener(&config.advertised_host, config.advertised_port);
    let row = |name: &'static str, kind: Kind, value: String, default: &str, documentation: &'static str| {
        let source = if value == default { SOURCE_DEFAULT } else { SOURCE_STATIC_BROKER };
        let mut synonyms = vec![(name, value.clone(), source)];
        if source == SOURCE_STATIC_BROKER && !default.is_empty() {
            synonyms.push((name, default.to_owned(), SOURCE_DEFAULT));
        }
        Entry { name, value, source, kind, documentation, read_only: true, synonyms }
    };
    let text = str::to_owned;
    vec![
        row("advertised.listeners", Text, advertised, "", "The address that clients are told."),
        row(
            "auto.create.topics.enable",
            Boolean,
            config.auto_create.to_string(),
            "true",
            "Whether asking for the metadata of a topic may create it.",
        ),
        row("broker.id", Int, id.to_string(), "", "The id of this broker."),
        row(
            "compression.type",
            Text,
            text("producer"),
            "producer",
            "Batches are stored as their producers compressed them.",
        ),
        row(
            "default.replication.factor",
            Int,
            defaults.replicas.to_string(),
            "1",
            "JetStream replicas of topics created without a replication factor.",
        ),
        row("delete.topic.enable", Boolean, text("true"), "true", "Topics can be deleted."),
        row(
            "group.initial.rebalance.delay.ms",
            Int,
            millis(groups.initial_rebalance_delay),
            "3000",
            "How long the first rebalance of an empty group waits for more members.",
        ),
        row(
            "group.max.session.timeout.ms",
            Int,
            millis(groups.session_timeout_max),
            "1800000",
            "The longest session timeout a member may ask for.",
        ),
        row("group.max.size", Int, group_size, "2147483647", "The most members of one group."),
        row(
            "group.min.session.timeout.ms",
            Int,
            millis(groups.session_timeout_min),
            "6000",
            "The shortest session timeout a member may ask for.",
        ),
        row(
            "listeners",
            Text,
            listener(&config.host, config.port),
            "PLAINTEXT://:9092",
            "The address that is listened on.",
        ),
        row(
            "log.cleanup.policy",
            List,
            text("delete"),
            "delete",
            "What becomes of old records of topics that say nothing else.",
        ),
        row(
            "log.message.timestamp.type",
            Text,
            text("CreateTime"),
            "CreateTime",
            "Whose clock stamps records of topics that say nothing else.",
        ),
        row(
            "log.retention.bytes",
            Long,
            limit(config.retention_bytes),
            "-1",
            "Bytes a partition may hold before its oldest records go.",
        ),
        row(
            "log.retention.ms",
            Long,
            limit(config.retention),
            "604800000",
            "How long records are kept, in milliseconds.",
        ),
        row(
            "max.connections",
            Int,
            config.max_connections.to_string(),
            "2147483647",
            "The most connections at a time.",
        ),
        row(
            "message.max.bytes",
            Int,
            defaults.message_bytes_max().to_string(),
            "1048588",
            "The largest batch taken, in bytes.",
        ),
        row("min.insync.replicas", Int, text("1"), "1", "JetStream always asks a majority of the replicas."),
        row("node.id", Int, id.to_string(), "", "The id of this broker."),
        row(
            "num.partitions",
            Int,
            defaults.partitions.to_string(),
            "1",
            "Partitions of topics created without a count.",
        ),
        row(
            "offset.metadata.max.bytes",
            Int,
            groups.offset_metadata_bytes_max.to_string(),
            "4096",
            "The longest text committed with an offset.",
        ),
        row(
            "offsets.retention.minutes",
            Int,
            offsets_retention,
            "10080",
            "How long offsets are kept after their group became empty.",
        ),
    ]
}
