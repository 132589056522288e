//! Heartbeat: a member is alive, and learns whether its group rebalances.
//!
//! Behavior: answered from memory and never stored. Only the first one after the gateway was started waits, until the group
//! is loaded or its owner known.
//!
//! Version notes: 3 has static members (KIP-345).

use super::awaited::{STORE_WAIT, answer_when_there};
use super::owned::OfGroup;
use super::{Context, Outcome, Services};
use crate::group::event::Sender;
use crate::promise::promise;
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};

impl OfGroup for HeartbeatRequest {
    fn group_id(&self) -> &str {
        &self.group_id
    }

    fn refused(self, cx: &Context, code: ErrorCode) -> Outcome {
        reply(cx, code)
    }
}

/// Whether it is known without a look at the store who answers.
pub(super) fn is_in_memory(services: &Services, _version: i16, request: &HeartbeatRequest) -> bool {
    services.groups.route_known(&request.group_id).is_some()
}

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
