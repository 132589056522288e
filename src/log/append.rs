//! Appending: one commit in flight per partition, group commit under a guard.
//!
//! What is queued when no publish is in flight is checked, stamped and published as one message that only fits right
//! after the tail. An ack commits it. A guard that did not match, or no answer, leaves the slot after the tail
//! *undecided* until an ack or a message read there decides; until then the partition publishes nothing else.

use crate::limits::{
    APPEND_QUEUE_BYTES_MAX, CEILING_STEP_OFFSETS, END_ENTRY_BYTES_MAX, END_ENTRY_MESSAGES_MAX, END_QUIET,
    GROUP_BYTES_MAX, LOAD_MAX, STORE_CALL_MAX, UNDECIDED_PAUSE_MAX, UNDECIDED_PAUSE_MIN,
};
use crate::log::cache::Chain;
use crate::log::end::NewestTime;
use crate::log::partition::{PartitionLog, Phase, State, Tail};
use crate::log::producers::{Overlay, Verdict};
use crate::log::sent_back::SentBack;
use crate::log::{Appended, LogError, Outgoing};
use crate::promise::Promise;
use crate::protocol::error_code::ErrorCode;
use crate::records::batch::{BatchHeader, set_append_time, stamp};
use crate::store::{From, Pick, PubAck, Sequence, StoreError, StoreResult};
use bytes::Bytes;
use slog::{debug, warn};
use std::sync::Arc;
use std::time::Instant;

/// Room left for the NATS headers in a message of max_payload.
const MESSAGE_HEADER_BYTES: usize = 512;

/// A batch on its way into the log.
pub struct Append {
    /// One validated batch.
    pub batch: Bytes,
    pub header: BatchHeader,
    /// If it is not stamped by then, it leaves the queue.
    pub deadline: Instant,
    pub promise: Promise<Result<Appended, LogError>>,
}

/// A published group whose outcome is not known yet.
pub(super) struct Flight {
    message: Outgoing,
    members: Vec<Member>,
    from: i64,
    next: i64,
    /// The tick epoch before it was published.
    epoch: u64,
    attempts: u32,
    /// An attempt may have reached the server.
    may_be_stored: bool,
}

struct Member {
    append: Append,
    appended: Appended,
    /// The stamped header; none for the repeat of another member.
    stamped: Option<BatchHeader>,
}

/// What a look at the queue came to.
struct Formed {
    settled: Vec<(Append, Result<Appended, LogError>)>,
    publish: Option<Outgoing>,
    load: bool,
    raise: bool,
    look: bool,
}

impl State {
    pub(super) fn has_waiting(&self) -> bool {
        !self.queue.waiting.is_empty()
    }

    /// Whether the first batch that waits would be refused at this tail.
    pub(super) fn refuses_first(&self, tail: &Tail) -> bool {
        let first = self.queue.waiting.front();
        let verdict = first.map(|append| verdict(&self.sent_back, &Overlay::new(&tail.producers), &append.header));
        matches!(verdict, Some(Verdict::Refuse(_)))
    }
}

impl PartitionLog {
    /// Queues a batch. Never blocks: the promise is kept when its group is decided, or earlier if it is refused.
    pub fn append(self: &Arc<Self>, append: Append) {
        let refused = {
            let mut state = self.lock();
            if state.gone {
                Some((append, LogError::Gone))
            } else if append.batch.len() + MESSAGE_HEADER_BYTES > self.shared.max_payload() {
                Some((append, LogError::TooLarge))
            } else if state.queue.bytes + append.batch.len() > APPEND_QUEUE_BYTES_MAX.max(append.batch.len()) {
                state.sent_back.note([&append]);
                Some((append, LogError::Store(StoreError::Busy)))
            } else {
                state.queue.push(append);
                None
            }
        };
        match refused {
            Some((append, error)) => append.promise.keep(Err(error)),
            None => self.pump(),
        }
    }

    /// Publishes the next group if nothing is in flight and something is queued.
    pub(super) fn pump(self: &Arc<Self>) {
        let formed = {
            let mut state = self.lock();
            self.form(&mut state)
        };
        for (append, result) in formed.settled {
            append.promise.keep(result);
        }
        if formed.load {
            let log = self.clone();
            self.shared.tasks.spawn(Box::new(move || log.load_for_queue()));
        }
        if formed.look {
            let log = self.clone();
            self.shared.tasks.spawn(Box::new(move || log.look_for_gap()));
        }
        if formed.raise {
            let log = self.clone();
            self.shared.tasks.spawn(Box::new(move || log.write_end(true)));
        }
        if let Some(message) = formed.publish {
            self.send(message);
        }
    }

    fn send(self: &Arc<Self>, message: Outgoing) {
        let log = self.clone();
        let deadline = self.shared.now() + STORE_CALL_MAX;
        self.shared.store.publish_begin(message.publish, deadline, Box::new(move |outcome| log.decided(outcome)));
    }

    fn form(&self, state: &mut State) -> Formed {
        let mut formed = Formed { settled: Vec::new(), publish: None, load: false, raise: false, look: false };
        let expired = state.queue.take_expired(self.shared.now());
        state.sent_back.note(&expired);
        formed.settled.extend(expired.into_iter().map(|append| (append, Err(LogError::Store(StoreError::NoAnswer)))));
        match state.phase {
            Phase::Cold => {
                formed.load = state.has_waiting() && !state.load_asked;
                state.load_asked |= formed.load;
            }
            Phase::Idle => {
                let is_next = std::mem::take(&mut state.queue_is_next);
                if (is_next || state.borrowers == 0) && !state.way.is_given(self.shared.now()) {
                    self.stamp_group(state, &mut formed);
                }
                if is_next {
                    self.changed.notify_all();
                }
            }
            Phase::Busy | Phase::InFlight(_) | Phase::Deciding => {}
        }
        formed
    }

    /// Checks and stamps what is queued, in order, up to one message. Leaves a flight behind, or an empty queue, or a
    /// queue that waits for a higher ceiling.
    fn stamp_group(&self, state: &mut State, formed: &mut Formed) {
        let carried_max = self.shared.max_payload().saturating_sub(MESSAGE_HEADER_BYTES);
        let bytes_max = carried_max.min(GROUP_BYTES_MAX);
        let from = state.tail.next_offset;
        let (mut next, mut members) = (from, Vec::new());
        let mut payload = Vec::with_capacity(state.queue.bytes.min(bytes_max));
        let wall_ms = self.shared.clock.now().wall_ms;
        let mut overlay = Overlay::new(&state.tail.producers);
        let mut blocked = false;
        while let Some(append) = state.queue.waiting.front() {
            let append = match verdict(&state.sent_back, &overlay, &append.header) {
                // What it follows may be stored by another gateway, and not be known here yet.
                Verdict::Refuse(_) if state.queue.looked == 0 => {
                    // First goes what can: its ack shows the end as well.
                    formed.look = members.is_empty() && state.queue.looking.is_none();
                    if formed.look {
                        state.queue.looking = Some(state.queue.waiting.len());
                    }
                    break;
                }
                Verdict::Refuse(code) => {
                    formed.settled.extend(state.queue.pop().map(|append| (append, Err(LogError::Refused(code)))));
                    continue;
                }
                Verdict::Duplicate(stored) => {
                    let appended = Appended { base_offset: stored.base_offset, append_time_ms: stored.append_time_ms };
                    let Some(append) = state.queue.pop() else { break };
                    if stored.base_offset < from {
                        formed.settled.push((append, Ok(appended)));
                    } else {
                        members.push(Member { append, appended, stamped: None });
                    }
                    continue;
                }
                Verdict::Append => {
                    if payload.is_empty() && append.batch.len() > carried_max {
                        // The server takes less than when it was queued.
                        formed.settled.extend(state.queue.pop().map(|append| (append, Err(LogError::TooLarge))));
                        continue;
                    }
                    blocked = next + i64::from(append.header.last_offset_delta) >= state.end.ceiling;
                    if blocked || (!payload.is_empty() && payload.len() + append.batch.len() > bytes_max) {
                        break;
                    }
                    match state.queue.pop() {
                        Some(append) => append,
                        None => break,
                    }
                }
            };
            let start = payload.len();
            payload.extend_from_slice(&append.batch);
            stamp(&mut payload[start..], next, 0);
            let mut stamped = BatchHeader { base_offset: next, leader_epoch: 0, ..append.header };
            if stamped.is_append_time() {
                // It may have waited: what counts is when it is appended, so that times do not run against offsets.
                stamped.max_timestamp = wall_ms;
                set_append_time(&mut payload[start..], wall_ms);
            }
            overlay.add(&stamped);
            state.sent_back.came(&stamped);
            next = stamped.next_offset();
            let append_time_ms = if stamped.is_append_time() { stamped.max_timestamp } else { -1 };
            members.push(Member {
                append,
                appended: Appended { base_offset: stamped.base_offset, append_time_ms },
                stamped: Some(stamped),
            });
        }
        let low = state.end.ceiling - next < CEILING_STEP_OFFSETS / 2;
        if (blocked || low) && !state.end.raising {
            state.end.raising = true;
            formed.raise = true;
        }
        if members.is_empty() {
            return;
        }
        let message = self.shared.message(&self.place.subject, payload.into(), state.tail.last);
        formed.publish = Some(message.clone());
        let epoch = self.shared.ticks.epoch();
        state.queue.behind = state.queue.waiting.len();
        let flight = Flight { message, members, from, next, epoch, attempts: 1, may_be_stored: false };
        self.set_phase(state, Phase::InFlight(flight));
    }

    /// The outcome of a publish attempt. Runs on the store's reply reader: must not block.
    fn decided(self: &Arc<Self>, outcome: StoreResult<PubAck>) {
        match outcome {
            Ok(ack) => self.commit(ack.sequence),
            Err(error) => self.doubt(error),
        }
        self.pump();
    }

    /// The group is stored at `sequence`.
    fn commit(self: &Arc<Self>, sequence: Sequence) {
        let mut state = self.lock();
        let Some(flight) = take_flight(&mut state) else {
            return;
        };
        let payload = flight.message.publish.payload.clone();
        for stamped in flight.members.iter().filter_map(|member| member.stamped.as_ref()) {
            state.tail.producers.learn(stamped);
            NewestTime::note(&mut state.tail.newest_time, stamped.max_timestamp, stamped.base_offset);
        }
        state.way.appended();
        state.tail.last = sequence;
        state.tail.next_offset = flight.next;
        state.certain_epoch = Some(flight.epoch);
        // A guard that was taken is as good as a look.
        state.queue.looked = state.queue.looked.max(state.queue.behind);
        state.end.messages += 1;
        let payload_bytes = payload.len() as u64;
        state.end.bytes += payload_bytes;
        state.end.last_append = Some(self.shared.now());
        let anchor = state.end.messages >= END_ENTRY_MESSAGES_MAX || state.end.bytes >= END_ENTRY_BYTES_MAX;
        let quiet_timer = !std::mem::replace(&mut state.end.timer_set, true);
        self.show(&mut state, Chain { from: flight.from, next: flight.next, payload }, sequence);
        self.set_phase(&mut state, Phase::Idle);
        drop(state);

        self.shared.metrics.commit_batches.note(flight.members.len() as u64);
        self.shared.metrics.commit_bytes.note(payload_bytes);
        self.shared.ticks.committed(self.key, flight.next, sequence);
        for member in flight.members {
            member.append.promise.keep(Ok(member.appended));
        }
        self.notify();
        if anchor {
            let log = self.clone();
            self.shared.tasks.spawn(Box::new(move || log.write_end(false)));
        }
        if quiet_timer {
            self.watch_for_quiet(self.shared.now() + END_QUIET);
        }
    }

    /// An attempt failed. Either the store refused it, or its slot is undecided. Nothing breaks if what was refused is stored
    /// after all: the next publish under that guard finds it.
    fn doubt(self: &Arc<Self>, error: StoreError) {
        let mut state = self.lock();
        let Some(mut flight) = take_flight(&mut state) else {
            return;
        };
        let not_this_time = matches!(
            error,
            StoreError::Unavailable
                | StoreError::NoSpace(_)
                | StoreError::NoPeers(_)
                | StoreError::TooLarge { .. }
                | StoreError::Refused { .. }
                | StoreError::Busy
        );
        let look_for_stream = error == StoreError::Unavailable;
        if not_this_time && !flight.may_be_stored {
            self.set_phase(&mut state, Phase::Idle);
            let mut refused = originals(flight);
            refused.extend(state.queue.take_of(&refused));
            state.sent_back.note(&refused);
            drop(state);
            debug!(self.shared.logger, "publish refused"; "topic" => &self.topic, "partition" => self.key.1, "error" => %error);
            refuse_all(refused, &LogError::Store(error));
            if look_for_stream {
                self.look_for_stream();
            }
            return;
        }
        // A guard that did not match has not stored this attempt, but may speak of an earlier one that is.
        flight.may_be_stored |= !not_this_time && !matches!(error, StoreError::WrongLast(_));
        self.set_phase(&mut state, Phase::Deciding);
        drop(state);
        self.shared.metrics.undecided_slots.add_one();
        let log = self.clone();
        if matches!(error, StoreError::WrongLast(_)) && flight.attempts == 1 {
            self.shared.tasks.spawn(Box::new(move || log.decide(flight)));
        } else {
            let pause = (UNDECIDED_PAUSE_MIN * 2_u32.saturating_pow(flight.attempts - 1)).min(UNDECIDED_PAUSE_MAX);
            self.shared.tasks.spawn_at(self.shared.now() + pause, Box::new(move || log.decide(flight)));
        }
    }

    /// Nobody listens on the subject: JetStream is away, or the stream is.
    fn look_for_stream(self: &Arc<Self>) {
        let log = self.clone();
        self.shared.tasks.spawn(Box::new(move || {
            let deadline = log.shared.now() + STORE_CALL_MAX;
            if let Err(error) = log.shared.store.stream_info(&log.place.stream, deadline) {
                log.lost(error);
            }
        }));
    }

    /// Finds out what took the slot after the tail. Runs on a worker, in phase Deciding.
    fn decide(self: &Arc<Self>, mut flight: Flight) {
        if self.is_gone() {
            return self.give_up(flight, LogError::Gone);
        }
        let deadline = self.shared.now() + STORE_CALL_MAX;
        let guard = flight.message.publish.expected_last.unwrap_or_default();
        let found =
            self.shared.store.message_get(&self.place.stream, Pick::AtOrAfter(guard.next()), From::Leader, deadline);
        match found {
            Ok(message) if message.header(crate::log::WRITER_HEADER) == Some(flight.message.writer.as_str()) => {
                self.in_flight_again(flight);
                self.commit(message.sequence);
                self.pump();
            }
            // Ours may have stood right there, and is gone.
            Ok(message) if message.sequence > guard.next() && flight.may_be_stored => self.start_over(flight),
            Ok(_) => self.conflict(flight),
            Err(StoreError::NoMessage) => match self.slot_is_open(guard, deadline) {
                Ok(true) => {
                    flight.attempts += 1;
                    let message = flight.message.clone();
                    self.in_flight_again(flight);
                    self.send(message);
                }
                Ok(false) => self.start_over(flight),
                Err(error) => self.decide_later(flight, error),
            },
            Err(error) => self.decide_later(flight, error),
        }
    }

    /// Whether the stream still ends at `guard`, and is the one that the guard was learned from.
    fn slot_is_open(&self, guard: Sequence, deadline: Instant) -> StoreResult<bool> {
        let info = self.shared.store.stream_info(&self.place.stream, deadline)?;
        let created = self.lock().tail.created == info.created;
        Ok(created && info.state.last == guard)
    }

    fn in_flight_again(&self, flight: Flight) {
        self.lock().phase = Phase::InFlight(flight);
    }

    fn decide_later(self: &Arc<Self>, mut flight: Flight, error: StoreError) {
        if let LogError::Gone = self.lost(error) {
            return self.give_up(flight, LogError::Gone);
        }
        // Those whose time is up leave the queue; the group's own waiters are answered where they wait.
        self.pump();
        flight.attempts += 1;
        let pause = (UNDECIDED_PAUSE_MIN * 2_u32.saturating_pow(flight.attempts.min(16))).min(UNDECIDED_PAUSE_MAX);
        let log = self.clone();
        self.shared.tasks.spawn_at(self.shared.now() + pause, Box::new(move || log.decide(flight)));
    }

    /// Somebody else took the slot: their offsets and producers are learned, then the group is checked and stamped anew.
    fn conflict(self: &Arc<Self>, flight: Flight) {
        self.shared.metrics.conflicts.add_one();
        let wanted = {
            let mut state = self.lock();
            state.queue.put_back(originals(flight));
            state.hinted = state.tail.last.next().max(state.hinted);
            self.set_phase(&mut state, Phase::Idle);
            state.way.came_late()
        };
        if wanted {
            self.shared.ticks.want(self.key);
        }
        if let Err(error) = self.exact_view(self.shared.now() + LOAD_MAX) {
            debug!(self.shared.logger, "conflict not resolved yet"; "topic" => &self.topic, "error" => %error);
            let log = self.clone();
            self.shared.tasks.spawn_at(self.shared.now() + UNDECIDED_PAUSE_MAX, Box::new(move || log.pump()));
        }
    }

    /// The slot was taken and what took it is gone (purged, aged out), or this is another incarnation of the stream.
    /// A group that cannot have been stored is stamped anew after a new load; of one that may have been, nobody can know
    /// any more, and its waiters are told so.
    fn start_over(self: &Arc<Self>, flight: Flight) {
        let may_be_stored = flight.may_be_stored;
        let mut unknown = originals(flight);
        {
            let mut state = self.lock();
            if may_be_stored {
                unknown.extend(state.queue.take_of(&unknown));
                state.sent_back.note(&unknown);
            } else {
                state.queue.put_back(std::mem::take(&mut unknown));
            }
            self.set_phase(&mut state, Phase::Cold);
        }
        if may_be_stored {
            warn!(self.shared.logger, "the outcome of an append cannot be known: what was stored is gone";
                "topic" => &self.topic, "partition" => self.key.1);
        }
        refuse_all(unknown, &LogError::Store(StoreError::NoAnswer));
        self.pump();
    }

    fn give_up(self: &Arc<Self>, flight: Flight, error: LogError) {
        {
            let mut state = self.lock();
            self.set_phase(&mut state, Phase::Cold);
        }
        refuse_all(originals(flight), &error);
    }

    /// Loads the log because batches wait for it; if that fails they are told.
    fn load_for_queue(self: &Arc<Self>) {
        self.lock().load_asked = false;
        if let Err(error) = self.view(self.shared.now() + LOAD_MAX) {
            debug!(self.shared.logger, "log not loaded"; "topic" => &self.topic, "partition" => self.key.1, "error" => %error);
        }
    }

    /// Writes the exact end once nothing was appended for a while.
    fn watch_for_quiet(self: &Arc<Self>, at: Instant) {
        let log = self.clone();
        let look = move || {
            let again = {
                let mut state = log.lock();
                let due = state.end.last_append.map_or(at, |last| last + END_QUIET);
                let again = (due > log.shared.now()).then_some(due);
                state.end.timer_set = again.is_some();
                again
            };
            match again {
                Some(due) => log.watch_for_quiet(due),
                None => log.write_end(false),
            }
        };
        self.shared.tasks.spawn_at(at, Box::new(look));
    }
}

/// Checks a batch, also against what its producer was told to send again.
fn verdict(sent_back: &SentBack, overlay: &Overlay, header: &BatchHeader) -> Verdict {
    let awaited = sent_back.awaited_before(header).filter(|awaited| !overlay.reaches(header, *awaited));
    match overlay.check(header) {
        Verdict::Append if !overlay.is_sure_of(header.producer_id) && awaited.is_some() => {
            Verdict::Refuse(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER)
        }
        verdict => verdict,
    }
}

fn take_flight(state: &mut State) -> Option<Flight> {
    match std::mem::replace(&mut state.phase, Phase::Idle) {
        Phase::InFlight(flight) => Some(flight),
        other => {
            state.phase = other;
            None
        }
    }
}

/// Tells everyone who waits for these why they are not stored.
pub(super) fn refuse_all(appends: Vec<Append>, error: &LogError) {
    for append in appends {
        append.promise.keep(Err(error.clone()));
    }
}

/// The batches as the clients sent them, in their order.
fn originals(flight: Flight) -> Vec<Append> {
    flight.members.into_iter().map(|member| member.append).collect()
}
