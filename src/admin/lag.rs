//! How far committed offsets are behind their logs: lag = log end − committed offset, as Kafka's own tools count it.

use super::topics::Survey;
use super::{Pages, Refusal};
use crate::catalog::Topic;
use crate::limits::{LAG_EVERY, LAG_LOOK_MAX, LAG_ROWS_MAX, LAG_TIME_SHARE};
use crate::offsets::{Committed, Slot, TopicPartition};
use crate::store::StoreResult;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The ends of logs.
#[derive(Default)]
pub(super) struct Ends {
    topics: HashMap<String, Arc<Topic>>,
    /// The next offset, and whether it is exact.
    next: HashMap<TopicPartition, (i64, bool)>,
}

impl Ends {
    /// The log ends of these partitions, as far as their topics exist.
    pub fn of(
        pages: &Pages,
        wanted: &BTreeSet<TopicPartition>,
        exact: bool,
        deadline: Instant,
    ) -> Result<Ends, Refusal> {
        let names: BTreeSet<&str> = wanted.iter().map(|at| at.topic.as_str()).collect();
        let mut topics: Vec<Arc<Topic>> = pages.services.catalog.topics()?;
        topics.retain(|topic| names.contains(topic.name.as_str()));
        let mut survey =
            if topics.is_empty() { Survey { rows: Vec::new() } } else { Survey::of(pages, &topics, deadline)? };
        let at = |topic: &Topic, partition| TopicPartition::new(&topic.name, partition);
        survey.rows.retain(|row| wanted.contains(&at(&row.topic, row.partition)));
        if exact {
            survey.make_exact(pages, deadline)?;
        }
        let found = survey.rows.iter().filter(|row| row.stream.is_some());
        let next = found.map(|row| (at(&row.topic, row.partition), (row.bounds.next_offset, row.bounds.next_is_exact)));
        Ok(Ends { next: next.collect(), topics: topics.into_iter().map(|topic| (topic.name.clone(), topic)).collect() })
    }

    pub fn next(&self, at: &TopicPartition) -> Option<(i64, bool)> {
        self.next.get(at).copied()
    }

    /// Whether the commit was made for the topic that bears this name now, or may have been.
    pub fn concerns(&self, at: &TopicPartition, committed: &Committed) -> bool {
        let Some(topic) = self.topics.get(&at.topic) else { return true };
        committed.topic_id.is_none_or(|id| id == topic.id)
    }
}

/// Lag as the metrics show it: looked at now and then.
#[derive(Default)]
pub(super) struct Lag {
    /// The last look. Not held while the store is asked.
    last: Mutex<Option<Arc<Look>>>,
    looking: AtomicBool,
}

pub(super) struct Look {
    pub at: Instant,
    took: Duration,
    /// Group, partition, lag; the greatest first.
    pub rows: Vec<(String, TopicPartition, i64)>,
    /// Rows above `LAG_ROWS_MAX`.
    pub left_out: usize,
}

impl Lag {
    /// The lag of all groups, a little old; `None` where it could not be looked at yet.
    pub fn look(&self, pages: &Pages) -> Option<Arc<Look>> {
        let now = pages.services.clock.now().mono;
        let last = self.last.lock().expect("no holder panics").clone();
        let fresh = |look: &Look| now.saturating_duration_since(look.at) < LAG_EVERY.max(look.took * LAG_TIME_SHARE);
        if last.as_deref().is_some_and(fresh) || self.looking.swap(true, Ordering::AcqRel) {
            return last;
        }
        let _looking = Looking(&self.looking);
        let looked = look(pages, now);
        let took = pages.services.clock.now().mono.saturating_duration_since(now);
        let looked = looked.map(|(rows, left_out)| Arc::new(Look { at: now, took, rows, left_out }));
        if let Ok(look) = &looked {
            *self.last.lock().expect("no holder panics") = Some(look.clone());
        }
        looked.ok().or(last)
    }
}

/// One looks at a time; ends also when the look panics.
struct Looking<'a>(&'a AtomicBool);

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

type Rows = (Vec<(String, TopicPartition, i64)>, usize);

fn look(pages: &Pages, now: Instant) -> Result<Rows, Refusal> {
    let deadline = now + LAG_LOOK_MAX;
    let commits = all_commits(pages, deadline)?;
    let wanted = commits.values().flat_map(BTreeMap::keys).cloned().collect();
    let ends = Ends::of(pages, &wanted, false, deadline)?;
    let mut rows = Vec::new();
    for (group, commits) in commits {
        for (at, committed) in commits {
            if let Some((next, _)) = ends.next(&at).filter(|_| ends.concerns(&at, &committed)) {
                rows.push((group.clone(), at, next.saturating_sub(committed.offset)));
            }
        }
    }
    rows.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| (&a.0, &a.1).cmp(&(&b.0, &b.1))));
    let left_out = rows.len().saturating_sub(LAG_ROWS_MAX);
    rows.truncate(LAG_ROWS_MAX);
    Ok((rows, left_out))
}

/// All commits that can be read, by group.
pub(super) fn all_commits(
    pages: &Pages,
    deadline: Instant,
) -> StoreResult<BTreeMap<String, BTreeMap<TopicPartition, Committed>>> {
    let stored = pages.services.offsets.all_stored(deadline)?;
    Ok(stored.into_iter().map(|(group, slots)| (group, readable(slots))).collect())
}

pub(super) fn readable(slots: BTreeMap<TopicPartition, Slot>) -> BTreeMap<TopicPartition, Committed> {
    let committed = |(at, slot)| match slot {
        Slot::Committed(committed) => Some((at, committed)),
        Slot::Absent | Slot::Damaged => None,
    };
    slots.into_iter().filter_map(committed).collect()
}
