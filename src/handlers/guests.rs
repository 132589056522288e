//! Parked requests that have no connection: other gateways' clients wait for their answers.

use super::{Outcome, Parked, Services};
use crate::clock::Clock;
use crate::forward::Responder;
use crate::group::Groups;
use crate::limits::FORWARD_TICK_EVERY;
use crate::tasks::Tasks;
use crate::wake::{WaiterId, Wakeups, WatchKey};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
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
    /// Taken by whoever ends the wait. Held while the request is asked, which wakes nobody but other guests' tasks.
    request: Mutex<Option<(Box<dyn Parked>, Responder)>>,
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
        guests.look_later();
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
        let guest = Arc::new(Guest { id, group, keys, deadline, request: Mutex::new(None) });
        self.waiting.lock().expect("no holder panics").insert(id, guest.clone());
        self.wakeups.register(id, &guest.keys);
        let this = self.this.clone();
        let abandon = Box::new(move || {
            if let Some(guests) = this.upgrade() {
                guests.abandon_soon(id);
            }
        });
        {
            let mut place = guest.request.lock().expect("no holder panics");
            let (_, responder) = place.insert((request, responder));
            responder.on_abandon(abandon);
        }
        // What happened before the registration woke nobody.
        self.poll(&guest);
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

    fn poll(&self, guest: &Guest) {
        let now = self.clock.now();
        let mut request = guest.request.lock().expect("no holder panics");
        let Some((parked, _)) = request.as_mut() else { return };
        let outcome = match parked.poll(now) {
            Some(outcome) => outcome,
            None if now.mono < guest.deadline => return,
            None => Outcome::Close,
        };
        let ended = request.take();
        drop(request);
        self.leave(guest);
        if let Some((_, responder)) = ended {
            self.answer(outcome, &guest.group, responder);
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
            let ended = guest.request.lock().expect("no holder panics").take();
            guests.leave(&guest);
            if let Some((mut parked, _)) = ended {
                parked.abandon();
            }
        }));
    }

    fn leave(&self, guest: &Guest) {
        self.waiting.lock().expect("no holder panics").remove(&guest.id);
        self.wakeups.unregister(guest.id, &guest.keys);
    }

    fn look_later(&self) {
        let this = self.this.clone();
        let look = move || {
            if let Some(guests) = this.upgrade() {
                guests.end_overdue();
                guests.look_later();
            }
        };
        self.tasks.spawn_at(self.clock.now().mono + FORWARD_TICK_EVERY, Box::new(look));
    }

    fn end_overdue(&self) {
        let now = self.clock.now().mono;
        let waiting: Vec<Arc<Guest>> = self.waiting.lock().expect("no holder panics").values().cloned().collect();
        for guest in waiting.into_iter().filter(|guest| guest.deadline <= now) {
            self.poll(&guest);
        }
    }
}
