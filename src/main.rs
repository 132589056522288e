//! The `hanzo-kafka` command: starts everything, says when it is ready, stops it in good order.

use crossbeam_channel::{Receiver, RecvTimeoutError};
use hanzo_kafka::activity::Dump;
use hanzo_kafka::admin::Admin;
use hanzo_kafka::clock::{Clock, SystemClock};
use hanzo_kafka::config::Config;
use hanzo_kafka::gateway::{self, Basis};
use hanzo_kafka::handlers::Gateway;
use hanzo_kafka::logging;
use hanzo_kafka::metrics::Metrics;
use hanzo_kafka::notify::Notifier;
use hanzo_kafka::server::{self, Parts, Pool, Server, Settings};
use hanzo_kafka::store::Store;
use hanzo_kafka::store::embedded::Embedded;
use hanzo_kafka::store::gate::Gate;
use hanzo_kafka::store::nats::{NatsError, NatsOptions, NatsStore};
use hanzo_kafka::wake::Wakeups;
use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use slog::{Logger, debug, error, info, warn};
use std::error::Error;
use std::net::TcpListener;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// How long a stop may take, counted from its signal, an embedded nats-server's own end left out: below the 30 s that
/// container platforms give. Requests get the first part, the writing of ends the next, the rest is for what is stuck.
const STOP_MAX: Duration = Duration::from_secs(10);
const REQUESTS_STOP_MAX: Duration = Duration::from_secs(6);
const ENDS_STOP_MAX: Duration = Duration::from_secs(8);

/// How long a stop waits for the store to take the lease back: it runs out by itself.
const RELEASE_MAX: Duration = Duration::from_secs(1);

/// How often the store is asked whether it is there, until it is.
const READY_CHECK: Duration = Duration::from_millis(10);

/// How long a start waits for the store before clients may connect.
const READY_PATIENCE: Duration = Duration::from_secs(2);

/// How often the service manager's view of us is brought up to date.
const STATUS_EVERY: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    keep_freed_memory();
    let config = Config::from_args();
    let logger = logging::logger(config.log_format, config.log_level);
    match run(config, &logger) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hanzo-kafka: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut config: Config, logger: &Logger) -> Result<(), Box<dyn Error>> {
    let what_goes_on: WhatGoesOn = Arc::default();
    // Before any thread: a signal must never find the default action in place.
    let signals = watch_signals(what_goes_on.clone())?;
    let notifier = Arc::new(Notifier::from_env()?);
    let fit = server::allow_connections(config.max_connections)?;
    if fit < config.max_connections {
        warn!(logger, "the limit of open files allows fewer than --max-connections"; "connections" => fit);
        config.max_connections = fit;
    }
    let metrics = Arc::new(Metrics::default());
    let wakeups = Arc::new(Wakeups::new());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let pool = Pool::start(config.workers, metrics.clone(), logger.clone())?;
    let config = Arc::new(config);
    let (nats, embedded) = start_store(&config, logger)?;
    let store_address = nats.address().to_owned();
    let store: Arc<dyn Store> = Arc::new(Gate::new(nats.clone(), store_calls_max(&config), metrics.clone()));
    let basis = Basis {
        config: config.clone(),
        store: store.clone(),
        direct: nats,
        wakeups: wakeups.clone(),
        tasks: pool.clone(),
        clock: clock.clone(),
        metrics: metrics.clone(),
        logger: logger.clone(),
    };
    let services = Services { store, store_address, gateway: gateway::build(basis), embedded };
    // Before others hear of us: where a port is taken, somebody else may be the broker at our address.
    let settings = Settings::from(&*config);
    let kafka_listeners = Server::bind(&settings)?;
    let admin_listeners = Admin::bind(&config.admin_host, config.admin_port)?;
    gateway::keep_lease(&services.gateway)?;
    let lease = services.gateway.services().cluster.lease().clone();
    if services.store.info().connected {
        // Clients of a gateway that was just restarted should find their broker again at once.
        wait_until(Instant::now() + READY_PATIENCE, || lease.may_serve());
    }
    let admin = start_admin(admin_listeners, &services, what_goes_on.clone())?;
    let parts = Parts {
        pool: pool.clone(),
        dispatch: services.gateway.clone(),
        wakeups,
        clock,
        metrics,
        logger: logger.clone(),
    };
    let server = Arc::new(Server::start(settings, parts, kafka_listeners)?);
    let dumped = server.clone();
    let _ = what_goes_on.set(Box::new(move || dumped.dump()));
    let kafka = format!("{}:{}", config.advertised_host, config.advertised_port);
    keep_manager_told(notifier.clone(), server.clone(), services.status(&kafka), logger)?;

    if wait_ready(&signals, || services.store.info().connected && lease.may_serve()) {
        println!(
            "hanzo-kafka is ready: Kafka on {kafka}, admin on http://{}, JetStream at {}",
            admin.address(),
            services.store_address
        );
        let _ = signals.recv();
    }
    info!(logger, "stopping");
    notifier.stopping("Stopping: answers what is under way");
    let began = Instant::now();
    admin.set_stopping();
    server.drain();
    // No request is begun any more, and the answers to those that wait still find their way. From here on other gateways may
    // take what was ours.
    services.gateway.services().groups.release_all(Instant::now() + RELEASE_MAX);
    if let Err(error) = lease.release(Instant::now() + RELEASE_MAX) {
        debug!(logger, "the lease is left to run out"; "error" => %error);
    }
    server.stop(began + REQUESTS_STOP_MAX);
    services.gateway.services().logs.write_ends(began + ENDS_STOP_MAX);
    pool.stop(began + STOP_MAX);
    if let Some(embedded) = services.embedded {
        embedded.stop();
    }
    info!(logger, "stopped"; "ms" => u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
    Ok(())
}

/// Lets the allocator keep what large buffers leave behind. Frames and stored messages come and go at hundreds of megabytes
/// a second; giving each back to the system at once costs more in page faults than everything else that is done with it
/// (measured: a third of the produce throughput). Called before any thread.
fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // The largest value that glibc takes.
        const MMAP_THRESHOLD_BYTES: libc::c_int = 32 * 1024 * 1024;
        const TRIM_THRESHOLD_BYTES: libc::c_int = 256 * 1024 * 1024;
        const TOP_PAD_BYTES: libc::c_int = 64 * 1024 * 1024;
        // SAFETY: mallopt only sets the allocator's parameters; no other thread runs yet.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES);
            libc::mallopt(libc::M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES);
            libc::mallopt(libc::M_TOP_PAD, TOP_PAD_BYTES);
            // One arena: what a worker allocates, the store's reader frees.
            libc::mallopt(libc::M_ARENA_MAX, 1);
        }
    }
}

/// What answers requests, and the store below it.
struct Services {
    store: Arc<dyn Store>,
    /// For people: without passwords.
    store_address: String,
    gateway: Arc<Gateway>,
    embedded: Option<Embedded>,
}

impl Services {
    /// Tells in one line whether the store is there.
    fn status(&self, kafka: &str) -> impl Fn() -> String + Send + 'static {
        let (store, address, kafka) = (self.store.clone(), self.store_address.clone(), kafka.to_owned());
        move || match store.info().connected {
            true => format!("Kafka on {kafka}, JetStream at {address}"),
            false => format!("Kafka on {kafka}, told to try again: JetStream at {address} cannot be reached"),
        }
    }
}

/// Starts or connects the store, and gives it a moment: whoever connects to a gateway that was just restarted should not
/// find it without a store. One that stays away is no error, one that is too old is.
fn start_store(config: &Config, logger: &Logger) -> Result<(Arc<NatsStore>, Option<Embedded>), Box<dyn Error>> {
    let embedded = config.embedded.as_ref().map(|settings| Embedded::start(settings, logger.clone())).transpose()?;
    let urls = match &embedded {
        Some(embedded) => vec![embedded.url()],
        None => config.pubsub_urls.clone(),
    };
    let options = NatsOptions { urls, login: config.nats_login.clone(), name: "hanzo-kafka".to_owned() };
    let nats = NatsStore::connect(options, logger.clone()).map_err(explain)?;
    match nats.wait_ready(Instant::now() + READY_PATIENCE) {
        Err(error @ NatsError::TooOld { .. }) => return Err(explain(error).into()),
        Err(error) => warn!(logger, "clients are told to try again until JetStream can be reached"; "error" => %error),
        Ok(_) => {}
    }
    Ok((nats, embedded))
}

/// Names the flag and the cure.
fn explain(error: NatsError) -> String {
    let flag = match &error {
        NatsError::Login { .. } => "the NATS login",
        _ => "--pubsub-url",
    };
    let cure = match &error {
        NatsError::Login { .. } => "; name one that this user may read",
        NatsError::TooOld { .. } => "; upgrade it, or name another",
        _ => "",
    };
    format!("{flag}: {error}{cure}")
}

/// The admin endpoints; what goes on is told from the moment there is a server.
fn start_admin(listeners: Vec<TcpListener>, services: &Services, what_goes_on: WhatGoesOn) -> std::io::Result<Admin> {
    let answers = services.gateway.services().clone();
    let dump = move || what_goes_on.get().map(|dump| dump());
    Admin::start(listeners, answers, &services.store_address, Box::new(dump))
}

/// At most half of the workers wait for the store at once: the others answer what needs no store.
fn store_calls_max(config: &Config) -> usize {
    (config.workers / 2).max(1)
}

/// Waits until the store answers and others know of us; `false` if the process is to stop before.
fn wait_ready(signals: &Receiver<()>, is_ready: impl Fn() -> bool) -> bool {
    while !is_ready() {
        match signals.recv_timeout(READY_CHECK) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
    true
}

fn wait_until(deadline: Instant, is_so: impl Fn() -> bool) {
    while !is_so() && Instant::now() < deadline {
        thread::sleep(READY_CHECK);
    }
}

/// Says that we serve, and from then on how we fare; and, as long as workers take jobs, that we live.
fn keep_manager_told(
    notifier: Arc<Notifier>,
    server: Arc<Server>,
    status: impl Fn() -> String + Send + 'static,
    logger: &Logger,
) -> std::io::Result<()> {
    if !notifier.is_heard() {
        return Ok(());
    }
    let mut told = status();
    notifier.ready(&told);
    let logger = logger.clone();
    // The manager expects to hear from us twice as often as it gives us.
    let period = notifier.watchdog().map_or(STATUS_EVERY, |watchdog| (watchdog / 2).min(STATUS_EVERY));
    let patience = notifier.watchdog().map(|watchdog| watchdog / 2);
    let body = move || {
        while !server.is_stopping() {
            if let Some(patience) = patience {
                if server.answers(Instant::now() + patience) {
                    notifier.alive();
                } else {
                    error!(logger, "workers take no jobs, the service manager is not told that we live";
                        "patience_ms" => u64::try_from(patience.as_millis()).unwrap_or(u64::MAX));
                    eprint!("{}", server.dump());
                }
            }
            let now = status();
            if now != told {
                notifier.status(&now);
                told = now;
            }
            thread::sleep(period);
        }
    };
    thread::Builder::new().name("watchdog".to_owned()).spawn(body).map(drop)
}

/// Filled in when there is a server to look into.
type WhatGoesOn = Arc<OnceLock<Box<dyn Fn() -> Dump + Send + Sync>>>;

/// Gives the first SIGINT or SIGTERM; the second ends the process at once. SIGQUIT prints what goes on, and all goes on.
fn watch_signals(what_goes_on: WhatGoesOn) -> Result<Receiver<()>, Box<dyn Error>> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGQUIT])?;
    let (sender, receiver) = crossbeam_channel::bounded(1);
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut stopping = false;
        for signal in signals.forever() {
            match signal {
                SIGQUIT => match what_goes_on.get() {
                    Some(dump) => eprint!("{}", dump()),
                    None => eprintln!("nothing is served yet"),
                },
                _ if stopping => std::process::exit(128 + signal),
                _ => {
                    stopping = true;
                    let _ = sender.send(());
                }
            }
        }
    })?;
    Ok(receiver)
}
