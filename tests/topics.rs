//! Topics on real servers: what only JetStream itself can confirm.

// What other tests need of a server is not needed here.
#[allow(dead_code)]
#[path = "store/server.rs"]
mod server;

use hanzo_kafka::catalog::{Catalog, CatalogDefaults, CreateTopicError, NewTopic, Topic};
use hanzo_kafka::clock::{Clock, Now, SystemClock};
use hanzo_kafka::cluster::Cluster;
use hanzo_kafka::config::Config;
use hanzo_kafka::store::nats::{NatsOptions, NatsStore};
use hanzo_kafka::store::{Publish, Sequence, Store, StoreError, publish};
use hanzo_kafka::tasks::{Task, Tasks};
use serde_json::json;
use server::Server;
use slog::{Logger, o};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn logger() -> Logger {
    Logger::root(slog::Discard, o!())
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

fn connect(server: &Server) -> Arc<NatsStore> {
    let options = NatsOptions { urls: vec![server.url()], login: Default::default(), name: "test".to_owned() };
    let store = NatsStore::connect(options, logger()).expect("the options are good");
    store.wait_ready(soon()).expect("the server runs");
    store
}

/// A gateway's catalog over a connection of its own, with advisories but without its slow poll.
fn gateway(server: &Server) -> (Arc<Catalog>, Arc<NatsStore>) {
    gateway_at(server, Arc::new(SystemClock))
}

fn gateway_at(server: &Server, clock: Arc<dyn Clock>) -> (Arc<Catalog>, Arc<NatsStore>) {
    let store = connect(server);
    let catalog = Catalog::new(store.clone(), CatalogDefaults::default(), clock, logger());
    catalog.start(Arc::new(NoTasks));
    (catalog, store)
}

struct NoTasks;

impl Tasks for NoTasks {
    fn spawn(&self, _: Task) {}

    fn spawn_at(&self, _: Instant, _: Task) {}
}

/// The system's clock a minute from now.
struct Later;

impl Clock for Later {
    fn now(&self) -> Now {
        let now = SystemClock.now();
        Now { wall_ms: now.wall_ms + 60_000, ..now }
    }
}

fn new(name: &str, partitions: usize) -> NewTopic {
    NewTopic { name: name.to_owned(), partitions, replicas: 1, ..Default::default() }
}

fn streams(store: &dyn Store) -> Vec<String> {
    let mut names: Vec<_> =
        store.stream_list("kafka.>", soon()).expect("it answers").streams.into_iter().map(|info| info.name).collect();
    names.sort();
    names
}

#[test]
fn topics_live_on_the_newest_server() {
    topics_live(&Server::start(server::newest()));
}

#[test]
fn topics_live_on_2_10() {
    topics_live(&Server::start(server::oldest()));
}

fn topics_live(server: &Server) {
    let ((a, store), (b, _)) = (gateway(server), gateway(server));
    let settings = [("retention.ms", "3600000"), ("cleanup.policy", "delete")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let long = "x.".repeat(124);
    for name in ["t", "a.b", "a-b", "a_b", &long] {
        let made = a.create(NewTopic { settings: Clone::clone(&settings), ..new(name, 3) }, soon()).expect("room");
        let found = b.topic(name).expect("it answers").expect("what one creates the other finds");
        assert_eq!(found, made);
        assert_eq!(b.topic_by_id(&made.id).expect("it answers"), Some(made.clone()));
        for place in &made.partitions {
            let info = store.stream_info(&place.stream, soon()).expect("it is there");
            assert!(info.state.last.0 >= 1 << 32 && info.state.messages == 0);
            assert_eq!(info.config["max_age"], json!(3_600_000_000_000_i64));
            let stale = publish(&*store, message(&place.subject, Sequence(0)), soon());
            assert!(matches!(stale, Err(StoreError::WrongLast(_))), "a guard of an earlier incarnation: {stale:?}");
            let ack = publish(&*store, message(&place.subject, info.state.last), soon()).expect("the guard is right");
            assert!(ack.sequence > info.state.last);
        }
    }
    assert_eq!(b.topics().expect("it answers").len(), 5);
    assert_eq!(streams(&*store).len(), 15);
    let old = b.topic("a.b").expect("it answers").expect("it is there");
    b.delete("a.b", Some(old.id), soon()).expect("it is there");
    assert_eq!(streams(&*store).len(), 12);
    let again = b.create(new("a.b", 1), soon()).expect("room");
    assert_ne!(again.id, old.id);
    a.refresh().expect("it answers");
    assert_eq!(a.topic("a.b").expect("it answers"), Some(again));
}

fn message(subject: &str, last: Sequence) -> Publish {
    Publish { subject: subject.to_owned(), expected_last: Some(last), ..Default::default() }
}

#[test]
fn racing_gateways_create_a_name_once() {
    let server = Server::start(server::newest());
    let gateways: Vec<_> = (0..3).map(|_| gateway(&server)).collect();
    for round in 0..10 {
        let name = format!("t{round}");
        let outcomes: Vec<Result<Arc<Topic>, CreateTopicError>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..6)
                .map(|thread| {
                    let (catalog, name) = (&gateways[thread % 3].0, &name);
                    scope.spawn(move || catalog.create(new(name, 1 + (thread * 2 + round) % 5), soon()))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let winners: Vec<_> = outcomes.iter().flatten().collect();
        assert_eq!(winners.len(), 1, "{outcomes:?}");
        let lost = |outcome: &&Result<_, _>| matches!(outcome, Err(CreateTopicError::Exists(_)));
        assert_eq!(outcomes.iter().filter(lost).count(), 5, "{outcomes:?}");
        let expected: Vec<_> = winners[0].partitions.iter().map(|place| place.stream.clone()).collect();
        let made = streams(&*gateways[0].1).into_iter().filter(|stream| stream.starts_with(&format!("kafka-{name}-")));
        assert_eq!(made.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_full_store_refuses_a_topic_whole() {
    let server = Server::start(server::newest());
    let (catalog, store) = gateway(&server);
    let huge = |name: &str| {
        let settings = [("retention.bytes".to_owned(), (1_i64 << 50).to_string())].into();
        catalog.create(NewTopic { settings, ..new(name, 3) }, soon())
    };
    let refused = huge("t");
    assert!(matches!(refused, Err(CreateTopicError::NoRoom(_))), "{refused:?}");
    assert_eq!(streams(&*store), [""; 0]);
    assert!(matches!(
        catalog.create(NewTopic { replicas: 3, ..new("r", 1) }, soon()),
        Err(CreateTopicError::InvalidReplication(_))
    ));
    assert!(catalog.create(new("t", 3), soon()).is_ok(), "a smaller one is taken");
}

#[test]
fn an_older_gateways_streams_are_adopted() {
    for binary in [server::oldest(), server::newest()] {
        let server = Server::start(binary);
        let (catalog, store) = gateway(&server);
        for partition in [0, 1] {
            let config = json!({
                "name": format!("kafka-old-{partition}"),
                "subjects": [format!("kafka.old.{partition}")],
                "retention": "limits", "storage": "file", "num_replicas": 1, "max_age": 7_200_000_000_000_i64,
            });
            store.stream_create(&config, soon()).expect("room");
        }
        let topic = catalog.topic("old").expect("it answers").expect("it is known by its streams");
        assert_eq!((topic.partitions.len(), topic.settings.retention_ms), (2, 7_200_000));
        assert_eq!(gateway(&server).0.topic("old").expect("it answers").as_ref(), Some(&topic));

        let (later, _) = gateway_at(&server, Arc::new(Later));
        later.refresh().expect("it answers");
        let info = store.stream_info("kafka-old-1", soon()).expect("it is there");
        assert_eq!(info.metadata("kafka.topic.id"), Some(topic.id.to_string().as_str()));
        assert_eq!(info.config["allow_direct"], json!(true));
        assert_eq!(info.config["max_age"], json!(7_200_000_000_000_i64), "the rest stays as it was");
        assert_eq!(gateway(&server).0.topic("old").expect("it answers"), Some(topic));
    }
}

#[test]
fn what_one_creates_or_deletes_the_other_knows_at_once() {
    let server = Server::start(server::newest());
    let ((a, _), (b, _)) = (gateway(&server), gateway(&server));
    for round in 0..50 {
        let name = format!("t{round}");
        assert_eq!(b.topic(&name).expect("it answers"), None);
        let made = a.create(new(&name, 2), soon()).expect("room");
        assert_eq!(b.topic(&name).expect("it answers"), Some(made), "round {round}");
    }
    assert_eq!(b.topics().expect("it answers").len(), 50);
    a.delete("t0", None, soon()).expect("it is there");
    let until = soon();
    while b.topic("t0").expect("it answers").is_some() {
        assert!(Instant::now() < until, "the deletion was never noticed");
        std::thread::yield_now();
    }
}

#[test]
fn gateways_share_their_cluster_and_no_producer_id() {
    let server = Server::start(server::oldest());
    let cluster = |_| {
        let store = connect(&server);
        Cluster::new(store.clone(), store, &Config::default(), Arc::new(SystemClock), logger())
    };
    let clusters: Vec<_> = (0..2).map(cluster).collect();
    let ids: HashSet<_> = clusters.iter().map(|cluster| cluster.id().expect("it answers").to_owned()).collect();
    assert_eq!(ids.len(), 1);
    let given: Vec<i64> = std::thread::scope(|scope| {
        let take = |cluster: &Cluster| (0..2500).map(|_| cluster.next_producer_id().expect("room")).collect::<Vec<_>>();
        let threads: Vec<_> = clusters.iter().map(|cluster| scope.spawn(move || take(cluster))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    assert_eq!(given.iter().collect::<HashSet<_>>().len(), 5000);
}
