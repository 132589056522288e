//! DescribeGroups: state and members of groups.
//!
//! Behavior: one row for each group asked for, in that order.
//!
//! Version notes: 3 can tell the authorized operations (KIP-430), 4 the instance ids; a group that is not there is Dead
//! without an error up to 5, and GROUP_ID_NOT_FOUND from 6 on (KIP-1043).

use super::authorized::GROUP_OPERATIONS;
use super::errors::for_coordinator;
use super::{Context, Outcome};
use crate::group::{Described, DescribedMember, Groups};
use crate::limits::STORE_CALL_MAX;
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::describe_groups::{
    DescribeGroupsRequest, DescribeGroupsResponse, DescribedGroup, DescribedGroupMember,
};

const OPERATIONS_FROM: i16 = 3;
const NOT_FOUND_FROM: i16 = 6;

pub fn handle(cx: &Context, request: DescribeGroupsRequest) -> Outcome {
    let with_operations = request.include_authorized_operations && cx.header.api_version >= OPERATIONS_FROM;
    let row = |group_id: String| {
        let mut row = describe(cx, group_id);
        if with_operations && row.error_code == ErrorCode::NONE.code() {
            row.authorized_operations = GROUP_OPERATIONS;
        }
        row
    };
    let groups = request.groups.into_iter().map(row).collect();
    cx.reply(&DescribeGroupsResponse { groups, ..Default::default() })
}

fn describe(cx: &Context, group_id: String) -> DescribedGroup {
    let refused =
        |group_id, code: ErrorCode| DescribedGroup { error_code: code.code(), group_id, ..Default::default() };
    if let Err(error) = Groups::check_id(&group_id, true) {
        return refused(group_id, error);
    }
    match cx.services.groups.describe(&group_id, cx.now.mono + STORE_CALL_MAX) {
        Ok(Some(described)) => found(group_id, described),
        Ok(None) => {
            let is_error = cx.header.api_version >= NOT_FOUND_FROM;
            let code = if is_error { ErrorCode::GROUP_ID_NOT_FOUND } else { ErrorCode::NONE };
            let error_message = is_error.then(|| format!("Group {group_id} not found."));
            DescribedGroup { group_state: "Dead".to_owned(), error_message, ..refused(group_id, code) }
        }
        Err(error) => refused(group_id, for_coordinator(&error)),
    }
}

fn found(group_id: String, described: Described) -> DescribedGroup {
    let member = |m: DescribedMember| DescribedGroupMember {
        member_id: m.id,
        group_instance_id: m.instance_id,
        client_id: m.client_id,
        client_host: m.client_host,
        member_metadata: m.metadata,
        member_assignment: m.assignment,
    };
    DescribedGroup {
        group_id,
        group_state: described.state.name().to_owned(),
        protocol_type: described.protocol_type,
        protocol_data: described.protocol_name,
        members: described.members.into_iter().map(member).collect(),
        ..Default::default()
    }
}
