//! One partition's log: its state, and how the state is learned from the store.

use crate::catalog::PartitionPlace;
use crate::limits::{CEILING_STEP_OFFSETS, END_RETRY, LOAD_MAX, STORE_CALL_MAX};
use crate::log::append::{Flight, Queue};
use crate::log::cache::{Chain, PartitionKey};
use crate::log::end::{self, EndEntry, NewestTime};
use crate::log::index::{Boundary, Index};
use crate::log::producers::Producers;
use crate::log::scan::{Counted, Scan};
use crate::log::{LogError, Shared, marker};
use crate::records::batch::walk;
use crate::store::{Sequence, Store, StoreError, StreamInfo};
use crate::wake::WatchKey;
use crate::wire::Uuid;
use slog::{debug, error, info};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How often a load that another writer came before is tried again at once.
const LOAD_RETRIES_MAX: u32 = 3;

/// What the check of a stream's incarnation may take after a read that used up its time.
const INCARNATION_CHECK_MAX: Duration = Duration::from_secs(1);

/// A partition's log. Cheap to keep: it learns its state from the store when it is first used.
pub struct PartitionLog {
    pub(super) key: PartitionKey,
    pub(super) topic: String,
    pub(super) place: PartitionPlace,
    pub(super) shared: Arc<Shared>,
    /// Protects the state. Never held over a store call: who needs the tail for that long takes it out (`Phase::Busy`).
    state: Mutex<State>,
    /// Told whenever the phase changes.
    changed: Condvar,
    /// Whose turn it is to read older messages; see `read`.
    pub(super) reading: crate::log::turn::Turn,
}

pub(super) struct State {
    pub phase: Phase,
    /// The committed end. Of no meaning while the phase is Cold, or Busy (then its holder has it).
    pub tail: Tail,
    pub view: View,
    pub queue: Queue,
    pub index: Index,
    pub end: EndBook,
    /// The tick epoch in which the end was last known to be exact.
    pub certain_epoch: Option<u64>,
    /// Others told of messages up to this one.
    pub hinted: Sequence,
    /// The topic was deleted, or its stream is another topic's.
    pub gone: bool,
}

/// Who may change the tail now.
pub(super) enum Phase {
    /// Nothing is known.
    Cold,
    /// Someone has taken the tail out to learn from the store.
    Busy,
    Idle,
    /// A group was published and its outcome is awaited.
    InFlight(Flight),
    /// A group's slot is undecided and someone is finding out.
    Deciding,
}

/// The committed end of the log.
#[derive(Clone, Debug, Default)]
pub(super) struct Tail {
    /// Guards the next publish.
    pub last: Sequence,
    pub next_offset: i64,
    pub producers: Producers,
    pub newest_time: Option<NewestTime>,
    /// The stream's creation time: tells incarnations apart.
    pub created: String,
}

/// What clients are told. Survives while the tail is taken out. Neither number ever goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct View {
    pub log_start: i64,
    /// The next offset; nothing at or beyond it is readable.
    pub high_watermark: i64,
    /// The stream's first sequence when the log start was last looked at.
    pub(super) first: Sequence,
    /// The last message that the watermark accounts for.
    pub(super) last: Sequence,
}

/// How far the end entry in the store is behind.
#[derive(Debug, Default)]
pub(super) struct EndBook {
    pub ceiling: i64,
    pub writing: bool,
    /// A higher ceiling was asked for and is not there yet.
    pub raising: bool,
    pub messages: u64,
    pub bytes: u64,
    pub last_append: Option<Instant>,
    pub timer_set: bool,
}

impl PartitionLog {
    pub(super) fn new(shared: Arc<Shared>, topic: String, key: PartitionKey, place: PartitionPlace) -> Self {
        let state = State {
            phase: Phase::Cold,
            tail: Tail::default(),
            view: View::default(),
            queue: Queue::default(),
            index: Index::default(),
            end: EndBook::default(),
            certain_epoch: None,
            hinted: Sequence(0),
            gone: false,
        };
        PartitionLog {
            key,
            topic,
            place,
            shared,
            state: Mutex::new(state),
            changed: Condvar::new(),
            reading: Default::default(),
        }
    }

    pub fn topic_id(&self) -> Uuid {
        self.key.0
    }

    pub fn watch_key(&self) -> WatchKey {
        WatchKey::Partition { topic_id: self.key.0, index: self.key.1 }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    pub(super) fn set_phase(&self, state: &mut State, phase: Phase) {
        state.phase = phase;
        self.changed.notify_all();
    }

    pub(super) fn notify(&self) {
        self.shared.wakeups.notify(&self.watch_key());
    }

    /// The log's bounds as far as they are known here: exact if nobody else writes, never ahead of the truth.
    /// Reads the store only the first time.
    pub fn view(self: &Arc<Self>, deadline: Instant) -> Result<View, LogError> {
        {
            let state = self.lock();
            if state.gone {
                return Err(LogError::Gone);
            }
            if !matches!(state.phase, Phase::Cold) && state.loaded() {
                return Ok(state.view);
            }
        }
        self.with_tail(deadline, |_| Ok(()))?;
        Ok(self.lock().view)
    }

    /// The log's bounds with an exact end: where another gateway or a foreign publisher may have written, the stream is
    /// read once at its leader, shared by all who ask meanwhile.
    pub fn exact_view(self: &Arc<Self>, deadline: Instant) -> Result<View, LogError> {
        self.view(deadline)?;
        {
            let state = self.lock();
            if state.is_certain(self.shared.ticks.epoch()) {
                return Ok(state.view);
            }
        }
        match self.with_tail(deadline, |loan| loan.catch_up(deadline)) {
            // It is another incarnation of the stream: what it is shows when it is loaded.
            Err(LogError::Store(StoreError::WrongLast(_))) => {
                self.with_tail(deadline, |loan| loan.catch_up(deadline))?
            }
            done => done?,
        }
        Ok(self.lock().view)
    }

    /// The log's bounds with an exact start; on an emptied log start and end are the same.
    pub fn exact_start(self: &Arc<Self>, deadline: Instant) -> Result<View, LogError> {
        self.exact_view(deadline)?;
        self.refresh_start(deadline)
    }

    /// What is known without asking anybody; `None` before the log was first loaded.
    pub fn known_view(&self) -> Option<View> {
        let state = self.lock();
        state.loaded().then_some(state.view)
    }

    /// The log's start as far as it is known.
    pub fn log_start(&self) -> i64 {
        self.lock().view.log_start
    }

    /// Someone told of a message at `last`: if it is news, the end is no longer certain, and who waits looks again.
    pub fn hint(&self, last: Sequence) {
        {
            let mut state = self.lock();
            if last <= state.hinted || (last <= state.tail.last && !matches!(state.phase, Phase::Busy)) {
                return;
            }
            state.hinted = last;
        }
        self.notify();
    }

    /// Lets go: the topic was deleted or is another one now. Who waits is answered.
    pub fn end(&self) {
        let waiting = {
            let mut state = self.lock();
            state.gone = true;
            state.queue.take_all()
        };
        for append in waiting {
            append.promise.keep(Err(LogError::Gone));
        }
        self.shared.cache.forget(self.key);
        self.notify();
    }

    pub fn is_gone(&self) -> bool {
        self.lock().gone
    }

    /// Whether messages were appended that the end entry does not speak of.
    pub(super) fn end_is_behind(&self) -> bool {
        self.lock().end.messages > 0
    }

    /// Takes the tail out, loading it first if need be, and lets `work` learn from the store. Waits for whoever has it.
    pub(super) fn with_tail<T>(
        self: &Arc<Self>,
        deadline: Instant,
        work: impl FnOnce(&mut Loan) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let deadline = deadline.min(self.shared.now() + LOAD_MAX);
        let mut loan = self.borrow_tail(deadline)?;
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
        done
    }

    /// Without a tail nothing can be stamped: who waits is told why.
    fn refuse_queue(&self, error: &LogError) {
        let waiting = self.lock().queue.take_all();
        for append in waiting {
            append.promise.keep(Err(error.clone()));
        }
    }

    fn borrow_tail(self: &Arc<Self>, deadline: Instant) -> Result<Loan, LogError> {
        let mut state = self.lock();
        loop {
            if state.gone {
                return Err(LogError::Gone);
            }
            let cold = matches!(state.phase, Phase::Cold);
            if cold || matches!(state.phase, Phase::Idle) {
                state.phase = Phase::Busy;
                let epoch = self.shared.ticks.epoch();
                let tail = std::mem::take(&mut state.tail);
                let hinted = state.hinted;
                return Ok(Loan { log: self.clone(), tail, cold, epoch, caught_up: false, hinted });
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(LogError::Store(StoreError::NoAnswer));
            }
            state = self.changed.wait_timeout(state, left).expect("no holder panics").0;
        }
    }
}

impl State {
    /// The view has been set once.
    pub fn loaded(&self) -> bool {
        self.certain_epoch.is_some()
    }

    pub fn is_certain(&self, epoch: u64) -> bool {
        let held = matches!(self.phase, Phase::Busy | Phase::Deciding);
        !held && self.certain_epoch == Some(epoch) && self.hinted <= self.tail.last
    }
}

/// The tail, taken out. Dropping it puts it back; what was learned is then visible.
pub(super) struct Loan {
    pub log: Arc<PartitionLog>,
    pub tail: Tail,
    /// Not loaded (yet): put back as Cold.
    pub cold: bool,
    /// The tick epoch before anything was read.
    epoch: u64,
    caught_up: bool,
    /// What others had told of when the tail was taken.
    hinted: Sequence,
}

impl Drop for Loan {
    fn drop(&mut self) {
        let mut state = self.log.lock();
        let grown = self.tail.next_offset > state.view.high_watermark;
        if self.cold || std::thread::panicking() {
            self.log.set_phase(&mut state, Phase::Cold);
        } else {
            state.view.high_watermark = state.view.high_watermark.max(self.tail.next_offset);
            state.view.last = state.view.last.max(self.tail.last);
            state.tail = std::mem::take(&mut self.tail);
            if self.caught_up {
                state.certain_epoch = Some(self.epoch);
                // What was told of and is not there has come and gone.
                if state.hinted == self.hinted {
                    state.hinted = state.hinted.min(state.tail.last);
                }
            }
            self.log.set_phase(&mut state, Phase::Idle);
        }
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

    /// Learns what stands after the tail, as the stream's leader knows it. What was read before an error is kept: each
    /// attempt gets further, however much there is to step over.
    pub fn catch_up(&mut self, deadline: Instant) -> Result<(), LogError> {
        let log = self.log.clone();
        let at = Boundary { offset: self.tail.next_offset, sequence: self.tail.last.next() };
        let mut scan = Scan::new(&*log.shared.store, &log.place.stream, at);
        let read = loop {
            match scan.next(deadline) {
                Ok(Some(counted)) => self.learn(&counted),
                Ok(None) => break Ok(()),
                Err(error) => break Err(log.lost(error)),
            }
        };
        if let Some(last) = scan.last_seen() {
            // News may come from another incarnation of the stream, where our guard must never match.
            let by = deadline.max(log.shared.now() + INCARNATION_CHECK_MAX);
            let info = log.shared.store.stream_info(&log.place.stream, by).map_err(|error| log.lost(error));
            if info.as_ref().is_ok_and(|info| info.created == self.tail.created) {
                self.tail.last = self.tail.last.max(last);
            } else {
                self.cold = true;
                log.shared.cache.forget(log.key);
                return Err(info.err().unwrap_or(LogError::Store(StoreError::WrongLast(None))));
            }
        }
        read?;
        self.caught_up = true;
        Ok(())
    }

    /// Takes in a message that counts.
    pub fn learn(&mut self, counted: &Counted) {
        let chain = &counted.chain;
        if counted.summary.base_offset > self.tail.next_offset {
            self.tail.producers.missed_some();
        }
        for (header, _) in walk(&chain.payload).flatten() {
            self.tail.producers.learn(&header);
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
        let store = &*log.shared.store;
        let info = store.stream_info(&log.place.stream, deadline).map_err(|error| log.lost(error))?;
        if info.metadata(crate::catalog::TOPIC_ID_KEY).is_some_and(|id| id != log.key.0.to_string()) {
            return Err(LogError::Gone);
        }
        let end_key = end::key(log.key.0, log.key.1);
        let entry = end::read(store, log.shared.replicas, &end_key, deadline)?;
        let known = entry.clone().unwrap_or_default();
        let anchored = entry.is_some() && known.sequence <= info.state.last;
        self.tail = Tail {
            last: if anchored { known.sequence } else { Sequence(info.state.first.0.saturating_sub(1)) },
            next_offset: if anchored { known.next_offset } else { known.log_start },
            producers: known.producers.clone(),
            newest_time: known.newest_time,
            created: info.created.clone(),
        };
        log.lock().index.clear();
        let anchor = self.tail.last;
        if let Err(error) = self.catch_up(deadline) {
            if self.tail.last > anchor && anchored && self.tail.created == info.created {
                // The next load begins where this one came to.
                let _ = end::write(
                    store,
                    &end_key,
                    &self.end_entry(known.ceiling, known.log_start),
                    deadline.max(log.shared.now() + INCARNATION_CHECK_MAX),
                );
            }
            return Err(error);
        }
        let last = self.tail.last;
        self.tail.last = last.max(info.state.last);
        // The message at the very end was read, or the entry speaks of it, or nothing was ever given.
        let exact = last >= info.state.last || entry.is_none();
        if !exact || (entry.is_some() && !anchored) {
            self.jump(&info, &known, deadline)?;
        }
        let mut entry = self.end_entry(known.ceiling, known.log_start);
        if known.ceiling < self.tail.next_offset + CEILING_STEP_OFFSETS / 2 {
            entry.ceiling = self.tail.next_offset + CEILING_STEP_OFFSETS;
        }
        if entry != known {
            entry.ceiling = end::write(store, &end_key, &entry, deadline)?;
        }
        let mut state = log.lock();
        state.end.ceiling = entry.ceiling;
        drop(state);
        self.look_at_start(&info, known.log_start, deadline)?;
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
        end::write(self.store(), &end::key(log.key.0, log.key.1), &raised, deadline)?;
        info!(log.shared.logger, "log end unknown, offsets continue at the ceiling"; "topic" => &log.topic,
            "partition" => log.key.1, "next_offset" => target);
        let message = log.shared.message(&log.place.subject, marker(target - 1).into(), self.tail.last);
        match crate::store::publish(self.store(), message.publish, deadline) {
            Ok(ack) => {
                self.tail.last = ack.sequence;
                self.tail.next_offset = target;
                self.tail.producers.missed_some();
                Ok(())
            }
            // Someone else wrote: what stands there now is read by the next load.
            Err(error) => Err(log.lost(error)),
        }
    }

    /// The entry that would be exact now.
    pub fn end_entry(&self, ceiling: i64, log_start: i64) -> EndEntry {
        EndEntry {
            sequence: self.tail.last,
            next_offset: self.tail.next_offset,
            ceiling,
            log_start,
            newest_time: self.tail.newest_time,
            producers: self.tail.producers.clone(),
        }
    }

    /// Finds the first record that is still there.
    fn look_at_start(&mut self, info: &StreamInfo, floor: i64, deadline: Instant) -> Result<(), LogError> {
        let log = self.log.clone();
        let start = log.find_start(info.state.first, floor, self.tail.next_offset, deadline)?;
        let mut state = log.lock();
        state.view.log_start = state.view.log_start.max(start);
        state.view.first = info.state.first;
        state.view.high_watermark = state.view.high_watermark.max(self.tail.next_offset);
        Ok(())
    }
}

impl PartitionLog {
    /// The base of the first record at or after `first` and not below `floor`; `next_offset` if there is none.
    fn find_start(&self, first: Sequence, floor: i64, next_offset: i64, deadline: Instant) -> Result<i64, LogError> {
        let at = Boundary { offset: floor, sequence: first };
        let mut scan = Scan::new(&*self.shared.store, &self.place.stream, at).messages_max(1);
        while let Some(counted) = scan.next(deadline).map_err(|error| self.lost(error))? {
            let records = walk(&counted.chain.payload).flatten().find(|(header, _)| header.record_count > 0);
            if let Some((header, _)) = records {
                return Ok(header.base_offset);
            }
        }
        Ok(next_offset)
    }

    /// Looks whether retention has moved the log's start, by one request (and a read if it has).
    pub fn refresh_start(self: &Arc<Self>, deadline: Instant) -> Result<View, LogError> {
        let known = self.view(deadline)?;
        let info = self.shared.store.stream_info(&self.place.stream, deadline).map_err(|error| self.lost(error))?;
        if info.state.first == known.first {
            return Ok(known);
        }
        let start = self.find_start(info.state.first, known.log_start, known.high_watermark, deadline)?;
        let mut state = self.lock();
        state.view.log_start = state.view.log_start.max(start);
        state.view.first = info.state.first;
        Ok(state.view)
    }

    /// Turns a store error into ours; a missing stream ends the log.
    pub(super) fn lost(&self, error: StoreError) -> LogError {
        match error {
            StoreError::NoStream => {
                self.end();
                self.shared.stream_is_gone(&self.topic);
                LogError::Gone
            }
            other => LogError::Store(other),
        }
    }

    /// Writes the end entry from what is committed, unless a write is under way. Runs on a worker. A ceiling that could
    /// not be raised is tried again until it is.
    pub(super) fn write_end(self: &Arc<Self>, raise: bool) {
        let Some((entry, behind)) = self.begin_end_write(raise) else {
            return;
        };
        let deadline = self.shared.now() + STORE_CALL_MAX;
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
            Err(_) if raise => self.raise_later(),
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
        let step = if raise { CEILING_STEP_OFFSETS } else { 0 };
        let entry = EndEntry {
            sequence: state.tail.last,
            next_offset: state.tail.next_offset,
            ceiling: state.end.ceiling.max(state.tail.next_offset + step),
            log_start: state.view.log_start,
            newest_time: state.tail.newest_time,
            producers: state.tail.producers.clone(),
        };
        Some((entry, behind))
    }

    /// Hands a chain that was just stored to readers.
    pub(super) fn show(&self, state: &mut State, chain: Chain, sequence: Sequence) {
        state.view.high_watermark = state.view.high_watermark.max(chain.next);
        state.view.last = sequence;
        state.index.add(Boundary { offset: chain.next, sequence: sequence.next() });
        self.shared.cache.put(self.key, chain);
    }
}
