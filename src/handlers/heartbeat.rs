//! Heartbeat: a member is alive, and learns whether its group rebalances.
//!
//! Behavior: answered from memory and never stored. Only the first one after the gateway was started waits, until the group
//! is loaded.
//!
//! Version notes: 3 has static members (KIP-345).

use super::awaited::{STORE_WAIT, answer_when_there};
use super::{Context, Outcome};
use crate::group::event::Sender;
use crate::promise::promise;
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};

pub fn handle(cx: &Context, request: HeartbeatRequest) -> Outcome {
    let groups = &cx.services.groups;
    let sender = Sender {
        member_id: request.member_id,
        instance_id: request.group_instance_id,
        generation: request.generation_id,
    };
    if let Some(code) = groups.heartbeat(&request.group_id, &sender) {
        return reply(cx, code);
    }
    let (kept, pending) = promise(&cx.services.wakeups);
    groups.heartbeat_later(&request.group_id, sender, kept);
    answer_when_there(cx, pending, STORE_WAIT, |cx, mut codes| {
        reply(cx, codes.pop().flatten().unwrap_or(ErrorCode::COORDINATOR_NOT_AVAILABLE))
    })
}

fn reply(cx: &Context, code: ErrorCode) -> Outcome {
    cx.reply(&HeartbeatResponse { error_code: code.code(), ..Default::default() })
}
