//! A group as it stands in the store: one sealed JSON object.

use super::event::{Join, MemberId, Protocol};
use super::state::{Group, JoinTimer, Member, State};
use crate::clock::Now;
use crate::sealed;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Whose word on the group counts: a gateway process, and how many times the group has been claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub gateway: String,
    pub epoch: i64,
}

/// What a stored value says beside the group itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    /// `None`: the last owner released the group.
    pub owner: Option<Owner>,
    /// Tells this write from all others.
    pub nonce: String,
}

/// Members that were in no generation yet are left out: nobody has told them that they belong.
pub fn encode(group: &Group, label: &Label) -> Bytes {
    let members: Vec<&Member> = group.members().into_iter().filter(|m| !m.is_new).collect();
    let owner = label.owner.as_ref().map(|o| json!({"gateway": o.gateway, "epoch": o.epoch}));
    sealed::seal(&json!({
        "owner": owner,
        "nonce": label.nonce,
        "state": group.state.name(),
        "since_ms": group.since_ms,
        "generation": group.generation,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol_name,
        "leader": group.leader.as_deref(),
        "members": members.into_iter().map(member_json).collect::<Vec<Value>>(),
    }))
}

fn member_json(member: &Member) -> Value {
    let protocol = |p: &Protocol| json!({"name": p.name, "metadata": STANDARD.encode(&p.metadata)});
    json!({
        "id": &*member.id,
        "instance_id": member.instance_id.as_deref(),
        "client_id": &*member.client_id,
        "client_host": &*member.client_host,
        "session_timeout_ms": millis(member.session_timeout),
        "rebalance_timeout_ms": millis(member.rebalance_timeout),
        "protocols": member.protocols.iter().map(protocol).collect::<Vec<Value>>(),
        "assignment": STANDARD.encode(&member.assignment),
    })
}

/// The group as whoever takes it over begins with it: every member has a full session timeout, and a rebalance that was under
/// way starts again. `None` if the value is damaged.
pub fn decode(bytes: &[u8], now: Now) -> Option<(Group, Label)> {
    let value = sealed::open(bytes)?;
    let mut group = Group::new(now);
    group.state = State::from_name(value.get("state")?.as_str()?)?;
    group.since_ms = value.get("since_ms")?.as_i64()?;
    group.generation = i32::try_from(value.get("generation")?.as_i64()?).ok()?;
    group.protocol_type = text(&value, "protocol_type");
    group.protocol_name = text(&value, "protocol_name");
    for member in value.get("members")?.as_array()? {
        group.insert(decode_member(member, now)?);
    }
    if let Some(leader) = text(&value, "leader").filter(|id| group.members.contains_key(id.as_str())) {
        group.leader = Some(leader.into());
    }
    group.read_subscriptions();
    resume(&mut group, now);
    Some((group, label_of(&value)?))
}

/// Who wrote a stored value. `None` if the value is damaged.
pub fn label(bytes: &[u8]) -> Option<Label> {
    label_of(&sealed::open(bytes)?)
}

fn label_of(value: &Value) -> Option<Label> {
    let owner = match value.get("owner")? {
        Value::Null => None,
        owner => Some(Owner { gateway: text(owner, "gateway")?, epoch: owner.get("epoch")?.as_i64()? }),
    };
    Some(Label { owner, nonce: text(value, "nonce")? })
}

fn resume(group: &mut Group, now: Now) {
    if group.state == State::Stable {
        return;
    }
    if group.members.is_empty() {
        if group.state != State::Empty {
            group.protocol_name = None;
            group.enter(State::Empty, now);
        }
        return;
    }
    group.enter(State::PreparingRebalance, now);
    group.join_timer = Some(JoinTimer::Rebalance { at: now.mono + group.rebalance_timeout() });
}

fn decode_member(value: &Value, now: Now) -> Option<Member> {
    let id: MemberId = text(value, "id")?.into();
    let mut protocols = Vec::new();
    for protocol in value.get("protocols")?.as_array()? {
        protocols.push(Protocol { name: text(protocol, "name")?, metadata: binary(protocol, "metadata")? });
    }
    let mut member = Member {
        id,
        instance_id: text(value, "instance_id").map(Arc::from),
        client_id: text(value, "client_id")?.into(),
        client_host: text(value, "client_host")?.into(),
        session_timeout: duration(value, "session_timeout_ms")?,
        rebalance_timeout: duration(value, "rebalance_timeout_ms")?,
        protocols: protocols.into(),
        assignment: binary(value, "assignment")?,
        order: 0,
        is_new: false,
        session_end: None,
        awaiting_join: None,
        awaiting_sync: None,
        pending_sync: false,
    };
    member.touch(now);
    Some(member)
}

fn text(value: &Value, name: &str) -> Option<String> {
    value.get(name)?.as_str().map(str::to_owned)
}

fn binary(value: &Value, name: &str) -> Option<Bytes> {
    STANDARD.decode(value.get(name)?.as_str()?).ok().map(Bytes::from)
}

fn duration(value: &Value, name: &str) -> Option<Duration> {
    value.get(name)?.as_u64().map(Duration::from_millis)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Never less than the size of `encode`'s result.
pub fn bytes_max(group: &Group) -> usize {
    let member = |m: &Member| {
        let names = [Some(&*m.id), Some(&*m.client_id), Some(&*m.client_host), m.instance_id.as_deref()];
        member_bytes_max(&names, &m.protocols) + base64_bytes(m.assignment.len())
    };
    let texts = [group.protocol_type.as_deref(), group.protocol_name.as_deref(), group.leader.as_deref()];
    // Field names, numbers, owner, nonce and seal, and what the texts take.
    600 + json_bytes(&texts) + group.members.values().map(member).sum::<usize>()
}

/// What a member that joins so adds, its assignment left out.
pub fn join_bytes_max(join: &Join) -> usize {
    let names = [
        Some(join.fresh_member_id.as_str()),
        Some(join.client_id.as_str()),
        Some(join.client_host.as_str()),
        join.instance_id.as_deref(),
    ];
    member_bytes_max(&names, &join.protocols)
}

fn member_bytes_max(names: &[Option<&str>], protocols: &[Protocol]) -> usize {
    let protocol = |p: &Protocol| 40 + json_bytes(&[Some(p.name.as_str())]) + base64_bytes(p.metadata.len());
    // Field names and numbers.
    300 + json_bytes(names) + protocols.iter().map(protocol).sum::<usize>()
}

fn base64_bytes(length: usize) -> usize {
    length.div_ceil(3) * 4
}

fn json_bytes(texts: &[Option<&str>]) -> usize {
    let escaped = |b: &u8| *b < 0x20 || *b == b'"' || *b == b'\\';
    let bytes = |text: &str| text.len() + 5 * text.as_bytes().iter().filter(|b| escaped(b)).count();
    texts.iter().flatten().map(|text| bytes(text)).sum()
}
