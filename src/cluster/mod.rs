//! Who we are and who else is there: cluster id, leases, brokers and leaders, producer id blocks.

mod broker_ids;
mod lease;
mod members;
mod rendezvous;
mod stored;

pub use lease::{Holder, Lease};
pub use members::Standing;
pub use stored::BUCKET;

use crate::clock::Clock;
use crate::config::Config;
use crate::store::{Store, StoreError, StoreResult};
use crate::wire::Uuid;
use serde_json::json;
use slog::{Logger, info};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use stored::{Stored, damaged};

const CLUSTER_KEY: &str = "cluster";
const PRODUCER_IDS_KEY: &str = "producer-ids";

/// How many producer ids are claimed at once, as Kafka's controller hands them out.
const PRODUCER_ID_BLOCK: i64 = 1000;

/// How long the store is left in peace after the cluster id was asked for in vain.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A broker as clients are told of it: one per advertised address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    pub id: i32,
    pub host: String,
    pub port: u16,
}

impl Broker {
    fn is_at(&self, other: &Broker) -> bool {
        self.host == other.host && self.port == other.port
    }
}

pub struct Cluster {
    clock: Arc<dyn Clock>,
    logger: Logger,
    stored: Stored,
    lease: Arc<Lease>,
    process_id: String,
    id: OnceLock<String>,
    /// When the cluster id was last asked for in vain.
    id_failed: Mutex<Option<Instant>>,
    /// The producer ids that are ours to give. Never held across a store call.
    producer_ids: Mutex<Range<i64>>,
}

impl Cluster {
    /// The lease goes by `direct`, a store whose calls do not queue behind those of `store`.
    pub fn new(
        store: Arc<dyn Store>,
        direct: Arc<dyn Store>,
        config: &Config,
        clock: Arc<dyn Clock>,
        logger: Logger,
    ) -> Cluster {
        let process_id = nonce();
        let holder = Holder {
            process: process_id.clone(),
            host: config.advertised_host.clone(),
            port: config.advertised_port,
            asked_id: config.node_id,
            replicas: config.replicas,
        };
        Cluster {
            lease: Lease::new(direct, clock.clone(), holder, logger.clone()),
            stored: Stored { store, clock: clock.clone(), replicas: config.replicas },
            clock,
            logger,
            process_id,
            id: OnceLock::new(),
            id_failed: Mutex::new(None),
            producer_ids: Mutex::new(0..0),
        }
    }

    /// Random, of this process alone: it marks what only a living process may own.
    pub fn process_id(&self) -> &str {
        &self.process_id
    }

    /// That this process is taken for alive, and which others are.
    pub fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    /// This gateway; `None` until its id is known, for which the store may have to be reached once.
    pub fn broker(&self) -> Option<Broker> {
        self.lease.broker()
    }

    /// All live brokers, by id, the same at every gateway. Empty until this gateway's own id is known.
    pub fn brokers(&self) -> Arc<[Broker]> {
        self.lease.brokers()
    }

    /// The broker that a live process is told as.
    pub fn broker_of(&self, process: &str) -> Option<Broker> {
        self.lease.broker_of(process)
    }

    /// The broker that clients should send admin requests to, any takes them; -1 while there are none.
    pub fn controller_id(&self) -> i32 {
        Self::controller(&self.brokers())
    }

    /// The same, of `brokers`: whoever is told both must be told of one look.
    pub fn controller(brokers: &[Broker]) -> i32 {
        brokers.iter().map(|broker| broker.id).min().unwrap_or(-1)
    }

    /// Of `brokers`, the one that clients are told as a partition's leader. Any gateway serves any partition; that all name
    /// the same keeps caches warm and conflicts rare.
    pub fn leader(brokers: &[Broker], topic_id: Uuid, partition: i32) -> Option<i32> {
        let what: Vec<u8> = topic_id.0.into_iter().chain(partition.to_be_bytes()).collect();
        rendezvous::pick(&what, brokers, |broker| broker.id.to_be_bytes().to_vec()).map(|broker| broker.id)
    }

    /// Runs when a gateway came or went. It must not block.
    pub fn on_change(&self, listener: Box<dyn Fn() + Send + Sync>) {
        self.lease.on_change(listener);
    }

    /// The cluster id if it has been read yet; never asks the store.
    pub fn known_id(&self) -> Option<&str> {
        self.id.get().map(String::as_str)
    }

    /// The id that all gateways of this store share, made by the first of them. `Busy`, at once, right after it was
    /// asked for in vain.
    pub fn id(&self) -> StoreResult<&str> {
        if let Some(id) = self.id.get() {
            return Ok(id);
        }
        let now = self.clock.now().mono;
        if self.id_failed.lock().expect("no holder panics").is_some_and(|at| now.duration_since(at) < RETRY_AFTER) {
            return Err(StoreError::Busy);
        }
        let fresh = Uuid::random().to_string();
        let value = self.stored.change(CLUSTER_KEY, |present| match present {
            Some(value) if value["id"].is_string() => Ok(None),
            Some(_) => Err(damaged(CLUSTER_KEY)),
            None => Ok(Some(json!({ "id": fresh }))),
        });
        let value =
            value.inspect_err(|_| *self.id_failed.lock().expect("no holder panics") = Some(self.clock.now().mono))?;
        let id = value["id"].as_str().ok_or_else(|| damaged(CLUSTER_KEY))?;
        info!(self.logger, "cluster id"; "id" => id);
        Ok(self.id.get_or_init(|| id.to_owned()))
    }

    /// A producer id that no gateway of this store has given or will give again.
    pub fn next_producer_id(&self) -> StoreResult<i64> {
        if let Some(id) = self.producer_ids.lock().expect("no holder panics").next() {
            return Ok(id);
        }
        let mut block = self.claim_producer_ids()?;
        let id = block.next().expect("a block is not empty");
        let mut ids = self.producer_ids.lock().expect("no holder panics");
        // Two may have claimed at once: the block that is not needed is lost, which costs nothing.
        if ids.is_empty() {
            *ids = block;
        }
        Ok(id)
    }

    fn claim_producer_ids(&self) -> StoreResult<Range<i64>> {
        let mut claimed = 0..0;
        self.stored.change(PRODUCER_IDS_KEY, |present| {
            let first = match present {
                Some(value) => {
                    value["next"].as_i64().filter(|next| *next >= 0).ok_or_else(|| damaged(PRODUCER_IDS_KEY))?
                }
                None => 0,
            };
            let next = first.checked_add(PRODUCER_ID_BLOCK).ok_or_else(|| damaged(PRODUCER_IDS_KEY))?;
            claimed = first..next;
            Ok(Some(json!({ "next": next })))
        })?;
        Ok(claimed)
    }
}

fn nonce() -> String {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the system has a random source");
    format!("{:016x}", u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::stored::BUCKET;
    use super::*;
    use crate::clock::ManualClock;
    use crate::store::memory::{MemoryStore, Outage, PublishFault};
    use slog::o;
    use std::collections::HashSet;

    fn gateway(store: &Arc<MemoryStore>, clock: &Arc<ManualClock>) -> Cluster {
        let config = Config { node_id: Some(7), advertised_host: "kafka.example".to_owned(), ..Default::default() };
        Cluster::new(store.clone(), store.clone(), &config, clock.clone(), Logger::root(slog::Discard, o!()))
    }

    fn store_and_clock() -> (Arc<MemoryStore>, Arc<ManualClock>) {
        (Arc::new(MemoryStore::new()), Arc::new(ManualClock::new()))
    }

    #[test]
    fn all_gateways_share_one_cluster_id() {
        let (store, clock) = store_and_clock();
        let gateways: Vec<_> = (0..4).map(|_| gateway(&store, &clock)).collect();
        let ids: HashSet<String> = std::thread::scope(|scope| {
            let threads: Vec<_> = gateways.iter().map(|one| scope.spawn(|| one.id().map(str::to_owned))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic").expect("the memory answers")).collect()
        });
        assert_eq!(ids.len(), 1);
        let later = gateway(&store, &clock);
        assert_eq!(later.known_id(), None);
        assert!(ids.contains(later.id().expect("the memory answers")));
        assert_eq!(later.known_id(), later.id().ok());
        assert_ne!(later.process_id(), gateways[0].process_id());
    }

    #[test]
    fn the_controller_is_a_broker() {
        let (store, clock) = store_and_clock();
        let cluster = gateway(&store, &clock);
        assert_eq!(*cluster.brokers(), [Broker { id: 7, host: "kafka.example".to_owned(), port: 9092 }]);
        assert_eq!(cluster.controller_id(), 7);
    }

    #[test]
    fn a_producer_id_is_given_once_over_gateways_and_restarts() {
        let (store, clock) = store_and_clock();
        let gateways: Vec<_> = (0..3).map(|_| gateway(&store, &clock)).collect();
        let mut given: Vec<i64> = std::thread::scope(|scope| {
            let take = |one: &Cluster| (0..1500).map(|_| one.next_producer_id().expect("room")).collect::<Vec<_>>();
            let threads: Vec<_> = gateways.iter().cycle().take(6).map(|one| scope.spawn(move || take(one))).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
        });
        given.push(gateway(&store, &clock).next_producer_id().expect("room"));
        assert!(given.iter().all(|id| *id >= 0));
        assert_eq!(given.iter().collect::<HashSet<_>>().len(), 9001);
    }

    #[test]
    fn lost_and_late_writes_never_give_an_id_twice() {
        for fault in [
            PublishFault::AckLost,
            PublishFault::Lost,
            PublishFault::Stalled,
            PublishFault::Refused(StoreError::WrongLast(None)),
        ] {
            let (store, clock) = store_and_clock();
            let (a, b) = (gateway(&store, &clock), gateway(&store, &clock));
            let mut given = Vec::new();
            for _ in 0..3 {
                store.fail_next(&format!("$KV.{BUCKET}.>"), fault.clone());
                for one in [&a, &b] {
                    given.extend((0..PRODUCER_ID_BLOCK).map(|_| one.next_producer_id().expect("it is asked again")));
                }
                store.deliver_stalled();
            }
            assert_eq!(store.faults_left(), 0);
            assert_eq!(given.iter().collect::<HashSet<_>>().len(), given.len(), "{fault:?}");
        }
    }

    #[test]
    fn a_store_that_comes_late_is_waited_for() {
        let (store, clock) = store_and_clock();
        let cluster = gateway(&store, &clock);
        store.set_outage(Some(Outage::NoAnswer));
        assert_eq!(cluster.id(), Err(StoreError::NoAnswer));
        assert_eq!(cluster.id(), Err(StoreError::Busy), "not asked again at once");
        assert!(cluster.next_producer_id().is_err());
        store.set_outage(None);
        clock.advance(RETRY_AFTER);
        assert!(cluster.id().is_ok());
        assert!(cluster.next_producer_id().is_ok());
    }

    #[test]
    fn damage_is_told_and_not_overwritten() {
        let (store, clock) = store_and_clock();
        let cluster = gateway(&store, &clock);
        cluster.next_producer_id().expect("room");
        store.publish_foreign(&format!("$KV.{BUCKET}.{PRODUCER_IDS_KEY}"), "5").expect("the memory takes it");
        let other = gateway(&store, &clock);
        assert!(matches!(other.next_producer_id(), Err(StoreError::Garbled(text)) if text.contains(PRODUCER_IDS_KEY)));
    }
}
