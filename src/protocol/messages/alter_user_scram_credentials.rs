//! AlterUserScramCredentials: gives and takes SCRAM credentials (KIP-554).

use crate::wire::wire;
use bytes::Bytes;

wire! {
    pub struct AlterUserScramCredentialsRequest {
        deletions: Vec<ScramCredentialDeletion> => 0..;
        upsertions: Vec<ScramCredentialUpsertion> => 0..;
    }

    pub struct ScramCredentialDeletion {
        name: String => 0..;
        mechanism: i8 => 0..;
    }

    pub struct ScramCredentialUpsertion {
        name: String => 0..;
        mechanism: i8 => 0..;
        iterations: i32 => 0..;
        salt: Bytes => 0..;
        salted_password: Bytes => 0..;
    }
}

wire! {
    pub struct AlterUserScramCredentialsResponse {
        throttle_time_ms: i32 => 0..;
        results: Vec<AlterUserScramCredentialsResult> => 0..;
    }

    pub struct AlterUserScramCredentialsResult {
        user: String => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
    }
}
