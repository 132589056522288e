//! Where each connection is: with the poller, in the parked set, or in the hands of a worker or queue.

use super::connection::Connection;
use super::in_flight::InFlight;
use crate::activity::Waiting;
use crate::wake::WaiterId;
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Exactly one owner at any time.
enum Place {
    /// Waits for its socket, and takes no wake-ups: nothing is parked, or it is held back.
    Idle(Box<Connection>),
    /// Waits for its socket and for someone else: a wake-up or a deadline takes it out.
    Parked(Box<Connection>),
    /// A worker or a queue has it. What happens meanwhile is marked, and honoured before the connection rests again.
    Busy(Marks),
}

#[derive(Clone, Copy, Default)]
struct Marks {
    woken: bool,
    readable: bool,
}

/// Why a connection is taken out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The poller reported its socket, which is no longer armed.
    Socket,
    /// Something it is parked on has happened; a connection that is not parked is left alone.
    WakeUp,
    /// It is to look around in any case.
    Call,
}

#[derive(Default)]
pub(super) struct Places {
    /// Protects who owns each connection. Held for table work only: no parked request is asked under it, because the
    /// domain wakes us while it holds locks of its own.
    table: Mutex<HashMap<WaiterId, Place>>,
    /// Signalled when the table has become empty.
    emptied: Condvar,
}

impl Places {
    fn table(&self) -> MutexGuard<'_, HashMap<WaiterId, Place>> {
        self.table.lock().expect("no holder panics")
    }

    pub(super) fn len(&self) -> usize {
        self.table().len()
    }

    /// A connection that its maker still holds.
    pub(super) fn enter(&self, id: WaiterId) {
        self.table().insert(id, Place::Busy(Marks::default()));
    }

    pub(super) fn leave(&self, id: WaiterId) {
        let mut table = self.table();
        table.remove(&id);
        if table.is_empty() {
            self.emptied.notify_all();
        }
    }

    /// Lays the connection to rest. If something happened meanwhile it comes back, told of it.
    pub(super) fn rest(&self, mut connection: Box<Connection>) -> Option<Box<Connection>> {
        let mut table = self.table();
        let place = table.get_mut(&connection.id).expect("it stays in the table until it is closed");
        if let Place::Busy(marks) = place
            && (marks.woken || marks.readable)
        {
            connection.tell(marks.woken, marks.readable);
            *marks = Marks::default();
            return Some(connection);
        }
        *place = if connection.due.is_some() { Place::Parked(connection) } else { Place::Idle(connection) };
        None
    }

    /// Takes a resting connection out, told of the cause; one that a worker has is told when it comes to rest.
    pub(super) fn take(&self, id: WaiterId, cause: Cause) -> Option<Box<Connection>> {
        let mut table = self.table();
        table.get_mut(&id)?.take(cause)
    }

    /// Takes out all resting connections that `which` picks; the others that workers have are marked, if `mark`.
    #[expect(clippy::vec_box, reason = "connections stay in the box they live in")]
    pub(super) fn take_all(&self, mark: bool, which: impl Fn(&Connection) -> bool) -> Vec<Box<Connection>> {
        let mut table = self.table();
        let picked = table.values_mut().filter_map(|place| match place {
            Place::Idle(connection) | Place::Parked(connection) if !which(connection) => None,
            Place::Busy(_) if !mark => None,
            place => place.take(Cause::Call),
        });
        picked.collect()
    }

    /// What is parked: those that wait longest first, at most `max`, and how many more there are.
    pub(super) fn parked(&self, max: usize) -> (Vec<Waiting>, usize) {
        let table = self.table();
        let resting = table.values().filter_map(|place| match place {
            Place::Idle(connection) | Place::Parked(connection) => Some(connection),
            Place::Busy(_) => None,
        });
        let mut oldest: Vec<(Instant, &InFlight)> =
            resting.filter_map(|c| Some((c.in_flight.parked_since()?, &c.in_flight))).collect();
        oldest.sort_by_key(|(since, _)| *since);
        let count: usize = oldest.iter().map(|(_, in_flight)| in_flight.parked_count()).sum();
        let listed: Vec<Waiting> = oldest.iter().flat_map(|(_, in_flight)| in_flight.waiting()).take(max).collect();
        let unlisted = count - listed.len();
        (listed, unlisted)
    }

    /// The timer of a connection has come: takes it out if it is parked and due; otherwise says when the timer is to come again.
    pub(super) fn take_due(&self, id: WaiterId, now: Instant) -> Result<Box<Connection>, Option<Instant>> {
        let mut table = self.table();
        let place = table.get_mut(&id).ok_or(None)?;
        match place {
            Place::Parked(connection) => {
                connection.timer_at = connection.next_call(now).filter(|at| *at > now);
                match connection.timer_at {
                    None => place.take(Cause::WakeUp).ok_or(None),
                    later => Err(later),
                }
            }
            Place::Idle(connection) => {
                connection.timer_at = None;
                Err(None)
            }
            Place::Busy(marks) => {
                marks.woken = true;
                Err(None)
            }
        }
    }

    /// Waits until no connection is left, at most until `deadline`.
    pub(super) fn wait_until_empty(&self, deadline: Instant) -> bool {
        let table = self.table();
        let wait = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let waited = self.emptied.wait_timeout_while(table, wait, |table| !table.is_empty());
        waited.expect("no holder panics").0.is_empty()
    }
}

impl Place {
    fn take(&mut self, cause: Cause) -> Option<Box<Connection>> {
        match self {
            Place::Busy(marks) => {
                marks.readable |= cause == Cause::Socket;
                marks.woken |= cause != Cause::Socket;
                return None;
            }
            Place::Idle(_) if cause == Cause::WakeUp => return None,
            Place::Idle(_) | Place::Parked(_) => {}
        }
        match std::mem::replace(self, Place::Busy(Marks::default())) {
            Place::Idle(mut connection) | Place::Parked(mut connection) => {
                connection.tell(cause != Cause::Socket, cause == Cause::Socket);
                Some(connection)
            }
            Place::Busy(_) => None,
        }
    }
}
