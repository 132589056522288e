//! The command line: every flag, its environment variable, and what makes a value good.

mod flags;
pub mod help;
mod values;

use flags::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use structopt::StructOpt;
use structopt::clap::{Error, ErrorKind};
use values::{host_port, is_wildcard, limit_bytes, limit_duration, nats_url, on_or_off};

/// The settings the gateway runs with, checked. Made by `Config::from_args` from the command line and the environment.
#[derive(Clone, Debug)]
pub struct Config {
    /// NATS server URLs, tried in order.
    pub pubsub_urls: Vec<String>,
    /// Where the Kafka port is bound; a name stands for all of its addresses. An IPv6 address has no brackets, here and below.
    pub host: String,
    pub port: u16,
    pub admin_host: String,
    pub admin_port: u16,
    /// What clients are told: never a wildcard address.
    pub advertised_host: String,
    pub advertised_port: u16,
    /// The broker id that clients see; `None`: given out, and kept for the advertised address.
    pub node_id: Option<i32>,
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
    pub nats_login: NatsLogin,
    pub max_connections: usize,
    /// A connection without a request is closed after this, as Kafka's `connections.max.idle.ms`.
    pub connections_max_idle: Duration,
    pub log_format: LogFormat,
    pub log_level: slog::Level,
    /// A request that takes longer is logged; zero: none is.
    pub slow_request: Duration,
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

/// How the gateway logs in to NATS. Files are read at every attempt, so that what they hold may be replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NatsLogin {
    /// As the URLs say, if they say anything.
    #[default]
    InUrls,
    /// A `.creds` file.
    Credentials(PathBuf),
    /// A file with an nkey's seed.
    Nkey(PathBuf),
    Password {
        user: String,
        password: Secret,
    },
    Token(Secret),
}

/// Never shown.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    Text(String),
    File(PathBuf),
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Secret::Text(_) => f.write_str("…"),
            Secret::File(path) => path.fmt(f),
        }
    }
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
            host: "localhost".to_owned(),
            port: 9092,
            admin_host: "127.0.0.1".to_owned(),
            admin_port: 9093,
            advertised_host: "localhost".to_owned(),
            advertised_port: 9092,
            node_id: None,
            replicas: 1,
            retention: Limit::At(168 * 3600 * 1000),
            retention_bytes: Limit::At(256 * 1024 * 1024),
            workers: 16,
            default_partitions: 1,
            auto_create: true,
            accept_any_replication_factor: false,
            embedded: None,
            nats_login: NatsLogin::default(),
            max_connections: 10_000,
            connections_max_idle: Duration::from_secs(600),
            log_format: LogFormat::Logfmt,
            log_level: slog::Level::Info,
            slow_request: Duration::from_secs(1),
            groups: GroupConfig::default(),
        }
    }
}

/// The fewest worker threads: blocking store calls hold workers, however few processors there are.
const WORKERS_MIN_DEFAULT: usize = 8;

impl Config {
    /// The configuration of this process. A bad value, `--help` and `--version` end the process.
    pub fn from_args() -> Config {
        Self::parse(std::env::args_os(), |name| std::env::var(name).ok()).unwrap_or_else(|error| error.exit())
    }

    /// `args` with the program's name first; `variable` looks up what clap does not.
    fn parse(
        args: impl IntoIterator<Item = OsString>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Config, Error> {
        let help = help::help();
        let args = Args::from_clap(&Args::clap().help(help.as_str()).get_matches_from_safe(args)?);
        Self::check(args, variable).map_err(|text| Error::with_description(&text, ErrorKind::ValueValidation))
    }

    fn check(args: Args, variable: impl Fn(&str) -> Option<String>) -> Result<Config, String> {
        let defaults = Config::default();
        let (advertised_host, advertised_port) = advertised(&args)?;
        let nats_login = nats_login(&args, &variable)?;
        let retention = args.retention.or_else(|| variable("CLOUD_KAFKA_RETENTION"));
        let retention_bytes = args.retention_bytes.or_else(|| variable("CLOUD_KAFKA_RETENTION_BYTES"));
        let embedded = is_on(args.embedded, "HANZO_KAFKA_EMBEDDED", &variable)?;
        let any_factor = "HANZO_KAFKA_ACCEPT_ANY_REPLICATION_FACTOR";
        if embedded && args.pubsub_url.is_some() {
            return Err("--embedded runs a nats-server of its own: leave --pubsub-url away, or --embedded".to_owned());
        }
        if !embedded && (args.data_dir.is_some() || args.nats_server.is_some()) {
            return Err("--data-dir and --nats-server are for --embedded only: add it, or leave them away".to_owned());
        }
        let (host, admin_host) = (bare(&args.host), bare(&args.admin_host));
        if args.admin_port == args.port && same_place(&admin_host, &host) {
            return Err(format!("--admin-port {0}: --port is {0} too, choose another", args.port));
        }
        expect(matches!(args.replicas, 1 | 3 | 5), "--replicas", args.replicas, "JetStream has 1, 3 or 5")?;
        if let Some(id) = args.node_id {
            expect(id >= 0, "--node-id", id, "0 or more is needed")?;
        }
        expect(args.default_partitions >= 1, "--default-partitions", args.default_partitions, "at least 1 is needed")?;
        expect(args.max_connections >= 1, "--max-connections", args.max_connections, "at least 1 is needed")?;
        let workers = args.workers.unwrap_or_else(default_workers);
        expect((2..=4096).contains(&workers), "--workers", workers, "between 2 and 4096 are possible")?;
        let idle = args.connections_max_idle;
        expect(!idle.is_zero(), "--connections-max-idle", "0", "more than nothing is needed")?;
        if args.group_min_session_timeout > args.group_max_session_timeout {
            return Err("--group-min-session-timeout is above --group-max-session-timeout: lower it".to_owned());
        }
        Ok(Config {
            pubsub_urls: match args.pubsub_url {
                Some(urls) => nats_urls(&urls)?,
                None => defaults.pubsub_urls,
            },
            host,
            port: args.port,
            admin_host,
            admin_port: args.admin_port,
            advertised_host,
            advertised_port,
            node_id: args.node_id,
            replicas: args.replicas,
            retention: or_default(retention, "--retention", limit_duration, defaults.retention)?,
            retention_bytes: or_default(retention_bytes, "--retention-bytes", limit_bytes, defaults.retention_bytes)?,
            workers,
            default_partitions: args.default_partitions,
            auto_create: args.auto_create,
            accept_any_replication_factor: is_on(args.accept_any_replication_factor, any_factor, &variable)?,
            embedded: embedded.then(|| Embedded {
                data_dir: args.data_dir.unwrap_or_else(|| PathBuf::from("./data")),
                nats_server: args.nats_server,
            }),
            nats_login,
            max_connections: args.max_connections,
            connections_max_idle: args.connections_max_idle,
            log_format: args.log_format,
            log_level: args.log_level,
            slow_request: Duration::from_millis(args.slow_request_ms),
            groups: GroupConfig {
                initial_rebalance_delay: args.group_initial_rebalance_delay,
                session_timeout_min: args.group_min_session_timeout,
                session_timeout_max: args.group_max_session_timeout,
                size_max: args.group_max_size.unwrap_or(defaults.groups.size_max),
                offset_metadata_bytes_max: args.offset_metadata_max_bytes,
                offsets_retention: args.offsets_retention,
            },
        })
    }
}

fn advertised(args: &Args) -> Result<(String, u16), String> {
    let Some(text) = &args.advertise else {
        if is_wildcard(&args.host) {
            return Err(format!(
                "--host {} listens everywhere, but clients need one address: add --advertise HOST:PORT with a host \
                 that they can reach",
                args.host
            ));
        }
        return Ok((bare(&args.host), args.port));
    };
    let (host, port) = host_port(text, args.port).map_err(|why| format!("--advertise {text}: {why}"))?;
    if is_wildcard(&host) {
        return Err(format!("--advertise {text}: no client can connect to that, name a host that they can reach"));
    }
    Ok((host, port))
}

/// An address without the brackets that an IPv6 one may be written with.
fn bare(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').to_owned()
}

fn same_place(one: &str, other: &str) -> bool {
    let is_loopback = |host: &str| matches!(host, "localhost" | "127.0.0.1");
    one == other || is_wildcard(one) || is_wildcard(other) || is_loopback(one) && is_loopback(other)
}

fn nats_urls(text: &str) -> Result<Vec<String>, String> {
    let urls = text.split(',').map(|url| nats_url(url).map_err(|why| format!("--pubsub-url {url}: {why}")));
    urls.collect()
}

/// The one login that was asked for. Passwords and tokens come from files or the environment: everybody on the machine may
/// read a command line.
fn nats_login(args: &Args, variable: &impl Fn(&str) -> Option<String>) -> Result<NatsLogin, String> {
    let secret = |file: &Option<PathBuf>, name: &str| {
        let text = variable(name).filter(|text| !text.is_empty()).map(Secret::Text);
        file.clone().map(Secret::File).or(text)
    };
    let credentials = args.nats_creds.clone().or_else(|| variable("HANZO_KAFKA_CREDENTIALS").map(PathBuf::from));
    let password = secret(&args.nats_password_file, "HANZO_KAFKA_NATS_PASSWORD");
    let token = secret(&args.nats_token_file, "HANZO_KAFKA_NATS_TOKEN");
    let user = match (args.nats_user.clone(), password) {
        (Some(user), Some(password)) => Some(NatsLogin::Password { user, password }),
        (Some(_), None) => {
            return Err(
                "--nats-user needs a password: add --nats-password-file, or set HANZO_KAFKA_NATS_PASSWORD".to_owned()
            );
        }
        (None, Some(_)) => return Err("a NATS password needs a user: add --nats-user".to_owned()),
        (None, None) => None,
    };
    let logins = [
        credentials.map(NatsLogin::Credentials),
        args.nats_nkey.clone().map(NatsLogin::Nkey),
        user,
        token.map(NatsLogin::Token),
    ];
    let mut logins = logins.into_iter().flatten();
    let login = logins.next().unwrap_or_default();
    match logins.next() {
        Some(_) => {
            Err("NATS takes one login: choose one of --nats-creds, --nats-nkey, --nats-user and a token".to_owned())
        }
        None => Ok(login),
    }
}

fn or_default(
    text: Option<String>,
    flag: &str,
    read: fn(&str) -> Result<Option<Limit>, String>,
    default: Limit,
) -> Result<Limit, String> {
    let Some(text) = text else { return Ok(default) };
    let limit = read(&text).map_err(|why| format!("{flag} {text}: {why}"))?;
    Ok(limit.unwrap_or(default))
}

fn is_on(flag: bool, name: &str, variable: &impl Fn(&str) -> Option<String>) -> Result<bool, String> {
    match variable(name).as_deref() {
        _ if flag => Ok(true),
        None | Some("") => Ok(false),
        Some(text) => on_or_off(text).map_err(|why| format!("{name}: {why}")),
    }
}

fn expect(good: bool, flag: &str, value: impl std::fmt::Display, why: &str) -> Result<(), String> {
    if good { Ok(()) } else { Err(format!("{flag} {value}: {why}")) }
}

fn default_workers() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (processors * 4).max(WORKERS_MIN_DEFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
        let args = std::iter::once("hanzo-kafka").chain(args.split_whitespace()).map(OsString::from);
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Config::parse(args, variable).map_err(|error| error.message)
    }

    #[track_caller]
    fn good(args: &str) -> Config {
        parse(args, &[]).expect("good values")
    }

    /// A refusal names flag and value, in one line.
    #[track_caller]
    fn refused(args: &str, names: &[&str]) {
        let message = parse(args, &[]).expect_err("a bad value");
        assert_eq!(message.trim_end().lines().count(), 1, "{message}");
        names.iter().for_each(|name| assert!(message.contains(name), "{name} is missing in: {message}"));
    }

    #[test]
    fn without_flags_a_newcomer_gets_localhost() {
        let config = good("");
        assert_eq!((config.host.as_str(), config.port), ("localhost", 9092));
        assert_eq!((config.advertised_host.as_str(), config.advertised_port), ("localhost", 9092));
        assert_eq!((config.admin_host.as_str(), config.admin_port), ("127.0.0.1", 9093));
        assert_eq!(config.pubsub_urls, ["nats://localhost:4222"]);
        assert_eq!(config.retention, Limit::At(168 * 3600 * 1000));
        assert_eq!(config.retention_bytes, Limit::At(268_435_456));
        assert!(config.auto_create && config.embedded.is_none() && config.workers >= 8);
    }

    #[test]
    fn what_clients_are_told_is_never_a_wildcard() {
        assert_eq!(good("--host 10.1.2.3 --port 9192").advertised_host, "10.1.2.3");
        assert_eq!(good("--host 10.1.2.3 --port 9192").advertised_port, 9192);
        let config = good("--host 0.0.0.0 --advertise kafka.example.com:443");
        assert_eq!((config.advertised_host.as_str(), config.advertised_port), ("kafka.example.com", 443));
        let config = good("--host :: --advertise [2001:db8::1]");
        assert_eq!((config.advertised_host.as_str(), config.advertised_port), ("2001:db8::1", 9092));
        let config = good("--host [::1] --admin-host [::1]");
        assert_eq!((config.host.as_str(), config.admin_host.as_str()), ("::1", "::1"), "as they are bound");
        assert_eq!(config.advertised_host, "::1");
        assert_eq!(good("--host [::] --advertise kafka:9092").host, "::");
        refused("--host 0.0.0.0", &["--host 0.0.0.0", "--advertise"]);
        refused("--host ::", &["--host ::", "--advertise"]);
        refused("--advertise 0.0.0.0:9092", &["--advertise 0.0.0.0:9092"]);
        refused("--advertise kafka:port", &["--advertise kafka:port"]);
    }

    #[test]
    fn bad_values_are_refused_by_name() {
        refused("--port 0", &["--port", "0"]);
        refused("--port 99999", &["--port", "99999"]);
        refused("--replicas 2", &["--replicas 2"]);
        refused("--retention 12q", &["--retention 12q", "168h"]);
        refused("--retention-bytes 1XB", &["--retention-bytes 1XB", "MiB"]);
        refused("--workers 1", &["--workers 1"]);
        refused("--admin-port 9092", &["--admin-port 9092", "--port"]);
        refused("--connections-max-idle soon", &["--connections-max-idle", "soon"]);
        refused("--node-id one", &["--node-id", "one"]);
        refused("--log-level loud", &["--log-level", "loud", "debug"]);
        refused("--auto-create maybe", &["--auto-create", "maybe", "false"]);
        refused("--default-partitions 0", &["--default-partitions 0"]);
        refused("--pubsub-url http://x", &["--pubsub-url http://x", "nats://"]);
        refused("--embedded --pubsub-url nats://x", &["--embedded", "--pubsub-url"]);
        refused("--nats-user u", &["--nats-user", "--nats-password-file"]);
        refused("--nats-password-file f", &["--nats-user"]);
        refused("--nats-creds c --nats-nkey n", &["--nats-creds", "--nats-nkey"]);
        refused("--data-dir /d", &["--data-dir", "--embedded"]);
        refused("--group-min-session-timeout 1h", &["--group-min-session-timeout", "--group-max-session-timeout"]);
    }

    #[test]
    fn there_is_one_login_and_its_secret_is_not_shown() {
        assert_eq!(good("").nats_login, NatsLogin::InUrls);
        assert_eq!(good("--nats-creds c").nats_login, NatsLogin::Credentials("c".into()));
        assert_eq!(good("--credentials c").nats_login, NatsLogin::Credentials("c".into()));
        assert_eq!(good("--nats-nkey n").nats_login, NatsLogin::Nkey("n".into()));
        let file = Secret::File("p".into());
        let expected = NatsLogin::Password { user: "u".to_owned(), password: file.clone() };
        assert_eq!(good("--nats-user u --nats-password-file p").nats_login, expected);
        assert_eq!(good("--nats-token-file p").nats_login, NatsLogin::Token(file));
        let config = parse("--nats-user u", &[("HANZO_KAFKA_NATS_PASSWORD", "hidden")]).expect("good values");
        let shown = format!("{config:?}");
        assert!(
            matches!(config.nats_login, NatsLogin::Password { password: Secret::Text(text), .. } if text == "hidden")
        );
        assert!(!shown.contains("hidden"), "{shown}");
        let token = parse("", &[("HANZO_KAFKA_NATS_TOKEN", "t")]).expect("good values").nats_login;
        assert_eq!(token, NatsLogin::Token(Secret::Text("t".to_owned())));
    }

    #[test]
    fn limits_can_be_lifted_and_zero_takes_the_default() {
        assert_eq!(good("--retention -1 --retention-bytes -1").retention, Limit::None);
        assert_eq!(good("--retention=-1 --retention-bytes=-1").retention_bytes, Limit::None);
        assert_eq!(good("--retention 0 --retention-bytes 0").retention, Limit::At(168 * 3600 * 1000));
        assert_eq!(good("--retention 90s --retention-bytes 1GiB").retention, Limit::At(90_000));
        assert_eq!(good("--retention-bytes 1GiB").retention_bytes, Limit::At(1 << 30));
    }

    #[test]
    fn the_environment_stands_in_for_flags() {
        let variables = [("CLOUD_KAFKA_RETENTION", "2h"), ("CLOUD_KAFKA_RETENTION_BYTES", "4096")];
        let config = parse("", &variables).expect("good values");
        assert_eq!((config.retention, config.retention_bytes), (Limit::At(7_200_000), Limit::At(4096)));
        let config = parse("--retention 1h", &variables).expect("good values");
        assert_eq!(config.retention, Limit::At(3_600_000), "the flag comes first");
        let config = parse("--data-dir /d", &[("HANZO_KAFKA_EMBEDDED", "true")]).expect("good values");
        assert_eq!(config.embedded.expect("it is on").data_dir, PathBuf::from("/d"));
        assert!(parse("", &[("HANZO_KAFKA_EMBEDDED", "perhaps")]).is_err());
    }
}
