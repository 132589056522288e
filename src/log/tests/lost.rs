//! What is gone before everybody has learned of it: offsets may skip, they never repeat.

use super::*;
use crate::limits::CEILING_STEP_OFFSETS;
use crate::log::end;
use crate::protocol::error_code::ErrorCode;
use crate::store::memory::PublishFault;
use crate::store::{KvBucket, StoreError};

fn append_all(gateway: &Gateway, count: usize) {
    (0..count).for_each(|_| assert!(gateway.append(batch(10)).is_ok()));
}

fn purge(world: &World) {
    world.store.stream_purge(STREAM, None, Instant::now()).expect("purged");
}

#[test]
fn a_foreign_message_after_a_purge_does_not_hide_what_another_gateway_stored() {
    let world = World::new();
    let (stale, other) = (world.gateway(), world.gateway());
    append_all(&stale, 1);
    append_all(&other, 10);
    purge(&world);
    world.foreign("foreign");
    let next = stale.append(batch(1)).expect("stored");
    assert!(next >= 110, "{next} was given before");
}

#[test]
fn a_foreign_message_after_a_purge_does_not_hide_the_end_from_a_load() {
    let world = World::new();
    let old = world.gateway();
    append_all(&old, 1);
    old.sleep(Duration::from_secs(5));
    append_all(&old, 10);
    purge(&world);
    world.foreign("foreign");
    let fresh = world.gateway();
    let next = fresh.append(batch(1)).expect("stored");
    assert!(next >= 110, "{next} was given before");
    assert_eq!(old.append(batch(1)), Ok(next + 1));
}

#[test]
fn an_entry_that_is_old_news_does_not_say_where_offsets_go_on() {
    let world = World::new();
    let old = world.gateway();
    append_all(&old, 1);
    let early = world.store.remember(end::BUCKET);
    assert!(old.append(beyond_the_ceiling()).is_ok());
    let given = old.end();
    purge(&world);
    world.store.lead_anew(end::BUCKET, early);
    let next = world.gateway().append(batch(1)).expect("stored");
    assert!(next >= given, "{next} was given before, below {given}");
}

#[test]
fn an_entry_that_a_new_leader_does_not_know_is_not_taken_for_none() {
    let world = World::new();
    world.store.kv_ensure(&bucket(), Instant::now()).expect("made");
    let early = world.store.remember(end::BUCKET);
    append_all(&world.gateway(), 2);
    purge(&world);
    world.store.lead_anew(end::BUCKET, early);
    let next = world.gateway().append(batch(1)).expect("stored");
    assert!(next >= 20, "{next} was given before");
}

#[test]
fn a_bucket_that_a_leader_has_not_heard_of_is_no_missing_topic() {
    let world = World::new();
    // Before it is made, and once more afterwards.
    world.store.hide_buckets(2);
    let told = world.gateway().append(batch(1));
    assert_eq!(told, Err(LogError::Store(StoreError::Unavailable)));
    assert_eq!(world.gateway().append(batch(1)), Ok(0));
}

fn bucket() -> KvBucket {
    KvBucket { name: end::BUCKET.to_owned(), replicas: 1, max_age_ms: None }
}

#[test]
fn a_stale_gateway_learns_the_end_of_what_came_and_went() {
    let world = World::new();
    let (stale, other) = (world.gateway(), world.gateway());
    append_all(&stale, 1);
    append_all(&other, 10);
    other.sleep(Duration::from_secs(5));
    purge(&world);
    stale.sleep(Duration::from_secs(5));
    assert_eq!(stale.end(), 110);
    assert_eq!(stale.read(110, 1), Ok(vec![]));
    assert_eq!(stale.append(batch(1)), Ok(110));
}

#[test]
fn before_an_offset_is_refused_the_leader_is_asked() {
    let world = World::new();
    let (stale, other) = (world.gateway(), world.gateway());
    append_all(&stale, 1);
    for _ in 0..5 {
        stale.sleep(Duration::from_secs(1));
        other.sleep(Duration::from_secs(1));
    }
    assert_eq!(stale.end(), 10);
    world.store.drop_core_messages(true);
    append_all(&other, 1);
    // Nothing has told of it yet, but a consumer comes from the other gateway.
    assert_eq!(stale.read(20, 1), Ok(vec![]));
    assert!(matches!(stale.read(21, 1), Err(LogError::OutOfRange(view)) if view.high_watermark == 20));
}

#[test]
fn what_was_stored_and_is_gone_is_not_stored_again_behind_another_message() {
    let world = World::new();
    let gateway = world.gateway();
    append_all(&gateway, 1);
    world.store.fail_next(SUBJECT, PublishFault::AckLost);
    let pending = gateway.begin(idempotent(7, 0, 1));
    // Another's message stands behind ours, and retention has taken ours.
    world.foreign("foreign");
    world.store.stream_purge(STREAM, Some(world.last()), Instant::now()).expect("purged");
    assert_eq!(gateway.settle(&pending), Err(LogError::Store(StoreError::NoAnswer)));
    let next = gateway.append(batch(1)).expect("stored");
    assert!(next >= 11, "{next} was given before");
}

#[test]
fn a_batch_of_more_offsets_than_the_ceiling_is_ahead_is_stored() {
    let world = World::new();
    let gateway = world.gateway();
    append_all(&gateway, 1);
    let before = world.store.counts().publishes;
    assert_eq!(gateway.append(beyond_the_ceiling()), Ok(10));
    assert!(world.store.counts().publishes - before < 5);
    assert_eq!(gateway.append(batch(1)), Ok(11 + 3 * CEILING_STEP_OFFSETS));
}

/// A batch that takes more offsets than the ceiling is ahead.
fn beyond_the_ceiling() -> Vec<u8> {
    let mut huge = batch(1);
    let delta = i32::try_from(3 * CEILING_STEP_OFFSETS).expect("small");
    huge[23..27].copy_from_slice(&delta.to_be_bytes());
    crate::records::build::refresh_crc(&mut huge);
    huge
}

#[test]
fn behind_a_refused_batch_its_producers_next_ones_are_refused_too() {
    let world = World::new();
    let gateway = world.gateway();
    append_all(&gateway, 1);
    world.store.hold_acks(true);
    let plain = gateway.begin(batch(1));
    world.store.hold_acks(false);
    world.store.fail_next(SUBJECT, PublishFault::Refused(StoreError::Unavailable));
    // The first group is full with the first of them.
    let first = gateway.begin(sized_idempotent(7, 0, 1_000_000));
    let second = gateway.begin(sized_idempotent(7, 1, 100_000));
    let other = gateway.begin(batch(1));
    world.store.release_acks();
    gateway.settle(&plain).expect("stored");
    let refused = Err(LogError::Store(StoreError::Unavailable));
    assert_eq!(gateway.settle(&first), refused);
    assert_eq!(gateway.settle(&second), refused);
    let _ = gateway.settle(&other);
    assert!(gateway.append(sized_idempotent(7, 0, 10)).is_ok());
    assert!(gateway.append(sized_idempotent(7, 1, 10)).is_ok());
    let gap = Err(LogError::Refused(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
    assert_eq!(gateway.append(sized_idempotent(7, 3, 10)), gap);
}

fn sized_idempotent(producer: i64, sequence: i32, bytes: usize) -> Vec<u8> {
    BatchBuilder::new().producer(producer, 0, sequence).value(vec![7; bytes]).build()
}

#[test]
fn what_waits_for_a_held_tail_lets_go_soon() {
    let world = World::new();
    let gateway = world.gateway();
    append_all(&gateway, 1);
    world.store.hold_acks(true);
    let pending = gateway.begin(batch(1));
    let began = Instant::now();
    // The end is uncertain, and the tail is in flight for as long as the store does not answer.
    gateway.log.hint(Sequence(1_000));
    for _ in 0..5 {
        let told = gateway.log.exact_view(gateway.deadline());
        assert_eq!(told, Err(LogError::Store(StoreError::Busy)));
    }
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    world.store.hold_acks(false);
    world.store.release_acks();
    assert_eq!(gateway.settle(&pending).expect("stored").base_offset, 10);
    assert_eq!(gateway.end(), 11);
}

#[test]
fn what_is_queued_goes_before_those_who_want_the_tail_next() {
    let world = World::new();
    let gateway = world.gateway();
    append_all(&gateway, 1);
    let mut pending = None;
    // Others wait for the tail all the time.
    gateway
        .log
        .with_tail(gateway.deadline(), |_| {
            pending = Some(gateway.begin(batch(1)));
            gateway.log.lock().borrowers = 1;
            Ok(())
        })
        .expect("it was idle");
    let settled = gateway.settle(&pending.expect("begun"));
    assert_eq!(settled.map(|appended| appended.base_offset), Ok(10));
    gateway.log.lock().borrowers = 0;
}

#[test]
fn a_queue_asks_for_one_load() {
    let world = World::new();
    let gateway = world.gateway();
    let pending: Vec<_> = (0..20).map(|_| gateway.begin(batch(1))).collect();
    assert_eq!(
        gateway.tasks.waiting.lock().expect("no holder panics").iter().filter(|(at, _)| at.is_none()).count(),
        1
    );
    for (offset, pending) in pending.iter().enumerate() {
        assert_eq!(gateway.settle(pending).expect("stored").base_offset, offset as i64);
    }
}

#[test]
fn a_producer_that_comes_from_another_gateway_is_not_told_of_a_gap() {
    let world = World::new();
    let (stale, other) = (world.gateway(), world.gateway());
    assert_eq!(stale.append(idempotent(7, 0, 2)), Ok(0));
    world.store.drop_core_messages(true);
    assert_eq!(other.append(idempotent(7, 2, 2)), Ok(2));
    // Nothing has told of it, but what follows it comes here.
    assert_eq!(stale.append(idempotent(7, 4, 2)), Ok(4));
    let gap = Err(LogError::Refused(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
    assert_eq!(stale.append(idempotent(7, 9, 1)), gap);
    // While the store is away nobody can know.
    world.store.set_outage(Some(crate::store::memory::Outage::Unavailable));
    assert_eq!(stale.append(idempotent(7, 9, 1)), Err(LogError::Store(StoreError::Unavailable)));
}

#[test]
fn the_batch_without_records_that_marks_a_jump_is_shown_only_where_nothing_follows() {
    let world = World::new();
    let old = world.gateway();
    append_all(&old, 2);
    // The last message goes alone: the log keeps its first ten offsets and jumps.
    world.store.message_delete(STREAM, world.last(), Instant::now()).expect("there");
    let gateway = world.gateway();
    let end = gateway.end();
    assert!(end >= 20);
    assert_eq!(gateway.read(0, 1_000), Ok(vec![(0, 10)]));
    assert_eq!(gateway.read(10, 1), Ok(vec![(end - 1, end)]));
    assert_eq!(gateway.append(batch(1)), Ok(end));
    for reader in [&gateway, &world.gateway()] {
        assert_eq!(reader.read(10, 1), Ok(vec![(end, end + 1)]));
        assert_eq!(reader.consume(0, 1_000), vec![(0, 10), (end, end + 1)]);
    }
}

#[test]
fn a_log_whose_stream_was_missing_for_a_while_begins_anew() {
    let world = World::new();
    let gateway = world.gateway();
    append_all(&gateway, 3);
    gateway.sleep(Duration::from_secs(5));
    world.store.stream_delete(STREAM, Instant::now()).expect("deleted");
    assert!(gateway.append(batch(1)).is_err());
    assert!(gateway.log.is_gone());
    world.create_stream();
    let again = Gateway { log: gateway.logs.partition(&world.topic, 0).expect("there is one"), ..gateway };
    let next = again.append(batch(1)).expect("the topic is there");
    assert!(next >= 30, "{next} was given before");
}

#[test]
fn what_a_cluster_does_not_know_is_not_gone_with_one_replica_either() {
    let world = World::new();
    world.store.set_clustered(true);
    let gateway = world.gateway();
    append_all(&gateway, 3);
    let stream = world.store.stream_info(STREAM, Instant::now()).expect("there");
    world.store.stream_delete(STREAM, Instant::now()).expect("deleted");
    assert_eq!(gateway.append(batch(1)), Err(LogError::Store(StoreError::Unavailable)));
    world.store.stream_create(&stream.config, Instant::now()).expect("there again");
    assert!(gateway.append(batch(1)).is_ok());
}
