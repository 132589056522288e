//! A value that someone else will deliver: the domain keeps the `Promise`, a parked request holds the `Pending`.

use crate::wake::{Wakeups, WatchKey};
use std::sync::{Arc, Mutex};

/// One promise whose `Pending` yields one value.
pub fn promise<T>(wakeups: &Arc<Wakeups>) -> (Promise<T>, Pending<T>) {
    let (mut promises, pending) = promises(wakeups, 1);
    (promises.pop().expect("one was asked for"), pending)
}

/// `count` promises that share one `Pending`: it is notified once, when the last of them is kept or dropped.
/// With a count of 0 it is complete from the start.
pub fn promises<T>(wakeups: &Arc<Wakeups>, count: usize) -> (Vec<Promise<T>>, Pending<T>) {
    let id = wakeups.next_promise_id();
    let slots = Slots { values: (0..count).map(|_| None).collect(), open: count };
    let shared = Arc::new(Shared { slots: Mutex::new(slots), wakeups: wakeups.clone(), id });
    let promises = (0..count).map(|slot| Promise { shared: shared.clone(), slot, settled: false }).collect();
    (promises, Pending { shared })
}

/// The duty to deliver one value. Dropping it unkept settles its slot with `None`.
pub struct Promise<T> {
    shared: Arc<Shared<T>>,
    slot: usize,
    settled: bool,
}

impl<T> Promise<T> {
    pub fn keep(mut self, value: T) {
        self.settle(Some(value));
    }

    fn settle(&mut self, value: Option<T>) {
        self.settled = true;
        let complete = {
            let mut slots = self.shared.slots.lock().expect("no holder panics");
            if let Some(slot) = slots.values.get_mut(self.slot) {
                *slot = value;
            }
            slots.open -= 1;
            slots.open == 0
        };
        if complete {
            self.shared.wakeups.notify(&WatchKey::Promise(self.shared.id));
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        if !self.settled {
            self.settle(None);
        }
    }
}

/// The receiving end, one slot per promise, in the order they were made.
pub struct Pending<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Pending<T> {
    pub fn key(&self) -> WatchKey {
        WatchKey::Promise(self.shared.id)
    }

    pub fn is_complete(&self) -> bool {
        self.shared.slots.lock().expect("no holder panics").open == 0
    }

    /// Takes what has been delivered so far, `None` where nothing was (yet): for answering at a deadline, or when complete.
    pub fn take(&self) -> Vec<Option<T>> {
        let mut slots = self.shared.slots.lock().expect("no holder panics");
        slots.values.iter_mut().map(Option::take).collect()
    }

    /// For a single promise: its value, once it is complete; `Some(None)` means it was dropped unkept.
    pub fn take_one(&self) -> Option<Option<T>> {
        if !self.is_complete() {
            return None;
        }
        Some(self.take().pop().flatten())
    }
}

struct Shared<T> {
    /// Protects the values and the count of promises not yet settled.
    slots: Mutex<Slots<T>>,
    wakeups: Arc<Wakeups>,
    id: u64,
}

struct Slots<T> {
    values: Vec<Option<T>>,
    open: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wake::WaiterId;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn the_last_promise_wakes_and_a_dropped_one_counts() {
        let wakeups = Arc::new(Wakeups::new());
        let woken = Arc::new(AtomicU64::new(0));
        let count = woken.clone();
        wakeups.set_sink(Box::new(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
        }));
        let (mut made, pending) = promises::<u8>(&wakeups, 2);
        wakeups.register(WaiterId(1), &[pending.key()]);
        made.pop().expect("two were made").keep(7);
        assert!(!pending.is_complete());
        assert_eq!(woken.load(Ordering::SeqCst), 0);
        drop(made);
        assert_eq!(woken.load(Ordering::SeqCst), 1);
        assert_eq!(pending.take(), vec![None, Some(7)]);
        wakeups.unregister(WaiterId(1), &[pending.key()]);
        assert_eq!(wakeups.registered(), 0);
    }
}
