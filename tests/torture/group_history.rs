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
    /// A client's consumer began a partition with this offset; `sent` is when it was assigned.
    Began { partition: i32, offset: i64 },
    /// It was given this record.
    Delivered { partition: i32, offset: i64 },
    /// Its commit, and whether it was acknowledged; otherwise it may be stored at any time, also after later ones: librdkafka sends
    /// it again once it has a coordinator, in the generation of that moment, and what was sent first may come last.
    Stored { partition: i32, offset: i64, acked: bool },
    /// A consumer met an error that its application is told of and that no fault of the run explains.
    Stopped { error: String },
}

/// Where all clients of a run write.
pub struct Journal {
    began: Instant,
    /// The same moment on the monotonic clock that other processes tell their times by.
    began_ns: u64,
    events: Mutex<Vec<Event>>,
}

impl Journal {
    pub fn new() -> Journal {
        Journal { began: Instant::now(), began_ns: monotonic_ns(), events: Mutex::default() }
    }

    /// Another one with the same beginning.
    pub fn beside(&self) -> Journal {
        Journal { events: Mutex::default(), ..*self }
    }

    /// A moment that another process told.
    pub fn at(&self, monotonic_ns: u64) -> Micros {
        monotonic_ns.saturating_sub(self.began_ns) / 1000
    }

    /// What other processes will call that moment.
    pub fn monotonic_ns(&self, at: Micros) -> u64 {
        self.began_ns + at * 1000
    }

    pub fn now(&self) -> Micros {
        Micros::try_from(self.began.elapsed().as_micros()).expect("a run is short")
    }

    /// Settled now.
    pub fn note(&self, sent: Micros, what: What) {
        self.enter(Event { sent, settled: self.now(), what });
    }

    pub fn enter(&self, event: Event) {
        self.events.lock().expect("no holder panics").push(event);
    }

    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.events.lock().expect("no holder panics"))
    }
}

fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to the given struct and nowhere else.
    let outcome = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    assert_eq!(outcome, 0, "the monotonic clock can be read");
    let whole = |part: i64| u64::try_from(part).expect("it counts from zero");
    whole(time.tv_sec) * 1_000_000_000 + whole(time.tv_nsec)
}
