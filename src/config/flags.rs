//! The flags as they are written, each with its help and its environment variable.

use super::LogFormat;
use super::values::{duration, log_format, log_level, number, on_or_off, port};
use std::path::PathBuf;
use std::time::Duration;
use structopt::StructOpt;
use structopt::clap::AppSettings;

/// The flags as they are written. Those that may stand in an alternate variable, or are on or off, are filled from the
/// environment by `Config::check`.
#[derive(StructOpt, Debug)]
#[structopt(
    name = "hanzo-kafka",
    about = "A stateless gateway that makes NATS JetStream speak the Kafka protocol.",
    global_settings = &[AppSettings::UnifiedHelpMessage, AppSettings::DeriveDisplayOrder, AppSettings::NextLineHelp],
    setting = AppSettings::AllowNegativeNumbers
)]
pub(super) struct Args {
    /// The NATS servers, several with commas between
    #[structopt(long, value_name = "URL", env = "HANZO_KAFKA_PUBSUB_URL", hide_env_values = true)]
    pub pubsub_url: Option<String>,

    /// Logs in to NATS with a credentials file (.creds)
    #[structopt(
        long,
        value_name = "FILE",
        env = "HANZO_KAFKA_NATS_CREDS",
        hide_env_values = true,
        alias = "credentials"
    )]
    pub nats_creds: Option<PathBuf>,

    /// Logs in to NATS with the nkey whose seed is in this file
    #[structopt(long, value_name = "FILE", env = "HANZO_KAFKA_NATS_NKEY", hide_env_values = true)]
    pub nats_nkey: Option<PathBuf>,

    /// Logs in to NATS as this user, with the password in --nats-password-file or HANZO_KAFKA_NATS_PASSWORD
    #[structopt(long, value_name = "NAME", env = "HANZO_KAFKA_NATS_USER", hide_env_values = true)]
    pub nats_user: Option<String>,

    /// The file with the password of --nats-user
    #[structopt(long, value_name = "FILE", env = "HANZO_KAFKA_NATS_PASSWORD_FILE", hide_env_values = true)]
    pub nats_password_file: Option<PathBuf>,

    /// Logs in to NATS with the token in this file [or in the variable HANZO_KAFKA_NATS_TOKEN]
    #[structopt(long, value_name = "FILE", env = "HANZO_KAFKA_NATS_TOKEN_FILE", hide_env_values = true)]
    pub nats_token_file: Option<PathBuf>,

    /// Runs a nats-server of its own, with its data below --data-dir [env: HANZO_KAFKA_EMBEDDED=true]
    #[structopt(long)]
    pub embedded: bool,

    /// Where --embedded keeps its data [default: ./data]
    #[structopt(long, value_name = "DIR", env = "HANZO_KAFKA_DATA_DIR", hide_env_values = true)]
    pub data_dir: Option<PathBuf>,

    /// The nats-server for --embedded [default: the one on PATH]
    #[structopt(long, value_name = "FILE", env = "HANZO_KAFKA_NATS_SERVER", hide_env_values = true)]
    pub nats_server: Option<PathBuf>,

    /// Address or name to listen on for Kafka clients
    #[structopt(
        long,
        value_name = "HOST",
        env = "HANZO_KAFKA_HOST",
        default_value = "localhost",
        hide_env_values = true
    )]
    pub host: String,

    /// Port to listen on for Kafka clients
    #[structopt(
        long, value_name = "PORT", env = "HANZO_KAFKA_PORT", default_value = "9092", hide_env_values = true,
        parse(try_from_str = port)
    )]
    pub port: u16,

    /// What clients are told to connect to [default: --host and --port]
    #[structopt(long, value_name = "HOST:PORT", env = "HANZO_KAFKA_ADVERTISE", hide_env_values = true)]
    pub advertise: Option<String>,

    /// Address to listen on for admin and health checks
    #[structopt(
        long,
        value_name = "HOST",
        env = "HANZO_KAFKA_ADMIN_HOST",
        default_value = "127.0.0.1",
        hide_env_values = true
    )]
    pub admin_host: String,

    /// Port to listen on for admin and health checks
    #[structopt(
        long, value_name = "PORT", env = "HANZO_KAFKA_ADMIN_PORT", default_value = "9093", hide_env_values = true,
        parse(try_from_str = port)
    )]
    pub admin_port: u16,

    /// The broker id that clients see [default: given out once for each advertised address]
    #[structopt(long, value_name = "ID", env = "HANZO_KAFKA_NODE_ID", hide_env_values = true, parse(try_from_str = number))]
    pub node_id: Option<i32>,

    /// JetStream replicas of new topics: 1, 3 or 5
    #[structopt(long, value_name = "N", env = "HANZO_KAFKA_REPLICAS", default_value = "1", hide_env_values = true, parse(try_from_str = number))]
    pub replicas: u32,

    /// How long records of new topics are kept: 0 is the default of 168h, -1 for ever
    #[structopt(long, value_name = "TIME", env = "HANZO_KAFKA_RETENTION", hide_env_values = true)]
    pub retention: Option<String>,

    /// How much each partition of new topics keeps: 0 is the default of 256MiB, -1 no limit
    #[structopt(long, value_name = "BYTES", env = "HANZO_KAFKA_RETENTION_BYTES", hide_env_values = true)]
    pub retention_bytes: Option<String>,

    /// Partitions of topics that are created without a number
    #[structopt(
        long,
        value_name = "N",
        env = "HANZO_KAFKA_DEFAULT_PARTITIONS",
        default_value = "1",
        hide_env_values = true, parse(try_from_str = number))]
    pub default_partitions: i32,

    /// Whether a topic that is produced to or asked for is created: true or false
    #[structopt(
        long, value_name = "BOOL", env = "HANZO_KAFKA_AUTO_CREATE", default_value = "true", hide_env_values = true,
        parse(try_from_str = on_or_off)
    )]
    pub auto_create: bool,

    /// Takes any replication factor, as far as the store can do it; Kafka refuses one above its brokers
    /// [env: HANZO_KAFKA_ACCEPT_ANY_REPLICATION_FACTOR=true]
    #[structopt(long)]
    pub accept_any_replication_factor: bool,

    /// Worker threads [default: 4 for each processor, at least 8]
    #[structopt(long, value_name = "N", env = "HANZO_KAFKA_WORKERS", hide_env_values = true, parse(try_from_str = number))]
    pub workers: Option<usize>,

    /// Connections above this many are turned away
    #[structopt(
        long,
        value_name = "N",
        env = "HANZO_KAFKA_MAX_CONNECTIONS",
        default_value = "10000",
        hide_env_values = true, parse(try_from_str = number))]
    pub max_connections: usize,

    /// A connection without a request is closed after this
    #[structopt(
        long, value_name = "TIME", env = "HANZO_KAFKA_CONNECTIONS_MAX_IDLE", default_value = "10m",
        hide_env_values = true, parse(try_from_str = duration)
    )]
    pub connections_max_idle: Duration,

    /// How long the first join of a group waits for others
    #[structopt(
        long, value_name = "TIME", env = "HANZO_KAFKA_GROUP_INITIAL_REBALANCE_DELAY", default_value = "3s",
        hide_env_values = true, parse(try_from_str = duration)
    )]
    pub group_initial_rebalance_delay: Duration,

    /// The shortest session timeout a group member may ask for
    #[structopt(
        long, value_name = "TIME", env = "HANZO_KAFKA_GROUP_MIN_SESSION_TIMEOUT", default_value = "6s",
        hide_env_values = true, parse(try_from_str = duration)
    )]
    pub group_min_session_timeout: Duration,

    /// The longest session timeout a group member may ask for
    #[structopt(
        long, value_name = "TIME", env = "HANZO_KAFKA_GROUP_MAX_SESSION_TIMEOUT", default_value = "30m",
        hide_env_values = true, parse(try_from_str = duration)
    )]
    pub group_max_session_timeout: Duration,

    /// The most members of a group [default: no limit]
    #[structopt(long, value_name = "N", env = "HANZO_KAFKA_GROUP_MAX_SIZE", hide_env_values = true, parse(try_from_str = number))]
    pub group_max_size: Option<usize>,

    /// The most metadata bytes in a committed offset
    #[structopt(
        long,
        value_name = "N",
        env = "HANZO_KAFKA_OFFSET_METADATA_MAX_BYTES",
        default_value = "4096",
        hide_env_values = true, parse(try_from_str = number))]
    pub offset_metadata_max_bytes: usize,

    /// How long the offsets of a group without members are kept
    #[structopt(
        long, value_name = "TIME", env = "HANZO_KAFKA_OFFSETS_RETENTION", default_value = "7d",
        hide_env_values = true, parse(try_from_str = duration)
    )]
    pub offsets_retention: Duration,

    /// How log lines are written to stderr: logfmt or json
    #[structopt(
        long, value_name = "FORMAT", env = "HANZO_KAFKA_LOG_FORMAT", default_value = "logfmt", hide_env_values = true,
        parse(try_from_str = log_format)
    )]
    pub log_format: LogFormat,

    /// The least important log lines that are written: error, warn, info, debug or trace
    #[structopt(
        long, value_name = "LEVEL", env = "HANZO_KAFKA_LOG_LEVEL", default_value = "info", hide_env_values = true,
        parse(try_from_str = log_level)
    )]
    pub log_level: slog::Level,

    /// A request that takes longer is logged with where its time went: 0 for none. What it waited for other clients
    /// (for records, for a group's members) does not count
    #[structopt(long, value_name = "MS", env = "HANZO_KAFKA_SLOW_REQUEST_MS", default_value = "1000", hide_env_values = true, parse(try_from_str = number))]
    pub slow_request_ms: u64,
}
