//! Parked requests that have no connection: other gateways' clients wait for their answers.

use super::{Outcome, Parked, Services};
use crate::clock::Clock;
use crate::forward::Responder;
use crate::group::Groups;
use crate::limits::FORWARD_TICK_EVERY;
use crate::tasks::{Repeated, Tasks};
use crate::wake::{WaiterId, Wakeups, WatchKey};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Instant;

pub(super) struct Guests {
    groups: Arc<Groups>,
    wakeups: Arc<Wakeups>,
    tasks: Arc<dyn Tasks>,
    clock: Arc<dyn Clock>,
    /// Who waits. A leaf.
    waiting: Mutex<HashMap<WaiterId, Arc<Guest>>>,
    next: AtomicU64,
    this: Weak<Guests>,
}

struct Guest {
    id: WaiterId,
    group: String,
    keys: Vec<WatchKey>,
    deadline: Instant,
    /// A leaf: whoever asks the request takes it out for that time.
    place: Mutex<Place>,
}

/// Where the request is, and what happened while somebody had it.
#[derive(Default)]
struct Place {
    request: Option<(Box<dyn Parked>, Responder)>,
    woken: bool,
    gone: bool,
}

impl Guests {
    pub fn start(services: &Services) -> Arc<Guests> {
        let guests = Arc::new_cyclic(|this| Guests {
            groups: services.groups.clone(),
            wakeups: services.wakeups.clone(),
            tasks: services.tasks.clone(),
            clock: services.clock.clone(),
            waiting: Mutex::default(),
            next: AtomicU64::new(1),
            this: this.clone(),
        });
        let woken = guests.this.clone();
        guests.wakeups.set_guest_sink(Box::new(move |id| {
            if let Some(guests) = woken.upgrade() {
                guests.poll_soon(id);
            }
        }));
        let round = |guests: &Arc<Guests>| {
            guests.end_overdue();
            FORWARD_TICK_EVERY
        };
        Repeated { of: guests.this.clone(), tasks: guests.tasks.clone(), clock: guests.clock.clone(), round }
            .after(FORWARD_TICK_EVERY);
        guests
    }

    /// Answers now, or once the request is ready; it is abandoned when nobody waits for it any more.
    pub fn host(&self, outcome: Outcome, group: String, responder: Responder) {
        let request = match outcome {
            Outcome::Park(request) => request,
            settled => return self.answer(settled, &group, responder),
        };
        let id = WaiterId::guest(self.next.fetch_add(1, Ordering::Relaxed));
        let (keys, deadline) = (request.keys(), request.deadline());
        let guest = Arc::new(Guest { id, group, keys, deadline, place: Mutex::default() });
        self.waiting.lock().expect("no holder panics").insert(id, guest.clone());
        self.wakeups.register(id, &guest.keys);
        let this = self.this.clone();
        responder.on_abandon(Box::new(move || {
            if let Some(guests) = this.upgrade() {
                guests.abandon_soon(id);
            }
        }));
        // What happened before the registration woke nobody.
        self.ask(&guest, (request, responder));
    }

    fn find(&self, id: WaiterId) -> Option<Arc<Guest>> {
        self.waiting.lock().expect("no holder panics").get(&id).cloned()
    }

    fn poll_soon(&self, id: WaiterId) {
        let this = self.this.clone();
        self.tasks.spawn(Box::new(move || {
            if let Some((guests, guest)) = this.upgrade().and_then(|guests| Some((guests.clone(), guests.find(id)?))) {
                guests.poll(&guest);
            }
        }));
    }

    /// Asks the request whether it is ready; if another has it just now, that one asks again.
    fn poll(&self, guest: &Guest) {
        let taken = {
            let mut place = guest.lock();
            place.woken = place.request.is_none();
            place.request.take()
        };
        if let Some(request) = taken {
            self.ask(guest, request);
        }
    }

    fn ask(&self, guest: &Guest, (mut parked, responder): (Box<dyn Parked>, Responder)) {
        loop {
            let now = self.clock.now();
            if let Some(outcome) = parked.poll(now).or_else(|| (now.mono >= guest.deadline).then_some(Outcome::Close)) {
                self.leave(guest);
                return self.answer(outcome, &guest.group, responder);
            }
            let mut place = guest.lock();
            if place.gone {
                drop(place);
                self.leave(guest);
                return parked.abandon();
            }
            if !std::mem::take(&mut place.woken) {
                place.request = Some((parked, responder));
                return;
            }
        }
    }

    /// Without a reply the responder is dropped, and the client told to try again.
    fn answer(&self, outcome: Outcome, group: &str, responder: Responder) {
        if let Outcome::Reply(frame) = outcome {
            responder.answer(self.groups.serves(group), &frame);
        }
    }

    fn abandon_soon(&self, id: WaiterId) {
        let this = self.this.clone();
        self.tasks.spawn(Box::new(move || {
            let Some((guests, guest)) = this.upgrade().and_then(|guests| Some((guests.clone(), guests.find(id)?)))
            else {
                return;
            };
            let taken = {
                let mut place = guest.lock();
                place.gone = true;
                place.request.take()
            };
            if let Some((mut parked, _)) = taken {
                guests.leave(&guest);
                parked.abandon();
            }
        }));
    }

    fn leave(&self, guest: &Guest) {
        self.waiting.lock().expect("no holder panics").remove(&guest.id);
        self.wakeups.unregister(guest.id, &guest.keys);
    }

    fn end_overdue(&self) {
        let now = self.clock.now().mono;
        let waiting: Vec<Arc<Guest>> = self.waiting.lock().expect("no holder panics").values().cloned().collect();
        for guest in waiting.into_iter().filter(|guest| guest.deadline <= now) {
            self.poll(&guest);
        }
    }
}

impl Guest {
    fn lock(&self) -> MutexGuard<'_, Place> {
        self.place.lock().expect("no holder panics")
    }
}
