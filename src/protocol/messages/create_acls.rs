//! CreateAcls: adds access rules (KIP-140). 1 has kinds of patterns (KIP-290), 2 is flexible, 3 knows users as resources
//! (KIP-373).

use crate::wire::wire;

wire! {
    pub struct CreateAclsRequest {
        creations: Vec<AclCreation> => 0..;
    }

    pub struct AclCreation {
        resource_type: i8 => 0..;
        resource_name: String => 0..;
        resource_pattern_type: i8 = 3 => 1..;
        principal: String => 0..;
        host: String => 0..;
        operation: i8 => 0..;
        permission_type: i8 => 0..;
    }
}

wire! {
    pub struct CreateAclsResponse {
        throttle_time_ms: i32 => 0..;
        results: Vec<AclCreationResult> => 0..;
    }

    pub struct AclCreationResult {
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
    }
}
