//! DescribeUserScramCredentials: which users have SCRAM credentials (KIP-554).

use crate::wire::wire;

wire! {
    pub struct DescribeUserScramCredentialsRequest {
        users: Option<Vec<UserName>> = Some(Vec::new()) => 0..;
    }

    pub struct UserName {
        name: String => 0..;
    }
}

wire! {
    pub struct DescribeUserScramCredentialsResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        results: Vec<DescribeUserScramCredentialsResult> => 0..;
    }

    pub struct DescribeUserScramCredentialsResult {
        user: String => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        credential_infos: Vec<CredentialInfo> => 0..;
    }

    pub struct CredentialInfo {
        mechanism: i8 => 0..;
        iterations: i32 => 0..;
    }
}
