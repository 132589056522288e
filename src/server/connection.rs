//! One client's connection: its socket, its buffers, and the requests that are under way.

use super::budget::Held;
use super::buffers::{Front, Input, Output};
use super::hub::Hub;
use super::in_flight::{InFlight, Settled};
use super::pace::Pace;
use super::timing::Timing;
use super::turn;
use super::worker::{Work, Worker};
use crate::handlers::Kind;
use crate::limits::{LEAVING_TIMED_MAX, REQUEST_BYTES_FREE, UNSENT_BYTES_MAX};
use crate::wake::WaiterId;
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) struct Connection {
    pub id: WaiterId,
    pub hub: Arc<Hub>,
    pub stream: TcpStream,
    pub peer: SocketAddr,
    pub input: Input,
    pub output: Output,
    pub in_flight: InFlight,
    pub phase: Phase,
    /// What the poller watches for; `None` when it has reported.
    pub armed: Option<Interest>,
    /// Replies that are not sent to their last byte, by where in the output that is.
    leaving: VecDeque<(u64, Timing)>,
    /// When it was put into a worker queue.
    pub queued_at: Option<Instant>,
    /// What is parked is to be asked again.
    pub woken: bool,
    /// The last read left nothing behind.
    pub drained: bool,
    /// It may not read on because the process holds too much; it stands in the hub's list.
    pub starved: bool,
    /// Its fetch, parked or at the front, waits until peers have taken enough replies; nothing else is under way.
    pub held_back: bool,
    /// Why it must be closed at its next turn, if it must.
    pub doomed: Option<&'static str>,
    /// When bytes last came or went.
    pub last_active: Instant,
    /// How it moves what is held for it.
    pub pace: Pace,
    /// What `deadline` said when it was laid to rest.
    pub due: Option<Instant>,
    /// When the timer that was set for it comes, if it has not come yet.
    pub timer_at: Option<Instant>,
    charged: usize,
    charged_unsent: usize,
    /// It reads over the budget.
    overdrawn: bool,
}

/// How a connection lives and ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Open,
    /// The peer has sent its last byte. Produce requests that are complete are still done.
    PeerDone,
    /// A request said `Close` and the replies before it stand in the output: they are sent, then it ends.
    Closing,
    /// Everything is sent and our side is shut down; what still comes is thrown away until then.
    Lingering(Instant),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Interest {
    pub read: bool,
    pub write: bool,
}

impl Connection {
    pub(super) fn new(hub: Arc<Hub>, id: WaiterId, stream: TcpStream, peer: SocketAddr, now: Instant) -> Self {
        Connection {
            id,
            hub,
            stream,
            peer,
            input: Input::default(),
            output: Output::default(),
            in_flight: InFlight::default(),
            phase: Phase::Open,
            armed: None,
            leaving: VecDeque::new(),
            queued_at: None,
            woken: false,
            drained: true,
            starved: false,
            held_back: false,
            doomed: None,
            last_active: now,
            pace: Pace::new(now),
            due: None,
            timer_at: None,
            charged: 0,
            charged_unsent: 0,
            overdrawn: false,
        }
    }

    /// Takes note of why it was taken out of its place.
    pub(super) fn tell(&mut self, woken: bool, readable: bool) {
        self.woken |= woken;
        if readable {
            self.armed = None;
            self.drained = false;
        }
    }

    /// When it wants a turn whatever happens.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Lingering(until) => Some(until),
            _ if self.held_back => None,
            _ => self.in_flight.deadline(),
        }
    }

    /// When a timer is to look after it: when it is due, but not so far ahead that one that is gone by then leaves something
    /// behind for as long as it wanted to wait.
    pub(super) fn next_call(&self, now: Instant) -> Option<Instant> {
        self.due.map(|due| due.min(now + self.hub.settings.call_ahead_max))
    }

    /// Moves the replies whose turn has come to the output, up to a `Close`.
    pub(super) fn settle(&mut self) {
        while self.phase != Phase::Closing
            && let Some(settled) = self.in_flight.next_settled()
        {
            match settled {
                Settled::Reply(reply, mut timing) => {
                    timing.leaves();
                    self.output.push(reply);
                    if self.leaving.len() < LEAVING_TIMED_MAX {
                        self.leaving.push_back((self.output.pushed(), timing));
                    } else {
                        self.hub.note_answered(timing);
                    }
                }
                Settled::Silent(timing) => self.hub.note_answered(timing),
                Settled::Close => self.phase = Phase::Closing,
            }
        }
    }

    /// Sends what the socket takes.
    pub(super) fn flush(&mut self, now: Instant) -> io::Result<()> {
        if self.output.unsent() > 0 {
            let sent = self.output.flush(&self.stream)?;
            if sent > 0 {
                self.hub.metrics.bytes_out.add(sent as u64);
                self.last_active = now;
            }
            self.pace.advance(sent, self.held_for_peer(), now);
        }
        self.note_sent();
        Ok(())
    }

    fn note_sent(&mut self) {
        let sent = self.output.sent();
        while self.leaving.front().is_some_and(|(end, _)| *end <= sent)
            && let Some((_, timing)) = self.leaving.pop_front()
        {
            self.hub.note_answered(timing);
        }
    }

    /// How long it has waited for the worker that has it now.
    pub(super) fn take_queued(&mut self) -> Duration {
        self.queued_at.take().map_or(Duration::ZERO, |at| at.elapsed())
    }

    /// Bytes that are held because the peer has not sent more, or taken more.
    pub(super) fn held_for_peer(&self) -> usize {
        self.input.len() + self.output.unsent()
    }

    /// Whether its peer must take replies before there are more.
    pub(super) fn is_backed_up(&self) -> bool {
        let unsent = self.output.unsent();
        unsent >= UNSENT_BYTES_MAX || unsent > 0 && self.hub.budget.is_clogged()
    }

    /// Sees to it that a fetch, alone as it is, makes no reply while too many are not taken.
    pub(super) fn is_held_back(&mut self, kind: Kind) -> bool {
        self.held_back = false;
        if kind == Kind::Fetch && self.hub.budget.is_clogged() {
            self.hub.clone().hold_back(self);
        }
        self.held_back
    }

    /// Whether it is for its peer to free the room that it takes: to send the rest of a frame, or to take the replies before
    /// one. Our doing it is not if a read waits for room, or a frame for what the store must do first; a fetch in front has a
    /// wait that the peer has chosen.
    pub(super) fn hoards(&self) -> bool {
        let waits_for_us = self.starved || self.held_back;
        let has_begun = self.input.len() > 0 && charge(self.input.capacity()) > 0;
        has_begun && !waits_for_us && (self.input.front() == Front::Partial || self.in_flight.is_all(Kind::Fetch))
    }

    /// Asks the budget for a read of `size` bytes.
    pub(super) fn may_hold(&mut self, size: usize) -> bool {
        let bytes = (self.input.len() + size).max(self.input.capacity());
        let wanted = charge(bytes + self.in_flight.frame_bytes());
        if wanted > self.charged {
            match self.hub.budget.try_hold(self.id, wanted - self.charged) {
                Held::Within => {}
                Held::Overdrawn => self.overdrawn = true,
                Held::No => return false,
            }
            self.charged = wanted;
        }
        true
    }

    /// Its frame is complete: another may have the overdraft.
    pub(super) fn repay(&mut self) {
        if std::mem::take(&mut self.overdrawn) {
            self.hub.budget.repay(self.id);
        }
    }

    /// Brings its charges in line with what it holds.
    pub(super) fn recharge(&mut self) {
        self.input.release_if_empty();
        let held = charge(self.input.capacity() + self.in_flight.frame_bytes());
        if held != self.charged {
            self.hub.budget.recharge(self.charged, held);
            self.charged = held;
        }
        let unsent = self.output.unsent();
        if unsent != self.charged_unsent {
            self.hub.budget.recharge_unsent(self.charged_unsent, unsent);
            self.charged_unsent = unsent;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.hub.budget.recharge(self.charged, 0);
        self.hub.budget.recharge_unsent(self.charged_unsent, 0);
        self.repay();
    }
}

impl Work for Connection {
    fn run(self: Box<Self>, worker: &Worker) {
        turn::take(self, worker);
    }
}

fn charge(bytes: usize) -> usize {
    bytes.saturating_sub(REQUEST_BYTES_FREE)
}
