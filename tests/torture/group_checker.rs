//! Judges what members of groups saw: one owner for each partition of a generation, generations and commits that never go back.

use crate::group_history::{Event, Micros, What};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A generation was formed twice, with other members.
    FormedTwice,
    /// Two members of one generation were told to have the same partition.
    TwoOwners,
    /// All members of a generation were told what they have, and a partition is nobody's.
    NoOwner,
    /// A member was told something else than the leader assigned to it.
    OtherAssignment,
    /// A generation, or a heartbeat of one, was accepted though a later one was told before.
    GenerationWentBack,
    /// A commit of a generation was taken though a later one was told before.
    StaleCommit,
    /// Less was told to be committed than was acknowledged before.
    CommitWentBack,
    /// More was told to be committed than anybody ever sent.
    CommitFromNowhere,
    /// A consumer began below what was acknowledged to be committed before.
    BeganTooLow,
    /// A record between two that were delivered went to nobody.
    Skipped,
    /// An error stopped a consumer.
    FalseError,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    pub fault: Fault,
    pub evidence: String,
}

/// All violations; `partitions` is how many the raw members share.
pub fn check(events: &[Event], partitions: i32) -> Vec<Violation> {
    let mut found = Vec::new();
    check_assignments(events, partitions, &mut found);
    check_generations(events, &mut found);
    check_commits(events, &mut found);
    check_consumers(events, &mut found);
    found
}

/// Each member's partitions.
type Assignment = Vec<(String, BTreeSet<i32>)>;

fn check_assignments(events: &[Event], partitions: i32, found: &mut Vec<Violation>) {
    let mut formed: BTreeMap<i32, &BTreeSet<String>> = BTreeMap::new();
    let mut told: BTreeMap<i32, BTreeMap<&str, &BTreeSet<i32>>> = BTreeMap::new();
    let mut assigned: BTreeMap<i32, Vec<&Assignment>> = BTreeMap::new();
    for event in events {
        match &event.what {
            What::Joined { generation, members: Some(members), .. } => {
                if let Some(before) = formed.insert(*generation, members).filter(|before| *before != members) {
                    found.push(Violation {
                        fault: Fault::FormedTwice,
                        evidence: format!("generation {generation} of {before:?} and of {members:?}"),
                    });
                }
            }
            What::Assigned { generation, partitions } => assigned.entry(*generation).or_default().push(partitions),
            What::Told { member, generation, partitions } => {
                told.entry(*generation).or_default().insert(member, partitions);
            }
            _ => {}
        }
    }
    for (generation, members) in &told {
        let mut owners: BTreeMap<i32, &str> = BTreeMap::new();
        for (member, theirs) in members {
            for partition in *theirs {
                if let Some(other) = owners.insert(*partition, member) {
                    found.push(Violation {
                        fault: Fault::TwoOwners,
                        evidence: format!("partition {partition} of generation {generation}: {other} and {member}"),
                    });
                }
            }
            // A leader may have sent its assignment several times: one of them counts.
            let sent = assigned.get(generation).into_iter().flatten();
            let mut given = sent.map(|sent| sent.iter().find(|(id, _)| id == member).map(|(_, given)| given));
            if assigned.contains_key(generation) && !given.any(|given| given == Some(*theirs)) {
                found.push(Violation {
                    fault: Fault::OtherAssignment,
                    evidence: format!("generation {generation}: {member} was told {theirs:?}"),
                });
            }
        }
        let is_whole = formed.get(generation).is_some_and(|all| all.iter().all(|id| members.contains_key(id.as_str())));
        let missing: Vec<i32> = (0..partitions).filter(|partition| !owners.contains_key(partition)).collect();
        if is_whole && !missing.is_empty() {
            found.push(Violation {
                fault: Fault::NoOwner,
                evidence: format!("generation {generation}: {missing:?} are nobody's"),
            });
        }
    }
}

/// For each moment the latest generation that was told by then.
struct Generations(BTreeMap<Micros, i32>);

impl Generations {
    fn of(events: &[Event]) -> Generations {
        let mut told: Vec<(Micros, i32)> = events
            .iter()
            .filter_map(|event| match event.what {
                What::Joined { generation, .. } => Some((event.settled, generation)),
                _ => None,
            })
            .collect();
        told.sort_unstable();
        let mut latest = 0;
        Generations(
            told.into_iter()
                .map(|(at, generation)| {
                    latest = latest.max(generation);
                    (at, latest)
                })
                .collect(),
        )
    }

    fn told_before(&self, at: Micros) -> i32 {
        self.0.range(..at).next_back().map_or(0, |(_, generation)| *generation)
    }
}

fn check_generations(events: &[Event], found: &mut Vec<Violation>) {
    let generations = Generations::of(events);
    for event in events {
        let (generation, fault, how) = match &event.what {
            What::Joined { generation, .. } => (*generation, Fault::GenerationWentBack, "joined"),
            What::Told { generation, .. } => (*generation, Fault::GenerationWentBack, "was assigned in"),
            What::Alive { generation } => (*generation, Fault::GenerationWentBack, "is alive in"),
            What::Committed { generation, acked: true, .. } => (*generation, Fault::StaleCommit, "committed in"),
            _ => continue,
        };
        let before = generations.told_before(event.sent);
        if generation < before {
            found.push(Violation {
                fault,
                evidence: format!("a member {how} {generation} by {event:?}, though {before} was told before"),
            });
        }
    }
}

fn check_commits(events: &[Event], found: &mut Vec<Violation>) {
    let mut acked: BTreeMap<i32, Vec<(Micros, i64)>> = BTreeMap::new();
    let mut tried: BTreeMap<i32, Vec<(Micros, i64)>> = BTreeMap::new();
    for event in events {
        if let What::Committed { partition, offset, acked: is_acked, .. } = event.what {
            tried.entry(partition).or_default().push((event.sent, offset));
            if is_acked {
                acked.entry(partition).or_default().push((event.settled, offset));
            }
        }
    }
    let most = |times: &BTreeMap<i32, Vec<(Micros, i64)>>, partition: i32, before: Micros| {
        let times = times.get(&partition).into_iter().flatten();
        times.filter(|(at, _)| *at < before).map(|(_, offset)| *offset).max()
    };
    for event in events {
        let What::Fetched { partition, offset } = event.what else { continue };
        let least = most(&acked, partition, event.sent);
        if least.is_some_and(|least| offset < least) {
            found.push(Violation {
                fault: Fault::CommitWentBack,
                evidence: format!("{event:?}, though {least:?} was acknowledged before"),
            });
        }
        if offset > most(&tried, partition, event.settled).unwrap_or(-1) {
            found.push(Violation { fault: Fault::CommitFromNowhere, evidence: format!("{event:?}") });
        }
    }
}

/// A consumer's commit: its offset, when it was sent, and when it was acknowledged.
struct Stored {
    offset: i64,
    sent: Micros,
    acked: Option<Micros>,
}

fn check_consumers(events: &[Event], found: &mut Vec<Violation>) {
    let mut stored: BTreeMap<i32, Vec<Stored>> = BTreeMap::new();
    let mut delivered: BTreeMap<i32, BTreeSet<i64>> = BTreeMap::new();
    for event in events {
        match event.what {
            What::Stored { partition, offset, acked } => {
                let acked = acked.then_some(event.settled);
                stored.entry(partition).or_default().push(Stored { offset, sent: event.sent, acked });
            }
            What::Delivered { partition, offset } => {
                delivered.entry(partition).or_default().insert(offset);
            }
            _ => {}
        }
    }
    for event in events {
        if let What::Stopped { error } = &event.what {
            found.push(Violation { fault: Fault::FalseError, evidence: error.clone() });
        }
        let What::Began { partition, offset } = event.what else { continue };
        let commits = stored.get(&partition).map_or(&[][..], |commits| &commits[..]);
        let before = commits.iter().filter(|commit| commit.acked.is_some_and(|at| at < event.sent));
        let Some(greatest) = before.max_by_key(|commit| commit.offset) else { continue };
        // A member's own smaller commit that was still under way may have been the last to be taken.
        let may_be_last = |commit: &&Stored| {
            let over = commit.acked.is_some_and(|at| at < greatest.sent);
            commit.offset == offset && commit.sent < event.settled && !over
        };
        if offset < greatest.offset && !commits.iter().any(|commit| may_be_last(&commit)) {
            found.push(Violation {
                fault: Fault::BeganTooLow,
                evidence: format!(
                    "{event:?}, though {} was acknowledged before, sent at {}, and nobody committed {offset} since",
                    greatest.offset, greatest.sent
                ),
            });
        }
    }
    for (partition, offsets) in delivered {
        let mut before = -1;
        for offset in offsets {
            if offset != before + 1 {
                found.push(Violation {
                    fault: Fault::Skipped,
                    evidence: format!("partition {partition}: nobody got {} to {}", before + 1, offset - 1),
                });
            }
            before = offset;
        }
    }
}
