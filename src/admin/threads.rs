//! `/v1/stream/threads`: what every worker does at this moment, and who is parked on what.

use crate::activity::Dump;
use rouille::{Request, Response};

/// Looks at what goes on; `None` before there is a server.
pub type WhatGoesOn = Box<dyn Fn() -> Option<Dump> + Send + Sync>;

/// JSON; with `?text` the lines that SIGQUIT prints.
pub fn answer(request: &Request, what_goes_on: &WhatGoesOn) -> Response {
    if !matches!(request.method(), "GET" | "HEAD") {
        let refusal = Response::text("only GET and HEAD\n").with_status_code(405);
        return refusal.with_additional_header("Allow", "GET, HEAD");
    }
    let Some(dump) = what_goes_on() else {
        return Response::text("nothing is served yet\n").with_status_code(503).with_no_cache();
    };
    if request.raw_query_string().split('&').any(|part| part == "text") {
        return Response::text(dump.to_string()).with_no_cache();
    }
    Response::from_data("application/json", format!("{:#}\n", dump.to_json())).with_no_cache()
}
