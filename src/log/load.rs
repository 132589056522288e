//! Learning from the store: the tail is taken out for that long, loaded if it is not known, and caught up.

use crate::limits::{CEILING_STEP_OFFSETS, LOAD_MAX, PROOF_EVERY, STORE_CALL_MAX};
use crate::log::append::refuse_all;
use crate::log::end::{self, EndEntry, NewestTime};
use crate::log::index::Boundary;
use crate::log::partition::{PartitionLog, Phase, State, Tail};
use crate::log::scan::{Counted, Scan};
use crate::log::{LogError, marker};
use crate::records::batch::walk;
use crate::store::{Sequence, Store, StoreError, StreamInfo};
use slog::{debug, error, info};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a load that another writer came before is tried again at once.
const LOAD_RETRIES_MAX: u32 = 3;

/// What the check of a stream's incarnation may take after a read that used up its time.
const INCARNATION_CHECK_MAX: Duration = Duration::from_secs(1);

/// The tail, taken out. Dropping it puts it back; what was learned is then visible.
pub(super) struct Loan {
    pub log: Arc<PartitionLog>,
    pub tail: Tail,
    /// Not loaded (yet): put back as Cold.
    pub cold: bool,
    /// The last message that was read, whether it counts or not.
    seen: Sequence,
    /// The tick epoch before anything was read.
    epoch: u64,
    caught_up: bool,
    /// What others had told of when the tail was taken.
    hinted: Sequence,
    /// The watermark when the tail was taken.
    watermark: i64,
}

/// Whether all that the tail must account for was there to be read.
#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    Exact,
    /// Messages between the tail and the stream's end are gone, and none that counts follows: offsets may have been
    /// given that can no longer be read.
    Lost,
}

impl PartitionLog {
    /// Takes the tail out, loading it first if need be, and lets `work` learn from the store. Waits for whoever has it.
    pub(super) fn with_tail<T>(
        self: &Arc<Self>,
        deadline: Instant,
        work: impl FnOnce(&mut Loan) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let given = self.with_tail_unless(deadline, |_| false, work)?;
        given.ok_or(LogError::Store(StoreError::NoAnswer))
    }

    /// As `with_tail`, but if `enough` holds at first or while waiting, nothing is done: others have done it.
    pub(super) fn with_tail_unless<T>(
        self: &Arc<Self>,
        deadline: Instant,
        enough: impl Fn(&State) -> bool,
        work: impl FnOnce(&mut Loan) -> Result<T, LogError>,
    ) -> Result<Option<T>, LogError> {
        let deadline = deadline.min(self.shared.now() + LOAD_MAX);
        let Some(mut loan) = self.borrow_tail(deadline, enough)? else {
            return Ok(None);
        };
        let mut done = if loan.cold { loan.load(deadline) } else { Ok(()) };
        for _ in 0..LOAD_RETRIES_MAX {
            if matches!(done, Err(LogError::Store(StoreError::WrongLast(_)))) {
                done = loan.load(deadline);
            }
        }
        let unloaded = loan.cold;
        let done = done.and_then(|()| work(&mut loan));
        if matches!(done, Err(LogError::Gone)) {
            self.end();
        }
        drop(loan);
        match &done {
            Err(error) if unloaded => self.refuse_queue(error),
            _ => self.pump(),
        }
        done.map(Some)
    }

    /// Waits for the tail, but not for one that has been held for long: a store that hangs must not hold every worker.
    fn borrow_tail(
        self: &Arc<Self>,
        deadline: Instant,
        enough: impl Fn(&State) -> bool,
    ) -> Result<Option<Loan>, LogError> {
        let mut state = self.lock();
        let mut waited = false;
        let got = loop {
            if state.gone {
                break Err(LogError::Gone);
            }
            if enough(&state) {
                break Ok(None);
            }
            let cold = matches!(state.phase, Phase::Cold);
            if cold || (matches!(state.phase, Phase::Idle) && !state.queue_is_next) {
                self.set_phase(&mut state, Phase::Busy);
                break Ok(Some(Loan {
                    log: self.clone(),
                    tail: std::mem::take(&mut state.tail),
                    cold,
                    seen: Sequence(0),
                    epoch: self.shared.ticks.epoch(),
                    caught_up: false,
                    hinted: state.hinted,
                    watermark: state.view.high_watermark,
                }));
            }
            let now = Instant::now();
            if now >= deadline {
                break Err(LogError::Store(StoreError::NoAnswer));
            }
            let left = (state.phase_since + self.shared.tail_held_max).saturating_duration_since(now);
            if left.is_zero() {
                break Err(LogError::Store(StoreError::Busy));
            }
            waited = true;
            state.borrowers += 1;
            state = self.changed.wait_timeout(state, left.min(deadline - now)).expect("no holder panics").0;
            state.borrowers -= 1;
        };
        drop(state);
        if waited && !matches!(got, Ok(Some(_))) {
            // What is queued gave us precedence.
            self.pump();
        }
        got
    }

    /// Without a tail nothing can be stamped: who waits is told why.
    pub(super) fn refuse_queue(&self, error: &LogError) {
        let waiting = {
            let mut state = self.lock();
            let waiting = state.queue.take_all();
            state.sent_back.note(&waiting);
            waiting
        };
        refuse_all(waiting, error);
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let mut state = self.log.lock();
        if self.cold || std::thread::panicking() {
            self.log.set_phase(&mut state, Phase::Cold);
        } else {
            state.view.high_watermark = state.view.high_watermark.max(self.tail.next_offset);
            state.view.last = state.view.last.max(self.tail.last);
            state.tail = std::mem::take(&mut self.tail);
            if self.caught_up {
                state.certain_epoch = Some(self.epoch);
                // What was told of and is not there is of another incarnation.
                if state.hinted == self.hinted {
                    state.hinted = state.hinted.min(state.tail.last);
                }
            }
            // What is queued gave way to this loan, but not to all that may follow.
            state.queue_is_next = state.borrowers > 0 && state.has_waiting();
            self.log.set_phase(&mut state, Phase::Idle);
        }
        let grown = state.view.high_watermark > self.watermark;
        drop(state);
        if grown {
            self.log.notify();
        }
    }
}

impl Loan {
    fn store(&self) -> &dyn Store {
        &*self.log.shared.store
    }

    fn info(&self, deadline: Instant) -> Result<StreamInfo, LogError> {
        let log = &self.log;
        let by = deadline.min(log.shared.now() + STORE_CALL_MAX);
        log.shared.store.stream_info(&log.place.stream, by).map_err(|error| log.lost(error))
    }

    /// Learns what stands after the tail, as the stream's leader knows it. What was read before an error is kept: each
    /// attempt gets further, however much there is to step over.
    pub fn catch_up(&mut self, deadline: Instant) -> Result<(), LogError> {
        let info = self.info(deadline)?;
        match self.learn_up_to(&info, self.hinted, deadline)? {
            End::Exact => Ok(()),
            // Only the end entry knows how far others came.
            End::Lost => Err(self.forget()),
        }
    }

    /// What is known is of no use any more: it must be loaded anew.
    fn forget(&mut self) -> LogError {
        self.cold = true;
        self.caught_up = false;
        LogError::Store(StoreError::WrongLast(None))
    }

    /// Reads from the tail to the end that `info` tells of, and to `known` if that is further on and there.
    fn learn_up_to(&mut self, info: &StreamInfo, known: Sequence, deadline: Instant) -> Result<End, LogError> {
        let log = self.log.clone();
        // The only server of a stream does not end it before what it has acknowledged, unless it has lost that.
        let has_lost = log.place.replicas <= 1 && info.state.last < self.tail.last;
        if info.created != self.tail.created || has_lost {
            log.shared.cache.forget(log.key);
            return Err(self.forget());
        }
        let (began, upto) = (self.tail.last, info.state.last.max(known));
        if upto <= began {
            self.caught_up = true;
            return Ok(End::Exact);
        }
        let at = Boundary { offset: self.tail.next_offset, sequence: began.next() };
        let mut scan = Scan::new(&*log.shared.store, &log.place.stream, at).with_start_of(log.key.0);
        let mut gap = false;
        let read = loop {
            match scan.next_up_to(upto, deadline) {
                Ok(Some(counted)) => {
                    gap |= counted.after_gap;
                    self.learn(&counted);
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(log.lost(error)),
            }
        };
        if scan.last_seen().is_some() {
            // News may come from another incarnation of the stream, where our guard must never match.
            let checked = self.info(deadline.max(log.shared.now() + INCARNATION_CHECK_MAX));
            if !checked.as_ref().is_ok_and(|now| now.created == info.created) {
                log.shared.cache.forget(log.key);
                let error = self.forget();
                return Err(checked.err().unwrap_or(error));
            }
        }
        self.seen = scan.last_seen().unwrap_or(self.seen);
        // Where messages are missing, only one that counts tells how far the offsets went.
        let sure = scan.complete_since_counted();
        if sure {
            self.tail.last = self.tail.last.max(scan.last_seen().unwrap_or(began));
        }
        self.learn_start(scan.log_start());
        read?;
        if !sure || self.tail.last < info.state.last {
            return Ok(End::Lost);
        }
        if gap {
            // What is missing may have told that the log begins further on.
            let by = deadline.min(log.shared.now() + STORE_CALL_MAX);
            let entry = end::read(self.store(), log.shared.replicas, &end::key(log.key.0, log.key.1), by)?;
            self.learn_start(entry.map(|entry| entry.log_start));
        }
        self.caught_up = true;
        Ok(End::Exact)
    }

    /// Before offsets are given up for lost: who said that nothing can be read may not know yet what others do. Once a
    /// message of ours stands at the end, whoever gives that has all that is before it.
    fn learn_for_sure(&mut self, info: &StreamInfo, deadline: Instant) -> Result<End, LogError> {
        if self.log.place.replicas <= 1 {
            return Ok(End::Lost);
        }
        let learned = self.tail.last;
        self.tail.last = learned.max(info.state.last);
        let proof = self.prove_end(PROOF_EVERY, deadline).map(|()| self.tail.last);
        self.tail.last = learned;
        let (proof, info) = (proof?, self.info(deadline)?);
        match self.learn_up_to(&info, proof, deadline)? {
            End::Lost if self.seen < proof => return Err(LogError::Store(StoreError::NoAnswer)),
            End::Lost => {}
            End::Exact => return Ok(End::Exact),
        }
        self.tail.last = self.tail.last.max(self.seen);
        Ok(End::Lost)
    }

    /// Takes in that the log begins at this offset.
    fn learn_start(&mut self, log_start: Option<i64>) {
        if let Some(log_start) = log_start {
            let mut state = self.log.lock();
            state.view.log_start = state.view.log_start.max(log_start);
        }
    }

    /// Takes in a message that counts.
    pub fn learn(&mut self, counted: &Counted) {
        let chain = &counted.chain;
        if counted.after_gap {
            self.tail.producers.loosen();
        }
        for (header, _) in walk(&chain.payload).flatten() {
            self.tail.producers.learn(&header);
            if header.has_producer() {
                self.log.lock().sent_back.stands(&header);
            }
            if header.record_count > 0 {
                NewestTime::note(&mut self.tail.newest_time, header.max_timestamp, header.base_offset);
            }
        }
        self.tail.last = counted.sequence;
        self.tail.next_offset = chain.next;
        self.log.shared.cache.put(self.log.key, chain.clone());
        self.log.lock().index.add(Boundary { offset: chain.next, sequence: counted.sequence.next() });
    }

    /// Learns everything: the stream, the end entry beside it, and what follows the entry's anchor.
    pub fn load(&mut self, deadline: Instant) -> Result<(), LogError> {
        let log = self.log.clone();
        self.cold = true;
        let info = self.info(deadline)?;
        if info.metadata(crate::catalog::TOPIC_ID_KEY).is_some_and(|id| id != log.key.0.to_string()) {
            return Err(LogError::Gone);
        }
        let end_key = end::key(log.key.0, log.key.1);
        let by = || deadline.min(log.shared.now() + STORE_CALL_MAX);
        let entry = end::read(self.store(), log.shared.replicas, &end_key, by())?;
        let known = entry.clone().unwrap_or_default();
        let before_first = Sequence(info.state.first.0.saturating_sub(1));
        // An entry beyond the end is right about the offset all the same: what counts again begins there.
        let anchor = if entry.is_some() { known.sequence.min(info.state.last) } else { before_first };
        self.tail = Tail {
            last: anchor,
            next_offset: known.next_offset,
            producers: known.producers.clone(),
            newest_time: known.newest_time,
            created: info.created.clone(),
        };
        log.lock().index.clear();
        // Where there is an entry after all, nothing that was made of its absence is worth anything.
        let as_read = |stored: Option<&EndEntry>| stored.is_none() || entry.is_some();
        let learned = self.learn_up_to(&info, known.sequence, deadline).and_then(|end| match end {
            End::Lost if entry.is_some() => self.learn_for_sure(&info, deadline),
            end => Ok(end),
        });
        let end = match learned {
            Ok(end) => end,
            Err(error) => {
                if self.tail.last > anchor && self.tail.created == info.created {
                    // The next load begins where this one came to.
                    let reached = self.tail.end_entry(known.ceiling, known.log_start);
                    let by = deadline.max(log.shared.now() + INCARNATION_CHECK_MAX);
                    let _ = end::write_onto(self.store(), &end_key, as_read, &reached, by);
                }
                return Err(error);
            }
        };
        self.tail.last = self.tail.last.max(info.state.last);
        // Who said that the stream ends before the entry may not have known better: what was read since decides.
        let short = self.tail.last < known.sequence;
        // Without an entry nothing was ever given.
        if entry.is_some() && (end == End::Lost || short) {
            self.jump(&info, &known, deadline)?;
        }
        self.caught_up = true;
        let log_start = known.log_start.max(log.lock().view.log_start);
        let mut reached = self.tail.end_entry(known.ceiling, log_start);
        if known.ceiling < self.tail.next_offset + CEILING_STEP_OFFSETS / 2 {
            reached.ceiling = self.tail.next_offset + CEILING_STEP_OFFSETS;
        }
        if reached != known {
            reached.ceiling = match end::write_onto(self.store(), &end_key, as_read, &reached, by()) {
                // What a full store holds can be read. Appends wait below the ceiling that stands.
                Err(StoreError::NoSpace(_)) => known.ceiling,
                written => written?,
            };
        }
        let mut state = log.lock();
        state.end.ceiling = reached.ceiling;
        drop(state);
        self.look_at_start(&info, log_start, deadline)?;
        self.cold = false;
        debug!(log.shared.logger, "log loaded"; "topic" => &log.topic, "partition" => log.key.1,
            "next_offset" => self.tail.next_offset, "last_sequence" => self.tail.last.0);
        Ok(())
    }

    /// The end cannot be read: what stood there is gone. Offsets go on at the ceiling, below which all that were ever
    /// given lie; an empty batch in the stream makes that known to every gateway, whatever it remembers.
    fn jump(&mut self, info: &StreamInfo, known: &EndEntry, deadline: Instant) -> Result<(), LogError> {
        let log = self.log.clone();
        if info.state.last < known.sequence {
            error!(log.shared.logger, "the store lost messages of a partition"; "topic" => &log.topic,
                "partition" => log.key.1, "known_sequence" => known.sequence.0, "found_sequence" => info.state.last.0);
        }
        let target = known.ceiling.max(self.tail.next_offset);
        let raised = EndEntry { ceiling: target + CEILING_STEP_OFFSETS, ..known.clone() };
        let by = || deadline.min(log.shared.now() + STORE_CALL_MAX);
        // Below a ceiling that is higher than the one that was read, offsets may have been given.
        let as_read = |stored: Option<&EndEntry>| stored.is_some_and(|stored| stored.ceiling == known.ceiling);
        end::write_onto(self.store(), &end::key(log.key.0, log.key.1), as_read, &raised, by())?;
        info!(log.shared.logger, "log end unknown, offsets continue at the ceiling"; "topic" => &log.topic,
            "partition" => log.key.1, "next_offset" => target);
        let message = log.shared.message(&log.place.subject, marker(target - 1).into(), self.tail.last);
        match crate::store::publish(self.store(), message.publish, by()) {
            Ok(ack) => {
                self.tail.last = ack.sequence;
                self.tail.next_offset = target;
                self.tail.producers.loosen();
                Ok(())
            }
            // Someone else wrote: what stands there now is read by the next load.
            Err(error) => Err(log.lost(error)),
        }
    }

    /// Finds the first record that is still there.
    fn look_at_start(&mut self, info: &StreamInfo, floor: i64, deadline: Instant) -> Result<(), LogError> {
        let log = self.log.clone();
        let end = Boundary { offset: self.tail.next_offset, sequence: self.tail.last };
        let start = log.find_start(info.state.first, floor, end, deadline)?;
        let mut state = log.lock();
        match start {
            Some(start) => state.view.begin(start, info.state.first),
            // The next look finds it.
            None => state.view.log_start = state.view.log_start.max(floor),
        }
        state.view.high_watermark = state.view.high_watermark.max(self.tail.next_offset);
        Ok(())
    }
}
