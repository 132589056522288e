//! DeleteGroups: removes groups nobody is in, with their commits.
//!
//! Behavior: groups that other gateways own are removed by them, each by a request of its own. One row for each group, however often it is named, in the order of the request.

use super::awaited::{STORE_WAIT, answer_when_there};
use super::{Context, Outcome, once, owned};
use crate::group::Route;
use crate::promise::promises;
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::delete_groups::{DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse};

pub fn handle(cx: &Context, request: DeleteGroupsRequest) -> Outcome {
    let names = once(request.groups_names, String::clone);
    let (kept, pending) = promises(&cx.services.wakeups, names.len());
    for (name, promise) in names.iter().zip(kept) {
        if cx.is_late() {
            promise.keep(ErrorCode::COORDINATOR_NOT_AVAILABLE);
            continue;
        }
        match owned::route(cx, name) {
            Route::Here => cx.services.groups.delete(name, promise),
            Route::At(process) => {
                let alone = DeleteGroupsRequest { groups_names: vec![name.clone()] };
                owned::ask(cx, process, name, &alone, move |answer| {
                    let row = answer.and_then(|mut answer| answer.results.pop().ok_or(ErrorCode::NOT_COORDINATOR));
                    promise.keep(row.map_or_else(|code| code, |row| ErrorCode::from_code(row.error_code)));
                });
            }
        }
    }
    answer_when_there(cx, pending, STORE_WAIT, move |cx, codes| {
        let row = |(name, code): (&String, Option<ErrorCode>)| DeletableGroupResult {
            group_id: name.clone(),
            error_code: code.unwrap_or(ErrorCode::COORDINATOR_NOT_AVAILABLE).code(),
        };
        let results = names.iter().zip(codes).map(row).collect();
        cx.reply(&DeleteGroupsResponse { results, ..Default::default() })
    })
}
