//! Giving way to gateways that never get to append.
//!
//! Who has just appended knows the tail and can go on at once. Who came too late has to read before it tries again, and comes
//! too late again for as long as the other one has something to append. So after a second time it says that it wants to
//! append, and the others wait until it has, or for a moment.

use crate::limits::{GIVE_WAY_MAX, LATE_MAX, LOAD_MAX};
use crate::log::partition::PartitionLog;
use slog::debug;
use std::sync::Arc;
use std::time::Instant;

#[derive(Default)]
pub(super) struct Way {
    /// How many times in a row our appends came too late.
    late: u32,
    /// When we began to wait for another gateway, if it has not appended since.
    gave: Option<Instant>,
}

impl Way {
    /// An append of ours came too late. Whether the others are to be asked for the way.
    pub fn came_late(&mut self) -> bool {
        self.late += 1;
        self.late >= LATE_MAX
    }

    /// An append of ours came in time.
    pub fn appended(&mut self) {
        self.late = 0;
    }

    /// Whether another gateway goes first.
    pub fn is_given(&self, now: Instant) -> bool {
        self.gave.is_some_and(|since| now < since + GIVE_WAY_MAX)
    }

    /// Another one wants to append. Not granted while we come too late ourselves, nor soon after it was of no use: who asks
    /// may come too late because of somebody who is no gateway.
    pub fn give(&mut self, now: Instant) -> bool {
        let is_granted = self.late == 0 && self.gave.is_none_or(|since| now >= since + 2 * GIVE_WAY_MAX);
        if is_granted {
            self.gave = Some(now);
        }
        is_granted
    }

    /// Another one has appended. Whether we waited for it.
    pub fn take_back(&mut self, now: Instant) -> bool {
        let waited = self.is_given(now);
        self.gave = None;
        waited
    }
}

impl PartitionLog {
    /// Another gateway wants to append.
    pub(super) fn give_way(self: &Arc<Self>) {
        let now = self.shared.now();
        if self.lock().way.give(now) {
            let log = self.clone();
            self.shared.tasks.spawn_at(now + GIVE_WAY_MAX, Box::new(move || log.pump()));
        }
    }

    /// Another gateway has appended: what waits for that goes on, behind what is there now.
    pub(super) fn take_way_back(self: &Arc<Self>) {
        {
            let mut state = self.lock();
            if !state.way.take_back(self.shared.now()) || !state.has_waiting() {
                return;
            }
        }
        let log = self.clone();
        self.shared.tasks.spawn(Box::new(move || {
            if let Err(error) = log.exact_view(log.shared.now() + LOAD_MAX) {
                debug!(log.shared.logger, "the end cannot be read yet"; "topic" => &log.topic, "error" => %error);
            }
            log.pump();
        }));
    }
}
