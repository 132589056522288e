//! What a healthy store shows.

use super::*;
use crate::log::TimeQuery;
use crate::protocol::error_code::ErrorCode;

#[test]
fn offsets_are_dense_and_batches_come_back_whole() {
    let world = World::new();
    let gateway = world.gateway();
    assert_eq!((gateway.start(), gateway.end()), (0, 0));
    assert_eq!(gateway.append(batch(3)), Ok(0));
    assert_eq!(gateway.append(batch(2)), Ok(3));
    assert_eq!(gateway.append(batch(1)), Ok(5));
    assert_eq!(gateway.end(), 6);
    assert_eq!(gateway.read(4, 1_000_000), Ok(vec![(3, 5), (5, 6)]));
    assert_eq!(gateway.read(6, 1_000_000), Ok(vec![]));
    assert!(matches!(gateway.read(7, 1), Err(LogError::OutOfRange(view)) if view.high_watermark == 6));
    assert!(matches!(gateway.read(-1, 1), Err(LogError::OutOfRange(_))));
}

#[test]
fn what_waits_for_a_commit_goes_out_together() {
    let world = World::new();
    let gateway = world.gateway();
    gateway.append(batch(1)).expect("stored");
    world.store.hold_acks(true);
    let pending: Vec<_> = (0..10).map(|_| gateway.begin(batch(2))).collect();
    world.store.hold_acks(false);
    world.store.release_acks();
    for (i, pending) in pending.iter().enumerate() {
        assert_eq!(gateway.settle(pending).expect("stored").base_offset, 1 + 2 * i as i64);
    }
    assert_eq!(world.messages(), 3);
    assert_eq!(gateway.consume(0, 1).len(), 11);
}

#[test]
fn reads_are_cut_at_batches_and_the_first_comes_whatever_its_size() {
    let world = World::new();
    let gateway = world.gateway();
    gateway.append(batch(1)).expect("stored");
    world.store.hold_acks(true);
    let pending: Vec<_> = (0..4).map(|_| gateway.begin(sized(1, 1000))).collect();
    world.store.hold_acks(false);
    world.store.release_acks();
    pending.iter().for_each(|pending| assert!(gateway.settle(pending).is_ok()));
    for fresh in [&gateway, &world.gateway()] {
        let size = sized(1, 1000).len();
        assert_eq!(fresh.read(2, 2 * size), Ok(vec![(2, 3), (3, 4)]));
        assert_eq!(fresh.read(2, 2 * size - 1), Ok(vec![(2, 3)]));
        assert_eq!(fresh.read(2, 1), Ok(vec![(2, 3)]));
        let none = fresh.log.read(2, 1, false, fresh.deadline()).expect("in range");
        assert_eq!((none.bytes, none.records.len()), (0, 0));
    }
}

#[test]
fn repeats_answer_their_offset_and_gaps_are_refused() {
    let world = World::new();
    let gateway = world.gateway();
    assert_eq!(gateway.append(idempotent(7, 0, 2)), Ok(0));
    assert_eq!(gateway.append(idempotent(7, 2, 2)), Ok(2));
    assert_eq!(gateway.append(idempotent(7, 0, 2)), Ok(0));
    let gap = Err(LogError::Refused(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
    assert_eq!(gateway.append(idempotent(7, 5, 1)), gap);
    // Another gateway derives the same from the log alone.
    let other = world.gateway();
    assert_eq!(other.append(idempotent(7, 2, 2)), Ok(2));
    assert_eq!(other.append(idempotent(7, 5, 1)), gap);
    assert_eq!(other.append(idempotent(7, 4, 1)), Ok(4));
    assert_eq!(gateway.append(idempotent(7, 4, 1)), Ok(4));
    assert_eq!(gateway.end(), 5);
}

#[test]
fn the_repeat_of_a_queued_batch_shares_its_outcome() {
    let world = World::new();
    let gateway = world.gateway();
    gateway.append(batch(1)).expect("stored");
    world.store.hold_acks(true);
    let first = gateway.begin(batch(1));
    let pending =
        [idempotent(7, 0, 2), idempotent(7, 0, 2), idempotent(7, 2, 1), idempotent(7, 9, 1)].map(|b| gateway.begin(b));
    world.store.hold_acks(false);
    world.store.release_acks();
    assert!(gateway.settle(&first).is_ok());
    let answers = pending.map(|pending| gateway.settle(&pending).map(|appended| appended.base_offset));
    let gap = Err(LogError::Refused(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
    assert_eq!(answers, [Ok(2), Ok(2), Ok(4), gap]);
    assert_eq!(gateway.end(), 5);
}

#[test]
fn a_reader_at_the_end_costs_the_store_nothing() {
    let world = World::new();
    let gateway = world.gateway();
    gateway.append(batch(1)).expect("stored");
    gateway.sleep(Duration::from_secs(10));
    let before = world.store.counts().reads();
    for _ in 0..100 {
        assert_eq!(gateway.read(1, 1_000), Ok(vec![]));
        assert_eq!(gateway.end(), 1);
        gateway.sleep(Duration::from_millis(500));
    }
    assert_eq!(world.store.counts().reads(), before);
}

#[test]
fn two_gateways_write_one_log() {
    let world = World::new();
    let (a, b) = (world.gateway(), world.gateway());
    for i in 0..50 {
        let gateway = if i % 3 == 0 { &b } else { &a };
        assert_eq!(gateway.append(batch(1)), Ok(i));
    }
    assert_eq!(a.end(), 50);
    assert_eq!(b.end(), 50);
    assert_eq!(a.consume(0, 300), b.consume(0, 10_000));
    assert!(a.logs.metrics().conflicts.get() > 0);
}

#[test]
fn a_commit_elsewhere_is_seen_though_its_tick_is_lost() {
    let world = World::new();
    let (a, b) = (world.gateway(), world.gateway());
    a.append(batch(1)).expect("stored");
    for _ in 0..3 {
        a.sleep(Duration::from_secs(1));
        b.sleep(Duration::from_secs(1));
    }
    assert_eq!(b.end(), 1);
    world.store.drop_core_messages(true);
    a.append(batch(1)).expect("stored");
    world.store.drop_core_messages(false);
    // The next heartbeat shows the gap.
    a.sleep(Duration::from_secs(1));
    assert_eq!(b.end(), 2);
    // With its tick, a commit is seen at once.
    a.append(batch(1)).expect("stored");
    assert_eq!(b.end(), 3);
}

#[test]
fn times_find_the_exact_record() {
    let world = World::new();
    let gateway = world.gateway();
    let t0 = 1_700_000_000_000;
    let stamped =
        |times: &[i64]| times.iter().fold(BatchBuilder::new(), |b, t| b.timestamp(t0 + t).value(b"v")).build();
    for times in [&[2, 4][..], &[6, 3], &[8], &[5]] {
        gateway.append(stamped(times)).expect("stored");
    }
    let at = |time: i64| {
        let query = TimeQuery { timestamp: t0 + time, ahead_ms_max: 3_600_000 };
        gateway
            .log
            .first_since(query, gateway.deadline())
            .expect("known")
            .map(|found| (found.offset, found.timestamp - t0))
    };
    assert_eq!(
        [0, 3, 5, 7, 8, 9].map(at),
        [Some((0, 2)), Some((1, 4)), Some((2, 6)), Some((4, 8)), Some((4, 8)), None]
    );
    let newest = gateway.log.newest(gateway.deadline()).expect("known").expect("there");
    assert_eq!((newest.offset, newest.timestamp), (4, t0 + 8));
}

#[test]
fn once_the_newest_record_is_gone_the_next_one_is_looked_for_once() {
    let world = World::new();
    let gateway = world.gateway();
    let stamped = |time: i64| BatchBuilder::new().timestamp(time).value(vec![0; 1_000]).build();
    gateway.append(stamped(1_700_000_900_000)).expect("stored");
    for n in 0..5_000 {
        gateway.append(stamped(1_700_000_000_000 + n % 4_000)).expect("stored");
    }
    world.store.stream_purge(STREAM, Some(Sequence(2)), Instant::now()).expect("purged");
    let newest = || gateway.log.newest(gateway.deadline()).expect("known").map(|found| (found.offset, found.timestamp));
    let reads = || world.store.counts().message_ranges;
    let before = reads();
    assert_eq!(newest(), Some((4_000, 1_700_000_003_999)));
    let first = reads() - before;
    assert_eq!(newest(), Some((4_000, 1_700_000_003_999)));
    let second = reads() - before - first;
    assert!(second * 2 < first, "{first}, then {second}");
    gateway.append(stamped(1_700_000_004_000)).expect("stored");
    assert_eq!(newest(), Some((5_001, 1_700_000_004_000)));
}

#[test]
fn old_data_is_found_by_search_and_read_through_ahead() {
    let world = World::new();
    let gateway = world.gateway();
    for _ in 0..2_000 {
        gateway.append(sized(3, 100)).expect("stored");
    }
    gateway.sleep(Duration::from_secs(5));
    for offset in [0, 1, 2, 3, 2_999, 3_000, 5_999] {
        // A fresh gateway knows nothing of where the offset is.
        let fresh = world.gateway();
        assert_eq!(fresh.end(), 6_000);
        let before = world.store.counts().reads();
        let base = offset / 3 * 3;
        assert_eq!(fresh.read(offset, 1), Ok(vec![(base, base + 3)]), "offset {offset}");
        assert!(world.store.counts().reads() - before < 40);
    }
    let fresh = world.gateway();
    fresh.end();
    let before = world.store.counts().reads();
    assert_eq!(fresh.consume(1_500, 10_000).len(), 1_500);
    let reads = world.store.counts().reads() - before;
    assert!(reads < 60, "{reads} reads");
}
