//! A turn that is taken by one at a time, with a deadline for those who wait.

use std::sync::{Condvar, Mutex};
use std::time::Instant;

#[derive(Default)]
pub struct Turn {
    /// Whether someone has it.
    taken: Mutex<bool>,
    freed: Condvar,
}

/// Holds the turn; dropping it lets the next one in.
pub struct Taken<'a>(&'a Turn);

impl Turn {
    /// Waits for the turn; `None` if it does not come in time.
    pub fn take(&self, deadline: Instant) -> Option<Taken<'_>> {
        let mut taken = self.taken.lock().expect("no holder panics");
        while *taken {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            taken = self.freed.wait_timeout(taken, left).expect("no holder panics").0;
        }
        *taken = true;
        Some(Taken(self))
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock().expect("no holder panics") = false;
        self.0.freed.notify_one();
    }
}
