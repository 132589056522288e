//! The judge of groups, judged: a sound history passes, and each planted fault is found, and it alone.

use crate::group_checker::{Fault, check};
use crate::group_history::{Event, What};

const PARTITIONS: i32 = 2;

fn at(sent: u64, settled: u64, what: What) -> Event {
    Event { sent, settled, what }
}

fn joined(member: &str, generation: i32, members: Option<&[&str]>) -> What {
    let members = members.map(|members| members.iter().map(|member| (*member).to_owned()).collect());
    What::Joined { member: member.to_owned(), generation, members }
}

fn assigned(generation: i32, partitions: &[(&str, &[i32])]) -> What {
    let rows = partitions.iter().map(|(member, theirs)| ((*member).to_owned(), theirs.iter().copied().collect()));
    What::Assigned { generation, partitions: rows.collect() }
}

fn told(member: &str, generation: i32, partitions: &[i32]) -> What {
    What::Told { member: member.to_owned(), generation, partitions: partitions.iter().copied().collect() }
}

fn committed(generation: i32, offset: i64, acked: bool) -> What {
    What::Committed { generation, partition: 0, offset, acked }
}

/// Two generations: a alone, then a and b; commits with a retry, and a consumer that takes over from another.
fn sound() -> Vec<Event> {
    vec![
        at(0, 10, joined("a", 1, Some(&["a"]))),
        at(11, 19, assigned(1, &[("a", &[0, 1])])),
        at(11, 20, told("a", 1, &[0, 1])),
        at(21, 25, committed(1, 1, true)),
        at(26, 35, committed(1, 2, false)),
        at(36, 40, What::Fetched { partition: 0, offset: 1 }),
        // The commit of unknown outcome has landed.
        at(41, 45, What::Fetched { partition: 0, offset: 2 }),
        // While the next generation is being formed the old one still counts.
        at(50, 60, What::Alive { generation: 1 }),
        at(46, 70, joined("a", 2, Some(&["a", "b"]))),
        at(47, 71, joined("b", 2, None)),
        at(69, 75, committed(1, 3, true)),
        at(72, 79, assigned(2, &[("a", &[0]), ("b", &[1])])),
        at(72, 80, told("a", 2, &[0])),
        at(73, 81, told("b", 2, &[1])),
        at(82, 90, committed(2, 4, true)),
        at(100, 101, What::Delivered { partition: 0, offset: 0 }),
        at(100, 102, What::Delivered { partition: 0, offset: 1 }),
        at(103, 110, What::Stored { partition: 0, offset: 2, acked: true }),
        at(105, 120, What::Began { partition: 0, offset: 1 }),
        at(120, 121, What::Delivered { partition: 0, offset: 1 }),
        at(122, 123, What::Began { partition: 0, offset: 2 }),
        at(122, 123, What::Delivered { partition: 0, offset: 2 }),
    ]
}

#[track_caller]
fn planted(fault: Fault, more: Vec<Event>) {
    let mut events = sound();
    events.extend(more);
    let found: Vec<Fault> = check(&events, PARTITIONS).into_iter().map(|violation| violation.fault).collect();
    assert!(!found.is_empty(), "{fault:?} was not found");
    assert!(found.iter().all(|one| *one == fault), "{found:?} instead of {fault:?}");
}

#[test]
fn a_sound_history_passes() {
    assert_eq!(check(&sound(), PARTITIONS), []);
}

#[test]
fn a_generation_formed_twice_is_found() {
    planted(Fault::FormedTwice, vec![at(46, 72, joined("b", 2, Some(&["b"])))]);
}

#[test]
fn two_owners_are_found() {
    let more = vec![
        at(200, 201, joined("a", 3, Some(&["a", "b", "c"]))),
        at(202, 203, assigned(3, &[("a", &[0]), ("b", &[0])])),
        at(202, 203, told("a", 3, &[0])),
        at(202, 203, told("b", 3, &[0])),
    ];
    planted(Fault::TwoOwners, more);
}

#[test]
fn a_partition_without_an_owner_is_found_once_all_have_been_told() {
    let mut more = vec![
        at(200, 201, joined("a", 3, Some(&["a", "b"]))),
        at(202, 203, assigned(3, &[("a", &[0]), ("b", &[])])),
        at(202, 203, told("a", 3, &[0])),
    ];
    let mut events = sound();
    events.extend(more.clone());
    assert_eq!(check(&events, PARTITIONS), [], "b may have been told the rest");
    more.push(at(202, 203, told("b", 3, &[])));
    planted(Fault::NoOwner, more);
}

#[test]
fn another_assignment_than_the_leaders_is_found() {
    let more = vec![
        at(200, 201, joined("a", 3, Some(&["a", "b"]))),
        at(202, 203, assigned(3, &[("a", &[0]), ("b", &[1])])),
        at(202, 203, told("a", 3, &[0, 1])),
    ];
    planted(Fault::OtherAssignment, more);
}

#[test]
fn a_generation_that_goes_back_is_found() {
    planted(Fault::GenerationWentBack, vec![at(90, 95, What::Alive { generation: 1 })]);
    planted(Fault::GenerationWentBack, vec![at(90, 95, joined("c", 1, None))]);
}

#[test]
fn a_commit_of_an_old_generation_is_found() {
    planted(Fault::StaleCommit, vec![at(72, 95, committed(1, 5, true))]);
    // Refused, or of unknown outcome, it is none.
    let mut events = sound();
    events.push(at(72, 95, committed(1, 5, false)));
    assert_eq!(check(&events, PARTITIONS), []);
}

#[test]
fn a_commit_that_goes_back_is_found() {
    planted(Fault::CommitWentBack, vec![at(91, 95, What::Fetched { partition: 0, offset: 3 })]);
}

#[test]
fn a_commit_from_nowhere_is_found() {
    planted(Fault::CommitFromNowhere, vec![at(91, 95, What::Fetched { partition: 0, offset: 5 })]);
    planted(Fault::CommitFromNowhere, vec![at(91, 95, What::Fetched { partition: 1, offset: 0 })]);
}

#[test]
fn a_consumer_that_begins_too_low_is_found() {
    planted(Fault::BeganTooLow, vec![at(130, 140, What::Began { partition: 0, offset: 1 })]);
    let early = What::Stored { partition: 0, offset: 1, acked: true };
    planted(Fault::BeganTooLow, vec![at(101, 102, early), at(130, 140, What::Began { partition: 0, offset: 1 })]);
}

#[test]
fn a_consumer_may_begin_where_a_late_commit_was_taken() {
    for (settled, acked) in [(104, true), (102, false)] {
        let mut events = sound();
        events.push(at(101, settled, What::Stored { partition: 0, offset: 1, acked }));
        events.push(at(130, 140, What::Began { partition: 0, offset: 1 }));
        assert_eq!(check(&events, PARTITIONS), []);
    }
}

#[test]
fn a_record_that_nobody_got_is_found() {
    planted(Fault::Skipped, vec![at(130, 140, What::Delivered { partition: 0, offset: 4 })]);
}

#[test]
fn an_error_that_stops_a_consumer_is_found() {
    planted(Fault::FalseError, vec![at(130, 140, What::Stopped { error: "a: UnknownServerException".to_owned() })]);
}

#[test]
fn a_consumer_that_was_replaced_under_its_instance_id_is_no_second_owner() {
    let mut events = sound();
    events.push(at(82, 95, told("b", 2, &[1])));
    assert_eq!(check(&events, PARTITIONS), []);
}
