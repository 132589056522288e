//! The process-wide budget for bytes of requests and replies that are held.

use crate::wake::WaiterId;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes are charged as they arrive, so frames that are only announced cost nothing. When many partial frames have used
/// everything up, none of them could ever be finished; therefore one connection at a time may go on over the budget until
/// its frame is complete.
pub(super) struct Budget {
    held: AtomicUsize,
    held_max: usize,
    unsent: AtomicUsize,
    unsent_max: usize,
    /// Who may read over the budget.
    overdraft: Mutex<Option<WaiterId>>,
}

/// What became of a wish to hold more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Held {
    Within,
    /// Charged over the budget; `repay` when the frame is complete.
    Overdrawn,
    No,
}

impl Budget {
    pub(super) fn new(held_max: usize, unsent_max: usize) -> Self {
        Budget {
            held: AtomicUsize::new(0),
            held_max,
            unsent: AtomicUsize::new(0),
            unsent_max,
            overdraft: Mutex::new(None),
        }
    }

    /// Charges `more` request bytes if there is room, or if `who` has, or now gets, the overdraft.
    pub(super) fn try_hold(&self, who: WaiterId, more: usize) -> Held {
        let fits = |held: usize| held.checked_add(more).filter(|sum| *sum <= self.held_max);
        if self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok() {
            return Held::Within;
        }
        let mut overdraft = self.overdraft.lock().expect("no holder panics");
        if *overdraft.get_or_insert(who) != who {
            return Held::No;
        }
        self.held.fetch_add(more, Ordering::Relaxed);
        Held::Overdrawn
    }

    /// Replaces a charge of request bytes that has been admitted before by what it has become.
    pub(super) fn recharge(&self, from: usize, to: usize) {
        move_gauge(&self.held, from, to);
    }

    pub(super) fn recharge_unsent(&self, from: usize, to: usize) {
        move_gauge(&self.unsent, from, to);
    }

    /// Ends `who`'s overdraft, if it has it.
    pub(super) fn repay(&self, who: WaiterId) {
        let mut overdraft = self.overdraft.lock().expect("no holder panics");
        if *overdraft == Some(who) {
            *overdraft = None;
        }
    }

    /// Request bytes that may still be held.
    pub(super) fn room(&self) -> usize {
        self.held_max.saturating_sub(self.held.load(Ordering::Relaxed))
    }

    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    pub(super) fn unsent(&self) -> usize {
        self.unsent.load(Ordering::Relaxed)
    }

    /// Whether the replies that wait for their peers are too many to make more.
    pub(super) fn is_clogged(&self) -> bool {
        self.unsent() > self.unsent_max
    }
}

fn move_gauge(gauge: &AtomicUsize, from: usize, to: usize) {
    if to >= from {
        gauge.fetch_add(to - from, Ordering::Relaxed);
    } else {
        gauge.fetch_sub(from - to, Ordering::Relaxed);
    }
}
