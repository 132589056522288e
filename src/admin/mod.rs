//! The admin HTTP endpoints (rouille): whether the gateway lives, and whether it can serve.

mod threads;

use crate::store::Store;
use rouille::{Request, Response};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
pub use threads::WhatGoesOn;

/// Probes are few and short.
const THREADS: usize = 4;

#[derive(Debug)]
pub struct AdminError {
    host: String,
    port: u16,
    why: String,
}

impl fmt::Display for AdminError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the admin endpoints cannot listen on {}:{}: {}", self.host, self.port, self.why)
    }
}

impl std::error::Error for AdminError {}

/// The running endpoints; they end some time after this is dropped.
pub struct Admin {
    address: SocketAddr,
    state: Arc<State>,
    _stop: mpsc::Sender<()>,
}

struct State {
    store: Arc<dyn Store>,
    what_goes_on: WhatGoesOn,
    /// The gateway is on its way out: load balancers are to look elsewhere.
    stopping: AtomicBool,
}

impl Admin {
    /// Listens and answers. Port 0 takes a free port.
    pub fn start(host: &str, port: u16, store: Arc<dyn Store>, what_goes_on: WhatGoesOn) -> Result<Admin, AdminError> {
        let state = Arc::new(State { store, what_goes_on, stopping: AtomicBool::new(false) });
        let answering = state.clone();
        let server = rouille::Server::new((host, port), move |request| answering.answer(request))
            .map_err(|error| AdminError { host: host.to_owned(), port, why: error.to_string() })?
            .pool_size(THREADS);
        let address = server.server_addr();
        let (_, stop) = server.stoppable();
        Ok(Admin { address, state, _stop: stop })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on `/readyz` says no.
    pub fn set_stopping(&self) {
        self.state.stopping.store(true, Ordering::Relaxed);
    }
}

impl State {
    fn answer(&self, request: &Request) -> Response {
        let trouble = match request.url().as_str() {
            "/healthz" => self.unhealthy(),
            "/readyz" if self.stopping.load(Ordering::Relaxed) => Some("shutting down"),
            "/readyz" => self.unhealthy(),
            "/v1/stream/threads" => return threads::answer(request, &self.what_goes_on),
            _ => return Response::text("not found\n").with_status_code(404),
        };
        if !matches!(request.method(), "GET" | "HEAD") {
            let refusal = Response::text("only GET and HEAD\n").with_status_code(405);
            return refusal.with_additional_header("Allow", "GET, HEAD");
        }
        match trouble {
            None => Response::text("ok\n"),
            Some(reason) => Response::text(format!("{reason}\n")).with_status_code(503),
        }
        .with_no_cache()
    }

    fn unhealthy(&self) -> Option<&'static str> {
        (!self.store.info().connected).then_some("JetStream cannot be reached")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::memory::{MemoryStore, Outage};
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Duration;

    fn ask(admin: &Admin, request: &str) -> (String, String) {
        let mut stream = TcpStream::connect(admin.address()).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout can be set");
        write!(stream, "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let status = head.split_whitespace().nth(1).expect("a status").to_owned();
        (status, body.to_owned())
    }

    #[track_caller]
    fn check(admin: &Admin, request: &str, status: &str, body: &str) {
        assert_eq!(ask(admin, request), (status.to_owned(), body.to_owned()), "{request}");
    }

    #[test]
    fn probes_tell_the_state_of_the_store_and_of_a_stop() {
        let store = Arc::new(MemoryStore::new());
        let admin = Admin::start("127.0.0.1", 0, store.clone(), Box::new(|| None)).expect("a free port");
        check(&admin, "GET /healthz", "200", "ok\n");
        check(&admin, "GET /readyz?verbose", "200", "ok\n");
        check(&admin, "HEAD /healthz", "200", "");
        check(&admin, "POST /healthz", "405", "only GET and HEAD\n");
        check(&admin, "GET /", "404", "not found\n");
        store.set_outage(Some(Outage::Unavailable));
        check(&admin, "GET /healthz", "503", "JetStream cannot be reached\n");
        check(&admin, "GET /readyz", "503", "JetStream cannot be reached\n");
        store.set_outage(None);
        admin.set_stopping();
        check(&admin, "GET /healthz", "200", "ok\n");
        check(&admin, "GET /readyz", "503", "shutting down\n");
    }

    #[test]
    fn a_taken_port_is_named() {
        let store = Arc::new(MemoryStore::new());
        let admin = Admin::start("127.0.0.1", 0, store.clone(), Box::new(|| None)).expect("a free port");
        let port = admin.address().port();
        let error =
            Admin::start("127.0.0.1", port, store, Box::new(|| None)).map(|_| ()).expect_err("the port is taken");
        assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
    }
}
