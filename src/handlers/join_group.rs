//! JoinGroup: a member enters the rebalance of its group, and is answered when the generation is formed.
//!
//! Behavior:
//! - The answer waits, parked. It never waits much longer than any client does; then NOT_COORDINATOR makes the member look for
//!   its coordinator, and ask again.
//! - The leader is told all members, the others none.
//!
//! Version notes: 0 has no rebalance timeout of its own; from 4 on a new dynamic member is first told its id (KIP-394); 5
//! has static members (KIP-345); from 7 on a missing protocol name is null; from 9 on a returning static leader is told to skip
//! the assignment (KIP-814).

use super::awaited::answer_or_abandon;
use super::owned::OfGroup;
use super::{Context, Outcome};
use crate::group::event::{Join, JoinReply, JoinedMember, Protocol};
use crate::group::fresh_member_id;
use crate::promise::promise;
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::join_group::{
    JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse, JoinGroupResponseMember,
};
use bytes::Bytes;
use std::time::Duration;

/// What a join may wait beyond its rebalance timeout: other members' timeouts can be longer, and a new member's first join
/// is held for up to five minutes.
const WAIT_SLACK: Duration = Duration::from_secs(330);

const MEMBER_ID_REQUIRED_FROM: i16 = 4;
const NULL_PROTOCOL_NAME_FROM: i16 = 7;
const SKIP_ASSIGNMENT_FROM: i16 = 9;

impl OfGroup for JoinGroupRequest {
    fn group_id(&self) -> &str {
        &self.group_id
    }

    fn wait(&self) -> Duration {
        millis(self.session_timeout_ms.max(self.rebalance_timeout_ms)) + WAIT_SLACK
    }

    fn refused(self, cx: &Context, code: ErrorCode) -> Outcome {
        cx.reply(&response(cx, JoinReply::refused(code, &self.member_id)))
    }
}

pub fn handle(cx: &Context, request: JoinGroupRequest) -> Outcome {
    let version = cx.header.api_version;
    let client_id = cx.header.client_id.clone().unwrap_or_default();
    let session_timeout = millis(request.session_timeout_ms);
    let rebalance_timeout = if version == 0 { session_timeout } else { millis(request.rebalance_timeout_ms) };
    // Copied: it is kept for long, and must not keep the whole frame.
    let protocol =
        |p: JoinGroupRequestProtocol| Protocol { name: p.name, metadata: Bytes::copy_from_slice(&p.metadata) };
    let join = Join {
        fresh_member_id: fresh_member_id(&client_id, request.group_instance_id.as_deref()),
        member_id: request.member_id.clone(),
        instance_id: request.group_instance_id,
        client_id,
        client_host: format!("/{}", cx.client_host),
        protocol_type: request.protocol_type,
        protocols: request.protocols.into_iter().map(protocol).collect(),
        session_timeout,
        rebalance_timeout,
        member_id_required: version >= MEMBER_ID_REQUIRED_FROM,
        can_skip_assignment: version >= SKIP_ASSIGNMENT_FROM,
        reason: request.reason,
    };
    let (kept, pending) = promise(&cx.services.wakeups);
    let token = cx.services.groups.join(&request.group_id, join, kept);
    let member_id = request.member_id;
    let waits = Some((request.group_id, token));
    answer_or_abandon(cx, pending, rebalance_timeout + WAIT_SLACK, waits, move |cx, mut replies| {
        // Only a gateway that stops leaves a join unanswered: the member is to look for its coordinator anew, as Kafka says.
        let unanswered = || JoinReply::refused(ErrorCode::NOT_COORDINATOR, &member_id);
        cx.reply(&response(cx, replies.pop().flatten().unwrap_or_else(unanswered)))
    })
}

fn response(cx: &Context, reply: JoinReply) -> JoinGroupResponse {
    let protocol_name = reply.protocol_name.unwrap_or_default();
    let nameless = protocol_name.is_empty() && cx.header.api_version >= NULL_PROTOCOL_NAME_FROM;
    let member = |m: JoinedMember| JoinGroupResponseMember {
        member_id: m.member_id,
        group_instance_id: m.instance_id,
        metadata: m.metadata,
    };
    JoinGroupResponse {
        error_code: reply.error.code(),
        generation_id: reply.generation,
        protocol_type: reply.protocol_type,
        protocol_name: (!nameless).then_some(protocol_name),
        leader: reply.leader,
        skip_assignment: reply.skip_assignment,
        member_id: reply.member_id,
        members: reply.members.into_iter().map(member).collect(),
        ..Default::default()
    }
}

/// A negative time is none.
fn millis(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
