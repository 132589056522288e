//! DescribeCluster: the brokers and the controller (KIP-700). 1 asks for a kind of endpoint (KIP-919), 2 for fenced
//! brokers (KIP-1073).

use crate::wire::wire;

wire! {
    pub struct DescribeClusterRequest {
        include_cluster_authorized_operations: bool => 0..;
        endpoint_type: i8 = 1 => 1..;
        include_fenced_brokers: bool => 2..;
    }
}

wire! {
    pub struct DescribeClusterResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        endpoint_type: i8 = 1 => 1..;
        cluster_id: String => 0..;
        controller_id: i32 = -1 => 0..;
        brokers: Vec<DescribeClusterBroker> => 0..;
        cluster_authorized_operations: i32 = i32::MIN => 0..;
    }

    pub struct DescribeClusterBroker {
        broker_id: i32 => 0..;
        host: String => 0..;
        port: i32 => 0..;
        rack: Option<String> => 0..;
        is_fenced: bool => 2..;
    }
}
