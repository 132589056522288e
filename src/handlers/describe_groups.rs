//! DescribeGroups: state and members of groups.
//!
//! Behavior: groups that other gateways own are described by them. One row for each group asked for, in that order, however often
//! it is named.
//!
//! Version notes: 3 can tell the authorized operations (KIP-430), 4 the instance ids; a group that is not there is Dead
//! without an error up to 5, and GROUP_ID_NOT_FOUND from 6 on (KIP-1043).

use super::authorized::GROUP_OPERATIONS;
use super::awaited::{STORE_WAIT, answer_when_there};
use super::errors::for_coordinator;
use super::{Context, Outcome, once, owned};
use crate::group::{Described, DescribedMember, Groups, Route};
use crate::limits::STORE_CALL_MAX;
use crate::promise::promises;
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::describe_groups::{
    DescribeGroupsRequest, DescribeGroupsResponse, DescribedGroup, DescribedGroupMember,
};

const OPERATIONS_FROM: i16 = 3;
const NOT_FOUND_FROM: i16 = 6;

pub fn handle(cx: &Context, request: DescribeGroupsRequest) -> Outcome {
    let with_operations = request.include_authorized_operations && cx.header.api_version >= OPERATIONS_FROM;
    let asked = once(request.groups, String::clone);
    let (kept, pending) = promises(&cx.services.wakeups, asked.len());
    for (group_id, promise) in asked.iter().zip(kept) {
        if cx.is_late() {
            promise.keep(refused(String::new(), ErrorCode::COORDINATOR_NOT_AVAILABLE));
            continue;
        }
        match owned::route(cx, group_id) {
            Route::Here => promise.keep(describe(cx, group_id.clone())),
            Route::At(process) => {
                let alone = DescribeGroupsRequest { groups: vec![group_id.clone()], ..Default::default() };
                owned::ask(cx, process, group_id, &alone, move |answer| {
                    let row = answer.and_then(|mut answer| answer.groups.pop().ok_or(ErrorCode::NOT_COORDINATOR));
                    // The name is filled in below.
                    promise.keep(row.unwrap_or_else(|code| refused(String::new(), code)));
                });
            }
        }
    }
    answer_when_there(cx, pending, STORE_WAIT, move |cx, rows| {
        let row = |(group_id, row): (&String, Option<DescribedGroup>)| {
            let row = row.unwrap_or_else(|| refused(String::new(), ErrorCode::COORDINATOR_NOT_AVAILABLE));
            let authorized = with_operations && row.error_code == ErrorCode::NONE.code();
            let authorized_operations = if authorized { GROUP_OPERATIONS } else { row.authorized_operations };
            DescribedGroup { group_id: group_id.clone(), authorized_operations, ..row }
        };
        let groups = asked.iter().zip(rows).map(row).collect();
        cx.reply(&DescribeGroupsResponse { groups, ..Default::default() })
    })
}

fn refused(group_id: String, code: ErrorCode) -> DescribedGroup {
    DescribedGroup { error_code: code.code(), group_id, ..Default::default() }
}

fn describe(cx: &Context, group_id: String) -> DescribedGroup {
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
