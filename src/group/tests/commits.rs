//! Commits that meet each other on the way to the store.

use super::rig::{Interrupted, World};
use std::sync::{Arc, Mutex};

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
