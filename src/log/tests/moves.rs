//! What one gateway does not know yet of another's appends must not be told to clients as a fault of theirs.

use super::*;
use crate::protocol::error_code::ErrorCode;
use crate::store::StoreError;

const GAP: LogError = LogError::Refused(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);

#[test]
fn a_producer_that_moves_between_gateways_is_not_refused() {
    let world = World::new();
    let (a, b) = (world.gateway(), world.gateway());
    assert_eq!(a.append(idempotent(9, 0, 1)), Ok(0));
    assert_eq!(b.append(idempotent(9, 1, 1)), Ok(1));
    world.store.drop_core_messages(true);
    for sequence in (2..12).step_by(2) {
        assert_eq!(a.append(idempotent(9, sequence, 1)), Ok(i64::from(sequence)));
        assert_eq!(b.append(idempotent(9, sequence + 1, 1)), Ok(i64::from(sequence) + 1));
    }
    assert_eq!(a.append(idempotent(9, 40, 1)), Err(GAP));
    assert_eq!(a.append(idempotent(9, 12, 1)), Ok(12));
}

#[test]
fn a_gap_is_not_told_while_the_end_cannot_be_read() {
    let world = World::new();
    let (a, b) = (world.gateway(), world.gateway());
    assert_eq!(a.append(idempotent(9, 0, 1)), Ok(0));
    assert_eq!(b.append(idempotent(9, 1, 1)), Ok(1));
    world.store.set_outage(Some(crate::store::memory::Outage::Unavailable));
    assert_eq!(a.append(idempotent(9, 2, 1)), Err(LogError::Store(StoreError::Unavailable)), "told to try again");
    world.store.set_outage(None);
    assert_eq!(a.append(idempotent(9, 2, 1)), Ok(2));
}

#[test]
fn producers_go_on_after_messages_that_no_snapshot_knows_are_gone() {
    let world = World::new();
    let a = world.gateway();
    assert_eq!(a.append(idempotent(9, 0, 1)), Ok(0));
    a.logs.write_ends(Instant::now() + Duration::from_secs(3600));
    let running = world.gateway();
    assert_eq!(running.end(), 1);
    for sequence in 1..4 {
        assert_eq!(a.append(idempotent(9, sequence, 1)), Ok(i64::from(sequence)));
    }
    drop(a);
    world.store.stream_purge(STREAM, None, Instant::now()).expect("purged");
    let restarted = world.gateway();
    let base = restarted.append(idempotent(9, 4, 1)).expect("its producer did nothing wrong");
    assert!(base >= 4);
    assert_eq!(restarted.append(idempotent(9, 4, 1)), Ok(base), "a repeat is still one");
    assert_eq!(running.append(idempotent(9, 5, 1)), Ok(base + 1), "also where the log was open all the time");
    assert_eq!(running.append(idempotent(9, 9, 1)), Err(GAP));
}

#[test]
fn nothing_is_given_out_beyond_the_watermark() {
    let world = World::new();
    let (a, b) = (world.gateway(), world.gateway());
    assert_eq!(a.append(batch(2)), Ok(0));
    // It knows the end from the entry and has read nothing yet.
    a.logs.write_ends(Instant::now() + Duration::from_secs(3600));
    assert_eq!(b.end(), 2);
    world.store.drop_core_messages(true);
    assert_eq!(a.append(batch(2)), Ok(2));
    let read = b.log.read(0, 100_000, true, b.deadline()).expect("in range");
    let last = read.records.iter().flat_map(|records| walk(records).flatten()).map(|(header, _)| header.next_offset());
    assert_eq!(last.max(), Some(read.view.high_watermark));
}

#[test]
fn b049_a_new_producers_later_batch_is_not_taken_before_the_refused_ones() {
    let world = World::new();
    let gateway = world.gateway();
    world.store.set_outage(Some(crate::store::memory::Outage::Unavailable));
    let refused = [0, 1, 2].map(|sequence| gateway.begin(idempotent(9, sequence, 1)));
    for pending in &refused {
        assert_eq!(gateway.settle(pending), Err(LogError::Store(StoreError::Unavailable)));
    }
    world.store.set_outage(None);
    assert_eq!(gateway.append(idempotent(9, 3, 1)), Err(GAP));
    assert_eq!(gateway.append(idempotent(8, 3, 1)), Ok(0), "nothing is known of another producer");
    for sequence in 0..4 {
        assert_eq!(gateway.append(idempotent(9, sequence, 1)), Ok(1 + i64::from(sequence)));
    }
}

#[test]
fn what_was_sent_back_is_awaited_also_of_a_producer_that_may_be_further_on() {
    let world = World::new();
    let a = world.gateway();
    assert_eq!(a.append(idempotent(9, 0, 1)), Ok(0));
    a.logs.write_ends(Instant::now() + Duration::from_secs(3600));
    assert_eq!(a.append(idempotent(9, 1, 1)), Ok(1));
    drop(a);
    world.store.stream_purge(STREAM, None, Instant::now()).expect("purged");
    let b = world.gateway();
    world.store.set_outage(Some(crate::store::memory::Outage::Unavailable));
    assert_eq!(b.append(idempotent(9, 2, 1)), Err(LogError::Store(StoreError::Unavailable)));
    world.store.set_outage(None);
    assert_eq!(b.append(idempotent(9, 3, 1)), Err(GAP));
    let base = b.append(idempotent(9, 2, 1)).expect("it is next");
    assert_eq!(b.append(idempotent(9, 3, 1)), Ok(base + 1));
}

#[test]
fn what_was_sent_back_and_came_through_another_gateway_is_not_awaited() {
    let world = World::new();
    let (a, b) = (world.gateway(), world.gateway());
    assert_eq!(a.append(idempotent(9, 0, 1)), Ok(0));
    world.store.set_outage(Some(crate::store::memory::Outage::Unavailable));
    assert_eq!(b.append(idempotent(9, 1, 1)), Err(LogError::Store(StoreError::Unavailable)));
    world.store.set_outage(None);
    assert_eq!(a.append(idempotent(9, 1, 1)), Ok(1));
    // The second gateway knows of it by the snapshot beside the end entry alone.
    a.logs.write_ends(Instant::now() + Duration::from_secs(3600));
    assert_eq!(a.append(idempotent(9, 2, 1)), Ok(2));
    world.store.stream_purge(STREAM, None, Instant::now()).expect("purged");
    assert!(b.append(idempotent(9, 3, 1)).is_ok());
}

#[test]
fn what_was_sent_back_before_the_topic_was_found_is_awaited_too() {
    for topic in [|world: &World| world.topic.name.clone(), |world: &World| world.topic.id.to_string()] {
        let world = World::new();
        let gateway = world.gateway();
        let header = BatchHeader::parse(&idempotent(9, 0, 1)).expect("a batch");
        gateway.logs.send_back(topic(&world), 0, &header);
        let log = gateway.logs.partition(&world.topic, 0).expect("there is one");
        assert!(Arc::ptr_eq(&log, &gateway.log));
        let gap = Err(LogError::Refused(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
        assert_eq!(gateway.append(idempotent(9, 1, 1)), gap);
        assert_eq!(gateway.append(idempotent(9, 0, 1)), Ok(0));
        assert_eq!(gateway.append(idempotent(9, 1, 1)), Ok(1));
    }
}
