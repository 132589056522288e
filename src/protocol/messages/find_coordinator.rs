//! FindCoordinator: which broker takes care of a group or a transactional id.
//!
//! 1 adds the kind of key (KIP-98), 3 is flexible, 4 asks for several keys and answers in `coordinators` only
//! (KIP-699), 5 may answer TRANSACTION_ABORTABLE (KIP-890), 6 knows share groups (KIP-932).

use crate::wire::wire;

wire! {
    pub struct FindCoordinatorRequest {
        key: String => 0..=3;
        key_type: i8 => 1..;
        coordinator_keys: Vec<String> => 4..;
    }
}

wire! {
    pub struct FindCoordinatorResponse {
        throttle_time_ms: i32 => 1..;
        error_code: i16 => 0..=3;
        error_message: Option<String> => 1..=3;
        node_id: i32 => 0..=3;
        host: String => 0..=3;
        port: i32 => 0..=3;
        coordinators: Vec<Coordinator> => 4..;
    }

    pub struct Coordinator {
        key: String => 4..;
        node_id: i32 => 4..;
        host: String => 4..;
        port: i32 => 4..;
        error_code: i16 => 4..;
        error_message: Option<String> => 4..;
    }
}
