//! Batches that wait for their group, in order.

use crate::log::append::Append;
use std::collections::{HashSet, VecDeque};
use std::time::Instant;

/// Batches waiting for their group.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) waiting: VecDeque<Append>,
    pub(super) bytes: usize,
    /// How many at the front were there when the end was last made sure of because of a gap.
    pub(super) looked: usize,
    /// The same for the look under way.
    pub(super) looking: Option<usize>,
    /// How many of those at the front were there when the group in flight was published.
    pub(super) behind: usize,
}

impl Queue {
    pub fn take_all(&mut self) -> Vec<Append> {
        self.bytes = 0;
        self.left(usize::MAX);
        self.waiting.drain(..).collect()
    }

    pub fn push(&mut self, append: Append) {
        self.bytes += append.batch.len();
        self.waiting.push_back(append);
    }

    pub fn pop(&mut self) -> Option<Append> {
        let append = self.waiting.pop_front()?;
        self.bytes -= append.batch.len();
        self.left(1);
        Some(append)
    }

    fn left(&mut self, count: usize) {
        self.looked = self.looked.saturating_sub(count);
        self.looking = self.looking.map(|looking| looking.saturating_sub(count));
        self.behind = self.behind.saturating_sub(count);
    }

    /// Puts a group back to the front, in its order.
    pub fn put_back(&mut self, group: Vec<Append>) {
        self.left(usize::MAX);
        for append in group.into_iter().rev() {
            self.bytes += append.batch.len();
            self.waiting.push_front(append);
        }
    }

    /// How many offsets the next batch takes.
    pub fn next_offsets(&self) -> i64 {
        self.waiting.front().map_or(0, |append| i64::from(append.header.last_offset_delta) + 1)
    }

    /// Takes what is overdue, and what the same producers queued behind it: a producer that the log does not know yet may
    /// begin at any sequence, so that its second batch would be stored without its first.
    pub fn take_expired(&mut self, now: Instant) -> Vec<Append> {
        if self.waiting.iter().all(|append| append.deadline > now) {
            return Vec::new();
        }
        let mut failed = HashSet::new();
        self.take(|append| {
            let leaves = append.deadline <= now || failed.contains(&append.header.producer_id);
            if leaves && append.header.has_producer() {
                failed.insert(append.header.producer_id);
            }
            leaves
        })
    }

    /// Takes what these producers have queued, for the same reason.
    pub fn take_of(&mut self, failed: &[Append]) -> Vec<Append> {
        let with_producer = failed.iter().filter(|append| append.header.has_producer());
        let producers: HashSet<i64> = with_producer.map(|append| append.header.producer_id).collect();
        if producers.is_empty() {
            return Vec::new();
        }
        self.take(|append| producers.contains(&append.header.producer_id))
    }

    fn take(&mut self, mut leaves: impl FnMut(&Append) -> bool) -> Vec<Append> {
        let (mut taken, mut waiting) = (Vec::new(), VecDeque::new());
        for append in self.waiting.drain(..) {
            if leaves(&append) { taken.push(append) } else { waiting.push_back(append) }
        }
        self.waiting = waiting;
        self.left(taken.len());
        self.bytes = self.waiting.iter().map(|append| append.batch.len()).sum();
        taken
    }
}
