//! What a worker does with a connection when it is its turn: send, read, begin what is complete, lay it to rest.

use super::buffers::Front;
use super::connection::{Connection, Interest, Phase};
use super::hub::{Hub, Stage};
use super::in_flight::Frame;
use super::timing::Timing;
use super::worker::Worker;
use crate::activity::{self, Phase as Doing};
use crate::handlers::{Kind, Outcome};
use crate::limits::{
    FRAMES_PER_TURN, LINGER_MAX, NEXT_REQUEST_WAIT_MS, PRODUCE_IN_FLIGHT_BYTES_MAX, PRODUCE_IN_FLIGHT_MAX,
    READ_AHEAD_BYTES_MAX,
};
use slog::debug;
use std::io::ErrorKind;
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What comes after a turn.
enum Next {
    Rest(Interest),
    /// Others wait too: to the back of the queue.
    Requeue,
    /// To a worker that may serve it.
    PassOn,
    Close(&'static str),
}

/// One step within a turn.
enum Step {
    Again,
    Over(Next),
}

/// Gives a connection its turn. A panic in it costs this connection and no other.
pub(super) fn take(mut connection: Box<Connection>, worker: &Worker) {
    let hub = connection.hub.clone();
    let mut begun = 0;
    let mut queued = connection.take_queued();
    connection.in_flight.add_queued(queued);
    loop {
        let turn = Turn { hub: &hub, connection: &mut connection, worker, begun, queued: std::mem::take(&mut queued) };
        let (next, begun_now) = match catch_unwind(AssertUnwindSafe(|| turn.run())) {
            Ok(next) => next,
            Err(panic) => {
                hub.count_panic(&*panic);
                (Next::Close("panic"), begun)
            }
        };
        begun = begun_now;
        match next {
            Next::Rest(interest) => {
                if begun > 0 && next_request_comes(&mut connection, interest, worker) {
                    begun = 0;
                    continue;
                }
                match hub.rest(connection, interest) {
                    Some(back) => connection = back,
                    None => return,
                }
            }
            Next::Requeue => {
                connection.queued_at = Some(Instant::now());
                return worker.pool().submit(connection);
            }
            Next::PassOn => {
                connection.queued_at = Some(Instant::now());
                return worker.pool().submit_heavy(connection);
            }
            Next::Close(reason) => return hub.close(connection, reason),
        }
    }
}

/// Stays with a connection whose requests are all answered for a moment, if there is little else to do.
fn next_request_comes(connection: &mut Connection, interest: Interest, worker: &Worker) -> bool {
    let answered = connection.in_flight.is_empty() && interest == Interest { read: true, write: false };
    if !answered || connection.armed.is_some() || worker.is_light() || !worker.pool().is_quiet() {
        return false;
    }
    let mut poll = libc::pollfd { fd: connection.stream.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd, whose descriptor the connection keeps open.
    let readable = unsafe { libc::poll(&mut poll, 1, NEXT_REQUEST_WAIT_MS) } == 1;
    connection.drained = !readable;
    readable
}

struct Turn<'a> {
    hub: &'a Arc<Hub>,
    connection: &'a mut Connection,
    worker: &'a Worker,
    /// Frames begun in this turn.
    begun: usize,
    /// How long the connection stood in a worker queue before it.
    queued: Duration,
}

impl Turn<'_> {
    fn run(mut self) -> (Next, usize) {
        if let Some(next) = self.prepare() {
            return (next, self.begun);
        }
        loop {
            self.connection.settle();
            match self.step() {
                Step::Again => {}
                Step::Over(next) => return (next, self.begun),
            }
        }
    }

    /// What is to be seen to before anything is read or begun.
    fn prepare(&mut self) -> Option<Next> {
        if let Some(reason) = self.connection.doomed {
            return Some(Next::Close(reason));
        }
        if let Phase::Lingering(until) = self.connection.phase {
            if self.hub.clock.now().mono >= until || self.hub.stage() >= Stage::Releasing {
                return Some(Next::Close("request"));
            }
            return Some(self.linger());
        }
        if self.worker.is_light() && !self.connection.in_flight.is_all(Kind::Light) {
            return Some(Next::PassOn);
        }
        if std::mem::take(&mut self.connection.woken) {
            if std::mem::take(&mut self.connection.starved) {
                // It was not read meanwhile, so its pace was not its own.
                self.connection.pace.restart(self.connection.held_for_peer(), self.hub.clock.now().mono);
            }
            self.ask_parked();
        }
        None
    }

    fn ask_parked(&mut self) {
        if let Some(kind) = self.connection.in_flight.first_kind()
            && self.connection.is_held_back(kind)
        {
            return;
        }
        let (hub, now) = (self.hub, self.hub.clock.now());
        let watch = hub.watch(self.connection.id);
        activity::enter(Doing::Asking);
        self.connection.in_flight.poll(&watch, |request| hub.now_for(now, request));
    }

    fn step(&mut self) -> Step {
        let draining = self.hub.stage() >= Stage::Draining;
        let front = self.connection.input.front();
        if let Front::Broken(prefix) = front
            && self.connection.phase == Phase::Open
            && !self.connection.in_flight.ends_in_close()
        {
            self.refuse(prefix);
            return Step::Again;
        }
        if front != Front::Partial {
            self.connection.repay();
        }
        // Asked once: whoever did not begin because of it must try again when it has sent all.
        let backed_up = self.connection.is_backed_up();
        let may_begin =
            !draining && !backed_up && !matches!(self.connection.phase, Phase::Closing | Phase::Lingering(_));
        if let (Front::Complete(length), true) = (&front, may_begin)
            && let Some(step) = self.begin_next(*length)
        {
            return step;
        }
        if self.flush().is_err() {
            return Step::Over(Next::Close("write failed"));
        }
        if backed_up && !self.connection.is_backed_up() {
            return Step::Again;
        }
        let all_sent = self.connection.output.unsent() == 0;
        match self.connection.phase {
            Phase::Closing if all_sent => {
                self.hub.abandon_all(self.connection);
                return Step::Over(self.begin_linger());
            }
            Phase::PeerDone if !self.may_still_produce(&front) => return Step::Over(Next::Close("peer closed")),
            _ if draining && all_sent && self.connection.in_flight.is_empty() => {
                let unread = self.connection.stream.peek(&mut [0]).is_ok_and(|count| count > 0);
                return Step::Over(if unread { self.begin_linger() } else { Next::Close("shutting down") });
            }
            _ => {}
        }
        self.read_or_rest(&front, draining)
    }

    /// Begins the complete frame at the front, if its time has come.
    fn begin_next(&mut self, length: usize) -> Option<Step> {
        let kind = self.hub.dispatch.kind(self.connection.input.peek_frame(length));
        if !self.may_begin(kind, length) {
            return None;
        }
        if kind != Kind::Light {
            // What is answered already must not wait for the store.
            if self.flush().is_err() {
                return Some(Step::Over(Next::Close("write failed")));
            }
            if self.worker.is_light() {
                return Some(Step::Over(Next::PassOn));
            }
        }
        if self.begun >= FRAMES_PER_TURN && self.worker.pool().is_pressed() {
            let failed = self.flush().is_err();
            return Some(Step::Over(if failed { Next::Close("write failed") } else { Next::Requeue }));
        }
        self.begin(kind, length);
        Some(Step::Again)
    }

    fn may_begin(&mut self, kind: Kind, length: usize) -> bool {
        let connection = &mut *self.connection;
        let under_way = &connection.in_flight;
        if under_way.is_empty() {
            return !connection.is_held_back(kind);
        }
        kind == Kind::Produce
            && under_way.is_all(Kind::Produce)
            && !under_way.ends_in_close()
            && under_way.len() < PRODUCE_IN_FLIGHT_MAX
            && under_way.frame_bytes() + length <= PRODUCE_IN_FLIGHT_BYTES_MAX
    }

    fn begin(&mut self, kind: Kind, length: usize) {
        let connection = &mut *self.connection;
        let frame = connection.input.take_frame(length);
        self.hub.metrics.requests.add_one();
        self.begun += 1;
        let label = Arc::new(self.hub.dispatch.label(&frame, connection.peer));
        activity::concerns(&label, Doing::Decoding);
        // What was behind another frame did not wait for a worker.
        let mut timing = Timing::begin(label, std::mem::take(&mut self.queued), Instant::now());
        let outcome = self.hub.dispatch.dispatch(frame, connection.peer.ip());
        timing.ran();
        let now = self.hub.clock.now();
        connection.pace.restart(connection.held_for_peer(), now.mono);
        let begun = Frame { kind, frame_bytes: length, timing };
        connection.in_flight.push(begun, outcome, now, &self.hub.watch(connection.id));
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if self.connection.output.unsent() == 0 {
            return Ok(());
        }
        let now = self.hub.clock.now().mono;
        activity::enter(Doing::Writing);
        self.connection.flush(now)
    }

    /// Whether a peer that has sent its last byte has left complete Produce requests behind, or waits for some.
    fn may_still_produce(&self, front: &Front) -> bool {
        let under_way = &self.connection.in_flight;
        let produces = |length| self.hub.dispatch.kind(self.connection.input.peek_frame(length)) == Kind::Produce;
        match front {
            Front::Complete(length) => under_way.is_all(Kind::Produce) && produces(*length),
            _ => !under_way.is_empty() && under_way.is_all(Kind::Produce),
        }
    }

    fn read_or_rest(&mut self, front: &Front, draining: bool) -> Step {
        let connection = &mut *self.connection;
        let interest = |connection: &Connection| {
            let behind = matches!(front, Front::Complete(_));
            let full = behind && connection.input.len() >= READ_AHEAD_BYTES_MAX;
            let open = connection.phase == Phase::Open && !connection.in_flight.ends_in_close();
            let read = open && !full && !connection.starved && !connection.is_backed_up() && !draining;
            Interest { read, write: connection.output.unsent() > 0 }
        };
        if connection.drained || !interest(connection).read {
            return Step::Over(Next::Rest(interest(connection)));
        }
        let size = connection.input.read_size();
        if !connection.may_hold(size) {
            self.hub.starve(connection);
            return Step::Over(Next::Rest(interest(connection)));
        }
        activity::enter(Doing::Reading);
        match connection.input.read_from(&connection.stream, size) {
            Ok((0, _)) => connection.phase = Phase::PeerDone,
            Ok((count, more)) => {
                self.hub.metrics.bytes_in.add(count as u64);
                connection.drained = !more;
                let now = self.hub.clock.now().mono;
                connection.last_active = now;
                connection.pace.advance(count, connection.held_for_peer(), now);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => connection.drained = true,
            Err(_) => return Step::Over(Next::Close("read failed")),
        }
        Step::Again
    }

    /// No Kafka client, or one that has lost its place: the requests before are answered, then it ends.
    fn refuse(&mut self, prefix: [u8; 4]) {
        if let Some(held_back) = self.hub.peer_brake.pass(self.hub.clock.now().mono) {
            let guess = match &prefix {
                [0x16, 3, ..] => "a TLS hello",
                b"GET " | b"HEAD" | b"POST" | b"PUT " | b"OPTI" | b"DELE" | b"CONN" | b"PRI " => "an HTTP request",
                _ => "no frame length",
            };
            debug!(self.hub.logger, "not a Kafka request";
                "peer" => %self.connection.peer, "looks_like" => guess, "held_back" => held_back);
        }
        let watch = self.hub.watch(self.connection.id);
        let label = Arc::new(self.hub.dispatch.label(&prefix, self.connection.peer));
        let timing = Timing::begin(label, Duration::ZERO, Instant::now());
        let frame = Frame { kind: Kind::Light, frame_bytes: 0, timing };
        self.connection.in_flight.push(frame, Outcome::Close, self.hub.clock.now(), &watch);
    }

    /// All is sent: our side is shut down, and the peer gets the time to read before a reset could overtake the replies.
    fn begin_linger(&mut self) -> Next {
        if self.connection.stream.shutdown(Shutdown::Write).is_err() {
            return Next::Close("request");
        }
        self.connection.phase = Phase::Lingering(self.hub.clock.now().mono + LINGER_MAX);
        self.connection.drained = false;
        self.linger()
    }

    fn linger(&mut self) -> Next {
        let mut thrown_away = [0; 4096];
        for _ in 0..FRAMES_PER_TURN {
            match std::io::Read::read(&mut &self.connection.stream, &mut thrown_away) {
                Ok(0) => return Next::Close("request"),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return Next::Close("request"),
            }
        }
        Next::Rest(Interest { read: true, write: false })
    }
}
