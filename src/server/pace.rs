//! Whether a peer moves what is held for it: takes its replies, goes on with its frames.

use std::time::{Duration, Instant};

/// Of what is held for a peer it is to move this part within `STALL_MAX` while others wait for the room. A part, because no fixed
/// number is fair: who holds little may be slow, who holds much must not.
const SHARE: usize = 4;

/// Measures one peer. A byte now and then is no progress.
pub(super) struct Pace {
    since: Instant,
    /// Bytes that came or went since then, and how many are enough to count from anew.
    moved: usize,
    enough: usize,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Pace { since: now, moved: 0, enough: 0 }
    }

    /// So many bytes came or went, and so many are held now.
    pub(super) fn advance(&mut self, moved: usize, held: usize, now: Instant) {
        self.moved += moved;
        if held == 0 || self.moved >= self.enough {
            self.restart(held, now);
        }
    }

    /// Counts from now on: what went before was enough, or not the peer's doing.
    pub(super) fn restart(&mut self, held: usize, now: Instant) {
        *self = Pace { since: now, moved: 0, enough: held.div_ceil(SHARE) };
    }

    /// Whether the peer has not moved its share for so long.
    pub(super) fn is_slower_than(&self, limit: Duration, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    /// So many seconds after some moment.
    fn clock() -> impl Fn(u64) -> Instant {
        let start = Instant::now();
        move |seconds| start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_share_is_progress_and_a_byte_now_and_then_is_none() {
        let at = clock();
        let mut pace = Pace::new(at(0));
        pace.advance(0, 1_000, at(100));
        assert!(!pace.is_slower_than(LIMIT, at(109)), "it began to hold something at 100");
        pace.advance(240, 760, at(109));
        assert!(pace.is_slower_than(LIMIT, at(110)));
        pace.advance(10, 750, at(111));
        assert!(!pace.is_slower_than(LIMIT, at(120)), "250 of 1,000 at 111");
        (112..121).for_each(|second| pace.advance(1, 750, at(second)));
        assert!(pace.is_slower_than(LIMIT, at(121)));
    }

    #[test]
    fn who_holds_nothing_begins_anew() {
        let at = clock();
        let mut pace = Pace::new(at(0));
        pace.advance(0, 1_000, at(1));
        pace.advance(10, 0, at(2));
        pace.advance(1, 1_000, at(60));
        assert!(!pace.is_slower_than(LIMIT, at(69)));
    }
}
