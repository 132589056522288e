//! What a healthy server does not show. Each fault is asked for by name; `Chaos` draws them from a seed.

use super::{MemoryStore, State, Stream, subject};
use crate::store::{PubAck, Publish, PublishDone, Sequence, StoreError, StoreResult};
use bytes::Bytes;
use std::collections::{HashSet, VecDeque};

/// What befalls one publish.
#[derive(Clone, Debug, PartialEq)]
pub enum PublishFault {
    /// It is stored, or its guard fails, and the answer gets lost.
    AckLost,
    /// It never reaches the store; no answer.
    Lost,
    /// No answer; it waits in a socket and reaches the store, guards and all, at `deliver_stalled`.
    Stalled,
    /// No answer; it has claimed the next sequence but cannot be read until `commit_proposed`, or never after
    /// `drop_proposed`. Until then the old guard fails, and what is published behind it is only proposed too.
    Proposed,
    /// Stored, but answered only at `release_acks`.
    Delayed,
    /// Not stored; answered with this.
    Refused(StoreError),
}

/// Why nothing is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// Not connected, or no responders: known at once.
    Unavailable,
    /// Calls run into their deadlines.
    NoAnswer,
}

impl Outage {
    pub(super) fn error(self) -> StoreError {
        match self {
            Outage::Unavailable => StoreError::Unavailable,
            Outage::NoAnswer => StoreError::NoAnswer,
        }
    }
}

/// Faults drawn at random, in thousandths. The same seed and the same calls give the same faults.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chaos {
    pub seed: u64,
    /// Of publishes.
    pub ack_lost_permille: u64,
    /// Of publishes.
    pub lost_permille: u64,
    /// Of publishes. What was proposed is committed or dropped, by chance, during one of the next few calls.
    pub proposed_permille: u64,
    /// Of publishes: answered with `Unavailable`, not stored.
    pub unavailable_permille: u64,
    /// Of direct reads: they miss the newest message.
    pub lagging_permille: u64,
    /// Of what leaders are asked about streams with more than one replica: a server that is no leader any more, or not
    /// yet, does not know the newest message.
    pub stale_leader_permille: u64,
}

/// A bucket as it was.
pub struct Remembered(Stream);

#[derive(Default)]
pub(super) struct Faults {
    /// The first whose filter covers a publish's subject befalls it, if its payload has so many bytes.
    queued: VecDeque<(String, usize, PublishFault)>,
    pub(super) outage: Option<Outage>,
    pub(super) full: bool,
    pub(super) acks_held: bool,
    pub(super) held: Vec<(PublishDone, StoreResult<PubAck>)>,
    stalled: Vec<Publish>,
    direct_lag: usize,
    leader_lag: usize,
    unknown_reads: usize,
    pub(super) core_dropped: bool,
    pub(super) silent: HashSet<String>,
    chaos: Option<(Chaos, Dice)>,
}

impl MemoryStore {
    /// Lets `fault` befall the next publish on a subject that `filter` covers; several for one subject follow each other.
    pub fn fail_next(&self, filter: &str, fault: PublishFault) {
        self.fail_next_from(filter, 0, fault);
    }

    /// The same, for the next publish with a payload of at least `bytes`.
    pub fn fail_next_from(&self, filter: &str, bytes: usize, fault: PublishFault) {
        self.lock().faults.queued.push_back((filter.to_owned(), bytes, fault));
    }

    /// How many asked-for faults have not befallen a publish yet.
    pub fn faults_left(&self) -> usize {
        self.lock().faults.queued.len()
    }

    /// Forgets the faults that were asked for and have not befallen a publish.
    pub fn clear_faults(&self) {
        self.lock().faults.queued.clear();
    }

    /// All calls fail until this is called with `None`. Publishes during an outage are not stored.
    pub fn set_outage(&self, outage: Option<Outage>) {
        self.lock().faults.outage = outage;
    }

    /// All publishes are answered with `NoSpace`.
    pub fn set_full(&self, full: bool) {
        self.lock().faults.full = full;
    }

    /// While acks are held, publishes are stored but answered only at `release_acks`.
    pub fn hold_acks(&self, held: bool) {
        self.lock().faults.acks_held = held;
    }

    /// Answers the publishes held so far, in their order, on this thread; those that begin meanwhile are not among them.
    pub fn release_acks(&self) -> usize {
        let held = std::mem::take(&mut self.lock().faults.held);
        let count = held.len();
        for (done, outcome) in held {
            done(outcome);
        }
        count
    }

    /// Lets stalled publishes reach the store now, whatever came before them.
    pub fn deliver_stalled(&self) -> Vec<StoreResult<PubAck>> {
        let mut state = self.lock();
        let stalled = std::mem::take(&mut state.faults.stalled);
        stalled.into_iter().map(|message| state.publish(message, false)).collect()
    }

    /// Makes readable what was proposed in a stream; gives how many messages.
    pub fn commit_proposed(&self, stream: &str) -> usize {
        self.lock().streams.get_mut(stream).map_or(0, |stream| stream.commit_proposed())
    }

    /// Lets go of what was proposed in a stream, and of the sequences it claimed.
    pub fn drop_proposed(&self, stream: &str) -> usize {
        self.lock().streams.get_mut(stream).map_or(0, |stream| stream.drop_proposed())
    }

    /// A crash of the machine: the newest messages of a stream are lost, and their sequences are given again.
    pub fn lose_newest(&self, stream: &str, messages: usize) {
        self.lock().streams.get_mut(stream).expect("the stream is there").lose_newest(messages);
    }

    /// Direct reads miss the newest `messages` of every stream; leader reads do not.
    pub fn set_direct_lag(&self, messages: usize) {
        self.lock().faults.direct_lag = messages;
    }

    /// Who takes itself for the leader of a replicated stream does not know the newest `messages`.
    pub fn set_leader_lag(&self, messages: usize) {
        self.lock().faults.leader_lag = messages;
    }

    /// The next `reads` of keys are told that there is no such bucket, as by who has not heard of it yet.
    pub fn hide_buckets(&self, reads: usize) {
        self.lock().faults.unknown_reads = reads;
    }

    /// What a bucket holds now, for `lead_anew`.
    pub fn remember(&self, bucket: &str) -> Remembered {
        Remembered(self.lock().stream(&format!("KV_{bucket}")).expect("the bucket is there").clone())
    }

    /// The bucket has a new leader that has applied so much as yet: what reads are told until the next publish.
    pub fn lead_anew(&self, bucket: &str, applied: Remembered) {
        let mut state = self.lock();
        state.stream_mut(&format!("KV_{bucket}")).expect("the bucket is there").lead_anew(applied.0);
    }

    /// Core messages and advisories are lost.
    pub fn drop_core_messages(&self, dropped: bool) {
        self.lock().faults.core_dropped = dropped;
    }

    /// The servers of a stream are away: it is listed by name only, and reads at its leader find nobody.
    pub fn set_silent(&self, stream: &str, silent: bool) {
        let mut state = self.lock();
        match silent {
            true => state.faults.silent.insert(stream.to_owned()),
            false => state.faults.silent.remove(stream),
        };
    }

    pub fn set_chaos(&self, chaos: Option<Chaos>) {
        self.lock().faults.chaos = chaos.map(|chaos| (chaos, Dice::new(chaos.seed)));
    }

    /// What another program publishes: no guard, no fault, also during an outage of ours.
    pub fn publish_foreign(&self, subject: &str, payload: impl Into<Bytes>) -> StoreResult<Sequence> {
        let message = Publish { subject: subject.to_owned(), payload: payload.into(), ..Publish::default() };
        self.lock().publish(message, false).map(|ack| ack.sequence)
    }

    /// Leaves a hole: the stream's next message gets `next` or more.
    pub fn skip_to(&self, stream: &str, next: Sequence) {
        if let Some(stream) = self.lock().streams.get_mut(stream) {
            stream.advance(next);
        }
    }
}

impl State {
    /// What befalls this publish.
    pub(super) fn take_fault(&mut self, message: &Publish) -> Option<PublishFault> {
        let faults = &mut self.faults;
        let befalls = |(filter, bytes, _): &(String, usize, PublishFault)| {
            subject::matches(filter, &message.subject) && message.payload.len() >= *bytes
        };
        if let Some(at) = faults.queued.iter().position(befalls) {
            return faults.queued.remove(at).map(|(_, _, fault)| fault);
        }
        let (chaos, dice) = faults.chaos.as_mut()?;
        let mut roll = dice.roll(1000);
        let chances = [
            (chaos.ack_lost_permille, PublishFault::AckLost),
            (chaos.lost_permille, PublishFault::Lost),
            (chaos.proposed_permille, PublishFault::Proposed),
            (chaos.unavailable_permille, PublishFault::Refused(StoreError::Unavailable)),
        ];
        for (permille, fault) in chances {
            match roll.checked_sub(permille) {
                None => return Some(fault),
                Some(rest) => roll = rest,
            }
        }
        None
    }

    pub(super) fn publish_with(&mut self, message: Publish, fault: &Option<PublishFault>) -> StoreResult<PubAck> {
        match fault {
            None | Some(PublishFault::Delayed) => self.publish(message, false),
            Some(PublishFault::Proposed) => self.publish(message, true),
            Some(PublishFault::AckLost) => {
                let _ = self.publish(message, false);
                Err(StoreError::NoAnswer)
            }
            Some(PublishFault::Lost) => Err(StoreError::NoAnswer),
            Some(PublishFault::Stalled) => {
                self.faults.stalled.push(message);
                Err(StoreError::NoAnswer)
            }
            Some(PublishFault::Refused(error)) => Err(error.clone()),
        }
    }

    /// Whether a read of a key finds no bucket.
    pub(super) fn bucket_is_hidden(&mut self) -> bool {
        let hidden = self.faults.unknown_reads > 0;
        self.faults.unknown_reads -= usize::from(hidden);
        hidden
    }

    pub(super) fn direct_lag(&mut self) -> usize {
        let by_chance = match &mut self.faults.chaos {
            Some((chaos, dice)) => dice.roll(1000) < chaos.lagging_permille,
            None => false,
        };
        self.faults.direct_lag.max(usize::from(by_chance))
    }

    /// How many of a stream's newest messages who takes itself for its leader does not know.
    pub(super) fn leader_lag(&mut self, stream: &str) -> usize {
        if !self.streams.get(stream).is_some_and(Stream::is_replicated) {
            return 0;
        }
        let by_chance = match &mut self.faults.chaos {
            Some((chaos, dice)) => dice.roll(1000) < chaos.stale_leader_permille,
            None => false,
        };
        self.faults.leader_lag.max(usize::from(by_chance))
    }

    /// Under chaos, decides what is proposed during one call of four.
    pub(super) fn settle_by_chance(&mut self) {
        let Some((_, dice)) = &mut self.faults.chaos else { return };
        for stream in self.streams.values_mut().filter(|stream| stream.has_proposed()) {
            match dice.roll(8) {
                0 => stream.commit_proposed(),
                1 => stream.drop_proposed(),
                _ => 0,
            };
        }
    }
}

/// splitmix64.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Dice(seed)
    }

    /// Evenly one of `0..sides`.
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}
