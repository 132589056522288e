//! ListGroups: the groups of this broker.
//!
//! Behavior: each group is listed by the broker that FindCoordinator names, so that all brokers together list it once. Filters are compared without regard to case; an unknown state or type matches nothing.
//!
//! Version notes: 4 filters by state (KIP-518), 5 by type (KIP-848). All groups here are classic ones.

use super::errors::for_coordinator;
use super::{Context, Outcome};
use crate::group::Listed;
use crate::group::state::State;
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
    let cluster = &cx.services.cluster;
    let is_ours = |group: &Listed| {
        let coordinator = group.coordinator.as_ref().and_then(|process| cluster.broker_of(process));
        // A group that nobody can be named for is rather listed twice than never.
        coordinator.is_none_or(|coordinator| cluster.broker().is_none_or(|ours| ours == coordinator))
    };
    let states = State::ALL.map(|state| (state, passes(&request.states_filter, state.name())));
    let is_type = passes(&request.types_filter, TYPE);
    let matches = |group: &Listed| is_type && states.contains(&(group.state, true));
    let row = |group: Listed| ListedGroup {
        group_id: group.group,
        protocol_type: group.protocol_type,
        group_state: group.state.name().to_owned(),
        group_type: TYPE.to_owned(),
    };
    let groups = listed.into_iter().filter(|group| is_ours(group) && matches(group)).map(row).collect();
    cx.reply(&ListGroupsResponse { groups, ..Default::default() })
}

/// Asked once for each name there is, not for each group: a filter may be very long.
fn passes(filter: &[String], value: &str) -> bool {
    filter.is_empty() || filter.iter().any(|wanted| wanted.trim().eq_ignore_ascii_case(value))
}
