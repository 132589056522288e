//! Joins the domain to a store: what `main` starts, and what a test may start in its own process.

use crate::catalog::{Catalog, CatalogDefaults, Loss};
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::config::Config;
use crate::forward::Forwarder;
use crate::group::{Groups, Leases, OwnerId, Setup};
use crate::handlers::{Gateway, Services};
use crate::limits::{self, LEASE_ROUNDS_APART, PEER_LOG_INTERVAL, STORE_CALL_MAX};
use crate::log::{LogParts, Logs};
use crate::logging::Brake;
use crate::metrics::Metrics;
use crate::offsets::Offsets;
use crate::store::Store;
use crate::tasks::Tasks;
use crate::wake::Wakeups;
use crossbeam_channel::bounded;
use slog::{Logger, debug};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a gateway is built on.
pub struct Basis {
    pub config: Arc<Config>,
    pub store: Arc<dyn Store>,
    /// The same store, past what bounds its calls: the lease must not wait for requests.
    pub direct: Arc<dyn Store>,
    pub wakeups: Arc<Wakeups>,
    pub tasks: Arc<dyn Tasks>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
    pub logger: Logger,
}

/// Builds the domain and begins its timers. Nothing is asked of the store before the first request, so that a store that
/// is away at start is no error.
pub fn build(basis: Basis) -> Arc<Gateway> {
    let Basis { config, store, direct, wakeups, tasks, clock, metrics, logger } = basis;
    let catalog = Catalog::new(store.clone(), CatalogDefaults::of(&config), clock.clone(), logger.clone());
    let cluster = Arc::new(Cluster::new(store.clone(), direct, &config, clock.clone(), logger.clone()));
    let missing = Arc::downgrade(&catalog);
    let logs = Logs::new(LogParts {
        store: store.clone(),
        tasks: tasks.clone(),
        clock: clock.clone(),
        wakeups: wakeups.clone(),
        logger: logger.clone(),
        process: cluster.process_id().to_owned(),
        replicas: config.replicas,
        tail_held_max: limits::TAIL_HELD_MAX,
        on_missing: Box::new(move |name| {
            if let Some(catalog) = missing.upgrade() {
                catalog.invalidate(name);
            }
        }),
    });
    let offsets = Offsets::new(store.clone(), tasks.clone(), clock.clone(), config.replicas);
    let owner = OwnerId(cluster.process_id().to_owned());
    let leases: Arc<dyn Leases> = cluster.lease().clone();
    let forwarder = Forwarder::new(store.clone(), tasks.clone(), clock.clone(), leases.clone(), cluster.process_id());
    let groups = Groups::new(Setup {
        store: store.clone(),
        offsets: offsets.clone(),
        tasks: tasks.clone(),
        clock: clock.clone(),
        settings: config.groups.clone(),
        replicas: config.replicas,
        leases,
        owner,
        logger: logger.clone(),
    });
    let services = Services {
        config,
        store,
        catalog,
        cluster,
        logs,
        groups,
        offsets,
        forwarder,
        wakeups,
        tasks: tasks.clone(),
        clock,
        metrics,
        logger,
        uncreated_brake: Brake::new(PEER_LOG_INTERVAL),
        unlisted_brake: Brake::new(PEER_LOG_INTERVAL),
    };
    follow_topics(&services);
    let forwarder = services.forwarder.clone();
    services.cluster.on_change(Box::new(move || forwarder.look_soon()));
    services.catalog.start(tasks);
    services.groups.start();
    Gateway::start(Arc::new(services))
}

/// Renews the lease on a thread of its own, so that no crowd of requests delays it, until it is released.
pub fn keep_lease(gateway: &Gateway) -> std::io::Result<()> {
    let lease = gateway.services().cluster.lease().clone();
    let (kick, kicks) = bounded(1);
    lease.start(Box::new(move || {
        let _ = kick.try_send(());
    }));
    let keep = move || {
        while let Some(next) = lease.round() {
            std::thread::sleep(LEASE_ROUNDS_APART);
            let _ = kicks.recv_deadline(next);
        }
    };
    std::thread::Builder::new().name("lease".to_owned()).spawn(keep).map(drop)
}

/// Lets logs and offsets know what becomes of topics.
fn follow_topics(services: &Services) {
    let (logs, offsets) = (services.logs.clone(), services.offsets.clone());
    let (tasks, logger) = (services.tasks.clone(), services.logger.clone());
    let (catalog, clock) = (Arc::downgrade(&services.catalog), services.clock.clone());
    let store = services.store.clone();
    services.catalog.on_loss(Box::new(move |topic, loss| {
        logs.forget(topic.id);
        if loss == Loss::Damaged {
            return;
        }
        let (logs, offsets, topic, logger) = (logs.clone(), offsets.clone(), topic.clone(), logger.clone());
        let catalog = catalog.clone();
        let info = store.info();
        let may_be_there = topic.partitions.iter().any(|partition| info.may_deny(partition.replicas));
        let wait = if may_be_there { limits::CLUSTER_KNOWS_AFTER } else { Duration::ZERO };
        // What is left behind does no harm; what is removed of a topic that is there after all would.
        let remove = move || {
            let still_gone = || catalog.upgrade().is_some_and(|catalog| catalog.is_gone(&topic));
            if may_be_there && !still_gone() {
                return;
            }
            logs.forget_ends(&topic, Instant::now() + STORE_CALL_MAX);
            // Commits carry the topic's id: one that stays behind is not taken for one of a later topic of that name.
            if let Err(error) = offsets.delete_topic(&topic.name, topic.id, Instant::now() + STORE_CALL_MAX) {
                debug!(logger, "commits of a deleted topic stay behind"; "topic" => &topic.name, "error" => %error);
            }
        };
        tasks.spawn_at(clock.now().mono + wait, Box::new(remove));
    }));
    let logs = services.logs.clone();
    services.catalog.on_refresh(Box::new(move |seen| {
        for sighting in seen {
            logs.observe(sighting.topic.id, sighting.partition, sighting.last);
        }
    }));
}
