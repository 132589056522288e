//! What the members of groups saw, with the times at which each request was sent and settled.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Instant;

/// Microseconds since the run began.
pub type Micros = u64;

#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub sent: Micros,
    pub settled: Micros,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A member is in a generation; its leader is told all members.
    Joined { member: String, generation: i32, members: Option<BTreeSet<String>> },
    /// The leader's assignment, as it was sent: members and their partitions.
    Assigned { generation: i32, partitions: Vec<(String, BTreeSet<i32>)> },
    /// What a member was told to have.
    Told { member: String, generation: i32, partitions: BTreeSet<i32> },
    /// A heartbeat that was answered without an error.
    Alive { generation: i32 },
    /// A commit, and whether it was acknowledged; otherwise its outcome is not known.
    Committed { generation: i32, partition: i32, offset: i64, acked: bool },
    /// What a gateway said to be committed.
    Fetched { partition: i32, offset: i64 },
    /// A librdkafka consumer began a partition with this offset; `sent` is when it was assigned.
    Began { partition: i32, offset: i64 },
    /// It was given this record.
    Delivered { partition: i32, offset: i64 },
    /// Its commit, and whether it was acknowledged; otherwise it may be stored at any time, also after later ones: librdkafka sends
    /// it again once it has a coordinator, in the generation of that moment.
    Stored { partition: i32, offset: i64, acked: bool },
}

/// Where all clients of a run write.
pub struct Journal {
    began: Instant,
    events: Mutex<Vec<Event>>,
}

impl Journal {
    pub fn new() -> Journal {
        Journal { began: Instant::now(), events: Mutex::default() }
    }

    pub fn now(&self) -> Micros {
        Micros::try_from(self.began.elapsed().as_micros()).expect("a run is short")
    }

    /// Settled now.
    pub fn note(&self, sent: Micros, what: What) {
        let settled = self.now();
        self.events.lock().expect("no holder panics").push(Event { sent, settled, what });
    }

    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.events.lock().expect("no holder panics"))
    }
}
