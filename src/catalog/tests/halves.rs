//! What creations and deletions that were cut short leave behind.

use super::*;
use crate::limits::CLAIM_LASTS;

/// Lets a gateway's `steps` first changes through, then nothing more, as if it had been killed.
fn kill_after(gateway: &Gateway, steps: usize) {
    let mut changes = 0;
    gateway.store.on_call(move |call| {
        changes += usize::from(!matches!(call, Call::Info(_) | Call::List));
        if changes > steps { Fate::Refuse(StoreError::Unavailable) } else { Fate::Pass }
    });
}

#[test]
fn what_a_killed_creator_leaves_is_never_seen_and_removed_by_the_next_creation() {
    for steps in 1..6 {
        let cluster = Cluster::new();
        let (a, b) = (cluster.gateway(), cluster.gateway());
        kill_after(&a, steps);
        assert!(a.create("t", 3).is_err());
        assert!(!cluster.streams().is_empty(), "something is left");
        // Where all streams are there, only not all in their place, it may be whole a moment later.
        let seen = if steps < 5 { Ok(None) } else { Err(StoreError::Unavailable) };
        assert_eq!((b.catalog.topic("t"), b.names()), (seen, Vec::new()), "killed after {steps} changes");
        let early = b.create("t", 2);
        assert!(matches!(early, Err(CreateTopicError::Exists(_))), "it may still be under construction: {early:?}");
        cluster.clock.advance(YOUNG_NO_MORE);
        match b.create("t", 2) {
            Ok(topic) => assert_eq!(topic.partitions.len(), 2),
            // Only the last stream's range was not moved: the topic is as good as made.
            Err(CreateTopicError::Exists(_)) => assert_eq!(steps, 5),
            Err(error) => panic!("{error:?} after {steps} changes"),
        }
        let topic = b.topic("t").expect("there is one now");
        assert_eq!(cluster.streams().len(), topic.partitions.len(), "nothing else is left");
    }
}

#[test]
fn a_creator_whose_store_went_away_may_try_again_at_once() {
    let cluster = Cluster::new();
    let gateway = cluster.gateway();
    kill_after(&gateway, 3);
    assert!(gateway.create("t", 3).is_err());
    gateway.store.leave_alone();
    assert!(gateway.create("t", 3).is_ok());
}

#[test]
fn a_half_deleted_topic_is_never_seen() {
    for steps in 0..3 {
        let cluster = Cluster::new();
        let (a, b) = (cluster.gateway(), cluster.gateway());
        let made = a.create("t", 3).expect("room");
        assert!(b.topic("t").is_some());
        kill_after(&a, steps);
        assert!(a.delete("t").is_err());
        a.store.leave_alone();
        let expected = if steps == 0 { Some(made.clone()) } else { None };
        for gateway in [&a, &b, &cluster.gateway()] {
            assert_eq!(gateway.topic("t"), expected, "killed after {steps} changes");
        }
        if steps > 0 {
            assert_eq!(b.deleted(), [made.id]);
            cluster.clock.advance(YOUNG_NO_MORE);
            assert_eq!(b.create("t", 1).map(|topic| topic.id != made.id), Ok(true));
            assert_eq!(cluster.streams(), ["kafka-t-0"]);
        }
    }
}

#[test]
fn records_of_a_topic_that_nobody_deleted_are_not_removed_for_a_new_one() {
    let cluster = Cluster::new();
    let gateway = cluster.gateway();
    let store = |text: &'static str| cluster.store.publish_foreign("kafka.t.2", text).expect("stored");
    // A deletion that was cut short: what is left of it goes.
    gateway.create("t", 3).expect("room");
    store("a record");
    kill_after(&gateway, 2);
    assert!(gateway.delete("t").is_err());
    gateway.store.leave_alone();
    cluster.clock.advance(YOUNG_NO_MORE);
    let other = cluster.gateway();
    other.create("t", 3).expect("the deletion is remembered in the store");
    assert_eq!(cluster.streams().len(), 3);
    // Partition 0 removed by other means: the others' records stay.
    store("a record");
    cluster.store.stream_delete("kafka-t-0", cluster.now() + Duration::from_secs(1)).expect("it is there");
    cluster.clock.advance(YOUNG_NO_MORE);
    for gateway in [&gateway, &other, &cluster.gateway()] {
        let refused = gateway.create("t", 3).expect_err("not over records");
        assert!(matches!(&refused, CreateTopicError::Exists(text) if text.contains("kafka-t-2")), "{refused:?}");
    }
    assert_eq!(cluster.streams(), ["kafka-t-1", "kafka-t-2"]);
}

#[test]
fn a_topic_that_lost_a_stream_is_not_taken_for_deleted() {
    let cluster = Cluster::new();
    let gateway = cluster.gateway();
    let made = gateway.create("t", 3).expect("room");
    let config = cluster.store.stream_info("kafka-t-2", cluster.now()).expect("it is there").config;
    cluster.store.stream_delete("kafka-t-2", cluster.now()).expect("it is there");
    gateway.catalog.refresh().expect("the memory answers");
    assert_eq!((gateway.topic("t"), gateway.deleted()), (None, Vec::new()));
    assert!(!gateway.catalog.is_gone(&made));
    cluster.clock.advance(YOUNG_NO_MORE);
    let refused = gateway.create("t", 3);
    assert!(
        matches!(&refused, Err(CreateTopicError::Exists(_))),
        "its id and its commits are not given up: {refused:?}"
    );
    cluster.add_stream(config);
    assert_eq!(gateway.topic("t"), Some(made.clone()));
    cluster.store.stream_delete("kafka-t-0", cluster.now()).expect("it is there");
    gateway.catalog.refresh().expect("the memory answers");
    assert_eq!((gateway.topic("t"), gateway.deleted()), (None, vec![made.id]));
    assert!(gateway.catalog.is_gone(&made));
}

#[test]
fn a_topic_that_lost_a_stream_can_be_deleted() {
    let cluster = Cluster::new();
    let gateway = cluster.gateway();
    let made = gateway.create("t", 3).expect("room");
    cluster.store.stream_delete("kafka-t-2", cluster.now()).expect("it is there");
    gateway.catalog.refresh().expect("the memory answers");
    assert_eq!(gateway.catalog.deletable("t", cluster.now()), Ok(Some(made.id)));
    assert_eq!(gateway.delete("t"), Ok(made.id));
    assert_eq!(cluster.streams(), [""; 0]);
    assert!(gateway.create("t", 3).is_ok());
}

#[test]
fn a_deletion_that_was_cut_short_is_finished_by_asking_again() {
    for (steps, same) in [(1, true), (2, false)] {
        let cluster = Cluster::new();
        let (a, b) = (cluster.gateway(), cluster.gateway());
        let made = a.create("t", 4).expect("room");
        cluster.store.publish_foreign("kafka.t.3", "a record").expect("stored");
        kill_after(&a, steps);
        assert!(a.delete("t").is_err());
        a.store.leave_alone();
        assert_eq!(cluster.streams().len(), 4 - steps);
        let next = if same { &a } else { &b };
        let soon = cluster.now() + LOOK_TIMEOUT;
        assert_eq!(next.catalog.half_deleted("t", soon), Ok(Some(made.id)));
        assert_eq!(next.catalog.half_deleted_by_id(made.id, soon), Ok(Some("t".to_owned())));
        assert_eq!(next.catalog.delete("t", Some(Uuid([9; 16])), soon), Err(DeleteTopicError::Unknown));
        assert_eq!(next.delete("t"), Ok(made.id));
        assert_eq!(cluster.streams(), [""; 0]);
        assert_eq!(next.catalog.half_deleted("t", soon), Ok(None));
        assert_eq!(next.delete("t"), Err(DeleteTopicError::Unknown));
        next.create("t", 1).expect("nothing is in the way");
    }
}

#[test]
fn a_removal_that_may_still_arrive_meets_no_new_topic() {
    // A deletion whose last try got no answer, and one of which only the first try got none.
    for unanswered in [3, 1] {
        let cluster = Cluster::new();
        let (a, b) = (cluster.gateway(), cluster.gateway());
        let made = a.create("t", 2).expect("room");
        let mut tries = 0;
        a.store.on_call(move |call| {
            tries += usize::from(*call == Call::Delete("kafka-t-0".to_owned()));
            if (1..=unanswered).contains(&tries) && matches!(call, Call::Delete(_)) {
                return Fate::Refuse(StoreError::NoAnswer);
            }
            Fate::Pass
        });
        match a.delete("t") {
            Ok(id) => assert_eq!((id, unanswered), (made.id, 1)),
            Err(error) => {
                assert_eq!((error, unanswered), (DeleteTopicError::Store(StoreError::NoAnswer), 3));
                assert_eq!(b.delete("t"), Ok(made.id), "at once");
            }
        }
        assert_eq!(cluster.streams(), [""; 0]);
        for gateway in [&a, &b] {
            let new = NewTopic { name: "t".to_owned(), partitions: 1, replicas: 1, ..Default::default() };
            let early = gateway.catalog.create(new, cluster.now());
            assert_eq!(early, Err(CreateTopicError::Store(StoreError::Busy)), "clients ask again");
        }
        cluster.clock.advance(CLAIM_LASTS);
        b.create("t", 1).expect("it is over");
    }
}
