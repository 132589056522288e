//! Topics made and removed: all streams or none.
//!
//! A topic's streams are made from the last partition down, and each is moved to a sequence range of its own before the
//! next is made: nobody sees a topic before partition 0 is there and moved, and of several gateways that create one
//! name exactly one gets all streams, since configurations with different topic ids exclude each other. Removal begins
//! with partition 0. What a killed gateway leaves behind is therefore never whole; the next creation of that name
//! removes it once it is too old to be under construction.

use super::claim::Claim;
use super::look::by_stem;
use super::memory::Found;
use super::room::Asked;
use super::streams::{self, CREATION_MS_MAX, PARTITIONS_MAX, Plan, Standing};
use super::{Catalog, LOOK_TIMEOUT, Topic, names, settings};
use crate::store::{Sequence, StoreError, StoreResult, StreamInfo};
use crate::wire::Uuid;
use serde_json::Value;
use slog::{debug, error, info, warn};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a topic is to be.
#[derive(Clone, Debug, Default)]
pub struct NewTopic {
    pub name: String,
    pub partitions: usize,
    /// JetStream replicas of each stream.
    pub replicas: u32,
    /// By Kafka's names.
    pub settings: BTreeMap<String, String>,
}

/// Why a topic was not made. The texts are for the user.
#[derive(Clone, Debug, PartialEq)]
pub enum CreateTopicError {
    InvalidName(String),
    InvalidPartitions(String),
    InvalidReplication(String),
    InvalidSetting(String),
    Exists(String),
    /// The server has no room for the streams.
    NoRoom(String),
    Store(StoreError),
}

impl fmt::Display for CreateTopicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CreateTopicError::InvalidName(text)
            | CreateTopicError::InvalidPartitions(text)
            | CreateTopicError::InvalidReplication(text)
            | CreateTopicError::InvalidSetting(text)
            | CreateTopicError::Exists(text)
            | CreateTopicError::NoRoom(text) => f.write_str(text),
            CreateTopicError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CreateTopicError {}

impl From<StoreError> for CreateTopicError {
    fn from(error: StoreError) -> Self {
        CreateTopicError::Store(error)
    }
}

/// Why a topic was not removed.
#[derive(Clone, Debug, PartialEq)]
pub enum DeleteTopicError {
    /// There is no such topic.
    Unknown,
    Store(StoreError),
}

/// How often a call is tried that gets no answer; creating, purging and deleting may be repeated.
const TRIES: usize = 3;

/// How long one call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(4);

/// How long one stream may take to be made and moved. Well below `CREATION_MS_MAX`: who is slower gives up before others
/// take the streams for left behind.
const STREAM_TIMEOUT: Duration = Duration::from_millis(CREATION_MS_MAX as u64 / 3);

/// How long a cluster may take to know its servers: one that has just formed needs a few seconds.
const PEERS_WAIT_MAX: Duration = Duration::from_secs(10);

/// Pauses while that is waited for: the first one, doubling up to the last.
const PEERS_PAUSE_MIN: Duration = Duration::from_millis(20);
const PEERS_PAUSE_MAX: Duration = Duration::from_millis(500);

/// How long a creation waits for a removal of the topic before it; then clients ask again.
const REMOVAL_WAIT_MAX: Duration = Duration::from_secs(2);

/// How many failed creations are remembered for their left-overs.
const FAILED_MAX: usize = 1_000;

impl Catalog {
    /// What is wrong with a topic to be made, as far as that can be told without the store.
    pub fn validate(&self, new: &NewTopic) -> Result<(), CreateTopicError> {
        if let Some(fault) = names::fault(&new.name) {
            return Err(CreateTopicError::InvalidName(fault));
        }
        if new.partitions == 0 || new.partitions > PARTITIONS_MAX {
            let text = format!("A topic has 1 to {PARTITIONS_MAX} partitions, not {}.", new.partitions);
            return Err(CreateTopicError::InvalidPartitions(text));
        }
        match settings::fault(&new.settings) {
            Some(fault) => Err(CreateTopicError::InvalidSetting(fault)),
            None => Ok(()),
        }
    }

    /// Makes a topic: all its streams, or none.
    pub fn create(&self, new: NewTopic, deadline: Instant) -> Result<Arc<Topic>, CreateTopicError> {
        self.validate(&new)?;
        let _turn = self.take_turn(&new.name, deadline)?;
        let exists = || CreateTopicError::Exists(format!("Topic '{}' already exists.", new.name));
        match self.look(&new.name) {
            Ok(Some(_)) => return Err(exists()),
            Ok(None) => {
                self.await_removal(&new.name, deadline.min(self.clock.now().mono + REMOVAL_WAIT_MAX))?;
                self.remove_remains(&new.name, deadline)?;
            }
            // A stream without a leader stays where it is, and will be in the way.
            Err(StoreError::Unavailable) => {}
            Err(error) => return Err(error.into()),
        }
        let plan = Plan {
            id: Uuid::random(),
            name: new.name.clone(),
            partitions: new.partitions,
            replicas: new.replicas,
            given: new.settings,
        };
        match self.make(&plan, deadline)? {
            true => self.take_made(&plan),
            // Another gateway was faster.
            false => Err(exists()),
        }
    }

    /// Removes the topic of that name, if it (still) has that id; `None` takes any. A deletion that was cut short goes on, and a
    /// damaged topic goes as well. Gives the topic's id.
    pub fn delete(&self, name: &str, id: Option<Uuid>, deadline: Instant) -> Result<Uuid, DeleteTopicError> {
        let fault = DeleteTopicError::Store;
        if names::fault(name).is_some() {
            return Err(DeleteTopicError::Unknown);
        }
        let _turn = self.take_turn(name, deadline).map_err(fault)?;
        // Who changes it now must not meet another topic of that name. A store without room has none for a claim either, so
        // that nobody can begin a change, and deleting is what makes room.
        let mut claim = match self.claim(name, deadline) {
            Err(StoreError::NoSpace(_)) => None,
            claimed => Some(claimed.map_err(fault)?),
        };
        let (found, partitions) = match self.look(name).map_err(fault)? {
            Some(topic) => (Some(topic.id), (0..topic.partitions.len()).collect()),
            None => {
                let begun = claim.as_ref().and_then(Claim::deleting);
                let found = begun.map_or_else(|| self.damaged(name), |id| Ok(Some(id))).map_err(fault)?;
                (found, self.partitions_left(name, deadline).map_err(fault)?)
            }
        };
        let Some(id) = found.filter(|found| id.is_none_or(|id| id == *found)) else {
            return Err(DeleteTopicError::Unknown);
        };
        match claim.as_mut().map(|claim| claim.begin_deletion(id)) {
            // It only matters where this deletion is cut short.
            None | Some(Ok(()) | Err(StoreError::NoSpace(_) | StoreError::NoAnswer | StoreError::Unavailable)) => {}
            Some(Err(error)) => return Err(DeleteTopicError::Store(error)),
        }
        if let Err(error) = self.remove_partitions(name, id, partitions, &mut claim, deadline) {
            warn!(self.logger, "a topic could not be removed whole"; "topic" => name, "error" => %error);
            self.remember_failed(id);
            self.invalidate(name);
            return Err(DeleteTopicError::Store(error));
        }
        claim.iter_mut().for_each(Claim::end_deletion);
        info!(self.logger, "topic removed"; "topic" => name, "id" => %id);
        Ok(id)
    }

    /// Removes these partitions of a topic, of which the first may be partition 0.
    fn remove_partitions(
        &self,
        name: &str,
        id: Uuid,
        partitions: BTreeSet<usize>,
        claim: &mut Option<Claim>,
        deadline: Instant,
    ) -> StoreResult<()> {
        for partition in partitions {
            let by = match claim.as_mut().map(Claim::deadline) {
                None | Some(Err(StoreError::NoSpace(_))) => deadline,
                Some(by) => by?,
            };
            let (remove, unanswered) = (self.removal(name, partition, id), Cell::new(false));
            let note = |error: &StoreError| unanswered.set(unanswered.get() || *error == StoreError::NoAnswer);
            let removed = self.persist(by, |call| remove(call).inspect_err(note));
            if let Some(claim) = claim.as_mut().filter(|_| unanswered.get()) {
                claim.may_arrive_late();
            }
            removed?;
            if partition == 0 {
                let moment = self.memory.lock().expect("no holder panics").tick();
                self.take_in(name, Found::Nothing, moment);
            }
        }
        Ok(())
    }

    /// The partitions of which there are streams under that name, be they whose they may.
    fn partitions_left(&self, name: &str, deadline: Instant) -> StoreResult<BTreeSet<usize>> {
        let (found, silent) = self.streams_of(name, deadline)?;
        let silent = by_stem(&silent).remove(names::stem(name).as_str()).unwrap_or_default();
        Ok(found.iter().map(|found| found.partition).chain(silent).collect())
    }

    /// Makes all streams of a plan, or gives false, with none made, if one of them is there already.
    fn make(&self, plan: &Plan, deadline: Instant) -> Result<bool, CreateTopicError> {
        for partition in (0..plan.partitions).rev() {
            let made = match partition + 1 == plan.partitions {
                true => self.make_first_stream(plan, deadline),
                false => self.make_stream(&|first| plan.config(partition, first, &self.defaults()), deadline),
            };
            match made {
                Ok(()) => {}
                Err(error) => {
                    debug!(self.logger, "a topic could not be created"; "topic" => &plan.name, "partition" => partition, "error" => %error);
                    // The stream in the way is somebody else's; of any other failure it is not known what was done.
                    if error == StoreError::StreamExists {
                        self.unmake(plan, partition + 1);
                        return Ok(false);
                    }
                    self.unmake(plan, partition);
                    return Err(self.creation_error(plan, error));
                }
            }
        }
        Ok(true)
    }

    /// Makes the stream of the last partition, before which nothing is made: a cluster that does not know servers enough is
    /// asked again until it does, or the time is up.
    fn make_first_stream(&self, plan: &Plan, deadline: Instant) -> StoreResult<()> {
        let patience = deadline.min(self.clock.now().mono + PEERS_WAIT_MAX);
        let mut pause = PEERS_PAUSE_MIN;
        loop {
            let config = |first| plan.config(plan.partitions - 1, first, &self.defaults());
            let made = self.make_stream(&config, deadline);
            if !matches!(made, Err(StoreError::NoPeers(_))) || self.clock.now().mono + pause >= patience {
                return made;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PEERS_PAUSE_MAX);
        }
    }

    /// Makes one stream and moves it to a sequence range of its own, whose beginning its configuration tells.
    pub(super) fn make_stream(&self, config: &dyn Fn(Sequence) -> Value, deadline: Instant) -> StoreResult<()> {
        let limit = deadline.min(self.clock.now().mono + STREAM_TIMEOUT);
        let first = random_first();
        let config = config(first);
        let made: StreamInfo = self.persist(limit, |call| self.store.stream_create(&config, call))?;
        if made.state.messages == 0 && made.state.last.next() == first {
            // An attempt whose answer was lost has moved it.
            return Ok(());
        }
        // Who was held up for so long must not move a stream that others may already write to.
        if self.clock.now().mono >= limit {
            return Err(StoreError::NoAnswer);
        }
        // A server that is still busy removing a deleted stream gives its messages and sequences to the next of that name
        // (seen on 2.10 and 2.15): none of them may be taken for this topic's.
        let inherited = made.state.last > Sequence(0);
        if inherited {
            warn!(self.logger, "a new stream came with a deleted one's messages"; "stream" => &made.name,
                "messages" => made.state.messages, "last_sequence" => made.state.last.0);
            self.persist(limit, |call| self.store.stream_purge(&made.name, None, call))?;
        }
        let first = if inherited { Sequence(made.state.last.0.saturating_add(first.0)) } else { first };
        self.persist(limit, |call| self.store.stream_purge(&made.name, Some(first), call))?;
        let moved = self.persist(limit, |call| self.store.stream_info(&made.name, call))?.state;
        if moved.messages == 0 && moved.last.next() >= first { Ok(()) } else { Err(StoreError::NoAnswer) }
    }

    /// Takes in what was made, after one more look: streams that took long may have been taken for left behind.
    fn take_made(&self, plan: &Plan) -> Result<Arc<Topic>, CreateTopicError> {
        let moment = self.memory.lock().expect("no holder panics").tick();
        match self.examine(&plan.name)? {
            Some(Standing::Whole(known)) if known.topic.id == plan.id => {
                let topic = known.topic.clone();
                self.take_in(&plan.name, Found::Whole(known), moment);
                info!(self.logger, "topic created"; "topic" => &plan.name, "id" => %plan.id, "partitions" => plan.partitions);
                Ok(topic)
            }
            _ => {
                self.unmake(plan, 0);
                Err(CreateTopicError::Store(StoreError::NoAnswer))
            }
        }
    }

    /// Removes what was made of a plan, from this partition on.
    fn unmake(&self, plan: &Plan, from: usize) {
        let deadline = self.clock.now().mono + LOOK_TIMEOUT;
        for partition in from..plan.partitions {
            if let Err(error) = self.remove_stream(&plan.name, partition, plan.id, deadline) {
                warn!(self.logger, "a stream of a failed creation is left"; "topic" => &plan.name, "partition" => partition, "error" => %error);
                self.remember_failed(plan.id);
                return;
            }
        }
    }

    /// Removes a partition's stream if it belongs to the topic with this id. Nothing guards the deletion itself, so the
    /// look is made right before.
    pub(super) fn remove_stream(&self, name: &str, partition: usize, id: Uuid, deadline: Instant) -> StoreResult<()> {
        self.persist(deadline, self.removal(name, partition, id))
    }

    /// One attempt at that.
    fn removal(&self, name: &str, partition: usize, id: Uuid) -> impl Fn(Instant) -> StoreResult<()> {
        let stream = names::stream(name, partition);
        move |call| match self.store.stream_info(&stream, call) {
            Ok(info) => match streams::read(&info) {
                Some(found) if found.id.is_none_or(|other| other == id) => {
                    gone(self.store.stream_delete(&stream, call))
                }
                _ => Ok(()),
            },
            Err(error) => gone(Err(error)),
        }
    }

    /// Removes the streams that a creation or removal cut short has left of a name that is no topic.
    fn remove_remains(&self, name: &str, deadline: Instant) -> Result<(), CreateTopicError> {
        let now = self.clock.now();
        let (remains, silent) = match self.streams_of(name, deadline) {
            Err(StoreError::Unavailable) => return Ok(()),
            listed => listed?,
        };
        // A stream of this name has no leader, since it is just being made or its servers are away. It stays.
        if !silent.is_empty() {
            return Ok(());
        }
        let failed = self.failed.lock().expect("no holder panics").clone();
        let is_ours = |found: &streams::Found| found.id.is_some_and(|id| failed.contains(&id));
        let busy = remains.iter().any(|found| !is_ours(found) && streams::is_young(&found.created, now.wall_ms));
        if busy {
            let text = format!("Topic '{name}' already exists: it is being created or removed by another gateway.");
            return Err(CreateTopicError::Exists(text));
        }
        // No topic that was never whole has records, nor partition 0, unless it is as good as made. Where nobody has begun to delete
        // this one, streams of it were lost by other means: what is left is not given up for that.
        let kept = |found: &&streams::Found| (found.messages > 0 || found.partition == 0) && !is_ours(found);
        let lossy: Vec<_> = remains.iter().filter(kept).collect();
        if !lossy.is_empty() {
            let half_deleted = self.half_deleted(name, deadline)?;
            let damaged = lossy.iter().find(|found| found.id.is_none_or(|id| half_deleted != Some(id)));
            if let Some(found) = damaged {
                error!(self.logger, "a topic that has lost streams is in the way of a new one of that name";
                    "topic" => name, "stream" => &found.stream, "messages" => found.messages);
                let text = format!(
                    "Topic '{name}' has lost streams without being deleted, and '{}' is left with {} messages. Remove what is left \
                    of it (nats stream rm) or restore what is missing.",
                    found.stream, found.messages
                );
                return Err(CreateTopicError::Exists(text));
            }
        }
        for found in &remains {
            info!(self.logger, "a stream that was left behind is removed"; "stream" => &found.stream, "topic" => name);
            self.persist(deadline, |call| gone(self.store.stream_delete(&found.stream, call)))?;
        }
        Ok(())
    }

    /// Repeats a call that gets no answer. What got none may have been done, also where it is refused untried the next time.
    pub(super) fn persist<T>(&self, deadline: Instant, call: impl Fn(Instant) -> StoreResult<T>) -> StoreResult<T> {
        for attempt in 0..TRIES {
            let now = self.clock.now().mono;
            if now >= deadline {
                break;
            }
            match call(deadline.min(now + CALL_TIMEOUT)) {
                Err(StoreError::NoAnswer) => {}
                Err(StoreError::Unavailable | StoreError::Busy) if attempt > 0 => break,
                outcome => return outcome,
            }
        }
        Err(StoreError::NoAnswer)
    }

    /// JetStream's refusals in the user's terms.
    fn creation_error(&self, plan: &Plan, error: StoreError) -> CreateTopicError {
        /// Replicas are asked of a server that is no cluster.
        const REPLICAS_NOT_SUPPORTED: u32 = 10074;
        let bytes = streams::max_bytes(&settings::resolve(plan.given.clone(), &self.defaults()), &self.defaults());
        let asked = Asked { partitions: plan.partitions, bytes, replicas: plan.replicas };
        match error {
            StoreError::Refused { code: REPLICAS_NOT_SUPPORTED, text } => CreateTopicError::InvalidReplication(text),
            error => match self.no_room(&error, &asked) {
                Some(text) => CreateTopicError::NoRoom(text),
                None => CreateTopicError::Store(error),
            },
        }
    }

    fn remember_failed(&self, id: Uuid) {
        let mut failed = self.failed.lock().expect("no holder panics");
        if failed.len() < FAILED_MAX {
            failed.insert(id);
        }
    }

    /// Waits until nobody in this process changes this name; `Busy` when the time is up.
    pub(super) fn take_turn(&self, name: &str, deadline: Instant) -> StoreResult<Turn<'_>> {
        let patience = deadline.saturating_duration_since(self.clock.now().mono);
        let changing = self.changing.lock().expect("no holder panics");
        let wait = self.changed.wait_timeout_while(changing, patience, |changing| changing.contains(name));
        let (mut changing, outcome) = wait.expect("no holder panics");
        if outcome.timed_out() {
            return Err(StoreError::Busy);
        }
        changing.insert(name.to_owned());
        Ok(Turn { catalog: self, name: name.to_owned() })
    }
}

/// The right to change a name.
pub(super) struct Turn<'a> {
    catalog: &'a Catalog,
    name: String,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.catalog.changing.lock().expect("no holder panics").remove(&self.name);
        self.catalog.changed.notify_all();
    }
}

/// What is not there needs no deletion.
fn gone(outcome: StoreResult<()>) -> StoreResult<()> {
    match outcome {
        Err(StoreError::NoStream) => Ok(()),
        outcome => outcome,
    }
}

/// Where the sequences of a new stream begin: 40 random bits, and never near the 1 of streams that were not moved.
fn random_first() -> Sequence {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the system has a random source");
    Sequence((u64::from_le_bytes(bytes) >> 24) | 1 << 32)
}
