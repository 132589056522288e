//! How values are spread: counts between fixed bounds.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of values by size. The bounds are upper ones, inclusive; above the last there is one more bucket.
pub struct Histogram {
    bounds: &'static [u64],
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// A histogram at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Upper bounds, and how many values were at or below each.
    pub cumulative: Vec<(u64, u64)>,
    pub count: u64,
    pub sum: u64,
}

/// Nanoseconds: from what memory answers to what a client gives up on.
const LATENCY_NS: &[u64] = &[
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    30_000_000_000,
];

const COUNTS: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

const BYTES: &[u64] = &[256, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 23];

impl Histogram {
    fn new(bounds: &'static [u64]) -> Histogram {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, counts, sum: AtomicU64::new(0) }
    }

    /// Of times, in nanoseconds.
    pub fn latency() -> Histogram {
        Histogram::new(LATENCY_NS)
    }

    /// Of how many there were of something.
    pub fn counts() -> Histogram {
        Histogram::new(COUNTS)
    }

    /// Of sizes in bytes.
    pub fn bytes() -> Histogram {
        Histogram::new(BYTES)
    }

    pub fn note(&self, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// The count is what the buckets add up to, whatever is noted meanwhile.
    pub fn read(&self) -> Reading {
        let mut count = 0;
        let mut cumulative = Vec::with_capacity(self.bounds.len());
        for (bound, bucket) in self.bounds.iter().zip(&self.counts) {
            count += bucket.load(Ordering::Relaxed);
            cumulative.push((*bound, count));
        }
        count += self.counts[self.bounds.len()].load(Ordering::Relaxed);
        Reading { cumulative, count, sum: self.sum.load(Ordering::Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_count_at_their_bound_and_below_all_greater_ones() {
        let histogram = Histogram::new(&[10, 20]);
        [0, 10, 11, 20, 21, 1000].iter().for_each(|value| histogram.note(*value));
        assert_eq!(histogram.read(), Reading { cumulative: vec![(10, 2), (20, 4)], count: 6, sum: 1062 });
    }
}
