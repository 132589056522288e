//! What the store was asked, how long it took, and what failed.

use super::{Counter, Histogram};
use std::time::Instant;

/// What the store is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    Storage,
    StreamCreate,
    StreamInfo,
    StreamUpdate,
    StreamDelete,
    StreamPurge,
    StreamList,
    Publish,
    MessageGet,
    MessagesRead,
    MessageStoredSince,
    MessageDelete,
    KvEnsure,
    KvGet,
    KvList,
}

impl Operation {
    pub const ALL: [Operation; 15] = [
        Operation::Storage,
        Operation::StreamCreate,
        Operation::StreamInfo,
        Operation::StreamUpdate,
        Operation::StreamDelete,
        Operation::StreamPurge,
        Operation::StreamList,
        Operation::Publish,
        Operation::MessageGet,
        Operation::MessagesRead,
        Operation::MessageStoredSince,
        Operation::MessageDelete,
        Operation::KvEnsure,
        Operation::KvGet,
        Operation::KvList,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Operation::Storage => "storage",
            Operation::StreamCreate => "stream_create",
            Operation::StreamInfo => "stream_info",
            Operation::StreamUpdate => "stream_update",
            Operation::StreamDelete => "stream_delete",
            Operation::StreamPurge => "stream_purge",
            Operation::StreamList => "stream_list",
            Operation::Publish => "publish",
            Operation::MessageGet => "message_get",
            Operation::MessagesRead => "messages_read",
            Operation::MessageStoredSince => "message_stored_since",
            Operation::MessageDelete => "message_delete",
            Operation::KvEnsure => "kv_ensure",
            Operation::KvGet => "kv_get",
            Operation::KvList => "kv_list",
        }
    }
}

pub struct StoreMetrics {
    /// By operation, in nanoseconds.
    latencies: [Histogram; Operation::ALL.len()],
    /// By operation: no answer, nobody there, refused without trying.
    failures: [Counter; Operation::ALL.len()],
}

impl Default for StoreMetrics {
    fn default() -> Self {
        StoreMetrics {
            latencies: std::array::from_fn(|_| Histogram::latency()),
            failures: std::array::from_fn(|_| Counter::default()),
        }
    }
}

impl StoreMetrics {
    /// A call that began at `began` has ended. `failed`: the store did not do its part, whatever was asked.
    pub fn note(&self, operation: Operation, began: Instant, failed: bool) {
        let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.latencies[operation as usize].note(took);
        if failed {
            self.failures[operation as usize].add_one();
        }
    }

    pub fn latency(&self, operation: Operation) -> &Histogram {
        &self.latencies[operation as usize]
    }

    pub fn failures(&self, operation: Operation) -> u64 {
        self.failures[operation as usize].get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_has_counters_of_its_own() {
        let metrics = StoreMetrics::default();
        for operation in Operation::ALL {
            metrics.note(operation, Instant::now(), operation == Operation::KvList);
        }
        for operation in Operation::ALL {
            assert_eq!(metrics.latency(operation).read().count, 1, "{operation:?}");
            assert_eq!(metrics.failures(operation), u64::from(operation == Operation::KvList));
        }
    }
}
