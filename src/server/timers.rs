//! The timers thread: hands on what has come due. It does no I/O.

use crate::tasks::Task;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::{Condvar, Mutex};
use std::time::Instant;

/// What happens when a time has come.
pub(super) enum Due {
    /// Goes to a worker.
    Task(Task),
    /// Runs on the timers thread: it moves jobs and never blocks.
    Call(Box<dyn FnOnce() + Send>),
}

#[derive(Default)]
pub(super) struct Timers {
    /// Protects the queue of what is to come.
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    heap: BinaryHeap<Entry>,
    next: u64,
    stopped: bool,
}

struct Entry {
    at: Instant,
    /// Keeps what is due at the same time in order.
    number: u64,
    due: Due,
}

impl Timers {
    pub(super) fn at(&self, at: Instant, due: Due) {
        let mut queue = self.queue.lock().expect("no holder panics");
        if queue.stopped {
            return;
        }
        let number = queue.next;
        queue.next += 1;
        let is_first = queue.heap.peek().is_none_or(|first| at < first.at);
        queue.heap.push(Entry { at, number, due });
        drop(queue);
        if is_first {
            self.changed.notify_one();
        }
    }

    pub(super) fn stop(&self) {
        let mut queue = self.queue.lock().expect("no holder panics");
        queue.stopped = true;
        let forgotten = std::mem::take(&mut queue.heap);
        drop(queue);
        drop(forgotten);
        self.changed.notify_all();
    }

    /// The thread's life: returns when stopped.
    pub(super) fn run(&self, deliver: impl Fn(Due)) {
        let mut queue = self.queue.lock().expect("no holder panics");
        while !queue.stopped {
            let now = Instant::now();
            let wait = queue.heap.peek().map(|first| first.at.saturating_duration_since(now));
            queue = match wait {
                None => self.changed.wait(queue).expect("no holder panics"),
                Some(wait) if !wait.is_zero() => self.changed.wait_timeout(queue, wait).expect("no holder panics").0,
                Some(_) => {
                    let due = queue.heap.pop().expect("peeked under the same lock").due;
                    drop(queue);
                    deliver(due);
                    self.queue.lock().expect("no holder panics")
                }
            };
        }
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// Reversed: the heap gives its greatest first, and the earliest is wanted.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}
