//! What belongs to security is refused until there is security.

use super::*;
use crate::protocol::messages::alter_user_scram_credentials::{
    AlterUserScramCredentialsRequest, ScramCredentialDeletion, ScramCredentialUpsertion,
};
use crate::protocol::messages::create_acls::{AclCreation, CreateAclsRequest};
use crate::protocol::messages::create_delegation_token::CreateDelegationTokenRequest;
use crate::protocol::messages::delete_acls::{DeleteAclsFilter, DeleteAclsRequest};
use crate::protocol::messages::describe_acls::DescribeAclsRequest;
use crate::protocol::messages::describe_delegation_token::DescribeDelegationTokenRequest;
use crate::protocol::messages::describe_user_scram_credentials::DescribeUserScramCredentialsRequest;
use crate::protocol::messages::expire_delegation_token::ExpireDelegationTokenRequest;
use crate::protocol::messages::renew_delegation_token::RenewDelegationTokenRequest;

#[test]
fn access_rules_are_disabled() {
    let rig = Rig::new();
    for version in 1..=3 {
        let described = rig.ask(version, &DescribeAclsRequest::default());
        check(described.error_code, ErrorCode::SECURITY_DISABLED);
        assert!(described.error_message.is_some() && described.resources.is_empty());
        let creations = vec![AclCreation::default(); 2];
        let created = rig.ask(version, &CreateAclsRequest { creations }).results;
        assert_eq!(created.len(), 2, "one for each rule");
        created.iter().for_each(|row| check(row.error_code, ErrorCode::SECURITY_DISABLED));
        let filters = vec![DeleteAclsFilter::default(); 3];
        let deleted = rig.ask(version, &DeleteAclsRequest { filters }).filter_results;
        assert_eq!(deleted.len(), 3, "one for each filter");
        deleted.iter().for_each(|row| check(row.error_code, ErrorCode::SECURITY_DISABLED));
    }
}

#[test]
fn there_are_no_scram_users() {
    let rig = Rig::new();
    let described = rig.ask(0, &DescribeUserScramCredentialsRequest::default());
    check(described.error_code, ErrorCode::SECURITY_DISABLED);
    let upsertion = |name: &str| ScramCredentialUpsertion { name: name.to_owned(), ..Default::default() };
    let deletion = ScramCredentialDeletion { name: "a".to_owned(), ..Default::default() };
    let upsertions = vec![upsertion("b"), upsertion("a")];
    let altered = rig.ask(0, &AlterUserScramCredentialsRequest { deletions: vec![deletion], upsertions }).results;
    assert_eq!(altered.iter().map(|row| row.user.as_str()).collect::<Vec<_>>(), ["a", "b"], "each user once");
    altered.iter().for_each(|row| check(row.error_code, ErrorCode::SECURITY_DISABLED));
}

#[test]
fn there_are_no_delegation_tokens() {
    let rig = Rig::new();
    for version in 1..=3 {
        let created = rig.ask(version, &CreateDelegationTokenRequest::default());
        check(created.error_code, ErrorCode::SECURITY_DISABLED);
        assert_eq!((created.issue_timestamp_ms, created.token_id.as_str()), (-1, ""));
        let described = rig.ask(version, &DescribeDelegationTokenRequest::default());
        check(described.error_code, ErrorCode::SECURITY_DISABLED);
    }
    for version in 1..=2 {
        let renewed = rig.ask(version, &RenewDelegationTokenRequest::default());
        check(renewed.error_code, ErrorCode::SECURITY_DISABLED);
        let expired = rig.ask(version, &ExpireDelegationTokenRequest::default());
        check(expired.error_code, ErrorCode::SECURITY_DISABLED);
    }
}
