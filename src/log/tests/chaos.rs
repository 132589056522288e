//! Seeded random histories: two gateways, lost acks, lost publishes, proposed ones, lagging reads, foreign messages.

use super::*;
use crate::store::memory::Chaos;
use std::collections::BTreeMap;

/// A small generator, so that a seed tells the whole history.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

struct Sent {
    mark: u64,
    records: usize,
    pending: Pending<Result<Appended, LogError>>,
}

fn marked(mark: u64, records: usize) -> Vec<u8> {
    (0..records).fold(BatchBuilder::new(), |b, _| b.value(mark.to_be_bytes())).build()
}

fn mark_of(records: &[u8]) -> u64 {
    let at = records.len() - 9;
    u64::from_be_bytes(records[at..at + 8].try_into().expect("eight bytes"))
}

/// Runs one history and checks: what was acknowledged is there once, at its offset; offsets never repeat; watermarks never go back.
fn history(seed: u64, steps: u64) {
    let mut dice = Dice(seed);
    let world = World::new();
    let mut gateways = [world.gateway(), world.gateway()];
    world.store.set_chaos(Some(Chaos {
        seed,
        ack_lost_permille: 60,
        lost_permille: 60,
        proposed_permille: 40,
        unavailable_permille: 20,
        lagging_permille: 100,
    }));
    let mut open: Vec<Sent> = Vec::new();
    let mut acked: BTreeMap<i64, (u64, usize)> = BTreeMap::new();
    let mut watermarks = [0, 0];
    for step in 0..steps {
        let which = dice.roll(2) as usize;
        match dice.roll(20) {
            0..10 => {
                let records = 1 + dice.roll(3) as usize;
                let pending = gateways[which].begin(marked(step, records));
                open.push(Sent { mark: step, records, pending });
            }
            10 => world.foreign("foreign"),
            11 if dice.roll(20) == 0 => gateways[which] = world.gateway(),
            12 if dice.roll(10) == 0 => gateways[which].sleep(Duration::from_secs(3)),
            13 | 14 => {
                if let Ok(view) = gateways[which].log.view(gateways[which].deadline()) {
                    assert!(
                        view.high_watermark >= watermarks[which] || view.high_watermark == 0,
                        "seed {seed} step {step}"
                    );
                    watermarks[which] = view.high_watermark;
                }
            }
            _ => {
                world.clock.advance(Duration::from_millis(5));
                gateways[which].run();
            }
        }
        open.retain(|sent| match sent.pending.take_one() {
            None => true,
            Some(Some(Ok(appended))) => {
                let before = acked.insert(appended.base_offset, (sent.mark, sent.records));
                assert!(before.is_none(), "seed {seed} step {step}: offset {} was given twice", appended.base_offset);
                false
            }
            Some(_) => false,
        });
    }
    world.store.set_chaos(None);
    world.store.commit_proposed(STREAM);
    world.store.commit_proposed("KV_kafka-ends");
    gateways.iter().for_each(|gateway| gateway.sleep(Duration::from_secs(60)));
    check(&world, seed, &acked);
}

fn check(world: &World, seed: u64, acked: &BTreeMap<i64, (u64, usize)>) {
    let reader = world.gateway();
    let (mut found, mut offset, end) = (BTreeMap::new(), 0, reader.end());
    while offset < end {
        let read = reader.log.read(offset, 500, true, reader.deadline()).expect("in range");
        for records in &read.records {
            for (header, bytes) in walk(records).flatten() {
                assert!(header.base_offset >= offset, "seed {seed}: offset {} came after {offset}", header.base_offset);
                offset = header.next_offset();
                if header.record_count > 0 {
                    found.insert(header.base_offset, (mark_of(bytes), header.record_count as usize));
                }
            }
        }
    }
    let mut marks: Vec<_> = found.values().map(|(mark, _)| *mark).collect();
    marks.sort_unstable();
    marks.dedup();
    assert_eq!(marks.len(), found.len(), "seed {seed}: a batch is stored twice");
    for (offset, sent) in acked {
        assert_eq!(found.get(offset), Some(sent), "seed {seed}: what was acknowledged at {offset}");
    }
}

#[test]
fn random_histories_lose_and_repeat_nothing() {
    for seed in 1..=60 {
        history(seed, 600);
    }
}
