//! Where domain code sends work that must run on a worker: now, or when a time has come.

use std::time::Instant;

pub type Task = Box<dyn FnOnce() + Send>;

/// Implemented by the worker pool; in unit tests by a queue that the script drains.
pub trait Tasks: Send + Sync {
    /// Runs `task` on a worker soon. Never runs it on the calling thread, never blocks.
    fn spawn(&self, task: Task);

    /// Runs `task` on a worker at or soon after `at`. A timer cannot be cancelled: the task checks whether it still matters.
    fn spawn_at(&self, at: Instant, task: Task);
}
