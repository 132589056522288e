//! Group requests that reach the wrong gateway of two: the same answers, over a store in memory.

use super::group_tests::{answer_of, frame_of};
use super::*;
use crate::clock::ManualClock;
use crate::gateway::{self, Basis};
use crate::group::tests::rig::Queued;
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::create_topics::{CreatableTopic, CreateTopicsRequest};
use crate::protocol::messages::delete_groups::DeleteGroupsRequest;
use crate::protocol::messages::describe_groups::DescribeGroupsRequest;
use crate::protocol::messages::find_coordinator::FindCoordinatorRequest;
use crate::protocol::messages::heartbeat::HeartbeatRequest;
use crate::protocol::messages::join_group::{JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse};
use crate::protocol::messages::leave_group::LeaveGroupRequest;
use crate::protocol::messages::list_groups::ListGroupsRequest;
use crate::protocol::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use crate::protocol::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use crate::protocol::messages::offset_fetch::OffsetFetchRequest;
use crate::protocol::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};
use crate::store::memory::MemoryStore;
use std::net::Ipv4Addr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3));

/// Two gateways on one store, with the topic `t` of three partitions.
struct World {
    store: Arc<MemoryStore>,
    clock: Arc<ManualClock>,
    tasks: Arc<Queued>,
    sides: Vec<Side>,
}

struct Side {
    gateway: Arc<Gateway>,
    lives: AtomicBool,
}

impl World {
    /// `shared`: both advertise one address.
    fn new(shared: bool) -> World {
        let store = Arc::new(MemoryStore::new());
        let (clock, tasks) = (Arc::new(ManualClock::new()), Arc::new(Queued::default()));
        let side = |number: u16| {
            let advertised_port = if shared { 9092 } else { 9092 + number };
            let config = Config { advertised_host: "kafka.example".to_owned(), advertised_port, ..Config::default() };
            let gateway = gateway::build(Basis {
                config: Arc::new(config),
                store: store.clone(),
                direct: store.clone(),
                wakeups: Arc::new(Wakeups::new()),
                tasks: tasks.clone(),
                clock: clock.clone(),
                metrics: Arc::default(),
                logger: Logger::root(slog::Discard, slog::o!()),
            });
            Side { gateway, lives: AtomicBool::new(true) }
        };
        let sides = vec![side(0), side(1)];
        let world = World { store, clock, tasks, sides };
        world.renew();
        world.renew();
        let topic =
            CreatableTopic { name: "t".to_owned(), num_partitions: 3, replication_factor: 1, ..Default::default() };
        let made = world.ask(0, 7, &CreateTopicsRequest { topics: vec![topic], ..Default::default() });
        assert_eq!(made.topics[0].error_code, 0);
        world
    }

    fn renew(&self) {
        for side in self.sides.iter().filter(|side| side.lives.load(SeqCst)) {
            side.gateway.services().cluster.lease().round();
        }
        self.tasks.run();
    }

    fn sleep(&self, seconds: u64) {
        for _ in 0..seconds {
            self.tasks.sleep(&self.clock, Duration::from_secs(1));
            self.renew();
        }
    }

    /// The gateway dies: it renews its lease no more, and nobody asks it anything.
    fn kill(&self, side: usize) {
        self.sides[side].lives.store(false, SeqCst);
    }

    fn send<R: Request>(&self, side: usize, version: i16, request: &R) -> Outcome {
        let frame = frame_of(version, request);
        let outcome = self.sides[side].gateway.dispatch(frame, CLIENT);
        self.tasks.run();
        outcome
    }

    #[track_caller]
    fn read<R: Request>(&self, version: i16, outcome: &mut Outcome) -> Option<R::Response> {
        answer_of::<R>(self.clock.now(), version, outcome)
    }

    #[track_caller]
    fn ask<R: Request>(&self, side: usize, version: i16, request: &R) -> R::Response {
        self.read::<R>(version, &mut self.send(side, version, request)).expect("it is answered")
    }

    /// The side whose gateway owns a group, and the other.
    fn owner_and_other(&self, group: &str) -> (usize, usize) {
        let is_owner = |side: &Side| side.gateway.services().groups.serves(group);
        let owner = self.sides.iter().position(is_owner).expect("somebody owns it");
        (owner, 1 - owner)
    }

    /// A member of generation 1 with all of its topic, that came by way of this side.
    #[track_caller]
    fn member(&self, side: usize, group: &str) -> String {
        let mut join = self.send(side, 3, &join(group, ""));
        self.sleep(3);
        let joined: JoinGroupResponse = self.read::<JoinGroupRequest>(3, &mut join).expect("it is answered");
        assert_eq!((joined.error_code, joined.generation_id), (0, 1));
        let assignment = SyncGroupRequestAssignment {
            member_id: joined.member_id.clone(),
            assignment: Bytes::from_static(b"all of it"),
        };
        let sync = SyncGroupRequest {
            group_id: group.to_owned(),
            generation_id: 1,
            member_id: joined.member_id.clone(),
            assignments: vec![assignment],
            ..Default::default()
        };
        let synced = self.ask(side, 3, &sync);
        assert_eq!((synced.error_code, &synced.assignment[..]), (0, &b"all of it"[..]));
        joined.member_id
    }

    fn heartbeat(&self, side: usize, group: &str, member_id: &str) -> i16 {
        self.ask(side, 3, &heartbeat(group, member_id)).error_code
    }

    fn commit(&self, side: usize, group: &str, member_id: &str, offset: i64) -> i16 {
        let partition =
            OffsetCommitRequestPartition { partition_index: 1, committed_offset: offset, ..Default::default() };
        let topic = OffsetCommitRequestTopic { name: "t".to_owned(), partitions: vec![partition] };
        let request = OffsetCommitRequest {
            group_id: group.to_owned(),
            generation_id_or_member_epoch: if member_id.is_empty() { -1 } else { 1 },
            member_id: member_id.to_owned(),
            topics: vec![topic],
            ..Default::default()
        };
        self.ask(side, 7, &request).topics[0].partitions[0].error_code
    }

    fn fetch(&self, side: usize, group: &str) -> Vec<(i32, i64)> {
        let request = OffsetFetchRequest { group_id: group.to_owned(), topics: None, ..Default::default() };
        let answer = self.ask(side, 5, &request);
        assert_eq!(answer.error_code, 0);
        let rows = answer.topics.into_iter().flat_map(|topic| topic.partitions);
        rows.map(|row| (row.partition_index, row.committed_offset)).collect()
    }

    fn coordinator(&self, side: usize, group: &str) -> (i16, i32) {
        let request = FindCoordinatorRequest { key: group.to_owned(), ..Default::default() };
        let answer = self.ask(side, 2, &request);
        (answer.error_code, answer.port)
    }

    fn listed(&self, side: usize) -> Vec<String> {
        let answer = self.ask(side, 2, &ListGroupsRequest::default());
        answer.groups.into_iter().map(|group| group.group_id).collect()
    }
}

fn join(group: &str, member_id: &str) -> JoinGroupRequest {
    let protocol = JoinGroupRequestProtocol { name: "range".to_owned(), metadata: Bytes::from_static(b"\0\0") };
    JoinGroupRequest {
        group_id: group.to_owned(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 60_000,
        member_id: member_id.to_owned(),
        protocol_type: "consumer".to_owned(),
        protocols: vec![protocol],
        ..Default::default()
    }
}

fn heartbeat(group: &str, member_id: &str) -> HeartbeatRequest {
    HeartbeatRequest {
        group_id: group.to_owned(),
        generation_id: 1,
        member_id: member_id.to_owned(),
        ..Default::default()
    }
}

#[test]
fn a_member_lives_its_life_through_the_wrong_gateway() {
    let world = World::new(true);
    let id = world.member(0, "g");
    let (_, other) = world.owner_and_other("g");
    assert_eq!(world.heartbeat(other, "g", &id), 0);
    assert_eq!(world.commit(other, "g", &id, 42), 0);
    for side in [0, 1] {
        assert_eq!(world.fetch(side, "g"), [(1, 42)]);
    }
    assert_eq!(world.heartbeat(other, "g", "nobody"), ErrorCode::UNKNOWN_MEMBER_ID.code());
    let leave = LeaveGroupRequest { group_id: "g".to_owned(), member_id: id.clone(), ..Default::default() };
    assert_eq!(world.ask(other, 2, &leave).error_code, 0);
    assert_eq!(world.heartbeat(other, "g", &id), ErrorCode::UNKNOWN_MEMBER_ID.code());
}

#[test]
fn members_at_both_gateways_are_in_one_generation() {
    let world = World::new(true);
    let mut joins: Vec<Outcome> = (0..6).map(|number| world.send(number % 2, 3, &join("g", ""))).collect();
    world.sleep(6);
    let mut answers = joins.iter_mut().map(|join| world.read::<JoinGroupRequest>(3, join).expect("it is answered"));
    let answers: Vec<JoinGroupResponse> = answers.by_ref().collect();
    assert!(answers.iter().all(|answer| (answer.error_code, answer.generation_id) == (0, 1)));
    let leader = answers.iter().find(|answer| answer.leader == answer.member_id).expect("one leads");
    assert_eq!(leader.members.len(), 6);
}

#[test]
fn a_new_group_goes_to_the_gateway_that_all_prefer() {
    let world = World::new(false);
    for number in 0..20 {
        let group = format!("g{number}");
        let named = world.coordinator(0, &group);
        assert_eq!(world.coordinator(1, &group), named);
        assert_eq!(world.commit(number % 2, &group, "", 1), 0);
        let (owner, _) = world.owner_and_other(&group);
        assert_eq!(named, (0, 9092 + i32::try_from(owner).expect("few")));
        for side in [0, 1] {
            assert_eq!(world.coordinator(side, &group), named);
        }
    }
    // Each group is listed once.
    let (first, second) = (world.listed(0), world.listed(1));
    assert!(!first.is_empty() && !second.is_empty());
    assert_eq!(first.len() + second.len(), 20);
    assert!(first.iter().all(|group| !second.contains(group)));
}

#[test]
fn behind_one_address_each_gateway_lists_all_groups_and_names_that_address() {
    let world = World::new(true);
    for number in 0..10 {
        assert_eq!(world.commit(number % 2, &format!("g{number}"), "", 1), 0);
    }
    assert_eq!((world.listed(0).len(), world.listed(1).len()), (10, 10));
    assert_eq!((world.coordinator(0, "g1"), world.coordinator(1, "g1")), ((0, 9092), (0, 9092)));
}

#[test]
fn a_client_that_is_gone_is_taken_out_of_the_join_at_the_other_gateway() {
    let world = World::new(true);
    assert_eq!(world.commit(0, "g", "", 1), 0);
    let (owner, other) = world.owner_and_other("g");
    let mut gone = world.send(other, 3, &join("g", ""));
    let mut stays = world.send(other, 3, &join("g", ""));
    assert_eq!(world.sides[owner].gateway.services().forwarder.visits_open(), 2);
    let Outcome::Park(parked) = &mut gone else { panic!("it waits") };
    parked.abandon();
    world.tasks.run();
    assert_eq!(world.sides[owner].gateway.services().forwarder.visits_open(), 1);
    world.sleep(6);
    let joined = world.read::<JoinGroupRequest>(3, &mut stays).expect("it is answered");
    assert_eq!((joined.error_code, joined.members.len()), (0, 1));
}

#[test]
fn when_the_owner_dies_its_members_are_told_to_come_again_and_go_on_in_their_generation() {
    let world = World::new(true);
    let id = world.member(0, "g");
    let (owner, other) = world.owner_and_other("g");
    assert_eq!(world.commit(other, "g", &id, 42), 0);
    assert_eq!(world.heartbeat(other, "g", &id), 0);
    world.kill(owner);
    // It hears nothing any more.
    world.store.drop_core_messages(true);
    let mut waits = world.send(other, 3, &heartbeat("g", &id));
    assert!(world.read::<HeartbeatRequest>(3, &mut waits).is_none());
    world.sleep(6);
    let told = world.read::<HeartbeatRequest>(3, &mut waits).expect("it is answered").error_code;
    assert_eq!(told, ErrorCode::NOT_COORDINATOR.code());
    world.store.drop_core_messages(false);
    assert_eq!(world.heartbeat(other, "g", &id), 0);
    assert_eq!(world.commit(other, "g", &id, 43), 0);
    assert_eq!(world.fetch(other, "g"), [(1, 43)]);
}

#[test]
fn a_graceful_stop_moves_groups_at_once() {
    let world = World::new(true);
    let id = world.member(0, "g");
    let (owner, other) = world.owner_and_other("g");
    assert_eq!(world.heartbeat(other, "g", &id), 0);
    let services = world.sides[owner].gateway.services();
    services.groups.release_all(world.clock.now().mono + Duration::from_secs(1));
    services.cluster.lease().release(world.clock.now().mono + Duration::from_secs(1)).expect("the memory takes it");
    world.kill(owner);
    world.renew();
    // The first may still go to the former owner; nobody waits for its lease to run out.
    let codes: Vec<i16> = (0..3).map(|_| world.heartbeat(other, "g", &id)).collect();
    assert!(codes[0] == 0 || codes[0] == ErrorCode::NOT_COORDINATOR.code(), "{codes:?}");
    assert_eq!(codes[1..], [0, 0]);
}

#[test]
fn groups_are_described_and_removed_through_any_gateway() {
    let world = World::new(false);
    let id = world.member(0, "g");
    let (_, other) = world.owner_and_other("g");
    let groups: Vec<String> = (0..6).map(|number| format!("g{number}")).collect();
    for group in &groups {
        assert_eq!(world.commit(0, group, "", 5), 0);
    }
    let asked = ["g", "g0", "g1", "g2", "g3", "g4", "g5", "nobody"].map(str::to_owned).to_vec();
    let described = world.ask(other, 5, &DescribeGroupsRequest { groups: asked.clone(), ..Default::default() });
    let rows: Vec<(&str, &str)> =
        described.groups.iter().map(|row| (row.group_id.as_str(), row.group_state.as_str())).collect();
    let expected: Vec<(&str, &str)> = asked
        .iter()
        .map(|name| match name.as_str() {
            "g" => ("g", "Stable"),
            "nobody" => ("nobody", "Dead"),
            other => (other, "Empty"),
        })
        .collect();
    assert_eq!(rows, expected);
    let member = &described.groups[0].members[0];
    assert_eq!((member.member_id.as_str(), member.client_host.as_str()), (id.as_str(), "/10.1.2.3"));

    let topic = OffsetDeleteRequestTopic {
        name: "t".to_owned(),
        partitions: vec![OffsetDeleteRequestPartition { partition_index: 1 }],
    };
    for group in ["g0", "g1"] {
        let (_, other) = world.owner_and_other(group);
        let delete = OffsetDeleteRequest { group_id: group.to_owned(), topics: vec![topic.clone()] };
        assert_eq!(world.ask(other, 0, &delete).error_code, 0);
        assert_eq!((world.fetch(0, group), world.fetch(1, group)), (vec![], vec![]));
    }
    let removed = world.ask(other, 1, &DeleteGroupsRequest { groups_names: asked.clone() });
    let rows: Vec<(String, i16)> = removed.results.into_iter().map(|row| (row.group_id, row.error_code)).collect();
    let expected: Vec<(String, i16)> = asked
        .into_iter()
        .map(|name| match name.as_str() {
            "g" => (name, ErrorCode::NON_EMPTY_GROUP.code()),
            "nobody" => (name, ErrorCode::GROUP_ID_NOT_FOUND.code()),
            _ => (name, 0),
        })
        .collect();
    assert_eq!(rows, expected);
    for group in &groups {
        assert_eq!(world.fetch(1, group), []);
    }
}

#[test]
fn what_needs_a_look_at_the_store_is_no_light_request() {
    let world = World::new(false);
    let id = world.member(0, "g");
    let (owner, other) = world.owner_and_other("g");
    let gateway = |side: usize| &world.sides[side].gateway;
    let beat = frame_of(3, &heartbeat("g", &id));
    assert_eq!(gateway(owner).kind(&beat), Kind::Light);
    let find = frame_of(2, &FindCoordinatorRequest { key: "unknown".to_owned(), ..Default::default() });
    assert_eq!(gateway(other).kind(&find), Kind::Heavy);
    gateway(other).services().groups.forget_owner("g", gateway(owner).services().cluster.process_id());
    assert_eq!(gateway(other).kind(&beat), Kind::Heavy);
    assert_eq!(world.heartbeat(other, "g", &id), 0);
    assert_eq!(gateway(other).kind(&beat), Kind::Light);
}

#[test]
fn a_request_that_two_gateways_send_each_other_ends_after_one_hop() {
    let world = World::new(true);
    let id = world.member(0, "g");
    let (owner, other) = world.owner_and_other("g");
    let names = [0, 1].map(|side| world.sides[side].gateway.services().cluster.process_id().to_owned());
    // The owner loses it to the other, and each remembers the wrong one.
    world.sides[owner].gateway.services().groups.release_all(world.clock.now().mono);
    let visit = Visit { client_host: CLIENT, group: "g".to_owned(), frame: frame_of(3, &heartbeat("g", &id)) };
    let place: Arc<std::sync::Mutex<Option<crate::forward::Answer>>> = Arc::default();
    let kept = place.clone();
    let done = move |answer| *kept.lock().expect("no holder panics") = Some(answer);
    world.sides[other].gateway.services().forwarder.ask(&names[owner], &visit, Box::new(done));
    world.tasks.run();
    let answer = place.lock().expect("no holder panics").take().expect("it is answered").expect("by a frame");
    assert!(!answer.served);
    let (_, response) = frame::read_response::<HeartbeatRequest>(3, answer.frame.slice(4..)).expect("it is whole");
    assert_eq!(response.error_code, ErrorCode::COORDINATOR_NOT_AVAILABLE.code());
}
