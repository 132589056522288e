//! Topics over a store in memory, shared by several gateways.

mod altered;
mod halves;
mod refusals;
mod watched;

use super::*;
use crate::clock::ManualClock;
use crate::store::memory::{MemoryStore, Outage};
use crate::tasks::Task;
use serde_json::{Value, json};
use slog::o;
use watched::{Call, Fate, Watched};

const YOUNG_NO_MORE: Duration = Duration::from_secs(31);

struct Gateway {
    catalog: Arc<Catalog>,
    store: Arc<Watched>,
    deleted: Arc<Mutex<Vec<Uuid>>>,
    tasks: Arc<Script>,
}

/// Tasks that run when the script says so.
#[derive(Default)]
struct Script {
    tasks: Mutex<Vec<Task>>,
}

impl Script {
    fn run(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock().expect("no holder panics"));
        tasks.into_iter().for_each(|task| task());
    }
}

impl Tasks for Script {
    fn spawn(&self, task: Task) {
        self.tasks.lock().expect("no holder panics").push(task);
    }

    fn spawn_at(&self, _: std::time::Instant, task: Task) {
        self.spawn(task);
    }
}

struct Cluster {
    store: Arc<MemoryStore>,
    clock: Arc<ManualClock>,
}

impl Cluster {
    fn new() -> Cluster {
        Cluster { store: Arc::new(MemoryStore::new()), clock: Arc::new(ManualClock::new()) }
    }

    fn gateway(&self) -> Gateway {
        let store = Watched::new(&self.store);
        let catalog = Catalog::new(
            store.clone(),
            CatalogDefaults { retention_ms: 60_000, ..Default::default() },
            self.clock.clone(),
            Logger::root(slog::Discard, o!()),
        );
        let deleted = Arc::new(Mutex::new(Vec::new()));
        let told = deleted.clone();
        catalog.on_loss(Box::new(move |topic, loss| {
            if loss == Loss::Deleted {
                told.lock().expect("no holder panics").push(topic.id);
            }
        }));
        let tasks = Arc::new(Script::default());
        catalog.start(tasks.clone());
        Gateway { catalog, store, deleted, tasks }
    }

    fn now(&self) -> std::time::Instant {
        self.clock.now().mono
    }

    fn streams(&self) -> Vec<String> {
        let infos = self.store.stream_list("kafka.>", self.now()).expect("the memory answers").streams;
        infos.into_iter().map(|info| info.name).collect()
    }

    fn add_stream(&self, config: Value) {
        self.store.stream_create(&config, self.now()).expect("the memory takes it");
    }
}

impl Gateway {
    fn create(&self, name: &str, partitions: usize) -> Result<Arc<Topic>, CreateTopicError> {
        self.create_with(name, partitions, &[])
    }

    fn create_with(
        &self,
        name: &str,
        partitions: usize,
        settings: &[(&str, &str)],
    ) -> Result<Arc<Topic>, CreateTopicError> {
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let new = NewTopic { name: name.to_owned(), partitions, replicas: 1, settings };
        self.catalog.create(new, self.catalog.clock.now().mono + Duration::from_secs(60))
    }

    fn delete(&self, name: &str) -> Result<Uuid, DeleteTopicError> {
        self.catalog.delete(name, None, self.catalog.clock.now().mono + Duration::from_secs(60))
    }

    #[track_caller]
    fn topic(&self, name: &str) -> Option<Arc<Topic>> {
        self.catalog.topic(name).expect("the memory answers")
    }

    #[track_caller]
    fn names(&self) -> Vec<String> {
        self.catalog.topics().expect("the memory answers").iter().map(|topic| topic.name.clone()).collect()
    }

    fn deleted(&self) -> Vec<Uuid> {
        self.deleted.lock().expect("no holder panics").clone()
    }
}

#[test]
fn a_topic_is_its_streams_and_every_gateway_finds_it() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.gateway(), cluster.gateway());
    let made = a.create_with("a.b", 3, &[("retention.ms", "5000"), ("retention.bytes", "900000000")]).expect("room");
    assert_eq!(cluster.streams(), ["kafka-a~b-0", "kafka-a~b-1", "kafka-a~b-2"]);
    for partition in 0..3 {
        let info = cluster.store.stream_info(&names::stream("a.b", partition), cluster.now()).expect("it is there");
        assert_eq!(info.metadata("kafka.topic"), Some("a.b"));
        assert_eq!(info.metadata("kafka.topic.id"), Some(made.id.to_string().as_str()));
        assert_eq!(info.config["subjects"], json!([format!("kafka.a~b.{partition}")]));
        assert_eq!(info.config["max_age"], json!(5_000_000_000_i64));
        assert_eq!(info.config["max_bytes"], json!(900_000_000));
        assert_eq!(info.config["allow_direct"], json!(true));
        assert!(info.state.last.0 >= 1 << 32, "the stream has a sequence range of its own");
    }
    assert_eq!(b.topic("a.b").as_ref(), Some(&made));
    assert_eq!(b.catalog.topic_by_id(&made.id), Ok(Some(made.clone())));
    assert_eq!(b.names(), ["a.b"]);
    assert_eq!(made.settings.given["retention.ms"], "5000");
    let fresh = cluster.gateway();
    assert_eq!(fresh.catalog.topic_by_id(&made.id), Ok(Some(made)), "also who never saw the name");
}

#[test]
fn limits_follow_the_settings() {
    let cluster = Cluster::new();
    let gateway = cluster.gateway();
    let limits = |name: &str, settings: &[(&str, &str)]| {
        gateway.create_with(name, 1, settings).expect("room");
        let info = cluster.store.stream_info(&names::stream(name, 0), cluster.now()).expect("it is there");
        (info.config["max_age"].as_i64().expect("given"), info.config["max_bytes"].as_i64().expect("given"))
    };
    assert_eq!(limits("default", &[]), (60_000_000_000, -1));
    assert_eq!(limits("forever", &[("retention.ms", "-1")]), (0, -1));
    assert_eq!(limits("now", &[("retention.ms", "0")]), (100_000_000, -1), "JetStream's shortest");
    assert_eq!(limits("compact", &[("cleanup.policy", "compact"), ("retention.ms", "5")]), (0, -1));
    assert!(limits("tiny", &[("retention.bytes", "0")]).1 > 1_048_576 + 60_000, "room for one message at least");
    let refused = gateway.create_with("bad", 1, &[("retention.ms", "soon")]);
    assert!(matches!(refused, Err(CreateTopicError::InvalidSetting(text)) if text.contains("retention.ms")));
}

#[test]
fn a_creation_that_fails_leaves_nothing() {
    for failing in 0..6 {
        let cluster = Cluster::new();
        let gateway = cluster.gateway();
        let mut calls = 0;
        gateway.store.on_call(move |call| {
            let counts = matches!(call, Call::Create(_) | Call::Purge(_));
            calls += usize::from(counts);
            match counts && calls == failing + 1 {
                true => Fate::Refuse(StoreError::NoSpace("no more disk".to_owned())),
                false => Fate::Pass,
            }
        });
        let outcome = gateway.create("t", 3);
        assert!(
            matches!(&outcome, Err(CreateTopicError::NoRoom(text)) if text.contains("no more disk")),
            "{outcome:?}"
        );
        assert_eq!(cluster.streams(), [""; 0], "call {failing} failed");
        gateway.store.leave_alone();
        assert_eq!(gateway.topic("t"), None);
        assert!(gateway.create("t", 3).is_ok());
    }
}

#[test]
fn lost_answers_do_not_spoil_a_creation_or_a_deletion() {
    for losing in 0..20 {
        let cluster = Cluster::new();
        let gateway = cluster.gateway();
        let mut calls = 0;
        gateway.store.on_call(move |call| {
            let counts = matches!(call, Call::Create(_) | Call::Purge(_) | Call::Delete(_));
            calls += usize::from(counts);
            if counts && calls == losing + 1 { Fate::LoseAnswer } else { Fate::Pass }
        });
        let made = gateway.create("t", 3).expect("it is asked again");
        assert_eq!(cluster.streams().len(), 3);
        assert_eq!(gateway.delete("t"), Ok(made.id));
        assert_eq!(cluster.streams(), [""; 0]);
    }
}

/// One gateway creates a topic while another, at each step in turn, creates the same name in between.
#[test]
fn of_two_who_create_a_name_exactly_one_wins() {
    for (mine, theirs) in [(1, 1), (3, 3), (1, 3), (3, 1), (2, 4), (4, 2)] {
        let mut step = 0;
        loop {
            let cluster = Cluster::new();
            let (a, b) = (cluster.gateway(), cluster.gateway());
            let other = b.catalog.clone();
            let outcome = Arc::new(Mutex::new(None));
            let said = outcome.clone();
            let deadline = cluster.now() + Duration::from_secs(60);
            let mut calls = 0;
            a.store.on_call(move |_| {
                if calls == step {
                    let new = NewTopic { name: "t".to_owned(), partitions: theirs, replicas: 1, ..Default::default() };
                    *said.lock().expect("no holder panics") = Some(other.create(new, deadline));
                }
                calls += 1;
                Fate::Pass
            });
            let ours = a.create("t", mine);
            let Some(theirs) = outcome.lock().expect("no holder panics").take() else {
                break;
            };
            let (winner, loser) = match (ours, theirs) {
                (Ok(topic), Err(error)) | (Err(error), Ok(topic)) => (topic, error),
                other => panic!("not exactly one: {other:?} at step {step}"),
            };
            assert!(matches!(loser, CreateTopicError::Exists(_)), "{loser:?} at step {step}");
            let streams: Vec<_> = winner.partitions.iter().map(|place| place.stream.clone()).collect();
            assert_eq!(cluster.streams(), streams, "step {step}");
            for gateway in [a, b, cluster.gateway()] {
                assert_eq!(gateway.topic("t").as_ref(), Some(&winner), "step {step}");
            }
            step += 1;
        }
        assert!(step > 3, "there was something in between");
    }
}

#[test]
fn many_threads_create_one_name_once() {
    let cluster = Cluster::new();
    let gateways: Vec<_> = (0..3).map(|_| cluster.gateway()).collect();
    for round in 0..20 {
        let name = format!("t{round}");
        let made: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..6)
                .map(|thread| {
                    let (gateway, name) = (&gateways[thread % 3], &name);
                    scope.spawn(move || gateway.create(name, 1 + thread % 4))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let winners: Vec<_> = made.iter().flatten().collect();
        assert_eq!(winners.len(), 1, "{made:?}");
        assert!(made.iter().all(|outcome| matches!(outcome, Ok(_) | Err(CreateTopicError::Exists(_)))), "{made:?}");
        assert!(gateways.iter().all(|gateway| gateway.topic(&name).as_ref() == Some(winners[0])));
    }
}

#[test]
fn a_topic_made_again_is_another_topic() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.gateway(), cluster.gateway());
    let old = a.create("t", 2).expect("room");
    assert_eq!(b.topic("t"), Some(old.clone()));
    a.delete("t").expect("it is there");
    assert_eq!((a.topic("t"), b.topic("t")), (None, None));
    let new = a.create("t", 2).expect("room");
    assert_ne!(new.id, old.id);
    assert_eq!(b.topic("t"), Some(new.clone()));
    for gateway in [&a, &b] {
        assert_eq!(gateway.catalog.topic_by_id(&old.id), Ok(None));
        assert_eq!(gateway.catalog.topic_by_id(&new.id), Ok(Some(new.clone())));
        assert_eq!(gateway.deleted(), [old.id]);
    }
    assert_eq!(a.catalog.delete("t", Some(old.id), cluster.now() + LOOK_TIMEOUT), Err(DeleteTopicError::Unknown));
    assert_eq!(a.delete("nothing"), Err(DeleteTopicError::Unknown));
}

#[test]
fn without_advisories_the_slow_poll_notices() {
    let cluster = Cluster::new();
    cluster.store.drop_core_messages(true);
    let (a, b) = (cluster.gateway(), cluster.gateway());
    let old = a.create("t", 1).expect("room");
    b.tasks.run();
    assert_eq!(b.names(), ["t"]);
    a.delete("t").expect("it is there");
    let new = a.create("t", 1).expect("room");
    assert_eq!(b.topic("t"), Some(old.clone()), "nothing has told it");
    b.tasks.run();
    assert_eq!(b.topic("t"), Some(new));
    assert_eq!(b.deleted(), [old.id]);
    a.delete("t").expect("it is there");
    b.catalog.invalidate("t");
    assert_eq!(b.topic("t"), None, "the log saw that the stream is gone");
}

#[test]
fn foreign_streams_are_neither_shown_nor_touched() {
    let cluster = Cluster::new();
    for (name, subject) in [
        ("kafka-x-1abc", "kafka.x.1abc"),
        ("kafka-y-0", "orders.y"),
        ("orders", "kafka.orders.0"),
        ("kafka-z-0", "kafka.z.>"),
    ] {
        cluster.add_stream(json!({ "name": name, "subjects": [subject] }));
    }
    cluster.add_stream(json!({ "name": "kafka-w-0", "subjects": ["kafka.w.0"], "metadata": {"kafka.topic": "other"} }));
    let gateway = cluster.gateway();
    assert_eq!(gateway.names(), [""; 0]);
    for name in ["x", "y", "z", "w", "orders", "other"] {
        assert_eq!(gateway.topic(name), None, "{name}");
        assert_eq!(gateway.delete(name), Err(DeleteTopicError::Unknown), "{name}");
    }
    cluster.clock.advance(YOUNG_NO_MORE);
    assert!(matches!(gateway.create("y", 2), Err(CreateTopicError::Exists(_))));
    assert!(gateway.create("z", 1).is_err());
    assert!(gateway.create("x", 1).is_ok());
    for name in ["kafka-x-1abc", "kafka-y-0", "orders", "kafka-z-0", "kafka-w-0"] {
        assert!(cluster.store.stream_info(name, cluster.now()).is_ok(), "{name} is untouched");
    }
    assert_eq!(gateway.names(), ["x"]);
}

#[test]
fn streams_of_older_gateways_become_topics_with_a_lasting_id() {
    let cluster = Cluster::new();
    for partition in [0, 1, 3] {
        cluster.add_stream(json!({
            "name": format!("kafka-old~t-{partition}"),
            "subjects": [format!("kafka.old~t.{partition}")],
            "max_age": 5_000_000_000_i64,
            "novelty": "kept",
        }));
    }
    let (a, b) = (cluster.gateway(), cluster.gateway());
    let topic = a.topic("old.t").expect("it is known by its streams");
    assert_eq!(topic.partitions.len(), 2, "as many as there are without a hole");
    assert_eq!(topic.settings.retention_ms, 5_000);
    assert_eq!(b.topic("old.t"), Some(topic.clone()), "the same id everywhere");
    cluster.clock.advance(YOUNG_NO_MORE);
    a.tasks.run();
    let info = cluster.store.stream_info("kafka-old~t-0", cluster.now()).expect("it is there");
    assert_eq!(info.metadata("kafka.topic.id"), Some(topic.id.to_string().as_str()), "written for good");
    assert_eq!((&info.config["novelty"], &info.config["allow_direct"]), (&json!("kept"), &json!(true)));
    assert_eq!(b.topic("old.t"), Some(topic.clone()));
    assert_eq!(cluster.gateway().topic("old.t"), Some(topic.clone()));
    assert_eq!((a.deleted(), b.deleted()), (Vec::new(), Vec::new()));
    b.delete("old.t").expect("it is there");
    assert_eq!(cluster.streams(), ["kafka-old~t-3"], "what was no part of it stays");
}

#[test]
fn known_topics_are_served_while_the_store_is_away() {
    let cluster = Cluster::new();
    let (known, fresh) = (cluster.gateway(), cluster.gateway());
    let topic = known.create("t", 2).expect("room");
    assert_eq!(known.names(), ["t"]);
    for outage in [Outage::Unavailable, Outage::NoAnswer] {
        cluster.store.set_outage(Some(outage));
        known.catalog.invalidate("t");
        cluster.clock.advance(Duration::from_secs(60));
        assert_eq!(known.topic("t"), Some(topic.clone()));
        assert_eq!(known.catalog.topic_by_id(&topic.id), Ok(Some(topic.clone())));
        assert_eq!(known.names(), ["t"]);
        assert!(known.catalog.topic("other").is_err(), "nobody knows");
        assert!(fresh.catalog.topics().is_err(), "an empty list would be taken for the truth");
        let asked = cluster.store.counts();
        for _ in 0..10 {
            assert_eq!((known.topic("t"), known.names().len()), (Some(topic.clone()), 1));
        }
        assert_eq!(cluster.store.counts(), asked, "the store is left in peace for a moment");
    }
    cluster.store.set_outage(None);
    assert_eq!(fresh.names(), ["t"]);
    assert!(known.deleted().is_empty());
}

#[test]
fn a_missing_topic_is_not_looked_for_again_and_again() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.gateway(), cluster.gateway());
    assert_eq!(a.topic("t"), None);
    let asked = cluster.store.counts();
    for _ in 0..10 {
        assert_eq!(a.topic("t"), None);
        assert_eq!(a.topic("a/b"), None);
    }
    assert_eq!(cluster.store.counts(), asked);
    let made = b.create("t", 1).expect("room");
    assert_eq!(a.topic("t"), Some(made), "what one creates the other finds at once");
    let asked = cluster.store.counts();
    assert!(a.topic("t").is_some());
    assert_eq!(cluster.store.counts(), asked, "known topics cost the store nothing");
    cluster.store.drop_core_messages(true);
    assert_eq!(a.topic("u"), None);
    b.create("u", 1).expect("room");
    cluster.clock.advance(ABSENCE_TRUSTED_FOR);
    assert!(a.topic("u").is_some());
}

#[test]
fn a_stream_without_a_leader_is_not_a_deleted_topic() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.gateway(), cluster.gateway());
    let topic = a.create("t", 2).expect("room");
    assert_eq!(b.names(), ["t"]);
    for stream in ["kafka-t-0", "kafka-t-1"] {
        b.store.unlisted.lock().expect("no holder panics").insert(stream.to_owned());
        b.store.on_call(move |call| match call {
            Call::Info(asked) if asked == stream => Fate::Refuse(StoreError::Unavailable),
            _ => Fate::Pass,
        });
        b.catalog.refresh().expect("the listing itself is answered");
        assert_eq!(b.topic("t"), Some(topic.clone()));
        b.catalog.invalidate("t");
        cluster.clock.advance(Duration::from_secs(2));
        assert_eq!(b.topic("t"), Some(topic.clone()));
        assert!(matches!(b.create("t", 2), Err(CreateTopicError::Exists(_))));
        assert!(matches!(b.create("t", 4), Err(CreateTopicError::Exists(_))));
        b.store.leave_alone();
        b.store.unlisted.lock().expect("no holder panics").clear();
    }
    assert_eq!(cluster.streams().len(), 2, "and nothing was removed");
    assert!(b.deleted().is_empty());
}

#[test]
fn names_too_long_for_a_stream_work_like_others() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.gateway(), cluster.gateway());
    let (one, two) = ("x.".repeat(124), format!("{}y.", "x.".repeat(123)));
    let first = a.create(&one, 2).expect("room");
    let second = a.create(&two, 2).expect("room");
    assert_eq!(cluster.streams().len(), 4);
    assert_eq!((b.topic(&one), b.topic(&two)), (Some(first.clone()), Some(second.clone())));
    assert_eq!(b.names(), [one.clone(), two.clone()]);
    a.delete(&one).expect("it is there");
    assert_eq!((b.topic(&one), b.topic(&two)), (None, Some(second)));
    assert_eq!(b.deleted(), [first.id]);
}

#[test]
fn the_slow_poll_tells_how_far_every_stream_is() {
    let cluster = Cluster::new();
    let gateway = cluster.gateway();
    let topic = gateway.create("t", 2).expect("room");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = seen.clone();
    gateway.catalog.on_refresh(Box::new(move |sightings| {
        *told.lock().expect("no holder panics") = sightings.to_vec();
    }));
    let foreign = cluster.store.publish_foreign("kafka.t.1", "x").expect("the memory takes it");
    gateway.tasks.run();
    let seen = seen.lock().expect("no holder panics").clone();
    let by_partition: Vec<_> = seen.iter().map(|sighting| (sighting.topic.id, sighting.partition)).collect();
    assert_eq!(by_partition, [(topic.id, 0), (topic.id, 1)]);
    assert_eq!(seen[1].last, foreign);
    assert!(seen[0].last < seen[1].last || seen[0].last != foreign);
}

#[test]
fn streams_of_two_topics_are_no_topic() {
    let cluster = Cluster::new();
    for (partition, id) in [(0, Uuid([1; 16])), (1, Uuid([2; 16]))] {
        let metadata = json!({"kafka.topic": "t", "kafka.topic.id": id.to_string(), "kafka.partitions": "2"});
        cluster.add_stream(json!({
            "name": names::stream("t", partition),
            "subjects": [names::subject("t", partition)],
            "metadata": metadata,
        }));
    }
    for (name, count) in [("u", "10001"), ("v", "18446744073709551615"), ("w", "0")] {
        let metadata =
            json!({"kafka.topic": name, "kafka.topic.id": Uuid([9; 16]).to_string(), "kafka.partitions": count});
        let config =
            json!({"name": names::stream(name, 0), "subjects": [names::subject(name, 0)], "metadata": metadata});
        cluster.add_stream(config);
    }
    let gateway = cluster.gateway();
    assert_eq!(gateway.names(), [""; 0]);
    for name in ["t", "u", "v", "w"] {
        assert_eq!(gateway.topic(name), None, "{name}");
    }
}

/// A creator is held up so long that another gateway takes its streams for left behind.
#[test]
fn a_creator_that_was_overtaken_says_so_and_harms_nothing() {
    for whole in [false, true] {
        let cluster = Cluster::new();
        let (a, b) = (cluster.gateway(), cluster.gateway());
        let (store, other) = (cluster.store.clone(), b.catalog.clone());
        let deadline = cluster.now() + Duration::from_secs(60);
        let mut moved = false;
        a.store.on_call(move |call| {
            if moved && matches!(call, Call::Info(_)) {
                moved = false;
                store.stream_delete("kafka-t-1", deadline).expect("it was made");
                if whole {
                    store.stream_delete("kafka-t-0", deadline).expect("it was made");
                    let new = NewTopic { name: "t".to_owned(), partitions: 2, replicas: 1, ..Default::default() };
                    other.create(new, deadline).expect("the name is free");
                }
            }
            moved |= matches!(call, Call::Purge(stream) if stream == "kafka-t-0");
            Fate::Pass
        });
        assert!(matches!(a.create("t", 2), Err(CreateTopicError::Store(StoreError::NoAnswer))));
        assert_eq!(cluster.streams().len(), if whole { 2 } else { 0 });
        assert_eq!(cluster.gateway().topic("t").is_some(), whole);
    }
}
