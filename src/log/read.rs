//! Reading: whole batches from an offset on, from memory where they are new, from the store where they are not.

use crate::limits::READ_BYTES_MAX;
use crate::log::LogError;
use crate::log::cache::Chain;
use crate::log::index::Boundary;
use crate::log::partition::{PartitionLog, View};
use crate::log::scan::{Counted, Place, Scan, Trust, locate};
use crate::records::batch::walk;
use crate::store::{Sequence, StoreError};
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// The least that is asked of the store at once: the rest is read ahead.
const READ_AHEAD_BYTES: usize = 1024 * 1024;

/// What a read gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// Whole batches in order; each slice holds one or more.
    pub records: Vec<Bytes>,
    /// Their size together.
    pub bytes: usize,
    /// There is more, for which there was no room.
    pub is_cut: bool,
    /// The log's bounds after reading.
    pub view: View,
}

impl PartitionLog {
    /// Reads whole batches, beginning with the one that holds `offset` or the first after it, up to `bytes_max`; with
    /// `oversized`, the first batch comes whatever its size. At the end of the log there is nothing, and no error.
    pub fn read(
        self: &Arc<Self>,
        offset: i64,
        bytes_max: usize,
        oversized: bool,
        deadline: Instant,
    ) -> Result<Read, LogError> {
        let mut view = self.view(deadline)?;
        if offset >= view.high_watermark {
            view = self.exact_view(deadline)?;
        }
        if offset > view.high_watermark {
            // Told of by another gateway whose ticks have not come through: a client would start all over.
            view = self.sure_view(offset, deadline)?;
        }
        if offset < view.log_start || offset > view.high_watermark {
            return Err(LogError::OutOfRange(view));
        }
        let mut read = Read { records: Vec::new(), bytes: 0, is_cut: false, view };
        let mut at = offset;
        let mut empty = None;
        while at < view.high_watermark {
            let cached = self.shared.cache.get(self.key, at);
            let chains = match cached {
                Some(chain) => vec![chain],
                None if read.bytes > 0 && read.bytes + READ_AHEAD_BYTES / 16 > bytes_max => {
                    read.is_cut = true;
                    break;
                }
                None => match self.fill(at, bytes_max.saturating_sub(read.bytes), deadline) {
                    Ok(chains) => chains,
                    // What was found so far is an answer; the rest is asked for again.
                    Err(_) if read.bytes > 0 => break,
                    Err(error) => return Err(error),
                },
            };
            for chain in &chains {
                let whole = read.take(chain, at..view.high_watermark, bytes_max, oversized, &mut empty);
                at = chain.next;
                if !whole {
                    at = view.high_watermark;
                    break;
                }
            }
            if chains.is_empty() {
                break;
            }
        }
        if let (true, true, Some(batch)) = (read.records.is_empty(), oversized, empty) {
            read.bytes = batch.len();
            read.records.push(batch);
        }
        read.view = self.view(deadline)?;
        Ok(read)
    }

    /// Reads from the store what answers for `offset`, and some more. One reader at a time: the next one finds it in memory.
    fn fill(self: &Arc<Self>, offset: i64, bytes: usize, deadline: Instant) -> Result<Vec<Chain>, LogError> {
        let _turn = self.reading.take(deadline).ok_or(LogError::Store(StoreError::Busy))?;
        if let Some(chain) = self.shared.cache.peek(self.key, offset) {
            return Ok(vec![chain]);
        }
        let bytes = bytes.clamp(READ_AHEAD_BYTES, READ_BYTES_MAX);
        let first = self.lock().view.first;
        let place = Place { store: &*self.shared.store, stream: &self.place.stream, first, deadline };
        let (low, high) = self.bounds(offset, true);
        let from = locate(&place, offset, (low, high), Trust::Neighbours).map_err(|error| self.lost(error))?;
        let found = self.chains(from, offset, bytes, deadline)?;
        let chains = match found.first() {
            Some(first) if first.from == offset && self.begins_above(first, offset) => {
                self.over_the_gap(&place, offset, bytes)?
            }
            Some(_) => found,
            None => {
                let view = self.refresh_start(deadline)?;
                if offset < view.log_start {
                    return Err(LogError::OutOfRange(view));
                }
                found
            }
        };
        for chain in &chains {
            self.shared.cache.put(self.key, chain.clone());
        }
        Ok(chains)
    }

    fn begins_above(&self, chain: &Chain, offset: i64) -> bool {
        walk(&chain.payload).flatten().next().is_some_and(|(header, _)| header.base_offset > offset)
    }

    /// Nothing was found at `offset`, but something after it. Before that is told to a reader, who would never come back:
    /// has the log's start moved, and did a copied batch lead the search astray?
    fn over_the_gap(self: &Arc<Self>, place: &Place, offset: i64, bytes: usize) -> Result<Vec<Chain>, LogError> {
        let view = self.refresh_start(place.deadline)?;
        if offset < view.log_start {
            return Err(LogError::OutOfRange(view));
        }
        let (low, high) = self.bounds(offset, false);
        let from = locate(place, offset, (low, high), Trust::WalkBack).map_err(|error| self.lost(error))?;
        self.chains(from, offset, bytes, place.deadline)
    }

    /// Boundaries around `offset`: from the index, or only those that are beyond doubt.
    pub(super) fn bounds(&self, offset: i64, indexed: bool) -> (Boundary, Boundary) {
        let state = self.lock();
        let first = Boundary { offset: state.view.first_base.min(offset), sequence: state.view.first };
        let end = Boundary { offset: state.view.high_watermark, sequence: state.view.last.next() };
        if !indexed {
            return (first, end);
        }
        let low = state.index.below(offset).filter(|low| low.sequence > first.sequence).unwrap_or(first);
        (low, state.index.above(offset).unwrap_or(end))
    }

    /// The message that answers for `offset`, found from a boundary on, and those that continue it, as far as one read goes.
    fn chains(&self, from: Boundary, offset: i64, bytes: usize, deadline: Instant) -> Result<Vec<Chain>, LogError> {
        let mut scan = Scan::new(&*self.shared.store, &self.place.stream, from).bytes_max(bytes);
        let mut first = None;
        while first.is_none() {
            let counted = scan.next(deadline).map_err(|error| {
                // The next attempt begins where this one came to.
                self.lock().index.add(scan.position());
                self.lost(error)
            })?;
            let Some(counted) = counted else {
                return Ok(Vec::new());
            };
            first = Some(counted).filter(|counted| counted.chain.next > offset);
        }
        let mut chains: Vec<Chain> = Vec::new();
        let mut end = (from.offset, Sequence::default());
        let mut next = first;
        while let Some(Counted { sequence, mut chain, summary, .. }) = next {
            if !chains.is_empty() && summary.base_offset != end.0 {
                break;
            }
            // Whose the offsets before it are is only known for the one that was asked for.
            chain.from = summary.base_offset.min(if chains.is_empty() { offset } else { chain.from });
            end = (chain.next, sequence.next());
            chains.push(chain);
            next = scan.next_read();
        }
        self.lock().index.add(Boundary { offset: end.0, sequence: end.1 });
        Ok(chains)
    }
}

impl Read {
    /// Takes what fits of a chain and lies within `span`; whether all of it was taken. A store may give more than the
    /// watermark accounts for: what another gateway appended. Some clients stumble over a batch without records: one that
    /// begins a chain is left to `empty`, for the reader to whom nothing else can show where the log ends.
    fn take(
        &mut self,
        chain: &Chain,
        span: Range<i64>,
        bytes_max: usize,
        oversized: bool,
        empty: &mut Option<Bytes>,
    ) -> bool {
        let mut start = 0;
        let mut taken = 0..0;
        let mut whole = true;
        for (header, batch) in walk(&chain.payload).flatten() {
            let end = start + batch.len();
            if header.base_offset >= span.end {
                whole = false;
                break;
            }
            if header.last_offset() >= span.start && header.record_count == 0 && taken.is_empty() {
                *empty = Some(chain.payload.slice(start..end));
            } else if header.last_offset() >= span.start {
                let longer = if taken.is_empty() { start..end } else { taken.start..end };
                let first = self.bytes == 0 && taken.is_empty();
                if self.bytes + longer.len() > bytes_max && !(first && oversized) {
                    self.is_cut = true;
                    whole = false;
                    break;
                }
                taken = longer;
            }
            start = end;
        }
        if !taken.is_empty() {
            self.bytes += taken.len();
            self.records.push(chain.payload.slice(taken));
        }
        whole
    }
}
