//! LeaveGroup: members leave, or are made to.
//!
//! Behavior: answered when the group without them is stored.
//!
//! Version notes: up to 2 one member leaves, and its code stands at the top; from 3 on several can, also by their instance ids
//! alone (KIP-345); 5 has reasons (KIP-800).

use super::awaited::{STORE_WAIT, answer_when_there};
use super::owned::OfGroup;
use super::{Context, Outcome};
use crate::group::event::{LeaveReply, Leaving};
use crate::promise::promise;
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::leave_group::{LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse};

const MANY_FROM: i16 = 3;

impl OfGroup for LeaveGroupRequest {
    fn group_id(&self) -> &str {
        &self.group_id
    }

    fn refused(self, cx: &Context, code: ErrorCode) -> Outcome {
        cx.reply(&LeaveGroupResponse { error_code: code.code(), ..Default::default() })
    }
}

pub fn handle(cx: &Context, request: LeaveGroupRequest) -> Outcome {
    let leaving = if cx.header.api_version >= MANY_FROM {
        let one =
            |m: MemberIdentity| Leaving { member_id: m.member_id, instance_id: m.group_instance_id, reason: m.reason };
        request.members.into_iter().map(one).collect()
    } else {
        vec![Leaving { member_id: request.member_id, instance_id: None, reason: None }]
    };
    let (kept, pending) = promise(&cx.services.wakeups);
    cx.services.groups.leave(&request.group_id, leaving, kept);
    answer_when_there(cx, pending, STORE_WAIT, |cx, mut replies| {
        let unanswered = || LeaveReply { error: ErrorCode::COORDINATOR_NOT_AVAILABLE, members: Vec::new() };
        cx.reply(&response(cx, replies.pop().flatten().unwrap_or_else(unanswered)))
    })
}

fn response(cx: &Context, reply: LeaveReply) -> LeaveGroupResponse {
    if cx.header.api_version < MANY_FROM {
        let member = reply.members.first().map_or(ErrorCode::NONE, |(_, code)| *code);
        let code = if reply.error.is_error() { reply.error } else { member };
        return LeaveGroupResponse { error_code: code.code(), ..Default::default() };
    }
    let row = |(leaving, code): (Leaving, ErrorCode)| MemberResponse {
        member_id: leaving.member_id,
        group_instance_id: leaving.instance_id,
        error_code: code.code(),
    };
    let members = reply.members.into_iter().map(row).collect();
    LeaveGroupResponse { error_code: reply.error.code(), members, ..Default::default() }
}
