//! Where domain code sends work that must run on a worker: now, when a time has come, or again and again.

use crate::clock::Clock;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

pub type Task = Box<dyn FnOnce() + Send>;

/// Implemented by the worker pool; in unit tests by a queue that the script drains.
pub trait Tasks: Send + Sync {
    /// Runs `task` on a worker soon. Never runs it on the calling thread, never blocks.
    fn spawn(&self, task: Task);

    /// Runs `task` on a worker at or soon after `at`. A timer cannot be cancelled: the task checks whether it still matters.
    fn spawn_at(&self, at: Instant, task: Task);
}

/// After a round that panicked.
const PANIC_PAUSE: Duration = Duration::from_secs(1);

/// What is done again and again on workers for as long as `of` is there.
pub struct Repeated<T> {
    pub of: Weak<T>,
    pub tasks: Arc<dyn Tasks>,
    pub clock: Arc<dyn Clock>,
    /// One round. Gives the pause before the next one.
    pub round: fn(&Arc<T>) -> Duration,
}

impl<T: Send + Sync + 'static> Repeated<T> {
    /// The next round comes after `pause`. One that panics is followed by another one like any other.
    pub fn after(self, pause: Duration) {
        let tasks = self.tasks.clone();
        tasks.spawn_at(self.clock.now().mono + pause, Box::new(move || self.run()));
    }

    fn run(self) {
        let Some(of) = self.of.upgrade() else { return };
        let round = self.round;
        let mut next = Next { repeated: Some(self), pause: PANIC_PAUSE };
        next.pause = round(&of);
    }
}

/// Dropped at the end of a round, however it ends.
struct Next<T: Send + Sync + 'static> {
    repeated: Option<Repeated<T>>,
    pause: Duration,
}

impl<T: Send + Sync + 'static> Drop for Next<T> {
    fn drop(&mut self) {
        if let Some(repeated) = self.repeated.take() {
            repeated.after(self.pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// The tasks that wait, with their times.
    #[derive(Default)]
    struct Waiting(Mutex<Vec<(Instant, Task)>>);

    impl Tasks for Waiting {
        fn spawn(&self, _: Task) {}

        fn spawn_at(&self, at: Instant, task: Task) {
            self.0.lock().expect("no holder panics").push((at, task));
        }
    }

    #[test]
    fn rounds_follow_each_other_also_after_a_panic_until_their_object_is_gone() {
        let (tasks, clock) = (Arc::new(Waiting::default()), Arc::new(ManualClock::new()));
        let rounds = Arc::new(AtomicU32::new(0));
        let round = |rounds: &Arc<AtomicU32>| {
            assert!(rounds.fetch_add(1, Ordering::Relaxed) != 1, "the second panics");
            Duration::from_secs(7)
        };
        let start = clock.now().mono;
        Repeated { of: Arc::downgrade(&rounds), tasks: tasks.clone(), clock, round }.after(Duration::ZERO);
        let mut told = Vec::new();
        for _ in 0..3 {
            let (at, task) = tasks.0.lock().expect("no holder panics").pop().expect("a round waits");
            told.push(at - start);
            let _ = catch_unwind(AssertUnwindSafe(task));
        }
        assert_eq!(told, [Duration::ZERO, Duration::from_secs(7), PANIC_PAUSE]);
        assert_eq!(rounds.load(Ordering::Relaxed), 3);
        drop(rounds);
        let (_, task) = tasks.0.lock().expect("no holder panics").pop().expect("a round waits");
        task();
        assert!(tasks.0.lock().expect("no holder panics").is_empty());
    }
}
