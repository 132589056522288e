//! A partition's sparse index: boundaries between offsets and sequences, learned from what was read and written.

use crate::limits::INDEX_POINTS_MAX;
use crate::store::Sequence;
use std::collections::BTreeMap;

/// A boundary: messages before `sequence` end at or below `offset`, those from it on begin at or above it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Boundary {
    pub offset: i64,
    pub sequence: Sequence,
}

#[derive(Default)]
pub struct Index {
    points: BTreeMap<i64, Sequence>,
}

impl Index {
    pub fn add(&mut self, boundary: Boundary) {
        self.points.insert(boundary.offset, boundary.sequence);
        if self.points.len() > INDEX_POINTS_MAX {
            let mut keep = false;
            self.points.retain(|_, _| {
                keep = !keep;
                keep
            });
        }
    }

    /// The last boundary at or below `offset`.
    pub fn below(&self, offset: i64) -> Option<Boundary> {
        self.points.range(..=offset).next_back().map(|(&offset, &sequence)| Boundary { offset, sequence })
    }

    /// The first boundary above `offset`.
    pub fn above(&self, offset: i64) -> Option<Boundary> {
        let after = (std::ops::Bound::Excluded(offset), std::ops::Bound::Unbounded);
        self.points.range(after).next().map(|(&offset, &sequence)| Boundary { offset, sequence })
    }

    pub fn clear(&mut self) {
        self.points.clear();
    }
}
