//! What the catalog remembers, and in which order it came to know it: a look at the store that began before a change
//! was made here must not undo it.

use super::streams::Known;
use super::{ABSENCE_TRUSTED_FOR, RETRY_AFTER, Sighting, Topic, names};
use crate::wire::Uuid;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many absent names are remembered: names come from clients, who can invent any number.
const ABSENT_MAX: usize = 10_000;

/// How long after its streams were seen to be made a cluster may not find a topic: its leader takes in what it has decided when
/// it gets to it.
pub const MADE_LATELY: Duration = Duration::from_secs(5);

/// What a look at the store found of a name.
pub enum Found {
    Whole(Known),
    /// Streams, but no topic; partition 0, if it was found, belongs to the one with this id.
    Part(Option<Uuid>),
    Nothing,
}

/// Why a topic is not served any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It was deleted, or replaced by another one of its name.
    Deleted,
    /// Partition 0, with which a deletion begins, is there, another stream is not: it may come back.
    Damaged,
}

/// A topic that is not served any more.
pub type Lost = (Arc<Topic>, Loss);

#[derive(Default)]
pub struct Memory {
    /// Counts what happened, so that a look knows what happened after it began.
    moment: u64,
    pub topics: HashMap<String, Entry>,
    names_by_id: HashMap<Uuid, String>,
    absent: HashMap<String, Absence>,
    /// The last moment at which some topic was seen to be created.
    creation: u64,
    /// When a stream with this stem was seen to be made, if none was seen to be deleted since.
    made: HashMap<String, Instant>,
    /// When the last complete listing began.
    pub listed: Option<Instant>,
    /// Topics of which some stream did not answer to that listing.
    pub silent: BTreeSet<String>,
    /// Something was created or deleted since.
    pub listing_stale: bool,
    /// When the last listing that failed did so.
    pub listing_failed: Option<Instant>,
}

pub struct Entry {
    pub known: Known,
    /// The moment at which this became known.
    since: u64,
    /// The moment at which it was doubted, if it is.
    pub doubted: Option<u64>,
    /// When a look at it failed.
    pub failed: Option<Instant>,
}

impl Entry {
    /// Doubted, and not looked at in vain a moment ago: while the store is away, what is known is served without delay.
    pub fn needs_look(&self, now: Instant) -> bool {
        self.doubted.is_some() && self.failed.is_none_or(|at| now.duration_since(at) >= RETRY_AFTER)
    }
}

/// What JetStream tells of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    Created,
    Updated,
    Deleted,
}

pub struct Absence {
    at: Instant,
    /// The moment at which the topic was found absent or was deleted here.
    since: u64,
}

impl Memory {
    pub fn tick(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// The topic with that id, unless it should be looked at again.
    pub fn by_id(&self, id: &Uuid, now: Instant) -> Option<Arc<Topic>> {
        let entry = self.topics.get(self.names_by_id.get(id)?)?;
        (!entry.needs_look(now)).then(|| entry.known.topic.clone())
    }

    pub fn name_of(&self, id: &Uuid) -> Option<String> {
        self.names_by_id.get(id).cloned()
    }

    /// Whether the topic was found absent a moment ago.
    pub fn is_absent(&self, name: &str, now: Instant) -> bool {
        self.absent.get(name).is_some_and(|absence| now.duration_since(absence.at) < ABSENCE_TRUSTED_FOR)
    }

    pub fn forget_absent(&mut self, now: Instant, age: Duration) {
        self.absent.retain(|_, absence| now.duration_since(absence.at) < age);
    }

    /// Whether JetStream told a moment ago that streams of this topic were made.
    pub fn was_made_lately(&self, name: &str, now: Instant) -> bool {
        self.made.get(&names::stem(name)).is_some_and(|at| now.duration_since(*at) < MADE_LATELY)
    }

    /// A stream with this stem was created, changed or deleted.
    pub fn advise(&mut self, stem: &str, what: Advice, now: Instant) {
        let moment = self.tick();
        self.listing_stale = true;
        match what {
            Advice::Created => {
                self.creation = moment;
                self.made.retain(|_, at| now.duration_since(*at) < MADE_LATELY);
                if self.made.len() < ABSENT_MAX {
                    self.made.insert(stem.to_owned(), now);
                }
            }
            Advice::Deleted => {
                self.made.remove(stem);
            }
            Advice::Updated => {}
        }
        let doubt = |entry: &mut Entry| entry.doubted = Some(moment);
        match names::of_stem(stem) {
            Some(name) => {
                self.absent.remove(&name);
                self.topics.get_mut(&name).map(doubt);
            }
            // A hash: only the names can tell whose.
            None => {
                self.absent.retain(|name, _| names::stem(name) != stem);
                let named = self.topics.iter_mut().filter(|(name, _)| names::stem(name) == stem);
                named.map(|(_, entry)| entry).for_each(doubt);
            }
        }
    }

    /// What holds now, and the topic that is not served any more because of it.
    pub fn take_in(
        &mut self,
        name: &str,
        found: Found,
        began: u64,
        now: Instant,
    ) -> (Option<Arc<Topic>>, Option<Lost>) {
        let moment = self.tick();
        let newer = self.topics.get(name).is_some_and(|entry| entry.since > began)
            || self.absent.get(name).is_some_and(|absence| absence.since > began);
        if newer {
            return (self.topics.get(name).map(|entry| entry.known.topic.clone()), None);
        }
        let doubted = self.topics.get(name).and_then(|entry| entry.doubted).filter(|at| *at > began);
        let before = self.topics.remove(name).map(|entry| entry.known.topic);
        if let Some(before) = &before {
            self.names_by_id.remove(&before.id);
        }
        self.absent.remove(name);
        let known = match found {
            Found::Whole(known) => known,
            // It may be whole a moment later, and no advisory would tell.
            Found::Part(id) => {
                let loss = |before: &Arc<Topic>| if id == Some(before.id) { Loss::Damaged } else { Loss::Deleted };
                return (None, before.map(|before| (before.clone(), loss(&before))));
            }
            Found::Nothing => {
                // What was created since the look began may be just this topic.
                if self.creation <= began && self.absent.len() < ABSENT_MAX {
                    self.absent.insert(name.to_owned(), Absence { at: now, since: moment });
                }
                return (None, before.map(|before| (before, Loss::Deleted)));
            }
        };
        let topic = known.topic.clone();
        self.names_by_id.insert(topic.id, name.to_owned());
        self.topics.insert(name.to_owned(), Entry { known, since: moment, doubted, failed: None });
        let gone = before.filter(|before| before.id != topic.id);
        (Some(topic), gone.map(|gone| (gone, Loss::Deleted)))
    }

    pub fn sightings(&self, names: &HashSet<String>) -> Vec<Sighting> {
        let entries = self.topics.iter().filter(|(name, _)| names.contains(*name)).map(|(_, entry)| &entry.known);
        entries
            .flat_map(|known| {
                (0..).zip(&known.streams).map(|(partition, (created, last))| Sighting {
                    topic: known.topic.clone(),
                    partition,
                    created: created.clone(),
                    last: *last,
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::TopicSettings;

    fn whole(id: u8) -> Found {
        let topic = Topic {
            id: Uuid([id; 16]),
            name: "t".to_owned(),
            partitions: Vec::new(),
            settings: TopicSettings::default(),
        };
        Found::Whole(Known { topic: Arc::new(topic), streams: Vec::new(), legacy: false })
    }

    fn id(topic: &Option<Arc<Topic>>) -> Option<u8> {
        topic.as_ref().map(|topic| topic.id.0[0])
    }

    /// What holds after a look that began at `began`, and what is no more because of it, by id.
    fn take_in(memory: &mut Memory, found: Found, began: u64, now: Instant) -> (Option<u8>, Option<u8>) {
        let (topic, gone) = memory.take_in("t", found, began, now);
        (id(&topic), id(&gone.map(|(topic, _)| topic)))
    }

    #[test]
    fn a_look_that_began_before_a_change_does_not_undo_it() {
        let now = Instant::now();
        let mut memory = Memory::default();
        let early = memory.tick();
        let creation = memory.tick();
        assert_eq!(take_in(&mut memory, whole(1), creation, now), (Some(1), None));
        assert_eq!(take_in(&mut memory, Found::Nothing, early, now), (Some(1), None), "it was not there yet");
        let early = memory.tick();
        let deletion = memory.tick();
        assert_eq!(take_in(&mut memory, Found::Nothing, deletion, now), (None, Some(1)));
        assert_eq!(take_in(&mut memory, whole(1), early, now), (None, None), "it was still there");
        assert_eq!(memory.name_of(&Uuid([1; 16])), None);
        let later = memory.tick();
        assert_eq!(take_in(&mut memory, whole(2), later, now), (Some(2), None));
        let replaced = memory.tick();
        assert_eq!(take_in(&mut memory, whole(3), replaced, now), (Some(3), Some(2)));
    }

    #[test]
    fn absence_is_not_believed_if_something_was_created_meanwhile() {
        let now = Instant::now();
        let mut memory = Memory::default();
        let began = memory.tick();
        memory.advise("t", Advice::Created, now);
        take_in(&mut memory, Found::Nothing, began, now);
        assert!(!memory.is_absent("t", now));
        let began = memory.tick();
        take_in(&mut memory, Found::Nothing, began, now);
        assert!(memory.is_absent("t", now));
        assert!(!memory.is_absent("t", now + ABSENCE_TRUSTED_FOR));
        memory.advise("t", Advice::Created, now);
        assert!(!memory.is_absent("t", now));
        let began = memory.tick();
        take_in(&mut memory, Found::Part(None), began, now);
        assert!(!memory.is_absent("t", now), "no advisory tells when it is whole");
    }

    #[test]
    fn a_doubt_outlives_a_look_that_began_before_it() {
        let now = Instant::now();
        let mut memory = Memory::default();
        let began = memory.tick();
        take_in(&mut memory, whole(1), began, now);
        let began = memory.tick();
        memory.advise("t", Advice::Updated, now);
        take_in(&mut memory, whole(1), began, now);
        assert!(memory.topics["t"].needs_look(now));
        let began = memory.tick();
        take_in(&mut memory, whole(1), began, now);
        assert!(!memory.topics["t"].needs_look(now));
    }
}
