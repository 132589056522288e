//! Heartbeat: a member of a group is alive. 3 has static members (KIP-345), 4 is flexible.

use crate::wire::wire;

wire! {
    pub struct HeartbeatRequest {
        group_id: String => 0..;
        generation_id: i32 => 0..;
        member_id: String => 0..;
        group_instance_id: Option<String> => 3..;
    }
}

wire! {
    pub struct HeartbeatResponse {
        throttle_time_ms: i32 => 1..;
        error_code: i16 => 0..;
    }
}
