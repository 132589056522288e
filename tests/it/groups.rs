//! Consumer groups as their members see them.

use crate::harness::librdkafka::{self, Got, numbered, producer, take, texts};
use crate::harness::member::{COORDINATOR_MOVES, MEMBER_ID_REQUIRED, RawMember};
use crate::harness::{Gateway, Nats, SOON, Version, eventually};
use crate::on_each_server;
use bytes::Bytes;
use kafka_protocol::messages::{
    DescribeGroupsRequest, GroupId, JoinGroupRequest, LeaveGroupRequest, ListGroupsRequest,
};
use kafka_protocol::protocol::StrBytes;
use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::message::Message;
use rdkafka::producer::BaseRecord;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const REBALANCE_IN_PROGRESS: i16 = 27;
const UNKNOWN_MEMBER_ID: i16 = 25;
const FENCED_INSTANCE_ID: i16 = 82;

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

fn member(bootstrap: &str, topic: &str) -> (BaseConsumer<Rebalances>, Rebalances) {
    let rebalances = Rebalances::default();
    let settings = [
        ("group.id", "g"),
        ("auto.offset.reset", "earliest"),
        ("enable.auto.commit", "false"),
        ("session.timeout.ms", "30000"),
        ("heartbeat.interval.ms", "500"),
    ];
    let consumer: BaseConsumer<Rebalances> =
        librdkafka::config(bootstrap, &settings).create_with_context(rebalances.clone()).expect("a consumer");
    consumer.subscribe(&[topic]).expect("a subscription");
    (consumer, rebalances)
}

fn poll_text(consumer: &BaseConsumer<Rebalances>) -> Option<(i32, i64, String)> {
    let message = consumer.poll(Duration::from_millis(50))?.ok()?;
    let text = String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned();
    Some((message.partition(), message.offset(), text))
}

on_each_server! {
    fn members_share_the_partitions_and_each_record_is_seen_by_one(version) {
        let nats = Nats::start(version);
        let gateway = Gateway::start(&nats, &[]);
        gateway.wire().create_topic("t", 6);
        let members = [0; 3].map(|_| member(&gateway.bootstrap(), "t").0);
        eventually("each member has two partitions", SOON, || {
            let counts: Vec<usize> = members
                .iter()
                .map(|member| {
                    let _ = poll_text(member);
                    member.assignment().map_or(0, |list| list.count())
                })
                .collect();
            (counts == [2, 2, 2]).then_some(())
        });
        let producer = producer(&gateway.bootstrap(), &[]);
        for n in 0..600 {
            let (key, value) = (format!("{n}"), format!("{n}"));
            producer.send(BaseRecord::to("t").key(key.as_bytes()).payload(value.as_bytes()));
        }
        producer.finish();
        let mut seen: HashMap<String, usize> = HashMap::new();
        eventually("all are seen", SOON, || {
            for member in &members {
                while let Some((_, _, text)) = poll_text(member) {
                    *seen.entry(text).or_default() += 1;
                }
            }
            (seen.len() == 600).then_some(())
        });
        assert!(seen.values().all(|times| *times == 1), "some were seen twice");
    }

    fn a_restarted_gateway_continues_a_group_without_a_rebalance(version) {
        let nats = Nats::start(version);
        let mut gateway = Gateway::start(&nats, &[]);
        gateway.wire().create_topic("t", 2);
        let (one, rebalances_one) = member(&gateway.bootstrap(), "t");
        let (two, rebalances_two) = member(&gateway.bootstrap(), "t");
        eventually("each member has a partition", SOON, || {
            let counts = [&one, &two].map(|member| {
                let _ = poll_text(member);
                member.assignment().map_or(0, |list| list.count())
            });
            (counts == [1, 1]).then_some(())
        });
        let settled = [rebalances_one.0.load(Ordering::SeqCst), rebalances_two.0.load(Ordering::SeqCst)];
        for round in 0..2_i64 {
            if round == 0 {
                gateway.kill();
            } else {
                gateway.terminate();
            }
            gateway.restart();
            for partition in 0..2 {
                let producer = producer(&gateway.bootstrap(), &[]);
                producer.send_value("t", partition, format!("round {round}").as_bytes());
                producer.finish();
            }
            let mut seen = Vec::new();
            let deadline = Instant::now() + Duration::from_secs(60);
            while seen.len() < 2 && Instant::now() < deadline {
                seen.extend([&one, &two].iter().filter_map(|member| poll_text(member)));
            }
            seen.sort();
            let text = format!("round {round}");
            assert_eq!(seen, [(0, round, text.clone()), (1, round, text)], "both members go on");
            for member in [&one, &two] {
                eventually("the commit is taken", Duration::from_secs(60), || {
                    member.commit_consumer_state(CommitMode::Sync).ok()
                });
            }
        }
        let now = [rebalances_one.0.load(Ordering::SeqCst), rebalances_two.0.load(Ordering::SeqCst)];
        assert_eq!(now, settled, "nobody was rebalanced");
    }
}

/// COORDINATOR_LOAD_IN_PROGRESS: after NOT_COORDINATOR librdkafka may look for the coordinator until its session is over.
#[test]
fn a_commit_for_a_group_whose_owner_is_gone_is_told_to_come_again() {
    let nats = Nats::start(Version::Newest);
    let mut gateway = Gateway::start(&nats, &[]);
    gateway.wire().create_topic("t", 1);
    let member = RawMember::join_alone(&mut gateway.wire(), "g", None, 30_000);
    assert_eq!(member.try_commit(&mut gateway.wire(), 1).ok(), Some(0));
    gateway.kill();
    gateway.restart();
    let mut wire = gateway.wire();
    let mut told = Vec::new();
    eventually("the commit is taken", SOON, || {
        told.extend(member.try_commit(&mut wire, 2).ok());
        (told.last() == Some(&0)).then_some(())
    });
    told.pop();
    assert!(!told.is_empty() && told.iter().all(|code| *code == 14), "{told:?}");
}

#[test]
fn a_member_that_dies_is_replaced_after_its_session_timeout() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    librdkafka::produce(&gateway.bootstrap(), "t", &[], &numbered(5));
    let mut wire = gateway.wire();
    // A member that joins, becomes the leader, and is never heard of again.
    let dead = RawMember::join_alone(&mut wire, "g", None, 6000);
    assert_eq!(dead.generation, 1);
    let consumer = librdkafka::consumer(&gateway.bootstrap(), &[("group.id", "g")]);
    consumer.subscribe(&["t"]).expect("a subscription");
    let got: Vec<Got> = librdkafka::take_within(&consumer, 5, Duration::from_secs(60));
    assert_eq!(texts(&got), numbered(5));
}

#[test]
fn a_member_that_leaves_is_replaced_at_once() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    librdkafka::produce(&gateway.bootstrap(), "t", &[], &numbered(5));
    let first = librdkafka::consumer(&gateway.bootstrap(), &[("group.id", "g"), ("session.timeout.ms", "300000")]);
    first.subscribe(&["t"]).expect("a subscription");
    assert_eq!(take(&first, 5).len(), 5);
    drop(first);
    let started = Instant::now();
    let second = librdkafka::consumer(&gateway.bootstrap(), &[("group.id", "g"), ("session.timeout.ms", "300000")]);
    second.subscribe(&["t"]).expect("a subscription");
    assert_eq!(take(&second, 5).len(), 5);
    assert!(started.elapsed() < Duration::from_secs(30), "it took {:?}", started.elapsed());
}

on_each_server! {
    fn a_member_keeps_its_id_and_generation_over_kill_9_of_the_gateway(version) {
        let nats = Nats::start(version);
        let mut gateway = Gateway::start(&nats, &[]);
        let mut wire = gateway.wire();
        let member = RawMember::join_alone(&mut wire, "g", None, 60_000);
        assert_eq!(member.heartbeat(&mut wire), 0);
        gateway.kill();
        gateway.restart();
        let mut wire = gateway.wire();
        let answer = eventually("the coordinator is back", Duration::from_secs(30), || {
            let error = member.heartbeat(&mut wire);
            (!COORDINATOR_MOVES.contains(&error)).then_some(error)
        });
        assert_eq!(answer, 0, "the member is known and nothing is rebalanced");
        assert_eq!(member.sync(&mut wire, b"ignored"), (0, Bytes::from_static(b"mine")), "its assignment stands");
    }
}

#[test]
fn a_static_member_comes_back_without_a_rebalance() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    let first = RawMember::join_alone(&mut wire, "g", Some("machine-1"), 60_000);
    let mut again = RawMember::new("g", Some("machine-1"), 60_000);
    assert_eq!(again.join(&mut wire).error_code, 0);
    assert_eq!(again.generation, first.generation, "no new generation");
    assert_ne!(again.id, first.id);
    assert_eq!(again.sync(&mut wire, b"").1, Bytes::from_static(b"mine"));
    assert_eq!(first.heartbeat(&mut wire), FENCED_INSTANCE_ID, "the old incarnation is fenced");
    assert_eq!(again.heartbeat(&mut wire), 0);
}

#[test]
fn a_second_member_rebalances_the_group_and_a_leave_again() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let (mut a, mut b) = (gateway.wire(), gateway.wire());
    let mut first = RawMember::join_alone(&mut a, "g", None, 60_000);
    let mut second = RawMember::new("g", None, 60_000);
    assert_eq!(second.join(&mut b).error_code, MEMBER_ID_REQUIRED);
    b.send(7, &second.join_request());
    eventually("the first member is told to rejoin", SOON, || {
        (first.heartbeat(&mut a) == REBALANCE_IN_PROGRESS).then_some(())
    });
    let response = first.join(&mut a);
    assert_eq!((response.error_code, response.generation_id, response.members.len()), (0, 2, 2));
    let (_, response) = b.receive::<JoinGroupRequest>(7);
    assert_eq!((response.error_code, response.generation_id), (0, 2));
    assert_eq!(response.leader, first.id, "the leader stays");
    second.generation = 2;
    assert_eq!(first.sync(&mut a, b"all").0, 0);
    assert_eq!(second.sync(&mut b, b"").0, 0);

    let leave = LeaveGroupRequest::default().with_group_id(first.group.clone()).with_member_id(first.id.clone());
    assert_eq!(a.call(2, &leave).error_code, 0);
    assert_eq!(first.heartbeat(&mut a), UNKNOWN_MEMBER_ID);
    eventually("the other is told", SOON, || (second.heartbeat(&mut b) == REBALANCE_IN_PROGRESS).then_some(()));
}

#[test]
fn groups_are_listed_described_and_keep_their_names_apart() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    let names = ["a.b", "a b", "a*", "\u{fc}", "A", "a"];
    for name in names {
        RawMember::join_alone(&mut wire, name, None, 60_000);
    }
    let mut listed: Vec<String> =
        wire.call(4, &ListGroupsRequest::default()).groups.iter().map(|group| group.group_id.0.to_string()).collect();
    listed.sort_unstable();
    let mut expected = names.map(str::to_owned);
    expected.sort_unstable();
    assert_eq!(listed, expected);
    let groups = names.map(|name| GroupId(StrBytes::from_static_str(name))).into();
    for group in wire.call(5, &DescribeGroupsRequest::default().with_groups(groups)).groups {
        assert_eq!((group.error_code, group.group_state.as_str(), group.members.len()), (0, "Stable", 1));
    }
}
