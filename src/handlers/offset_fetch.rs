//! OffsetFetch: a group's committed offsets.
//!
//! Behavior:
//! - Every partition asked for has one row, however often it is named, in the order of the request; -1 without an error says
//!   that nothing was committed, and is said only if the store was read. What cannot be read is an error, on the group and on
//!   each row.
//! - A commit for a topic that was deleted since counts as none, also if there is a new topic of that name.
//! - Any group, in any state; `require_stable` changes nothing as long as there are no transactions.
//!
//! Version notes: up to 7 one group, with the error at the top from 2 on; a null list of topics means all of them from 2 on;
//! from 8 on several groups, each with its error (KIP-709), and one row however often it is named.

use super::errors::for_offset_fetch;
use super::{Context, NamedPartitions, Outcome, once};
use crate::group::Groups;
use crate::limits::STORE_CALL_MAX;
use crate::offsets::{Committed, Slot, TopicPartition};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions, OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

const GROUPS_FROM: i16 = 8;

/// How long the topics of commits are looked for. Whoever gets an error begins again, so it may take most of the 30 s that clients
/// wait.
const TOPICS_MAX: Duration = Duration::from_secs(20);

/// Topics and the partitions asked for; `None`: whatever is committed.
type Asked = Option<Vec<(String, Vec<i32>)>>;

pub fn handle(cx: &Context, request: OffsetFetchRequest) -> Outcome {
    if cx.header.api_version >= GROUPS_FROM {
        let asked = once(request.groups, |group| group.group_id.clone());
        let groups = asked.into_iter().map(|group| {
            let asked = group.topics.map(|topics| topics.into_iter().map(|t| (t.name, t.partition_indexes)).collect());
            let (error, topics) = fetch(cx, &group.group_id, asked);
            OffsetFetchResponseGroup { group_id: group.group_id, topics, error_code: error.code() }
        });
        return cx.reply(&OffsetFetchResponse { groups: groups.collect(), ..Default::default() });
    }
    let asked = request.topics.map(|topics| topics.into_iter().map(|t| (t.name, t.partition_indexes)).collect());
    let (error, topics) = fetch(cx, &request.group_id, asked);
    let topics = topics.into_iter().map(single_group_topic).collect();
    cx.reply(&OffsetFetchResponse { topics, error_code: error.code(), ..Default::default() })
}

fn fetch(cx: &Context, group: &str, asked: Asked) -> (ErrorCode, Vec<OffsetFetchResponseTopics>) {
    let in_time = if cx.is_late() { Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS) } else { Ok(()) };
    let found = Groups::check_id(group, true).and(in_time).and_then(|()| {
        let committed = cx.services.groups.committed(group, cx.now.mono + STORE_CALL_MAX);
        let mut slots = committed.map_err(|error| for_offset_fetch(&error))?;
        if let Some(asked) = &asked {
            let topics: HashSet<&str> = asked.iter().map(|(topic, _)| topic.as_str()).collect();
            slots.retain(|at, _| topics.contains(at.topic.as_str()));
        }
        without_deleted_topics(cx, slots)
    });
    match found {
        Ok(slots) => {
            (ErrorCode::NONE, rows(asked.unwrap_or_else(|| all(&slots)), |at| row(at.partition, slots.get(at))))
        }
        Err(error) => {
            let failed = |at: &TopicPartition| OffsetFetchResponsePartitions {
                error_code: error.code(),
                ..row(at.partition, None)
            };
            (error, rows(asked.unwrap_or_default(), failed))
        }
    }
}

/// Asks for the topic of each commit, so those of topics that nobody asked for are not among them: one whose server is away
/// would hold up the others.
fn without_deleted_topics(
    cx: &Context,
    mut slots: BTreeMap<TopicPartition, Slot>,
) -> Result<BTreeMap<TopicPartition, Slot>, ErrorCode> {
    let mut ids = BTreeMap::new();
    for at in slots.keys() {
        if !ids.contains_key(&at.topic) {
            let topic = cx.topic_by(&at.topic, cx.now.mono + TOPICS_MAX).map_err(|error| for_offset_fetch(&error))?;
            ids.insert(at.topic.clone(), topic.map(|topic| topic.id));
        }
    }
    slots.retain(|at, slot| match slot.committed().and_then(|committed| committed.topic_id) {
        Some(meant) => ids.get(&at.topic) == Some(&Some(meant)),
        // Older gateways did not say which topic they meant.
        None => true,
    });
    Ok(slots)
}

fn all(slots: &BTreeMap<TopicPartition, Slot>) -> Vec<(String, Vec<i32>)> {
    let mut topics: Vec<(String, Vec<i32>)> = Vec::new();
    for at in slots.keys() {
        match topics.last_mut() {
            Some((topic, partitions)) if *topic == at.topic => partitions.push(at.partition),
            _ => topics.push((at.topic.clone(), vec![at.partition])),
        }
    }
    topics
}

fn rows(
    asked: Vec<(String, Vec<i32>)>,
    row: impl Fn(&TopicPartition) -> OffsetFetchResponsePartitions,
) -> Vec<OffsetFetchResponseTopics> {
    // A commit may have some kilobytes of metadata.
    let mut seen = NamedPartitions::default();
    let topic = |(name, mut indexes): (String, Vec<i32>)| {
        seen.leave_out(&name, &mut indexes);
        let mut at = TopicPartition::new(&name, 0);
        let rows = indexes.into_iter().map(|index| {
            at.partition = index;
            row(&at)
        });
        OffsetFetchResponseTopics { partitions: rows.collect(), name }
    };
    asked.into_iter().map(topic).collect()
}

fn row(partition_index: i32, slot: Option<&Slot>) -> OffsetFetchResponsePartitions {
    let nothing = OffsetFetchResponsePartitions {
        partition_index,
        committed_offset: -1,
        ..OffsetFetchResponsePartitions::default()
    };
    match slot {
        None | Some(Slot::Absent) => nothing,
        Some(Slot::Committed(Committed { offset, leader_epoch, metadata, .. })) => OffsetFetchResponsePartitions {
            committed_offset: *offset,
            committed_leader_epoch: *leader_epoch,
            metadata: Some(metadata.clone()),
            ..nothing
        },
        Some(Slot::Damaged) => {
            OffsetFetchResponsePartitions { error_code: ErrorCode::UNKNOWN_SERVER_ERROR.code(), ..nothing }
        }
    }
}

fn single_group_topic(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic {
    let partition = |p: OffsetFetchResponsePartitions| OffsetFetchResponsePartition {
        partition_index: p.partition_index,
        committed_offset: p.committed_offset,
        committed_leader_epoch: p.committed_leader_epoch,
        metadata: p.metadata,
        error_code: p.error_code,
    };
    OffsetFetchResponseTopic { name: topic.name, partitions: topic.partitions.into_iter().map(partition).collect() }
}
