//! ListGroups: the groups this broker coordinates.
//!
//! 3 is flexible, 4 filters by state and shows it (KIP-518), 5 filters by type and shows it (KIP-848).

use crate::wire::wire;

wire! {
    pub struct ListGroupsRequest {
        states_filter: Vec<String> => 4..;
        types_filter: Vec<String> => 5..;
    }
}

wire! {
    pub struct ListGroupsResponse {
        throttle_time_ms: i32 => 1..;
        error_code: i16 => 0..;
        groups: Vec<ListedGroup> => 0..;
    }

    pub struct ListedGroup {
        group_id: String => 0..;
        protocol_type: String => 0..;
        group_state: String => 4..;
        group_type: String => 5..;
    }
}
