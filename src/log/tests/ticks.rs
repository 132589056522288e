//! Ticks between gateways: what wakes a fetch that waits, and what is noticed when ticks are lost.

use super::*;
use crate::limits::GIVE_WAY_MAX;
use crate::log::way::Way;
use crate::wake::WaiterId;
use std::sync::atomic::{AtomicUsize, Ordering};

const BEAT: Duration = Duration::from_secs(1);

/// Two gateways that have heard of each other, and how often a fetch that waits at the second was woken.
fn pair(world: &World) -> (Gateway, Gateway, Arc<AtomicUsize>) {
    let (a, b) = (world.gateway(), world.gateway());
    let woken = Arc::new(AtomicUsize::new(0));
    let counted = woken.clone();
    b.wakeups.set_sink(Box::new(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
    }));
    a.append(batch(1)).expect("stored");
    pass(&[&a, &b], 5 * BEAT);
    assert_eq!((a.end(), b.end()), (1, 1));
    b.wakeups.register(WaiterId(1), &[b.log.watch_key()]);
    woken.store(0, Ordering::SeqCst);
    (a, b, woken)
}

/// Time passes for all of them alike.
fn pass(gateways: &[&Gateway], time: Duration) {
    for _ in 0..100 {
        gateways[0].clock.advance(time / 100);
        gateways.iter().for_each(|gateway| gateway.run());
    }
}

#[test]
fn a_commit_elsewhere_wakes_who_waits_and_nothing_else_does() {
    let world = World::new();
    let (a, b, woken) = pair(&world);
    pass(&[&a, &b], 20 * BEAT);
    assert_eq!(woken.load(Ordering::SeqCst), 0);
    a.append(batch(1)).expect("stored");
    assert_eq!(woken.load(Ordering::SeqCst), 1);
    assert_eq!(b.read(1, 1_000), Ok(vec![(1, 2)]));
}

#[test]
fn who_waits_looks_once_more_when_a_tick_was_lost() {
    let world = World::new();
    let (a, b, woken) = pair(&world);
    world.store.drop_core_messages(true);
    a.append(batch(1)).expect("stored");
    world.store.drop_core_messages(false);
    assert_eq!(woken.load(Ordering::SeqCst), 0);
    pass(&[&a, &b], BEAT + BEAT / 5);
    assert_eq!(woken.load(Ordering::SeqCst), 1, "the next heartbeat shows the gap");
    assert_eq!(b.read(1, 1_000), Ok(vec![(1, 2)]));
    woken.store(0, Ordering::SeqCst);
    // The ends are written down when a partition has been quiet.
    pass(&[&a, &b], 5 * BEAT);
    let asked = world.store.counts().reads();
    pass(&[&a, &b], 20 * BEAT);
    assert_eq!(woken.load(Ordering::SeqCst), 0, "once");
    assert_eq!(b.read(2, 1_000), Ok(vec![]));
    assert_eq!(world.store.counts().reads(), asked, "and what is certain again costs nothing");
}

#[test]
fn who_waits_looks_when_a_gateway_falls_silent() {
    let world = World::new();
    let (a, b, woken) = pair(&world);
    world.store.drop_core_messages(true);
    a.append(batch(1)).expect("stored");
    world.store.drop_core_messages(false);
    drop(a);
    pass(&[&b], 5 * BEAT);
    assert_eq!(woken.load(Ordering::SeqCst), 1, "it died with the news");
    assert_eq!(b.read(1, 1_000), Ok(vec![(1, 2)]));
}

#[test]
fn who_waits_looks_when_its_gateway_hears_again() {
    let world = World::new();
    let (a, b, woken) = pair(&world);
    world.store.drop_core_messages(true);
    pass(&[&a, &b], 10 * BEAT);
    let deaf = woken.load(Ordering::SeqCst);
    assert!(deaf <= 2, "nobody is woken again and again while nothing is heard: {deaf}");
    a.append(batch(1)).expect("stored");
    world.store.drop_core_messages(false);
    pass(&[&a, &b], 2 * BEAT);
    let heard = woken.load(Ordering::SeqCst);
    assert!((deaf + 1..=deaf + 3).contains(&heard), "{heard}");
    assert_eq!(b.read(1, 1_000), Ok(vec![(1, 2)]));
}

/// Another gateway says that it does not get to append.
fn want(world: &World, number: u64) {
    let text = format!("{number} {} 0 wanted", world.topic.id);
    world.store.core_publish("_kafka.tick.another", text.into());
}

#[test]
fn who_appends_waits_for_one_that_never_gets_to() {
    let world = World::new();
    let (a, b, _) = pair(&world);
    want(&world, 0);
    let waits = a.begin(batch(1));
    a.run();
    assert!(!waits.is_complete());
    assert_eq!(b.append(batch(1)), Ok(1));
    a.run();
    assert_eq!(waits.take_one().flatten().map(|done| done.map(|done| done.base_offset)), Some(Ok(2)));
}

#[test]
fn who_waits_for_another_in_vain_goes_on_and_does_not_wait_again_at_once() {
    let world = World::new();
    let (a, _b, _) = pair(&world);
    want(&world, 0);
    let waits = a.begin(batch(1));
    a.sleep(GIVE_WAY_MAX - Duration::from_millis(10));
    assert!(!waits.is_complete());
    a.sleep(Duration::from_millis(20));
    assert!(waits.is_complete());
    want(&world, 0);
    let goes = a.begin(batch(1));
    a.run();
    assert!(goes.is_complete());
    a.sleep(GIVE_WAY_MAX);
    want(&world, 0);
    let waits = a.begin(batch(1));
    a.run();
    assert!(!waits.is_complete());
}

#[test]
fn who_comes_too_late_itself_waits_for_nobody() {
    let mut way = Way::default();
    let now = Instant::now();
    assert!(!way.came_late());
    assert!(!way.give(now));
    assert!(way.came_late(), "the second time the others are asked");
    way.appended();
    assert!(way.give(now));
    assert!(way.is_given(now));
    assert!(way.take_back(now));
    assert!(!way.is_given(now));
    assert!(way.give(now), "again once the other one has appended");
}

#[test]
fn latest_counts_what_another_gateway_acknowledged_before_its_tick_comes() {
    let world = World::new();
    let (one, two) = (world.gateway(), world.gateway());
    assert_eq!(one.append(batch(1)), Ok(0));
    two.sleep(Duration::from_secs(2));
    one.sleep(Duration::from_secs(2));
    assert_eq!(one.end(), 1);
    world.store.drop_core_messages(true);
    assert_eq!(two.append(batch(1)), Ok(1));
    assert_eq!(one.end(), 1, "what a fetch begins with");
    assert_eq!(one.log.latest_view(one.deadline()).expect("known").high_watermark, 2);
}
