//! Group and offset requests as clients send them, at every version, over a store in memory.

use super::*;
use crate::clock::ManualClock;
use crate::gateway::{self, Basis};
use crate::group::tests::rig::Queued;
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::create_topics::{CreatableTopic, CreateTopicsRequest};
use crate::protocol::messages::delete_groups::DeleteGroupsRequest;
use crate::protocol::messages::delete_topics::DeleteTopicsRequest;
use crate::protocol::messages::describe_groups::{DescribeGroupsRequest, DescribedGroup};
use crate::protocol::messages::heartbeat::HeartbeatRequest;
use crate::protocol::messages::join_group::{JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse};
use crate::protocol::messages::leave_group::{LeaveGroupRequest, MemberIdentity};
use crate::protocol::messages::list_groups::ListGroupsRequest;
use crate::protocol::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use crate::protocol::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use crate::protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use crate::protocol::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};
use crate::store::memory::{MemoryStore, Outage, PublishFault};
use std::net::Ipv4Addr;
use std::time::Duration;

const BIG_OFFSET: i64 = 8_872_783_363_889_192_000;

/// A client's request, its length prefix left out.
pub(super) fn frame_of<R: Request>(version: i16, request: &R) -> Bytes {
    let header =
        RequestHeader { api_key: 0, api_version: version, correlation_id: 77, client_id: Some("c".to_owned()) };
    Bytes::from(frame::request(&header, request)).slice(4..)
}

/// The answer to such a request, if it is there by now.
#[track_caller]
pub(super) fn answer_of<R: Request>(now: Now, version: i16, outcome: &mut Outcome) -> Option<R::Response> {
    if let Outcome::Park(parked) = outcome {
        *outcome = parked.poll(now)?;
    }
    let Outcome::Reply(frame) = outcome else { panic!("neither silent nor closed") };
    let answer = Bytes::from(frame.clone()).slice(4..);
    let (correlation_id, response) = frame::read_response::<R>(version, answer).expect("a client can read it");
    assert_eq!(correlation_id, 77);
    Some(response)
}

struct Rig {
    gateway: Arc<Gateway>,
    store: Arc<MemoryStore>,
    clock: Arc<ManualClock>,
    tasks: Arc<Queued>,
}

impl Rig {
    /// A gateway with the topics a and b, three partitions each.
    fn new() -> Rig {
        let rig = Rig::over(Arc::new(MemoryStore::new()));
        let topic = |name: &str| CreatableTopic {
            name: name.to_owned(),
            num_partitions: 3,
            replication_factor: 1,
            ..Default::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic("a"), topic("b")], ..Default::default() };
        assert!(rig.ask(7, &request).topics.iter().all(|made| made.error_code == 0));
        rig
    }

    fn over(store: Arc<MemoryStore>) -> Rig {
        let (clock, tasks) = (Arc::new(ManualClock::new()), Arc::new(Queued::default()));
        let gateway = gateway::build(Basis {
            config: Arc::new(Config::default()),
            store: store.clone(),
            direct: store.clone(),
            wakeups: Arc::new(Wakeups::new()),
            tasks: tasks.clone(),
            clock: clock.clone(),
            metrics: Default::default(),
            logger: Logger::root(slog::Discard, slog::o!()),
        });
        gateway.services().cluster.lease().round();
        tasks.run();
        Rig { gateway, store, clock, tasks }
    }

    fn send<R: Request>(&self, version: i16, request: &R) -> Outcome {
        let outcome = self.gateway.dispatch(frame_of(version, request), IpAddr::V4(Ipv4Addr::LOCALHOST));
        self.tasks.run();
        outcome
    }

    #[track_caller]
    fn read<R: Request>(&self, version: i16, outcome: &mut Outcome) -> Option<R::Response> {
        answer_of::<R>(self.clock.now(), version, outcome)
    }

    #[track_caller]
    fn ask<R: Request>(&self, version: i16, request: &R) -> R::Response {
        self.read::<R>(version, &mut self.send(version, request)).expect("it is answered")
    }

    /// Lets time pass, and renews the lease as a thread of its own does otherwise.
    fn sleep(&self, length: Duration) {
        let mut left = length;
        while !left.is_zero() {
            let step = left.min(Duration::from_secs(1));
            self.tasks.sleep(&self.clock, step);
            self.gateway.services().cluster.lease().round();
            left -= step;
        }
    }

    /// Joins as a new member and waits for the generation.
    #[track_caller]
    fn join(&self, version: i16, group: &str) -> JoinGroupResponse {
        let mut request = join_request(group, "");
        if version >= 4 {
            let told = self.ask(version, &request);
            assert_eq!(told.error_code, ErrorCode::MEMBER_ID_REQUIRED.code());
            assert!(told.member_id.starts_with("c-"), "{}", told.member_id);
            request.member_id = told.member_id;
        }
        let mut outcome = self.send(version, &request);
        assert!(self.read::<JoinGroupRequest>(version, &mut outcome).is_none(), "it waits for others");
        self.sleep(Duration::from_secs(3));
        self.read::<JoinGroupRequest>(version, &mut outcome).expect("it is answered")
    }

    fn commit(&self, version: i16, group: &str, topics: &[(&str, &[(i32, i64)])]) -> Vec<(String, Vec<(i32, i16)>)> {
        let request = commit_request(group, topics);
        let row = |topic: crate::protocol::messages::offset_commit::OffsetCommitResponseTopic| {
            (topic.name, topic.partitions.into_iter().map(|p| (p.partition_index, p.error_code)).collect())
        };
        self.ask(version, &request).topics.into_iter().map(row).collect()
    }

    /// Topics with partition, offset and error, and the error of the group.
    fn fetch(&self, version: i16, group: &str, asked: Option<&[(&str, &[i32])]>) -> (Fetched, i16) {
        if version >= 8 {
            let topic = |(name, indexes): &(&str, &[i32])| OffsetFetchRequestTopics {
                name: (*name).to_owned(),
                partition_indexes: indexes.to_vec(),
            };
            let topics = asked.map(|asked| asked.iter().map(topic).collect());
            let one = OffsetFetchRequestGroup { group_id: group.to_owned(), topics, ..Default::default() };
            let mut response = self.ask(version, &OffsetFetchRequest { groups: vec![one], ..Default::default() });
            let group = response.groups.remove(0);
            let topics = group.topics.into_iter().map(|topic| {
                let rows = topic.partitions.into_iter();
                (topic.name, rows.map(|p| (p.partition_index, p.committed_offset, p.error_code)).collect())
            });
            return (topics.collect(), group.error_code);
        }
        let topic = |(name, indexes): &(&str, &[i32])| OffsetFetchRequestTopic {
            name: (*name).to_owned(),
            partition_indexes: indexes.to_vec(),
        };
        let topics = asked.map(|asked| asked.iter().map(topic).collect());
        let request = OffsetFetchRequest { group_id: group.to_owned(), topics, ..Default::default() };
        let response = self.ask(version, &request);
        let topics = response.topics.into_iter().map(|topic| {
            let rows = topic.partitions.into_iter();
            (topic.name, rows.map(|p| (p.partition_index, p.committed_offset, p.error_code)).collect())
        });
        (topics.collect(), response.error_code)
    }

    fn describe(&self, version: i16, group: &str) -> DescribedGroup {
        let request =
            DescribeGroupsRequest { groups: vec![group.to_owned()], include_authorized_operations: version >= 3 };
        self.ask(version, &request).groups.remove(0)
    }

    fn list(&self, version: i16, states: &[&str], types: &[&str]) -> Vec<String> {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        let request = ListGroupsRequest { states_filter: texts(states), types_filter: texts(types) };
        self.ask(version, &request).groups.into_iter().map(|group| group.group_id).collect()
    }

    fn delete(&self, version: i16, groups: &[&str]) -> Vec<i16> {
        let groups_names = groups.iter().map(|group| (*group).to_owned()).collect();
        let results = self.ask(version, &DeleteGroupsRequest { groups_names }).results;
        results.into_iter().map(|result| result.error_code).collect()
    }
}

type Fetched = Vec<(String, Vec<(i32, i64, i16)>)>;

fn join_request(group: &str, member_id: &str) -> JoinGroupRequest {
    let metadata = Bytes::from_static(b"\0\x01\0\0\0\x01\0\x01a\xff\xff\xff\xff");
    JoinGroupRequest {
        group_id: group.to_owned(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 60_000,
        member_id: member_id.to_owned(),
        protocol_type: "consumer".to_owned(),
        protocols: vec![JoinGroupRequestProtocol { name: "range".to_owned(), metadata }],
        ..Default::default()
    }
}

fn commit_request(group: &str, topics: &[(&str, &[(i32, i64)])]) -> OffsetCommitRequest {
    let partition = |(index, offset): &(i32, i64)| OffsetCommitRequestPartition {
        partition_index: *index,
        committed_offset: *offset,
        committed_metadata: Some("m".to_owned()),
        ..Default::default()
    };
    let topic = |(name, offsets): &(&str, &[(i32, i64)])| OffsetCommitRequestTopic {
        name: (*name).to_owned(),
        partitions: offsets.iter().map(partition).collect(),
    };
    OffsetCommitRequest { group_id: group.to_owned(), topics: topics.iter().map(topic).collect(), ..Default::default() }
}

fn row<T: Clone>(topic: &str, rows: &[T]) -> (String, Vec<T>) {
    (topic.to_owned(), rows.to_vec())
}

#[test]
fn a_member_lives_its_life_at_every_version() {
    for version in 0..=9 {
        let rig = Rig::new();
        let joined = rig.join(version, "g");
        assert_eq!((joined.error_code, joined.generation_id), (0, 1), "version {version}");
        assert_eq!((joined.leader.as_str(), joined.members.len()), (joined.member_id.as_str(), 1));
        assert_eq!(joined.protocol_name.as_deref(), Some("range"));
        let id = joined.member_id;
        let member_id = || id.clone();

        let assignments = vec![SyncGroupRequestAssignment { member_id: member_id(), assignment: "p".into() }];
        let sync = SyncGroupRequest {
            group_id: "g".to_owned(),
            generation_id: 1,
            member_id: member_id(),
            protocol_type: (version >= 5).then(|| "consumer".to_owned()),
            protocol_name: (version >= 5).then(|| "range".to_owned()),
            assignments,
            ..Default::default()
        };
        let synced = rig.ask(version.min(5), &sync);
        assert_eq!((synced.error_code, &synced.assignment[..]), (0, &b"p"[..]));

        let beat = HeartbeatRequest {
            group_id: "g".to_owned(),
            generation_id: 1,
            member_id: member_id(),
            ..Default::default()
        };
        assert_eq!(rig.ask(version.min(4), &beat).error_code, 0);
        let stale = HeartbeatRequest { generation_id: 0, ..beat };
        assert_eq!(rig.ask(version.min(4), &stale).error_code, ErrorCode::ILLEGAL_GENERATION.code());

        let described = rig.describe(version.min(6), "g");
        assert_eq!((described.error_code, described.group_state.as_str()), (0, "Stable"));
        assert_eq!((described.protocol_type.as_str(), described.protocol_data.as_str()), ("consumer", "range"));
        let member = &described.members[0];
        assert_eq!((member.client_id.as_str(), member.client_host.as_str()), ("c", "/127.0.0.1"));
        assert_eq!((&member.member_assignment[..], member.member_metadata.len()), (&b"p"[..], 13));

        let mut commit = commit_request("g", &[("a", &[(0, 7)])]);
        commit.member_id = member_id();
        commit.generation_id_or_member_epoch = 1;
        assert_eq!(rig.ask(version.clamp(2, 9), &commit).topics[0].partitions[0].error_code, 0);
        commit.generation_id_or_member_epoch = 2;
        let refused = rig.ask(version.clamp(2, 9), &commit).topics[0].partitions[0].error_code;
        assert_eq!(refused, ErrorCode::ILLEGAL_GENERATION.code());
        assert_eq!(rig.delete(version.min(2), &["g"]), [ErrorCode::NON_EMPTY_GROUP.code()]);

        let member = MemberIdentity { member_id: member_id(), ..Default::default() };
        let leave = LeaveGroupRequest {
            group_id: "g".to_owned(),
            member_id: if version < 3 { member_id() } else { String::new() },
            members: if version < 3 { Vec::new() } else { vec![member] },
        };
        let left = rig.ask(version.min(5), &leave);
        assert_eq!((left.error_code, left.members.len()), (0, usize::from(version >= 3)));
        let again = rig.ask(version.min(5), &leave);
        let code = if version < 3 { again.error_code } else { again.members[0].error_code };
        assert_eq!(code, ErrorCode::UNKNOWN_MEMBER_ID.code());
        assert_eq!(rig.fetch(version.clamp(1, 9), "g", Some(&[("a", &[0])])), (vec![row("a", &[(0, 7, 0)])], 0));
        assert_eq!(rig.describe(version.min(6), "g").group_state, "Empty");
        assert_eq!(rig.delete(version.min(2), &["g", "x", "g"]), [0, ErrorCode::GROUP_ID_NOT_FOUND.code()]);
    }
}

#[test]
fn refused_joins_have_the_fields_that_clients_expect() {
    let rig = Rig::new();
    for version in 0..=9 {
        let request = JoinGroupRequest { session_timeout_ms: -5, ..join_request("g", "me") };
        let refused = rig.ask(version, &request);
        assert_eq!((refused.error_code, refused.generation_id), (ErrorCode::INVALID_SESSION_TIMEOUT.code(), -1));
        assert_eq!(refused.member_id, "me");
        assert_eq!(refused.protocol_name.as_deref(), if version >= 7 { None } else { Some("") });
        let refused = rig.ask(version, &join_request("", ""));
        assert_eq!(refused.error_code, ErrorCode::INVALID_GROUP_ID.code());
        let refused = rig.ask(version, &JoinGroupRequest { protocols: Vec::new(), ..join_request("g", "") });
        assert_eq!(refused.error_code, ErrorCode::INCONSISTENT_GROUP_PROTOCOL.code());
    }
    let nameless = SyncGroupRequest { group_id: "g".to_owned(), ..Default::default() };
    assert_eq!(rig.ask(5, &nameless).error_code, ErrorCode::INCONSISTENT_GROUP_PROTOCOL.code());
    assert_eq!(rig.ask(4, &nameless).error_code, ErrorCode::UNKNOWN_MEMBER_ID.code());
}

#[test]
fn a_join_that_waits_too_long_is_told_to_look_for_its_coordinator() {
    let rig = Rig::new();
    let first = rig.join(3, "g");
    let request = JoinGroupRequest { rebalance_timeout_ms: 1_000, ..join_request("g", "") };
    let mut outcome = rig.send(3, &request);
    let Outcome::Park(parked) = &outcome else { panic!("it waits") };
    // The first member's rebalance timeout is what it waits for, not its own.
    assert!(parked.deadline() > rig.clock.now().mono + Duration::from_secs(60));
    rig.clock.advance(parked.deadline() - rig.clock.now().mono);
    let told = rig.read::<JoinGroupRequest>(3, &mut outcome).expect("it must answer");
    assert_eq!(told.error_code, ErrorCode::NOT_COORDINATOR.code());
    assert_ne!(first.member_id, told.member_id);
}

#[test]
fn a_client_that_is_gone_is_taken_out_of_the_join() {
    let rig = Rig::new();
    let Outcome::Park(mut gone) = rig.send(3, &join_request("g", "")) else { panic!("it waits") };
    gone.abandon();
    let mut outcome = rig.send(3, &join_request("g", ""));
    rig.sleep(Duration::from_secs(6));
    let joined = rig.read::<JoinGroupRequest>(3, &mut outcome).expect("it is answered");
    assert_eq!(joined.members.len(), 1);
}

#[test]
fn b110_commits_are_answered_row_by_row_in_the_order_of_the_request() {
    let rig = Rig::new();
    for version in 2..=9 {
        let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code();
        let group = format!("g{version}");
        let asked: &[(&str, &[(i32, i64)])] =
            &[("b", &[(2, 5), (9, 1), (0, BIG_OFFSET)]), ("nowhere", &[(0, 1)]), ("a", &[(1, 0), (0, -2)])];
        let answered = rig.commit(version, &group, asked);
        let expected =
            [row("b", &[(2, 0), (9, unknown), (0, 0)]), row("nowhere", &[(0, unknown)]), row("a", &[(1, 0), (0, 0)])];
        assert_eq!(answered, expected, "version {version}");
        let fetched = rig.fetch(version, &group, Some(&[("b", &[2, 0, 1]), ("nowhere", &[3]), ("a", &[1, 0])]));
        let expected = vec![
            row("b", &[(2, 5, 0), (0, BIG_OFFSET, 0), (1, -1, 0)]),
            row("nowhere", &[(3, -1, 0)]),
            // Kafka keeps what a client commits, also kafkajs's -2.
            row("a", &[(1, 0, 0), (0, -2, 0)]),
        ];
        assert_eq!(fetched, (expected, 0), "version {version}");
    }
}

#[test]
fn metadata_and_leader_epochs_are_kept_and_long_metadata_is_refused() {
    let rig = Rig::new();
    let mut request = commit_request("g", &[("a", &[(0, 1), (1, 1)])]);
    request.topics[0].partitions[0].committed_metadata = Some("ü".repeat(4_096));
    request.topics[0].partitions[0].committed_leader_epoch = 7;
    request.topics[0].partitions[1].committed_metadata = Some("m".repeat(4_097));
    let codes: Vec<i16> = rig.ask(9, &request).topics[0].partitions.iter().map(|p| p.error_code).collect();
    assert_eq!(codes, [0, ErrorCode::OFFSET_METADATA_TOO_LARGE.code()]);
    let one = OffsetFetchRequestGroup { group_id: "g".to_owned(), topics: None, ..Default::default() };
    let fetched = rig.ask(9, &OffsetFetchRequest { groups: vec![one], ..Default::default() });
    let kept = &fetched.groups[0].topics[0].partitions[0];
    assert_eq!((kept.committed_leader_epoch, kept.metadata.as_deref()), (7, Some("ü".repeat(4_096).as_str())));
    // Null metadata is stored as empty.
    request.topics[0].partitions.truncate(1);
    request.topics[0].partitions[0].committed_metadata = None;
    assert_eq!(rig.ask(9, &request).topics[0].partitions[0].error_code, 0);
}

#[test]
fn b108_b109_all_or_none_of_a_groups_commits() {
    let rig = Rig::new();
    rig.commit(9, "g", &[("b", &[(1, 4)]), ("a", &[(2, 3), (0, 2)])]);
    let all = vec![row("a", &[(0, 2, 0), (2, 3, 0)]), row("b", &[(1, 4, 0)])];
    for version in 2..=9 {
        assert_eq!(rig.fetch(version, "g", None), (all.clone(), 0), "version {version}");
        assert_eq!(rig.fetch(version, "g", Some(&[])), (Vec::new(), 0));
        assert_eq!(rig.fetch(version, "unknown", None), (Vec::new(), 0));
    }
    let nothing = vec![row("a", &[(0, -1, 0), (1, -1, 0), (7, -1, 0)])];
    for version in 1..=9 {
        assert_eq!(rig.fetch(version, "unknown", Some(&[("a", &[0, 1, 7])])), (nothing.clone(), 0));
    }
}

#[test]
fn b112_an_unreadable_store_is_an_error_and_never_minus_one() {
    let rig = Rig::new();
    rig.commit(9, "g", &[("a", &[(0, 2)])]);
    let after = Rig::over(rig.store.clone());
    for outage in [Outage::NoAnswer, Outage::Unavailable] {
        after.store.set_outage(Some(outage));
        for version in 1..=9 {
            let (topics, group) = after.fetch(version, "g", Some(&[("a", &[0, 1])]));
            let code = ErrorCode::COORDINATOR_LOAD_IN_PROGRESS.code();
            assert_eq!(topics, [row("a", &[(0, -1, code), (1, -1, code)])], "version {version}");
            assert_eq!(group, if version >= 2 { code } else { 0 });
        }
        let committed = after.commit(9, "g", &[("a", &[(0, 3)])]);
        assert_eq!(committed, [row("a", &[(0, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS.code())])]);
        after.store.set_outage(None);
    }
    assert_eq!(after.fetch(9, "g", Some(&[("a", &[0])])), (vec![row("a", &[(0, 2, 0)])], 0));
}

#[test]
fn a_topic_whose_server_is_away_holds_up_nobody_who_did_not_ask_for_it() {
    let rig = Rig::new();
    rig.commit(9, "g", &[("a", &[(0, 7)]), ("b", &[(0, 8)])]);
    rig.store.set_silent("kafka-b-0", true);
    let fresh = Rig::over(rig.store);
    assert_eq!(fresh.fetch(9, "g", Some(&[("a", &[0])])), (vec![row("a", &[(0, 7, 0)])], 0));
    assert_eq!(fresh.fetch(9, "g", None), (Vec::new(), ErrorCode::COORDINATOR_LOAD_IN_PROGRESS.code()));
}

#[test]
fn a_damaged_commit_is_an_error_on_its_row() {
    let rig = Rig::new();
    rig.commit(9, "g", &[("a", &[(0, 2)])]);
    rig.store.publish_foreign("$KV.kafka-consumer-offsets.g.a.1", "rubbish").expect("stored");
    let after = Rig::over(rig.store.clone());
    let rows = [(0, 2, 0), (1, -1, ErrorCode::UNKNOWN_SERVER_ERROR.code())];
    assert_eq!(after.fetch(9, "g", Some(&[("a", &[0, 1])])), (vec![row("a", &rows)], 0));
}

#[test]
fn b114_each_of_many_groups_has_its_row() {
    let rig = Rig::new();
    rig.commit(9, "g1", &[("a", &[(0, 1)])]);
    rig.commit(9, "g2", &[("a", &[(0, 2)])]);
    let group = |name: &str| OffsetFetchRequestGroup {
        group_id: name.to_owned(),
        topics: Some(vec![OffsetFetchRequestTopics { name: "a".to_owned(), partition_indexes: vec![0] }]),
        ..Default::default()
    };
    let groups = vec![group("g2"), group("unknown"), group("g1")];
    let answered = rig.ask(8, &OffsetFetchRequest { groups, ..Default::default() });
    let rows = answered.groups.iter().map(|g| (g.group_id.as_str(), g.topics[0].partitions[0].committed_offset));
    assert_eq!(rows.collect::<Vec<_>>(), [("g2", 2), ("unknown", -1), ("g1", 1)]);
}

#[test]
fn b026_commits_for_a_deleted_topic_do_not_count_for_its_successor() {
    let rig = Rig::new();
    rig.commit(9, "g", &[("a", &[(0, 7)])]);
    rig.store.publish_foreign("$KV.kafka-consumer-offsets.old.b.0", "42").expect("stored");
    let names = DeleteTopicsRequest { topic_names: vec!["a".to_owned()], timeout_ms: 1_000, ..Default::default() };
    assert_eq!(rig.ask(5, &names).responses[0].error_code, 0);
    assert_eq!(rig.fetch(9, "g", None), (Vec::new(), 0));
    let topic = CreatableTopic { name: "a".to_owned(), num_partitions: 1, replication_factor: 1, ..Default::default() };
    rig.ask(7, &CreateTopicsRequest { topics: vec![topic], ..Default::default() });
    assert_eq!(rig.fetch(9, "g", Some(&[("a", &[0])])), (vec![row("a", &[(0, -1, 0)])], 0));
    rig.commit(9, "g", &[("a", &[(0, 1)])]);
    assert_eq!(rig.fetch(9, "g", None), (vec![row("a", &[(0, 1, 0)])], 0));
    // What an older gateway wrote names no topic id.
    assert_eq!(rig.fetch(9, "old", None), (vec![row("b", &[(0, 42, 0)])], 0));
}

#[test]
fn commits_outlive_a_clusters_leader_that_does_not_know_their_topic_yet_and_the_loss_of_one_stream() {
    for (clustered, lost, away) in [(true, "kafka.a.*", 10), (false, "kafka.a.2", 100), (true, "kafka.a.2", 100)] {
        let rig = Rig::new();
        rig.store.set_clustered(clustered);
        rig.commit(2, "g", &[("a", &[(0, 7)])]);
        let deadline = rig.clock.now().mono + Duration::from_secs(5);
        let streams = rig.store.stream_list(lost, deadline).expect("the memory answers").streams;
        streams.iter().for_each(|stream| rig.store.stream_delete(&stream.name, deadline).expect("it is there"));
        rig.sleep(Duration::from_secs(away));
        streams.iter().for_each(|stream| drop(rig.store.stream_create(&stream.config, deadline).expect("there again")));
        rig.sleep(Duration::from_secs(60));
        assert_eq!(rig.fetch(5, "g", Some(&[("a", &[0])])), (vec![row("a", &[(0, 7, 0)])], 0), "{lost}");
    }
}

#[test]
fn who_may_commit_without_being_a_member() {
    let rig = Rig::new();
    let code = |version: i16, generation: i32, member_id: &str| {
        let mut request = commit_request("g", &[("a", &[(0, 1)])]);
        request.generation_id_or_member_epoch = generation;
        request.member_id = member_id.to_owned();
        rig.ask(version, &request).topics[0].partitions[0].error_code
    };
    assert_eq!(code(8, 3, "x"), ErrorCode::ILLEGAL_GENERATION.code());
    assert_eq!(code(9, 3, "x"), ErrorCode::GROUP_ID_NOT_FOUND.code());
    assert_eq!(code(9, -1, ""), 0);
    assert_eq!(code(9, 3, "x"), ErrorCode::UNKNOWN_MEMBER_ID.code());
    rig.join(5, "g");
    assert_eq!(code(9, -1, ""), ErrorCode::UNKNOWN_MEMBER_ID.code());
}

#[test]
fn commits_with_a_retention_time_expire_by_it() {
    let rig = Rig::new();
    let mut request = commit_request("g", &[("a", &[(0, 1)])]);
    request.retention_time_ms = 5_000;
    assert_eq!(rig.ask(4, &request).topics[0].partitions[0].error_code, 0);
    rig.commit(5, "g", &[("a", &[(1, 1)])]);
    rig.sleep(Duration::from_secs(6));
    for _ in 0..10 {
        rig.gateway.services.groups.sweep();
    }
    assert_eq!(rig.fetch(9, "g", None), (vec![row("a", &[(1, 1, 0)])], 0));
}

#[test]
fn b115_groups_that_are_not_there() {
    let rig = Rig::new();
    for version in 0..=6 {
        let row = rig.describe(version, "nobody");
        let expected = if version >= 6 { ErrorCode::GROUP_ID_NOT_FOUND.code() } else { 0 };
        assert_eq!((row.group_state.as_str(), row.error_code), ("Dead", expected));
        assert_eq!(row.error_message.as_deref(), (version >= 6).then_some("Group nobody not found."));
        let operations = if (3..6).contains(&version) { authorized::GROUP_OPERATIONS } else { i32::MIN };
        assert_eq!(row.authorized_operations, operations);
    }
}

#[test]
fn b116_groups_are_listed_by_state_and_type() {
    let rig = Rig::new();
    rig.join(5, "full");
    rig.commit(9, "simple", &[("a", &[(0, 1)])]);
    for version in 0..=5 {
        assert_eq!(rig.list(version, &[], &[]), ["full", "simple"], "version {version}");
    }
    assert_eq!(rig.list(4, &["Empty"], &[]), ["simple"]);
    assert_eq!(rig.list(4, &[" completingrebalance", "Dead"], &[]), ["full"]);
    assert_eq!(rig.list(5, &["nonsense"], &[]), [""; 0]);
    assert_eq!(rig.list(5, &[], &["Classic"]), ["full", "simple"]);
    assert_eq!(rig.list(5, &[], &["consumer"]), [""; 0]);
}

#[test]
fn a_commit_that_is_acknowledged_after_its_deletion_is_deleted() {
    let rig = Rig::new();
    rig.commit(2, "g", &[("a", &[(0, 1)])]);
    rig.store.fail_next("$KV.kafka-consumer-offsets.>", PublishFault::Delayed);
    let mut commit = rig.send(2, &commit_request("g", &[("a", &[(0, 7)])]));
    let partitions = vec![OffsetDeleteRequestPartition { partition_index: 0 }];
    let topics = vec![OffsetDeleteRequestTopic { name: "a".to_owned(), partitions }];
    let deleted = rig.ask(0, &OffsetDeleteRequest { group_id: "g".to_owned(), topics });
    assert_eq!(deleted.topics[0].partitions[0].error_code, 0);
    rig.store.release_acks();
    rig.tasks.run();
    assert!(rig.read::<OffsetCommitRequest>(2, &mut commit).is_some());
    let next_owner = Rig::over(rig.store.clone());
    for rig in [rig, next_owner] {
        assert_eq!(rig.fetch(5, "g", Some(&[("a", &[0])])), (vec![row("a", &[(0, -1, 0)])], 0));
    }
}

#[test]
fn groups_are_listed_by_a_few_questions_however_many_there_are() {
    let rig = Rig::new();
    let groups: Vec<String> = (0..50).map(|n| format!("g{n}")).collect();
    for group in &groups {
        rig.commit(2, group, &[("a", &[(0, 7)])]);
    }
    let fresh = Rig::over(rig.store.clone());
    let before = rig.store.counts().reads();
    assert_eq!(fresh.list(4, &[], &[]).len(), 50);
    let asked = rig.store.counts().reads() - before;
    assert!(asked < 20, "{asked} questions");
}

#[test]
fn commits_are_deleted_unless_a_consumer_subscribes() {
    let rig = Rig::new();
    rig.commit(9, "g", &[("a", &[(0, 1), (1, 2)]), ("b", &[(0, 3)])]);
    let joined = rig.join(5, "g");
    let delete = || {
        let partition = |partition_index| OffsetDeleteRequestPartition { partition_index };
        let topic = |name: &str, indexes: &[i32]| OffsetDeleteRequestTopic {
            name: name.to_owned(),
            partitions: indexes.iter().copied().map(partition).collect(),
        };
        let topics = vec![topic("b", &[0, 8]), topic("a", &[1]), topic("nowhere", &[0])];
        let answer = rig.ask(0, &OffsetDeleteRequest { group_id: "g".to_owned(), topics });
        let codes = answer.topics.iter().map(|t| t.partitions.iter().map(|p| p.error_code).collect());
        (answer.error_code, codes.collect::<Vec<Vec<i16>>>())
    };
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code();
    let subscribed = ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC.code();
    assert_eq!(delete(), (0, vec![vec![0, unknown], vec![subscribed], vec![unknown]]));
    assert_eq!(rig.fetch(9, "g", None), (vec![row("a", &[(0, 1, 0), (1, 2, 0)])], 0));
    let member = MemberIdentity { member_id: joined.member_id, ..Default::default() };
    rig.ask(4, &LeaveGroupRequest { group_id: "g".to_owned(), members: vec![member], ..Default::default() });
    assert_eq!(delete(), (0, vec![vec![0, unknown], vec![0], vec![unknown]]));
    assert_eq!(rig.fetch(9, "g", None), (vec![row("a", &[(0, 1, 0)])], 0));
    let nobody = OffsetDeleteRequest { group_id: "nobody".to_owned(), topics: Vec::new() };
    assert_eq!(rig.ask(0, &nobody).error_code, ErrorCode::GROUP_ID_NOT_FOUND.code());
}
