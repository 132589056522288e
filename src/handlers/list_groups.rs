//! ListGroups: all groups.
//!
//! Behavior: filters are compared without regard to case; an unknown state or type matches nothing.
//!
//! Version notes: 4 filters by state (KIP-518), 5 by type (KIP-848). All groups here are classic ones.

use super::errors::for_coordinator;
use super::{Context, Outcome};
use crate::group::Listed;
use crate::limits::STORE_CALL_MAX;
use crate::protocol::messages::list_groups::{ListGroupsRequest, ListGroupsResponse, ListedGroup};

const TYPE: &str = "classic";

pub fn handle(cx: &Context, request: ListGroupsRequest) -> Outcome {
    let listed = match cx.services.groups.list(cx.now.mono + STORE_CALL_MAX) {
        Ok(listed) => listed,
        Err(error) => {
            let error_code = for_coordinator(&error).code();
            return cx.reply(&ListGroupsResponse { error_code, ..Default::default() });
        }
    };
    let matches =
        |group: &Listed| passes(&request.states_filter, group.state.name()) && passes(&request.types_filter, TYPE);
    let row = |group: Listed| ListedGroup {
        group_id: group.group,
        protocol_type: group.protocol_type,
        group_state: group.state.name().to_owned(),
        group_type: TYPE.to_owned(),
    };
    let groups = listed.into_iter().filter(matches).map(row).collect();
    cx.reply(&ListGroupsResponse { groups, ..Default::default() })
}

fn passes(filter: &[String], value: &str) -> bool {
    filter.is_empty() || filter.iter().any(|wanted| wanted.trim().eq_ignore_ascii_case(value))
}
