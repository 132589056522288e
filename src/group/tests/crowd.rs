//! Many members on many threads at once: nobody is forgotten, and no two members of a generation have one partition.

use super::rig::{Gateway, Workers, World};
use crate::clock::{Clock, ManualClock};
use crate::group::event::{Event, Join, JoinReply, Protocol, Reply, Token};
use crate::group::state::{Group, Rules};
use crate::promise::Pending;
use crate::protocol::error_code::ErrorCode;
use crate::store::memory::Chaos;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// By generation: partition and member.
type Assigned = Arc<Mutex<BTreeMap<i32, Vec<(String, String)>>>>;

const MEMBERS: usize = 12;
const ROUNDS: usize = 30;

/// Polls as a parked request would, and fails the test if the answer never comes.
fn await_answer<T>(pending: &Pending<T>) -> Option<T> {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !pending.is_complete() {
        assert!(Instant::now() < deadline, "a request was forgotten");
        std::thread::yield_now();
    }
    pending.take_one().flatten()
}

/// Joins, syncs, commits and leaves, again and again; how often it was assigned something.
fn live(gateway: &Gateway, name: &str, assigned: &Assigned) -> usize {
    let mut member_id = String::new();
    let mut stable = 0;
    for round in 0..ROUNDS {
        let (pending, _) = gateway.join("g", name, &member_id);
        let Some(joined) = await_answer(&pending) else { continue };
        if joined.error != ErrorCode::NONE {
            member_id = if joined.error == ErrorCode::UNKNOWN_MEMBER_ID { String::new() } else { member_id };
            continue;
        }
        member_id = joined.member_id.clone();
        let plan = assignment(&joined);
        let plan: Vec<(&str, &str)> = plan.iter().map(|(id, what)| (id.as_str(), what.as_str())).collect();
        let synced = await_answer(&gateway.sync("g", &member_id, joined.generation, &plan));
        if let Some(synced) = synced.filter(|synced| synced.error == ErrorCode::NONE) {
            stable += 1;
            let what = String::from_utf8_lossy(&synced.assignment).into_owned();
            let mut assigned = assigned.lock().expect("no holder panics");
            assigned.entry(joined.generation).or_default().push((what, member_id.clone()));
            drop(assigned);
            let commit = gateway.begin_commit("g", (&member_id, joined.generation), &[(0, 1), (1, 2)]);
            await_answer_all(&commit);
        }
        gateway.heartbeat_now_or_later("g", &member_id, joined.generation);
        if round % 5 == 4 {
            await_answer(&gateway.leave("g", &member_id));
            member_id.clear();
        }
    }
    if !member_id.is_empty() {
        await_answer(&gateway.leave("g", &member_id));
    }
    stable
}

fn await_answer_all<T>(pending: &Pending<T>) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !pending.is_complete() {
        assert!(Instant::now() < deadline, "a commit was forgotten");
        std::thread::yield_now();
    }
}

fn assignment(joined: &JoinReply) -> Vec<(String, String)> {
    let numbered = joined.members.iter().enumerate();
    numbered.map(|(number, member)| (member.member_id.clone(), format!("p{number}"))).collect()
}

fn crowd(chaos: Option<Chaos>) {
    let mut world = World::new();
    world.settings.initial_rebalance_delay = Duration::ZERO;
    world.store.set_chaos(chaos);
    let workers = Workers::start(3, world.clock.clone());
    let gateway = Arc::new(world.gateway_on("one", workers.clone()));
    let assigned: Assigned = Arc::default();
    let clients: Vec<_> = (0..MEMBERS)
        .map(|number| {
            let (gateway, assigned) = (gateway.clone(), assigned.clone());
            std::thread::spawn(move || live(&gateway, &format!("m{number}"), &assigned))
        })
        .collect();
    // Sessions and rebalance timeouts pass a hundred times faster than in life.
    while clients.iter().any(|client| !client.is_finished()) {
        world.clock.advance(Duration::from_millis(100));
        std::thread::sleep(Duration::from_millis(1));
    }
    let stable: usize = clients.into_iter().map(|client| client.join().expect("no client fails")).sum();
    workers.stop();
    assert!(stable > MEMBERS, "{stable} assignments");
    for (generation, shares) in assigned.lock().expect("no holder panics").iter() {
        let mut shares: Vec<_> = shares.iter().filter(|(what, _)| !what.is_empty()).collect();
        shares.sort();
        shares.dedup();
        for pair in shares.windows(2) {
            assert_ne!(pair[0].0, pair[1].0, "generation {generation}: two have the same: {shares:?}");
        }
    }
}

#[test]
fn a_crowd_rebalances() {
    crowd(None);
}

#[test]
fn a_crowd_rebalances_on_a_store_that_loses_answers() {
    crowd(Some(Chaos {
        seed: 5,
        ack_lost_permille: 80,
        lost_permille: 50,
        unavailable_permille: 30,
        ..Chaos::default()
    }));
}

/// While a group works it out, others of its members wait.
#[test]
fn members_that_name_very_many_protocols_are_compared_quickly() {
    const MANY: usize = 50_000;
    let rules = Rules { initial_rebalance_delay: Duration::ZERO, size_max: 10, stored_bytes_max: usize::MAX };
    let now = ManualClock::new().now();
    let mut group = Group::new(now);
    let join = |name: &str, first: usize| Join {
        member_id: String::new(),
        instance_id: None,
        client_id: name.to_owned(),
        client_host: String::new(),
        protocol_type: "consumer".to_owned(),
        protocols: (first..first + MANY)
            .map(|n| Protocol { name: format!("protocol {n:06}"), metadata: Bytes::new() })
            .collect(),
        session_timeout: Duration::from_secs(10),
        rebalance_timeout: Duration::from_secs(60),
        member_id_required: false,
        can_skip_assignment: true,
        reason: None,
        fresh_member_id: name.to_owned(),
    };
    let began = Instant::now();
    // They have one in common: the last of the first, the first of the second.
    group.apply(Event::Join(join("a", 0)), Token(1), now, &rules);
    group.apply(Event::Join(join("b", MANY - 1)), Token(2), now, &rules);
    let effects = group.apply(Event::Join(join("c", 2 * MANY)), Token(3), now, &rules);
    assert!(
        matches!(&effects.replies[..], [(Token(3), Reply::Join(r))] if r.error == ErrorCode::INCONSISTENT_GROUP_PROTOCOL)
    );
    // The second waits on for whoever comes after b.
    group.apply(Event::Tick, Token(4), now, &rules);
    group.apply(Event::Tick, Token(5), now, &rules);
    assert_eq!(group.protocol_name, Some(format!("protocol {:06}", MANY - 1)));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}
