//! Topics that are changed: settings, limits, partitions, whatever befalls the store meanwhile.

use super::*;
use crate::catalog::settings::Change;

const MIB: i64 = 1 << 20;

fn set(name: &str, value: &str) -> Alteration {
    Alteration::Each(vec![(name.to_owned(), Change::Set(value.to_owned()))])
}

impl Cluster {
    fn config(&self, name: &str, partition: usize) -> Value {
        let info = self.store.stream_info(&names::stream(name, partition), self.now()).expect("it is there");
        info.config
    }

    /// `max_age` in milliseconds and `max_bytes` of each partition.
    fn limits(&self, name: &str, partitions: usize) -> Vec<(i64, i64)> {
        let number = |value: &Value| value.as_i64().expect("a number");
        let limits = |config: Value| (number(&config["max_age"]) / 1_000_000, number(&config["max_bytes"]));
        (0..partitions).map(|partition| limits(self.config(name, partition))).collect()
    }
}

impl Gateway {
    fn alter(&self, name: &str, alteration: &Alteration) -> Result<(), AlterTopicError> {
        self.catalog.alter(name, alteration, self.catalog.clock.now().mono + Duration::from_secs(60))
    }

    fn grow(&self, name: &str, count: i32) -> Result<(), AlterTopicError> {
        self.catalog.grow(name, count, self.catalog.clock.now().mono + Duration::from_secs(60))
    }

    fn given(&self, name: &str) -> BTreeMap<String, String> {
        self.topic(name).expect("it is there").settings.given.clone()
    }
}

#[test]
fn a_change_reaches_every_stream_and_every_gateway() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.gateway(), cluster.gateway());
    a.create_with("t", 3, &[("retention.bytes", "500000000")]).expect("room");
    let mut config = cluster.config("t", 1);
    config["of_the_future"] = json!({ "a": 1 });
    cluster.store.stream_update(&config, cluster.now()).expect("taken");
    assert_eq!(b.topic("t").expect("it is there").settings.retention_ms, 60_000);
    assert_eq!(a.alter("t", &set("retention.ms", "5000")), Ok(()));
    assert_eq!(cluster.limits("t", 3), [(5_000, 500_000_000); 3]);
    assert_eq!(cluster.config("t", 1)["of_the_future"], json!({ "a": 1 }), "what is not known is kept");
    for gateway in [&a, &b] {
        let topic = gateway.topic("t").expect("it is there");
        assert_eq!((topic.settings.retention_ms, topic.settings.given["retention.ms"].as_str()), (5_000, "5000"));
    }
    assert_eq!(b.alter("t", &set("max.message.bytes", "1000")), Ok(()));
    assert_eq!(a.topic("t").expect("it is there").settings.max_message_bytes, 1000);
    let both = Alteration::Each(vec![
        ("retention.ms".to_owned(), Change::Delete),
        ("retention.bytes".to_owned(), Change::Set("-1".to_owned())),
    ]);
    assert_eq!(a.alter("t", &both), Ok(()));
    assert_eq!(cluster.limits("t", 3), [(60_000, -1); 3], "the default again, and no limit");
    assert_eq!(a.alter("t", &Alteration::All(BTreeMap::new())), Ok(()));
    assert!(b.given("t").is_empty());
    assert_eq!(cluster.limits("t", 3)[0], cluster.limits("t", 3)[2]);
}

#[test]
fn a_policy_without_delete_lifts_the_limits_and_takes_them_back() {
    let cluster = Cluster::new();
    let a = cluster.gateway();
    a.create_with("t", 2, &[("retention.ms", "5000"), ("retention.bytes", "400000000")]).expect("room");
    assert_eq!(a.alter("t", &set("cleanup.policy", "compact")), Ok(()));
    assert_eq!(cluster.limits("t", 2), [(0, -1); 2]);
    assert_eq!(a.alter("t", &set("cleanup.policy", "compact,delete")), Ok(()));
    assert_eq!(cluster.limits("t", 2), [(5_000, 400_000_000); 2]);
}

#[test]
fn bad_changes_are_refused_and_change_nothing() {
    let cluster = Cluster::new();
    let a = cluster.gateway();
    a.create("t", 2).expect("room");
    let before = [cluster.config("t", 0), cluster.config("t", 1)];
    for (name, value) in [("no.such", "1"), ("retention.ms", "x"), ("retention.ms", "-2"), ("cleanup.policy", "keep")] {
        let both = Alteration::Each(vec![
            ("retention.bytes".to_owned(), Change::Set("7".to_owned())),
            (name.to_owned(), Change::Set(value.to_owned())),
        ]);
        let refused = a.alter("t", &both).expect_err("a bad value");
        assert!(matches!(&refused, AlterTopicError::InvalidSetting(text) if text.contains(name)), "{refused:?}");
        assert!(a.catalog.validate_alteration("t", &both).is_err());
    }
    assert_eq!(a.catalog.validate_alteration("t", &set("retention.ms", "5")), Ok(()));
    assert_eq!(a.alter("nothing", &set("retention.ms", "5")), Err(AlterTopicError::Unknown("nothing".to_owned())));
    assert_eq!([cluster.config("t", 0), cluster.config("t", 1)], before);
}

#[test]
fn a_refusal_in_the_middle_puts_back_what_was_done() {
    let cluster = Cluster::new();
    let a = cluster.gateway();
    a.create_with("t", 3, &[("retention.bytes", "5000000")]).expect("room");
    let before = cluster.limits("t", 3);
    for full in [0, 1] {
        let stream = names::stream("t", full);
        let mut refusals = 1;
        a.store.on_call(move |call| match call {
            Call::Update(name) if *name == stream && refusals > 0 => {
                refusals -= 1;
                Fate::Refuse(StoreError::NoSpace("insufficient storage resources available".to_owned()))
            }
            _ => Fate::Pass,
        });
        let refused = a.alter("t", &set("retention.bytes", "900000000")).expect_err("no room");
        assert!(
            matches!(&refused, AlterTopicError::NoRoom(text) if text.contains("3 of 900000000 bytes")),
            "{refused:?}"
        );
        a.store.leave_alone();
        assert_eq!(cluster.limits("t", 3), before, "refused at partition {full}");
        assert_eq!(a.given("t")["retention.bytes"], "5000000");
    }
    assert_eq!(a.alter("t", &set("retention.bytes", "900000000")), Ok(()));
    assert_eq!(cluster.limits("t", 3), [(60_000, 900_000_000); 3]);
}

#[test]
fn a_lost_answer_is_asked_for_again() {
    let cluster = Cluster::new();
    let a = cluster.gateway();
    a.create("t", 2).expect("room");
    for lost in ["kafka-t-0", "kafka-t-1"] {
        let mut losses = 2;
        a.store.on_call(move |call| match call {
            Call::Update(name) if name == lost && losses > 0 => {
                losses -= 1;
                Fate::LoseAnswer
            }
            _ => Fate::Pass,
        });
        let ms = if lost.ends_with('0') { "7000" } else { "8000" };
        assert_eq!(a.alter("t", &set("retention.ms", ms)), Ok(()), "{lost}");
        assert_eq!(cluster.limits("t", 2).iter().map(|(age, _)| age.to_string()).collect::<Vec<_>>(), [ms; 2]);
    }
}

/// Whatever call a gateway dies at, in the end all partitions have the limits of partition 0, and others may change it.
#[test]
fn a_gateway_that_dies_in_the_middle_leaves_a_topic_that_converges() {
    for survives in 0..6 {
        let cluster = Cluster::new();
        let (a, b) = (cluster.gateway(), cluster.gateway());
        a.create_with("t", 4, &[("retention.ms", "9000")]).expect("room");
        let mut left = survives;
        a.store.on_call(move |call| match call {
            Call::Update(_) if left == 0 => Fate::Refuse(StoreError::Unavailable),
            Call::Update(_) => {
                left -= 1;
                Fate::Pass
            }
            _ => Fate::Pass,
        });
        let outcome = a.alter("t", &set("retention.ms", "5000"));
        assert_eq!(outcome.is_ok(), survives >= 4, "{survives}");
        b.catalog.refresh().expect("the memory answers");
        b.tasks.run();
        b.tasks.run();
        let expected = if outcome.is_ok() { 5_000 } else { 9_000 };
        let ages: Vec<i64> = cluster.limits("t", 4).iter().map(|(age, _)| *age).collect();
        assert_eq!(ages, [expected; 4], "{survives} updates were done");
        assert_eq!(b.given("t")["retention.ms"], expected.to_string());
        cluster.clock.advance(Duration::from_secs(31));
        assert_eq!(b.alter("t", &set("retention.ms", "4000")), Ok(()));
        assert_eq!(cluster.limits("t", 4)[3].0, 4_000);
    }
}

#[test]
fn two_gateways_that_change_different_settings_lose_neither() {
    let cluster = Cluster::new();
    let gateways = [cluster.gateway(), cluster.gateway()];
    gateways[0].create("t", 3).expect("room");
    let settings = [("retention.ms", "max.message.bytes"), ("segment.ms", "min.insync.replicas")];
    std::thread::scope(|scope| {
        for (gateway, (one, other)) in gateways.iter().zip(settings) {
            scope.spawn(move || {
                for value in 1..=10 {
                    gateway.alter("t", &set(one, &format!("{value}000"))).expect("changed");
                    gateway.alter("t", &set(other, &value.to_string())).expect("changed");
                }
            });
        }
    });
    for gateway in &gateways {
        let given: Vec<(String, String)> = gateway.given("t").into_iter().collect();
        let expected = [
            ("max.message.bytes", "10"),
            ("min.insync.replicas", "10"),
            ("retention.ms", "10000"),
            ("segment.ms", "10000"),
        ];
        assert_eq!(given, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
    assert_eq!(cluster.limits("t", 3).iter().map(|(age, _)| *age).collect::<Vec<_>>(), [10_000; 3]);
}

#[test]
fn a_topic_grows_for_all_gateways_at_once() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.gateway(), cluster.gateway());
    let made = a.create_with("t", 2, &[("retention.ms", "5000")]).expect("room");
    assert_eq!(b.topic("t").expect("it is there").partitions.len(), 2);
    let other = b.catalog.clone();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = seen.clone();
    a.store.on_call(move |call| {
        if matches!(call, Call::Create(_) | Call::Purge(_) | Call::Update(_)) {
            let count = other.topic("t").expect("the memory answers").expect("it is there").partitions.len();
            told.lock().expect("no holder panics").push(count);
        }
        Fate::Pass
    });
    assert_eq!(a.grow("t", 5), Ok(()));
    assert!(seen.lock().expect("no holder panics").iter().all(|count| *count == 2), "never a half state");
    a.store.leave_alone();
    for gateway in [&a, &b] {
        let topic = gateway.topic("t").expect("it is there");
        assert_eq!((topic.id, topic.partitions.len()), (made.id, 5));
        assert_eq!(topic.partitions[4].stream, "kafka-t-4");
    }
    assert_eq!(cluster.limits("t", 5), vec![cluster.limits("t", 1)[0]; 5]);
    for partition in 2..5 {
        let info = cluster.store.stream_info(&names::stream("t", partition), cluster.now()).expect("it is there");
        assert_eq!(info.metadata("kafka.partition"), Some(partition.to_string().as_str()));
        assert!(info.state.last.0 >= 1 << 32, "moved");
    }
    for (count, part) in [(5, "already has 5"), (4, "not be an increase"), (-1, "not be an increase")] {
        let refused = a.grow("t", count).expect_err("no increase");
        assert!(matches!(&refused, AlterTopicError::InvalidPartitions(text) if text.contains(part)), "{refused:?}");
    }
    assert!(matches!(a.grow("t", 2_000_000), Err(AlterTopicError::InvalidPartitions(_))));
    assert_eq!(a.grow("nothing", 5), Err(AlterTopicError::Unknown("nothing".to_owned())));
    assert!(b.delete("t").is_ok());
    assert_eq!(cluster.streams(), [""; 0]);
}

#[test]
fn growth_that_fails_leaves_nothing_and_may_be_tried_again() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.gateway(), cluster.gateway());
    a.create("t", 1).expect("room");
    a.store.on_call(|call| match call {
        Call::Create(name) if name == "kafka-t-1" => Fate::Refuse(StoreError::NoSpace("no room".to_owned())),
        _ => Fate::Pass,
    });
    assert!(matches!(a.grow("t", 4), Err(AlterTopicError::NoRoom(_))));
    assert_eq!(cluster.streams(), ["kafka-t-0"]);
    // Killed in the middle: the streams that are there are nobody's, until the next who tries removes them.
    a.store.on_call(|call| match call {
        Call::Create(name) if name == "kafka-t-3" => Fate::Pass,
        Call::Create(_) | Call::Delete(_) => Fate::Refuse(StoreError::Unavailable),
        _ => Fate::Pass,
    });
    assert!(a.grow("t", 4).is_err());
    assert_eq!(cluster.streams(), ["kafka-t-0", "kafka-t-3"]);
    assert_eq!(b.topic("t").expect("it is there").partitions.len(), 1);
    assert_eq!(b.grow("t", 5), Ok(()));
    assert_eq!(b.topic("t").expect("it is there").partitions.len(), 5);
    assert_eq!(cluster.streams().len(), 5);
}

#[test]
fn a_topic_of_an_older_gateway_grows_too() {
    let cluster = Cluster::new();
    for partition in 0..2 {
        cluster.add_stream(json!({
            "name": names::stream("old", partition), "subjects": [names::subject("old", partition)],
            "max_bytes": 77 * MIB, "compression": "s2",
        }));
    }
    let (a, b) = (cluster.gateway(), cluster.gateway());
    let id = a.topic("old").expect("it is there").id;
    assert_eq!(a.grow("old", 3), Ok(()));
    let topic = b.topic("old").expect("it is there");
    assert_eq!((topic.id, topic.partitions.len()), (id, 3));
    let config = cluster.config("old", 2);
    assert_eq!((&config["max_bytes"], &config["compression"]), (&json!(77 * MIB), &json!("s2")), "as its siblings");
}

#[test]
fn streams_without_any_limit_are_bounded_at_start_and_others_left_alone() {
    let cluster = Cluster::new();
    let bare = |name: &str, limits: Value| {
        let mut config = json!({ "name": names::stream(name, 0), "subjects": [names::subject(name, 0)], "odd": [1] });
        config.as_object_mut().expect("an object").extend(limits.as_object().expect("an object").clone());
        cluster.add_stream(config);
    };
    bare("bare", json!({}));
    bare("also-bare", json!({ "max_age": 0, "max_bytes": -1, "max_msgs": -1 }));
    bare("aged", json!({ "max_age": 1_000_000 }));
    bare("counted", json!({ "max_msgs": 5 }));
    bare("compact", json!({ "metadata": { "kafka.config.cleanup.policy": "compact" } }));
    bare("forever", json!({ "metadata": { "kafka.config.retention.ms": "-1", "kafka.config.retention.bytes": "-1" } }));
    bare("refused", json!({}));
    cluster.add_stream(json!({ "name": "kafka-foreign", "subjects": ["elsewhere"] }));
    let before: BTreeMap<&str, Value> =
        ["aged", "counted", "compact", "forever"].into_iter().map(|name| (name, cluster.config(name, 0))).collect();
    let a = cluster.gateway();
    a.store.on_call(|call| match call {
        Call::Update(name) if name == "kafka-refused-0" => {
            Fate::Refuse(StoreError::Refused { code: 10052, text: "no".to_owned() })
        }
        _ => Fate::Pass,
    });
    a.tasks.run();
    for name in ["bare", "also-bare"] {
        let config = cluster.config(name, 0);
        assert_eq!((&config["max_age"], &config["odd"]), (&json!(60_000_000_000_i64), &json!([1])), "{name}");
        assert_eq!(a.topic(name).expect("it serves").settings.retention_ms, 60_000);
    }
    for (name, config) in before {
        assert_eq!(cluster.config(name, 0), config, "{name} is left alone");
    }
    assert!(cluster.config("refused", 0)["max_age"].is_null());
    assert!(a.topic("refused").is_some(), "it still serves");
    // Lifted on purpose later: nobody interferes.
    let mut lifted = cluster.config("bare", 0);
    lifted["max_age"] = json!(0);
    cluster.store.stream_update(&lifted, cluster.now()).expect("taken");
    a.tasks.run();
    assert_eq!(cluster.config("bare", 0)["max_age"], json!(0));
}

#[test]
fn a_store_that_is_away_at_start_is_looked_after_later() {
    let cluster = Cluster::new();
    cluster.add_stream(json!({ "name": "kafka-bare-0", "subjects": ["kafka.bare.0"] }));
    let a = cluster.gateway();
    cluster.store.set_outage(Some(Outage::Unavailable));
    a.tasks.run();
    cluster.store.set_outage(None);
    a.store.on_call(|call| match call {
        Call::Update(_) => Fate::Refuse(StoreError::Unavailable),
        _ => Fate::Pass,
    });
    a.tasks.run();
    assert!(cluster.config("bare", 0)["max_age"].is_null());
    a.store.leave_alone();
    a.tasks.run();
    assert_eq!(cluster.config("bare", 0)["max_age"], json!(60_000_000_000_i64));
}

#[test]
fn growth_whose_last_update_may_have_been_done_removes_nothing() {
    // The update of partition 0 gets no answer, and afterwards nothing is to be had, or only looks are.
    for looks in [false, true] {
        let cluster = Cluster::new();
        let (a, b) = (cluster.gateway(), cluster.gateway());
        a.create("t", 1).expect("room");
        let mut updates = 0;
        a.store.on_call(move |call| match call {
            Call::Update(_) => {
                updates += 1;
                if updates == 1 { Fate::LoseAnswer } else { Fate::Refuse(StoreError::Unavailable) }
            }
            Call::Info(name) if name == "kafka-t-0" && updates > 0 && !looks => Fate::Refuse(StoreError::Unavailable),
            _ => Fate::Pass,
        });
        let expected = if looks { Ok(()) } else { Err(StoreError::NoAnswer.into()) };
        assert_eq!(a.grow("t", 3), expected);
        b.catalog.refresh().expect("the memory answers");
        assert_eq!(b.topic("t").expect("it is there").partitions.len(), 3);
        assert_eq!(cluster.streams().len(), 3);
    }
}

#[test]
fn growth_that_went_by_old_news_changes_nothing() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.gateway(), cluster.gateway());
    a.create("t", 1).expect("room");
    assert!(a.topic("t").is_some());
    let (other, now, mut looks) = (b.catalog.clone(), cluster.now(), 0);
    // Another gateway's change shows between two looks.
    cluster.store.set_clustered(true);
    a.store.on_call(move |call| {
        looks += usize::from(*call == Call::Info("kafka-t-0".to_owned()));
        if looks == 2 {
            looks += 1;
            let mut config = other.store.stream_info("kafka-t-0", now).expect("it is there").config;
            config["metadata"]["kafka.partitions"] = json!("3");
            for partition in [1, 2] {
                let mut sibling = config.clone();
                sibling["name"] = json!(names::stream("t", partition));
                sibling["subjects"] = json!([names::subject("t", partition)]);
                other.store.stream_create(&sibling, now).expect("room");
            }
            other.store.stream_update(&config, now).expect("taken");
        }
        Fate::Pass
    });
    assert_eq!(a.grow("t", 5), Err(StoreError::Unavailable.into()));
    assert_eq!(b.topic("t").expect("it is there").partitions.len(), 3);
    a.store.leave_alone();
    // A stream that holds messages is never taken for left behind.
    cluster.store.publish_foreign("kafka.t.2", "a record").expect("stored");
    let mut config = cluster.config("t", 0);
    config["metadata"]["kafka.partitions"] = json!("1");
    cluster.store.stream_update(&config, cluster.now()).expect("taken");
    let refused = a.grow("t", 4);
    assert!(
        matches!(&refused, Err(AlterTopicError::InvalidPartitions(text)) if text.contains("kafka-t-2")),
        "{refused:?}"
    );
    assert_eq!(cluster.streams(), ["kafka-t-0", "kafka-t-1", "kafka-t-2"]);
}
