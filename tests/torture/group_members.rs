//! Members of a group that speak the protocol by hand, behave as clients do, and write down what they are told.

use crate::group_history::{Journal, What};
use crate::harness::Wire;
use crate::harness::member::{MEMBER_ID_REQUIRED, RawMember};
use crate::harness::wire::topic_name;
use crate::random::Random;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::{GroupId, LeaveGroupRequest, OffsetCommitRequest, OffsetFetchRequest};
use kafka_protocol::protocol::StrBytes;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The group of the raw members, and what they share.
pub const GROUP: &str = "raw";
pub const TOPIC: &str = "t";
pub const PARTITIONS: i32 = 12;

const SESSION_MS: i32 = 10_000;

/// A join may wait for members that were frozen: until their sessions end.
const PATIENCE: Duration = Duration::from_secs(25);

const ILLEGAL_GENERATION: i16 = 22;
const UNKNOWN_MEMBER_ID: i16 = 25;
const REBALANCE_IN_PROGRESS: i16 = 27;

/// What all clients of a run share.
pub struct Course {
    /// Where a client may connect: each gateway, or what stands before them all.
    pub ports: Vec<u16>,
    pub journal: Arc<Journal>,
    pub stop: AtomicBool,
    /// What each member has now: its generation and partitions, once it was told.
    pub settled: Mutex<BTreeMap<usize, (i32, BTreeSet<i32>)>>,
    /// Members do what ends a generation: leave, sleep too long, come back.
    pub restless: AtomicBool,
}

impl Course {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether all these members are in one generation and share the partitions.
    pub fn is_settled(&self, members: usize) -> bool {
        let settled = self.settled.lock().expect("no holder panics");
        let generations: BTreeSet<i32> = settled.values().map(|(generation, _)| *generation).collect();
        let partitions: Vec<i32> = settled.values().flat_map(|(_, theirs)| theirs.iter().copied()).collect();
        let whole = partitions.len() == usize::try_from(PARTITIONS).expect("few");
        settled.len() == members && generations.len() == 1 && whole
    }
}

/// How a round of a member's life ended.
enum Next {
    /// Join again, with the id it has.
    Rejoin,
    /// Join as a new member.
    Anew,
}

pub struct Member<'a> {
    course: &'a Course,
    number: usize,
    random: Random,
    raw: RawMember,
    wire: Option<Wire>,
}

impl Member<'_> {
    pub fn run(course: &Course, number: usize, random: Random) {
        let raw = RawMember::new(GROUP, None, SESSION_MS);
        let mut member = Member { course, number, random, raw, wire: None };
        while !course.is_over() {
            let next = member.live();
            member.course.settled.lock().expect("no holder panics").remove(&number);
            match next {
                Ok(Next::Rejoin) => {}
                Ok(Next::Anew) => member.raw.id = StrBytes::default(),
                Err(_) => member.wire = None,
            }
        }
    }

    /// From a join to whatever ends the generation for this member.
    fn live(&mut self) -> io::Result<Next> {
        let Some((generation, members)) = self.join()? else { return Ok(Next::Anew) };
        let Some(partitions) = self.sync(generation, &members)? else { return Ok(Next::Rejoin) };
        let mine = (generation, partitions.clone());
        self.course.settled.lock().expect("no holder panics").insert(self.number, mine);
        let mut offsets = BTreeMap::new();
        for partition in &partitions {
            match self.fetch(*partition)? {
                Some(offset) => offsets.insert(*partition, offset + 1),
                None => return Ok(Next::Rejoin),
            };
        }
        while !self.course.is_over() {
            self.pause(50, 400);
            let sent = self.course.journal.now();
            match self.with_wire(|wire, raw| raw.try_heartbeat(wire)) {
                Ok(0) => self.course.journal.note(sent, What::Alive { generation }),
                Ok(UNKNOWN_MEMBER_ID) => return Ok(Next::Anew),
                Ok(ILLEGAL_GENERATION | REBALANCE_IN_PROGRESS) => return Ok(Next::Rejoin),
                // The coordinator moves, or the gateway is gone: found again, in the same generation.
                Ok(_) | Err(_) => self.wire = None,
            }
            if let Some(partition) = self.any_of(&partitions) {
                let offset = offsets.entry(partition).or_insert(0);
                let ended = commit(self.course, &mut self.wire, &self.raw, &mut self.random, partition, *offset);
                *offset += 1;
                if ended {
                    return Ok(Next::Rejoin);
                }
            }
            if self.course.restless.load(Ordering::Relaxed) && self.random.one_in(80) {
                return self.misbehave();
            }
        }
        self.leave()?;
        Ok(Next::Anew)
    }

    /// Joins until it is in a generation; `None`: the group does not know the id any more.
    fn join(&mut self) -> io::Result<Option<(i32, BTreeSet<String>)>> {
        while !self.course.is_over() {
            let sent = self.course.journal.now();
            let answer = self.with_wire(|wire, raw| wire.try_call(7, &raw.join_request()));
            let Ok(answer) = answer else {
                self.wire = None;
                self.pause(20, 200);
                continue;
            };
            match answer.error_code {
                0 => {
                    let generation = answer.generation_id;
                    self.raw.generation = generation;
                    self.raw.id = answer.member_id.clone();
                    let members: BTreeSet<String> =
                        answer.members.iter().map(|member| member.member_id.to_string()).collect();
                    let leads = (answer.leader == answer.member_id).then(|| members.clone());
                    let member = answer.member_id.to_string();
                    self.course.journal.note(sent, What::Joined { member, generation, members: leads });
                    return Ok(Some((generation, members)));
                }
                MEMBER_ID_REQUIRED => self.raw.id = answer.member_id,
                UNKNOWN_MEMBER_ID => return Ok(None),
                _ => {
                    self.wire = None;
                    self.pause(20, 200);
                }
            }
        }
        Err(io::Error::other("the run is over"))
    }

    /// What it has in this generation; `None`: the generation is over before it began.
    fn sync(&mut self, generation: i32, members: &BTreeSet<String>) -> io::Result<Option<BTreeSet<i32>>> {
        let count = i32::try_from(members.len().max(1)).expect("few");
        let share = |place: i32| (0..PARTITIONS).filter(|partition| partition % count == place).collect();
        let shares: Vec<(String, BTreeSet<i32>)> =
            (0..).zip(members).map(|(place, id)| (id.clone(), share(place))).collect();
        let bytes: Vec<(StrBytes, Vec<u8>)> = shares
            .iter()
            .map(|(id, theirs)| {
                let bytes = theirs.iter().map(|partition| u8::try_from(*partition).expect("few")).collect();
                (StrBytes::from_string(id.clone()), bytes)
            })
            .collect();
        let sent = self.course.journal.now();
        if !shares.is_empty() {
            self.course.journal.note(sent, What::Assigned { generation, partitions: shares });
        }
        let given: Vec<(&StrBytes, &[u8])> = bytes.iter().map(|(id, bytes)| (id, bytes.as_slice())).collect();
        let answer = self.with_wire(|wire, raw| wire.try_call(4, &raw.sync_request(&given)));
        let Ok(answer) = answer else {
            self.wire = None;
            return Ok(None);
        };
        if answer.error_code != 0 {
            if answer.error_code == UNKNOWN_MEMBER_ID {
                self.raw.id = StrBytes::default();
            }
            self.pause(20, 100);
            return Ok(None);
        }
        let partitions: BTreeSet<i32> = answer.assignment.iter().map(|byte| i32::from(*byte)).collect();
        let (member, theirs) = (self.raw.id.to_string(), partitions.clone());
        self.course.journal.note(sent, What::Told { member, generation, partitions: theirs });
        Ok(Some(partitions))
    }

    /// What is committed for a partition; -1 for nothing. `None`: nobody says.
    fn fetch(&mut self, partition: i32) -> io::Result<Option<i64>> {
        for _ in 0..100 {
            if self.course.is_over() {
                break;
            }
            let sent = self.course.journal.now();
            match self.with_wire(|wire, _| try_fetch(wire, partition)) {
                Ok(Some(offset)) => {
                    self.course.journal.note(sent, What::Fetched { partition, offset });
                    return Ok(Some(offset));
                }
                Ok(None) | Err(_) => self.wire = None,
            }
            self.pause(20, 200);
        }
        Ok(None)
    }

    fn misbehave(&mut self) -> io::Result<Next> {
        match self.random.below(4) {
            0 => {
                self.leave()?;
                Ok(Next::Anew)
            }
            // Beyond its session: it comes back as if nothing had happened.
            1 => {
                self.pause(8_000, 13_000);
                Ok(Next::Rejoin)
            }
            // It dies, and another comes in its place.
            2 => {
                self.wire = None;
                Ok(Next::Anew)
            }
            _ => Ok(Next::Rejoin),
        }
    }

    fn leave(&mut self) -> io::Result<()> {
        let leave =
            LeaveGroupRequest::default().with_group_id(self.raw.group.clone()).with_member_id(self.raw.id.clone());
        self.with_wire(|wire, _| wire.try_call(2, &leave)).map(drop)
    }

    fn any_of(&mut self, partitions: &BTreeSet<i32>) -> Option<i32> {
        let all: Vec<i32> = partitions.iter().copied().collect();
        (!all.is_empty()).then(|| *self.random.pick(&all))
    }

    fn with_wire<T>(&mut self, call: impl FnOnce(&mut Wire, &RawMember) -> io::Result<T>) -> io::Result<T> {
        let wire = connected(&mut self.wire, &self.course.ports, &mut self.random)?;
        call(wire, &self.raw)
    }

    fn pause(&mut self, least_ms: u64, most_ms: u64) {
        std::thread::sleep(Duration::from_millis(self.random.between(least_ms, most_ms)));
    }
}

fn connected<'w>(wire: &'w mut Option<Wire>, ports: &[u16], random: &mut Random) -> io::Result<&'w mut Wire> {
    if wire.is_none() {
        let mut fresh = Wire::try_connect(*random.pick(ports))?;
        fresh.wait_at_most(PATIENCE)?;
        *wire = Some(fresh);
    }
    Ok(wire.as_mut().expect("it was just put there"))
}

/// Commits an offset; whether the generation is over.
fn commit(
    course: &Course,
    wire: &mut Option<Wire>,
    raw: &RawMember,
    random: &mut Random,
    partition: i32,
    offset: i64,
) -> bool {
    let row = OffsetCommitRequestPartition::default().with_partition_index(partition).with_committed_offset(offset);
    let topic = OffsetCommitRequestTopic::default().with_name(topic_name(TOPIC)).with_partitions(vec![row]);
    let request = OffsetCommitRequest::default()
        .with_group_id(raw.group.clone())
        .with_generation_id_or_member_epoch(raw.generation)
        .with_member_id(raw.id.clone())
        .with_topics(vec![topic]);
    let sent = course.journal.now();
    let answer = connected(wire, &course.ports, random).and_then(|wire| wire.try_call(7, &request));
    let code = answer.map(|answer| answer.topics[0].partitions[0].error_code);
    if !matches!(code, Ok(0)) {
        *wire = None;
    }
    let generation = raw.generation;
    course.journal.note(sent, What::Committed { generation, partition, offset, acked: matches!(code, Ok(0)) });
    matches!(code, Ok(ILLEGAL_GENERATION | UNKNOWN_MEMBER_ID | REBALANCE_IN_PROGRESS))
}

fn try_fetch(wire: &mut Wire, partition: i32) -> io::Result<Option<i64>> {
    let request =
        OffsetFetchRequest::default().with_group_id(GroupId(StrBytes::from_static_str(GROUP))).with_topics(None);
    let answer = wire.try_call(5, &request)?;
    let mut rows = answer.topics.iter().flat_map(|topic| &topic.partitions);
    let row = rows.rfind(|row| row.partition_index == partition);
    let code = row.map_or(answer.error_code, |row| row.error_code.max(answer.error_code));
    Ok((code == 0).then(|| row.map_or(-1, |row| row.committed_offset)))
}

/// Asks any gateway, all the time, what is committed.
pub fn watch_commits(course: &Course, mut random: Random) {
    let mut wire = None;
    while !course.is_over() {
        std::thread::sleep(Duration::from_millis(random.between(20, 200)));
        if random.one_in(5) {
            wire = None;
        }
        let partition = i32::try_from(random.below(usize::try_from(PARTITIONS).expect("few"))).expect("few");
        let sent = course.journal.now();
        match connected(&mut wire, &course.ports, &mut random).and_then(|wire| try_fetch(wire, partition)) {
            Ok(Some(offset)) => course.journal.note(sent, What::Fetched { partition, offset }),
            Ok(None) | Err(_) => wire = None,
        }
    }
}
