//! `/v1/stream/threads`: what every worker does at this moment, and who is parked on what.

use super::{Pages, refused};
use crate::activity::Dump;
use rouille::{Request, Response};

/// Looks at what goes on; `None` before there is a server.
pub type WhatGoesOn = Box<dyn Fn() -> Option<Dump> + Send + Sync>;

/// JSON; with `?text` the lines that SIGQUIT prints.
pub(super) fn answer(pages: &Pages, request: &Request) -> Response {
    let Some(dump) = (pages.what_goes_on)() else {
        return refused(503, "nothing is served yet");
    };
    if request.raw_query_string().split('&').any(|part| part == "text") {
        return Response::text(dump.to_string());
    }
    Response::json(&dump.to_json())
}
