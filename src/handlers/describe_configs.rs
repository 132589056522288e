//! DescribeConfigs: settings of topics and brokers.
//!
//! Behavior:
//! - A topic shows every setting Kafka knows, given ones with source DYNAMIC_TOPIC_CONFIG, the gateway's own defaults
//!   (retention, largest message) as STATIC_BROKER_CONFIG where they differ from Kafka's, the rest as DEFAULT_CONFIG.
//! - A broker shows all settings of Kafka's brokers, all read-only: with the values that hold here, and source
//!   STATIC_BROKER_CONFIG where they are not Kafka's defaults; those without a meaning here as Kafka would have them. There
//!   is one logger, `root`. The cluster-wide dynamic settings (empty name), client metrics and groups are empty lists:
//!   nothing can be set there.
//! - A name in the filter that is not known is left out. A resource has one row, however often it is named.
//!
//! Version notes: types and documentation since 3 (KIP-569).

use super::broker_settings::{BROKER_SETTINGS, BrokerSetting};
use super::errors::for_admin;
use super::incremental_alter_configs::ROOT_LOGGER;
use super::list_config_resources::{BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC};
use super::{Context, Outcome, once};
use crate::catalog::settings::{Kind, SETTINGS, Setting};
use crate::catalog::{CatalogDefaults, TopicSettings, names};
use crate::config::Config;
use crate::limits::{FETCH_BYTES_MAX, FRAME_BYTES_MAX};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResponse,
    DescribeConfigsResult, DescribeConfigsSynonym,
};

const SOURCE_TOPIC: i8 = 1;
const SOURCE_BROKER_LOGGER: i8 = 6;
const SOURCE_STATIC_BROKER: i8 = 4;
const SOURCE_DEFAULT: i8 = 5;

type Refusal = (ErrorCode, String);

/// One setting as it stands.
pub(super) struct Entry {
    pub name: &'static str,
    /// `None`: not set, or not to be told.
    pub value: Option<String>,
    pub source: i8,
    /// Loggers have none.
    kind: Option<Kind>,
    documentation: &'static str,
    read_only: bool,
    sensitive: bool,
    /// Name, value and source, the one that holds first.
    synonyms: Vec<(&'static str, String, i8)>,
}

pub fn handle(cx: &Context, request: DescribeConfigsRequest) -> Outcome {
    let resources = once(request.resources, meant);
    let results = resources.iter().map(|resource| match entries(cx, resource) {
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

/// What a resource's type and name stand for: `3` and `03` are one broker.
fn meant(resource: &DescribeConfigsResource) -> (i8, String) {
    let (kind, name) = (resource.resource_type, &resource.resource_name);
    let id = if matches!(kind, BROKER | BROKER_LOGGER) { name.parse::<i32>().ok() } else { None };
    (kind, id.map_or_else(|| name.clone(), |id| id.to_string()))
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
            let topic = cx.topic(name).map_err(|e| (for_admin(&e), e.to_string()))?;
            let missing = || (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, format!("There is no topic {name}."));
            Ok(topic_entries(&topic.ok_or_else(missing)?.settings, &catalog.defaults()).collect())
        }
        BROKER if name.is_empty() => Ok(Vec::new()),
        BROKER | BROKER_LOGGER => match name.parse::<i32>() {
            Ok(id) if !cx.services.cluster.brokers().iter().any(|broker| broker.id == id) => {
                invalid(format!("There is no broker with id {id}."))
            }
            Ok(id) if resource.resource_type == BROKER => Ok(broker_entries(id, cx)),
            Ok(_) => Ok(vec![root_logger(cx)]),
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
        synonyms.push((setting.name, setting.shown(value).into_owned(), SOURCE_TOPIC));
    }
    if let Some(broker_name) = setting.broker_name {
        let kafkas = setting.default_value(&CatalogDefaults::default());
        if default != kafkas {
            synonyms.push((broker_name, default.clone(), SOURCE_STATIC_BROKER));
        }
        if setting.has_broker_default() {
            synonyms.push((broker_name, kafkas, SOURCE_DEFAULT));
        }
    }
    // A stream keeps the limits it was made with; one that is never cleaned by age or size has none to show.
    let value = match (given, setting.name) {
        (Some(value), _) => setting.shown(value).into_owned(),
        (None, "retention.ms") if !settings.never_deleted => settings.retention_ms.to_string(),
        (None, "retention.bytes") if !settings.never_deleted => settings.retention_bytes.to_string(),
        (None, _) => default,
    };
    Entry {
        name: setting.name,
        value: Some(value),
        source: synonyms.first().map_or(SOURCE_DEFAULT, |(_, _, source)| *source),
        kind: Some(setting.kind),
        documentation: setting.documentation,
        read_only: false,
        sensitive: false,
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
        value: entry.value,
        read_only: entry.read_only,
        config_source: entry.source,
        is_sensitive: entry.sensitive,
        synonyms: if with_synonyms { entry.synonyms.into_iter().map(synonym).collect() } else { Vec::new() },
        config_type: entry.kind.map_or(0, Kind::id),
        documentation: with_documentation.then(|| entry.documentation.to_owned()),
    }
}

/// All settings of a broker, in the order of their names.
fn broker_entries(id: i32, cx: &Context) -> Vec<Entry> {
    let present = BrokerValues { id, config: &cx.services.config, defaults: cx.services.catalog.defaults() };
    let entry = |setting: &BrokerSetting| {
        let held = present.value(setting.name);
        let changed = held.as_deref().filter(|value| Some(*value) != setting.default);
        let mut synonyms = Vec::new();
        if let Some(value) = changed {
            synonyms.push((setting.name, value.to_owned(), SOURCE_STATIC_BROKER));
        }
        if let Some(default) = setting.default {
            synonyms.push((setting.name, default.to_owned(), SOURCE_DEFAULT));
        }
        Entry {
            name: setting.name,
            source: if changed.is_some() { SOURCE_STATIC_BROKER } else { SOURCE_DEFAULT },
            documentation: documentation(setting.name),
            kind: Some(setting.kind),
            read_only: true,
            sensitive: setting.is_sensitive(),
            synonyms,
            value: held.or(setting.default.map(str::to_owned)),
        }
    };
    BROKER_SETTINGS.iter().map(entry).collect()
}

/// The logger that all lines go through, with Kafka's name for its level.
fn root_logger(cx: &Context) -> Entry {
    let level = match cx.services.config.log_level {
        slog::Level::Critical => "FATAL",
        slog::Level::Error => "ERROR",
        slog::Level::Warning => "WARN",
        slog::Level::Info => "INFO",
        slog::Level::Debug => "DEBUG",
        slog::Level::Trace => "TRACE",
    };
    Entry {
        name: ROOT_LOGGER,
        value: Some(level.to_owned()),
        source: SOURCE_BROKER_LOGGER,
        kind: None,
        documentation: "The least important log lines that are written: --log-level.",
        read_only: true,
        sensitive: false,
        synonyms: Vec::new(),
    }
}

/// What holds here of a broker's settings.
struct BrokerValues<'a> {
    id: i32,
    config: &'a Config,
    defaults: CatalogDefaults,
}

impl BrokerValues<'_> {
    /// `None`: without a meaning here, or not set.
    fn value(&self, name: &str) -> Option<String> {
        let listener = |host: &str, port: u16| match host.contains(':') {
            true => format!("PLAINTEXT://[{host}]:{port}"),
            false => format!("PLAINTEXT://{host}:{port}"),
        };
        let millis = |duration: std::time::Duration| duration.as_millis().to_string();
        let (config, groups) = (self.config, &self.config.groups);
        let value = match name {
            "advertised.listeners" => listener(&config.advertised_host, config.advertised_port),
            "auto.create.topics.enable" => config.auto_create.to_string(),
            "broker.id" | "node.id" => self.id.to_string(),
            "connections.max.idle.ms" => millis(config.connections_max_idle),
            "default.replication.factor" => self.defaults.replicas.to_string(),
            "fetch.max.bytes" => FETCH_BYTES_MAX.to_string(),
            "group.initial.rebalance.delay.ms" => millis(groups.initial_rebalance_delay),
            "group.max.session.timeout.ms" => millis(groups.session_timeout_max),
            "group.max.size" => i32::try_from(groups.size_max).unwrap_or(i32::MAX).to_string(),
            "group.min.session.timeout.ms" => millis(groups.session_timeout_min),
            "listeners" => listener(&config.host, config.port),
            "log.retention.bytes" => self.defaults.retention_bytes.to_string(),
            "log.retention.ms" => self.defaults.retention_ms.to_string(),
            "max.connections" => i32::try_from(config.max_connections).unwrap_or(i32::MAX).to_string(),
            "message.max.bytes" => self.defaults.message_bytes_max().to_string(),
            "num.io.threads" => config.workers.to_string(),
            "num.partitions" => self.defaults.partitions.to_string(),
            "offset.metadata.max.bytes" => groups.offset_metadata_bytes_max.to_string(),
            "offsets.retention.minutes" => (groups.offsets_retention.as_secs() / 60).to_string(),
            "process.roles" => "broker".to_owned(),
            "socket.request.max.bytes" => FRAME_BYTES_MAX.to_string(),
            _ => return None,
        };
        Some(value)
    }
}

/// What a broker's setting means here.
fn documentation(name: &str) -> &'static str {
    match name {
        "advertised.listeners" => "The address that clients are told: --advertise.",
        "auto.create.topics.enable" => "Whether asking for the metadata of a topic may create it: --auto-create.",
        "broker.id" | "node.id" => "The id of this broker: --node-id.",
        "compression.type" => "How batches are compressed in topics that say nothing else: as their producers did.",
        "connections.max.idle.ms" => "A connection without a request is closed after this: --connections-max-idle.",
        "default.replication.factor" => {
            "JetStream replicas of topics created without a replication factor: --replicas."
        }
        "delete.topic.enable" => "Topics can be deleted.",
        "fetch.max.bytes" => "The most record bytes of one Fetch answer.",
        "group.initial.rebalance.delay.ms" => {
            "How long the first rebalance of an empty group waits for more members: --group-initial-rebalance-delay."
        }
        "group.max.session.timeout.ms" => {
            "The longest session timeout a member may ask for: --group-max-session-timeout."
        }
        "group.max.size" => "The most members of one group: --group-max-size.",
        "group.min.session.timeout.ms" => {
            "The shortest session timeout a member may ask for: --group-min-session-timeout."
        }
        "listeners" => "The address that is listened on: --host and --port.",
        "log.cleanup.policy" => "What becomes of old records of topics that say nothing else.",
        "log.message.timestamp.type" => "Whose clock stamps records of topics that say nothing else.",
        "log.retention.bytes" => "Bytes a partition may hold before its oldest records go: --retention-bytes.",
        "log.retention.ms" => "How long records are kept, in milliseconds: --retention.",
        "max.connections" => "The most connections at a time: --max-connections.",
        "message.max.bytes" => "The largest batch taken, in bytes; the server's max_payload bounds it.",
        "min.insync.replicas" => "Stored and shown for topics: JetStream always asks a majority of the replicas.",
        "num.io.threads" => "Worker threads: --workers.",
        "num.partitions" => "Partitions of topics created without a count: --default-partitions.",
        "offset.metadata.max.bytes" => "The longest text committed with an offset: --offset-metadata-max-bytes.",
        "offsets.retention.minutes" => "How long offsets are kept after their group became empty: --offsets-retention.",
        "process.roles" => "A gateway is a broker; JetStream does what controllers do.",
        "socket.request.max.bytes" => "The largest request frame taken.",
        _ => "A setting of Apache Kafka's brokers, told with Kafka's default. It has no effect in this gateway.",
    }
}
