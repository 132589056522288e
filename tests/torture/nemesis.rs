//! What befalls an installation: one fault after the other, some with a second one inside, each taken back again.

use crate::harness::JetStream;
use crate::history::What;
use crate::random::Random;
use crate::rig::{PARTITIONS, Rig};
use serde_json::json;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    KillGateway,
    FreezeGateway,
    KillServer,
    KillAllServers,
    FreezeServer,
    /// Both followers of a partition: its leader cannot commit.
    FreezeFollowers,
    StepDown,
    LoseAcks,
    DelayAcks,
    HoldRequests,
    HoldAnswers,
    CutConnections,
    /// Bytes that are no batches, and copies of batches that stand in the log already.
    ForeignMessages,
    PurgeBelow,
    PurgeAll,
    /// A gateway dies while its server is frozen.
    KillGatewayOfFrozenServer,
    /// The stream is emptied while the gateways are dead.
    PurgeAllBehindDeadGateways,
}

impl Fault {
    /// Gateways cannot ask the store meanwhile, or not all of it.
    pub fn troubles_the_store(self) -> bool {
        use Fault::*;
        matches!(
            self,
            KillServer
                | KillAllServers
                | FreezeServer
                | FreezeFollowers
                | StepDown
                | HoldRequests
                | HoldAnswers
                | CutConnections
                | KillGatewayOfFrozenServer
        )
    }

    pub fn needs_a_cluster(self) -> bool {
        matches!(self, Fault::FreezeFollowers | Fault::StepDown)
    }
}

pub const ALL: &[Fault] = &[
    Fault::KillGateway,
    Fault::FreezeGateway,
    Fault::KillServer,
    Fault::KillAllServers,
    Fault::FreezeServer,
    Fault::FreezeFollowers,
    Fault::StepDown,
    Fault::LoseAcks,
    Fault::DelayAcks,
    Fault::HoldRequests,
    Fault::HoldAnswers,
    Fault::CutConnections,
    Fault::ForeignMessages,
    Fault::PurgeBelow,
    Fault::PurgeAll,
    Fault::KillGatewayOfFrozenServer,
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
    let gateway = random.below(rig.gateways.len());
    let server = random.below(rig.servers.count());
    let partition = i32::try_from(random.below(usize::try_from(PARTITIONS).expect("few"))).expect("few");
    match fault {
        Fault::KillGateway => {
            rig.gateways[gateway].kill();
            last(random, 0, 3_000);
        }
        Fault::FreezeGateway => {
            rig.gateways[gateway].process().signal(libc::SIGSTOP);
            last(random, 500, 8_000);
        }
        Fault::KillServer => {
            rig.servers.kill(server);
            last(random, 0, 4_000);
        }
        Fault::KillAllServers => {
            rig.servers.kill_all();
            last(random, 0, 2_000);
        }
        Fault::FreezeServer => {
            rig.servers.freeze(server);
            last(random, 1_000, 12_000);
        }
        Fault::FreezeFollowers => {
            let leader = rig.servers.leader_of(&stream(partition));
            (0..rig.servers.count()).filter(|index| Some(*index) != leader).for_each(|index| rig.servers.freeze(index));
            last(random, 1_000, 8_000);
        }
        Fault::StepDown => {
            for _ in 0..random.between(1, 5) {
                rig.servers.step_down(&stream(partition));
                last(random, 100, 1_500);
            }
        }
        Fault::LoseAcks => {
            let per_mille = *random.pick(&[50, 300, 1000]);
            rig.servers.proxies().for_each(|proxy| proxy.lose_acks(per_mille));
            last(random, 1_000, 8_000);
        }
        Fault::DelayAcks => {
            let late = Duration::from_millis(*random.pick(&[20, 400, 6_000]));
            rig.servers.proxies().for_each(|proxy| proxy.delay_acks(late));
            last(random, 1_000, 8_000);
        }
        Fault::HoldRequests => {
            rig.servers.proxies().for_each(|proxy| proxy.hold_requests());
            last(random, 500, 12_000);
        }
        Fault::HoldAnswers => {
            rig.servers.proxies().for_each(|proxy| proxy.hold_answers());
            last(random, 500, 12_000);
        }
        Fault::CutConnections => {
            for _ in 0..random.between(1, 4) {
                rig.servers.proxies().for_each(|proxy| proxy.cut());
                last(random, 50, 1_000);
            }
        }
        Fault::ForeignMessages => publish_foreign(rig, random, partition),
        Fault::PurgeBelow => purge(rig, partition, Some(random.between(5, 200))),
        Fault::PurgeAll => purge(rig, partition, None),
        Fault::KillGatewayOfFrozenServer => {
            rig.servers.freeze(server);
            last(random, 10, 3_000);
            rig.gateways[gateway].kill();
            last(random, 10, 3_000);
            rig.servers.revive();
        }
        Fault::PurgeAllBehindDeadGateways => {
            rig.gateways.iter_mut().for_each(|gateway| gateway.kill());
            let _ = rig.servers.jetstream().try_api(&format!("STREAM.PURGE.{}", stream(partition)), &json!({}));
            rig.heal();
            note_purged(rig, partition, true);
        }
    }
    rig.heal();
}

fn last(random: &mut Random, least_ms: u64, most_ms: u64) {
    std::thread::sleep(Duration::from_millis(random.between(least_ms, most_ms)));
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
