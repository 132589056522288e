//! Commits that meet each other, or the end of their group, on the way to the store.

use super::rig::{Interrupted, World, answer, seconds};
use crate::offsets;
use crate::protocol::error_code::ErrorCode;
use crate::store::Store;
use crate::store::memory::PublishFault;
use std::sync::{Arc, Mutex};

const COMMITS: &str = "$KV.kafka-consumer-offsets.>";

/// Its client gave up waiting, and committed on by another connection, whose thread was quicker.
#[test]
fn a_commit_that_is_held_up_on_its_way_never_lands_after_a_newer_one() {
    let world = World::new();
    let clock = Interrupted::new(&world.clock);
    let gateway = Arc::new(world.gateway_by("one", world.tasks.clone(), world.clock.clone(), clock.clone()));
    let second = Arc::new(Mutex::new(Vec::new()));
    clock.interrupt({
        let (gateway, second) = (gateway.clone(), second.clone());
        move || {
            *second.lock().expect("no holder panics") = gateway.commit("g", ("", -1), &[(0, 200)]);
            true
        }
    });
    let first = gateway.begin_commit("g", ("", -1), &[(0, 100), (1, 7)]);
    world.run();
    assert_eq!(*second.lock().expect("no holder panics"), [Ok(())]);
    assert!(first.take().into_iter().all(|outcome| outcome == Some(Ok(()))));
    assert_eq!(gateway.offsets("g", world.deadline()), [(0, 200), (1, 7)].into());
    assert_eq!(world.gateway("two").offsets("g", world.deadline()), [(0, 200), (1, 7)].into());
}

#[test]
fn a_commit_that_was_acknowledged_while_its_group_was_deleted_is_deleted() {
    let world = World::new();
    let clock = Interrupted::new(&world.clock);
    let gateway = world.gateway_by("one", world.tasks.clone(), clock.clone(), world.clock.clone());
    assert_eq!(gateway.commit("g", ("", -1), &[(0, 1)]), [Ok(())]);
    world.store.fail_next(COMMITS, PublishFault::Lost);
    let commit = gateway.begin_commit("g", ("", -1), &[(0, 10)]);
    // The lost commit is sent again once the others are gone, and before the group is.
    clock.interrupt({
        let (store, tasks, deadline) = (world.store.clone(), world.tasks.clone(), world.deadline());
        move || {
            let left = store.kv_list(offsets::BUCKET, ">", deadline).expect("the store answers");
            left.is_empty() && {
                tasks.run();
                true
            }
        }
    });
    let deleted = gateway.begin_delete("g");
    world.sleep(seconds(1));
    assert_eq!(answer(&deleted), ErrorCode::NONE);
    assert_eq!(commit.take(), [Some(Ok(()))]);
    assert_eq!(world.gateway("two").offsets("g", world.deadline()), [].into());
    assert_eq!(gateway.delete("g"), ErrorCode::GROUP_ID_NOT_FOUND);
}

/// Not for ever, though.
#[test]
fn a_group_whose_commits_do_not_end_is_not_deleted() {
    let world = World::new();
    let gateway = world.gateway("one");
    assert_eq!(gateway.commit("g", ("", -1), &[(0, 1)]), [Ok(())]);
    world.store.hold_acks(true);
    let commit = gateway.begin_commit("g", ("", -1), &[(0, 10)]);
    let deleted = gateway.begin_delete("g");
    world.sleep(seconds(4));
    assert!(!deleted.is_complete());
    world.sleep(seconds(30));
    assert_eq!(answer(&deleted), ErrorCode::COORDINATOR_NOT_AVAILABLE);
    world.store.hold_acks(false);
    world.store.release_acks();
    world.run();
    assert!(commit.take()[0].as_ref().is_some_and(|outcome| outcome.is_err()), "its claim has ended");
    assert_eq!(gateway.offsets("g", world.deadline()), [(0, 10)].into());
    assert_eq!(gateway.delete("g"), ErrorCode::NONE);
}
