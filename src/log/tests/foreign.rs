//! Foreign messages, holes, purges, other incarnations.

use super::*;
use crate::store::{From, Pick};

/// A stored message's bytes.
fn stored(world: &World, sequence: u64) -> bytes::Bytes {
    let pick = Pick::At(Sequence(sequence));
    world.store.message_get(STREAM, pick, From::Leader, Instant::now()).expect("there").payload
}

#[test]
fn foreign_messages_are_stepped_over_wherever_they_are() {
    let world = World::new();
    world.foreign("before");
    let gateway = world.gateway();
    assert_eq!(gateway.append(batch(2)), Ok(0));
    let copy = stored(&world, 2);
    world.foreign("between");
    world.foreign(copy.clone());
    assert_eq!(gateway.append(batch(2)), Ok(2));
    for _ in 0..5_000 {
        world.foreign("after");
    }
    world.foreign(copy);
    for reader in [&gateway, &world.gateway()] {
        assert_eq!((reader.start(), reader.end()), (0, 4));
        assert_eq!(reader.consume(0, 1), vec![(0, 2), (2, 4)]);
    }
    assert_eq!(world.gateway().append(batch(1)), Ok(4));
    assert_eq!(gateway.append(batch(1)), Ok(5));
    assert_eq!(world.gateway().consume(0, 100_000), vec![(0, 2), (2, 4), (4, 5), (5, 6)]);
}

#[test]
fn a_search_is_not_led_astray_by_copies() {
    let world = World::new();
    let gateway = world.gateway();
    for i in 0..600 {
        gateway.append(batch(2)).expect("stored");
        if i % 7 == 3 {
            // Singles and runs of old batches, copied into the middle.
            let last = world.last().0;
            (1..=i % 4 + 1).for_each(|n| world.foreign(stored(&world, last / 3 + n)));
        }
    }
    for offset in (0..1_200).step_by(11) {
        let fresh = world.gateway();
        let base = offset / 2 * 2;
        assert_eq!(fresh.read(offset, 1), Ok(vec![(base, base + 2)]), "offset {offset}");
    }
    let all: Vec<_> = (0..600).map(|i| (2 * i, 2 * i + 2)).collect();
    assert_eq!(world.gateway().consume(0, 5_000), all);
}

#[test]
fn holes_and_large_sequences_change_nothing() {
    let world = World::new();
    world.store.skip_to(STREAM, Sequence(1_000_000_000_000_000_000));
    let gateway = world.gateway();
    for i in 0..100 {
        assert_eq!(gateway.append(batch(1)), Ok(i));
        if i == 50 {
            world.foreign("before a hole");
            world.foreign("that becomes one");
        }
    }
    let hole = Sequence(1_000_000_000_000_000_052);
    world.store.message_delete(STREAM, hole, Instant::now()).expect("there");
    for _ in 0..2 {
        world.store.message_delete(STREAM, Sequence(world.last().0 - 3), Instant::now()).ok();
    }
    let fresh = world.gateway();
    assert_eq!(fresh.end(), 100);
    assert_eq!(fresh.read(96, 10), Ok(vec![(97, 98)]));
    assert_eq!(fresh.read(50, 10), Ok(vec![(50, 51)]));
    assert_eq!(fresh.consume(0, 1_000).len(), 99);
}

#[test]
fn an_emptied_log_goes_on_where_it_ended() {
    let world = World::new();
    let gateway = world.gateway();
    (0..10).for_each(|_| assert!(gateway.append(batch(10)).is_ok()));
    gateway.sleep(Duration::from_secs(5));
    drop(gateway);
    world.store.stream_purge(STREAM, None, Instant::now()).expect("purged");
    let fresh = world.gateway();
    assert_eq!((fresh.start(), fresh.end()), (100, 100));
    assert_eq!(fresh.append(batch(1)), Ok(100));
    assert!(matches!(fresh.read(0, 1), Err(LogError::OutOfRange(view)) if view.log_start == 100));
}

#[test]
fn an_emptied_log_whose_end_was_not_written_skips_offsets_but_repeats_none() {
    let world = World::new();
    let old = world.gateway();
    (0..10).for_each(|_| assert!(old.append(batch(10)).is_ok()));
    world.store.stream_purge(STREAM, None, Instant::now()).expect("purged");
    // A kill -9 before the partition went quiet: the new process cannot know 100.
    let fresh = world.gateway();
    let end = fresh.end();
    assert!(end >= 100);
    assert_eq!(fresh.start(), end);
    // The old process still lives, remembers 100, and must not use it any more.
    assert_eq!(old.append(batch(1)), Ok(end));
    assert_eq!(fresh.append(batch(1)), Ok(end + 1));
    assert_eq!(world.gateway().consume(end, 1_000), vec![(end, end + 1), (end + 1, end + 2)]);
    assert_eq!(old.end(), end + 2);
}

#[test]
fn a_purge_below_moves_the_start_and_readers_are_told() {
    let world = World::new();
    let gateway = world.gateway();
    (0..10).for_each(|_| assert!(gateway.append(batch(10)).is_ok()));
    world.store.stream_purge(STREAM, Some(Sequence(world.last().0 - 3)), Instant::now()).expect("purged");
    assert_eq!(gateway.start(), 60);
    assert!(matches!(gateway.read(5, 1), Err(LogError::OutOfRange(view)) if view.log_start == 60));
    let fresh = world.gateway();
    assert!(matches!(fresh.read(59, 1), Err(LogError::OutOfRange(_))));
    assert_eq!(fresh.read(60, 1), Ok(vec![(60, 70)]));
}

#[test]
fn a_guard_from_a_deleted_topic_never_matches_the_new_one() {
    let mut world = World::new();
    let stale = world.gateway();
    (0..5).for_each(|_| assert!(stale.append(batch(1)).is_ok()));
    world.store.stream_delete(STREAM, Instant::now()).expect("deleted");
    world.topic.id = Uuid::random();
    world.create_stream();
    // Without a sequence range of its own the new stream could even reach the same sequence.
    let fresh = world.gateway();
    (0..7).for_each(|i| assert_eq!(fresh.append(batch(1)), Ok(i)));
    assert_eq!(stale.append(batch(1)), Err(LogError::Gone));
    assert!(matches!(stale.read(5, 1), Err(LogError::Gone)));
    assert_eq!(fresh.append(batch(1)), Ok(7));
    assert_eq!(world.messages(), 8);
}

#[test]
fn a_deleted_topic_answers_who_waits() {
    let world = World::new();
    let gateway = world.gateway();
    gateway.append(batch(1)).expect("stored");
    world.store.stream_delete(STREAM, Instant::now()).expect("deleted");
    let first = gateway.append(batch(1));
    assert!(first.is_err(), "{first:?}");
    gateway.run();
    assert_eq!(gateway.append(batch(1)), Err(LogError::Gone));
    assert!(gateway.log.is_gone());
}

#[test]
fn store_loss_never_repeats_offsets() {
    let world = World::new();
    let gateway = world.gateway();
    (0..20).for_each(|_| assert!(gateway.append(batch(1)).is_ok()));
    gateway.sleep(Duration::from_secs(5));
    // The stream comes back as a copy with less in it, as from a backup.
    let kept: Vec<_> = (1..=10).map(|sequence| stored(&world, sequence)).collect();
    world.store.stream_delete(STREAM, Instant::now()).expect("deleted");
    world.create_stream();
    kept.into_iter().for_each(|payload| world.foreign(payload));
    let fresh = world.gateway();
    let end = fresh.end();
    assert!(end >= 20, "{end}");
    assert_eq!(fresh.append(batch(1)), Ok(end));
    assert_eq!(fresh.consume(0, 10)[..10], (0..10).map(|i| (i, i + 1)).collect::<Vec<_>>()[..]);
}

/// Two gateways at the end of a log of 20 records, whose store then lost the newest ten.
fn after_a_loss() -> (World, Gateway, Gateway) {
    let world = World::new();
    let (one, other) = (world.gateway(), world.gateway());
    (0..20).for_each(|n| assert_eq!(one.append(batch(1)), Ok(n)));
    one.sleep(Duration::from_secs(5));
    assert_eq!(other.end(), 20);
    world.store.lose_newest(STREAM, 10);
    (world, one, other)
}

#[test]
fn a_gateway_that_looks_after_the_store_lost_its_end_learns_what_came_instead() {
    let (world, one, other) = after_a_loss();
    world.store.drop_core_messages(true);
    let first = one.append(batch(1)).expect("stored");
    assert!(first >= 20, "{first} was given before");
    // As far as the old end, by sequence.
    while world.last() < Sequence(19) {
        one.append(batch(1)).expect("stored");
    }
    other.sleep(Duration::from_secs(10));
    let end = one.end();
    assert_eq!(other.end(), end);
    assert_eq!(other.append(batch(1)), Ok(end));
    assert_eq!(other.consume(first, 1_000), world.gateway().consume(first, 1_000));
}

#[test]
fn a_log_that_has_lost_its_end_is_not_read_from_its_beginning() {
    let (world, ..) = after_a_loss();
    let before = world.store.counts();
    assert!(world.gateway().end() >= 20);
    let counts = world.store.counts();
    let read = counts.message_ranges - before.message_ranges;
    assert!(read <= 2, "{read} reads, beyond the end and of the first record");
}

#[test]
fn a_gateway_that_hears_what_does_not_fit_its_end_learns_it_anew() {
    let (world, one, other) = after_a_loss();
    let first = one.append(batch(1)).expect("stored");
    while world.last() < Sequence(20) {
        one.append(batch(1)).expect("stored");
    }
    // The stream ends just where it did.
    let end = one.end();
    assert_eq!(other.append(batch(1)), Ok(end));
    let all: Vec<_> = (first..=end).map(|n| (n, n + 1)).collect();
    assert_eq!(other.consume(first, 1_000), all);
    assert_eq!(world.gateway().consume(first, 1_000), all);
}
