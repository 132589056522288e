//! Producer states (idempotence, KIP-98): what tells a duplicate from a gap.
//!
//! A state is part of the tail: it changes only when a stored batch is learned, by append or by scan. Checks while a
//! group is being stamped run on an `Overlay`, which is merged when the group is stored and dropped when it is not.

use crate::limits::PRODUCERS_PER_PARTITION_MAX;
use crate::protocol::error_code::ErrorCode;
use crate::records::batch::BatchHeader;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};

/// How many of a producer's newest batches a repeat is recognised in, as Kafka.
const REMEMBERED_BATCHES: usize = 5;

/// One stored batch of a producer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoredBatch {
    pub first_sequence: i32,
    pub last_sequence: i32,
    pub base_offset: i64,
    /// The timestamp that was answered: -1 for CreateTime.
    pub append_time_ms: i64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ProducerState {
    pub epoch: i16,
    /// Oldest first, at most five.
    pub batches: VecDeque<StoredBatch>,
    /// The newest batch's last offset: orders producers by age.
    pub last_offset: i64,
    /// Later batches may have come and gone unread: any sequence ahead is taken.
    pub loose: bool,
}

/// A remembered producer as others are told of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProducerSeen {
    pub id: i64,
    pub epoch: i16,
    pub last_sequence: i32,
    /// When its newest batch was appended, milliseconds since the epoch; -1 where that is not remembered.
    pub append_time_ms: i64,
}

/// What the check of a batch found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// It is next, or its producer is unknown, or it has none.
    Append,
    /// It was stored before, here.
    Duplicate(StoredBatch),
    Refuse(ErrorCode),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Producers {
    states: HashMap<i64, ProducerState>,
}

impl Producers {
    /// Learns a stored batch, whatever its sequence: what is in the log is the truth.
    pub fn learn(&mut self, header: &BatchHeader) {
        if !header.has_producer() || header.is_control() {
            return;
        }
        let state = self.states.entry(header.producer_id).or_insert_with(|| ProducerState {
            epoch: header.producer_epoch,
            batches: VecDeque::new(),
            last_offset: 0,
            loose: false,
        });
        push(state, header);
        if self.states.len() > PRODUCERS_PER_PARTITION_MAX {
            self.forget_oldest();
        }
    }

    /// Messages are gone that nobody here has read: what is known of each producer may not be its newest.
    pub fn loosen(&mut self) {
        self.states.values_mut().for_each(|state| state.loose = true);
    }

    /// All that are remembered, by id.
    pub fn seen(&self) -> Vec<ProducerSeen> {
        let row = |(id, state): (&i64, &ProducerState)| {
            let newest = state.batches.back();
            ProducerSeen {
                id: *id,
                epoch: state.epoch,
                last_sequence: newest.map_or(-1, |batch| batch.last_sequence),
                append_time_ms: newest.map_or(-1, |batch| batch.append_time_ms),
            }
        };
        let mut seen: Vec<_> = self.states.iter().map(row).collect();
        seen.sort_by_key(|producer| producer.id);
        seen
    }

    /// Drops the older half, by last offset: rare, and cheap over many calls.
    fn forget_oldest(&mut self) {
        let mut ages: Vec<i64> = self.states.values().map(|state| state.last_offset).collect();
        let middle = ages.len() / 2;
        let (_, median, _) = ages.select_nth_unstable(middle);
        let median = *median;
        self.states.retain(|_, state| state.last_offset >= median);
    }

    /// The newest `most` states as JSON: `[id, epoch, last_offset, [[first, last, base, time], …], loose]` each.
    pub fn snapshot(&self, most: usize) -> Value {
        let mut newest: Vec<_> = self.states.iter().collect();
        newest.sort_by_key(|(_, state)| std::cmp::Reverse(state.last_offset));
        let rows = newest.into_iter().take(most).map(|(id, state)| {
            let batches: Vec<Value> = state
                .batches
                .iter()
                .map(|b| json!([b.first_sequence, b.last_sequence, b.base_offset, b.append_time_ms]))
                .collect();
            json!([id, state.epoch, state.last_offset, batches, state.loose])
        });
        Value::Array(rows.collect())
    }

    /// Reads a snapshot; what is not understood is left out.
    pub fn restore(snapshot: &Value) -> Producers {
        let rows = snapshot.as_array().map(Vec::as_slice).unwrap_or_default();
        Producers { states: rows.iter().filter_map(restore_row).collect() }
    }
}

fn restore_row(row: &Value) -> Option<(i64, ProducerState)> {
    let int = |value: Option<&Value>| value.and_then(Value::as_i64);
    let batches = row.get(3)?.as_array()?.iter().filter_map(|b| {
        Some(StoredBatch {
            first_sequence: int(b.get(0))?.try_into().ok()?,
            last_sequence: int(b.get(1))?.try_into().ok()?,
            base_offset: int(b.get(2))?,
            append_time_ms: int(b.get(3))?,
        })
    });
    let state = ProducerState {
        epoch: int(row.get(1))?.try_into().ok()?,
        batches: batches.collect(),
        last_offset: int(row.get(2))?,
        loose: row.get(4).and_then(Value::as_bool).unwrap_or(false),
    };
    Some((int(row.get(0))?, state))
}

fn push(state: &mut ProducerState, header: &BatchHeader) {
    if state.epoch != header.producer_epoch {
        state.epoch = header.producer_epoch;
        state.batches.clear();
    }
    if state.batches.len() == REMEMBERED_BATCHES {
        state.batches.pop_front();
    }
    state.batches.push_back(StoredBatch {
        first_sequence: header.base_sequence,
        last_sequence: header.last_sequence(),
        base_offset: header.base_offset,
        append_time_ms: if header.is_append_time() { header.max_timestamp } else { -1 },
    });
    state.last_offset = header.last_offset();
    state.loose = false;
}

/// Producer states as they will be when the group being stamped is stored.
pub struct Overlay<'a> {
    stored: &'a Producers,
    changed: HashMap<i64, ProducerState>,
}

impl<'a> Overlay<'a> {
    pub fn new(stored: &'a Producers) -> Self {
        Overlay { stored, changed: HashMap::new() }
    }

    fn state(&self, producer_id: i64) -> Option<&ProducerState> {
        self.changed.get(&producer_id).or_else(|| self.stored.states.get(&producer_id))
    }

    /// Whether what is known of a producer is its newest, so that what comes ahead of its turn is seen to.
    pub fn is_sure_of(&self, producer_id: i64) -> bool {
        self.state(producer_id).is_some_and(|state| !state.loose)
    }

    /// Whether what is known of a producer reaches `sequence`: so far the log has come, by whatever way.
    pub fn reaches(&self, header: &BatchHeader, sequence: i32) -> bool {
        let state = self.state(header.producer_id).filter(|state| state.epoch == header.producer_epoch);
        let newest = state.and_then(|state| state.batches.back());
        newest.is_some_and(|newest| !is_ahead(sequence, newest.last_sequence))
    }

    /// Checks a batch as Kafka's ProducerAppendInfo does.
    pub fn check(&self, header: &BatchHeader) -> Verdict {
        if !header.has_producer() {
            return Verdict::Append;
        }
        let Some(state) = self.state(header.producer_id) else {
            return Verdict::Append;
        };
        if header.producer_epoch < state.epoch {
            return Verdict::Refuse(ErrorCode::INVALID_PRODUCER_EPOCH);
        }
        if header.producer_epoch > state.epoch {
            return match header.base_sequence {
                0 => Verdict::Append,
                _ if state.loose => Verdict::Append,
                _ => Verdict::Refuse(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER),
            };
        }
        let repeats =
            |b: &&StoredBatch| b.first_sequence == header.base_sequence && b.last_sequence == header.last_sequence();
        if let Some(stored) = state.batches.iter().find(repeats) {
            return Verdict::Duplicate(*stored);
        }
        match state.batches.back() {
            Some(newest) if !state.loose && header.base_sequence != following(newest.last_sequence) => {
                Verdict::Refuse(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER)
            }
            // An old repeat is none the less a repeat.
            Some(newest) if !is_ahead(header.base_sequence, newest.last_sequence) => {
                Verdict::Refuse(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER)
            }
            _ => Verdict::Append,
        }
    }

    /// Takes note of a batch that joins the group, its base offset already set.
    pub fn add(&mut self, header: &BatchHeader) {
        if !header.has_producer() {
            return;
        }
        let state = self.state(header.producer_id).cloned().unwrap_or_else(|| ProducerState {
            epoch: header.producer_epoch,
            batches: VecDeque::new(),
            last_offset: 0,
            loose: false,
        });
        push(self.changed.entry(header.producer_id).or_insert(state), header);
    }
}

/// The sequence after `sequence`: it wraps from the largest i32 to 0.
fn following(sequence: i32) -> i32 {
    if sequence == i32::MAX { 0 } else { sequence + 1 }
}

/// Whether `sequence` comes after `last`, by less than half of the circle.
pub(super) fn is_ahead(sequence: i32, last: i32) -> bool {
    let distance = sequence.wrapping_sub(following(last)) & i32::MAX;
    distance < i32::MAX / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(epoch: i16, sequence: i32, count: i32, base_offset: i64) -> BatchHeader {
        BatchHeader {
            producer_id: 9,
            producer_epoch: epoch,
            base_sequence: sequence,
            last_offset_delta: count - 1,
            record_count: count,
            base_offset,
            ..BatchHeader::parse(&crate::records::build::BatchBuilder::new().record(None, Some(b"v")).build())
                .expect("a built batch parses")
        }
    }

    fn verdict(producers: &Producers, epoch: i16, sequence: i32, count: i32) -> Verdict {
        Overlay::new(producers).check(&batch(epoch, sequence, count, 0))
    }

    #[test]
    fn repeats_of_the_last_five_answer_their_offset_and_older_ones_are_gaps() {
        let mut producers = Producers::default();
        for i in 0..6 {
            assert_eq!(verdict(&producers, 0, i * 10, 10), Verdict::Append);
            producers.learn(&batch(0, i * 10, 10, 100 + i64::from(i)));
        }
        let gap = Verdict::Refuse(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
        assert_eq!(verdict(&producers, 0, 0, 10), gap);
        for i in 1..6 {
            match verdict(&producers, 0, i * 10, 10) {
                Verdict::Duplicate(stored) => assert_eq!(stored.base_offset, 100 + i64::from(i)),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(verdict(&producers, 0, 70, 10), gap);
        assert_eq!(verdict(&producers, 0, 55, 5), gap);
        assert_eq!(verdict(&producers, 0, 60, 10), Verdict::Append);
    }

    #[test]
    fn epochs_fence_and_a_new_epoch_begins_at_zero() {
        let mut producers = Producers::default();
        producers.learn(&batch(3, 7, 1, 0));
        assert_eq!(verdict(&producers, 2, 8, 1), Verdict::Refuse(ErrorCode::INVALID_PRODUCER_EPOCH));
        assert_eq!(verdict(&producers, 4, 8, 1), Verdict::Refuse(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
        assert_eq!(verdict(&producers, 4, 0, 1), Verdict::Append);
    }

    #[test]
    fn sequences_wrap() {
        let mut producers = Producers::default();
        producers.learn(&batch(0, i32::MAX - 1, 2, 0));
        assert_eq!(verdict(&producers, 0, 0, 1), Verdict::Append);
        assert_eq!(verdict(&producers, 0, 1, 1), Verdict::Refuse(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
    }

    #[test]
    fn where_messages_are_gone_unread_a_producer_may_be_ahead_but_not_behind() {
        let mut producers = Producers::default();
        producers.learn(&batch(0, 10, 10, 100));
        producers.loosen();
        let mut producers = Producers::restore(&producers.snapshot(10));
        let gap = Verdict::Refuse(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
        assert!(matches!(verdict(&producers, 0, 10, 10), Verdict::Duplicate(_)));
        assert_eq!(
            [0, 15, 20, 500].map(|first| verdict(&producers, 0, first, 5)),
            [gap, gap, Verdict::Append, Verdict::Append]
        );
        producers.learn(&batch(0, 500, 5, 900));
        assert_eq!([505, 506].map(|first| verdict(&producers, 0, first, 5)), [Verdict::Append, gap]);
        producers.learn(&batch(0, i32::MAX - 4, 5, 1_000));
        producers.loosen();
        assert_eq!(verdict(&producers, 0, 3, 5), Verdict::Append);
    }

    #[test]
    fn a_snapshot_restores_what_it_held() {
        let mut producers = Producers::default();
        for i in 0..3 {
            producers.learn(&batch(1, i, 1, i64::from(i)));
        }
        assert_eq!(Producers::restore(&producers.snapshot(10)), producers);
        assert_eq!(Producers::restore(&producers.snapshot(0)), Producers::default());
    }
}
