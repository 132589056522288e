//! What is shown of groups: of those in memory their committed state, of the others what is stored.

use super::Groups;
use super::record::{self, Owner};
use super::state::{Group, Member, State};
use crate::offsets::TopicPartition;
use crate::protocol::error_code::ErrorCode;
use crate::store::{StoreResult, keys};
use bytes::Bytes;
use std::collections::HashSet;
use std::time::Instant;

#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    pub state: State,
    /// Empty for a group that only commits offsets.
    pub protocol_type: String,
    /// Empty unless the group is stable.
    pub protocol_name: String,
    pub members: Vec<DescribedMember>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DescribedMember {
    pub id: String,
    pub instance_id: Option<String>,
    pub client_id: String,
    pub client_host: String,
    /// For the chosen protocol; empty unless the group is stable.
    pub metadata: Bytes,
    pub assignment: Bytes,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    pub group: String,
    pub state: State,
    pub protocol_type: String,
    /// The process that FindCoordinator names; `None` while nobody is known.
    pub coordinator: Option<String>,
}

impl Groups {
    /// `None`: there is no such group.
    pub fn describe(&self, group: &str, deadline: Instant) -> StoreResult<Option<Described>> {
        Ok(self.look_at(group, deadline)?.map(|group| described(&group)))
    }

    /// All groups, in the order of their keys. Those that an older gateway left, of which there are commits only, come with
    /// the first sweep.
    pub fn list(&self, deadline: Instant) -> StoreResult<Vec<Listed>> {
        let listed = |(group, known, owner): (String, Group, Option<Owner>)| Listed {
            coordinator: self.lister(&group, owner),
            group,
            state: known.state,
            protocol_type: known.protocol_type.unwrap_or_default(),
        };
        Ok(self.all(deadline)?.into_iter().map(listed).collect())
    }

    /// All groups with their members, in the order of their keys.
    pub fn describe_all(&self, deadline: Instant) -> StoreResult<Vec<(String, Described)>> {
        Ok(self.all(deadline)?.into_iter().map(|(name, group, _)| (name, described(&group))).collect())
    }

    fn all(&self, deadline: Instant) -> StoreResult<Vec<(String, Group, Option<Owner>)>> {
        let now = self.clock.now();
        let mut groups = Vec::new();
        for (key, entry) in self.entries(deadline)? {
            let Some(name) = keys::text_of(&key) else { continue };
            let known = self.find(&name).and_then(|cell| cell.committed());
            let stored = entry.value.as_ref().and_then(|value| record::decode(value, now));
            let (stored, owner) = stored.map_or((None, None), |(stored, label)| (Some(stored), label.owner));
            groups.extend(known.or(stored).map(|group| (name, group, owner)));
        }
        Ok(groups)
    }

    /// Removes some of a group's commits; one code for each asked for. A consumer that is subscribed to the topic keeps them.
    pub fn delete_offsets(
        &self,
        group: &str,
        asked: &[TopicPartition],
        deadline: Instant,
    ) -> StoreResult<Result<Vec<ErrorCode>, ErrorCode>> {
        let Some(known) = self.look_at(group, deadline)? else {
            return Ok(Err(ErrorCode::GROUP_ID_NOT_FOUND));
        };
        if known.state != State::Empty && !known.is_consumer_group() {
            return Ok(Err(ErrorCode::NON_EMPTY_GROUP));
        }
        let code = |at: &TopicPartition| {
            if known.is_subscribed_to(&at.topic) { ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC } else { ErrorCode::NONE }
        };
        let codes: Vec<ErrorCode> = asked.iter().map(code).collect();
        if codes.contains(&ErrorCode::NONE) {
            let asked: HashSet<&TopicPartition> = asked.iter().collect();
            let unwanted = |at: &TopicPartition| asked.contains(at) && !known.is_subscribed_to(&at.topic);
            self.offsets.remove(group, deadline, &|at, _| unwanted(at))?;
        }
        Ok(Ok(codes))
    }

    /// The group as it is committed. One that has only commits is an empty group.
    fn look_at(&self, group: &str, deadline: Instant) -> StoreResult<Option<Group>> {
        if let Some(known) = self.find(group).and_then(|cell| cell.committed()) {
            return Ok(Some(known));
        }
        let now = self.clock.now();
        let entry = self.read(&keys::token(group), deadline)?;
        if let Some((stored, _)) = entry.value.as_ref().and_then(|value| record::decode(value, now)) {
            return Ok(Some(stored));
        }
        let has_commits = !self.offsets.stored(group, deadline)?.is_empty();
        Ok(has_commits.then(|| Group::new(now)))
    }
}

fn described(group: &Group) -> Described {
    let stable = group.state == State::Stable;
    let protocol_name = group.protocol_name.clone().filter(|_| stable).unwrap_or_default();
    let member = |m: &Member| DescribedMember {
        id: m.id.to_string(),
        instance_id: m.instance_id.as_deref().map(str::to_owned),
        client_id: m.client_id.to_string(),
        client_host: m.client_host.to_string(),
        metadata: if stable { m.metadata(&protocol_name) } else { Bytes::new() },
        assignment: m.assignment.clone(),
    };
    Described {
        state: group.state,
        protocol_type: group.protocol_type.clone().unwrap_or_default(),
        members: group.members().into_iter().map(member).collect(),
        protocol_name: protocol_name.clone(),
    }
}
