//! Requests that wait for their reply, matched by token. They are failed together when the connection is lost.

use nats::HeaderMap;
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::Instant;

/// What came back for a request.
#[derive(Debug)]
pub struct Reply {
    pub headers: Option<HeaderMap>,
    pub payload: Vec<u8>,
}

impl Reply {
    /// A header that stands there once; a foreign message may carry the same name a second time.
    pub fn header(&self, name: &str) -> Option<&str> {
        let headers: &HashMap<String, HashSet<String>> = self.headers.as_ref()?;
        let mut values = headers.get(name)?.iter();
        values.next().filter(|_| values.next().is_none()).map(String::as_str)
    }

    /// The status line's number, e.g. 404; 0 where there is none.
    pub fn status(&self) -> u16 {
        self.header(nats::header::STATUS).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    pub fn has_no_responders(&self) -> bool {
        self.payload.is_empty() && self.status() == 503
    }
}

/// Why there is no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// There was no connection: nothing was sent.
    NotConnected,
    /// The connection was lost while the request was under way.
    Disconnected,
    TimedOut,
    /// The message and its headers exceed the server's max_payload.
    TooLarge {
        max: usize,
    },
    /// Too many requests are queued: nothing was sent.
    Full,
}

pub type Outcome = Result<Reply, Lost>;

/// Where replies go.
pub enum Sink {
    /// One reply ends the request.
    Once(Box<dyn FnOnce(Outcome) + Send>),
    /// Replies come until the asker takes the token back, or an error ends it.
    Many(crossbeam_channel::Sender<Outcome>),
}

impl Sink {
    pub fn end(self, outcome: Outcome) {
        match self {
            Sink::Once(done) => done(outcome),
            // The asker may have left.
            Sink::Many(sender) => drop(sender.send(outcome)),
        }
    }
}

struct Entry {
    deadline: Instant,
    sink: Sink,
}

#[derive(Default)]
struct State {
    entries: HashMap<u64, Entry>,
    /// The crate holds a connection.
    connected: bool,
    /// The reply subscription stands.
    ready: bool,
    /// Counts losses of the connection, so that jobs from before one can be told.
    epoch: u64,
}

/// The waiting requests of one connection.
pub struct Pending {
    /// Protects the table and whether it is open; never held while a sink runs.
    state: Mutex<State>,
}

impl Pending {
    /// Not open until `set_ready`, and closed whenever the connection is lost.
    pub fn new() -> Pending {
        Pending { state: Mutex::new(State { connected: true, ..State::default() }) }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Gives the epoch, or the sink back if there is no connection.
    pub fn insert(&self, token: u64, deadline: Instant, sink: Sink) -> Result<u64, Sink> {
        let mut state = self.state();
        if !(state.connected && state.ready) {
            return Err(sink);
        }
        state.entries.insert(token, Entry { deadline, sink });
        Ok(state.epoch)
    }

    pub fn remove(&self, token: u64) -> Option<Sink> {
        self.state().entries.remove(&token).map(|entry| entry.sink)
    }

    /// Hands a reply to whom it belongs; one for nobody is dropped.
    pub fn deliver(&self, token: u64, reply: Reply) {
        let once = {
            let mut state = self.state();
            match state.entries.get(&token).map(|entry| &entry.sink) {
                Some(Sink::Many(sender)) => {
                    let _ = sender.send(Ok(reply));
                    return;
                }
                Some(Sink::Once(_)) => state.entries.remove(&token),
                None => None,
            }
        };
        if let Some(entry) = once {
            entry.sink.end(Ok(reply));
        }
    }

    /// Takes what is overdue, and tells when the next one will be.
    pub fn expire(&self, now: Instant) -> (Vec<Sink>, Option<Instant>) {
        let mut state = self.state();
        let due: Vec<u64> = state.entries.iter().filter(|(_, e)| e.deadline <= now).map(|(token, _)| *token).collect();
        let due = due.into_iter().filter_map(|token| state.entries.remove(&token)).map(|e| e.sink).collect();
        (due, state.entries.values().map(|e| e.deadline).min())
    }

    pub fn set_ready(&self) {
        self.state().ready = true;
    }

    pub fn reconnected(&self) {
        self.state().connected = true;
    }

    /// Closes the table and takes all that waited.
    pub fn disconnected(&self) -> Vec<Sink> {
        let mut state = self.state();
        state.connected = false;
        state.epoch += 1;
        state.entries.drain().map(|(_, entry)| entry.sink).collect()
    }

    /// Closes the table for good, also if the crate brings the connection back, and takes all that waited.
    pub fn close(&self) -> Vec<Sink> {
        self.state().ready = false;
        self.disconnected()
    }

    pub fn is_open(&self) -> bool {
        let state = self.state();
        state.connected && state.ready
    }

    pub fn epoch(&self) -> u64 {
        self.state().epoch
    }
}
