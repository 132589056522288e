//! The asked side: requests of other gateways' clients, until they are answered or nobody waits for them any more.

use super::Forwarder;
use super::envelope::{Assembly, Content, Part, Visit};
use crate::limits::{FORWARDED_BYTES_MAX, FORWARDED_MAX, VISIT_UNASKED_MAX};
use bytes::{BufMut, Bytes, BytesMut};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// Gateway processes whose last request is remembered.
const PROCESSES_KNOWN_MAX: usize = 4_096;

/// Who asked, and under which token.
type Name = (String, u64);

#[derive(Default)]
pub(super) struct Visits {
    open: HashMap<Name, Open>,
    /// Bytes of all that have not been answered.
    bytes: usize,
    /// The highest token of each process that came or was given up: those up to it that come now were overtaken.
    newest: HashMap<String, u64>,
}

struct Open {
    state: State,
    bytes: usize,
    /// When its sender was last heard to wait for it.
    waited: Instant,
}

enum State {
    Arriving(Assembly),
    /// It is being answered; to be called if nobody waits any more.
    Served(Option<Box<dyn FnOnce() + Send>>),
    /// Nobody waited any more before it was known whom to call.
    Abandoned,
}

impl Visits {
    fn remove(&mut self, name: &Name) -> Option<Open> {
        let open = self.open.remove(name)?;
        self.bytes -= open.bytes;
        Some(open)
    }

    /// Whether a request that is waited for is unknown here. It is not served any more if it comes after all: its sender will have
    /// given it up.
    fn disown(&mut self, name: &Name, now: Instant) -> bool {
        match self.open.get_mut(name) {
            // All parts were sent before this was asked: what is missing does not come.
            Some(Open { state: State::Arriving(_), .. }) => {
                self.remove(name);
            }
            Some(open) => {
                open.waited = now;
                return false;
            }
            None => {}
        }
        self.advance(name);
        true
    }

    /// Takes note of a token. Whether it is the newest of its process so far.
    fn advance(&mut self, name: &Name) -> bool {
        if self.newest.len() >= PROCESSES_KNOWN_MAX && !self.newest.contains_key(&name.0) {
            self.newest.clear();
        }
        let newest = self.newest.entry(name.0.clone()).or_default();
        let is_newer = name.1 > *newest;
        *newest = name.1.max(*newest);
        is_newer
    }
}

/// The duty to answer a visit. Dropped without an answer, its sender finds out that it is lost.
pub struct Responder {
    forwarder: Arc<Forwarder>,
    name: Name,
}

impl Responder {
    /// Sends the response frame, its length prefix included. `served`: this gateway serves the group.
    pub fn answer(self, served: bool, frame: &[u8]) {
        if self.take().is_none() {
            return;
        }
        let mut whole = BytesMut::with_capacity(frame.len() + 1);
        whole.put_u8(u8::from(served));
        whole.put_slice(frame);
        self.forwarder.reply(&self.name, whole.freeze());
    }

    /// `call` runs, on any thread, once nobody waits for the answer any more; at once if that is so already. It must not block.
    pub fn on_abandon(&self, call: Box<dyn FnOnce() + Send>) {
        let mut visits = self.forwarder.visits.lock().expect("no holder panics");
        match visits.open.get_mut(&self.name).map(|open| &mut open.state) {
            Some(State::Served(place)) => *place = Some(call),
            _ => {
                drop(visits);
                call();
            }
        }
    }

    fn take(&self) -> Option<Open> {
        self.forwarder.visits.lock().expect("no holder panics").remove(&self.name)
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.take();
    }
}

impl Forwarder {
    pub(super) fn ask_came(&self, from: &str, part: Part) {
        let name = (from.to_owned(), part.token);
        let arrival = self.visits.lock().expect("no holder panics").arrive(&name, part, self.clock.now().mono);
        let whole = match arrival {
            Arrival::Complete(whole) => whole,
            Arrival::Partly => return,
            Arrival::NoRoom => return self.reply(&name, Bytes::from_static(&[2])),
        };
        let responder = self.this.upgrade().map(|forwarder| Responder { forwarder, name });
        // Without an answer it is known as lost.
        let (Some(responder), Some(visit)) = (responder, Visit::decode(whole)) else { return };
        if let Some(serve) = self.serve.get() {
            serve(visit, responder);
        }
    }

    fn reply(&self, name: &Name, whole: Bytes) {
        // An answer that cannot be cut is known as lost.
        for part in self.cut(name.1, whole).into_iter().flatten() {
            self.send(&name.0, Content::Answer(part));
        }
    }

    /// How many requests of other gateways' clients are being answered.
    pub fn visits_open(&self) -> usize {
        self.visits.lock().expect("no holder panics").open.len()
    }

    pub(super) fn waiting_came(&self, from: &str, tokens: &[u64]) {
        let unknown: Vec<u64> = {
            let mut visits = self.visits.lock().expect("no holder panics");
            let now = self.clock.now().mono;
            tokens.iter().copied().filter(|token| visits.disown(&(from.to_owned(), *token), now)).collect()
        };
        self.send(from, Content::Unknown(unknown));
    }

    pub(super) fn abandoned_came(&self, from: &str, tokens: &[u64]) {
        for token in tokens {
            let name = (from.to_owned(), *token);
            self.visits.lock().expect("no holder panics").advance(&name);
            self.give_up(&name);
        }
    }

    /// Ends what nobody waits for any more.
    pub(super) fn tick_visits(&self) {
        let now = self.clock.now().mono;
        let unasked: Vec<Name> = {
            let visits = self.visits.lock().expect("no holder panics");
            let old = |open: &Open| now.saturating_duration_since(open.waited) > VISIT_UNASKED_MAX;
            visits.open.iter().filter(|(_, open)| old(open)).map(|(name, _)| name.clone()).collect()
        };
        for name in unasked {
            self.give_up(&name);
        }
    }

    fn give_up(&self, name: &Name) {
        let call = {
            let mut visits = self.visits.lock().expect("no holder panics");
            match visits.open.get_mut(name).map(|open| &mut open.state) {
                Some(State::Served(call @ Some(_))) => call.take(),
                Some(state @ State::Served(None)) => {
                    *state = State::Abandoned;
                    None
                }
                Some(State::Arriving(_)) => {
                    visits.remove(name);
                    None
                }
                Some(State::Abandoned) | None => None,
            }
        };
        if let Some(call) = call {
            call();
        }
    }
}

enum Arrival {
    Complete(Bytes),
    Partly,
    NoRoom,
}

impl Visits {
    fn arrive(&mut self, name: &Name, part: Part, now: Instant) -> Arrival {
        let (count, length) = (self.open.len(), part.bytes.len());
        let no_room = self.bytes + length > FORWARDED_BYTES_MAX;
        let is_first = part.index == 0;
        let is_overtaken = is_first && !self.open.contains_key(name) && !self.advance(name);
        let state = match self.open.get_mut(name) {
            Some(open) => open,
            None if is_overtaken => return Arrival::Partly,
            // Parts come in order: what does not begin with the first is incomplete for good.
            None if !is_first => return Arrival::Partly,
            None if no_room || count >= FORWARDED_MAX => return Arrival::NoRoom,
            None => {
                let state = State::Arriving(Assembly::new(part.count));
                self.open.entry(name.clone()).or_insert(Open { state, bytes: 0, waited: now })
            }
        };
        if no_room {
            self.remove(name);
            return Arrival::NoRoom;
        }
        // A repeated part of what has arrived already.
        let State::Arriving(assembly) = &mut state.state else { return Arrival::Partly };
        let before = assembly.bytes;
        assembly.put(part);
        let more = assembly.bytes - before;
        let complete = assembly.complete();
        state.bytes += more;
        self.bytes += more;
        match complete {
            Some(whole) => {
                state.state = State::Served(None);
                Arrival::Complete(whole)
            }
            None => Arrival::Partly,
        }
    }
}
