//! The admin HTTP endpoints: probes, what stands in the store and what the gateway does as JSON, and its metrics.
//!
//! Nothing here changes anything: GET and HEAD only. `front` owns the sockets; a route is one line of `ROUTES`.

mod exposition;
mod front;
mod groups;
mod head;
mod lag;
mod metrics;
mod page;
mod records;
mod status;
mod threads;
mod topics;

use crate::clock::Now;
use crate::handlers::Services;
use crate::limits::ADMIN_STORE_MAX;
use crate::listen;
use crate::log::LogError;
use crate::store::StoreError;
use front::{Front, Site};
use rouille::{Request, Response};
use serde_json::{Value, json};
use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
pub use threads::WhatGoesOn;

/// What answers one path.
struct Route {
    path: &'static str,
    /// Answered from memory, also while the store hangs.
    quick: bool,
    answer: fn(&Pages, &Request) -> Response,
}

const ROUTES: &[Route] = &[
    Route { path: "/", quick: true, answer: |_, _| to_start() },
    Route { path: "/healthz", quick: true, answer: |pages, _| probe(pages.unhealthy()) },
    Route { path: "/readyz", quick: true, answer: |pages, _| probe(pages.unready()) },
    Route { path: "/metrics", quick: false, answer: |pages, _| metrics::answer(pages) },
    Route { path: "/v1/stream", quick: true, answer: |_, _| to_start() },
    Route { path: "/v1/stream/", quick: true, answer: page::answer },
    Route { path: "/v1/stream/app.js", quick: true, answer: page::answer },
    Route { path: "/v1/stream/parts.js", quick: true, answer: page::answer },
    Route { path: "/v1/stream/records.js", quick: true, answer: page::answer },
    Route { path: "/v1/stream/views.js", quick: true, answer: page::answer },
    Route { path: "/v1/stream/style.css", quick: true, answer: page::answer },
    Route { path: "/v1/stream/icon.svg", quick: true, answer: page::answer },
    Route { path: "/v1/stream/threads", quick: true, answer: threads::answer },
    Route { path: "/v1/stream/status", quick: true, answer: |pages, _| told(Ok(status::tell(pages))) },
    Route { path: "/v1/stream/topics", quick: false, answer: |pages, request| told(topics::tell(pages, request)) },
    Route { path: "/v1/stream/groups", quick: false, answer: |pages, request| told(groups::tell(pages, request)) },
    Route { path: "/v1/stream/records", quick: false, answer: |pages, request| told(records::tell(pages, request)) },
];

/// No script and nothing else that is not ours, whatever stands in records and names.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

#[derive(Debug)]
pub struct AdminError {
    host: String,
    port: u16,
    why: std::io::Error,
}

impl fmt::Display for AdminError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AdminError { host, port, why } = self;
        write!(f, "--admin-host {host} --admin-port {port}: {why}; stop what has it, or choose another port")
    }
}

impl std::error::Error for AdminError {}

/// The running endpoints; they end soon after this is dropped.
pub struct Admin {
    front: Front,
    pages: Arc<Pages>,
}

/// What the answers are made from.
struct Pages {
    services: Arc<Services>,
    /// Where the store is, without passwords.
    store_address: String,
    started: Now,
    /// The gateway is on its way out: load balancers are to look elsewhere.
    stopping: AtomicBool,
    lag: lag::Lag,
    what_goes_on: WhatGoesOn,
}

/// Why a question is not answered.
enum Refusal {
    /// There is no such thing.
    Unknown(String),
    /// The question makes no sense.
    Bad(String),
    Forbidden(&'static str),
    Store(StoreError),
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Refusal::Store(error)
    }
}

impl From<LogError> for Refusal {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Store(error) => Refusal::Store(error),
            other => Refusal::Unknown(other.to_string()),
        }
    }
}

impl Admin {
    /// Takes the port, before anything is answered. Port 0 takes a free one.
    pub fn bind(host: &str, port: u16) -> Result<Vec<TcpListener>, AdminError> {
        listen::bind(host, port).map_err(|why| AdminError { host: host.to_owned(), port, why })
    }

    /// Answers.
    pub fn start(
        listeners: Vec<TcpListener>,
        services: Arc<Services>,
        store_address: &str,
        what_goes_on: WhatGoesOn,
    ) -> std::io::Result<Admin> {
        let started = services.clock.now();
        let pages = Arc::new(Pages {
            services,
            store_address: store_address.to_owned(),
            started,
            stopping: AtomicBool::new(false),
            lag: lag::Lag::default(),
            what_goes_on,
        });
        Ok(Admin { front: Front::start(listeners, pages.clone())?, pages })
    }

    pub fn address(&self) -> SocketAddr {
        self.front.address
    }

    /// From now on `/readyz` says no.
    pub fn set_stopping(&self) {
        self.pages.stopping.store(true, Ordering::Relaxed);
    }
}

impl Site for Pages {
    fn is_quick(&self, request: &Request) -> bool {
        !reads(request) || route(request).is_none_or(|route| route.quick)
    }

    fn answer(&self, request: &Request) -> Response {
        let response = match route(request) {
            None => refused(404, "there is nothing under this path"),
            Some(_) if !reads(request) => {
                refused(405, "only GET and HEAD").with_additional_header("Allow", "GET, HEAD")
            }
            Some(route) => (route.answer)(self, request),
        };
        response
            .with_unique_header("Cache-Control", "no-store")
            .with_unique_header("Content-Security-Policy", CONTENT_SECURITY_POLICY)
            .with_unique_header("X-Content-Type-Options", "nosniff")
            .with_unique_header("Referrer-Policy", "no-referrer")
    }

    fn panicked(&self) {
        self.services.metrics.panics.add_one();
        slog::error!(self.services.logger, "an admin request panicked");
    }
}

fn route(request: &Request) -> Option<&'static Route> {
    let path = request.url();
    ROUTES.iter().find(|route| route.path == path)
}

fn reads(request: &Request) -> bool {
    matches!(request.method(), "GET" | "HEAD")
}

impl Pages {
    fn unhealthy(&self) -> Option<&'static str> {
        (!self.services.store.info().connected).then_some("JetStream cannot be reached")
    }

    fn unready(&self) -> Option<&'static str> {
        if self.stopping.load(Ordering::Relaxed) { Some("shutting down") } else { self.unhealthy() }
    }

    /// By when the store must have answered what is asked for one answer.
    fn deadline(&self) -> Instant {
        self.services.clock.now().mono + ADMIN_STORE_MAX
    }
}

fn probe(trouble: Option<&'static str>) -> Response {
    match trouble {
        None => Response::text("ok\n"),
        Some(reason) => Response::text(format!("{reason}\n")).with_status_code(503),
    }
}

fn to_start() -> Response {
    Response::redirect_302("/v1/stream/")
}

fn told(answer: Result<Value, Refusal>) -> Response {
    match answer {
        Ok(value) => Response::json(&value),
        Err(Refusal::Unknown(what)) => refused(404, &what),
        Err(Refusal::Bad(why)) => refused(400, &why),
        Err(Refusal::Forbidden(why)) => refused(403, why),
        Err(Refusal::Store(error)) => refused(503, &error.to_string()),
    }
}

fn refused(status: u16, why: &str) -> Response {
    Response::json(&json!({ "error": why })).with_status_code(status)
}

#[cfg(test)]
mod tests;
