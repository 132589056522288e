//! What a group is asked and what it answers, in the domain's own types.

use crate::protocol::error_code::ErrorCode;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// Names the request that waits for a reply; the service keeps what is behind it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub u64);

pub type MemberId = Arc<str>;

/// A protocol (assignor) that a member can use, with the metadata it sends for it. The metadata is opaque here.
#[derive(Clone, Debug, PartialEq)]
pub struct Protocol {
    pub name: String,
    pub metadata: Bytes,
}

#[derive(Clone, Debug)]
pub struct Join {
    /// Empty: the member has none yet.
    pub member_id: String,
    pub instance_id: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub protocol_type: String,
    /// In the member's order of preference.
    pub protocols: Vec<Protocol>,
    pub session_timeout: Duration,
    pub rebalance_timeout: Duration,
    /// From version 4 on (KIP-394): a new dynamic member must come back with the id it is given.
    pub member_id_required: bool,
    /// From version 9 on (KIP-814): a returning static leader can be told not to assign again.
    pub can_skip_assignment: bool,
    /// The client's own words, for the log.
    pub reason: Option<String>,
    /// The id to give if one is needed; made by the caller, because transitions know no chance.
    pub fresh_member_id: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct JoinReply {
    pub error: ErrorCode,
    /// -1 with an error.
    pub generation: i32,
    pub protocol_type: Option<String>,
    pub protocol_name: Option<String>,
    pub leader: String,
    pub skip_assignment: bool,
    pub member_id: String,
    /// All members, for the leader only.
    pub members: Vec<JoinedMember>,
}

impl JoinReply {
    pub fn refused(error: ErrorCode, member_id: &str) -> JoinReply {
        JoinReply {
            error,
            generation: -1,
            protocol_type: None,
            protocol_name: None,
            leader: String::new(),
            skip_assignment: false,
            member_id: member_id.to_owned(),
            members: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct JoinedMember {
    pub member_id: String,
    pub instance_id: Option<String>,
    pub metadata: Bytes,
}

/// Who sends a request, as the group is to check it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sender {
    pub member_id: String,
    pub instance_id: Option<String>,
    pub generation: i32,
}

#[derive(Clone, Debug)]
pub struct Sync {
    pub sender: Sender,
    /// Checked against the group's where it is given.
    pub protocol_type: Option<String>,
    pub protocol_name: Option<String>,
    /// From the leader: member ids and what each is assigned.
    pub assignments: Vec<(String, Bytes)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SyncReply {
    pub error: ErrorCode,
    pub protocol_type: Option<String>,
    pub protocol_name: Option<String>,
    pub assignment: Bytes,
}

impl SyncReply {
    pub fn refused(error: ErrorCode) -> SyncReply {
        SyncReply { error, protocol_type: None, protocol_name: None, assignment: Bytes::new() }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Leaving {
    /// Empty: the member is named by its instance id alone, as administrators do.
    pub member_id: String,
    pub instance_id: Option<String>,
    pub reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LeaveReply {
    /// Set if nothing was done for anybody.
    pub error: ErrorCode,
    /// One for each that was to leave, in the request's order.
    pub members: Vec<(Leaving, ErrorCode)>,
}

#[derive(Clone, Debug)]
pub enum Event {
    Join(Join),
    Sync(Sync),
    Leave(Vec<Leaving>),
    /// The client that waits under this token is gone.
    Abandon(Token),
    /// Time has passed: whatever is due by now is done.
    Tick,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Join(JoinReply),
    Sync(SyncReply),
    Leave(LeaveReply),
}
