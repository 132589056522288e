//! `make bench`: how the gateway compares with its store alone, and what idle clients cost the busy ones.
//!
//! Each comparison alternates its two sides and gives medians: on a shared machine only ratios of neighbours mean much.
//! Words on the command line choose parts: `throughput`, `latency`, `order`, `connections`, `forward`; `quick` makes all smaller.

mod connections;
mod forward;
#[allow(dead_code, unused_imports, reason = "shared with the tests, which use all of it")]
#[path = "../tests/it/harness/mod.rs"]
mod harness;
mod latency;
mod order;
mod throughput;

use std::time::Duration;

/// How much is measured.
pub struct Scale {
    pub runs: usize,
    pub throughput_records: usize,
    pub latency_records: usize,
    pub order_records: usize,
    pub connections: usize,
}

const FULL: Scale = Scale {
    runs: 5,
    throughput_records: 400_000,
    latency_records: 2000,
    order_records: 1_000_000,
    connections: 10_000,
};
const QUICK: Scale =
    Scale { runs: 2, throughput_records: 20_000, latency_records: 200, order_records: 50_000, connections: 300 };

/// A part's name, and what measures it.
type Part = (&'static str, fn(&Scale));

fn main() {
    raise_open_files();
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let scale = if words.iter().any(|word| word == "quick") { QUICK } else { FULL };
    let parts: [Part; 5] = [
        ("throughput", throughput::measure),
        ("latency", latency::measure),
        ("order", order::measure),
        ("connections", connections::measure),
        ("forward", forward::measure),
    ];
    let chosen = |name: &str| words.iter().any(|word| word == name);
    let all = !parts.iter().any(|(name, _)| chosen(name));
    for (name, measure) in parts {
        if all || chosen(name) {
            measure(&scale);
        }
    }
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub fn rate(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

/// Thousands of connections need as many descriptors, here and in the gateway, which inherits the limit.
fn raise_open_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls only read or write `limit`, which lives long enough.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max.min(65_536);
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
}
