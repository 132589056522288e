//! Who serves a group: one gateway process at a time, recorded in the group's stored state.

use crate::wire::Uuid;

/// A gateway process. A restarted gateway is another process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnerId(pub String);

impl OwnerId {
    pub fn random() -> OwnerId {
        OwnerId(Uuid::random().to_string())
    }
}

/// Which gateway processes are alive. A group is only taken from one that is not.
pub trait Leases: Send + Sync {
    fn is_live(&self, process: &str) -> bool;
}

/// The view of a gateway that shares its store with no other: whoever else is recorded is a former self.
pub struct Alone(pub OwnerId);

impl Leases for Alone {
    fn is_live(&self, process: &str) -> bool {
        process == self.0.0
    }
}
