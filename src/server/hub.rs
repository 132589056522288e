//! What all threads of the server share: the places, the poller, the budget, and how a connection rests and ends.

use super::Settings;
use super::budget::Budget;
use super::connection::{Connection, Interest, Phase};
use super::in_flight::Watch;
use super::places::{Cause, Places};
use super::timing::Timing;
use super::worker::{Pool, panic_text};
use crate::clock::{Clock, Now};
use crate::handlers::{Dispatch, Kind, Parked};
use crate::limits::{PEER_LOG_INTERVAL, ROOM_RETRY, UNSENT_BYTES_MAX};
use crate::logging::Brake;
use crate::metrics::Metrics;
use crate::wake::{WaiterId, Wakeups};
use polling::{Event, Poller};
use slog::{Logger, debug, error, warn};
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(super) struct Hub {
    pub settings: Settings,
    pub places: Places,
    pub poller: Poller,
    pub pool: Arc<Pool>,
    pub budget: Budget,
    pub dispatch: Arc<dyn Dispatch>,
    pub wakeups: Arc<Wakeups>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
    pub logger: Logger,
    /// Lines about misbehaving peers.
    pub peer_brake: Brake,
    slow_brake: Brake,
    /// How often the poller thread has looked around.
    pub poller_rounds: AtomicU64,
    stage: AtomicU8,
    next_id: AtomicU64,
    /// Connections that found no room in the budget, in the order in which they are tried again.
    starved: Mutex<VecDeque<WaiterId>>,
    /// Whether `release` is to come, because some connection may be held back.
    holds_back: AtomicBool,
}

/// How far the server's end has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(super) enum Stage {
    Serving,
    /// Nothing is begun any more; what waits for something new to happen is answered, commits under way may finish.
    Draining,
    /// Everything that waits answers now.
    Releasing,
    /// Threads and connections end.
    Ended,
}

impl Hub {
    pub(super) fn new(settings: Settings, poller: Poller, parts: super::Parts) -> Self {
        Hub {
            budget: Budget::new(settings.request_bytes_held_max, settings.reply_bytes_held_max),
            settings,
            places: Places::default(),
            poller,
            pool: parts.pool,
            dispatch: parts.dispatch,
            wakeups: parts.wakeups,
            clock: parts.clock,
            metrics: parts.metrics,
            logger: parts.logger,
            peer_brake: Brake::new(PEER_LOG_INTERVAL),
            slow_brake: Brake::new(PEER_LOG_INTERVAL),
            poller_rounds: AtomicU64::new(0),
            stage: AtomicU8::new(Stage::Serving as u8),
            next_id: AtomicU64::new(1),
            starved: Mutex::new(VecDeque::new()),
            holds_back: AtomicBool::new(false),
        }
    }

    pub(super) fn stage(&self) -> Stage {
        match self.stage.load(Ordering::SeqCst) {
            0 => Stage::Serving,
            1 => Stage::Draining,
            2 => Stage::Releasing,
            _ => Stage::Ended,
        }
    }

    pub(super) fn enter_stage(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::SeqCst);
    }

    /// Has every connection see what the stage is.
    pub(super) fn rouse_all(&self) {
        for connection in self.places.take_all(true, |_| true) {
            self.submit(connection);
        }
    }

    pub(super) fn next_id(&self) -> WaiterId {
        WaiterId(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn watch(&self, id: WaiterId) -> Watch<'_> {
        Watch { id, wakeups: &self.wakeups, metrics: &self.metrics }
    }

    /// The time a parked request is asked at: its deadline, if the server cannot wait for it any longer.
    pub(super) fn now_for(&self, now: Now, request: &dyn Parked) -> Now {
        let release = match self.stage() {
            Stage::Serving => false,
            Stage::Draining => request.waits_for_others(),
            Stage::Releasing | Stage::Ended => true,
        };
        if release { Now { mono: now.mono.max(request.deadline()), ..now } } else { now }
    }

    /// A request is over: all of its reply is with the kernel.
    pub(super) fn note_answered(&self, timing: Timing) {
        let threshold = self.settings.slow_request;
        let now = Instant::now();
        let (label, parts) = timing.end(now);
        if threshold.is_zero() || parts.ours() < threshold {
            return;
        }
        if let Some(held_back) = self.slow_brake.pass(now) {
            let ms = |part: Duration| u64::try_from(part.as_millis()).unwrap_or(u64::MAX);
            warn!(self.logger, "slow request";
                "api" => label.api, "version" => label.version, "client_id" => &label.client_id,
                "peer" => %label.peer, "correlation_id" => label.correlation_id, "total_ms" => ms(parts.ours()),
                "queue_ms" => ms(parts.queue), "store_ms" => ms(parts.store), "work_ms" => ms(parts.work),
                "write_ms" => ms(parts.write), "waited_for_others_ms" => ms(parts.others), "held_back" => held_back);
        }
    }

    /// Queues a connection where a worker that may serve it finds it.
    pub(super) fn submit(&self, mut connection: Box<Connection>) {
        connection.queued_at = Some(Instant::now());
        if connection.in_flight.is_all(Kind::Light) {
            self.pool.submit(connection);
        } else {
            self.pool.submit_heavy(connection);
        }
    }

    pub(super) fn take_and_submit(&self, id: WaiterId, cause: Cause) {
        if let Some(connection) = self.places.take(id, cause) {
            self.submit(connection);
        }
    }

    /// Lays a connection to rest until its socket is ready as `interest` says, or a wake-up, or a deadline. Gives it back
    /// if something has happened already. The socket is armed before the connection is let go: after that its descriptor
    /// is another's to close.
    pub(super) fn rest(
        self: &Arc<Self>,
        mut connection: Box<Connection>,
        interest: Interest,
    ) -> Option<Box<Connection>> {
        connection.recharge();
        if let Err(error) = self.arm(&mut connection, interest) {
            error!(self.logger, "a socket cannot be watched"; "error" => %error);
            self.close(connection, "not pollable");
            return None;
        }
        connection.due = connection.deadline();
        self.set_timer(&mut connection);
        self.places.rest(connection)
    }

    fn arm(&self, connection: &mut Connection, interest: Interest) -> io::Result<()> {
        // Armed for nothing it would still report a hang-up, again and again, to a turn that may not read.
        if connection.armed == Some(interest) || interest == NOTHING {
            return Ok(());
        }
        let key = usize::try_from(connection.id.0).map_err(io::Error::other)?;
        self.poller.modify(&connection.stream, Event::new(key, interest.read, interest.write))?;
        connection.armed = Some(interest);
        Ok(())
    }

    /// Sees to it that a timer looks after the connection no later than it is due. One timer serves many requests: when
    /// it comes early, it is set again.
    fn set_timer(self: &Arc<Self>, connection: &mut Connection) {
        let now = self.clock.now().mono;
        let Some(at) = connection.next_call(now) else { return };
        if connection.timer_at.is_some_and(|set| set > now && set <= at) {
            return;
        }
        connection.timer_at = Some(at);
        self.call_timer_at(connection.id, at);
    }

    fn call_timer_at(self: &Arc<Self>, id: WaiterId, at: Instant) {
        let hub = self.clone();
        let call = move || match hub.places.take_due(id, hub.clock.now().mono) {
            Ok(connection) => hub.submit(connection),
            Err(Some(later)) => hub.call_timer_at(id, later),
            Err(None) => {}
        };
        self.pool.call_at(at, Box::new(call));
    }

    /// Ends a connection: what is parked for it is abandoned, its socket is closed.
    pub(super) fn close(&self, mut connection: Box<Connection>, reason: &'static str) {
        debug!(self.logger, "connection closed"; "peer" => %connection.peer, "reason" => reason);
        self.abandon_all(&mut connection);
        let _ = self.poller.delete(&connection.stream);
        self.metrics.connections_open.lower();
        self.places.leave(connection.id);
    }

    pub(super) fn abandon_all(&self, connection: &mut Connection) {
        let watch = self.watch(connection.id);
        loop {
            match catch_unwind(AssertUnwindSafe(|| connection.in_flight.abandon_next(&watch))) {
                Ok(true) => {}
                Ok(false) => return,
                Err(panic) => self.count_panic(&*panic),
            }
        }
    }

    pub(super) fn count_panic(&self, panic: &(dyn std::any::Any + Send)) {
        self.metrics.panics.add_one();
        error!(self.logger, "a request panicked, its connection is closed"; "panic" => panic_text(panic));
    }

    /// Notes that a connection waits for room, and has it tried again soon.
    pub(super) fn starve(self: &Arc<Self>, connection: &mut Connection) {
        if std::mem::replace(&mut connection.starved, true) {
            return;
        }
        let mut starved = self.starved.lock().expect("no holder panics");
        starved.push_back(connection.id);
        if starved.len() == 1 {
            self.retry_starved_later();
        }
    }

    fn retry_starved_later(self: &Arc<Self>) {
        let hub = self.clone();
        self.pool.call_at(self.clock.now().mono + ROOM_RETRY, Box::new(move || hub.retry_starved()));
    }

    /// Has as many starved connections try again as may find room, one in any case: it may get the overdraft. Whoever holds
    /// room, the overdraft or not, and goes on too slowly is closed, because the others wait for it.
    fn retry_starved(self: &Arc<Self>) {
        if self.budget.room() < ROOM_PER_TRY {
            let (now, stall_max) = (self.clock.now().mono, self.settings.stall_max);
            let stuck = |c: &Connection| c.pace.is_slower_than(stall_max, now) && c.hoards();
            self.doom("sends too slowly, and others wait for the room", stuck);
        }
        let tries = self.budget.room() / ROOM_PER_TRY + 1;
        let mut starved = self.starved.lock().expect("no holder panics");
        let count = starved.len().min(tries);
        let tried: Vec<WaiterId> = starved.drain(..count).collect();
        if !starved.is_empty() {
            self.retry_starved_later();
        }
        drop(starved);
        for id in tried {
            self.take_and_submit(id, Cause::Call);
        }
    }

    /// Has a connection whose next reply may be large wait until peers have taken enough of those that are made.
    pub(super) fn hold_back(self: &Arc<Self>, connection: &mut Connection) {
        connection.held_back = true;
        if !self.holds_back.swap(true, Ordering::SeqCst) {
            self.release_later();
        }
    }

    fn release_later(self: &Arc<Self>) {
        let hub = self.clone();
        self.pool.call_at(self.clock.now().mono + ROOM_RETRY, Box::new(move || hub.release()));
    }

    /// Has all that are held back try again when replies may be made, those first whose peers have taken most so far: a crowd
    /// that is new and takes nothing must not come before them, round after round. Each sees for itself whether they still may.
    fn release(self: &Arc<Self>) {
        if self.budget.is_clogged() {
            return self.release_later();
        }
        // Before the connections are looked at: who is held back after that sees to a release itself.
        self.holds_back.store(false, Ordering::SeqCst);
        let mut held_back = self.places.take_all(true, |c| c.held_back);
        held_back.sort_by_key(|c| (Reverse(c.output.sent()), c.last_active));
        held_back.into_iter().for_each(|c| self.submit(c));
    }

    /// Closes, by way of a worker, the resting connections that `which` picks. Gives whether there were any.
    fn doom(&self, reason: &'static str, which: impl Fn(&Connection) -> bool) -> bool {
        let doomed = self.places.take_all(false, which);
        let any = !doomed.is_empty();
        for mut connection in doomed {
            connection.doomed = Some(reason);
            self.pool.submit(connection);
        }
        any
    }

    /// Closes what has been idle too long, now and again and again. A request in flight keeps its connection; an answer
    /// that the peer does not take does not.
    pub(super) fn sweep(self: &Arc<Self>) {
        if self.stage() != Stage::Serving {
            return;
        }
        let now = self.clock.now().mono;
        let (idle_max, stall_max) = (self.settings.connections_max_idle, self.settings.stall_max);
        let quiet = |c: &Connection, limit: Duration| now.saturating_duration_since(c.last_active) >= limit;
        let is_idle = |c: &Connection| match c.phase {
            Phase::Open | Phase::PeerDone => quiet(c, idle_max),
            Phase::Closing => quiet(c, idle_max.min(stall_max)),
            Phase::Lingering(_) => false,
        };
        self.doom("idle", |c| c.in_flight.is_empty() && is_idle(c));
        if self.budget.is_clogged() {
            let is_slow = |c: &Connection, least| c.output.unsent() >= least && c.pace.is_slower_than(stall_max, now);
            let reason = "takes its replies too slowly, and others wait";
            // Whoever holds little is closed only if nobody else is to blame.
            if !self.doom(reason, |c| is_slow(c, UNSENT_BYTES_MAX)) {
                self.doom(reason, |c| is_slow(c, 1));
            }
        }
        let hub = self.clone();
        let period = (idle_max / 8).min(stall_max / 2).clamp(Duration::from_millis(20), Duration::from_secs(5));
        self.pool.call_at(now + period, Box::new(move || hub.sweep()));
    }
}

const NOTHING: Interest = Interest { read: false, write: false };

/// The room that lets one more starved connection try.
const ROOM_PER_TRY: usize = 256 * 1024;
