//! Looks at the store, shared: who asks what is being asked already waits for that answer.

use crate::store::{StoreError, StoreResult};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// One look per key at a time.
pub struct Flights<K, T> {
    /// The looks under way.
    open: Mutex<HashMap<K, Arc<Flight<T>>>>,
}

/// What came of a look.
pub struct Shared<T> {
    pub outcome: StoreResult<T>,
    /// It was begun by this asker: what it shows is not older than the question.
    pub ours: bool,
}

struct Flight<T> {
    /// What came of the look, once it is over.
    outcome: Mutex<Option<StoreResult<T>>>,
    over: Condvar,
}

impl<K: Clone + Eq + Hash, T: Clone> Flights<K, T> {
    pub fn new() -> Self {
        Flights { open: Mutex::new(HashMap::new()) }
    }

    /// Runs `look`, or waits up to `patience` for the look at `key` that somebody else is running: `NoAnswer` after that.
    pub fn share(&self, key: &K, patience: Duration, look: impl FnOnce() -> StoreResult<T>) -> Shared<T> {
        let (flight, ours) = match self.open.lock().expect("no holder panics").entry(key.clone()) {
            Entry::Occupied(entry) => (entry.get().clone(), false),
            Entry::Vacant(entry) => {
                let flight = Arc::new(Flight { outcome: Mutex::new(None), over: Condvar::new() });
                (entry.insert(flight).clone(), true)
            }
        };
        if ours {
            // Dropped even if the look panics, so that nobody waits for it in vain.
            let mut landing = Landing { flights: self, key, flight, outcome: Err(StoreError::NoAnswer) };
            landing.outcome = look();
            return Shared { outcome: landing.outcome.clone(), ours: true };
        }
        let outcome = flight.outcome.lock().expect("no holder panics");
        let wait = flight.over.wait_timeout_while(outcome, patience, |outcome| outcome.is_none());
        let (outcome, _) = wait.expect("no holder panics");
        Shared { outcome: outcome.clone().unwrap_or(Err(StoreError::NoAnswer)), ours: false }
    }
}

struct Landing<'a, K: Clone + Eq + Hash, T: Clone> {
    flights: &'a Flights<K, T>,
    key: &'a K,
    flight: Arc<Flight<T>>,
    outcome: StoreResult<T>,
}

impl<K: Clone + Eq + Hash, T: Clone> Drop for Landing<'_, K, T> {
    fn drop(&mut self) {
        self.flights.open.lock().expect("no holder panics").remove(self.key);
        *self.flight.outcome.lock().expect("no holder panics") = Some(self.outcome.clone());
        self.flight.over.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn one_look_serves_all_who_ask_meanwhile() {
        let flights = Flights::new();
        let looks = AtomicUsize::new(0);
        let started = Barrier::new(2);
        let release = Barrier::new(2);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                flights.share(&"a", Duration::from_secs(10), || {
                    started.wait();
                    release.wait();
                    looks.fetch_add(1, Ordering::SeqCst);
                    Ok(7)
                })
            });
            started.wait();
            let second = scope.spawn(|| flights.share(&"a", Duration::from_secs(10), || panic!("not a second look")));
            assert_eq!(flights.share(&"a", Duration::ZERO, || Ok(8)).outcome, Err(StoreError::NoAnswer), "no patience");
            assert_eq!(flights.share(&"b", Duration::ZERO, || Ok(9)).outcome, Ok(9), "another key");
            // The second asker must be in before the look ends; its share of the flight shows it.
            while Arc::strong_count(flights.open.lock().expect("no holder panics").get("a").expect("under way")) < 3 {
                std::thread::yield_now();
            }
            release.wait();
            assert_eq!(first.join().expect("no panic").outcome, Ok(7));
            assert_eq!(second.join().expect("no panic").outcome, Ok(7));
        });
        assert_eq!(looks.load(Ordering::SeqCst), 1);
        assert_eq!(flights.share(&"a", Duration::ZERO, || Ok(8)).outcome, Ok(8), "the next look is a new one");
    }
}
