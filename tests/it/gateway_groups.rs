//! Consumer groups over several gateways: served wherever their members come, and going on whichever gateway goes.

use crate::harness::balancer::Balancer;
use crate::harness::librdkafka::{self, producer};
use crate::harness::member::{COORDINATOR_MOVES, MEMBER_ID_REQUIRED, RawMember, committed, coordinator};
use crate::harness::{Gateway, Nats, SOON, Version, Wire, eventually, free_port};
use crate::on_each_server;
use bytes::Bytes;
use kafka_protocol::messages::{
    DeleteGroupsRequest, DescribeGroupsRequest, GroupId, JoinGroupRequest, ListGroupsRequest, SyncGroupRequest,
};
use kafka_protocol::protocol::StrBytes;
use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::message::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const SESSION: Duration = Duration::from_secs(10);

/// How long a busy machine may take for what takes milliseconds.
const BUSY: Duration = Duration::from_secs(60);

fn start(nats: &Nats, count: usize) -> Vec<Gateway> {
    (0..count).map(|_| Gateway::start(nats, &[])).collect()
}

/// The index of the gateway that owns a group.
fn owner(gateways: &[Gateway], group: &str) -> usize {
    let port = coordinator(&mut gateways[0].wire(), group);
    gateways.iter().position(|gateway| gateway.port == port).expect("one of them")
}

/// Heartbeats through a gateway until the member is served again; how long that took.
#[track_caller]
fn served_again(member: &RawMember, gateway: &Gateway, since: Instant) -> Duration {
    let mut wire = gateway.wire();
    eventually("the member is served again", BUSY, || {
        let code = member.try_heartbeat(&mut wire).ok()?;
        assert!(
            code == 0 || COORDINATOR_MOVES.contains(&code),
            "the generation changed, or the member is lost: {code}"
        );
        (code == 0).then_some(())
    });
    since.elapsed()
}

on_each_server! {
    fn members_are_served_again_in_their_generation_after_their_gateway_was_killed(version) {
        let nats = Nats::start(version);
        let mut gateways = start(&nats, 2);
        gateways[0].wire().create_topic("t", 1);
        let session_ms = i32::try_from(SESSION.as_millis()).expect("short");
        let member = RawMember::join_alone(&mut gateways[0].wire(), "g", None, session_ms);
        assert_eq!(member.try_commit(&mut gateways[1].wire(), 7).ok(), Some(0));
        let owner = owner(&gateways, "g");
        let (killed, other) = (owner, 1 - owner);
        // Through the other gateway all of it works as well.
        let mut wire = gateways[other].wire();
        assert_eq!(member.heartbeat(&mut wire), 0);
        let began = Instant::now();
        gateways[killed].kill();
        let took = served_again(&member, &gateways[other], began);
        eprintln!("served again {took:?} after kill -9 of the owner");
        assert!(took < SESSION, "{took:?}");
        assert_eq!(coordinator(&mut wire, "g"), gateways[other].port);
        assert_eq!(committed(&mut wire, "g"), 7);
        assert_eq!(member.sync(&mut wire, b"ignored"), (0, Bytes::from_static(b"mine")), "its assignment stands");
        // It comes back as another process, which takes nothing away.
        gateways[killed].restart();
        served_again(&member, &gateways[killed], Instant::now());
        assert_eq!(coordinator(&mut gateways[killed].wire(), "g"), gateways[other].port);
    }

    fn a_graceful_stop_hands_hundreds_of_groups_over_within_a_second(version) {
        const GROUPS: usize = 200;
        let nats = Nats::start(version);
        let mut gateways = start(&nats, 2);
        gateways[0].wire().create_topic("t", 1);
        let mut wires: Vec<Wire> = gateways.iter().map(Gateway::wire).collect();
        let mut members = Vec::new();
        for number in 0.. {
            let group = format!("g{number}");
            let at = owner(&gateways, &group);
            // All of them at the first gateway.
            if at == 0 {
                let member = RawMember::join_alone(&mut wires[number % 2], &group, None, 60_000);
                assert_eq!(member.try_commit(&mut wires[number % 2], 3).ok(), Some(0));
                members.push(member);
            }
            if members.len() == GROUPS {
                break;
            }
        }
        let began = Instant::now();
        gateways[0].process().signal(libc::SIGTERM);
        let wire = &mut wires[1];
        let mut first = None;
        for member in &members {
            eventually("the group is served by the other gateway", BUSY, || {
                let code = member.heartbeat(wire);
                assert!(code == 0 || COORDINATOR_MOVES.contains(&code), "{code}");
                (code == 0).then_some(())
            });
            first.get_or_insert_with(|| began.elapsed());
        }
        let (first, took) = (first.expect("there are groups"), began.elapsed());
        eprintln!("after SIGTERM of their owner the first group is served again {first:?} later, {GROUPS} groups {took:?}");
        assert_eq!(members[17].try_commit(wire, 4).ok(), Some(0));
        assert_eq!(committed(wire, &members[17].group.0), 4);
        // Far below what a lease would take to run out. How long the others take is the machine's: one asks after the other.
        assert!(first < Duration::from_secs(3), "{first:?}");
    }

    fn a_gateway_that_joins_takes_no_group_from_a_living_one(version) {
        let nats = Nats::start(version);
        let mut gateways = start(&nats, 2);
        gateways[0].wire().create_topic("t", 1);
        let groups: Vec<String> = (0..20).map(|number| format!("g{number}")).collect();
        let members: Vec<RawMember> =
            groups.iter().map(|group| RawMember::join_alone(&mut gateways[0].wire(), group, None, 60_000)).collect();
        let owners = |wire: &mut Wire| groups.iter().map(|group| coordinator(wire, group)).collect::<Vec<u16>>();
        let before = owners(&mut gateways[0].wire());
        assert!(BTreeSet::from_iter(&before).len() == 2, "both gateways have some: {before:?}");
        gateways.push(Gateway::start(&nats, &[]));
        let mut newcomer = gateways[2].wire();
        eventually("the newcomer knows the others", SOON, || (owners(&mut newcomer) == before).then_some(()));
        for member in &members {
            assert_eq!(member.heartbeat(&mut newcomer), 0);
        }
        // As long as a sweep or a look at who owns what might need.
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(3) {
            assert_eq!(owners(&mut newcomer), before);
            assert_eq!(owners(&mut gateways[1].wire()), before);
        }

        // Each group is listed by its coordinator alone, and described and removed through any gateway.
        let listed = |gateway: &Gateway| {
            let answer = gateway.wire().call(2, &ListGroupsRequest::default());
            answer.groups.iter().map(|group| group.group_id.0.to_string()).collect::<Vec<String>>()
        };
        let mut all: BTreeMap<String, u16> = BTreeMap::new();
        for gateway in &gateways {
            for group in listed(gateway) {
                assert_eq!(all.insert(group, gateway.port), None, "listed twice");
            }
        }
        assert_eq!(all, groups.iter().cloned().zip(before).collect());
        let ids: Vec<GroupId> = members.iter().map(|member| member.group.clone()).collect();
        let described = newcomer.call(5, &DescribeGroupsRequest::default().with_groups(ids.clone())).groups;
        assert!(described.iter().all(|group| &group.group_state[..] == "Stable" && group.members.len() == 1));
        let removed = newcomer.call(1, &DeleteGroupsRequest::default().with_groups_names(ids)).results;
        let non_empty = 68;
        assert!(removed.iter().all(|row| row.error_code == non_empty), "{removed:?}");
    }
}

#[derive(Clone, Default)]
struct Rebalances(Arc<AtomicUsize>);

impl ClientContext for Rebalances {}

impl ConsumerContext for Rebalances {
    fn post_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if matches!(rebalance, Rebalance::Assign(_) | Rebalance::Revoke(_)) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

type Member = BaseConsumer<Rebalances>;

fn member(bootstrap: &str, rebalances: &Rebalances) -> Member {
    let settings = [
        ("group.id", "g"),
        ("auto.offset.reset", "earliest"),
        ("enable.auto.commit", "false"),
        ("session.timeout.ms", "10000"),
        ("heartbeat.interval.ms", "1000"),
    ];
    let consumer: Member =
        librdkafka::config(bootstrap, &settings).create_with_context(rebalances.clone()).expect("a consumer");
    consumer.subscribe(&["t"]).expect("a subscription");
    consumer
}

fn poll_all(members: &[Member], seen: &mut BTreeMap<String, usize>) {
    for member in members {
        while let Some(Ok(message)) = member.poll(Duration::from_millis(20)) {
            let text = String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned();
            *seen.entry(text).or_default() += 1;
        }
    }
}

/// Produces so many records to each of the six partitions, and waits until each was seen.
#[track_caller]
fn round(name: &str, bootstrap: &str, members: &[Member], limit: Duration) -> (BTreeMap<String, usize>, Duration) {
    let began = Instant::now();
    let producer = producer(bootstrap, &[]);
    for partition in 0..6 {
        for number in 0..10 {
            producer.send_value("t", partition, format!("{name} {partition} {number}").as_bytes());
        }
    }
    producer.finish();
    let mut seen = BTreeMap::new();
    eventually(name, limit, || {
        poll_all(members, &mut seen);
        (seen.len() == 60).then_some(())
    });
    (seen, began.elapsed())
}

/// Librdkafka's consumers go on without a rebalance while gateways are killed, stopped and started.
fn consumers_go_on(mut gateways: Vec<Gateway>, bootstrap: &str) {
    gateways[0].wire().create_topic("t", 6);
    let rebalances = Rebalances::default();
    let members: Vec<Member> = (0..3).map(|_| member(bootstrap, &rebalances)).collect();
    eventually("each member has two partitions", BUSY, || {
        poll_all(&members, &mut BTreeMap::new());
        let counts: Vec<usize> =
            members.iter().map(|member| member.assignment().map_or(0, |list| list.count())).collect();
        (counts == [2, 2, 2]).then_some(())
    });
    let settled = rebalances.0.load(Ordering::SeqCst);
    let (seen, _) = round("before", bootstrap, &members, BUSY);
    assert!(seen.values().all(|times| *times == 1), "some were seen twice");
    let commit_all = |when: &str| {
        for member in &members {
            eventually(when, BUSY, || {
                let _ = member.poll(Duration::ZERO);
                member.commit_consumer_state(CommitMode::Sync).ok()
            });
        }
    };
    commit_all("the first commits are taken");
    for (victim, how) in [(0, "killed"), (1, "stopped")] {
        let began = Instant::now();
        match how {
            "killed" => gateways[victim].kill(),
            _ => drop(gateways[victim].terminate()),
        }
        let (seen, _) = round(how, bootstrap, &members, BUSY);
        let consumed = began.elapsed();
        assert!(seen.values().all(|times| *times == 1), "some were seen twice");
        commit_all("commits are taken again");
        eprintln!("gateway {victim} {how}: all read {consumed:?}, all committed {:?} later", began.elapsed());
        gateways[victim].restart();
    }
    assert_eq!(rebalances.0.load(Ordering::SeqCst), settled, "nobody was rebalanced");
}

on_each_server! {
    fn librdkafka_goes_on_without_a_rebalance_when_gateways_go(version) {
        let nats = Nats::start(version);
        let gateways = start(&nats, 3);
        let bootstrap = gateways.iter().map(Gateway::bootstrap).collect::<Vec<_>>().join(",");
        consumers_go_on(gateways, &bootstrap);
    }

    fn librdkafka_goes_on_behind_a_load_balancer_when_gateways_go(version) {
        let nats = Nats::start(version);
        let balancer = Balancer::start(free_port());
        let advertise = format!("--advertise={}", balancer.address());
        let gateways: Vec<Gateway> = (0..3).map(|_| Gateway::start(&nats, &[&advertise])).collect();
        gateways.iter().for_each(|gateway| balancer.add(gateway.port));
        consumers_go_on(gateways, &balancer.address());
    }
}

/// What a member of a large group is told.
struct Joined {
    member: RawMember,
    wire: Wire,
    leader: StrBytes,
    members: Vec<StrBytes>,
}

fn join_large_group(port: u16) -> Joined {
    let mut wire = Wire::connect(port);
    wire.wait_at_most(BUSY).expect("a timeout is set");
    let mut member = RawMember::new("large", None, 30_000);
    assert_eq!(member.join(&mut wire).error_code, MEMBER_ID_REQUIRED);
    let mut response = wire.call(7, &member.join_request());
    while COORDINATOR_MOVES.contains(&response.error_code) {
        response = wire.call(7, &member.join_request());
    }
    assert_eq!(response.error_code, 0);
    member.generation = response.generation_id;
    let members = response.members.iter().map(|other| other.member_id.clone()).collect();
    Joined { member, wire, leader: response.leader, members }
}

#[test]
fn a_hundred_members_over_three_gateways_settle_in_one_generation() {
    const MEMBERS: usize = 100;
    let nats = Nats::start(Version::Newest);
    let delay = "--group-initial-rebalance-delay=3s";
    let gateways: Vec<Gateway> = (0..3).map(|_| Gateway::start(&nats, &[delay])).collect();
    gateways[0].wire().create_topic("t", 1);
    let began = Instant::now();
    let mut joined: Vec<Joined> = std::thread::scope(|scope| {
        let join = |number: usize| {
            let port = gateways[number % 3].port;
            scope.spawn(move || join_large_group(port))
        };
        let threads: Vec<_> = (0..MEMBERS).map(join).collect();
        threads.into_iter().map(|thread| thread.join().expect("it joins")).collect()
    });
    let took = began.elapsed();
    let generations: BTreeSet<i32> = joined.iter().map(|one| one.member.generation).collect();
    assert_eq!(generations, [1].into(), "one generation");
    let leader = joined.iter().position(|one| one.member.id == one.leader).expect("one leads");
    let ids: Vec<StrBytes> = joined[leader].members.clone();
    assert_eq!(ids.len(), MEMBERS);
    let large: Vec<Vec<u8>> = (0..MEMBERS).map(|number| vec![number as u8; 2_000]).collect();
    let assignments: Vec<(&StrBytes, &[u8])> = ids.iter().zip(large.iter().map(Vec::as_slice)).collect();
    for (number, one) in joined.iter_mut().enumerate() {
        let given = if number == leader { assignments.as_slice() } else { &[] };
        let request = one.member.sync_request(given);
        one.wire.send(4, &request);
    }
    for one in &mut joined {
        let (_, response) = one.wire.receive::<SyncGroupRequest>(4);
        assert_eq!(response.error_code, 0);
        let place = ids.iter().position(|id| *id == one.member.id).expect("the leader knows it");
        assert_eq!(response.assignment, large[place]);
    }
    eprintln!(
        "{MEMBERS} members over three gateways: joined {took:?} and synchronised {:?} after the start",
        began.elapsed()
    );
    for one in &mut joined {
        assert_eq!(one.member.heartbeat(&mut one.wire), 0);
    }
}

#[test]
fn a_join_whose_client_goes_away_at_one_gateway_is_forgotten_by_the_other() {
    let nats = Nats::start(Version::Newest);
    let gateways = start(&nats, 2);
    let (mut first, mut second) = (gateways[0].wire(), gateways[1].wire());
    let mut stays = RawMember::join_alone(&mut first, "g", None, 60_000);
    let mut members = || {
        let describe = DescribeGroupsRequest::default().with_groups(vec![stays.group.clone()]);
        second.call(5, &describe).groups[0].members.len()
    };
    for gateway in &gateways {
        let mut wire = gateway.wire();
        let mut goes = RawMember::new("g", None, 60_000);
        assert_eq!(goes.join(&mut wire).error_code, MEMBER_ID_REQUIRED);
        wire.send(7, &goes.join_request());
        eventually("the join is there", SOON, || (members() == 2).then_some(()));
        drop(wire);
        eventually("the join is forgotten", SOON, || (members() == 1).then_some(()));
    }
    // Neither of the two that went away keeps the others waiting for a session timeout of a minute.
    let began = Instant::now();
    let joined = eventually("the one that stays forms a generation", BUSY, || {
        let response = first.call(7, &JoinGroupRequest::clone(&stays.join_request()));
        (response.error_code == 0 && response.members.len() == 1).then_some(response)
    });
    stays.generation = joined.generation_id;
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert_eq!(stays.sync(&mut first, b"mine").0, 0);
}
