//! Several gateways on one store: who owns a group, when it moves and when it does not, and what members notice of it.

use super::rig::{Gateway, World, answer, seconds};
use crate::group::state::State;
use crate::group::{BUCKET, Route, Standing, record};
use crate::offsets::{self, CommitError};
use crate::protocol::error_code::ErrorCode;
use crate::store::Store;
use crate::store::memory::PublishFault;

const GROUPS: &str = "$KV.kafka-groups.>";
const COMMITS: &str = "$KV.kafka-consumer-offsets.>";

/// The process recorded as the owner of a group.
#[track_caller]
fn owner(world: &World, group: &str) -> Option<String> {
    let entry = world.store.kv_get(BUCKET, group, world.deadline()).expect("the store answers");
    let label = record::label(&entry.value.expect("the group is stored")).expect("it is whole");
    label.owner.map(|owner| owner.gateway)
}

/// One stable member of generation 1, with a commit; its id.
#[track_caller]
fn stable(world: &World, gateway: &Gateway, group: &str) -> String {
    let (join, _) = gateway.join(group, "a", "");
    world.sleep(seconds(3));
    let joined = answer(&join);
    assert_eq!((joined.error, joined.generation), (ErrorCode::NONE, 1));
    let synced = answer(&gateway.sync(group, &joined.member_id, 1, &[(&joined.member_id, "p0")]));
    assert_eq!(synced.error, ErrorCode::NONE);
    assert_eq!(gateway.commit(group, (&joined.member_id, 1), &[(0, 10)]), [Ok(())]);
    joined.member_id
}

/// Gateways `one` and `two`, both alive.
fn pair() -> (World, Gateway, Gateway) {
    let world = World::new();
    world.live(&["one", "two"]);
    let (one, two) = (world.gateway("one"), world.gateway("two"));
    (world, one, two)
}

#[test]
fn a_stable_group_is_taken_over_in_its_generation_once_the_lease_of_its_owner_is_gone() {
    let (world, one, two) = pair();
    let id = stable(&world, &one, "g");
    assert_eq!(two.heartbeat("g", &id, 1), ErrorCode::NOT_COORDINATOR);
    assert_eq!(owner(&world, "g").as_deref(), Some("one"));
    drop(one);
    world.live(&["two"]);
    assert_eq!(two.heartbeat("g", &id, 1), ErrorCode::NONE);
    assert_eq!(owner(&world, "g").as_deref(), Some("two"));
    assert_eq!(two.commit("g", (&id, 1), &[(0, 11)]), [Ok(())]);
    // A full session timeout from the takeover on.
    world.sleep(seconds(9));
    assert_eq!(two.heartbeat("g", &id, 1), ErrorCode::NONE);
    assert_eq!(&answer(&two.sync("g", &id, 1, &[])).assignment[..], b"p0");
}

#[test]
fn a_rebalance_under_way_starts_again_at_the_next_owner_with_the_ids_kept() {
    let (world, one, two) = pair();
    let a = stable(&world, &one, "g");
    let (joining_b, _) = one.join("g", "b", "");
    let (joining_a, _) = one.join("g", "a", &a);
    let (joined_a, joined_b) = (answer(&joining_a), answer(&joining_b));
    assert_eq!((joined_a.generation, joined_b.generation), (2, 2));
    // Nobody has an assignment of generation 2 yet.
    drop(one);
    world.live(&["two"]);
    let b = joined_b.member_id;
    assert_eq!(answer(&two.sync("g", &b, 2, &[])).error, ErrorCode::REBALANCE_IN_PROGRESS);
    let (again_b, _) = two.join("g", "b", &b);
    let (again_a, _) = two.join("g", "a", &a);
    let (again_a, again_b) = (answer(&again_a), answer(&again_b));
    assert_eq!((again_a.generation, again_b.generation), (3, 3));
    assert_eq!((again_a.member_id, again_b.member_id), (a, b));
}

#[test]
fn nothing_is_taken_from_an_owner_of_whom_nothing_is_known() {
    let (world, one, two) = pair();
    let id = stable(&world, &one, "g");
    two.view.believe("one", Standing::Unknown);
    let waits = two.begin_commit("g", (&id, 1), &[(0, 11)]);
    assert!(!waits.is_complete(), "it may become known any moment");
    world.sleep(seconds(5));
    assert_eq!(answer(&waits), Err(CommitError::Refused(ErrorCode::COORDINATOR_NOT_AVAILABLE)));
    assert_eq!(owner(&world, "g").as_deref(), Some("one"));

    let waits = two.begin_commit("g", (&id, 1), &[(0, 11)]);
    two.view.believe("one", Standing::Gone);
    world.sleep(seconds(1));
    assert_eq!(answer(&waits), Ok(()));
    assert_eq!(owner(&world, "g").as_deref(), Some("two"));
}

#[test]
fn who_has_no_lease_serves_nothing_and_trusts_nothing_it_knew() {
    let (world, one, two) = pair();
    let id = stable(&world, &one, "g");
    let (b, _) = one.join("g", "b", "");
    one.groups.start();
    one.view.lose_lease();
    assert_eq!(one.heartbeat("g", &id, 1), ErrorCode::NOT_COORDINATOR);
    world.sleep(seconds(1));
    assert_eq!(answer(&b).error, ErrorCode::NOT_COORDINATOR, "who waited is told within a second");
    let refused = Err(CommitError::Refused(ErrorCode::COORDINATOR_NOT_AVAILABLE));
    assert_eq!(one.commit("g", (&id, 1), &[(0, 11)]), [refused]);

    // Meanwhile another has had it, and lost it.
    two.view.believe("one", Standing::Gone);
    assert_eq!(two.commit("g", (&id, 1), &[(0, 20), (1, 1)]), [Ok(()), Ok(())]);
    world.live(&["one"]);
    one.view.take_lease_anew();
    assert_eq!(one.offsets("g", world.deadline()), [(0, 20), (1, 1)].into());
    assert_eq!(one.heartbeat("g", &id, 1), ErrorCode::NONE);
    assert_eq!(owner(&world, "g").as_deref(), Some("one"));
    assert_eq!(one.offsets("g", world.deadline()), [(0, 20), (1, 1)].into());
    assert_eq!(one.commit("g", (&id, 1), &[(0, 21)]), [Ok(())]);
}

#[test]
fn a_lease_that_was_lost_and_taken_anew_unnoticed_counts_as_lost() {
    let (world, one, two) = pair();
    let id = stable(&world, &one, "g");
    // One was stopped for a while, and two took over.
    two.view.believe("one", Standing::Gone);
    assert_eq!(two.commit("g", (&id, 1), &[(0, 20)]), [Ok(())]);
    one.view.take_lease_anew();
    assert_eq!(one.offsets("g", world.deadline()), [(0, 20)].into());
    assert_eq!(one.heartbeat("g", &id, 1), ErrorCode::NOT_COORDINATOR);
    assert_eq!(one.heartbeat("g", &id, 1), ErrorCode::NOT_COORDINATOR, "two lives and owns it");
    assert_eq!(owner(&world, "g").as_deref(), Some("two"));
}

#[test]
fn an_owner_that_was_wrongly_taken_for_dead_notices_within_a_second() {
    let (world, one, two) = pair();
    one.groups.start();
    let id = stable(&world, &one, "g");
    let (b, _) = one.join("g", "b", "");
    world.sleep(seconds(1));
    two.view.believe("one", Standing::Gone);
    assert_eq!(two.heartbeat("g", &id, 1), ErrorCode::NONE);
    assert!(!b.is_complete());
    world.sleep(seconds(1));
    assert_eq!(answer(&b).error, ErrorCode::NOT_COORDINATOR);
    assert_eq!(one.heartbeat("g", &id, 1), ErrorCode::NOT_COORDINATOR);
    assert_eq!(two.heartbeat("g", &id, 1), ErrorCode::NONE);
}

#[test]
fn looking_for_other_owners_costs_one_question_while_nobody_writes() {
    let (world, one, _two) = pair();
    let id = stable(&world, &one, "g");
    one.groups.start();
    world.sleep(seconds(3));
    let before = world.store.counts();
    assert_eq!(one.heartbeat("g", &id, 1), ErrorCode::NONE);
    world.sleep(seconds(5));
    let after = world.store.counts();
    assert_eq!(
        (after.publishes, after.message_ranges, after.kv_reads),
        (before.publishes, before.message_ranges, before.kv_reads)
    );
}

#[test]
fn two_that_take_each_other_for_dead_never_form_one_generation_twice() {
    let (world, one, two) = pair();
    one.groups.start();
    two.groups.start();
    let id = stable(&world, &one, "g");
    one.view.believe("two", Standing::Gone);
    two.view.believe("one", Standing::Gone);
    // Both have it, both are asked to begin the next generation.
    assert_eq!(two.heartbeat("g", &id, 1), ErrorCode::NONE);
    let (at_one, _) = one.join("g", "a", &id);
    let (at_two, _) = two.join("g", "a", &id);
    let (at_one, at_two) = (answer(&at_one), answer(&at_two));
    assert_eq!(at_one.error, ErrorCode::NOT_COORDINATOR);
    assert_eq!((at_two.error, at_two.generation), (ErrorCode::NONE, 2));
    // It goes to and fro; the generation only grows.
    let (at_one, _) = one.join("g", "a", &id);
    assert_eq!(answer(&at_one).generation, 3);
    // Two may repeat what it has told before, but it can store nothing any more.
    let (at_two, _) = two.join("g", "a", &id);
    assert_eq!(answer(&at_two).generation, 2);
    assert_eq!(answer(&two.sync("g", &id, 2, &[(&id, "p1")])).error, ErrorCode::NOT_COORDINATOR);
    let (at_two, _) = two.join("g", "a", &id);
    assert_eq!(answer(&at_two).generation, 4);
}

#[test]
fn of_two_that_claim_a_new_group_at_once_one_gets_it() {
    for fault in [PublishFault::AckLost, PublishFault::Stalled, PublishFault::Lost] {
        let (world, one, two) = pair();
        world.store.fail_next(GROUPS, fault.clone());
        let (a, _) = one.join("g", "a", "");
        let (b, _) = two.join("g", "b", "");
        world.store.deliver_stalled();
        world.sleep(seconds(6));
        let codes = [answer(&a).error, answer(&b).error];
        assert!(
            codes.contains(&ErrorCode::NONE) && codes.contains(&ErrorCode::NOT_COORDINATOR),
            "{fault:?}: {codes:?}"
        );
        let own = owner(&world, "g").expect("somebody owns it");
        assert_eq!(own == "one", codes[0] == ErrorCode::NONE, "{fault:?}");
    }
}

#[test]
fn a_commit_under_way_at_the_takeover_does_not_count_for_the_former_owner() {
    let (world, one, two) = pair();
    let id = stable(&world, &one, "g");
    world.store.hold_acks(true);
    let first = one.begin_commit("g", (&id, 1), &[(0, 11)]);
    let waits = one.begin_commit("g", (&id, 1), &[(0, 12)]);
    one.view.lose_lease();
    world.store.hold_acks(false);
    two.view.believe("one", Standing::Gone);
    assert_eq!(two.heartbeat("g", &id, 1), ErrorCode::NONE);
    world.store.release_acks();
    world.run();
    assert_eq!(answer(&first), Err(CommitError::NotOwner));
    assert_eq!(answer(&waits), Err(CommitError::NotOwner));
    // The one that waited was not even sent.
    assert_eq!(two.offsets("g", world.deadline()), [(0, 11)].into());
    assert_eq!(two.commit("g", (&id, 1), &[(0, 13)]), [Ok(())]);
    assert_eq!(two.offsets("g", world.deadline()), [(0, 13)].into());
}

#[test]
fn a_stalled_commit_of_a_former_owner_never_replaces_a_newer_one() {
    let (world, one, two) = pair();
    let id = stable(&world, &one, "g");
    world.store.fail_next(COMMITS, PublishFault::Stalled);
    let late = one.begin_commit("g", (&id, 1), &[(0, 11)]);
    two.view.believe("one", Standing::Gone);
    assert_eq!(two.commit("g", (&id, 1), &[(0, 20)]), [Ok(())]);
    world.store.deliver_stalled();
    world.run();
    assert_eq!(answer(&late), Err(CommitError::NotOwner));
    assert_eq!(two.offsets("g", world.deadline()), [(0, 20)].into());
    assert_eq!(world.gateway("three").offsets("g", world.deadline()), [(0, 20)].into());
}

#[test]
fn a_takeover_sees_the_last_commit_also_where_the_bucket_changes_its_leader_too() {
    let (world, one, two) = pair();
    world.store.set_clustered(true);
    let id = stable(&world, &one, "g");
    let applied = world.store.remember(offsets::BUCKET);
    assert_eq!(one.commit("g", (&id, 1), &[(0, 11)]), [Ok(())]);
    drop(one);
    world.live(&["two"]);
    world.store.lead_anew(offsets::BUCKET, applied);
    assert_eq!(two.offsets("g", world.deadline()), [(0, 11)].into());
    assert_eq!(two.commit("g", (&id, 1), &[(0, 12)]), [Ok(())]);
    assert_eq!(two.offsets("g", world.deadline()), [(0, 12)].into());
}

#[test]
fn a_graceful_stop_releases_every_group_and_they_go_on_elsewhere_in_their_generation() {
    let (world, one, two) = pair();
    let groups: Vec<String> = (0..200).map(|number| format!("g{number}")).collect();
    let joins: Vec<_> = groups.iter().map(|group| one.join(group, "a", "").0).collect();
    world.sleep(seconds(3));
    let ids: Vec<String> = joins.iter().map(|join| answer(join).member_id).collect();
    for (group, id) in groups.iter().zip(&ids) {
        assert_eq!(answer(&one.sync(group, id, 1, &[(id, "p0")])).error, ErrorCode::NONE);
    }
    let (joining, _) = one.join("g0", "b", "");
    one.groups.release_all(world.deadline());
    assert_eq!(answer(&joining).error, ErrorCode::NOT_COORDINATOR);
    assert!(groups.iter().all(|group| owner(&world, group).is_none()));
    // Its lease still stands, but it takes nothing any more.
    let refused = Err(CommitError::Refused(ErrorCode::COORDINATOR_NOT_AVAILABLE));
    assert_eq!(one.commit("g1", (&ids[1], 1), &[(0, 11)]), [refused]);
    // A rebalance was under way in the first.
    assert_eq!(two.heartbeat("g0", &ids[0], 1), ErrorCode::REBALANCE_IN_PROGRESS);
    for (group, id) in groups.iter().zip(&ids).skip(1) {
        assert_eq!(two.heartbeat(group, id, 1), ErrorCode::NONE);
        assert_eq!(two.commit(group, (id, 1), &[(0, 12)]), [Ok(())]);
    }
}

#[test]
fn a_release_waits_for_what_is_being_written() {
    let (world, one, two) = pair();
    let id = stable(&world, &one, "g");
    world.store.hold_acks(true);
    let committing = one.begin_commit("g", (&id, 1), &[(0, 11)]);
    world.store.hold_acks(false);
    std::thread::scope(|scope| {
        let releasing = scope.spawn(|| one.groups.release_all(world.deadline()));
        world.store.release_acks();
        world.run();
        releasing.join().expect("no panic");
    });
    assert_eq!(answer(&committing), Ok(()));
    assert_eq!(owner(&world, "g"), None);
    assert_eq!(two.commit("g", (&id, 1), &[(0, 12)]), [Ok(())]);
}

#[test]
fn a_live_owner_wins_over_the_preferred_one_and_a_newcomer_moves_nothing() {
    let (world, one, two) = pair();
    for gateway in [&one, &two] {
        gateway.view.prefer("one");
    }
    assert_eq!(two.groups.route("g"), Route::At("one".to_owned()));
    assert_eq!(one.groups.route("g"), Route::Here);
    let id = stable(&world, &one, "g");
    // A third comes, and all prefer it.
    world.live(&["one", "two", "three"]);
    let three = world.gateway("three");
    for gateway in [&one, &two, &three] {
        gateway.view.prefer("three");
        gateway.groups.start();
    }
    world.sleep(seconds(5));
    assert_eq!(one.heartbeat("g", &id, 1), ErrorCode::NONE);
    world.sleep(seconds(5));
    assert_eq!(two.groups.route("g"), Route::At("one".to_owned()));
    assert_eq!(three.groups.route("g"), Route::At("one".to_owned()));
    assert_eq!(three.groups.coordinator("g").as_deref(), Some("one"));
    assert_eq!(owner(&world, "g").as_deref(), Some("one"));
    // It dies: now the preferred one is asked.
    world.live(&["two", "three"]);
    assert_eq!(two.groups.route("g"), Route::At("three".to_owned()));
    assert_eq!(three.groups.route("g"), Route::Here);
    // The preferred one does not answer: whoever is asked takes the group itself.
    two.groups.avoid("three");
    assert_eq!(two.groups.route("g"), Route::Here);
    assert_eq!(two.heartbeat("g", &id, 1), ErrorCode::NONE);
    assert_eq!(three.groups.route("g"), Route::At("two".to_owned()));
}

#[test]
fn a_remembered_owner_costs_no_look_and_is_forgotten_when_it_is_wrong() {
    let (world, one, two) = pair();
    let id = stable(&world, &one, "g");
    assert_eq!(two.groups.route_known("g"), None);
    assert_eq!(two.groups.route("g"), Route::At("one".to_owned()));
    let before = world.store.counts().kv_reads;
    assert_eq!(two.groups.route_known("g"), Some(Route::At("one".to_owned())));
    assert_eq!(two.groups.coordinator_known("g"), Some(Some("one".to_owned())));
    assert_eq!(world.store.counts().kv_reads, before);
    two.groups.forget_owner("g", "another");
    assert!(two.groups.route_known("g").is_some());
    two.groups.forget_owner("g", "one");
    assert_eq!(two.groups.route_known("g"), None);
    // A dead one is not asked, remembered or not.
    assert_eq!(two.groups.route("g"), Route::At("one".to_owned()));
    world.live(&["two"]);
    assert_eq!(two.groups.route_known("g"), None);
    assert_eq!(two.groups.route("g"), Route::Here);
    assert_eq!(two.heartbeat("g", &id, 1), ErrorCode::NONE);
}

#[test]
fn groups_left_behind_are_looked_after_by_the_preferred_gateway_alone() {
    let (world, one, two) = pair();
    let three = world.gateway("three");
    stable(&world, &one, "g");
    drop(one);
    world.live(&["two", "three"]);
    for gateway in [&two, &three] {
        gateway.view.prefer("three");
    }
    two.groups.sweep();
    world.run();
    assert_eq!(owner(&world, "g").as_deref(), Some("one"));
    three.groups.sweep();
    world.run();
    assert_eq!(owner(&world, "g").as_deref(), Some("three"));
    world.sleep(seconds(10));
    let described = two.groups.describe("g", world.deadline()).expect("the store answers").expect("it is there");
    assert_eq!(described.state, State::Empty);
    let listed = two.groups.list(world.deadline()).expect("the store answers");
    assert_eq!(listed[0].coordinator.as_deref(), Some("three"));
}
