//! The `hanzo-kafka` command: starts everything, says when it is ready, stops it in good order.

use crossbeam_channel::{Receiver, RecvTimeoutError};
use hanzo_kafka::admin::Admin;
use hanzo_kafka::clock::{Clock, SystemClock};
use hanzo_kafka::config::Config;
use hanzo_kafka::gateway::{self, Basis};
use hanzo_kafka::handlers::Gateway;
use hanzo_kafka::logging;
use hanzo_kafka::metrics::Metrics;
use hanzo_kafka::server::{self, Parts, Pool, Server, Settings};
use hanzo_kafka::store::Store;
use hanzo_kafka::store::embedded::Embedded;
use hanzo_kafka::store::gate::Gate;
use hanzo_kafka::store::nats::{NatsError, NatsOptions, NatsStore};
use hanzo_kafka::wake::Wakeups;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use slog::{Logger, debug, info, warn};
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How long a stop may take: below the 30 s that container platforms give.
const STOP_MAX: Duration = Duration::from_secs(10);

/// How long a stop waits for the store to take the lease back: it runs out by itself.
const RELEASE_MAX: Duration = Duration::from_secs(1);

/// How often the store is asked whether it is there, until it is.
const READY_CHECK: Duration = Duration::from_millis(10);

/// How long a start waits for the store before clients may connect.
const READY_PATIENCE: Duration = Duration::from_secs(2);

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
    // Before any thread: a signal must never find the default action in place.
    let signals = watch_signals()?;
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
    gateway::keep_lease(&services.gateway)?;
    let lease = services.gateway.services().cluster.lease().clone();
    if services.store.info().connected {
        // Clients of a gateway that was just restarted should find their broker again at once.
        wait_until(Instant::now() + READY_PATIENCE, || lease.holds());
    }
    let answers = services.gateway.services().clone();
    let admin = Admin::start(&config.admin_host, config.admin_port, answers, &services.store_address)?;
    let parts = Parts {
        pool: pool.clone(),
        dispatch: services.gateway.clone(),
        wakeups,
        clock,
        metrics,
        logger: logger.clone(),
    };
    let server = Server::start(Settings::from(&*config), parts)?;

    if wait_ready(&signals, || services.store.info().connected && lease.holds()) {
        println!(
            "hanzo-kafka is ready: Kafka on {}:{}, admin on http://{}, JetStream at {}",
            config.advertised_host,
            config.advertised_port,
            admin.address(),
            services.store_address
        );
        let _ = signals.recv();
    }
    info!(logger, "stopping");
    let deadline = Instant::now() + STOP_MAX;
    admin.set_stopping();
    server.stop(deadline);
    services.stop();
    pool.stop(deadline);
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
    /// Writes down what is to be kept, then ends an embedded nats-server. Comes after the last reply.
    fn stop(self) {
        let services = self.gateway.services();
        services.logs.write_ends();
        if let Err(error) = services.cluster.lease().release(Instant::now() + RELEASE_MAX) {
            debug!(services.logger, "the lease is left to run out"; "error" => %error);
        }
        if let Some(embedded) = self.embedded {
            embedded.stop();
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
    let nats = NatsStore::connect(options, logger.clone())?;
    match nats.wait_ready(Instant::now() + READY_PATIENCE) {
        Err(error @ NatsError::TooOld { .. }) => return Err(error.into()),
        Err(error) => warn!(logger, "clients are told to try again until JetStream can be reached"; "error" => %error),
        Ok(_) => {}
    }
    Ok((nats, embedded))
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

/// Gives the first SIGINT or SIGTERM; the second ends the process at once.
fn watch_signals() -> Result<Receiver<()>, Box<dyn Error>> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let (sender, receiver) = crossbeam_channel::bounded(1);
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut pending = signals.forever();
        if pending.next().is_some() {
            let _ = sender.send(());
        }
        if let Some(signal) = pending.next() {
            std::process::exit(128 + signal);
        }
    })?;
    Ok(receiver)
}
