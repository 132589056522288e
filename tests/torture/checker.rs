//! Finds in a history what must never happen: loss, repetition, reordering, gaps, offsets or watermarks that go back.

use crate::clients::OUT_OF_ORDER_SEQUENCE_NUMBER;
use crate::history::{Event, History, Outcome, Promises, Value, What};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// After this, what was acknowledged through one gateway is known to all: three lost heartbeats, a poll, a busy machine.
const STALE_US_MAX: u64 = 15_000_000;

/// A commit that nobody waits for any more comes this late at most: longer than any fault lasts, and a busy machine.
const COMMIT_LATE_US_MAX: u64 = 20_000_000;

/// A gateway that could ask the store for this long has learned what it did not know.
const LEARNING_US_MAX: u64 = 10_000_000;

/// Violations of one kind are reported up to this many times.
const REPORTED_MAX: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// An acknowledged record is not in the log.
    Lost,
    /// A read stepped over a record that is known to be there.
    SteppedOver,
    /// An offset was given to two records, or its record changed.
    OffsetGivenTwice,
    /// Offsets are missing in the log, and nothing explains it.
    Gap,
    /// Records of one producer stand in another order than they were sent.
    Reordered,
    /// A record of an idempotent producer stands in the log twice.
    Duplicate,
    /// A later answer of the same gateway has a lower end.
    WatermarkWentBack,
    /// An answer does not know what another gateway acknowledged long before.
    Stale,
    /// A record was given out that lies at or above the high watermark.
    ReadBeyondWatermark,
    CommitWentBack,
    /// A group was told an offset that nobody had committed.
    CommitFromNowhere,
    /// An error that stops a client, without a reason.
    FalseError,
    /// A record that nobody sent.
    NeverSent,
}

#[derive(Clone, Debug)]
pub struct Violation {
    pub fault: Fault,
    pub partition: i32,
    pub evidence: String,
}

/// Checks a whole history. The same fault is reported a few times only.
pub fn check(history: &History) -> Vec<Violation> {
    let partitions: BTreeSet<i32> = history.events.iter().map(|event| event.partition).collect();
    let mut found = Vec::new();
    for partition in partitions {
        let events: Vec<&Event> = history.events.iter().filter(|event| event.partition == partition).collect();
        let mut check = Check::new(partition, &history.producers, events);
        check.learn_contents();
        check.reads();
        check.finals();
        check.orders();
        check.watermarks();
        check.commits();
        check.errors();
        found.extend(check.found);
    }
    found
}

struct Check<'a> {
    partition: i32,
    producers: &'a [Promises],
    events: Vec<&'a Event>,
    /// Each offset's record, from acknowledgements and reads.
    contents: BTreeMap<i64, Value>,
    /// What was removed on purpose lies below this.
    purged: i64,
    /// Producers of which something was stored, purged, and stored again when it was sent again.
    forgotten: BTreeSet<usize>,
    found: Vec<Violation>,
}

impl<'a> Check<'a> {
    fn new(partition: i32, producers: &'a [Promises], events: Vec<&'a Event>) -> Check<'a> {
        let below = |event: &&Event| match event.what {
            What::Purged { below } => Some(below),
            _ => None,
        };
        let purged = events.iter().filter_map(below).max().unwrap_or(0);
        let (contents, forgotten, found) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        Check { partition, producers, events, contents, purged, forgotten, found }
    }

    fn report(&mut self, fault: Fault, evidence: String) {
        if self.found.iter().filter(|violation| violation.fault == fault).count() < REPORTED_MAX {
            self.found.push(Violation { fault, partition: self.partition, evidence });
        }
    }

    fn learn(&mut self, offset: i64, value: Value, event: &Event) {
        if let Some(other) = self.contents.insert(offset, value).filter(|other| *other != value) {
            let text = format!("offset {offset} is {other:?} and {value:?}, the latter at {}", place(event));
            self.report(Fault::OffsetGivenTwice, text);
        }
    }

    fn learn_contents(&mut self) {
        for event in self.events.clone() {
            match &event.what {
                What::Produce { producer, first, count, outcome: Outcome::At(base) } => {
                    for i in 0..*count {
                        let value = Value { producer: *producer, n: first + i };
                        self.learn(base + i64::from(i), value, event);
                    }
                }
                What::Read { records, .. } | What::Final { records, .. } => {
                    records.iter().for_each(|(offset, value)| self.learn(*offset, *value, event));
                }
                _ => {}
            }
        }
    }

    fn sent(&self) -> HashMap<u16, Vec<(u32, u32)>> {
        let mut sent: HashMap<u16, Vec<(u32, u32)>> = HashMap::new();
        for event in &self.events {
            if let What::Produce { producer, first, count, .. } = event.what {
                sent.entry(producer).or_default().push((first, first + count));
            }
        }
        sent.values_mut().for_each(|ranges| ranges.sort_unstable());
        sent
    }

    fn reads(&mut self) {
        let sent = self.sent();
        for event in self.events.clone() {
            let (from, high_watermark, records) = match &event.what {
                What::Read { from, high_watermark, records, .. } => (*from, *high_watermark, records),
                What::Final { log_start, high_watermark, records } => (*log_start, *high_watermark, records),
                _ => continue,
            };
            let Some((last, _)) = records.last() else {
                continue;
            };
            if *last >= high_watermark {
                let text = format!("offset {last} with a watermark of {high_watermark} at {}", place(event));
                self.report(Fault::ReadBeyondWatermark, text);
            }
            if !records.is_sorted_by(|a, b| a.0 < b.0) {
                self.report(Fault::Reordered, format!("offsets do not rise in the read at {}", place(event)));
            }
            for (offset, value) in records {
                let known = sent.get(&value.producer).is_some_and(|ranges| covers(ranges, value.n));
                if !known {
                    self.report(Fault::NeverSent, format!("{value:?} at offset {offset}, {}", place(event)));
                }
            }
            let given: BTreeSet<i64> = records.iter().map(|(offset, _)| *offset).collect();
            let expected = self.contents.range(from.max(self.purged).min(last + 1)..last + 1);
            let missing: Vec<i64> = expected.map(|(offset, _)| *offset).filter(|at| !given.contains(at)).collect();
            if !missing.is_empty() {
                let text = format!("{} offsets, the first {}, at {}", missing.len(), missing[0], place(event));
                self.report(Fault::SteppedOver, text);
            }
        }
    }

    /// The quiet log holds all that was acknowledged, without holes.
    fn finals(&mut self) {
        let emptied = self.events.iter().filter(|event| event.what == What::Emptied).count();
        for event in self.events.clone() {
            let What::Final { log_start, high_watermark, records } = &event.what else {
                continue;
            };
            let there: BTreeSet<i64> = records.iter().map(|(offset, _)| *offset).collect();
            for (offset, value) in self.contents.clone().range(self.purged..) {
                if !there.contains(offset) {
                    let text = format!("{value:?} at offset {offset}; the log is {log_start}..{high_watermark}");
                    self.report(Fault::Lost, text);
                }
            }
            let mut gaps = Vec::new();
            let mut next = if emptied == 0 && self.purged == 0 { 0 } else { *log_start };
            for (offset, _) in records {
                if *offset != next {
                    gaps.push((next, *offset));
                }
                next = offset + 1;
            }
            if next != *high_watermark {
                gaps.push((next, *high_watermark));
            }
            if gaps.len() > emptied {
                self.report(Fault::Gap, format!("{gaps:?}, and the stream was emptied {emptied} times"));
            }
        }
    }

    fn orders(&mut self) {
        for (number, promises) in self.producers.iter().enumerate() {
            let of_this = |event: &&&Event| match event.what {
                What::Produce { producer, first, outcome: Outcome::At(base), .. } => {
                    (usize::from(producer) == number).then_some((first, base, event.settled_us))
                }
                _ => None,
            };
            let mut acked: Vec<(u32, i64, u64)> = self.events.iter().filter_map(|event| of_this(&event)).collect();
            acked.sort_unstable();
            for pair in acked.windows(2).filter(|pair| pair[0].1 >= pair[1].1) {
                // What was purged is forgotten, with who wrote it: sent again, because its acknowledgement was lost, it is new, and
                // what followed it is not known to have been there.
                if self.was_purged(pair[1].1, pair[0].2) {
                    self.forgotten.insert(number);
                } else {
                    self.report(Fault::Reordered, format!("producer {number}, acknowledged (n, offset, us): {pair:?}"));
                }
            }
            if promises.idempotent {
                self.idempotent_order(number);
            }
        }
    }

    fn was_purged(&self, offset: i64, before_us: u64) -> bool {
        let covers = |event: &&Event| matches!(event.what, What::Purged { below } if offset < below);
        self.events.iter().any(|event| covers(event) && event.sent_us <= before_us)
    }

    fn idempotent_order(&mut self, number: usize) {
        let mut seen: HashMap<u32, i64> = HashMap::new();
        let mut newest: Option<u32> = None;
        let own = |value: &Value| usize::from(value.producer) == number;
        // What was purged is forgotten with its offsets: a repeat of it is new.
        let kept = self.contents.range(self.purged..);
        let log: Vec<(i64, Value)> = kept.filter(|(_, value)| own(value)).map(|(at, value)| (*at, *value)).collect();
        for (offset, value) in log {
            if let Some(before) = seen.insert(value.n, offset) {
                self.report(Fault::Duplicate, format!("{value:?} at offsets {before} and {offset}"));
            } else if newest.is_some_and(|newest| value.n < newest) {
                self.report(Fault::Reordered, format!("{value:?} at offset {offset} comes after {newest:?}"));
            }
            newest = newest.max(Some(value.n));
        }
    }

    fn watermarks(&mut self) {
        let gateways: BTreeSet<usize> = self.events.iter().map(|event| event.gateway).collect();
        let everywhere = floors(self.events.iter().copied());
        for gateway in gateways {
            let is_trouble = |event: &&&Event| match event.what {
                What::Trouble => true,
                What::Frozen => event.gateway == gateway,
                _ => false,
            };
            let troubles = self.events.iter().filter(is_trouble);
            let mut troubles: Vec<(u64, u64)> = troubles.map(|event| (event.sent_us, event.settled_us)).collect();
            troubles.sort_unstable_by_key(|(_, over)| *over);
            let here: Vec<&Event> = self.events.iter().copied().filter(|event| event.gateway == gateway).collect();
            let floor = floors(here.iter().copied());
            for event in here.iter().copied() {
                let Some(told) = told_watermark(&event.what) else {
                    continue;
                };
                if let Some(known) = floor_before(&floor, event.sent_us).filter(|known| *known > told) {
                    let text = format!("{told} after {known} at {}", place(event));
                    self.report(Fault::WatermarkWentBack, text);
                }
                let mut long_before = event.sent_us.saturating_sub(STALE_US_MAX);
                // A fetch asks nobody for what it has, and says what was known while the store is away. Where the log
                // begins further on, it need not know where it ends.
                let is_of_a_fetch = match event.what {
                    What::Read { .. } => true,
                    What::OutOfRange { from, log_start, .. } => from < log_start,
                    _ => false,
                };
                if is_of_a_fetch {
                    long_before = long_before.min(learned_until(&troubles, event.sent_us));
                }
                let known = floor_before(&everywhere, long_before).filter(|known| *known > told);
                if let Some(known) = known.filter(|_| !is_of_a_fetch || was_asked(&here, event, &everywhere, told)) {
                    self.report(Fault::Stale, format!("{told}, long after {known} was known, at {}", place(event)));
                }
            }
        }
    }

    fn commits(&mut self) {
        let mut groups: BTreeMap<u16, (Vec<&Event>, Vec<&Event>)> = BTreeMap::new();
        for event in &self.events {
            match event.what {
                What::Commit { group, .. } => groups.entry(group).or_default().0.push(event),
                What::Committed { group, .. } => groups.entry(group).or_default().1.push(event),
                _ => {}
            }
        }
        for (group, (commits, lookups)) in groups {
            for lookup in &lookups {
                let What::Committed { offset: told, .. } = lookup.what else {
                    continue;
                };
                let seen_past = |sent_us: u64| {
                    let beyond = |other: &Event| matches!(other.what, What::Committed { offset, .. } if offset > told);
                    let between = |other: &Event| other.sent_us > sent_us && other.settled_us <= lookup.sent_us;
                    lookups.iter().any(|other| between(other) && beyond(other))
                };
                let (mut least, mut known, mut may_be_late) = (-1, told == -1, false);
                for commit in &commits {
                    let What::Commit { offset, acked, .. } = commit.what else {
                        continue;
                    };
                    if acked && commit.settled_us <= lookup.sent_us {
                        least = least.max(offset);
                    }
                    let is_told = offset == told && commit.sent_us <= lookup.settled_us;
                    known |= is_told;
                    // It was forwarded by a gateway that died or hung, and its client went to another one, whose commits it
                    // may come behind; so it may with a Kafka broker that hangs. But not at any time.
                    may_be_late |= is_told && !acked && !seen_past(commit.sent_us + COMMIT_LATE_US_MAX);
                }
                if told < least && !may_be_late {
                    let text = format!("group {group} was told {told} after {least} was taken, {}", place(lookup));
                    self.report(Fault::CommitWentBack, text);
                } else if !known {
                    self.report(Fault::CommitFromNowhere, format!("group {group} was told {told}, {}", place(lookup)));
                }
            }
        }
    }

    fn errors(&mut self) {
        for event in self.events.clone() {
            match event.what {
                What::Produce { producer, outcome: Outcome::Refused(OUT_OF_ORDER_SEQUENCE_NUMBER), .. }
                    if self.forgotten.contains(&usize::from(producer)) => {}
                What::Produce { producer, first, outcome: Outcome::Refused(error), .. } => {
                    let text = format!("error {error} to record {first} of producer {producer}, {}", place(event));
                    self.report(Fault::FalseError, text);
                }
                What::Failed { error } => self.report(Fault::FalseError, format!("error {error}, {}", place(event))),
                What::OutOfRange { from, log_start, high_watermark } => {
                    let inside = self.contents.contains_key(&from) && from >= self.purged;
                    if inside || (log_start..=high_watermark).contains(&from) {
                        let text = format!("{from} is out of {log_start}..{high_watermark}, {}", place(event));
                        self.report(Fault::FalseError, text);
                    }
                }
                _ => {}
            }
        }
    }
}

fn place(event: &Event) -> String {
    format!("gateway {} from {} to {} us", event.gateway, event.sent_us, event.settled_us)
}

fn covers(ranges: &[(u32, u32)], n: u32) -> bool {
    let at = ranges.partition_point(|(first, _)| *first <= n);
    at > 0 && ranges[at - 1].1 > n
}

fn told_watermark(what: &What) -> Option<i64> {
    match what {
        What::Read { high_watermark, .. }
        | What::OutOfRange { high_watermark, .. }
        | What::End { high_watermark }
        | What::Final { high_watermark, .. } => Some(*high_watermark),
        _ => None,
    }
}

/// What was known by then, a gateway could learn before `now_us`: the store and itself were well for long enough since.
/// `troubles` are sorted by their ends.
fn learned_until(troubles: &[(u64, u64)], now_us: u64) -> u64 {
    let mut well_until = now_us;
    for (began, over) in troubles.iter().rev().filter(|(began, _)| *began < now_us) {
        if well_until.saturating_sub(*over) >= LEARNING_US_MAX {
            break;
        }
        well_until = well_until.min(*began);
    }
    well_until.saturating_sub(LEARNING_US_MAX)
}

/// Whether a gateway was asked long before for what it did not know then either. It learns when somebody wants to read.
fn was_asked(here: &[&Event], event: &Event, everywhere: &[(u64, i64)], told: i64) -> bool {
    let known_at = everywhere.iter().find(|(_, end)| *end > told).map_or(u64::MAX, |(at, _)| *at);
    let long_before = event.sent_us.saturating_sub(LEARNING_US_MAX);
    let asks = |other: &&&Event| told_watermark(&other.what).is_some() && other.sent_us >= known_at;
    here.iter().filter(asks).any(|other| other.sent_us <= long_before)
}

/// When an end was known, and the highest known until then: from watermarks and from acknowledgements.
fn floors<'a>(events: impl Iterator<Item = &'a Event>) -> Vec<(u64, i64)> {
    let known = |event: &Event| match event.what {
        What::Produce { count, outcome: Outcome::At(base), .. } => Some(base + i64::from(count)),
        _ => told_watermark(&event.what),
    };
    let mut floors: Vec<(u64, i64)> = events.filter_map(|event| Some((event.settled_us, known(event)?))).collect();
    floors.sort_unstable();
    let mut highest = 0;
    for (_, end) in &mut floors {
        highest = highest.max(*end);
        *end = highest;
    }
    floors
}

fn floor_before(floors: &[(u64, i64)], time_us: u64) -> Option<i64> {
    let at = floors.partition_point(|(settled_us, _)| *settled_us < time_us);
    at.checked_sub(1).map(|at| floors[at].1)
}
