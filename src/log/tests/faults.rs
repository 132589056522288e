//! Lost acks, undecided slots, outages.

use super::*;
use crate::store::StoreError;
use crate::store::memory::{Outage, PublishFault};

fn fault(fault: PublishFault) -> (World, Gateway) {
    let world = World::new();
    let gateway = world.gateway();
    gateway.append(batch(1)).expect("stored");
    world.store.fail_next(SUBJECT, fault);
    (world, gateway)
}

#[test]
fn a_lost_ack_is_found_out() {
    let (world, gateway) = fault(PublishFault::AckLost);
    assert_eq!(gateway.append(batch(2)), Ok(1));
    assert_eq!(world.messages(), 2);
    assert_eq!(gateway.append(batch(1)), Ok(3));
}

#[test]
fn a_lost_publish_is_sent_again() {
    let (world, gateway) = fault(PublishFault::Lost);
    assert_eq!(gateway.append(batch(2)), Ok(1));
    assert_eq!(world.messages(), 2);
}

#[test]
fn a_stalled_publish_that_arrives_late_finds_its_slot_taken() {
    let (world, gateway) = fault(PublishFault::Stalled);
    assert_eq!(gateway.append(batch(2)), Ok(1));
    assert!(world.store.deliver_stalled().iter().all(Result::is_err));
    assert_eq!(world.messages(), 2);
    assert_eq!(gateway.end(), 3);
}

#[test]
fn a_proposed_message_keeps_its_slot_undecided_until_it_is_committed() {
    let (world, gateway) = fault(PublishFault::Proposed);
    let pending = gateway.begin(batch(2));
    let behind = gateway.begin(batch(2));
    gateway.sleep(Duration::from_secs(10));
    assert!(!pending.is_complete() && !behind.is_complete());
    assert_eq!(world.messages(), 1);
    assert_eq!(world.store.commit_proposed(STREAM), 1);
    assert_eq!(gateway.settle(&pending).expect("stored").base_offset, 1);
    assert_eq!(gateway.settle(&behind).expect("stored").base_offset, 3);
    assert_eq!(world.messages(), 3);
}

#[test]
fn a_proposed_message_that_is_dropped_is_stored_once_by_a_later_attempt() {
    let (world, gateway) = fault(PublishFault::Proposed);
    let pending = gateway.begin(batch(2));
    gateway.sleep(Duration::from_secs(10));
    assert_eq!(world.store.drop_proposed(STREAM), 1);
    assert_eq!(gateway.settle(&pending).expect("stored").base_offset, 1);
    assert_eq!(world.messages(), 2);
}

#[test]
fn equal_bytes_of_another_writer_are_not_ours() {
    let (world, gateway) = fault(PublishFault::Lost);
    let other = world.gateway();
    let pending = gateway.begin(batch(2));
    assert_eq!(other.append(batch(2)), Ok(1));
    assert_eq!(gateway.settle(&pending).expect("stored").base_offset, 3);
    assert_eq!(world.messages(), 3);
}

#[test]
fn an_outcome_that_can_no_longer_be_known_is_told_as_such() {
    let (world, gateway) = fault(PublishFault::AckLost);
    let pending = gateway.begin(batch(2));
    world.store.stream_purge(STREAM, None, Instant::now()).expect("purged");
    assert_eq!(gateway.settle(&pending), Err(LogError::Store(StoreError::NoAnswer)));
    // Offset 1 may have been given: it is not given again.
    let next = gateway.append(batch(1)).expect("stored");
    assert!(next >= 3, "{next}");
}

#[test]
fn during_an_outage_errors_are_clear_and_afterwards_all_is_well() {
    let (world, gateway) = fault(PublishFault::Refused(StoreError::NoSpace("full".to_owned())));
    assert_eq!(gateway.append(batch(1)), Err(LogError::Store(StoreError::NoSpace("full".to_owned()))));
    world.store.set_outage(Some(Outage::Unavailable));
    assert_eq!(gateway.append(batch(1)), Err(LogError::Store(StoreError::Unavailable)));
    assert_eq!(world.gateway().append(batch(1)), Err(LogError::Store(StoreError::Unavailable)));
    assert_eq!(gateway.read(0, 1), Ok(vec![(0, 1)]));
    world.store.set_outage(Some(Outage::NoAnswer));
    let pending = gateway.begin(batch(1));
    let behind = gateway.begin(batch(1));
    gateway.sleep(Duration::from_secs(40));
    // What was not stamped when its time was up has left the queue.
    assert_eq!(gateway.settle(&behind), Err(LogError::Store(StoreError::NoAnswer)));
    world.store.set_outage(None);
    assert_eq!(gateway.settle(&pending).expect("stored").base_offset, 1);
    assert_eq!(gateway.append(batch(1)), Ok(2));
}

#[test]
fn a_direct_read_that_misses_the_newest_is_asked_again_at_the_leader() {
    let world = World::new();
    let gateway = world.gateway();
    (0..20).for_each(|_| assert!(gateway.append(batch(1)).is_ok()));
    world.store.set_direct_lag(3);
    let fresh = world.gateway();
    assert_eq!(fresh.end(), 20);
    assert_eq!(fresh.consume(0, 1_000_000).len(), 20);
}

#[test]
fn nothing_is_published_beyond_the_ceiling() {
    let world = World::new();
    let gateway = world.gateway();
    gateway.append(batch(1)).expect("stored");
    // The ceiling cannot be raised: one end entry after the other is lost.
    let jump = crate::limits::CEILING_STEP_OFFSETS;
    let mut huge = batch(1);
    // A batch of many offsets, as a compacted one would be.
    huge[23..27].copy_from_slice(&i32::try_from(jump - 10).expect("small").to_be_bytes());
    crate::records::build::refresh_crc(&mut huge);
    (0..5).for_each(|_| world.store.fail_next("$KV.kafka-ends.>", PublishFault::Refused(StoreError::Unavailable)));
    assert_eq!(gateway.append(huge.clone()), Ok(1));
    let pending = gateway.begin(huge);
    gateway.run();
    assert!(!pending.is_complete());
    assert_eq!(world.messages(), 2);
    assert_eq!(gateway.settle(&pending).expect("stored").base_offset, jump - 8);
}

#[test]
fn a_log_in_a_full_store_can_be_read_and_says_that_there_is_no_room() {
    let world = World::new();
    let writer = world.gateway();
    for n in 0..3 {
        assert_eq!(writer.append(batch(1)), Ok(n));
    }
    world.store.set_full(true);
    let reader = world.gateway();
    assert_eq!((reader.end(), reader.consume(0, 1_000).len()), (3, 3));
    let full = Err(LogError::Store(StoreError::NoSpace("insufficient resources".to_owned())));
    assert_eq!(reader.append(batch(1)), full);
    // Nothing may be published before there is a ceiling above it, which a full store does not take either.
    world.store.set_full(false);
    reader.log.lock().end.ceiling = 3;
    world.store.set_full(true);
    assert_eq!(reader.append(batch(1)), full);
    world.store.set_full(false);
    assert_eq!(reader.append(batch(1)), Ok(3));
}
