//! `/v1/stream/groups[?group=&topic=]`: consumer groups, their members, and their lag.

use super::lag::{Ends, all_commits, readable};
use super::{Pages, Refusal};
use crate::group::{Described, DescribedMember};
use crate::offsets::{Committed, TopicPartition};
use rouille::Request;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A group's commits by partition.
type Commits = BTreeMap<TopicPartition, Committed>;

pub(super) fn tell(pages: &Pages, request: &Request) -> Result<Value, Refusal> {
    let deadline = pages.deadline();
    let (group, topic) = (request.get_param("group"), request.get_param("topic"));
    let services = &pages.services;
    let (described, mut commits): (Vec<(String, Described)>, BTreeMap<String, Commits>) = match &group {
        Some(name) => {
            let unknown = || Refusal::Unknown(format!("there is no group {name:?}"));
            let described = services.groups.describe(name, deadline)?.ok_or_else(unknown)?;
            let commits = readable(services.groups.committed(name, deadline)?);
            (vec![(name.clone(), described)], BTreeMap::from([(name.clone(), commits)]))
        }
        None => (services.groups.describe_all(deadline)?, all_commits(pages, deadline)?),
    };
    let mut told: Vec<Told> = Vec::new();
    for (name, described) in described {
        let commits = commits.remove(&name).unwrap_or_default();
        told.push(Told::new(name, described, commits));
    }
    if let Some(topic) = &topic {
        let is_there = services.catalog.topic(topic)?.is_some();
        told.iter_mut().for_each(|group| group.keep_topic(topic));
        told.retain(|one| group.is_some() || !one.partitions.is_empty());
        if !is_there && told.iter().all(|group| group.partitions.is_empty()) {
            return Err(Refusal::Unknown(format!("there is no topic {topic:?}")));
        }
    }
    let wanted: BTreeSet<TopicPartition> = told.iter().flat_map(|one| one.partitions.iter().cloned()).collect();
    let ends = Ends::of(pages, &wanted, group.is_some(), deadline)?;
    Ok(json!({ "groups": told.iter().map(|group| group.json(&ends)).collect::<Vec<_>>() }))
}

struct Told {
    name: String,
    described: Described,
    commits: Commits,
    /// Who is assigned a partition: an index into the members.
    assigned: BTreeMap<TopicPartition, usize>,
    /// Those that are committed or assigned.
    partitions: BTreeSet<TopicPartition>,
}

impl Told {
    fn new(name: String, described: Described, commits: Commits) -> Told {
        let mut assigned = BTreeMap::new();
        if described.protocol_type == "consumer" {
            for (index, member) in described.members.iter().enumerate() {
                assigned.extend(assignment(&member.assignment).into_iter().map(|at| (at, index)));
            }
        }
        let partitions = commits.keys().chain(assigned.keys()).cloned().collect();
        Told { name, described, commits, assigned, partitions }
    }

    fn keep_topic(&mut self, topic: &str) {
        self.partitions.retain(|at| at.topic == topic);
    }

    fn json(&self, ends: &Ends) -> Value {
        let partitions: Vec<Value> = self.partitions.iter().map(|at| self.partition(at, ends)).collect();
        let lags = partitions.iter().filter_map(|row| row["lag"].as_i64());
        json!({
            "group": self.name,
            "state": self.described.state.name(),
            "protocol_type": self.described.protocol_type,
            "protocol": self.described.protocol_name,
            "lag": lags.fold(0, i64::saturating_add),
            "members": self.described.members.iter().map(member).collect::<Vec<_>>(),
            "partitions": partitions,
        })
    }

    fn partition(&self, at: &TopicPartition, ends: &Ends) -> Value {
        let committed = self.commits.get(at).filter(|committed| ends.concerns(at, committed));
        let end = ends.next(at);
        let lag = end.zip(committed).map(|((next, _), committed)| next.saturating_sub(committed.offset));
        let assigned = self.assigned.get(at).map(|index| self.described.members[*index].id.as_str());
        json!({
            "topic": at.topic,
            "partition": at.partition,
            "committed": committed.map(|committed| committed.offset),
            "metadata": committed.map_or("", |committed| committed.metadata.as_str()),
            "commit_ms": committed.map(|committed| committed.commit_ms),
            "log_end": end.map(|(next, _)| next),
            "log_end_exact": end.is_some_and(|(_, exact)| exact),
            "lag": lag,
            "member": assigned,
        })
    }
}

fn member(member: &DescribedMember) -> Value {
    json!({
        "member_id": member.id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.client_host,
    })
}

/// The partitions in a `ConsumerProtocolAssignment`: version, topics with partitions, whatever follows. Bytes that are none
/// give what could be read of them.
fn assignment(bytes: &[u8]) -> Vec<TopicPartition> {
    let mut found = Vec::new();
    let mut rest = bytes;
    let _ = read_assignment(&mut rest, &mut found);
    found
}

fn read_assignment(rest: &mut &[u8], found: &mut Vec<TopicPartition>) -> Option<()> {
    take::<2>(rest)?;
    for _ in 0..i32::from_be_bytes(take(rest)?) {
        let length = usize::try_from(i16::from_be_bytes(take(rest)?)).ok()?;
        let (name, left) = rest.split_at_checked(length)?;
        *rest = left;
        let topic = std::str::from_utf8(name).ok()?;
        for _ in 0..i32::from_be_bytes(take(rest)?) {
            found.push(TopicPartition::new(topic, i32::from_be_bytes(take(rest)?)));
        }
    }
    Some(())
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, left) = rest.split_first_chunk::<N>()?;
    *rest = left;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_are_read_as_far_as_they_go() {
        let bytes = b"\0\x01\0\0\0\x01\0\x01t\0\0\0\x02\0\0\0\0\0\0\0\x07\xff\xff\xff\xff";
        assert_eq!(assignment(bytes), [TopicPartition::new("t", 0), TopicPartition::new("t", 7)]);
        assert_eq!(assignment(&bytes[..17]), [TopicPartition::new("t", 0)]);
        assert_eq!(assignment(b"\0\0\x7f\xff\xff\xff\xff\xff"), []);
        assert_eq!(assignment(b""), []);
    }
}
