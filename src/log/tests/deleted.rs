//! Records that clients deleted: the log start moves for good and for all, whatever befalls gateways and store.

use super::*;
use crate::store::StoreError;
use crate::store::memory::PublishFault;

impl Gateway {
    fn delete(&self, before: Option<i64>) -> Result<i64, LogError> {
        self.log.delete_before(before, self.deadline())
    }

    #[track_caller]
    fn fill(&self, batches: usize, records: usize) {
        for _ in 0..batches {
            self.append(batch(records)).expect("appended");
        }
    }

    #[track_caller]
    fn is_below(&self, offset: i64) {
        assert!(matches!(self.read(offset, 1), Err(LogError::OutOfRange(_))), "{offset} is below the log start");
    }
}

#[test]
fn whole_messages_go_and_the_start_is_exact_inside_a_batch() {
    let world = World::new();
    let a = world.gateway();
    a.fill(5, 10);
    assert_eq!(a.delete(Some(24)), Ok(24));
    assert_eq!((a.start(), a.end()), (24, 50));
    assert_eq!(world.messages(), 3 + 1, "two batches are gone, the third holds 24, and the mark is there");
    [0, 19, 20, 23].into_iter().for_each(|offset| a.is_below(offset));
    assert_eq!(a.consume(24, 1), [(20, 30), (30, 40), (40, 50)], "whole batches, as always");
    assert_eq!(a.delete(Some(24)), Ok(24), "nothing changes");
    assert_eq!(a.delete(Some(3)), Ok(24), "it never goes back");
    a.fill(1, 10);
    assert_eq!(a.consume(45, 1), [(40, 50), (50, 60)], "the mark takes no offset");
}

#[test]
fn what_is_not_in_the_log_is_refused() {
    let world = World::new();
    let a = world.gateway();
    assert_eq!(a.delete(None), Ok(0), "nothing to delete");
    a.fill(1, 5);
    for offset in [-1, -2, i64::MIN, 6, i64::MAX] {
        assert!(matches!(a.delete(Some(offset)), Err(LogError::OutOfRange(_))), "{offset}");
    }
    assert_eq!((a.start(), world.messages()), (0, 1));
}

#[test]
fn all_records_can_go_and_offsets_go_on() {
    let world = World::new();
    let (a, b) = (world.gateway(), world.gateway());
    a.fill(3, 10);
    assert_eq!(b.end(), 30);
    assert_eq!(a.delete(None), Ok(30));
    assert_eq!(world.messages(), 1, "only the mark");
    for gateway in [&a, &b, &world.gateway()] {
        assert_eq!((gateway.start(), gateway.end()), (30, 30));
        gateway.is_below(29);
        assert_eq!(gateway.consume(30, 1), []);
    }
    assert_eq!(b.append(batch(2)), Ok(30), "no offset is skipped or given twice");
    assert_eq!(a.consume(30, 1), [(30, 32)]);
    assert_eq!((world.gateway().start(), a.start()), (30, 30));
}

#[test]
fn every_gateway_and_every_restart_knows_the_start() {
    let world = World::new();
    let (a, b, c) = (world.gateway(), world.gateway(), world.gateway());
    [&a, &b, &c].iter().for_each(|gateway| gateway.fill(1, 10));
    a.sleep(Duration::from_secs(2));
    assert_eq!(b.start(), 0);
    assert_eq!(a.delete(Some(15)), Ok(15));
    b.is_below(14);
    assert_eq!(b.start(), 15);
    assert_eq!(b.delete(Some(25)), Ok(25));
    assert_eq!((a.start(), c.start()), (25, 25));
    c.is_below(24);
    assert_eq!(world.gateway().start(), 25);
    // Also where everything that told of it is gone.
    world.store.stream_purge(STREAM, None, a.deadline()).expect("purged");
    assert!(world.gateway().start() >= 30);
}

#[test]
fn a_gateway_that_hears_nothing_learns_of_it_as_it_learns_the_end() {
    let world = World::new();
    let (a, b) = (world.gateway(), world.gateway());
    a.fill(3, 10);
    assert_eq!(b.end(), 30);
    world.store.drop_core_messages(true);
    assert_eq!(a.delete(Some(12)), Ok(12));
    b.clock.advance(Duration::from_secs(10));
    b.run();
    assert_eq!(b.start(), 12);
    b.is_below(11);
}

#[test]
fn deleting_beside_writers_removes_nothing_that_was_not_asked_for() {
    let world = World::new();
    let (a, b) = (world.gateway(), world.gateway());
    a.fill(2, 10);
    let under_way = b.begin(batch(10));
    assert_eq!(a.delete(None), Ok(20));
    assert_eq!(b.settle(&under_way).map(|appended| appended.base_offset), Ok(20));
    assert_eq!(b.append(batch(10)), Ok(30));
    assert_eq!(a.consume(20, 1), [(20, 30), (30, 40)]);
    assert_eq!(world.gateway().consume(20, 1), [(20, 30), (30, 40)]);
}

#[test]
fn an_attempt_without_an_answer_may_be_repeated() {
    for fault in [PublishFault::AckLost, PublishFault::Lost, PublishFault::Refused(StoreError::Unavailable)] {
        let world = World::new();
        let (a, b) = (world.gateway(), world.gateway());
        a.fill(3, 10);
        for filter in [SUBJECT, "$KV.>"] {
            world.store.fail_next(filter, fault.clone());
            let _ = a.delete(Some(if filter == SUBJECT { 11 } else { 21 }));
            world.store.clear_faults();
        }
        assert_eq!(a.delete(Some(21)), Ok(21), "{fault:?}");
        for gateway in [&a, &b, &world.gateway()] {
            assert_eq!((gateway.start(), gateway.end()), (21, 30), "{fault:?}");
        }
        assert_eq!(b.append(batch(1)), Ok(30));
        assert_eq!(b.consume(21, 1), [(20, 30), (30, 31)]);
    }
}

#[test]
fn a_deletion_of_all_records_that_is_repeated_skips_no_offsets() {
    let world = World::new();
    let gateway = world.gateway();
    gateway.fill(3, 10);
    gateway.sleep(Duration::from_secs(5));
    world.store.fail_next("$KV.>", PublishFault::Lost);
    assert_eq!(gateway.delete(None), Err(LogError::Store(StoreError::NoAnswer)));
    assert_eq!(gateway.delete(None), Ok(30));
    assert_eq!(world.gateway().append(batch(1)), Ok(30));
}

#[test]
fn foreign_marks_do_no_harm() {
    let world = World::new();
    let a = world.gateway();
    a.fill(2, 10);
    world.foreign(crate::log::mark::write(Uuid::random(), 5));
    world.foreign(crate::log::mark::write(world.topic.id, 21));
    world.foreign(crate::log::mark::write(world.topic.id, i64::MAX));
    for gateway in [&a, &world.gateway()] {
        assert_eq!((gateway.start(), gateway.end()), (0, 20), "another topic's, or beyond the end");
    }
    a.fill(1, 10);
    assert_eq!(world.gateway().start(), 0, "nor later");
}

#[test]
fn a_mark_that_is_gone_unread_is_told_by_the_end_entry() {
    let world = World::new();
    let (a, b) = (world.gateway(), world.gateway());
    a.fill(3, 10);
    assert_eq!(b.end(), 30);
    world.store.drop_core_messages(true);
    assert_eq!(a.delete(Some(12)), Ok(12));
    let mark = world.last();
    a.fill(1, 10);
    world.store.message_delete(STREAM, mark, a.deadline()).expect("deleted");
    b.clock.advance(Duration::from_secs(10));
    b.run();
    assert_eq!((b.end(), b.start()), (40, 12));
    b.is_below(11);
}

#[test]
fn append_time_is_the_time_of_the_append() {
    let world = World::new();
    let a = world.gateway();
    a.fill(1, 1);
    let mut old = batch(3);
    crate::records::batch::set_append_time(&mut old, 5);
    world.store.hold_acks(true);
    let first = a.begin(batch(1));
    a.run();
    let waiting = a.begin(old);
    a.clock.advance(Duration::from_millis(700));
    let now = a.clock.now().wall_ms;
    world.store.hold_acks(false);
    world.store.release_acks();
    a.settle(&first).expect("appended");
    assert_eq!(a.settle(&waiting), Ok(Appended { base_offset: 2, append_time_ms: now }));
    let read = a.log.read(2, 1000, true, a.deadline()).expect("in range");
    let (header, stored) = walk(&read.records[0]).flatten().next().expect("a batch");
    assert!(header.is_append_time() && crate::records::batch::crc_matches(stored));
    assert_eq!(header.max_timestamp, now);
}
