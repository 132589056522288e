//! The poller thread: connections that wait for their sockets cost no other thread.

use super::hub::{Hub, Stage};
use super::places::Cause;
use crate::limits::ACCEPT_PAUSE;
use crate::wake::WaiterId;
use polling::Events;
use slog::error;
use std::sync::atomic::Ordering;
use std::thread;

/// The thread's life: hands ready connections to the workers, until the server has ended.
pub(super) fn run(hub: &Hub) {
    let mut events = Events::new();
    while hub.stage() != Stage::Ended {
        hub.poller_rounds.fetch_add(1, Ordering::Relaxed);
        events.clear();
        if let Err(error) = hub.poller.wait(&mut events, None) {
            error!(hub.logger, "polling failed"; "error" => %error);
            thread::sleep(ACCEPT_PAUSE);
        }
        for event in events.iter() {
            hub.take_and_submit(WaiterId(event.key as u64), Cause::Socket);
        }
    }
}
