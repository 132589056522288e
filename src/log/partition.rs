//! One partition's log: its state, and what is told of it.

use crate::catalog::PartitionPlace;
use crate::limits::STORE_CALL_MAX;
use crate::log::append::{Flight, refuse_all};
use crate::log::cache::{Chain, PartitionKey};
use crate::log::end::{EndEntry, NewestTime};
use crate::log::index::{Boundary, Index};
use crate::log::producers::{ProducerSeen, Producers};
use crate::log::queue::Queue;
use crate::log::scan::Scan;
use crate::log::sent_back::SentBack;
use crate::log::way::Way;
use crate::log::{LogError, Shared};
use crate::records::batch::walk;
use crate::store::{Sequence, StoreError};
use crate::wake::WatchKey;
use crate::wire::Uuid;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

/// A partition's log. Cheap to keep: it learns its state from the store when it is first used.
pub struct PartitionLog {
    pub(super) key: PartitionKey,
    pub(super) topic: String,
    pub(super) place: PartitionPlace,
    pub(super) shared: Arc<Shared>,
    /// Protects the state. Never held over a store call: who needs the tail for that long takes it out (`Phase::Busy`).
    state: Mutex<State>,
    /// Told whenever the phase changes.
    pub(super) changed: Condvar,
    /// Whose turn it is to read older messages; see `read`.
    pub(super) reading: crate::log::turn::Turn,
}

pub(super) struct State {
    pub phase: Phase,
    /// When the phase began, by the machine's clock; of an undecided slot, when it was first published into.
    pub phase_since: Instant,
    /// How many wait for the tail: the next group lets them go first.
    pub borrowers: usize,
    /// Who waits for the tail lets the queue go first, which has waited through a loan.
    pub queue_is_next: bool,
    /// A load was asked for on behalf of the queue.
    pub load_asked: bool,
    /// The committed end. Of no meaning while the phase is Cold, or Busy (then its holder has it).
    pub tail: Tail,
    pub view: View,
    pub queue: Queue,
    pub sent_back: SentBack,
    pub way: Way,
    pub index: Index,
    pub end: EndBook,
    /// When the end was last made sure of by a message of its own.
    pub proved: Option<Instant>,
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
    /// No message from `first` on begins below this offset. Below the log start where only a part of a message's records
    /// was deleted.
    pub(super) first_base: i64,
    /// The last message that the watermark accounts for.
    pub(super) last: Sequence,
}

/// Where a log begins.
pub(super) struct Start {
    /// The first record's offset.
    pub offset: i64,
    /// Where the first message begins: not above it.
    pub base: i64,
}

impl View {
    /// Takes in where the log begins, with the stream's first sequence.
    pub(super) fn begin(&mut self, start: Start, first: Sequence) {
        self.log_start = self.log_start.max(start.offset);
        self.first = first;
        self.first_base = start.base.min(self.log_start);
    }
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

impl Tail {
    /// The end entry that is exact at this tail.
    pub fn end_entry(&self, ceiling: i64, log_start: i64) -> EndEntry {
        EndEntry {
            sequence: self.last,
            next_offset: self.next_offset,
            ceiling,
            log_start,
            newest_time: self.newest_time,
            producers: self.producers.clone(),
        }
    }
}

impl PartitionLog {
    pub(super) fn new(shared: Arc<Shared>, topic: String, key: PartitionKey, place: PartitionPlace) -> Self {
        let state = State {
            phase: Phase::Cold,
            phase_since: Instant::now(),
            borrowers: 0,
            queue_is_next: false,
            load_asked: false,
            tail: Tail::default(),
            view: View::default(),
            queue: Queue::default(),
            sent_back: SentBack::default(),
            way: Way::default(),
            index: Index::default(),
            end: EndBook::default(),
            proved: None,
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

    /// For people: `topic-0`.
    pub fn name(&self) -> String {
        format!("{}-{}", self.topic, self.key.1)
    }

    pub fn watch_key(&self) -> WatchKey {
        WatchKey::Partition { topic_id: self.key.0, index: self.key.1 }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    pub(super) fn set_phase(&self, state: &mut State, phase: Phase) {
        // A slot stays as long undecided as its attempts together take.
        if !matches!(phase, Phase::Deciding) {
            state.phase_since = Instant::now();
        }
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
        let certain = |state: &State| state.is_certain(self.shared.ticks.epoch());
        self.learn_end(deadline, certain)
    }

    /// The log's bounds for who wants the end: what another gateway has acknowledged counts, though its tick may be on its way.
    pub fn latest_view(self: &Arc<Self>, deadline: Instant) -> Result<View, LogError> {
        if self.shared.ticks.hears_others() { self.fresh_view(deadline) } else { self.exact_view(deadline) }
    }

    /// The log's bounds as the stream's leader knows them now, whatever is believed here.
    pub(super) fn fresh_view(self: &Arc<Self>, deadline: Instant) -> Result<View, LogError> {
        self.learn_end(deadline, |_| false)
    }

    fn learn_end(self: &Arc<Self>, deadline: Instant, enough: impl Fn(&State) -> bool) -> Result<View, LogError> {
        match self.with_tail_unless(deadline, &enough, |loan| loan.catch_up(deadline)) {
            // What was known is of no use any more: the load shows what there is.
            Err(LogError::Store(StoreError::WrongLast(_))) => {
                self.with_tail_unless(deadline, &enough, |loan| loan.catch_up(deadline))?;
            }
            done => {
                done?;
            }
        }
        Ok(self.lock().view)
    }

    /// The log's bounds with an exact start; on an emptied log start and end are the same.
    pub fn exact_start(self: &Arc<Self>, deadline: Instant) -> Result<View, LogError> {
        self.exact_view(deadline)?;
        self.refresh_start(deadline)
    }

    /// The producers that are remembered, by id, those of other gateways included.
    pub fn producers(self: &Arc<Self>, deadline: Instant) -> Result<Vec<ProducerSeen>, LogError> {
        self.exact_view(deadline)?;
        self.with_tail(deadline, |loan| Ok(loan.tail.producers.seen()))
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

    /// Another gateway's append ended here. Offsets grow along a stream: if this one does not fit, the store has lost what is
    /// taken for its end here, and what came instead must be learned anew.
    pub(super) fn check_against(self: &Arc<Self>, next_offset: i64, sequence: Sequence) {
        {
            let mut state = self.lock();
            let contradicts = sequence <= state.tail.last && next_offset > state.tail.next_offset;
            if !contradicts || !matches!(state.phase, Phase::Idle) {
                return;
            }
            self.set_phase(&mut state, Phase::Cold);
        }
        self.shared.cache.forget(self.key);
        self.pump();
    }

    /// Lets go: the topic was deleted or is another one now. Who waits is answered.
    pub fn end(&self) {
        let waiting = {
            let mut state = self.lock();
            state.gone = true;
            state.queue.take_all()
        };
        refuse_all(waiting, &LogError::Gone);
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

impl PartitionLog {
    /// The offset of the first record at or after `first` and not below `floor` (`end.offset` if there is none), and where the
    /// first message begins. `end` is the last message that is known to be stored, and the offset after it. None if nothing
    /// was found, but not as far as there: who answered does not know the newest messages.
    pub(super) fn find_start(
        &self,
        first: Sequence,
        floor: i64,
        end: Boundary,
        deadline: Instant,
    ) -> Result<Option<Start>, LogError> {
        let at = Boundary { offset: i64::MIN, sequence: first };
        let mut scan = Scan::new(&*self.shared.store, &self.place.stream, at).messages_max(1);
        let mut base = None;
        while let Some(counted) = scan.next(deadline).map_err(|error| self.lost(error))? {
            let base = *base.get_or_insert(counted.summary.base_offset);
            let mut batches = walk(&counted.chain.payload).flatten().map(|(header, _)| header);
            if let Some(header) = batches.find(|header| header.record_count > 0 && header.last_offset() >= floor) {
                return Ok(Some(Start { offset: header.base_offset.max(floor), base }));
            }
        }
        let is_empty = first > end.sequence || scan.last_seen() >= Some(end.sequence);
        Ok(is_empty.then_some(Start { offset: end.offset, base: base.unwrap_or(end.offset) }))
    }

    /// Looks whether retention has moved the log's start, by one request (and a read if it has).
    pub fn refresh_start(self: &Arc<Self>, deadline: Instant) -> Result<View, LogError> {
        let known = self.view(deadline)?;
        let by = deadline.min(self.shared.now() + STORE_CALL_MAX);
        let info = self.shared.store.stream_info(&self.place.stream, by).map_err(|error| self.lost(error))?;
        if info.state.first == known.first {
            return Ok(known);
        }
        let end = Boundary { offset: known.high_watermark, sequence: known.last };
        let start = self.find_start(info.state.first, known.log_start, end, deadline)?;
        let mut state = self.lock();
        if let Some(start) = start {
            state.view.begin(start, info.state.first);
        }
        Ok(state.view)
    }

    /// Another gateway told that the log begins here now.
    pub(super) fn start_moved(&self, log_start: i64) {
        let mut state = self.lock();
        if state.loaded() && log_start <= state.view.high_watermark {
            state.view.log_start = state.view.log_start.max(log_start);
        }
    }

    /// Turns a store error into ours; a missing stream ends the log. A cluster whose leader does not know all streams yet also
    /// says that one is missing, however few replicas it has: there it is the catalog that makes sure, and ends the log.
    pub(super) fn lost(&self, error: StoreError) -> LogError {
        match error {
            StoreError::NoStream if self.shared.store.info().may_deny(self.place.replicas) => {
                self.shared.stream_is_gone(&self.topic);
                LogError::Store(StoreError::Unavailable)
            }
            StoreError::NoStream => {
                self.end();
                self.shared.stream_is_gone(&self.topic);
                LogError::Gone
            }
            other => LogError::Store(other),
        }
    }

    /// Hands a chain that was just stored to readers.
    pub(super) fn show(&self, state: &mut State, chain: Chain, sequence: Sequence) {
        state.view.high_watermark = state.view.high_watermark.max(chain.next);
        state.view.last = sequence;
        state.index.add(Boundary { offset: chain.next, sequence: sequence.next() });
        self.shared.cache.put(self.key, chain);
    }
}
