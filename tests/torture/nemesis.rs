//! What befalls the log of an installation: outages, and what others do to its streams.

use crate::harness::JetStream;
use crate::history::What;
use crate::outages::{Outage, last};
use crate::random::Random;
use crate::rig::{PARTITIONS, Rig};
use serde_json::json;
use std::fmt;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Of(Outage),
    /// Bytes that are no batches, and copies of batches that stand in the log already.
    ForeignMessages,
    PurgeBelow,
    PurgeAll,
    /// The stream is emptied while the gateways are dead.
    PurgeAllBehindDeadGateways,
}

impl Fault {
    /// Gateways cannot ask the store meanwhile, or not all of it.
    pub fn troubles_the_store(self) -> bool {
        matches!(self, Fault::Of(outage) if outage.troubles_the_store())
    }

    pub fn needs_a_cluster(self) -> bool {
        matches!(self, Fault::Of(outage) if outage.needs_a_cluster())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Of(outage) => outage.fmt(f),
            of_the_log => fmt::Debug::fmt(of_the_log, f),
        }
    }
}

pub const ALL: &[Fault] = &[
    Fault::Of(Outage::KillGateway),
    Fault::Of(Outage::FreezeGateway),
    Fault::Of(Outage::KillServer),
    Fault::Of(Outage::KillAllServers),
    Fault::Of(Outage::FreezeServer),
    Fault::Of(Outage::FreezeFollowers),
    Fault::Of(Outage::StepDown),
    Fault::Of(Outage::LoseAcks),
    Fault::Of(Outage::DelayAcks),
    Fault::Of(Outage::HoldRequests),
    Fault::Of(Outage::HoldAnswers),
    Fault::Of(Outage::CutConnections),
    Fault::ForeignMessages,
    Fault::PurgeBelow,
    Fault::PurgeAll,
    Fault::Of(Outage::KillGatewayOfFrozenServer),
    Fault::PurgeAllBehindDeadGateways,
];

/// Written into each foreign message, so that the nemesis itself knows it again.
const FOREIGN: &str = "Foreign";

/// What gateways write into their own messages.
const WRITER: &str = "Kafka-Writer";

pub fn stream(partition: i32) -> String {
    format!("kafka-{}-{partition}", crate::rig::TOPIC)
}

fn subject(partition: i32) -> String {
    format!("kafka.{}.{partition}", crate::rig::TOPIC)
}

/// Lets `fault` happen, waits, and takes it back.
pub fn strike(rig: &mut Rig, random: &mut Random, fault: Fault) {
    let partition = i32::try_from(random.below(usize::try_from(PARTITIONS).expect("few"))).expect("few");
    match fault {
        Fault::Of(outage) => {
            let sent_us = rig.journal.now_us();
            if let Some(frozen) = rig.site().strike(random, outage) {
                (0..PARTITIONS).for_each(|partition| rig.journal.note(frozen, partition, sent_us, What::Frozen));
            }
        }
        Fault::ForeignMessages => publish_foreign(rig, random, partition),
        Fault::PurgeBelow => purge(rig, partition, Some(random.between(5, 200))),
        Fault::PurgeAll => purge(rig, partition, None),
        Fault::PurgeAllBehindDeadGateways => {
            rig.gateways.iter_mut().for_each(|gateway| gateway.kill());
            let _ = rig.servers.jetstream().try_api(&format!("STREAM.PURGE.{}", stream(partition)), &json!({}));
            rig.heal();
            note_purged(rig, partition, true);
        }
    }
    rig.heal();
}

fn publish_foreign(rig: &Rig, random: &mut Random, partition: i32) {
    let mut jetstream = rig.servers.jetstream();
    let Some(state) = try_state(&mut jetstream, &stream(partition)) else {
        return;
    };
    for _ in 0..random.between(5, 60) {
        let copied = random.between(state.0, state.1);
        let mut headers = format!("{FOREIGN}: yes\r\n");
        let payload = match random.below(3) {
            0 => b"not a batch".to_vec(),
            1 => vec![0; usize::try_from(random.between(0, 3_000)).expect("small")],
            _ => match message_at(&mut jetstream, &stream(partition), copied) {
                Some(original) => {
                    // With or without what tells whose it is.
                    let writer = original.writer.filter(|_| random.one_in(2));
                    headers.extend(writer.map(|writer| format!("{WRITER}: {writer}\r\n")));
                    original.payload
                }
                None => Vec::new(),
            },
        };
        // Whether it is stored is the server's affair; only that it may be matters.
        let _ = jetstream.request(&subject(partition), headers, &payload);
        last(random, 0, 30);
    }
}

fn try_state(jetstream: &mut JetStream, stream: &str) -> Option<(u64, u64)> {
    let info = jetstream.try_api(&format!("STREAM.INFO.{stream}"), &json!({})).ok()?;
    Some((info["state"]["first_seq"].as_u64()?, info["state"]["last_seq"].as_u64()?)).filter(|(a, b)| a <= b)
}

struct Stored {
    sequence: u64,
    foreign: bool,
    writer: Option<String>,
    payload: Vec<u8>,
}

/// The first message at or after a sequence.
fn message_at(jetstream: &mut JetStream, stream: &str, sequence: u64) -> Option<Stored> {
    let pick = json!({"seq": sequence, "next_by_subj": ">"}).to_string();
    let found = jetstream.request(&format!("$JS.API.DIRECT.GET.{stream}"), "", pick.as_bytes()).ok()?;
    Some(Stored {
        sequence: found.header("Nats-Sequence")?.parse().ok()?,
        foreign: found.header(FOREIGN).is_some(),
        writer: found.header(WRITER).map(str::to_owned),
        payload: found.payload.to_vec(),
    })
}

/// Removes all but the last `keep` messages, or all.
fn purge(rig: &mut Rig, partition: i32, keep: Option<u64>) {
    let mut jetstream = rig.servers.jetstream();
    let Some((first, last)) = try_state(&mut jetstream, &stream(partition)) else {
        return;
    };
    let body = match keep {
        Some(keep) if last.saturating_sub(keep) > first => json!({"seq": last - keep}),
        Some(_) => return,
        None => json!({}),
    };
    let _ = jetstream.try_api(&format!("STREAM.PURGE.{}", stream(partition)), &body);
    note_purged(rig, partition, keep.is_none());
}

/// What is gone lies below the first batch that is left, or that comes next.
fn note_purged(rig: &mut Rig, partition: i32, emptied: bool) {
    let sent_us = rig.journal.now_us();
    let mut jetstream = rig.servers.jetstream();
    let deadline = Instant::now() + crate::rig::RECOVERY;
    let mut sequence = 1;
    while Instant::now() < deadline {
        match message_at(&mut jetstream, &stream(partition), sequence) {
            Some(Stored { foreign: true, sequence: at, .. }) => sequence = at + 1,
            Some(Stored { payload, .. }) if payload.len() > 8 => {
                let below = i64::from_be_bytes(payload[..8].try_into().expect("eight bytes"));
                rig.journal.note(0, partition, sent_us, What::Purged { below });
                if emptied {
                    rig.journal.note(0, partition, sent_us, What::Emptied);
                }
                return;
            }
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    panic!("nothing was appended to partition {partition} for a minute after a purge");
}
