//! JoinGroup: a member enters the rebalance of its group.
//!
//! 1 adds the rebalance timeout (KIP-62), from 4 a new member is told its id first (KIP-394), 5 has static members
//! (KIP-345), 6 is flexible, 7 answers with the protocol type (KIP-559), 8 gives a reason (KIP-800), 9 lets the leader
//! skip the assignment (KIP-814).

use crate::wire::wire;
use bytes::Bytes;

wire! {
    pub struct JoinGroupRequest {
        group_id: String => 0..;
        session_timeout_ms: i32 => 0..;
        rebalance_timeout_ms: i32 = -1 => 1..;
        member_id: String => 0..;
        group_instance_id: Option<String> => 5..;
        protocol_type: String => 0..;
        protocols: Vec<JoinGroupRequestProtocol> => 0..;
        reason: Option<String> => 8..;
    }

    pub struct JoinGroupRequestProtocol {
        name: String => 0..;
        metadata: Bytes => 0..;
    }
}

wire! {
    pub struct JoinGroupResponse {
        throttle_time_ms: i32 => 2..;
        error_code: i16 => 0..;
        generation_id: i32 = -1 => 0..;
        protocol_type: Option<String> => 7..;
        protocol_name: Option<String> = Some(String::new()) => 0.., null 7..;
        leader: String => 0..;
        skip_assignment: bool => 9..;
        member_id: String => 0..;
        members: Vec<JoinGroupResponseMember> => 0..;
    }

    pub struct JoinGroupResponseMember {
        member_id: String => 0..;
        group_instance_id: Option<String> => 5..;
        metadata: Bytes => 0..;
    }
}
