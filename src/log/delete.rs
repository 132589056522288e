//! Deleting records: the log start moves, and JetStream's messages go as far as all of their records lie before it.
//!
//! First a mark is published into the stream: every gateway reads it as it reads the log, so that the start is as certain
//! as the end. Then the end entry keeps it, and only then are messages removed, the mark never (ADR 26).

use crate::limits::STORE_CALL_MAX;
use crate::log::index::Boundary;
use crate::log::partition::PartitionLog;
use crate::log::scan::{Place, Scan, Trust, locate};
use crate::log::{LogError, View, end, mark};
use crate::store::{Publish, Sequence, StoreError};
use slog::info;
use std::sync::Arc;
use std::time::Instant;

impl PartitionLog {
    /// Deletes the records before an offset (`None`: all) and gives the log start after that. An offset that is not within
    /// the log is `OutOfRange`; one at or below the log start changes nothing.
    pub fn delete_before(self: &Arc<Self>, before: Option<i64>, deadline: Instant) -> Result<i64, LogError> {
        let mut view = self.exact_start(deadline)?;
        if let Some(offset) = before.filter(|offset| *offset > view.high_watermark) {
            view = self.sure_view(offset, deadline)?;
        }
        let offset = before.unwrap_or(view.high_watermark);
        if offset < 0 || offset > view.high_watermark {
            return Err(LogError::OutOfRange(view));
        }
        if offset > view.log_start {
            let at = self.tell_start(offset, deadline)?;
            self.keep_start(deadline)?;
            self.remove_messages(offset, at, deadline)?;
            info!(self.shared.logger, "records deleted"; "topic" => &self.topic, "partition" => self.key.1,
                "before" => offset);
        } else if view.first_base < offset {
            // An earlier attempt may not have come to removing. What it told goes with what is removed.
            self.keep_start(deadline)?;
            self.remove_messages(offset, view.last.next(), deadline)?;
        }
        Ok(self.log_start())
    }

    /// Publishes the mark, and learns it; gives its place.
    fn tell_start(self: &Arc<Self>, log_start: i64, deadline: Instant) -> Result<Sequence, LogError> {
        let message = Publish {
            subject: self.place.subject.clone(),
            payload: mark::write(self.key.0, log_start),
            ..Publish::default()
        };
        let by = deadline.min(self.shared.now() + STORE_CALL_MAX);
        let ack = crate::store::publish(&*self.shared.store, message, by).map_err(|error| match error {
            // Nobody listens on the subject: JetStream is away, or the stream is.
            StoreError::Unavailable => self.missing_stream(by),
            other => self.lost(other),
        })?;
        let view = self.fresh_view(deadline)?;
        if view.log_start < log_start {
            return Err(LogError::Store(StoreError::NoAnswer));
        }
        self.shared.ticks.started(self.key, view.high_watermark, ack.sequence, log_start);
        Ok(ack.sequence)
    }

    fn missing_stream(&self, deadline: Instant) -> LogError {
        match self.shared.store.stream_info(&self.place.stream, deadline) {
            Err(error) => self.lost(error),
            Ok(_) => LogError::Store(StoreError::Unavailable),
        }
    }

    /// Writes the end entry, with the log start, before anything is removed.
    fn keep_start(self: &Arc<Self>, deadline: Instant) -> Result<(), LogError> {
        self.with_tail(deadline, |loan| {
            let (ceiling, View { log_start, .. }) = {
                let state = self.lock();
                (state.end.ceiling, state.view)
            };
            let entry = loan.tail.end_entry(ceiling, log_start);
            let by = deadline.min(self.shared.now() + STORE_CALL_MAX);
            end::write(&*self.shared.store, &end::key(self.key.0, self.key.1), &entry, by)?;
            Ok(())
        })
    }

    /// Removes the messages whose records all lie before `offset`, none of them at or after `below`.
    pub(super) fn remove_messages(
        self: &Arc<Self>,
        offset: i64,
        below: Sequence,
        deadline: Instant,
    ) -> Result<(), LogError> {
        let first = self.lock().view.first;
        let place = Place { store: &*self.shared.store, stream: &self.place.stream, first, deadline };
        let (low, high) = self.bounds(offset, false);
        let from = locate(&place, offset, (low, high), Trust::WalkBack).map_err(|error| self.lost(error))?;
        let keep = match self.first_holding(offset, from, deadline)? {
            Some(sequence) => sequence.min(below),
            // There is such a record: who answered does not know it yet.
            None if offset < self.lock().view.high_watermark => return Err(LogError::Store(StoreError::NoAnswer)),
            None => below,
        };
        let by = deadline.min(self.shared.now() + STORE_CALL_MAX);
        let info = self.shared.store.stream_info(&self.place.stream, by).map_err(|error| self.lost(error))?;
        let same = self.with_tail(deadline, |loan| Ok(loan.tail.created == info.created))?;
        if same && info.state.first < keep {
            self.shared.store.stream_purge(&self.place.stream, Some(keep), by).map_err(|error| self.lost(error))?;
        }
        self.refresh_start(deadline)?;
        Ok(())
    }

    /// The first message from a boundary on that holds records at or after `offset`.
    fn first_holding(&self, offset: i64, from: Boundary, deadline: Instant) -> Result<Option<Sequence>, LogError> {
        let mut scan = Scan::new(&*self.shared.store, &self.place.stream, from);
        while let Some(counted) = scan.next(deadline).map_err(|error| self.lost(error))? {
            if counted.chain.next > offset {
                return Ok(Some(counted.sequence));
            }
        }
        Ok(None)
    }
}
