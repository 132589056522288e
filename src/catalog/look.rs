//! One topic in the store: what its streams amount to, shared by all who ask for that name meanwhile.

use super::memory::Found;
use super::streams::{self, Parts, Standing};
use super::{Catalog, LOOK_TIMEOUT, Topic, names};
use crate::store::{StoreError, StoreResult};
use crate::wire::Uuid;
use slog::debug;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two looks at what a cluster says is not there.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(100);

impl Catalog {
    /// Looks at the store together with all who ask for this name meanwhile.
    pub(super) fn look_shared(&self, name: &str) -> StoreResult<Option<Arc<Topic>>> {
        let look = || match self.look_twice(name)? {
            // A leader that was just elected may not know what the topic's creator saw done.
            (None, true) => Err(StoreError::Unavailable),
            (topic, _) => Ok(topic),
        };
        let share = || self.looks.share(&name.to_owned(), LOOK_TIMEOUT, look);
        let mut shared = share();
        if !shared.ours && shared.outcome == Ok(None) {
            // That look may have begun before the topic was created and we were asked; the next one has not.
            shared = share();
        }
        if shared.outcome.is_err() {
            let mut memory = self.memory.lock().expect("no holder panics");
            if let Some(entry) = memory.topics.get_mut(name) {
                entry.failed = Some(self.clock.now().mono);
            }
        }
        shared.outcome
    }

    /// As `look_closely`, and once more a little later where a cluster has not found it: a leader that was just elected may not
    /// know all streams.
    fn look_twice(&self, name: &str) -> StoreResult<(Option<Arc<Topic>>, bool)> {
        let began = self.memory.lock().expect("no holder panics").tick();
        let standing = self.examine(name)?;
        if standing.as_ref().is_some_and(Standing::is_complete) || !self.may_be_mistaken() {
            return Ok(self.take_in_standing(name, standing, began));
        }
        // Not taken in: whoever asks meanwhile would be told at once that there is none.
        std::thread::sleep(LOOK_AGAIN_AFTER);
        self.look_closely(name)
    }

    /// Whether the store may say of what is there that it is not.
    fn may_be_mistaken(&self) -> bool {
        self.store.info().may_deny(self.defaults.replicas)
    }

    /// Between a look that found something missing, and the one that is believed.
    pub(super) fn wait_for_the_store_to_learn(&self) {
        if self.may_be_mistaken() {
            std::thread::sleep(LOOK_AGAIN_AFTER);
        }
    }

    /// Looks at one topic's streams and takes in what is found.
    pub(super) fn look(&self, name: &str) -> StoreResult<Option<Arc<Topic>>> {
        self.look_closely(name).map(|(topic, _)| topic)
    }

    /// As `look`, and whether the topic is being made: its streams are not in their place, or not known to all servers yet.
    fn look_closely(&self, name: &str) -> StoreResult<(Option<Arc<Topic>>, bool)> {
        let began = self.memory.lock().expect("no holder panics").tick();
        let standing = self.examine(name)?;
        Ok(self.take_in_standing(name, standing, began))
    }

    fn take_in_standing(&self, name: &str, standing: Option<Standing>, began: u64) -> (Option<Arc<Topic>>, bool) {
        // Who answers for a cluster may not know yet what was told of by another of its servers.
        if !matches!(standing, Some(Standing::Whole(_))) && self.may_be_mistaken() {
            let now = self.clock.now().mono;
            if self.memory.lock().expect("no holder panics").was_made_lately(name, now) {
                debug!(self.logger, "a topic that was made a moment ago is not found yet"; "topic" => name);
                return (None, true);
            }
        }
        let is_complete = standing.as_ref().is_some_and(Standing::is_complete);
        let (found, moving) = match standing {
            Some(Standing::Whole(known)) => (Found::Whole(known), false),
            Some(Standing::Part { missing, moving, id }) => {
                debug!(self.logger, "a topic is not whole"; "topic" => name, "missing" => ?missing, "moving" => moving);
                (Found::Part(id), is_complete)
            }
            None => (Found::Nothing, false),
        };
        (self.take_in(name, found, began), moving)
    }

    /// Whether nothing is left of a topic that was not found some time ago. Where in doubt, it is not gone.
    pub fn is_gone(&self, topic: &Topic) -> bool {
        // The first look knows what was made a moment ago, the second what is damaged.
        matches!(self.topic(&topic.name), Ok(found) if found.as_ref().is_none_or(|found| found.id != topic.id))
            && matches!(self.examine(&topic.name), Ok(found) if found.as_ref().and_then(Standing::id) != Some(topic.id))
    }

    /// The topic of that name whose partition 0 is there and another one is not.
    pub(super) fn damaged(&self, name: &str) -> StoreResult<Option<Uuid>> {
        match self.examine(name)? {
            Some(Standing::Part { missing, id, .. }) if !missing.is_empty() => Ok(id),
            _ => Ok(None),
        }
    }

    /// What the streams of that name amount to, read at their leaders; `None`: there is not even a partition 0.
    pub(super) fn examine(&self, name: &str) -> StoreResult<Option<Standing>> {
        let deadline = self.clock.now().mono + LOOK_TIMEOUT;
        let zero = match self.store.stream_info(&names::stream(name, 0), deadline) {
            Ok(info) => streams::read(&info).filter(|found| found.topic == name),
            Err(StoreError::NoStream) => None,
            Err(error) => return Err(error),
        };
        let Some(zero) = zero else {
            return Ok(None);
        };
        let mut parts = Parts::from([(0, zero)]);
        if let Standing::Whole(known) = self.assemble(&parts)
            && !known.legacy
        {
            return Ok(Some(Standing::Whole(known)));
        }
        let (listed, silent) = self.streams_of(name, deadline)?;
        parts.extend(listed.into_iter().filter(|found| found.partition > 0).map(|found| (found.partition, found)));
        add_silent(&mut parts, &by_stem(&silent));
        let missing = match self.assemble(&parts) {
            Standing::Part { missing, .. } if !missing.is_empty() => missing,
            standing => return Ok(Some(standing)),
        };
        for partition in missing {
            match self.store.stream_info(&names::stream(name, partition), deadline) {
                Ok(info) => {
                    if let Some(found) = streams::read(&info).filter(|found| found.topic == name) {
                        parts.insert(partition, found);
                    }
                }
                // One that is missing is enough to know that the topic is not whole.
                Err(StoreError::NoStream) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(Some(self.assemble(&parts)))
    }

    /// The streams under a topic's name, whosever they are, and the names of those that do not answer.
    pub(super) fn streams_of(&self, name: &str, deadline: Instant) -> StoreResult<(Vec<streams::Found>, Vec<String>)> {
        let listing = self.store.stream_list(&names::topic_subjects(name), deadline)?;
        let found = listing.streams.iter().filter_map(streams::read).filter(|found| found.topic == name);
        Ok((found.collect(), listing.silent))
    }

    pub(super) fn assemble(&self, parts: &Parts) -> Standing {
        streams::assemble(parts, &self.defaults(), self.clock.now().wall_ms)
    }
}

/// The partitions of streams that do not answer, by their topics' stems.
pub(super) fn by_stem(silent: &[String]) -> BTreeMap<&str, Vec<usize>> {
    let mut partitions: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (stem, partition) in silent.iter().filter_map(|stream| names::parse_stream(stream)) {
        partitions.entry(stem).or_default().push(partition);
    }
    partitions
}

/// Adds the partitions that do not answer to a topic whose partition 0 does.
pub(super) fn add_silent(parts: &mut Parts, silent: &BTreeMap<&str, Vec<usize>>) {
    let Some(zero) = parts.get(&0).cloned() else { return };
    for partition in silent.get(names::stem(&zero.topic).as_str()).into_iter().flatten() {
        parts.entry(*partition).or_insert_with(|| zero.silent(*partition));
    }
}
