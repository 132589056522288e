//! DescribeClientQuotas: quotas of users, clients and addresses (KIP-546). 1 is flexible.

use crate::wire::wire;

wire! {
    pub struct DescribeClientQuotasRequest {
        components: Vec<ComponentData> => 0..;
        strict: bool => 0..;
    }

    pub struct ComponentData {
        entity_type: String => 0..;
        match_type: i8 => 0..;
        matched: Option<String> = Some(String::new()) => 0..;
    }
}

wire! {
    pub struct DescribeClientQuotasResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        entries: Option<Vec<EntryData>> = Some(Vec::new()) => 0..;
    }

    pub struct EntryData {
        entity: Vec<EntityData> => 0..;
        values: Vec<ValueData> => 0..;
    }

    pub struct EntityData {
        entity_type: String => 0..;
        entity_name: Option<String> = Some(String::new()) => 0..;
    }

    pub struct ValueData {
        key: String => 0..;
        value: f64 => 0..;
    }
}
