//! Proof of where a replicated stream ends.
//!
//! What the leader says of it may be old news: a server that was deposed a moment ago does not know that yet, and one that was
//! just elected may not have applied all that is committed. That is good enough for what is then published under a
//! guard. But a gap that is told to a producer, an offset that is told to be out of range, and offsets that are given up
//! for lost have no guard. Before any of these a message of ours, which is no batch, is stored right at the tail: if the
//! server takes it there, nothing came before it.

use crate::limits::{GAP_PROOF_EVERY, LOAD_MAX, PROOF_EVERY, STORE_CALL_MAX, UNDECIDED_PAUSE_MIN};
use crate::log::LogError;
use crate::log::load::Loan;
use crate::log::partition::{PartitionLog, View};
use crate::store::{StoreError, publish};
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a person finds who looks into the stream.
const PROOF: &[u8] = b"the end of the log";

impl PartitionLog {
    /// Makes sure of the end before a gap is told to a producer: many take that for the end of the world.
    pub(super) fn look_for_gap(self: &Arc<Self>) {
        let deadline = self.shared.now() + LOAD_MAX;
        let proved = self.with_tail(deadline, |loan| {
            loan.catch_up(deadline)?;
            let refused = loan.log.lock().refuses_first(&loan.tail);
            if refused {
                loan.prove_end(GAP_PROOF_EVERY, deadline)?;
            }
            Ok(refused)
        });
        if let Err(LogError::Store(StoreError::Busy | StoreError::WrongLast(_))) = proved {
            let log = self.clone();
            let again = self.shared.now() + UNDECIDED_PAUSE_MIN;
            return self.shared.tasks.spawn_at(again, Box::new(move || log.look_for_gap()));
        }
        {
            let mut state = self.lock();
            let looked = state.queue.looking.take().unwrap_or(0);
            state.queue.looked = if proved == Ok(true) { looked } else { 0 };
        }
        match proved {
            Ok(_) => self.pump(),
            Err(error) => self.refuse_queue(&error),
        }
    }

    /// The log's bounds, and it is sure that they end at or below `offset` if they say so.
    pub(super) fn sure_view(self: &Arc<Self>, offset: i64, deadline: Instant) -> Result<View, LogError> {
        let look = || {
            self.with_tail(deadline, |loan| {
                loan.catch_up(deadline)?;
                if loan.tail.next_offset < offset { loan.prove_end(PROOF_EVERY, deadline) } else { Ok(()) }
            })
        };
        match look() {
            // What was known is of no use any more, or another one wrote just now.
            Err(LogError::Store(StoreError::WrongLast(_))) => look()?,
            done => done?,
        }
        Ok(self.lock().view)
    }
}

impl Loan {
    /// Makes sure that the tail is the stream's end, if that was not done less than `apart` ago. A stream with one replica ends
    /// where its server says.
    pub fn prove_end(&mut self, apart: Duration, deadline: Instant) -> Result<(), LogError> {
        let log = self.log.clone();
        if log.place.replicas <= 1 {
            return Ok(());
        }
        let now = log.shared.now();
        {
            let mut state = log.lock();
            if state.proved.is_some_and(|at| now.saturating_duration_since(at) < apart) {
                return Err(LogError::Store(StoreError::Busy));
            }
            state.proved = Some(now);
        }
        let message = log.shared.message(&log.place.subject, Bytes::from_static(PROOF), self.tail.last);
        let ack = publish(&*log.shared.store, message.publish, deadline.min(now + STORE_CALL_MAX));
        self.tail.last = ack.map_err(|error| log.lost(error))?.sequence;
        Ok(())
    }
}
