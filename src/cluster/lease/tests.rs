//! Scripts of leases over one store: who is taken for alive by whom, and when.

use super::*;
use crate::clock::ManualClock;
use crate::limits::LEASE_TTL;
use crate::store::memory::{MemoryStore, Outage, PublishFault};
use slog::o;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

struct Stage {
    store: Arc<MemoryStore>,
    clock: Arc<ManualClock>,
    /// The server's clock may differ from everybody else's.
    server_ahead_ms: i64,
}

impl Stage {
    fn new() -> Stage {
        Stage { store: Arc::new(MemoryStore::new()), clock: Arc::new(ManualClock::new()), server_ahead_ms: 0 }
    }

    fn gateway(&self, process: &str, host: &str, asked_id: Option<i32>) -> Arc<Lease> {
        let (process, host) = (process.to_owned(), host.to_owned());
        let holder = Holder { process, host, port: 9092, asked_id, replicas: 1 };
        let logger = Logger::root(slog::Discard, o!());
        let lease = Lease::new(self.store.clone(), self.clock.clone(), holder, logger);
        lease.start(Box::new(|| ()));
        lease
    }

    fn pass(&self, by: Duration) {
        self.clock.advance(by);
        self.store.set_time(self.clock.now().wall_ms + self.server_ahead_ms);
    }

    /// Time passes in steps of half a second, and these do their rounds.
    fn live(&self, seconds: u64, gateways: &[&Arc<Lease>]) {
        for _ in 0..2 * seconds {
            self.pass(SECOND / 2);
            gateways.iter().for_each(|gateway| {
                gateway.round();
            });
        }
    }
}

fn ids(gateway: &Lease) -> Vec<i32> {
    gateway.brokers().iter().map(|broker| broker.id).collect()
}

/// Asks twice, with a look between, as whoever waits for an answer does.
fn asked(gateway: &Lease, process: &str) -> Standing {
    match gateway.standing(process) {
        Standing::Unknown => {
            gateway.round();
            gateway.standing(process)
        }
        known => known,
    }
}

#[test]
fn gateways_see_each_other_and_agree_on_brokers() {
    let stage = Stage::new();
    let (a, b, c) = (stage.gateway("a", "one", None), stage.gateway("b", "two", None), stage.gateway("c", "two", None));
    assert!(!a.holds() && a.standing("a") == Standing::Unknown && a.broker().is_none() && a.brokers().is_empty());
    for gateway in [&a, &b, &c, &a, &b] {
        gateway.round();
    }
    for gateway in [&a, &b, &c] {
        assert!(gateway.holds());
        assert_eq!(ids(gateway), [1, 2], "two of the three are behind one address");
        for process in ["a", "b", "c"] {
            assert_eq!(gateway.standing(process), Standing::Live);
        }
        assert_eq!(gateway.broker_of("c"), b.broker());
        assert_eq!(gateway.preferred("g"), a.preferred("g"));
        assert_eq!(asked(gateway, "stranger"), Standing::Gone);
    }
}

#[test]
fn who_stops_renewing_is_gone_after_it_stopped_believing_in_its_lease() {
    let stage = Stage::new();
    let (a, b) = (stage.gateway("a", "one", None), stage.gateway("b", "two", None));
    stage.live(2, &[&a, &b]);
    let mut fenced = 0;
    let mut steps = 0;
    while b.standing("a") == Standing::Live {
        fenced += usize::from(!a.holds());
        steps += 1;
        stage.pass(SECOND / 10);
        b.round();
    }
    assert!(fenced >= 5, "at least half a second between: {fenced} steps");
    assert!((40..=51).contains(&steps), "gone after {steps} tenths of a second");
    assert_eq!((b.standing("a"), ids(&b)), (Standing::Gone, vec![2]));
    assert!(b.preferred("g") == Some("b".to_owned()) && b.broker_of("a").is_none());

    let term = a.term();
    stage.live(20, &[&b]);
    assert!(asked(&b, "a") == Standing::Gone && !a.holds());
    a.round();
    b.round();
    assert!(a.holds() && a.term() > term, "it takes a new lease, and knows that it had lost the old one");
    assert_eq!((b.standing("a"), ids(&b)), (Standing::Live, vec![1, 2]));
}

#[test]
fn a_graceful_stop_is_seen_at_the_next_look() {
    let stage = Stage::new();
    let (a, b) = (stage.gateway("a", "one", None), stage.gateway("b", "two", None));
    let changes = Arc::new(AtomicUsize::new(0));
    let counted = changes.clone();
    b.on_change(Box::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    }));
    stage.live(2, &[&a, &b]);
    let before = changes.load(Ordering::Relaxed);
    a.release(stage.clock.now().mono + SECOND).expect("the memory answers");
    assert!(!a.holds() && a.round().is_none());
    assert_eq!(b.standing("a"), Standing::Live);
    b.round();
    assert_eq!((b.standing("a"), ids(&b)), (Standing::Gone, vec![2]));
    assert_eq!(changes.load(Ordering::Relaxed), before + 1);
    stage.live(30, &[&b]);
    assert_eq!(asked(&b, "a"), Standing::Gone);
}

#[test]
fn news_of_who_came_and_left_ask_for_a_look() {
    let stage = Stage::new();
    let kicks = Arc::new(AtomicUsize::new(0));
    let counted = kicks.clone();
    let holder = Holder { process: "a".to_owned(), host: "one".to_owned(), port: 1, asked_id: None, replicas: 1 };
    let a = Lease::new(stage.store.clone(), stage.clock.clone(), holder, Logger::root(slog::Discard, o!()));
    a.start(Box::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    }));
    a.round();
    assert_eq!(kicks.load(Ordering::Relaxed), 0, "our own news are none");
    let b = stage.gateway("b", "two", None);
    b.round();
    assert_eq!(kicks.load(Ordering::Relaxed), 1);
    assert_eq!(a.standing("stranger"), Standing::Unknown);
    assert_eq!(kicks.load(Ordering::Relaxed), 2, "a question about somebody unknown, too");
    b.release(stage.clock.now().mono + SECOND).expect("the memory answers");
    assert_eq!(kicks.load(Ordering::Relaxed), 3);
}

#[test]
fn without_the_store_nobody_is_gone_and_nobody_holds_for_long() {
    for outage in [Outage::NoAnswer, Outage::Unavailable] {
        let stage = Stage::new();
        let (a, b) = (stage.gateway("a", "one", None), stage.gateway("b", "two", None));
        stage.live(2, &[&a, &b]);
        stage.store.set_outage(Some(outage));
        stage.live(2, &[&a, &b]);
        assert!(a.holds() && b.standing("a") == Standing::Live);
        stage.live(2, &[&a, &b]);
        for gateway in [&a, &b] {
            assert!(!gateway.holds());
            assert_eq!((gateway.standing("a"), gateway.standing("b")), (Standing::Unknown, Standing::Unknown));
            assert_eq!(ids(gateway), [1, 2], "clients are told what was last seen");
        }
        stage.live(30, &[&a, &b]);
        stage.store.set_outage(None);
        a.round();
        assert!(a.holds());
        assert_ne!(a.standing("b"), Standing::Gone, "it had no time to come back");
        stage.live(2, &[&a, &b]);
        assert!(a.standing("b") == Standing::Live && b.standing("a") == Standing::Live);
        assert_eq!((a.term(), b.term()), (2, 2));
    }
}

#[test]
fn a_process_that_was_itself_stopped_takes_nobody_for_gone() {
    let stage = Stage::new();
    let (a, b) = (stage.gateway("a", "one", None), stage.gateway("b", "two", None));
    stage.live(2, &[&a, &b]);
    stage.live(60, &[&b]);
    assert!(!a.holds() && a.standing("b") == Standing::Unknown, "it wakes, and believes nothing");
    a.round();
    assert!(a.holds() && a.term() == 2);
    assert_eq!(a.standing("b"), Standing::Live);
}

#[test]
fn a_renewal_that_lands_late_gives_no_lease_to_who_has_lost_it() {
    let stage = Stage::new();
    let (a, b) = (stage.gateway("a", "one", None), stage.gateway("b", "two", None));
    stage.live(2, &[&a, &b]);
    stage.store.fail_next("$KV.kafka-leases.a", PublishFault::Stalled);
    stage.store.set_outage(None);
    // The round's first renewal stalls, its second is answered: the stalled one is worth nothing then.
    a.round();
    assert!(stage.store.deliver_stalled().iter().all(|outcome| matches!(outcome, Err(StoreError::WrongLast(_)))));
    assert!(a.holds() && a.term() == 1);

    stage.store.fail_next("$KV.kafka-leases.a", PublishFault::Stalled);
    stage.store.fail_next("$KV.kafka-leases.a", PublishFault::Lost);
    stage.store.fail_next("$KV.kafka-leases.a", PublishFault::Lost);
    a.round();
    stage.live(5, &[&b]);
    assert_eq!((b.standing("a"), a.holds()), (Standing::Gone, false));
    assert_eq!(stage.store.deliver_stalled().len(), 1);
    stage.live(1, &[&b]);
    assert!(!a.holds(), "its sender learns nothing from it");
    a.round();
    assert!(a.holds() && a.term() == 2);
    b.round();
    assert_eq!(b.standing("a"), Standing::Live);
}

#[test]
fn lost_answers_cost_no_lease() {
    for fault in [PublishFault::AckLost, PublishFault::Lost, PublishFault::Refused(StoreError::WrongLast(None))] {
        let stage = Stage::new();
        let a = stage.gateway("a", "one", None);
        stage.live(1, &[&a]);
        for _ in 0..10 {
            stage.store.fail_next("$KV.kafka-leases.>", fault.clone());
            stage.live(1, &[&a]);
            assert!(a.holds());
        }
        assert_eq!((a.term(), stage.store.faults_left()), (1, 0), "{fault:?}");
    }
}

#[test]
fn a_server_whose_clock_jumps_hides_nobody_who_was_seen() {
    let mut stage = Stage::new();
    let (a, b) = (stage.gateway("a", "one", None), stage.gateway("b", "two", None));
    stage.live(2, &[&a, &b]);
    stage.server_ahead_ms = 3_600_000;
    stage.pass(SECOND / 2);
    b.round();
    assert_eq!(b.standing("a"), Standing::Live, "its lease is away, but it was renewed half a second ago");
    assert!(a.holds());
    a.round();
    assert!(a.holds() && a.term() == 2, "whoever started meanwhile may have taken it for gone");
    b.round();
    assert_eq!(b.standing("a"), Standing::Live);
    stage.server_ahead_ms = -3_600_000;
    stage.live(10, &[&b]);
    assert_eq!(asked(&b, "a"), Standing::Gone, "its lease may never age out now, but it is not renewed");
}

#[test]
fn a_bucket_that_was_removed_is_made_again() {
    let stage = Stage::new();
    let (a, b) = (stage.gateway("a", "one", None), stage.gateway("b", "two", None));
    stage.live(2, &[&a, &b]);
    stage.store.stream_delete("KV_kafka-leases", stage.clock.now().mono).expect("it is there");
    b.round();
    assert_eq!(b.standing("a"), Standing::Live, "who was just seen is not gone because everything is");
    a.round();
    stage.live(10, &[&a, &b]);
    assert!(a.holds() && b.holds() && a.standing("b") == Standing::Live && b.standing("a") == Standing::Live);
}

#[test]
fn whoever_starts_asks_before_it_takes_a_stranger_for_gone() {
    let stage = Stage::new();
    let a = stage.gateway("a", "one", None);
    a.round();
    let b = stage.gateway("b", "two", None);
    // b's lease, and what it claimed with it, came after the last look of a.
    b.round();
    assert_eq!(a.standing("b"), Standing::Unknown);
    a.round();
    assert_eq!(a.standing("b"), Standing::Live);
    assert_eq!(a.standing("dead-for-long"), Standing::Unknown);
    a.round();
    assert_eq!(a.standing("dead-for-long"), Standing::Gone);
    stage.live(5, &[&a, &b]);
    assert_eq!(a.standing("dead-for-long"), Standing::Unknown, "it could have come back: it is asked for again");
}

#[test]
fn a_crashed_gateway_that_starts_again_is_another_process_of_the_same_broker() {
    let stage = Stage::new();
    let (a, b) = (stage.gateway("a", "one", None), stage.gateway("b", "two", None));
    stage.live(2, &[&a, &b]);
    drop(a);
    let again = stage.gateway("a2", "one", None);
    again.round();
    assert_eq!(again.broker().map(|broker| broker.id), Some(1));
    assert_eq!(again.standing("a"), Standing::Live, "its own former self, too, until that is silent for long enough");
    stage.live(5, &[&again, &b]);
    assert_eq!((again.standing("a"), b.standing("a")), (Standing::Gone, Standing::Gone));
    assert_eq!((ids(&again), ids(&b)), (vec![1, 2], vec![1, 2]));
}

#[test]
fn two_that_claim_one_id_are_told_alike_everywhere() {
    let stage = Stage::new();
    let gateways =
        [stage.gateway("a", "zebra", Some(5)), stage.gateway("b", "ant", Some(5)), stage.gateway("c", "cow", Some(9))];
    stage.live(2, &gateways.each_ref());
    for gateway in &gateways {
        let told: Vec<_> = gateway.brokers().iter().map(|broker| (broker.id, broker.host.clone())).collect();
        assert_eq!(told, [(5, "ant".to_owned()), (9, "cow".to_owned())]);
        assert_eq!(gateway.broker_of("a"), None);
    }
}

#[test]
fn an_id_that_was_given_out_yields_to_one_that_was_chosen() {
    let stage = Stage::new();
    let a = stage.gateway("a", "one", None);
    stage.live(1, &[&a]);
    let b = stage.gateway("b", "two", Some(1));
    stage.live(2, &[&b, &a]);
    assert_eq!(b.broker().map(|broker| broker.id), Some(1));
    assert_eq!(a.broker().map(|broker| broker.id), Some(2));
    assert_eq!((ids(&a), ids(&b)), (vec![1, 2], vec![1, 2]));
}

#[test]
fn the_next_round_comes_when_somebody_may_be_found_silent() {
    let stage = Stage::new();
    let (a, b) = (stage.gateway("a", "one", None), stage.gateway("b", "two", None));
    a.round();
    b.round();
    stage.pass(LEASE_TTL - SECOND / 4);
    let next = b.round().expect("it goes on");
    assert_eq!(next, stage.clock.now().mono + SECOND / 4);
    stage.pass(SECOND / 4);
    b.round();
    assert_eq!(b.standing("a"), Standing::Gone);
}

#[test]
fn a_store_without_room_keeps_no_gateway_from_serving_partitions() {
    let stage = Stage::new();
    let a = stage.gateway("a", "one", None);
    stage.live(1, &[&a]);
    stage.pass(100 * 3600 * SECOND);
    stage.store.set_full(true);
    let again = stage.gateway("a2", "one", None);
    assert!(!again.may_serve());
    again.round();
    assert!(again.may_serve() && !again.holds(), "it has its recorded id, and no lease");
    assert_eq!(ids(&again), [1]);
    let fresh = stage.gateway("b", "two", None);
    fresh.round();
    assert!(!fresh.may_serve(), "without an id clients could not be told of it");
    stage.store.set_full(false);
    again.round();
    assert!(again.holds() && again.may_serve());
}
