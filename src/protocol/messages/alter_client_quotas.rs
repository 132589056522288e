//! AlterClientQuotas: sets and removes quotas of users, clients and addresses (KIP-546). 1 is flexible.

use crate::wire::wire;

wire! {
    pub struct AlterClientQuotasRequest {
        entries: Vec<EntryData> => 0..;
        validate_only: bool => 0..;
    }

    pub struct EntryData {
        entity: Vec<EntityData> => 0..;
        ops: Vec<OpData> => 0..;
    }

    pub struct EntityData {
        entity_type: String => 0..;
        entity_name: Option<String> = Some(String::new()) => 0..;
    }

    pub struct OpData {
        key: String => 0..;
        value: f64 => 0..;
        remove: bool => 0..;
    }
}

wire! {
    pub struct AlterClientQuotasResponse {
        throttle_time_ms: i32 => 0..;
        entries: Vec<EntryResult> => 0..;
    }

    pub struct EntryResult {
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        entity: Vec<EntityData> => 0..;
    }
}
