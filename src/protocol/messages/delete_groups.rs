//! DeleteGroups: deletes empty groups and their offsets (KIP-229). 2 is flexible.

use crate::wire::wire;

wire! {
    pub struct DeleteGroupsRequest {
        groups_names: Vec<String> => 0..;
    }
}

wire! {
    pub struct DeleteGroupsResponse {
        throttle_time_ms: i32 => 0..;
        results: Vec<DeletableGroupResult> => 0..;
    }

    pub struct DeletableGroupResult {
        group_id: String => 0..;
        error_code: i16 => 0..;
    }
}
