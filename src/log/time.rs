//! Finding offsets by record time, for ListOffsets.

use crate::limits::STORE_CALL_MAX;
use crate::log::end::NewestTime;
use crate::log::index::Boundary;
use crate::log::partition::{PartitionLog, Phase};
use crate::log::scan::Scan;
use crate::log::{LogError, View};
use crate::records::batch::walk;
use crate::records::lookup::{OffsetAndTimestamp, first_at_or_after, max_timestamp};
use crate::store::StoreError;
use std::sync::Arc;
use std::time::Instant;

/// How far clocks of clients, gateways and the store may lie apart.
const CLOCK_SLACK_MS: i64 = 10 * 60 * 1000;

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeQuery {
    /// The record's time must not be below this, in milliseconds since the epoch.
    pub timestamp: i64,
    /// How far a record's time may lie after the time it was stored (`message.timestamp.after.max.ms`); what was stored
    /// before `timestamp` minus this need not be read.
    pub ahead_ms_max: i64,
}

impl PartitionLog {
    /// The first record, in the log's order, whose time is not below the one asked for.
    pub fn first_since(
        self: &Arc<Self>,
        query: TimeQuery,
        deadline: Instant,
    ) -> Result<Option<OffsetAndTimestamp>, LogError> {
        let view = self.exact_view(deadline)?;
        let view = if view.high_watermark > view.log_start { self.refresh_start(deadline)? } else { view };
        let mut from = Boundary { offset: view.first_base, sequence: view.first };
        let stored_since = query.timestamp.saturating_sub(query.ahead_ms_max).saturating_sub(CLOCK_SLACK_MS);
        if query.ahead_ms_max < i64::MAX && stored_since > 0 {
            let store = &self.shared.store;
            match store.message_stored_since(&self.place.stream, stored_since, deadline).map_err(|e| self.lost(e))? {
                Some(sequence) => from.sequence = from.sequence.max(sequence),
                None => return Ok(None),
            }
        }
        self.scan_batches(from, view, deadline, |header_time, batch| {
            if header_time < query.timestamp {
                return Ok(None);
            }
            first_at_or_after(batch, query.timestamp, view.log_start)
        })
    }

    /// The record with the greatest time (KIP-734); the first of them.
    pub fn newest(self: &Arc<Self>, deadline: Instant) -> Result<Option<OffsetAndTimestamp>, LogError> {
        self.exact_view(deadline)?;
        let view = self.refresh_start(deadline)?;
        let known = self.newest_time(deadline)?;
        if let Some(known) = known.filter(|known| known.base_offset >= view.log_start) {
            let read = self.read(known.base_offset, 1, true, deadline)?;
            let batch = read.records.first().and_then(|records| walk(records).flatten().next());
            if let Some((_, batch)) = batch {
                return max_timestamp(batch, view.log_start).map_err(damaged);
            }
        }
        let from = Boundary { offset: view.first_base, sequence: view.first };
        let mut newest: Option<OffsetAndTimestamp> = None;
        self.scan_batches(from, view, deadline, |header_time, batch| {
            if newest.is_none_or(|newest| header_time > newest.timestamp) {
                let found = max_timestamp(batch, view.log_start)?;
                newest = found.filter(|found| newest.is_none_or(|n| found.timestamp > n.timestamp)).or(newest);
            }
            Ok(None)
        })?;
        self.remember_newest(view, known, newest);
        Ok(newest)
    }

    /// The batch that was known is gone: without what was found instead, each question would read all there is.
    fn remember_newest(&self, view: View, known: Option<NewestTime>, found: Option<OffsetAndTimestamp>) {
        let mut state = self.lock();
        let held = matches!(state.phase, Phase::Cold | Phase::Busy);
        // Nothing was appended meanwhile whose time might not have been noted.
        if !held && state.tail.next_offset == view.high_watermark && state.tail.newest_time == known {
            state.tail.newest_time =
                found.map(|found| NewestTime { timestamp: found.timestamp, base_offset: found.offset });
        }
    }

    /// The batch that held the greatest time when the tail was last known; usually without waiting for who holds it.
    fn newest_time(self: &Arc<Self>, deadline: Instant) -> Result<Option<NewestTime>, LogError> {
        {
            let state = self.lock();
            if !matches!(state.phase, Phase::Cold | Phase::Busy) {
                return Ok(state.tail.newest_time);
            }
        }
        self.with_tail(deadline, |loan| Ok(loan.tail.newest_time))
    }

    /// Shows each batch below the watermark to `look`, with its greatest time, until it finds something.
    fn scan_batches(
        &self,
        from: Boundary,
        view: View,
        deadline: Instant,
        mut look: impl FnMut(i64, &[u8]) -> Result<Option<OffsetAndTimestamp>, crate::records::record::RecordFault>,
    ) -> Result<Option<OffsetAndTimestamp>, LogError> {
        let mut scan = Scan::new(&*self.shared.store, &self.place.stream, from);
        let step = || deadline.min(self.shared.now() + STORE_CALL_MAX);
        while let Some(counted) = scan.next(step()).map_err(|error| self.lost(error))? {
            if counted.summary.base_offset >= view.high_watermark {
                break;
            }
            for (header, batch) in walk(&counted.chain.payload).flatten() {
                if let Some(found) = look(header.max_timestamp, batch).map_err(damaged)? {
                    return Ok(Some(found));
                }
            }
            if self.shared.now() >= deadline {
                return Err(LogError::Store(StoreError::NoAnswer));
            }
        }
        Ok(None)
    }
}

fn damaged(fault: crate::records::record::RecordFault) -> LogError {
    LogError::Store(StoreError::Garbled(format!("a stored batch cannot be read: {fault}")))
}
