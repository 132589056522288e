//! Leaders of replicated streams that do not know yet what is committed.

use super::*;
use crate::protocol::error_code::ErrorCode;
use crate::store::StoreError;

const GAP: Result<i64, LogError> = Err(LogError::Refused(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));

/// Two gateways on a replicated stream that hear nothing of each other, and what the second appended is not known to
/// whoever answers for the leader.
fn behind() -> (World, Gateway, Gateway) {
    let world = World::replicated(3);
    let (one, two) = (world.gateway(), world.gateway());
    assert_eq!(one.append(idempotent(9, 0, 1)), Ok(0));
    assert_eq!(two.end(), 1);
    world.store.drop_core_messages(true);
    assert_eq!(two.append(idempotent(9, 1, 1)), Ok(1));
    world.store.set_leader_lag(1);
    (world, one, two)
}

#[test]
fn a_gap_is_not_told_while_the_end_is_old_news() {
    let (world, one, _) = behind();
    let pending = one.begin(idempotent(9, 2, 1));
    one.sleep(Duration::from_secs(5));
    assert!(!pending.is_complete(), "{:?}", pending.take_one());
    world.store.set_leader_lag(0);
    assert_eq!(one.settle(&pending).map(|appended| appended.base_offset), Ok(2));
}

#[test]
fn an_offset_is_not_told_to_be_out_of_range_while_the_end_is_old_news() {
    let (world, one, _) = behind();
    let told = one.read(2, 1_000);
    assert!(matches!(told, Err(LogError::Store(_))), "{told:?}");
    world.store.set_leader_lag(0);
    one.sleep(Duration::from_secs(2));
    assert_eq!(one.read(2, 1_000), Ok(Vec::new()));
}

#[test]
fn a_gap_and_an_offset_out_of_range_are_told_once_that_is_sure() {
    let (world, one, two) = behind();
    world.store.set_leader_lag(0);
    assert_eq!(one.append(idempotent(9, 5, 1)), GAP);
    one.sleep(Duration::from_secs(2));
    assert!(matches!(one.read(7, 1_000), Err(LogError::OutOfRange(view)) if view.high_watermark == 2));
    assert_eq!(world.messages(), 4, "one message of proof each");
    assert_eq!(two.append(idempotent(9, 2, 1)), Ok(2));
    assert_eq!(world.gateway().consume(0, 1_000), [(0, 1), (1, 2), (2, 3)]);
}

#[test]
fn a_group_that_was_taken_proves_the_end_to_what_waited_behind_it() {
    let world = World::replicated(3);
    let gateway = world.gateway();
    assert_eq!(gateway.append(idempotent(9, 0, 1)), Ok(0));
    world.store.hold_acks(true);
    let first = gateway.begin(batch(1));
    let second = gateway.begin(batch(1));
    let gap = gateway.begin(idempotent(9, 5, 1));
    world.store.hold_acks(false);
    world.store.release_acks();
    assert_eq!(gateway.settle(&first).map(|appended| appended.base_offset), Ok(1));
    assert_eq!(gateway.settle(&second).map(|appended| appended.base_offset), Ok(2));
    assert_eq!(gateway.settle(&gap).map(|appended| appended.base_offset), GAP);
    assert_eq!(world.messages(), 3, "no proof of its own");
}

#[test]
fn records_that_a_server_does_not_know_yet_are_not_deleted() {
    let world = World::replicated(3);
    let gateway = world.gateway();
    assert_eq!((gateway.append(batch(3)), gateway.append(batch(2))), (Ok(0), Ok(3)));
    world.store.set_leader_lag(1);
    world.store.set_direct_lag(1);
    let below = world.store.stream_info(STREAM, Instant::now()).expect("there").state.last.next().next();
    let told = gateway.log.remove_messages(4, below, gateway.deadline());
    assert_eq!(told, Err(LogError::Store(StoreError::NoAnswer)));
    world.store.set_leader_lag(0);
    world.store.set_direct_lag(0);
    assert_eq!(world.gateway().consume(3, 1_000), vec![(3, 5)]);
}

#[test]
fn old_news_of_a_stream_that_ends_before_the_anchor_skips_no_offsets() {
    let world = World::replicated(3);
    let one = world.gateway();
    (0..3).for_each(|n| assert_eq!(one.append(batch(1)), Ok(n)));
    one.sleep(Duration::from_secs(5));
    world.store.set_leader_lag(1);
    assert_eq!(world.gateway().append(batch(1)), Ok(3));
}

#[test]
fn a_log_is_not_told_to_begin_at_its_end_by_who_does_not_know_what_is_left_of_it() {
    let world = World::replicated(3);
    let gateway = world.gateway();
    assert_eq!((gateway.append(batch(3)), gateway.append(batch(2))), (Ok(0), Ok(3)));
    world.store.stream_purge(STREAM, Some(Sequence(2)), Instant::now()).expect("purged");
    world.store.set_leader_lag(1);
    world.store.set_direct_lag(1);
    let told = gateway.log.refresh_start(gateway.deadline()).expect("told");
    assert!(told.log_start <= 3, "{told:?}");
    world.store.set_leader_lag(0);
    world.store.set_direct_lag(0);
    assert_eq!((gateway.start(), gateway.consume(3, 1_000)), (3, vec![(3, 5)]));
}
