//! Seeded random histories: three gateways, lost acks, lost publishes, stalled and proposed ones, held acks, lagging
//! reads, lost ticks, foreign messages and copies, purges, kills, idempotent producers that retry.

use super::*;
use crate::log::partition::Phase;
use crate::store::memory::{Chaos, PublishFault};
use crate::store::{From, Pick};
use std::collections::BTreeMap;

const GATEWAYS: usize = 3;
const PRODUCERS: usize = 4;

/// A small generator, so that a seed tells the whole history.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn pick(&mut self, count: usize) -> usize {
        self.roll(count as u64) as usize
    }
}

/// What a history does beside losing publishes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Harm {
    /// Nothing that takes stored messages away.
    Loss,
    /// Purges too: what they take is not looked for, but its offsets must not come again.
    Purge,
    /// The topic is deleted and made again, and some go on with the old one's log.
    Recreation,
}

/// Set in the marks of what was sent to the log of a deleted topic: it must never be found.
const TO_THE_DEAD: u64 = 1 << 40;

/// The smallest payload with records in it. What a jump or a proof stores is smaller; they wait for their own publish, which
/// in a single thread nobody would answer.
const WITH_RECORDS_BYTES: usize = 70;

struct Sent {
    /// The gateway it went to.
    which: usize,
    mark: u64,
    records: usize,
    pending: Pending<Result<Appended, LogError>>,
}

/// One batch at a time, sent again until it is acknowledged.
struct Producer {
    id: i64,
    sequence: i32,
    sent: Option<Sent>,
    /// Marks in the order of their acknowledgements.
    acked: Vec<u64>,
}

struct History {
    seed: u64,
    harm: Harm,
    dice: Dice,
    world: World,
    gateways: Vec<Gateway>,
    /// Per gateway: watermark and log start as last told.
    told: Vec<(i64, i64)>,
    /// Logs of deleted topics, and the gateways that have them.
    dead: Vec<(usize, Arc<PartitionLog>)>,
    /// What was sent to these.
    in_vain: Vec<Pending<Result<Appended, LogError>>>,
    open: Vec<Sent>,
    producers: Vec<Producer>,
    acked: BTreeMap<i64, (u64, usize)>,
    /// What readers saw at each base offset.
    seen: BTreeMap<i64, (u64, usize)>,
    step: u64,
    /// The step in which the topic was made.
    born: u64,
}

fn payload(mark: u64, records: usize, builder: BatchBuilder) -> Vec<u8> {
    (0..records).fold(builder, |b, _| b.value(mark.to_be_bytes())).build()
}

fn mark_of(records: &[u8]) -> u64 {
    let at = records.len() - 9;
    u64::from_be_bytes(records[at..at + 8].try_into().expect("eight bytes"))
}

impl History {
    fn new(seed: u64, harm: Harm) -> History {
        let world = World::replicated(if seed.is_multiple_of(2) { 3 } else { 1 });
        let gateways: Vec<_> = (0..GATEWAYS).map(|_| world.gateway()).collect();
        world.store.set_chaos(Some(Chaos {
            seed,
            ack_lost_permille: 60,
            lost_permille: 60,
            proposed_permille: 40,
            unavailable_permille: 20,
            lagging_permille: 100,
            stale_leader_permille: 100,
        }));
        let producers = (0..PRODUCERS)
            .map(|id| Producer { id: 100 + id as i64, sequence: 0, sent: None, acked: Vec::new() })
            .collect();
        History {
            seed,
            harm,
            dice: Dice(seed),
            world,
            gateways,
            told: vec![(0, 0); GATEWAYS],
            dead: Vec::new(),
            in_vain: Vec::new(),
            open: Vec::new(),
            producers,
            acked: BTreeMap::new(),
            seen: BTreeMap::new(),
            step: 0,
            born: 0,
        }
    }

    fn place(&self) -> String {
        format!("{:?}, seed {}, step {}", self.harm, self.seed, self.step)
    }

    fn run(&mut self, steps: u64) {
        for step in 0..steps {
            self.step = step;
            self.act();
            self.collect();
        }
        self.world.store.drop_core_messages(false);
        self.world.store.set_chaos(None);
        self.world.store.clear_faults();
        self.world.store.release_acks();
        self.world.store.deliver_stalled();
        self.world.store.commit_proposed(STREAM);
        self.world.store.commit_proposed("KV_kafka-ends");
        for _ in 0..40 {
            self.gateways.iter().for_each(|gateway| gateway.sleep(Duration::from_secs(1)));
            self.collect();
        }
        self.check();
    }

    fn act(&mut self) {
        let which = self.dice.pick(GATEWAYS);
        match self.dice.roll(40) {
            0..10 => {
                let records = 1 + self.dice.pick(3);
                let pending = self.gateways[which].begin(payload(self.step, records, BatchBuilder::new()));
                self.open.push(Sent { which, mark: self.step, records, pending });
            }
            10..18 => {
                let producer = self.dice.pick(PRODUCERS);
                self.produce(producer, which);
            }
            18 => self.world.foreign("foreign"),
            19 => self.copy(),
            20 if self.dice.roll(10) == 0 => {
                self.gateways[which] = self.world.gateway();
                self.told[which] = (0, 0);
                self.dead.retain(|(at, _)| *at != which);
                // Who waited for it is not answered; producers ask again elsewhere.
                self.open.retain(|sent| sent.which != which);
                for producer in 0..PRODUCERS {
                    if self.producers[producer].sent.as_ref().is_some_and(|sent| sent.which == which) {
                        self.send_again(producer);
                    }
                }
            }
            21 if self.dice.roll(10) == 0 => self.gateways[which].sleep(Duration::from_secs(3)),
            22 => self.world.store.fail_next_from(SUBJECT, WITH_RECORDS_BYTES, PublishFault::Delayed),
            23 | 24 => drop(self.world.store.release_acks()),
            25 => self.world.store.fail_next(SUBJECT, PublishFault::Stalled),
            26 => drop(self.world.store.deliver_stalled()),
            27 => {
                let lost = self.dice.roll(2) == 0;
                self.world.store.drop_core_messages(lost);
            }
            28 if self.harm == Harm::Purge && self.dice.roll(5) == 0 => self.purge(),
            28 if self.harm == Harm::Recreation && self.dice.roll(10) == 0 => self.make_again(),
            34 if !self.dead.is_empty() => self.send_to_the_dead(),
            29..32 => self.look(which),
            32 | 33 => self.read(which),
            _ => {
                self.world.clock.advance(Duration::from_millis(5));
                self.gateways[which].run();
            }
        }
    }

    /// Sends a producer's next batch, or the one again whose outcome was not told.
    fn produce(&mut self, producer: usize, which: usize) {
        let impatient = self.dice.roll(3) == 0;
        let fresh = 1 + self.dice.pick(3);
        let (mark, producer) = (1_000_000 + self.step, &mut self.producers[producer]);
        let (mark, records) = match &producer.sent {
            Some(sent) if sent.pending.is_complete() || !impatient => return,
            Some(sent) => (sent.mark, sent.records),
            None => (mark, fresh),
        };
        let builder = BatchBuilder::new().producer(producer.id, 0, producer.sequence);
        let pending = self.gateways[which].begin(payload(mark, records, builder));
        producer.sent = Some(Sent { which, mark, records, pending });
    }

    /// Sends a producer's batch again: to whom, chance decides.
    fn send_again(&mut self, producer: usize) {
        let which = self.dice.pick(GATEWAYS);
        let producer = &mut self.producers[producer];
        let Some(Sent { mark, records, .. }) = producer.sent.take() else { return };
        let builder = BatchBuilder::new().producer(producer.id, 0, producer.sequence);
        let pending = self.gateways[which].begin(payload(mark, records, builder));
        producer.sent = Some(Sent { which, mark, records, pending });
    }

    /// A foreign publisher stores a copy of an old message.
    fn copy(&mut self) {
        let Ok(info) = self.world.store.stream_info(STREAM, Instant::now()) else { return };
        let span = info.state.last.0.saturating_sub(info.state.first.0);
        // Not from before what others may have missed: a copy behind a gap cannot be told from the original.
        if span > 8 && self.harm != Harm::Purge {
            let at = Sequence(info.state.first.0 + self.dice.roll(span));
            if let Ok(old) = self.world.store.message_get(STREAM, Pick::At(at), From::Leader, Instant::now()) {
                self.world.foreign(old.payload);
            }
        }
    }

    fn purge(&mut self) {
        let last = self.world.last().0;
        let below = match self.dice.roll(3) {
            0 => None,
            back => Some(Sequence((last + 1).saturating_sub(back * 2))),
        };
        let _ = self.world.store.stream_purge(STREAM, below, Instant::now());
        if self.dice.roll(2) == 0 {
            self.world.foreign("after the purge");
        }
    }

    /// Deletes the topic and makes it again, in a sequence range of its own. Gateways learn of it, but have work under way.
    fn make_again(&mut self) {
        self.world.store.stream_delete(STREAM, Instant::now()).expect("it is there");
        self.world.topic.id = Uuid::random();
        self.world.create_stream();
        let range = (self.step + 1) << 20;
        self.world.store.skip_to(STREAM, Sequence(range));
        for (which, gateway) in self.gateways.iter_mut().enumerate() {
            self.dead.push((which, gateway.log.clone()));
            gateway.log = gateway.logs.partition(&self.world.topic, 0).expect("there is one");
            self.told[which] = (0, 0);
        }
        for producer in &mut self.producers {
            producer.id += 1_000;
            producer.sequence = 0;
            producer.acked.clear();
            self.in_vain.extend(producer.sent.take().map(|sent| sent.pending));
        }
        self.in_vain.extend(self.open.drain(..).map(|sent| sent.pending));
        self.acked.clear();
        self.seen.clear();
        self.born = self.step;
    }

    /// A client that goes on with a deleted topic, through a gateway that has not heard of its end.
    fn send_to_the_dead(&mut self) {
        let (which, log) = &self.dead[self.dice.pick(self.dead.len())];
        let batch = payload(TO_THE_DEAD | self.step, 1, BatchBuilder::new());
        self.in_vain.push(self.gateways[*which].begin_at(log, batch));
    }

    /// Whether nobody would have to wait for the tail, which in a single thread nobody gives back.
    fn at_rest(&self, which: usize) -> bool {
        matches!(self.gateways[which].log.lock().phase, Phase::Cold | Phase::Idle)
    }

    /// Bounds never go back.
    fn look(&mut self, which: usize) {
        if !self.at_rest(which) {
            return;
        }
        let gateway = &self.gateways[which];
        let view = match self.dice.roll(2) {
            0 => gateway.log.exact_view(gateway.deadline()),
            _ => gateway.log.view(gateway.deadline()),
        };
        let Ok(view) = view else { return };
        let told = (view.high_watermark, view.log_start);
        let before = self.told[which];
        assert!(told.0 >= before.0 && told.1 >= before.1, "{}: {before:?} became {told:?}", self.place());
        self.told[which] = told;
    }

    /// What is read anywhere stays what it was.
    fn read(&mut self, which: usize) {
        if !self.at_rest(which) {
            return;
        }
        let gateway = &self.gateways[which];
        let Some(view) = gateway.log.known_view() else { return };
        let span = u64::try_from(view.high_watermark - view.log_start).unwrap_or(0);
        let offset = view.log_start + self.dice.roll(span + 1) as i64;
        let bytes = 1 + self.dice.pick(1_000);
        let Ok(read) = self.gateways[which].log.read(offset, bytes, true, self.gateways[which].deadline()) else {
            return;
        };
        self.note(offset, &read.records);
    }

    /// Takes note of what was read from `offset` on; gives where the next read begins.
    fn note(&mut self, mut offset: i64, records: &[bytes::Bytes]) -> i64 {
        for records in records {
            for (header, bytes) in walk(records).flatten() {
                assert!(header.last_offset() >= offset, "{}: {header:?} came for {offset}", self.place());
                offset = header.next_offset();
                if header.record_count > 0 {
                    let found = (mark_of(bytes), header.record_count as usize);
                    let sent = found.0 % 1_000_000;
                    let ours = found.0 < TO_THE_DEAD && sent >= self.born;
                    assert!(ours, "{}: step {sent} of a deleted topic, {found:?}", self.place());
                    let before = self.seen.insert(header.base_offset, found).unwrap_or(found);
                    assert_eq!(before, found, "{}: offset {} changed", self.place(), header.base_offset);
                }
            }
        }
        offset
    }

    fn collect(&mut self) {
        let place = self.place();
        let mut done = Vec::new();
        self.open.retain(|sent| match sent.pending.take_one() {
            None => true,
            Some(result) => {
                done.extend(result.and_then(Result::ok).map(|a| (a.base_offset, (sent.mark, sent.records))));
                false
            }
        });
        let mut again = Vec::new();
        for (index, producer) in self.producers.iter_mut().enumerate() {
            let Some(sent) = &producer.sent else { continue };
            match sent.pending.take_one() {
                None => {}
                Some(Some(Ok(appended))) => {
                    done.push((appended.base_offset, (sent.mark, sent.records)));
                    producer.acked.push(sent.mark);
                    producer.sequence += sent.records as i32;
                    producer.sent = None;
                }
                // What was known of it is purged, and a copy of an older batch, given up by now, came to where its own
                // newest ones had never been read: it starts anew. What was refused may still come by another gateway, where
                // it was sent before; so it is not sent under the new id.
                Some(Some(Err(LogError::Refused(_)))) if self.harm == Harm::Purge => {
                    producer.id += 1_000;
                    producer.sequence = 0;
                    producer.sent = None;
                }
                Some(Some(Err(LogError::Refused(code)))) => {
                    panic!("{place}: producer {} was refused with {code:?} at {}", producer.id, producer.sequence)
                }
                Some(_) => again.push(index),
            }
        }
        again.into_iter().for_each(|producer| self.send_again(producer));
        for (offset, sent) in done {
            let before = self.acked.insert(offset, sent);
            assert!(before.is_none(), "{place}: offset {offset} was given to {before:?} and to {sent:?}");
        }
    }

    fn check(&mut self) {
        let place = self.place();
        assert!(self.open.is_empty(), "{place}: {} appends were never answered", self.open.len());
        let reader = self.world.gateway();
        let end = reader.end();
        for gateway in &self.gateways {
            assert_eq!(gateway.end(), end, "{place}");
        }
        let start = reader.start();
        let mut offset = start;
        let mut found = BTreeMap::new();
        std::mem::swap(&mut found, &mut self.seen);
        while offset < end {
            let read = reader.log.read(offset, 500, true, reader.deadline()).expect("in range");
            let next = self.note(offset, &read.records);
            assert!(next > offset, "{place}: nothing at {offset}, which lies below {end}");
            offset = next;
        }
        for (offset, sent) in &self.seen {
            let before = found.get(offset).unwrap_or(sent);
            assert_eq!(before, sent, "{place}: offset {offset} changed");
        }
        if self.harm != Harm::Purge {
            let mut next = 0;
            for (offset, (_, records)) in &self.seen {
                assert_eq!(*offset, next, "{place}: offsets are skipped, although nothing was taken away");
                next = offset + *records as i64;
            }
        }
        let mut marks: Vec<_> = self.seen.values().map(|(mark, _)| *mark).collect();
        marks.sort_unstable();
        let stored = marks.len();
        marks.dedup();
        assert_eq!(marks.len(), stored, "{place}: a batch is stored twice");
        for (offset, sent) in self.acked.range(start..) {
            assert_eq!(self.seen.get(offset), Some(sent), "{place}: what was acknowledged at {offset}");
        }
        // After a purge there may be another copy of what was acknowledged and is gone: it was sent more than once.
        let acknowledged = self.seen.iter().filter(|(offset, sent)| self.acked.get(offset) == Some(sent));
        let order: Vec<u64> = acknowledged.map(|(_, (mark, _))| *mark).collect();
        for producer in &self.producers {
            let mut acked = producer.acked.iter().filter(|mark| order.contains(mark));
            let mut stored = order.iter().filter(|mark| producer.acked.contains(mark));
            assert!(acked.by_ref().eq(stored.by_ref()), "{place}: producer {} is out of order", producer.id);
        }
    }
}

/// How many steps all histories of one kind take together: a few seconds' worth, unless STEPS says more.
fn run_histories(harm: Harm) {
    const STEPS: u64 = 40_000;
    const STEPS_OF_ONE: u64 = 1_000;
    let asked = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = asked("SEED").unwrap_or(1);
    for seed in first..first + asked("STEPS").unwrap_or(STEPS).div_ceil(STEPS_OF_ONE) {
        History::new(seed, harm).run(STEPS_OF_ONE);
    }
}

#[test]
fn random_histories_lose_and_repeat_nothing() {
    run_histories(Harm::Loss);
}

#[test]
fn random_histories_with_purges_repeat_nothing() {
    run_histories(Harm::Purge);
}

#[test]
fn random_histories_with_topics_made_again_mix_nothing() {
    run_histories(Harm::Recreation);
}
