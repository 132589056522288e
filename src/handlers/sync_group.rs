//! SyncGroup: a member asks for its assignment; the leader brings all of them.
//!
//! Behavior: the answer waits, parked, for the leader's. It is stored before anybody is told.
//!
//! Version notes: 3 has static members (KIP-345); from 5 on protocol type and name must be there, and are checked (KIP-559).

use super::awaited::answer_or_abandon;
use super::owned::OfGroup;
use super::{Context, Outcome};
use crate::group::event::{Sender, Sync, SyncReply};
use crate::promise::promise;
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse};
use bytes::Bytes;
use std::time::Duration;

/// Members that do not sync are removed after the rebalance timeout, which ends this wait; this is for what nobody thought of.
const WAIT: Duration = Duration::from_secs(15 * 60);

const PROTOCOL_FROM: i16 = 5;

impl OfGroup for SyncGroupRequest {
    fn group_id(&self) -> &str {
        &self.group_id
    }

    fn wait(&self) -> Duration {
        WAIT
    }

    fn refused(self, cx: &Context, code: ErrorCode) -> Outcome {
        reply(cx, SyncReply::refused(code))
    }
}

pub fn handle(cx: &Context, request: SyncGroupRequest) -> Outcome {
    let nameless = request.protocol_type.is_none() || request.protocol_name.is_none();
    if cx.header.api_version >= PROTOCOL_FROM && nameless {
        return reply(cx, SyncReply::refused(ErrorCode::INCONSISTENT_GROUP_PROTOCOL));
    }
    // Copied: it is kept for long, and must not keep the whole frame.
    let assignment = |a: SyncGroupRequestAssignment| (a.member_id, Bytes::copy_from_slice(&a.assignment));
    let sync = Sync {
        sender: Sender {
            member_id: request.member_id,
            instance_id: request.group_instance_id,
            generation: request.generation_id,
        },
        protocol_type: request.protocol_type,
        protocol_name: request.protocol_name,
        assignments: request.assignments.into_iter().map(assignment).collect(),
    };
    let (kept, pending) = promise(&cx.services.wakeups);
    let token = cx.services.groups.sync(&request.group_id, sync, kept);
    answer_or_abandon(cx, pending, WAIT, Some((request.group_id, token)), |cx, mut replies| {
        // Only a gateway that stops leaves a sync unanswered: the member is to look for its coordinator anew, as Kafka says.
        let unanswered = || SyncReply::refused(ErrorCode::NOT_COORDINATOR);
        reply(cx, replies.pop().flatten().unwrap_or_else(unanswered))
    })
}

fn reply(cx: &Context, reply: SyncReply) -> Outcome {
    cx.reply(&SyncGroupResponse {
        error_code: reply.error.code(),
        protocol_type: reply.protocol_type,
        protocol_name: reply.protocol_name,
        assignment: reply.assignment,
        ..Default::default()
    })
}
