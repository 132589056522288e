//! The acceptor thread: takes new connections in, or turns them away.

use super::connection::{Connection, Interest};
use super::hub::{Hub, Stage};
use crate::limits::{ACCEPT_PAUSE, KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_PROBES, PEER_LOG_INTERVAL};
use crate::logging::Brake;
use polling::{Event, Events, Poller};
use slog::warn;
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

pub(super) struct Acceptor {
    pub listeners: Vec<TcpListener>,
    pub poller: Arc<Poller>,
    full_brake: Brake,
    failure_brake: Brake,
}

impl Acceptor {
    pub(super) fn new(listeners: Vec<TcpListener>) -> io::Result<Self> {
        let (full_brake, failure_brake) = (Brake::new(PEER_LOG_INTERVAL), Brake::new(PEER_LOG_INTERVAL));
        Ok(Acceptor { listeners, poller: Arc::new(Poller::new()?), full_brake, failure_brake })
    }

    /// The thread's life: accepts until the server drains; then the listeners are closed.
    pub(super) fn run(self, hub: &Arc<Hub>) {
        for (key, listener) in self.listeners.iter().enumerate() {
            // SAFETY: the listeners are deleted from the poller below, before they are dropped.
            if let Err(error) = unsafe { self.poller.add(listener, Event::readable(key)) } {
                warn!(hub.logger, "a listener cannot be watched"; "error" => %error);
            }
        }
        let mut events = Events::new();
        while hub.stage() == Stage::Serving {
            events.clear();
            if self.poller.wait(&mut events, None).is_err() {
                thread::sleep(ACCEPT_PAUSE);
            }
            for event in events.iter() {
                let Some(listener) = self.listeners.get(event.key) else { continue };
                self.accept_all(listener, hub);
                let _ = self.poller.modify(listener, Event::readable(event.key));
            }
        }
        for listener in &self.listeners {
            let _ = self.poller.delete(listener);
        }
    }

    fn accept_all(&self, listener: &TcpListener, hub: &Arc<Hub>) {
        while hub.stage() == Stage::Serving {
            match listener.accept() {
                Ok((stream, peer)) => self.admit(stream, peer, hub),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(error) => {
                    // Mostly: no file descriptor left. The listener stays readable, so without a rest this would spin.
                    if let Some(held_back) = self.failure_brake.pass(hub.clock.now().mono) {
                        warn!(hub.logger, "accept failed"; "error" => %error, "held_back" => held_back);
                    }
                    thread::sleep(ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    fn admit(&self, stream: TcpStream, peer: SocketAddr, hub: &Arc<Hub>) {
        let now = hub.clock.now().mono;
        if hub.places.len() >= hub.settings.max_connections {
            hub.metrics.connections_refused.add_one();
            if let Some(held_back) = self.full_brake.pass(now) {
                let max = hub.settings.max_connections;
                warn!(hub.logger, "too many connections, a new one is closed";
                    "peer" => %peer, "max_connections" => max, "held_back" => held_back);
            }
            return;
        }
        if prepare(&stream).is_err() {
            return;
        }
        let id = hub.next_id();
        let Ok(key) = usize::try_from(id.0) else { return };
        let mut connection = Box::new(Connection::new(hub.clone(), id, stream, peer, now));
        hub.metrics.connections_accepted.add_one();
        hub.metrics.connections_open.raise();
        hub.places.enter(id);
        let interest = Interest { read: true, write: false };
        // SAFETY: `Hub::close`, the one way a connection ends, deletes it from the poller before it is dropped.
        match unsafe { hub.poller.add(&connection.stream, Event::readable(key)) } {
            Ok(()) => connection.armed = Some(interest),
            Err(_) => return hub.close(connection, "not pollable"),
        }
        if let Some(connection) = hub.rest(connection, interest) {
            hub.submit(connection);
        }
    }
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL);
    SockRef::from(stream).set_tcp_keepalive(&keepalive.with_retries(KEEPALIVE_PROBES))
}
