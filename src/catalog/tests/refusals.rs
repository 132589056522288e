//! What JetStream refuses for want of servers or of room.

use super::*;
use crate::catalog::memory::MADE_LATELY;
use crate::store::memory::PublishFault;
use std::sync::atomic::{AtomicBool, Ordering};

fn too_few() -> StoreError {
    StoreError::NoPeers("no suitable peers for placement".to_owned())
}

#[test]
fn a_cluster_that_has_just_formed_is_asked_again_until_it_knows_its_servers() {
    let cluster = Cluster::new();
    let gateway = cluster.gateway();
    let mut refusals = 3;
    gateway.store.on_call(move |call| match call {
        Call::Create(_) if refusals > 0 => {
            refusals -= 1;
            Fate::Refuse(too_few())
        }
        _ => Fate::Pass,
    });
    assert!(gateway.create("t", 2).is_ok());
    assert_eq!(cluster.streams().len(), 2);
}

#[test]
fn too_few_servers_are_told_as_what_may_pass_and_leave_nothing() {
    let cluster = Cluster::new();
    let gateway = cluster.gateway();
    gateway.store.on_call(|call| match call {
        Call::Create(_) => Fate::Refuse(too_few()),
        _ => Fate::Pass,
    });
    let new = NewTopic { name: "t".to_owned(), partitions: 2, replicas: 3, settings: Default::default() };
    let soon = cluster.now() + Duration::from_millis(10);
    assert_eq!(gateway.catalog.create(new, soon).map(|_| ()), Err(CreateTopicError::Store(too_few())));
    assert_eq!(cluster.streams(), [""; 0]);
}

#[test]
fn a_refusal_for_want_of_room_names_what_was_asked_for() {
    let cluster = Cluster::new();
    let gateway = cluster.gateway();
    gateway.store.on_call(|call| match call {
        Call::Create(_) => Fate::Refuse(StoreError::NoSpace("insufficient storage".to_owned())),
        _ => Fate::Pass,
    });
    for (bytes, expected) in [("60000000", "3 of 60000000 bytes, on 1 server(s) each"), ("-1", "insufficient storage")]
    {
        let refused = gateway.create_with("t", 3, &[("retention.bytes", bytes)]);
        assert!(matches!(&refused, Err(CreateTopicError::NoRoom(text)) if text.contains(expected)), "{refused:?}");
    }
}

/// Two gateways on a store that is a cluster.
fn clustered() -> (Cluster, Gateway, Gateway) {
    let cluster = Cluster::new();
    cluster.store.set_clustered(true);
    let gateways = (cluster.gateway(), cluster.gateway());
    (cluster, gateways.0, gateways.1)
}

#[test]
fn a_cluster_is_asked_twice_before_a_topic_is_missing_however_few_its_replicas() {
    let (_cluster, maker, gateway) = clustered();
    maker.create("t", 1).expect("room");
    let mut misses = 1;
    gateway.store.on_call(move |call| match call {
        Call::Info(_) if misses > 0 => {
            misses -= 1;
            Fate::Refuse(StoreError::NoStream)
        }
        _ => Fate::Pass,
    });
    assert!(gateway.topic("t").is_some(), "a leader that was just elected did not know it");
}

#[test]
fn who_asks_between_two_looks_is_not_told_what_the_first_one_found() {
    let (cluster, maker, gateway) = clustered();
    maker.create("t", 1).expect("room");
    cluster.clock.advance(MADE_LATELY);
    let missed = Arc::new(AtomicBool::new(false));
    let told = missed.clone();
    gateway.store.on_call(move |call| match call {
        Call::Info(_) if !told.swap(true, Ordering::SeqCst) => Fate::Refuse(StoreError::NoStream),
        _ => Fate::Pass,
    });
    std::thread::scope(|scope| {
        let first = scope.spawn(|| gateway.topic("t"));
        while !missed.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(20));
        assert!(gateway.topic("t").is_some());
        assert!(first.join().expect("it looks twice").is_some());
    });
}

#[test]
fn a_topic_that_was_just_made_is_not_told_to_be_missing_by_a_cluster() {
    let (cluster, maker, gateway) = clustered();
    let made = maker.create("t", 1).expect("room");
    for one in [&maker, &gateway] {
        one.store.on_call(|call| match call {
            Call::Info(_) => Fate::Refuse(StoreError::NoStream),
            _ => Fate::Pass,
        });
    }
    assert_eq!(maker.catalog.topic("t"), Ok(Some(made)), "who knows it goes by that");
    assert_eq!(gateway.catalog.topic("t"), Err(StoreError::Unavailable), "ask again");
    cluster.clock.advance(MADE_LATELY);
    assert_eq!(gateway.catalog.topic("t"), Ok(None));
    assert_eq!(gateway.catalog.topic("other"), Ok(None));
}

#[test]
fn in_a_full_store_a_topic_can_be_deleted() {
    let cluster = Cluster::new();
    let gateway = cluster.gateway();
    let made = gateway.create("t", 2).expect("room");
    cluster.store.set_full(true);
    assert!(gateway.catalog.validate_alteration("t", &Alteration::All(Default::default())).is_ok());
    let refused =
        gateway.catalog.alter("t", &Alteration::All(Default::default()), cluster.now() + Duration::from_secs(5));
    assert!(matches!(refused, Err(AlterTopicError::Store(StoreError::NoSpace(_)))), "{refused:?}");
    assert_eq!(gateway.delete("t"), Ok(made.id));
    assert_eq!(cluster.streams(), [""; 0]);
}

#[test]
fn a_claim_whose_answer_was_lost_is_ours() {
    for lost in 1..=2 {
        let cluster = Cluster::new();
        let gateway = cluster.gateway();
        let made = gateway.create("t", 2).expect("room");
        // It is taken, and written once more before anything is removed.
        (0..lost).for_each(|_| cluster.store.fail_next("$KV.kafka-gateways.changing.*", PublishFault::AckLost));
        assert_eq!(gateway.delete("t"), Ok(made.id));
        assert_eq!(cluster.store.faults_left(), 0);
        assert!(gateway.create("t", 2).is_ok(), "nobody waits for it");
    }
}

#[test]
fn a_claim_whose_write_was_lost_is_nobodys() {
    let cluster = Cluster::new();
    let gateway = cluster.gateway();
    gateway.create("t", 2).expect("room");
    cluster.store.fail_next("$KV.kafka-gateways.changing.*", PublishFault::Lost);
    assert_eq!(gateway.delete("t"), Err(DeleteTopicError::Store(StoreError::NoAnswer)));
    assert_eq!(cluster.streams().len(), 2);
    assert!(gateway.delete("t").is_ok());
}

#[test]
fn a_bucket_that_a_leader_has_not_heard_of_is_no_missing_topic() {
    let cluster = Cluster::new();
    let gateway = cluster.gateway();
    gateway.create("t", 2).expect("room");
    // Before it is made, and once more afterwards.
    cluster.store.hide_buckets(2);
    assert_eq!(gateway.delete("t"), Err(DeleteTopicError::Store(StoreError::Unavailable)));
    assert!(gateway.delete("t").is_ok());
}
