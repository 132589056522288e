//! What clients saw: each request with the times it was sent and settled. One journal a client; together, a history.

use std::time::Instant;

/// A record's identity: who sent it, and the how-manieth of that producer's records it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value {
    pub producer: u16,
    pub n: u32,
}

/// What became of a batch that was sent, for idempotent and other producers maybe more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Acknowledged at this base offset.
    At(i64),
    /// No answer, or one that leaves it open: stored or not.
    Unknown,
    /// An error after which a client would not try again.
    Refused(i16),
}

#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// The records `first` to `first + count` of a producer.
    Produce {
        producer: u16,
        first: u32,
        count: u32,
        outcome: Outcome,
    },
    /// A fetch at `from`; the records that it gave at `from` or after it.
    Read {
        from: i64,
        log_start: i64,
        high_watermark: i64,
        records: Vec<(i64, Value)>,
    },
    OutOfRange {
        from: i64,
        log_start: i64,
        high_watermark: i64,
    },
    /// ListOffsets, latest.
    End {
        high_watermark: i64,
    },
    /// A read or a commit was refused with an error after which a client would not try again.
    Failed {
        error: i16,
    },
    Commit {
        group: u16,
        offset: i64,
        acked: bool,
    },
    /// What the group was told it had committed, -1 for nothing.
    Committed {
        group: u16,
        offset: i64,
    },
    /// Records below this offset were removed on purpose.
    Purged {
        below: i64,
    },
    /// The stream was emptied: the next offset may be a higher one.
    Emptied,
    /// The store could not be reached, or could not commit, from when it was sent until it was settled.
    Trouble,
    /// The gateway was stopped and went on, from when it was sent until it was settled.
    Frozen,
    /// The whole log, read when all was quiet again.
    Final {
        log_start: i64,
        high_watermark: i64,
        records: Vec<(i64, Value)>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Which gateway was asked.
    pub gateway: usize,
    pub partition: i32,
    /// Microseconds since the run began: when it was first sent, and when its outcome was known.
    pub sent_us: u64,
    pub settled_us: u64,
    pub what: What,
}

/// What producers promise of themselves.
#[derive(Clone, Copy, Debug)]
pub struct Promises {
    /// Its batches carry a producer id and sequences: no record is stored twice, and all are in order.
    pub idempotent: bool,
}

/// All that happened to one topic, from its creation on.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// By producer number.
    pub producers: Vec<Promises>,
    pub events: Vec<Event>,
}

/// One client's part of the history.
pub struct Journal {
    began: Instant,
    pub events: Vec<Event>,
}

impl Journal {
    pub fn new(began: Instant) -> Journal {
        Journal { began, events: Vec::new() }
    }

    pub fn now_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).expect("a run is shorter than half a million years")
    }

    /// Writes down what was sent at `sent_us` and is settled now.
    pub fn note(&mut self, gateway: usize, partition: i32, sent_us: u64, what: What) {
        let settled_us = self.now_us();
        self.events.push(Event { gateway, partition, sent_us, settled_us, what });
    }
}
