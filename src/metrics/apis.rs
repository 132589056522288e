//! What clients asked for, by API key, and what they were told.

use super::{Counter, Histogram};
use std::time::Duration;

/// API keys below this are counted; Kafka's highest is 92.
const KEYS: usize = 96;

/// Error codes from -1 on that are told apart; Kafka's highest is 133. Higher ones count as the last.
const CODES: usize = 160;

/// The APIs by their keys.
pub struct Apis {
    rows: Box<[ApiRow]>,
}

pub struct ApiRow {
    pub requests: Counter,
    /// From the dispatch of the request to its answer, waiting included; in nanoseconds.
    pub latency: Histogram,
    /// By error code, from -1 on.
    errors: Box<[Counter]>,
}

impl Default for Apis {
    fn default() -> Self {
        let row = || ApiRow {
            requests: Counter::default(),
            latency: Histogram::latency(),
            errors: (0..CODES).map(|_| Counter::default()).collect(),
        };
        Apis { rows: (0..KEYS).map(|_| row()).collect() }
    }
}

impl Apis {
    /// The counters of an API; `None` for keys that Kafka does not have.
    pub fn row(&self, key: i16) -> Option<&ApiRow> {
        self.rows.get(usize::try_from(key).ok()?)
    }

    pub fn asked(&self, key: i16) {
        if let Some(row) = self.row(key) {
            row.requests.add_one();
        }
    }

    /// An answer was made; `errors` are the codes that stand in it, and how often.
    pub fn answered(&self, key: i16, took: Duration, errors: impl Iterator<Item = (i16, u32)>) {
        let Some(row) = self.row(key) else { return };
        row.latency.note(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        for (code, count) in errors {
            let at = usize::try_from(i32::from(code) + 1).unwrap_or(0).min(CODES - 1);
            row.errors[at].add(u64::from(count));
        }
    }
}

impl ApiRow {
    /// The error codes that were told, and how often.
    pub fn errors(&self) -> impl Iterator<Item = (i16, u64)> {
        let counts = self.errors.iter().map(Counter::get);
        (-1..).zip(counts).filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_code_and_strange_keys_are_passed_over() {
        let apis = Apis::default();
        for key in [-1, 0, 95, 96, i16::MAX, i16::MIN] {
            apis.asked(key);
            apis.answered(key, Duration::from_millis(2), [(-1, 1), (45, 2), (i16::MAX, 3)].into_iter());
        }
        let row = apis.row(0).expect("Produce");
        assert_eq!(row.errors().collect::<Vec<_>>(), [(-1, 1), (45, 2), (158, 3)]);
        assert_eq!((row.requests.get(), row.latency.read().sum), (1, 2_000_000));
        assert!(apis.row(96).is_none() && apis.row(-1).is_none());
    }
}
