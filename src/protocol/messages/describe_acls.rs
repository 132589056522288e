//! DescribeAcls: the access rules that match a filter (KIP-140). 1 has kinds of patterns (KIP-290), 2 is flexible, 3 knows
//! users as resources (KIP-373).

use crate::wire::wire;

wire! {
    pub struct DescribeAclsRequest {
        resource_type_filter: i8 => 0..;
        resource_name_filter: Option<String> = Some(String::new()) => 0..;
        pattern_type_filter: i8 = 3 => 1..;
        principal_filter: Option<String> = Some(String::new()) => 0..;
        host_filter: Option<String> = Some(String::new()) => 0..;
        operation: i8 => 0..;
        permission_type: i8 => 0..;
    }
}

wire! {
    pub struct DescribeAclsResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        resources: Vec<DescribeAclsResource> => 0..;
    }

    pub struct DescribeAclsResource {
        resource_type: i8 => 0..;
        resource_name: String => 0..;
        pattern_type: i8 = 3 => 1..;
        acls: Vec<AclDescription> => 0..;
    }

    pub struct AclDescription {
        principal: String => 0..;
        host: String => 0..;
        operation: i8 => 0..;
        permission_type: i8 => 0..;
    }
}
