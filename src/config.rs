//! The command line: every flag, its environment variable, and what makes a value good.

use std::path::PathBuf;
use std::time::Duration;

/// The settings the gateway runs with, checked. Made by `Config::from_args`.
#[derive(Clone, Debug)]
pub struct Config {
    /// NATS server URLs, tried in order.
    pub pubsub_urls: Vec<String>,
    pub host: String,
    pub port: u16,
    pub admin_host: String,
    pub admin_port: u16,
    /// What clients are told: never a wildcard address.
    pub advertised_host: String,
    pub advertised_port: u16,
    pub node_id: i32,
    /// JetStream replicas of new streams and buckets: 1, 3 or 5.
    pub replicas: u32,
    pub retention: Limit,
    pub retention_bytes: Limit,
    pub workers: usize,
    pub default_partitions: i32,
    pub auto_create: bool,
    /// Accept a replication factor above what the store can do, instead of answering 38.
    pub accept_any_replication_factor: bool,
    pub embedded: Option<Embedded>,
    pub credentials: Option<PathBuf>,
    pub max_connections: usize,
    pub connections_max_idle: Duration,
    pub log_format: LogFormat,
    pub log_level: slog::Level,
    pub groups: GroupConfig,
}

/// A limit that can be lifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Milliseconds or bytes.
    At(i64),
    None,
}

#[derive(Clone, Debug)]
pub struct Embedded {
    pub data_dir: PathBuf,
    /// Found on PATH, or where `make` put it, if `None`.
    pub nats_server: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Logfmt,
    Json,
}

/// Group coordinator settings, with Kafka's names and defaults.
#[derive(Clone, Debug)]
pub struct GroupConfig {
    pub initial_rebalance_delay: Duration,
    pub session_timeout_min: Duration,
    pub session_timeout_max: Duration,
    pub size_max: usize,
    pub offset_metadata_bytes_max: usize,
    /// How long committed offsets are kept after their group became empty.
    pub offsets_retention: Duration,
}

impl Default for GroupConfig {
    fn default() -> Self {
        GroupConfig {
            initial_rebalance_delay: Duration::from_secs(3),
            session_timeout_min: Duration::from_secs(6),
            session_timeout_max: Duration::from_secs(30 * 60),
            size_max: usize::MAX,
            offset_metadata_bytes_max: 4096,
            offsets_retention: Duration::from_secs(7 * 24 * 3600),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            pubsub_urls: vec!["nats://localhost:4222".to_owned()],
            host: "0.0.0.0".to_owned(),
            port: 9092,
            admin_host: "127.0.0.1".to_owned(),
            admin_port: 9093,
            advertised_host: "localhost".to_owned(),
            advertised_port: 9092,
            node_id: 1,
            replicas: 1,
            retention: Limit::At(168 * 3600 * 1000),
            retention_bytes: Limit::At(256 * 1024 * 1024),
            workers: 16,
            default_partitions: 1,
            auto_create: true,
            accept_any_replication_factor: false,
            embedded: None,
            credentials: None,
            max_connections: 10_000,
            connections_max_idle: Duration::from_secs(600),
            log_format: LogFormat::Logfmt,
            log_level: slog::Level::Info,
            groups: GroupConfig::default(),
        }
    }
}
