//! A group's member that speaks the protocol by hand, and what is asked about groups.

use super::{SOON, Wire, eventually};
use bytes::Bytes;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    FindCoordinatorRequest, GroupId, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, OffsetCommitRequest,
    OffsetFetchRequest, SyncGroupRequest,
};
use kafka_protocol::protocol::StrBytes;
use std::io;

/// COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, and a store that is not there yet.
pub const COORDINATOR_MOVES: &[i16] = &[14, 15, 16];
pub const MEMBER_ID_REQUIRED: i16 = 79;

/// The port of the gateway that a group's coordinator is said to be at.
#[track_caller]
pub fn coordinator(wire: &mut Wire, group: &str) -> u16 {
    let request = FindCoordinatorRequest::default().with_key(StrBytes::from_string(group.to_owned()));
    eventually("a coordinator is named", SOON, || {
        let answer = wire.call(2, &request);
        (answer.error_code == 0).then(|| u16::try_from(answer.port).expect("a port"))
    })
}

/// What a group has committed for partition 0 of topic t; -1 for nothing.
#[track_caller]
pub fn committed(wire: &mut Wire, group: &str) -> i64 {
    let request = OffsetFetchRequest::default().with_group_id(GroupId(StrBytes::from_string(group.to_owned())));
    eventually("the commits are read", SOON, || {
        let answer = wire.call(5, &request.clone().with_topics(None));
        let row = answer.topics.first().and_then(|topic| topic.partitions.first());
        (answer.error_code == 0).then(|| row.map_or(-1, |row| row.committed_offset))
    })
}

/// A member that speaks the group protocol by hand.
pub struct RawMember {
    pub group: GroupId,
    pub id: StrBytes,
    pub instance: Option<StrBytes>,
    pub generation: i32,
    pub session_timeout_ms: i32,
}

impl RawMember {
    pub fn new(group: &str, instance: Option<&str>, session_timeout_ms: i32) -> RawMember {
        RawMember {
            group: GroupId(StrBytes::from_string(group.to_owned())),
            id: StrBytes::default(),
            instance: instance.map(|name| StrBytes::from_string(name.to_owned())),
            generation: -1,
            session_timeout_ms,
        }
    }

    pub fn join_request(&self) -> JoinGroupRequest {
        let protocol = JoinGroupRequestProtocol::default()
            .with_name(StrBytes::from_static_str("range"))
            .with_metadata(Bytes::from_static(b"\0\x01\0\0\0\x01\0\x01t\0\0\0\0"));
        JoinGroupRequest::default()
            .with_group_id(self.group.clone())
            .with_session_timeout_ms(self.session_timeout_ms)
            .with_rebalance_timeout_ms(self.session_timeout_ms)
            .with_member_id(self.id.clone())
            .with_group_instance_id(self.instance.clone())
            .with_protocol_type(StrBytes::from_static_str("consumer"))
            .with_protocols(vec![protocol])
    }

    /// Joins once; takes over the member id where the gateway gave one.
    #[track_caller]
    pub fn join(&mut self, wire: &mut Wire) -> JoinGroupResponse {
        let response = eventually("the coordinator answers", SOON, || {
            let response = wire.call(7, &self.join_request());
            (!COORDINATOR_MOVES.contains(&response.error_code)).then_some(response)
        });
        if [0, MEMBER_ID_REQUIRED].contains(&response.error_code) {
            self.id = response.member_id.clone();
            self.generation = response.generation_id;
        }
        response
    }

    /// Joins as the only member and assigns itself something.
    #[track_caller]
    pub fn join_alone(wire: &mut Wire, group: &str, instance: Option<&str>, session_timeout_ms: i32) -> RawMember {
        let mut member = RawMember::new(group, instance, session_timeout_ms);
        let mut response = member.join(wire);
        if instance.is_none() {
            assert_eq!(response.error_code, MEMBER_ID_REQUIRED, "a new dynamic member is first told its id (KIP-394)");
            response = member.join(wire);
        }
        assert_eq!(response.error_code, 0);
        assert_eq!(response.leader, member.id);
        assert_eq!(member.sync(wire, b"mine"), (0, Bytes::from_static(b"mine")));
        member
    }

    #[track_caller]
    pub fn sync(&self, wire: &mut Wire, assignment: &'static [u8]) -> (i16, Bytes) {
        let response = wire.call(4, &self.sync_request(&[(&self.id, assignment)]));
        (response.error_code, response.assignment)
    }

    /// As a leader sends it, with the members' assignments.
    pub fn sync_request(&self, assignments: &[(&StrBytes, &[u8])]) -> SyncGroupRequest {
        let assignment = |(id, bytes): &(&StrBytes, &[u8])| {
            SyncGroupRequestAssignment::default()
                .with_member_id((*id).clone())
                .with_assignment(Bytes::copy_from_slice(bytes))
        };
        SyncGroupRequest::default()
            .with_group_id(self.group.clone())
            .with_generation_id(self.generation)
            .with_member_id(self.id.clone())
            .with_group_instance_id(self.instance.clone())
            .with_assignments(assignments.iter().map(assignment).collect())
    }

    #[track_caller]
    pub fn heartbeat(&self, wire: &mut Wire) -> i16 {
        self.try_heartbeat(wire).expect("the gateway answers")
    }

    pub fn try_heartbeat(&self, wire: &mut Wire) -> io::Result<i16> {
        let request = HeartbeatRequest::default()
            .with_group_id(self.group.clone())
            .with_generation_id(self.generation)
            .with_member_id(self.id.clone())
            .with_group_instance_id(self.instance.clone());
        Ok(wire.try_call(3, &request)?.error_code)
    }

    /// Commits an offset for partition 0 of topic t.
    pub fn try_commit(&self, wire: &mut Wire, offset: i64) -> io::Result<i16> {
        let partition = OffsetCommitRequestPartition::default().with_partition_index(0).with_committed_offset(offset);
        let topic = OffsetCommitRequestTopic::default()
            .with_name(super::wire::topic_name("t"))
            .with_partitions(vec![partition]);
        let request = OffsetCommitRequest::default()
            .with_group_id(self.group.clone())
            .with_generation_id_or_member_epoch(self.generation)
            .with_member_id(self.id.clone())
            .with_topics(vec![topic]);
        Ok(wire.try_call(7, &request)?.topics[0].partitions[0].error_code)
    }
}
