//! Committed offsets: one KV entry per group, topic and partition, written by compare-and-set.
//!
//! Of the groups that this gateway owns, all commits are kept in memory with their revisions. A commit goes out under the
//! revision it knows; one write per key is in flight, and of the commits that come meanwhile the newest goes next and
//! answers for all of them. Which is newer is said by the order in which they were enqueued, not by whose thread is quicker. So a
//! commit never goes back to an older one.

mod commit;
mod value;

pub use commit::{CommitError, NewCommit, Outcome};
pub use value::{Committed, Slot, TopicPartition};

use crate::clock::Clock;
use crate::store::{self, KvBucket, KvEntry, Publish, Sequence, Store, StoreError, StoreResult, keys, kv_message};
use crate::tasks::Tasks;
use crate::wire::Uuid;
use bytes::Bytes;
use commit::{Arrival, Waiting};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

/// The bucket's name.
pub const BUCKET: &str = "kafka-consumer-offsets";

/// The key of no commit, see `reach_the_newest`.
const MARK: &str = "mark";

/// A group's commits are dropped from memory when nobody asked for them for so long.
const UNUSED: Duration = Duration::from_secs(600);

/// The right to commit for a group: one claim of this gateway on it.
pub trait Tenure: Send + Sync {
    /// A later claim on the same group has a larger number.
    fn number(&self) -> u64;

    /// Whether nobody else can have become the owner since the claim. Answered from memory.
    fn stands(&self) -> bool;

    /// The same, by a read at the leader.
    fn verify(&self, deadline: Instant) -> StoreResult<bool>;
}

pub struct Offsets {
    store: Arc<dyn Store>,
    tasks: Arc<dyn Tasks>,
    clock: Arc<dyn Clock>,
    /// JetStream replicas of the bucket.
    replicas: u32,
    /// What is known of the groups that this gateway owns. Taken before a group's own lock.
    groups: Mutex<HashMap<String, Arc<GroupOffsets>>>,
    /// What was enqueued and not sent yet, in order: one for each thread that is about to. A leaf.
    arrivals: Mutex<Vec<Arrival>>,
    this: Weak<Offsets>,
}

/// How many commits were removed, and how many stayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removal {
    pub removed: usize,
    pub left: usize,
}

/// All commits of one group, as they are known under one claim on it. What was known under an older one may have been
/// written over by others.
struct GroupOffsets {
    group: String,
    tenure: Arc<dyn Tenure>,
    known: Mutex<Known>,
}

struct Known {
    cells: BTreeMap<TopicPartition, Cell>,
    used: Instant,
}

/// One key. One that is not there was never seen: its revision is taken to be 0 until the store says otherwise.
struct Cell {
    revision: Sequence,
    slot: Slot,
    /// False after a write whose outcome is not known: the store must be asked.
    certain: bool,
    in_flight: bool,
    waiting: Option<Waiting>,
}

impl Default for Cell {
    fn default() -> Self {
        Cell { revision: Sequence(0), slot: Slot::Absent, certain: true, in_flight: false, waiting: None }
    }
}

impl GroupOffsets {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no holder panics")
    }
}

impl Offsets {
    pub fn new(store: Arc<dyn Store>, tasks: Arc<dyn Tasks>, clock: Arc<dyn Clock>, replicas: u32) -> Arc<Offsets> {
        let (groups, arrivals) = (Mutex::new(HashMap::new()), Mutex::new(Vec::new()));
        Arc::new_cyclic(|this| Offsets { store, tasks, clock, replicas, groups, arrivals, this: this.clone() })
    }

    /// All commits of a group that this gateway owns: from memory, the first time read at the leader. `None`: it does not own
    /// the group any more.
    pub fn owned(
        &self,
        group: &str,
        tenure: &Arc<dyn Tenure>,
        deadline: Instant,
    ) -> StoreResult<Option<BTreeMap<TopicPartition, Slot>>> {
        let Some(offsets) = self.known(group, tenure, deadline)? else { return Ok(None) };
        self.make_certain(&offsets, deadline)?;
        let known = offsets.lock();
        let present = known.cells.iter().filter(|(_, cell)| cell.slot != Slot::Absent);
        let slots = present.map(|(at, cell)| (at.clone(), cell.slot.clone())).collect();
        Ok(tenure.stands().then_some(slots))
    }

    /// All commits of any group, read at the leader.
    pub fn stored(&self, group: &str, deadline: Instant) -> StoreResult<BTreeMap<TopicPartition, Slot>> {
        self.reach_the_newest(deadline)?;
        let entries = self.list(group, deadline)?.into_iter();
        Ok(entries.map(|(at, entry)| (at, value::decode(entry.value.as_ref(), entry.stored_ms))).collect())
    }

    /// All commits of all groups, read at the leader.
    pub fn all_stored(&self, deadline: Instant) -> StoreResult<BTreeMap<String, BTreeMap<TopicPartition, Slot>>> {
        let mut groups: BTreeMap<String, BTreeMap<TopicPartition, Slot>> = BTreeMap::new();
        for (key, entry) in self.entries(">", deadline)? {
            let Some((group, at)) = value::parse_key(&key) else { continue };
            groups.entry(group).or_default().insert(at, value::decode(entry.value.as_ref(), entry.stored_ms));
        }
        Ok(groups)
    }

    /// All groups that have commits, read at the leader.
    pub fn groups_stored(&self, deadline: Instant) -> StoreResult<Vec<String>> {
        let entries = self.entries(">", deadline)?;
        let mut groups: Vec<String> =
            entries.iter().filter_map(|(key, _)| value::parse_key(key)).map(|(group, _)| group).collect();
        groups.dedup();
        Ok(groups)
    }

    /// Removes those of a group's commits that `unwanted` picks and that are not committed anew meanwhile.
    pub fn remove(
        &self,
        group: &str,
        deadline: Instant,
        unwanted: &dyn Fn(&TopicPartition, &Slot) -> bool,
    ) -> StoreResult<Removal> {
        let entries = self.list(group, deadline)?;
        let total = entries.len();
        let picked = entries.into_iter().filter(|(at, entry)| {
            let slot = value::decode(entry.value.as_ref(), entry.stored_ms);
            unwanted(at, &slot)
        });
        let picked = picked.map(|(at, entry)| (group.to_owned(), at, entry.revision)).collect();
        let removed = self.delete(picked, deadline)?;
        Ok(Removal { removed, left: total - removed })
    }

    /// Removes all commits, of every group, for a topic that is deleted, but not what is committed for another topic of
    /// that name meanwhile. How many there were.
    pub fn delete_topic(&self, topic: &str, id: Uuid, deadline: Instant) -> StoreResult<usize> {
        let entries = self.entries(&format!("*.{}.*", keys::token(topic)), deadline)?;
        let picked = entries.into_iter().filter_map(|(key, entry)| {
            let (group, at) = value::parse_key(&key)?;
            let slot = value::decode(entry.value.as_ref(), entry.stored_ms);
            let of_another = slot.committed().and_then(|committed| committed.topic_id).is_some_and(|other| other != id);
            (!of_another).then_some((group, at, entry.revision))
        });
        self.delete(picked.collect(), deadline)
    }

    /// Forgets what is known of a group: it is no longer owned. Writes under way are still settled.
    pub fn forget(&self, group: &str) {
        self.lock().remove(group);
    }

    /// Forgets the groups that nobody asked about for some time.
    pub fn forget_unused(&self, now: Instant) {
        self.lock().retain(|_, offsets| {
            let known = offsets.lock();
            known.used + UNUSED > now || known.cells.values().any(|cell| cell.in_flight)
        });
    }

    /// Whether commits of the group are in memory, or under way.
    pub fn holds_any(&self, group: &str) -> bool {
        self.has(group, |cell| cell.in_flight || cell.slot != Slot::Absent)
    }

    /// Whether commits of the group are under way.
    pub fn is_committing(&self, group: &str) -> bool {
        self.has(group, |cell| cell.in_flight)
    }

    /// Whether there are arrivals, or such a key. In this order: what has arrived goes from there to the keys.
    fn has(&self, group: &str, such: impl Fn(&Cell) -> bool) -> bool {
        let arrived = self.arrivals.lock().expect("no holder panics").iter().any(|arrival| arrival.group == group);
        arrived || {
            let offsets = self.lock().get(group).cloned();
            offsets.is_some_and(|offsets| offsets.lock().cells.values().any(such))
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<GroupOffsets>>> {
        self.groups.lock().expect("no holder panics")
    }

    /// What is known of a group's commits under this claim; `None` if there is a later one.
    fn known(
        &self,
        group: &str,
        tenure: &Arc<dyn Tenure>,
        deadline: Instant,
    ) -> StoreResult<Option<Arc<GroupOffsets>>> {
        let now = self.clock.now().mono;
        if let Some(offsets) = self.lock().get(group).filter(|present| present.tenure.number() >= tenure.number()) {
            // Under the map's lock: forgotten in between, it would be known twice, and each would write by itself.
            offsets.lock().used = now;
            return Ok((offsets.tenure.number() == tenure.number()).then(|| offsets.clone()));
        }
        self.reach_the_newest(deadline)?;
        let entries = self.list(group, deadline)?.into_iter();
        let cells = entries.map(|(at, entry)| {
            let slot = value::decode(entry.value.as_ref(), entry.stored_ms);
            (at, Cell { revision: entry.revision, slot, ..Cell::default() })
        });
        let known = Mutex::new(Known { cells: cells.collect(), used: now });
        let made = Arc::new(GroupOffsets { group: group.to_owned(), tenure: tenure.clone(), known });
        let mut groups = self.lock();
        // Whoever came first under this claim has perhaps committed already: its view stands.
        if groups.get(group).is_none_or(|present| present.tenure.number() < tenure.number()) {
            groups.insert(group.to_owned(), made);
        }
        let stands = groups.get(group).filter(|present| present.tenure.number() == tenure.number());
        Ok(stands.cloned())
    }

    /// Asks the store about keys whose last write has an unknown outcome.
    fn make_certain(&self, offsets: &GroupOffsets, deadline: Instant) -> StoreResult<()> {
        let uncertain: Vec<TopicPartition> = {
            let known = offsets.lock();
            known.cells.iter().filter(|(_, cell)| !cell.certain).map(|(at, _)| at.clone()).collect()
        };
        for at in uncertain {
            let entry = self.store.kv_get(BUCKET, &value::key(&offsets.group, &at), deadline)?;
            if let Some(cell) = offsets.lock().cells.get_mut(&at)
                && !cell.in_flight
                && cell.revision <= entry.revision
            {
                // Under the old revision the lost write may still come.
                cell.certain = cell.revision < entry.revision;
                cell.slot = value::decode(entry.value.as_ref(), entry.stored_ms);
                cell.revision = entry.revision;
            }
        }
        Ok(())
    }

    fn list(&self, group: &str, deadline: Instant) -> StoreResult<Vec<(TopicPartition, KvEntry)>> {
        let entries = self.entries(&format!("{}.*.*", keys::token(group)), deadline)?;
        Ok(entries.into_iter().filter_map(|(key, entry)| Some((value::parse_key(&key)?.1, entry))).collect())
    }

    fn entries(&self, filter: &str, deadline: Instant) -> StoreResult<Vec<(String, KvEntry)>> {
        match self.store.kv_list(BUCKET, filter, deadline) {
            Err(StoreError::NoStream) => {
                self.ensure_bucket(deadline)?;
                self.store.kv_list(BUCKET, filter, deadline)
            }
            other => other,
        }
    }

    /// Whoever leads the bucket since a moment ago may answer reads before it has applied all that is committed, but it
    /// acknowledges what comes behind that only afterwards. So a message of ours goes before a look at a group's
    /// commits (ADR 22).
    fn reach_the_newest(&self, deadline: Instant) -> StoreResult<()> {
        if !self.store.info().clustered {
            return Ok(());
        }
        let mark = || Publish {
            subject: format!("$KV.{BUCKET}.{MARK}"),
            payload: Bytes::from_static(b"commits were read"),
            ..Publish::default()
        };
        let outcome = match store::publish(&*self.store, mark(), deadline) {
            Err(StoreError::NoStream | StoreError::Unavailable) => {
                self.ensure_bucket(deadline)?;
                store::publish(&*self.store, mark(), deadline)
            }
            other => other,
        };
        match outcome {
            // A full store can be read.
            Ok(_) | Err(StoreError::NoSpace(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn ensure_bucket(&self, deadline: Instant) -> StoreResult<()> {
        let bucket = KvBucket { name: BUCKET.to_owned(), replicas: self.replicas, max_age_ms: None };
        self.store.kv_ensure(&bucket, deadline)
    }

    fn delete(&self, picked: Vec<(String, TopicPartition, Sequence)>, deadline: Instant) -> StoreResult<usize> {
        let marker = |(group, at, revision): &(String, TopicPartition, Sequence)| {
            kv_message(BUCKET, &value::key(group, at), None, *revision)
        };
        let outcomes = store::publish_all(&*self.store, picked.iter().map(marker).collect(), deadline);
        let mut removed = 0;
        let mut failed = None;
        for ((group, at, _), outcome) in picked.into_iter().zip(outcomes) {
            match outcome {
                Ok(ack) => {
                    removed += 1;
                    self.learn_removed(&group, &at, ack.sequence);
                }
                // Committed anew since it was listed: it stays.
                Err(StoreError::WrongLast(_)) => {}
                Err(error) => {
                    self.doubt(&group, &at);
                    failed = Some(error);
                }
            }
        }
        failed.map_or(Ok(removed), Err)
    }

    fn learn_removed(&self, group: &str, at: &TopicPartition, revision: Sequence) {
        let Some(offsets) = self.lock().get(group).cloned() else { return };
        let mut known = offsets.lock();
        let cell = known.cells.entry(at.clone()).or_default();
        if cell.revision < revision {
            cell.revision = revision;
            cell.slot = Slot::Absent;
        }
    }

    fn doubt(&self, group: &str, at: &TopicPartition) {
        let Some(offsets) = self.lock().get(group).cloned() else { return };
        if let Some(cell) = offsets.lock().cells.get_mut(at) {
            cell.certain = false;
        }
    }
}
