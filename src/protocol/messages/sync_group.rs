//! SyncGroup: the leader hands in the assignment, everybody gets their own.
//!
//! 3 has static members (KIP-345), 4 is flexible, 5 checks the protocol type and name (KIP-559).

use crate::wire::wire;
use bytes::Bytes;

wire! {
    pub struct SyncGroupRequest {
        group_id: String => 0..;
        generation_id: i32 => 0..;
        member_id: String => 0..;
        group_instance_id: Option<String> => 3..;
        protocol_type: Option<String> => 5..;
        protocol_name: Option<String> => 5..;
        assignments: Vec<SyncGroupRequestAssignment> => 0..;
    }

    pub struct SyncGroupRequestAssignment {
        member_id: String => 0..;
        assignment: Bytes => 0..;
    }
}

wire! {
    pub struct SyncGroupResponse {
        throttle_time_ms: i32 => 1..;
        error_code: i16 => 0..;
        protocol_type: Option<String> => 5..;
        protocol_name: Option<String> => 5..;
        assignment: Bytes => 0..;
    }
}
