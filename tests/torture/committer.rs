//! A client that commits ever higher offsets and asks what is committed, without a membership.

use crate::clients::{Course, Line};
use crate::harness::wire::{RETRIABLE, topic_name};
use crate::history::{Event, Journal, What};
use crate::random::Random;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::{GroupId, OffsetCommitRequest, OffsetFetchRequest};
use kafka_protocol::protocol::StrBytes;
use std::time::Duration;

pub fn group_id(group: u16) -> GroupId {
    GroupId(StrBytes::from_string(format!("group-{group}")))
}

pub fn commit_request(topic: &str, group: u16, offset: i64) -> OffsetCommitRequest {
    let partition = OffsetCommitRequestPartition::default().with_partition_index(0).with_committed_offset(offset);
    let topic = OffsetCommitRequestTopic::default().with_name(topic_name(topic)).with_partitions(vec![partition]);
    OffsetCommitRequest::default()
        .with_group_id(group_id(group))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic])
}

pub fn lookup_request(topic: &str, group: u16) -> OffsetFetchRequest {
    let asked = OffsetFetchRequestTopic::default().with_name(topic_name(topic)).with_partition_indexes(vec![0]);
    OffsetFetchRequest::default().with_group_id(group_id(group)).with_topics(Some(vec![asked]))
}

/// Commits through a line; the error code, or none where no answer came.
pub fn commit(line: &mut Line, group: u16, offset: i64) -> Option<i16> {
    let request = commit_request(&line.course.topic, group, offset);
    let answer = line.exchange(|wire| wire.try_call(8, &request)).ok()?;
    Some(answer.topics[0].partitions[0].error_code)
}

/// What is committed, or the error; none where no answer came.
pub fn lookup(line: &mut Line, group: u16) -> Option<Result<i64, i16>> {
    let request = lookup_request(&line.course.topic, group);
    let answer = line.exchange(|wire| wire.try_call(7, &request)).ok()?;
    if answer.error_code != 0 {
        return Some(Err(answer.error_code));
    }
    let partition = &answer.topics.first()?.partitions[0];
    Some(if partition.error_code == 0 { Ok(partition.committed_offset) } else { Err(partition.error_code) })
}

pub fn run(course: &Course, random: Random, group: u16) -> Vec<Event> {
    let mut line = Line::new(course, random);
    let mut journal = Journal::new(course.began);
    let mut offset = 0;
    while !course.stopping() {
        let sent_us = journal.now_us();
        let error = if line.random.one_in(3) {
            let told = lookup(&mut line, group);
            if let Some(Ok(offset)) = told {
                journal.note(line.gateway, 0, sent_us, What::Committed { group, offset });
            }
            told.map(|told| told.err().unwrap_or(0))
        } else {
            offset += 1;
            let answer = commit(&mut line, group, offset);
            journal.note(line.gateway, 0, sent_us, What::Commit { group, offset, acked: answer == Some(0) });
            answer
        };
        match error {
            Some(0) => std::thread::sleep(Duration::from_millis(line.random.between(0, 20))),
            Some(error) if !RETRIABLE.contains(&error) => {
                journal.note(line.gateway, 0, sent_us, What::Failed { error });
                line.back_off();
            }
            _ => line.back_off(),
        }
    }
    journal.events
}
