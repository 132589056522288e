//! Limits that streams should have and do not: made by hand or by older gateways without any, or left behind by a change
//! that was cut short.

use super::settings;
use super::streams::{self, Found, Limits, Parts};
use super::{Catalog, LOOK_TIMEOUT, Topic};
use crate::limits::BOUNDED_PER_POLL_MAX;
use crate::store::{StoreError, StoreResult};
use slog::{debug, info, warn};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Topics whose streams want looking after.
#[derive(Debug, Default)]
pub(super) struct Neglected {
    /// The store has been listed: streams that are made or altered later are as they are wanted.
    listed: bool,
    /// Partitions that had no limit then, by topic.
    unbounded: BTreeMap<String, Vec<usize>>,
    /// Topics of which some partition missed a change.
    behind: BTreeSet<String>,
}

impl Catalog {
    /// Takes note of what a listing found. Asks the store nothing.
    pub(super) fn note_limits(&self, found: &[(Parts, Arc<Topic>)]) {
        let mut neglected = self.neglected.lock().expect("no holder panics");
        let behind = found.iter().filter(|(parts, topic)| is_behind(parts, topic));
        neglected.behind = behind.map(|(_, topic)| topic.name.clone()).collect();
        if !std::mem::replace(&mut neglected.listed, true) {
            neglected.unbounded = found.iter().filter_map(|(parts, topic)| self.without_limits(parts, topic)).collect();
        }
    }

    /// Sets the limits that are missing. Runs in the slow poll.
    pub(super) fn look_after_limits(&self) {
        let (behind, unbounded) = {
            let mut neglected = self.neglected.lock().expect("no holder panics");
            (std::mem::take(&mut neglected.behind), std::mem::take(&mut neglected.unbounded))
        };
        for name in behind {
            // The next listing finds it again.
            if let Ok(Some(topic)) = self.topic(&name)
                && let Err(error) = self.bring_in_line(&topic)
            {
                debug!(self.logger, "limits not brought in line yet"; "topic" => name, "error" => %error);
            }
        }
        let (mut again, mut budget) = (BTreeMap::new(), BOUNDED_PER_POLL_MAX);
        for (name, partitions) in unbounded {
            let done = match self.topic(&name) {
                _ if budget == 0 => Err(Later),
                Ok(Some(topic)) => self.bound(&topic, &partitions),
                Ok(None) => Ok(()),
                Err(_) => Err(Later),
            };
            budget = budget.saturating_sub(partitions.len());
            if done == Err(Later) {
                again.insert(name, partitions);
            }
        }
        self.neglected.lock().expect("no holder panics").unbounded.append(&mut again);
    }

    fn without_limits(&self, parts: &Parts, topic: &Topic) -> Option<(String, Vec<usize>)> {
        let unbounded = parts.range(..topic.partitions.len()).filter(|(_, part)| part.is_unbounded());
        let partitions: Vec<usize> = unbounded.map(|(partition, _)| *partition).collect();
        let wanted = !partitions.is_empty() && !self.wanted(topic).is_none();
        wanted.then(|| (topic.name.clone(), partitions))
    }

    /// The limits for a topic's streams that have none: what was given, otherwise the defaults.
    fn wanted(&self, topic: &Topic) -> Limits {
        let defaults = self.defaults();
        let settings = settings::resolve(topic.settings.given.clone(), &defaults);
        Limits {
            max_age_ns: Some(streams::max_age_ns(&settings)).filter(|age| *age > 0),
            max_bytes: Some(streams::max_bytes(&settings, &defaults)).filter(|bytes| *bytes > 0),
        }
    }

    fn bound(&self, topic: &Topic, partitions: &[usize]) -> Result<(), Later> {
        let limits = self.wanted(topic);
        let mut claim = self.claim(&topic.name, self.clock.now().mono + LOOK_TIMEOUT).map_err(|_| Later)?;
        for partition in partitions {
            claim.extend();
            let outcome = self.part(&topic.name, Some(topic.id), *partition, &mut claim).and_then(|found| {
                if !found.is_unbounded() {
                    return Ok(());
                }
                let mut config = found.config().clone();
                limits.apply(&mut config);
                self.update(&config, &mut claim)
            });
            match outcome {
                Ok(()) => info!(self.logger, "a stream without limits is bounded"; "topic" => &topic.name,
                    "partition" => partition, "max_age_ns" => limits.max_age_ns, "max_bytes" => limits.max_bytes),
                Err(StoreError::NoStream) => {}
                Err(StoreError::NoAnswer | StoreError::Unavailable | StoreError::Busy) => return Err(Later),
                Err(error) => warn!(self.logger, "a stream without limits cannot be bounded: it may fill the store";
                    "topic" => &topic.name, "partition" => partition, "error" => %error,
                    "cure" => "set max_age or max_bytes by hand, or give the server more room"),
            }
        }
        self.invalidate(&topic.name);
        Ok(())
    }

    /// Gives all partitions of a topic the limits of partition 0, after a change that was cut short.
    fn bring_in_line(&self, topic: &Topic) -> StoreResult<()> {
        let mut claim = self.try_claim(&topic.name, self.clock.now().mono + LOOK_TIMEOUT)?;
        let zero = self.part(&topic.name, Some(topic.id), 0, &mut claim)?;
        for partition in 1..topic.partitions.len() {
            claim.extend();
            let found = self.part(&topic.name, Some(topic.id), partition, &mut claim)?;
            if found.limits_revision() != zero.limits_revision() {
                let mut config = found.config().clone();
                zero.limits().apply_numbered(&mut config, zero.limits_revision());
                self.update(&config, &mut claim)?;
                info!(self.logger, "a partition's limits are brought in line with partition 0's"; "topic" => &topic.name,
                    "partition" => partition);
            }
        }
        Ok(())
    }
}

/// The store did not answer: another time.
#[derive(Debug, PartialEq)]
struct Later;

fn is_behind(parts: &Parts, topic: &Topic) -> bool {
    let revision = |part: &Found| part.limits_revision();
    let zero = parts.get(&0).map_or(0, revision);
    parts.range(1..topic.partitions.len().max(1)).any(|(_, part)| revision(part) != zero)
}
