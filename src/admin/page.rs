//! `/v1/stream/`: the page for people. A few files of our own, nothing from elsewhere; it reads the JSON endpoints.

use super::Pages;
use rouille::{Request, Response};

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The file under the request's path, which is one of the page's.
pub(super) fn answer(_: &Pages, request: &Request) -> Response {
    let (media_type, content) = match request.url().as_str() {
        "/v1/stream/app.js" => (SCRIPT, include_str!("page/app.js")),
        "/v1/stream/parts.js" => (SCRIPT, include_str!("page/parts.js")),
        "/v1/stream/records.js" => (SCRIPT, include_str!("page/records.js")),
        "/v1/stream/views.js" => (SCRIPT, include_str!("page/views.js")),
        "/v1/stream/style.css" => ("text/css; charset=utf-8", include_str!("page/style.css")),
        "/v1/stream/icon.svg" => ("image/svg+xml", include_str!("page/icon.svg")),
        _ => ("text/html; charset=utf-8", include_str!("page/index.html")),
    };
    Response::from_data(media_type, content)
}
