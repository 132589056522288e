//! What each worker does at this moment, and which requests wait for whom: for a look into a running gateway.
//!
//! A worker notes what it does in a slot of its own. The slot is found by thread, so that whoever runs on a worker (a
//! handler, the gate before the store) can note it without being handed anything; on other threads nothing is noted.

use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Bytes of a client id that are kept for people to see; a longer one is cut.
const CLIENT_ID_BYTES_MAX: usize = 100;

/// Which request it is, for people.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    pub api: &'static str,
    pub version: i16,
    pub correlation_id: i32,
    /// What the client calls itself, cut short; it may hold anything.
    pub client_id: String,
    pub peer: SocketAddr,
}

impl Label {
    /// A client id of a length that a line can hold.
    pub fn client_id(full: &str) -> String {
        match full.char_indices().find(|(at, c)| at + c.len_utf8() > CLIENT_ID_BYTES_MAX) {
            Some((at, _)) => format!("{}…", full.split_at(at).0),
            None => full.to_owned(),
        }
    }
}

/// What a thread is in the middle of.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    Idle,
    /// A task of the domain: a timer, a load, a sweep.
    Task,
    Reading,
    Decoding,
    Handling,
    /// Asks a request that was parked whether it can be answered.
    Asking,
    /// Waits for its turn at the store, or for the store's answer.
    Store {
        call: &'static str,
        /// The stream or bucket, empty where there is none.
        on: String,
    },
    Writing,
}

/// A thread's note of what it does.
#[derive(Clone, Debug)]
pub struct Doing {
    /// When the job began, or when the thread became idle.
    pub since: Instant,
    pub phase: Phase,
    pub phase_since: Instant,
    pub request: Option<Arc<Label>>,
}

struct Slot {
    thread: String,
    /// Protects the note. Taken for copying only.
    doing: Mutex<Doing>,
}

impl Slot {
    fn doing(&self) -> MutexGuard<'_, Doing> {
        self.doing.lock().expect("no holder panics")
    }
}

thread_local! {
    static SLOT: RefCell<Option<Arc<Slot>>> = const { RefCell::new(None) };
    /// What this thread spent in store calls since it was last asked.
    static STORE_TIME: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

fn with_slot(note: impl FnOnce(&mut Doing)) {
    SLOT.with_borrow(|slot| {
        if let Some(slot) = slot {
            note(&mut slot.doing());
        }
    });
}

/// The notes of all threads that enrolled.
#[derive(Default)]
pub struct Board {
    /// Protects the list; a slot is locked under it.
    slots: Mutex<Vec<Arc<Slot>>>,
}

impl Board {
    /// Gives the calling thread a slot, for its whole life.
    pub fn enrol(&self, thread: String) {
        let now = Instant::now();
        let doing = Mutex::new(Doing { since: now, phase: Phase::Idle, phase_since: now, request: None });
        let slot = Arc::new(Slot { thread, doing });
        self.slots.lock().expect("no holder panics").push(slot.clone());
        SLOT.set(Some(slot));
    }

    /// Every thread's name and note, in the order of their names and numbers.
    pub fn workers(&self) -> Vec<(String, Doing)> {
        let slots = self.slots.lock().expect("no holder panics");
        let mut workers: Vec<_> = slots.iter().map(|slot| (slot.thread.clone(), slot.doing().clone())).collect();
        workers.sort_by(|(a, _), (b, _)| (a.len(), a).cmp(&(b.len(), b)));
        workers
    }
}

/// The calling thread begins a job.
pub fn begin(phase: Phase) {
    let now = Instant::now();
    with_slot(|doing| *doing = Doing { since: now, phase, phase_since: now, request: None });
}

/// The calling thread has gone on to another part of its job.
pub fn enter(phase: Phase) {
    with_slot(|doing| {
        doing.phase = phase;
        doing.phase_since = Instant::now();
    });
}

/// The job is about this request from here on.
pub fn concerns(request: &Arc<Label>, phase: Phase) {
    with_slot(|doing| {
        doing.request = Some(request.clone());
        doing.phase = phase;
        doing.phase_since = Instant::now();
    });
}

/// A call to the store, until it is dropped.
pub struct StoreCall {
    before: Option<Phase>,
    began: Instant,
}

/// Notes that the calling thread goes to the store.
pub fn store_call(call: &'static str, on: &str) -> StoreCall {
    let began = Instant::now();
    let mut before = None;
    with_slot(|doing| {
        before = Some(std::mem::replace(&mut doing.phase, Phase::Store { call, on: on.to_owned() }));
        doing.phase_since = began;
    });
    StoreCall { before, began }
}

impl Drop for StoreCall {
    fn drop(&mut self) {
        STORE_TIME.set(STORE_TIME.get() + self.began.elapsed());
        if let Some(before) = self.before.take() {
            enter(before);
        }
    }
}

/// What the calling thread spent in store calls since this was last asked.
pub fn take_store_time() -> Duration {
    STORE_TIME.replace(Duration::ZERO)
}

/// A request that waits for someone else.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub request: Arc<Label>,
    pub since: Instant,
    /// When it is answered whatever happens.
    pub deadline: Instant,
    /// For whom it waits, for people.
    pub waits_for: String,
}

/// What goes on at one moment.
#[derive(Clone, Debug)]
pub struct Dump {
    pub taken: Instant,
    pub workers: Vec<(String, Doing)>,
    /// Jobs for which no worker was free yet.
    pub queued: usize,
    pub connections: usize,
    /// Those that wait longest come first.
    pub parked: Vec<Waiting>,
    /// How many more are parked than are listed.
    pub parked_unlisted: usize,
}

impl Dump {
    fn ms(&self, since: Instant) -> u64 {
        u64::try_from(self.taken.saturating_duration_since(since).as_millis()).unwrap_or(u64::MAX)
    }

    pub fn to_json(&self) -> Value {
        let workers = self.workers.iter().map(|(thread, doing)| {
            let mut row = json!({
                "thread": thread,
                "phase": doing.phase.name(),
                "phase_ms": self.ms(doing.phase_since),
                "since_ms": self.ms(doing.since),
                "request": doing.request.as_ref().map(|request| request.to_json()),
            });
            if let Phase::Store { call, on } = &doing.phase {
                row["call"] = (*call).into();
                row["on"] = on.as_str().into();
            }
            row
        });
        let parked = self.parked.iter().map(|waiting| {
            let left = waiting.deadline.saturating_duration_since(self.taken);
            json!({
                "request": waiting.request.to_json(),
                "since_ms": self.ms(waiting.since),
                "deadline_in_ms": u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
                "waits_for": waiting.waits_for,
            })
        });
        json!({
            "workers": workers.collect::<Vec<_>>(),
            "queued": self.queued,
            "connections": self.connections,
            "parked": parked.collect::<Vec<_>>(),
            "parked_unlisted": self.parked_unlisted,
        })
    }
}

impl Label {
    fn to_json(&self) -> Value {
        json!({
            "api": self.api,
            "version": self.version,
            "correlation_id": self.correlation_id,
            "client_id": self.client_id,
            "peer": self.peer.to_string(),
        })
    }
}

impl Phase {
    fn name(&self) -> &'static str {
        match self {
            Phase::Idle => "idle",
            Phase::Task => "task",
            Phase::Reading => "reading",
            Phase::Decoding => "decoding",
            Phase::Handling => "handling",
            Phase::Asking => "asking",
            Phase::Store { .. } => "store",
            Phase::Writing => "writing",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Phase::Store { call, on } => write!(f, "store {call} {on:?}"),
            other => f.write_str(other.name()),
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Label { api, version, correlation_id, client_id, peer } = self;
        write!(f, "{api} v{version} #{correlation_id} of {client_id:?} at {peer}")
    }
}

/// One line a worker and a parked request; what peers sent is escaped.
impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parked = self.parked.len() + self.parked_unlisted;
        writeln!(
            f,
            "{} workers, {} jobs queued, {} connections, {parked} parked requests",
            self.workers.len(),
            self.queued,
            self.connections
        )?;
        for (thread, doing) in &self.workers {
            write!(f, "  {thread:<10} {} for {} ms", doing.phase, self.ms(doing.phase_since))?;
            if let Some(request) = &doing.request {
                write!(f, ", {} ms into {request}", self.ms(doing.since))?;
            }
            writeln!(f)?;
        }
        for waiting in &self.parked {
            let left = waiting.deadline.saturating_duration_since(self.taken).as_millis();
            let since = self.ms(waiting.since);
            let (request, waits_for) = (&waiting.request, &waiting.waits_for);
            writeln!(f, "  parked     {since} ms, {left} ms left, waits for {waits_for:?}: {request}")?;
        }
        if self.parked_unlisted > 0 {
            writeln!(f, "  parked     {} more", self.parked_unlisted)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(client_id: &str) -> Arc<Label> {
        let peer = "10.0.0.1:5".parse().expect("an address");
        let client_id = Label::client_id(client_id);
        Arc::new(Label { api: "Fetch", version: 13, correlation_id: 7, client_id, peer })
    }

    #[test]
    fn a_thread_tells_what_it_does_and_its_store_calls_are_timed() {
        let board = Board::default();
        board.enrol("worker-0".to_owned());
        begin(Phase::Reading);
        concerns(&label("c"), Phase::Handling);
        {
            let _outer = store_call("message_get", "kafka-t-0");
            let [(thread, doing)] = &board.workers()[..] else { panic!("one thread enrolled") };
            assert_eq!(thread, "worker-0");
            assert_eq!(doing.phase, Phase::Store { call: "message_get", on: "kafka-t-0".to_owned() });
            assert_eq!(doing.request.as_deref(), Some(&*label("c")));
        }
        assert_eq!(board.workers()[0].1.phase, Phase::Handling);
        assert!(take_store_time() > Duration::ZERO);
        assert_eq!(take_store_time(), Duration::ZERO);
        begin(Phase::Idle);
        assert_eq!(board.workers()[0].1.request, None);
    }

    #[test]
    fn a_dump_is_one_line_each_whatever_clients_call_themselves() {
        let now = Instant::now();
        let evil = label("x\n  worker-9 \u{1b}[31m\u{202e}");
        let doing = Doing { since: now, phase: Phase::Writing, phase_since: now, request: Some(evil.clone()) };
        let waiting = Waiting { request: evil, since: now, deadline: now, waits_for: "group \"a\nb\"".to_owned() };
        let dump = Dump {
            taken: now,
            workers: vec![("worker-0".to_owned(), doing)],
            queued: 1,
            connections: 2,
            parked: vec![waiting],
            parked_unlisted: 3,
        };
        let text = dump.to_string();
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
        let json = dump.to_json();
        assert_eq!(json["workers"][0]["request"]["api"], "Fetch");
        assert_eq!(json["parked"][0]["waits_for"], "group \"a\nb\"");
    }

    #[test]
    fn long_client_ids_are_cut_at_a_character() {
        assert_eq!(Label::client_id("short"), "short");
        assert_eq!(Label::client_id(&"é".repeat(50)), "é".repeat(50));
        assert_eq!(Label::client_id(&"é".repeat(51)), format!("{}…", "é".repeat(50)));
        assert_eq!(Label::client_id(&format!("x{}", "é".repeat(50))), format!("x{}…", "é".repeat(49)));
    }
}
