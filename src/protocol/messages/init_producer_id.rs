//! InitProducerId: a producer id and epoch for an idempotent or transactional producer (KIP-98).
//!
//! 2 is flexible, 3 lets a producer name its present id and epoch (KIP-360), 4 may answer PRODUCER_FENCED (KIP-588), 5
//! TRANSACTION_ABORTABLE (KIP-890).

use crate::wire::wire;

wire! {
    pub struct InitProducerIdRequest {
        transactional_id: Option<String> = Some(String::new()) => 0..;
        transaction_timeout_ms: i32 => 0..;
        producer_id: i64 = -1 => 3..;
        producer_epoch: i16 = -1 => 3..;
    }
}

wire! {
    pub struct InitProducerIdResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        producer_id: i64 = -1 => 0..;
        producer_epoch: i16 => 0..;
    }
}
