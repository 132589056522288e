//! Handing groups over at a graceful stop: each is released by a write, so that others need not wait for our lease to end.

use super::cell::{Busy, Cell, Phase};
use super::record::{self, Label};
use super::{BUCKET, Groups};
use crate::protocol::error_code::ErrorCode;
use crate::store::{Publish, kv_message, publish_all};
use crate::wire::Uuid;
use slog::info;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often it is looked whether writes under way have ended, and how many times.
const LOOK_EVERY: Duration = Duration::from_millis(5);
const LOOKS_MAX: usize = 60;

impl Groups {
    pub(super) fn is_released(&self) -> bool {
        self.released.load(Ordering::SeqCst)
    }

    /// Gives up every group, for good: who waits is told to come again, and the groups are stored without an owner. What is
    /// being written gets a moment to end. Blocks, at most until `deadline`; a group that could not be released is free
    /// once our lease is given back.
    pub fn release_all(&self, deadline: Instant) {
        self.released.store(true, Ordering::SeqCst);
        let mut left: Vec<Arc<Cell>> = self.cells.lock().expect("no holder panics").values().cloned().collect();
        let total = left.len();
        let mut released = 0;
        for look in 1..=LOOKS_MAX {
            let mut notes = Vec::new();
            left.retain(|cell| !self.release(cell, look == LOOKS_MAX, &mut notes));
            released += publish_all(&*self.store, notes, deadline).iter().filter(|outcome| outcome.is_ok()).count();
            if left.is_empty() {
                break;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        if total > 0 {
            info!(self.logger, "groups are handed over"; "released" => released, "of" => total);
        }
    }

    /// Closes a cell; gives the write that releases its group, if there is one to be made. `false`: something is being
    /// written, and worth waiting for.
    fn release(&self, cell: &Arc<Cell>, hurry: bool, notes: &mut Vec<Publish>) -> bool {
        let mut inner = cell.lock();
        let is_busy = match &inner.phase {
            Phase::Ready(ready) => ready.busy.is_some() || self.offsets.is_committing(&cell.group),
            Phase::Loading => true,
            Phase::Closed => false,
        };
        if is_busy && !hurry {
            return false;
        }
        if let Phase::Ready(ready) = &inner.phase
            && !matches!(ready.busy, Some(Busy::Writing { .. } | Busy::Deleting))
        {
            let label = Label { owner: None, nonce: Uuid::random().to_string() };
            let value = record::encode(&ready.committed, &label);
            notes.push(kv_message(BUCKET, &cell.key, Some(value), ready.revision));
        }
        let left = self.fail_locked(cell, &mut inner);
        drop(inner);
        left.refuse(ErrorCode::NOT_COORDINATOR);
        true
    }
}
