//! A turn that is taken by one at a time. Who waits leaves at a deadline, or when it has been taken for long.

use crate::limits::TAIL_HELD_MAX;
use std::sync::{Condvar, Mutex};
use std::time::Instant;

#[derive(Default)]
pub struct Turn {
    /// Since when someone has it.
    taken: Mutex<Option<Instant>>,
    freed: Condvar,
}

/// Holds the turn; dropping it lets the next one in.
pub struct Taken<'a>(&'a Turn);

impl Turn {
    /// Waits for the turn; `None` if it does not come in time, or is held by someone who waits for a store that hangs.
    pub fn take(&self, deadline: Instant) -> Option<Taken<'_>> {
        let mut taken = self.taken.lock().expect("no holder panics");
        while let Some(since) = *taken {
            let left = deadline.min(since + TAIL_HELD_MAX).saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            taken = self.freed.wait_timeout(taken, left).expect("no holder panics").0;
        }
        *taken = Some(Instant::now());
        Some(Taken(self))
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock().expect("no holder panics") = None;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_behind_a_long_turn_leaves_before_the_deadline() {
        let turn = Turn::default();
        let far = || Instant::now() + TAIL_HELD_MAX * 100;
        let taken = turn.take(far());
        assert!(taken.is_some());
        let began = Instant::now();
        assert!((0..3).all(|_| turn.take(far()).is_none()));
        assert!(began.elapsed() < TAIL_HELD_MAX * 10);
        drop(taken);
        assert!(turn.take(far()).is_some());
    }
}
