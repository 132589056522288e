//! When and how a partition writes its end entry.

use crate::limits::{CEILING_STEP_OFFSETS, END_RETRY, STORE_CALL_MAX};
use crate::log::LogError;
use crate::log::end::{self, EndEntry};
use crate::log::partition::{PartitionLog, Phase};
use crate::store::StoreError;
use slog::debug;
use std::sync::Arc;
use std::time::Instant;

impl PartitionLog {
    /// Writes the end entry from what is committed, unless a write is under way. Runs on a worker. A ceiling that could
    /// not be raised is tried again until it is.
    pub(super) fn write_end(self: &Arc<Self>, raise: bool) {
        self.write_end_by(raise, self.shared.now() + STORE_CALL_MAX);
    }

    pub(super) fn write_end_by(self: &Arc<Self>, raise: bool, deadline: Instant) {
        let Some((entry, behind)) = self.begin_end_write(raise) else {
            return;
        };
        let written = end::write(&*self.shared.store, &end::key(self.key.0, self.key.1), &entry, deadline);
        {
            let mut state = self.lock();
            state.end.writing = false;
            match &written {
                Ok(ceiling) => {
                    state.end.ceiling = state.end.ceiling.max(*ceiling);
                    state.end.raising &= !raise;
                }
                Err(_) => {
                    state.end.messages += behind.0;
                    state.end.bytes += behind.1;
                }
            }
        }
        if let Err(error) = &written {
            debug!(self.shared.logger, "end entry not written"; "topic" => &self.topic, "error" => %error);
        }
        match written {
            Ok(_) => self.pump(),
            Err(error) if raise => {
                // Who waits for room below the ceiling is told that there is none in the store.
                if let StoreError::NoSpace(_) = error {
                    self.refuse_queue(&LogError::Store(error));
                }
                self.raise_later();
            }
            Err(_) => {}
        }
    }

    fn raise_later(self: &Arc<Self>) {
        let log = self.clone();
        self.shared.tasks.spawn_at(self.shared.now() + END_RETRY, Box::new(move || log.write_end(true)));
    }

    /// The entry to write, and the messages and bytes that it will catch up with.
    fn begin_end_write(self: &Arc<Self>, raise: bool) -> Option<(EndEntry, (u64, u64))> {
        let mut state = self.lock();
        if state.gone {
            return None;
        }
        if state.end.writing || !matches!(state.phase, Phase::Idle | Phase::InFlight(_)) {
            if raise {
                self.raise_later();
            }
            return None;
        }
        state.end.writing = true;
        let behind = (std::mem::take(&mut state.end.messages), std::mem::take(&mut state.end.bytes));
        // A batch of very many (compressed) records must fit below the ceiling too, or it would wait for ever.
        let step = if raise { CEILING_STEP_OFFSETS + state.queue.next_offsets() } else { 0 };
        let ceiling = state.end.ceiling.max(state.tail.next_offset + step);
        let entry = state.tail.end_entry(ceiling, state.view.log_start);
        Some((entry, behind))
    }
}
