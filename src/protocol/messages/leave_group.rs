//! LeaveGroup: members leave their group.
//!
//! From 3 a list of members, who may be static (KIP-345); 4 is flexible, 5 gives a reason (KIP-800).

use crate::wire::wire;

wire! {
    pub struct LeaveGroupRequest {
        group_id: String => 0..;
        member_id: String => 0..=2;
        members: Vec<MemberIdentity> => 3..;
    }

    pub struct MemberIdentity {
        member_id: String => 3..;
        group_instance_id: Option<String> => 3..;
        reason: Option<String> => 5..;
    }
}

wire! {
    pub struct LeaveGroupResponse {
        throttle_time_ms: i32 => 1..;
        error_code: i16 => 0..;
        members: Vec<MemberResponse> => 3..;
    }

    pub struct MemberResponse {
        member_id: String => 3..;
        group_instance_id: Option<String> = Some(String::new()) => 3..;
        error_code: i16 => 3..;
    }
}
