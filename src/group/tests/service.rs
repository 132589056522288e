//! The service on a store: what is stored when, restarts, failures, several gateways, expiry.

use super::rig::{Gateway, World, answer, committed, seconds, sender};
use crate::group::BUCKET;
use crate::group::state::State;
use crate::offsets::{self, CommitError, Committed, TopicPartition};
use crate::protocol::error_code::ErrorCode;
use crate::store::memory::{Outage, PublishFault};
use crate::store::{Sequence, Store, StoreError, kv_replace};
use crate::wire::Uuid;
use std::sync::Arc;
use std::time::Duration;

const GROUPS: &str = "$KV.kafka-groups.>";
const COMMITS: &str = "$KV.kafka-consumer-offsets.>";

/// One stable member; its id. Generation 1.
#[track_caller]
fn stable(world: &World, gateway: &Gateway, group: &str) -> String {
    let (join, _) = gateway.join(group, "a", "");
    world.sleep(seconds(3));
    let joined = answer(&join);
    assert_eq!((joined.error, joined.generation), (ErrorCode::NONE, 1));
    let synced = answer(&gateway.sync(group, &joined.member_id, 1, &[(&joined.member_id, "p0")]));
    assert_eq!((synced.error, &synced.assignment[..]), (ErrorCode::NONE, &b"p0"[..]));
    joined.member_id
}

#[test]
fn a_restarted_gateway_continues_a_group_without_a_rebalance() {
    let world = World::new();
    let before = world.gateway("one");
    let id = stable(&world, &before, "g");
    assert_eq!(before.commit("g", (&id, 1), &[(0, 8_872_783_363_889_192_000), (1, 7)]), [Ok(()), Ok(())]);

    let after = world.gateway("two");
    assert_eq!(after.heartbeat("g", &id, 1), ErrorCode::NONE);
    assert_eq!(after.commit("g", (&id, 1), &[(1, 8)]), [Ok(())]);
    assert_eq!(after.offsets("g", world.deadline()), [(0, 8_872_783_363_889_192_000), (1, 8)].into());
    assert_eq!(&answer(&after.sync("g", &id, 1, &[])).assignment[..], b"p0");
    world.sleep(seconds(9));
    assert_eq!(after.heartbeat("g", &id, 1), ErrorCode::NONE);
    world.sleep(seconds(10));
    assert_eq!(after.heartbeat("g", &id, 1), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn b103_commits_and_emptiness_survive_a_restart() {
    let world = World::new();
    let before = world.gateway("one");
    let id = stable(&world, &before, "g");
    before.commit("g", (&id, 1), &[(0, 5)]);
    assert_eq!(answer(&before.leave("g", &id)).members[0].1, ErrorCode::NONE);

    let after = world.gateway("two");
    assert_eq!(after.offsets("g", world.deadline()), [(0, 5)].into());
    let described = after.groups.describe("g", world.deadline()).expect("the store answers").expect("it is there");
    assert_eq!((described.state, described.protocol_type.as_str()), (State::Empty, "consumer"));
}

#[test]
fn members_left_behind_expire_though_nobody_asks_for_their_group() {
    let world = World::new();
    stable(&world, &world.gateway("one"), "g");
    let after = world.gateway("two");
    after.groups.start();
    world.sleep(seconds(13));
    let described = after.groups.describe("g", world.deadline()).expect("the store answers").expect("it is there");
    assert_eq!(described.state, State::Empty);
}

#[test]
fn nobody_is_told_of_a_generation_before_it_is_stored() {
    let world = World::new();
    let gateway = world.gateway("one");
    let (join, _) = gateway.join("g", "a", "");
    world.store.hold_acks(true);
    world.sleep(seconds(3));
    assert!(!join.is_complete());
    world.store.release_acks();
    world.run();
    assert_eq!(answer(&join).generation, 1);
}

#[test]
fn events_wait_for_a_write_and_heartbeats_do_not() {
    let world = World::new();
    let gateway = world.gateway("one");
    let id = stable(&world, &gateway, "g");
    let (b, _) = gateway.join("g", "b", "");
    let (a, _) = gateway.join("g", "a", &id);
    assert_eq!((answer(&a).generation, answer(&b).generation), (2, 2));

    world.store.hold_acks(true);
    let leave = gateway.leave("g", &id);
    let (c, _) = gateway.join("g", "c", "");
    // By the committed state it is still a member.
    assert_eq!(gateway.heartbeat("g", &id, 2), ErrorCode::NONE);
    assert!(!leave.is_complete() && !c.is_complete());
    world.store.hold_acks(false);
    world.store.release_acks();
    world.run();
    assert_eq!(answer(&leave).members[0].1, ErrorCode::NONE);
    assert_eq!(gateway.heartbeat("g", &id, 2), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn a_heartbeat_during_a_write_counts_after_it() {
    let world = World::new();
    let gateway = world.gateway("one");
    let id = stable(&world, &gateway, "g");
    let (b, _) = gateway.join("g", "b", "");
    let (a, _) = gateway.join("g", "a", &id);
    assert_eq!(answer(&a).generation, 2);
    world.store.hold_acks(true);
    gateway.leave("g", &answer(&b).member_id);
    world.sleep(seconds(8));
    assert_eq!(gateway.heartbeat("g", &id, 2), ErrorCode::NONE);
    world.store.hold_acks(false);
    world.store.release_acks();
    world.sleep(seconds(9));
    assert_eq!(gateway.heartbeat("g", &id, 2), ErrorCode::REBALANCE_IN_PROGRESS);
}

#[test]
fn heartbeats_are_never_stored_and_a_quiet_group_costs_nothing() {
    let world = World::new();
    let gateway = world.gateway("one");
    let id = stable(&world, &gateway, "g");
    let before = world.store.counts();
    for _ in 0..20 {
        world.sleep(seconds(3));
        assert_eq!(gateway.heartbeat("g", &id, 1), ErrorCode::NONE);
    }
    assert_eq!(world.store.counts(), before);
}

#[test]
fn a_state_that_cannot_be_stored_is_refused_retriably_and_not_kept() {
    for outage in [Outage::Unavailable, Outage::NoAnswer] {
        let world = World::new();
        let gateway = world.gateway("one");
        let id = stable(&world, &gateway, "g");
        world.store.set_outage(Some(outage));
        let (a, _) = gateway.join("g", "a", &id);
        assert_eq!(answer(&a).error, ErrorCode::COORDINATOR_NOT_AVAILABLE);
        assert_eq!(gateway.heartbeat("g", &id, 1), ErrorCode::COORDINATOR_NOT_AVAILABLE);
        world.store.set_outage(None);
        // As if nothing had happened.
        assert_eq!(gateway.heartbeat("g", &id, 1), ErrorCode::NONE);
        let (a, _) = gateway.join("g", "a", &id);
        assert_eq!(answer(&a).generation, 2);
    }
}

#[test]
fn a_lost_answer_is_looked_up_or_the_write_repeated() {
    for fault in [PublishFault::AckLost, PublishFault::Lost, PublishFault::Stalled] {
        let world = World::new();
        let gateway = world.gateway("one");
        let id = stable(&world, &gateway, "g");
        world.store.fail_next(GROUPS, fault);
        let (a, _) = gateway.join("g", "a", &id);
        assert_eq!(answer(&a).generation, 2);
        // What was stalled must not land any more.
        world.store.deliver_stalled();
        assert_eq!(answer(&gateway.sync("g", &id, 2, &[])).error, ErrorCode::NONE);
        assert_eq!(world.gateway("two").heartbeat("g", &id, 2), ErrorCode::NONE);
    }
}

#[test]
fn an_undecided_write_is_settled_by_whoever_loads_the_group_next() {
    let world = World::new();
    let gateway = world.gateway("one");
    let id = stable(&world, &gateway, "g");
    world.store.fail_next(GROUPS, PublishFault::Proposed);
    let (a, _) = gateway.join("g", "a", &id);
    assert_eq!(answer(&a).error, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    assert_eq!(gateway.heartbeat("g", &id, 1), ErrorCode::COORDINATOR_NOT_AVAILABLE);
    world.store.commit_proposed("KV_kafka-groups");
    // Generation 2 was stored though nobody was told: its members are asked to join again.
    assert_eq!(gateway.heartbeat("g", &id, 1), ErrorCode::ILLEGAL_GENERATION);
    let (a, _) = gateway.join("g", "a", &id);
    assert_eq!(answer(&a).generation, 3);
}

#[test]
fn b107_one_gateway_at_a_time_serves_a_group() {
    let world = World::new();
    let (one, two) = (world.gateway("one"), world.gateway("two"));
    let id = stable(&world, &one, "g");
    assert_eq!(one.commit("g", (&id, 1), &[(0, 10)]), [Ok(())]);
    world.living.0.lock().expect("no holder panics").insert("one".to_owned());
    assert_eq!(two.heartbeat("g", &id, 1), ErrorCode::NOT_COORDINATOR);
    let (b, _) = two.join("g", "b", "");
    assert_eq!(answer(&b).error, ErrorCode::NOT_COORDINATOR);
    assert_eq!(two.commit("g", (&id, 1), &[(0, 1)])[0], Err(CommitError::Refused(ErrorCode::NOT_COORDINATOR)));

    // One is taken for dead, but lives on: the store decides.
    world.living.0.lock().expect("no holder panics").clear();
    assert_eq!(two.heartbeat("g", &id, 1), ErrorCode::NONE);
    assert_eq!(two.commit("g", (&id, 1), &[(0, 20)]), [Ok(())]);
    assert_eq!(two.commit("g", (&id, 1), &[(1, 5)]), [Ok(())]);
    world.living.0.lock().expect("no holder panics").insert("two".to_owned());
    assert_eq!(one.commit("g", (&id, 1), &[(0, 11)]), [Err(CommitError::NotOwner)]);
    assert_eq!(one.heartbeat("g", &id, 1), ErrorCode::NOT_COORDINATOR);
    assert_eq!(two.offsets("g", world.deadline()), [(0, 20), (1, 5)].into());

    // It comes back to one, which must not go by what it knew before.
    world.living.0.lock().expect("no holder panics").clear();
    assert_eq!(one.heartbeat("g", &id, 1), ErrorCode::NONE);
    assert_eq!(one.offsets("g", world.deadline()), [(0, 20), (1, 5)].into());
}

#[test]
fn a_former_owner_learns_at_its_next_write_that_it_is_none() {
    let world = World::new();
    let (one, two) = (world.gateway("one"), world.gateway("two"));
    let id = stable(&world, &one, "g");
    assert_eq!(two.heartbeat("g", &id, 1), ErrorCode::NONE);
    let (a, _) = one.join("g", "a", &id);
    assert_eq!(answer(&a).error, ErrorCode::NOT_COORDINATOR);
    assert_eq!(two.heartbeat("g", &id, 1), ErrorCode::NONE);
}

#[test]
fn two_that_claim_at_once_are_told_apart_by_the_store() {
    let world = World::new();
    let (one, two) = (world.gateway("one"), world.gateway("two"));
    world.living.0.lock().expect("no holder panics").extend(["one".to_owned(), "two".to_owned()]);
    // The claim of one is stored, but it does not hear of it; two comes meanwhile.
    world.store.fail_next(GROUPS, PublishFault::AckLost);
    let (a, _) = one.join("g", "a", "");
    let (b, _) = two.join("g", "b", "");
    assert_eq!(answer(&b).error, ErrorCode::NOT_COORDINATOR);
    world.sleep(seconds(3));
    assert_eq!(answer(&a).generation, 1);
}

#[test]
fn a_client_that_is_gone_waits_no_longer() {
    let world = World::new();
    let gateway = world.gateway("one");
    let (a, token) = gateway.join("g", "a", "");
    let (b, _) = gateway.join("g", "b", "");
    gateway.groups.abandon("g", token);
    world.sleep(seconds(6));
    assert_eq!(answer(&b).members.len(), 1);
    assert_eq!(a.take_one(), Some(None));
}

#[test]
fn session_timeouts_and_group_ids_are_checked() {
    let world = World::new();
    let gateway = world.gateway("one");
    for timeout in [Duration::from_millis(5_999), seconds(1_801)] {
        let (a, _) = gateway.join_as("g", "a", "", timeout);
        assert_eq!(answer(&a).error, ErrorCode::INVALID_SESSION_TIMEOUT);
    }
    let (a, _) = gateway.join("", "a", "");
    assert_eq!(answer(&a).error, ErrorCode::INVALID_GROUP_ID);
    assert_eq!(gateway.heartbeat("", "x", 1), ErrorCode::INVALID_GROUP_ID);
    assert_eq!(gateway.commit("", ("", -1), &[(0, 3)]), [Ok(())]);
    let long = "ü".repeat(1_000);
    assert_eq!(gateway.commit(&long, ("", -1), &[(0, 3)])[0], Err(CommitError::Refused(ErrorCode::INVALID_GROUP_ID)));
}

#[test]
fn a_group_that_is_not_there_is_not_made_by_asking() {
    let world = World::new();
    let gateway = world.gateway("one");
    assert_eq!(gateway.heartbeat("g", "x", 1), ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(answer(&gateway.sync("g", "x", 1, &[])).error, ErrorCode::UNKNOWN_MEMBER_ID);
    let (a, _) = gateway.join("g", "a", "a-known-id");
    assert_eq!(answer(&a).error, ErrorCode::UNKNOWN_MEMBER_ID);
    let left = answer(&gateway.leave("g", "x"));
    assert_eq!((left.error, left.members[0].1), (ErrorCode::NONE, ErrorCode::UNKNOWN_MEMBER_ID));
    let refused = Err(CommitError::Refused(ErrorCode::GROUP_ID_NOT_FOUND));
    assert_eq!(gateway.commit("g", ("x", 1), &[(0, 1)])[0], refused);
    assert_eq!(gateway.delete("g"), ErrorCode::GROUP_ID_NOT_FOUND);
    assert_eq!(gateway.groups.describe("g", world.deadline()), Ok(None));
    assert_eq!(gateway.groups.list(world.deadline()), Ok(Vec::new()));
    assert_eq!(world.store.counts().publishes, 0);
}

/// librdkafka's 0081 deletes a group exactly when the session of its last static member is over.
#[test]
fn a_group_is_deleted_as_soon_as_its_last_session_is_over() {
    let world = World::new();
    let gateway = world.gateway("one");
    stable(&world, &gateway, "g");
    world.clock.advance(seconds(10) - Duration::from_millis(1));
    assert_eq!(gateway.delete("g"), ErrorCode::NON_EMPTY_GROUP);
    world.clock.advance(Duration::from_millis(1));
    // No timer has fired.
    assert_eq!(gateway.delete("g"), ErrorCode::NONE);
}

#[test]
fn b115_only_empty_groups_are_deleted_and_their_commits_with_them() {
    let world = World::new();
    let gateway = world.gateway("one");
    let id = stable(&world, &gateway, "g");
    gateway.commit("g", (&id, 1), &[(0, 5), (1, 6)]);
    gateway.commit("other", ("", -1), &[(0, 1)]);
    assert_eq!(gateway.delete("g"), ErrorCode::NON_EMPTY_GROUP);
    gateway.leave("g", &id);
    assert_eq!(gateway.delete("g"), ErrorCode::NONE);
    assert_eq!(gateway.delete("g"), ErrorCode::GROUP_ID_NOT_FOUND);
    let after = world.gateway("two");
    assert_eq!(after.offsets("g", world.deadline()), [].into());
    assert_eq!(after.groups.describe("g", world.deadline()), Ok(None));
    assert_eq!(after.offsets("other", world.deadline()), [(0, 1)].into());
    assert_eq!(after.delete("other"), ErrorCode::NONE);
    // It can be used again.
    stable(&world, &gateway, "g");
    assert_eq!(gateway.offsets("g", world.deadline()), [].into());
}

#[test]
fn an_empty_group_that_never_committed_is_deleted_also_after_a_restart() {
    let world = World::new();
    let gateway = world.gateway("one");
    let id = stable(&world, &gateway, "g");
    gateway.leave("g", &id);
    assert_eq!(world.gateway("two").delete("g"), ErrorCode::NONE);
}

#[test]
fn groups_are_listed_whoever_made_them() {
    let world = World::new();
    let gateway = world.gateway("one");
    stable(&world, &gateway, "b g");
    gateway.commit("a.simple", ("", -1), &[(0, 5)]);
    // Left by an older gateway: a bare number and no record of the group.
    let key = "old=2Egroup.t.0";
    kv_replace(&*world.store, offsets::BUCKET, key, Some("42".into()), Sequence(0), world.deadline()).expect("stored");

    let two = world.gateway("two");
    two.groups.sweep();
    let listed = two.groups.list(world.deadline()).expect("the store answers");
    let mut rows: Vec<_> = listed.iter().map(|g| (g.group.as_str(), g.state, g.protocol_type.as_str())).collect();
    rows.sort_by_key(|row| row.0);
    let expected =
        [("a.simple", State::Empty, ""), ("b g", State::Stable, "consumer"), ("old.group", State::Empty, "")];
    assert_eq!(rows, expected);
    assert_eq!(world.gateway("three").offsets("old.group", world.deadline()), [(0, 42)].into());
}

/// There may be too many of them.
#[test]
fn groups_are_listed_and_swept_also_while_their_commits_cannot_be() {
    let world = World::new();
    let gateway = world.gateway("one");
    let id = stable(&world, &gateway, "g");
    world.store.set_silent("KV_kafka-consumer-offsets", true);
    let two = world.gateway("two");
    assert_eq!(two.groups.list(world.deadline()).expect("the store answers").len(), 1);
    // A sweep looks after the members of a group that nobody serves.
    drop(gateway);
    two.groups.start();
    world.sleep(seconds(15));
    assert_eq!(two.heartbeat("g", &id, 1), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn b117_commits_expire_when_their_group_has_been_empty_for_the_retention_time() {
    let mut world = World::new();
    world.settings.offsets_retention = seconds(20);
    let gateway = world.gateway("one");
    gateway.groups.start();
    let id = stable(&world, &gateway, "g");
    gateway.commit("g", (&id, 1), &[(0, 5)]);
    // An active group keeps what it committed, however long ago.
    for _ in 0..20 {
        world.sleep(seconds(3));
        assert_eq!(gateway.heartbeat("g", &id, 1), ErrorCode::NONE);
    }
    assert_eq!(gateway.offsets("g", world.deadline()), [(0, 5)].into());
    gateway.leave("g", &id);
    world.sleep(seconds(19));
    assert_eq!(gateway.offsets("g", world.deadline()), [(0, 5)].into());
    world.sleep(seconds(7));
    assert_eq!(gateway.offsets("g", world.deadline()), [].into());
    // In the end the group is removed.
    world.sleep(seconds(120));
    assert_eq!(gateway.groups.describe("g", world.deadline()), Ok(None));
    assert_eq!(gateway.groups.list(world.deadline()), Ok(Vec::new()));
}

#[test]
fn b117_a_simple_consumers_commits_expire_by_their_own_age() {
    let mut world = World::new();
    world.settings.offsets_retention = seconds(20);
    let gateway = world.gateway("one");
    gateway.groups.start();
    gateway.commit("g", ("", -1), &[(0, 5)]);
    world.sleep(seconds(15));
    gateway.commit("g", ("", -1), &[(1, 6)]);
    world.sleep(seconds(11));
    assert_eq!(gateway.offsets("g", world.deadline()), [(1, 6)].into());
    // A gateway that never served the group does it as well.
    drop(gateway);
    let after = world.gateway("two");
    after.groups.start();
    world.sleep(seconds(15));
    assert_eq!(after.offsets("g", world.deadline()), [].into());
}

#[test]
fn b026_a_deleted_topic_takes_all_commits_with_it_but_not_its_successors() {
    let world = World::new();
    let gateway = world.gateway("one");
    gateway.commit("g", ("", -1), &[(0, 5)]);
    gateway.commit("h", ("", -1), &[(0, 6), (1, 7)]);
    world.store.publish_foreign("$KV.kafka-consumer-offsets.old.t.0", "42").expect("stored");
    // The topic was made again, and its new self committed on, before the old commits are cleared away.
    let (meant, successor) = (Uuid([1; 16]), Uuid([2; 16]));
    let at = TopicPartition::new("t", 1);
    let (kept, pending) = crate::promise::promises(&Arc::new(crate::wake::Wakeups::new()), 1);
    let newer = Committed { topic_id: Some(successor), ..committed(3, 0) };
    gateway.groups.commit("h", sender("", -1), vec![(at, newer, kept.into_iter().next().expect("one"))]);
    world.run();
    assert!(pending.is_complete());

    assert_eq!(gateway.offsets.delete_topic("t", meant, world.deadline()), Ok(3));
    assert_eq!(gateway.offsets("g", world.deadline()), [].into());
    assert_eq!(gateway.offsets("h", world.deadline()), [(1, 3)].into());
    let after = world.gateway("two");
    assert_eq!(after.offsets("h", world.deadline()), [(1, 3)].into());
    assert_eq!(after.offsets("old", world.deadline()), [].into());
    // Commits for the topic's successor are taken under the new revision.
    assert_eq!(gateway.commit("g", ("", -1), &[(0, 1)]), [Ok(())]);
    assert_eq!(gateway.offsets("g", world.deadline()), [(0, 1)].into());
}

#[test]
fn commits_of_a_subscribed_topic_are_not_deleted() {
    let world = World::new();
    let gateway = world.gateway("one");
    let id = stable(&world, &gateway, "g");
    gateway.commit("g", (&id, 1), &[(0, 5)]);
    let asked = [TopicPartition::new("t", 0), TopicPartition::new("u", 0)];
    let codes = gateway.groups.delete_offsets("g", &asked, world.deadline());
    assert_eq!(codes, Ok(Ok(vec![ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode::NONE])));
    gateway.leave("g", &id);
    let codes = gateway.groups.delete_offsets("g", &asked, world.deadline());
    assert_eq!(codes, Ok(Ok(vec![ErrorCode::NONE, ErrorCode::NONE])));
    assert_eq!(gateway.offsets("g", world.deadline()), [].into());
    let unknown = gateway.groups.delete_offsets("nobody", &asked, world.deadline());
    assert_eq!(unknown, Ok(Err(ErrorCode::GROUP_ID_NOT_FOUND)));
}

#[test]
fn of_two_commits_at_once_the_newer_stays() {
    let world = World::new();
    let gateway = world.gateway("one");
    gateway.commit("g", ("", -1), &[(0, 1)]);
    let before = world.store.counts().publishes;
    world.store.hold_acks(true);
    let first = gateway.begin_commit("g", ("", -1), &[(0, 10)]);
    let second = gateway.begin_commit("g", ("", -1), &[(0, 11), (1, 1)]);
    let third = gateway.begin_commit("g", ("", -1), &[(0, 9)]);
    world.store.hold_acks(false);
    world.store.release_acks();
    world.run();
    for pending in [first, second, third] {
        assert!(pending.take().into_iter().all(|outcome| outcome == Some(Ok(()))));
    }
    // Of those that waited only the newest was written.
    assert_eq!(world.store.counts().publishes - before, 3);
    // The last that was asked for, though the number is smaller: a consumer may seek back.
    assert_eq!(gateway.offsets("g", world.deadline()), [(0, 9), (1, 1)].into());
    assert_eq!(world.gateway("two").offsets("g", world.deadline()), [(0, 9), (1, 1)].into());
}

#[test]
fn a_lost_commit_is_found_or_repeated_and_an_older_one_never_lands_after_it() {
    for fault in [PublishFault::AckLost, PublishFault::Lost, PublishFault::Stalled] {
        let world = World::new();
        let gateway = world.gateway("one");
        gateway.commit("g", ("", -1), &[(0, 1)]);
        world.store.fail_next(COMMITS, fault);
        assert_eq!(gateway.commit("g", ("", -1), &[(0, 10)]), [Ok(())]);
        world.store.deliver_stalled();
        assert_eq!(gateway.commit("g", ("", -1), &[(0, 11)]), [Ok(())]);
        world.store.deliver_stalled();
        assert_eq!(world.gateway("two").offsets("g", world.deadline()), [(0, 11)].into());
    }
}

#[test]
fn a_commit_whose_answer_was_lost_is_not_written_again() {
    let world = World::new();
    let gateway = world.gateway("one");
    gateway.commit("g", ("", -1), &[(0, 1)]);
    let before = world.store.counts().publishes;
    world.store.fail_next(COMMITS, PublishFault::AckLost);
    assert_eq!(gateway.commit("g", ("", -1), &[(0, 2)]), [Ok(())]);
    assert_eq!(world.store.counts().publishes - before, 1);
}

#[test]
fn an_undecided_commit_is_told_as_an_error_and_read_at_the_store() {
    let world = World::new();
    let gateway = world.gateway("one");
    gateway.commit("g", ("", -1), &[(0, 1)]);
    world.store.fail_next(COMMITS, PublishFault::Proposed);
    let outcomes = gateway.commit("g", ("", -1), &[(0, 10)]);
    assert!(matches!(outcomes[0], Err(CommitError::Store(_))), "{outcomes:?}");
    assert_eq!(gateway.offsets("g", world.deadline()), [(0, 1)].into());
    world.store.commit_proposed("KV_kafka-consumer-offsets");
    assert_eq!(gateway.offsets("g", world.deadline()), [(0, 10)].into());
    assert_eq!(gateway.commit("g", ("", -1), &[(0, 11)]), [Ok(())]);
    assert_eq!(world.gateway("two").offsets("g", world.deadline()), [(0, 11)].into());
}

#[test]
fn b112_commits_that_cannot_be_read_are_an_error() {
    let world = World::new();
    world.gateway("one").commit("g", ("", -1), &[(0, 1)]);
    world.store.set_outage(Some(Outage::NoAnswer));
    let after = world.gateway("two");
    assert_eq!(after.groups.committed("g", world.deadline()).map(|_| ()), Err(StoreError::NoAnswer));
    world.store.set_outage(None);
    assert_eq!(after.offsets("g", world.deadline()), [(0, 1)].into());
}

#[test]
fn a_foreign_hand_in_the_bucket_is_written_over_by_the_owner() {
    let world = World::new();
    let gateway = world.gateway("one");
    gateway.commit("g", ("", -1), &[(0, 1)]);
    world.store.publish_foreign("$KV.kafka-consumer-offsets.g.t.0", "77").expect("stored");
    assert_eq!(gateway.commit("g", ("", -1), &[(0, 2)]), [Ok(())]);
    assert_eq!(world.gateway("two").offsets("g", world.deadline()), [(0, 2)].into());
}

#[test]
fn a_damaged_record_does_not_lock_a_group_out_for_ever() {
    let world = World::new();
    let gateway = world.gateway("one");
    stable(&world, &gateway, "g");
    world.store.publish_foreign("$KV.kafka-groups.g", "rubbish").expect("stored");
    stable(&world, &world.gateway("two"), "g");
    assert!(world.store.kv_get(BUCKET, "g", world.deadline()).is_ok());
}

#[test]
fn the_buckets_are_made_again_if_they_are_gone() {
    let world = World::new();
    let gateway = world.gateway("one");
    let id = stable(&world, &gateway, "g");
    gateway.commit("g", (&id, 1), &[(0, 5)]);
    world.store.stream_delete("KV_kafka-consumer-offsets", world.deadline()).expect("deleted");
    assert_eq!(gateway.commit("g", (&id, 1), &[(0, 6)]), [Ok(())]);
    assert_eq!(gateway.offsets("g", world.deadline()), [(0, 6)].into());
}

#[test]
fn many_commits_under_chaos_never_go_back() {
    for seed in 1..=40 {
        let world = World::new();
        let gateway = world.gateway("one");
        gateway.commit("g", ("", -1), &[(0, 0)]);
        world.store.set_chaos(Some(crate::store::memory::Chaos {
            seed,
            ack_lost_permille: 100,
            lost_permille: 100,
            proposed_permille: 50,
            unavailable_permille: 50,
            lagging_permille: 0,
            stale_leader_permille: 0,
        }));
        let mut acked = 0;
        for offset in 1..=60 {
            if gateway.commit("g", ("", -1), &[(0, offset)])[0] == Ok(()) {
                acked = offset;
            }
            let stored = gateway.offsets("g", world.deadline())[&0];
            assert!(stored >= acked && stored <= offset, "seed {seed}: {stored}, acked {acked}");
        }
        assert!(acked > 30, "seed {seed}: {acked}");
    }
}
