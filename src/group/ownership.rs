//! Who serves a group: one gateway process at a time, recorded in the group's stored state.

pub use crate::cluster::Standing;

use crate::cluster::Lease;
use crate::wire::Uuid;

/// A gateway process. A restarted gateway is another process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnerId(pub String);

impl OwnerId {
    pub fn random() -> OwnerId {
        OwnerId(Uuid::random().to_string())
    }
}

/// Which gateway processes are alive. Answered from memory. A group is only taken from one that is gone, and only while
/// our own lease stands.
pub trait Leases: Send + Sync {
    fn standing(&self, process: &str) -> Standing;

    /// Whether our own lease stands. Otherwise others may already take what is ours: we serve no group.
    fn holds(&self) -> bool;

    /// The live process that should take a group without an owner, the same from every gateway's view of the same
    /// leases. Only a hint; `None` while nobody is known.
    fn preferred(&self, group: &str) -> Option<String>;

    /// Grows each time our lease was lost and taken anew: what was claimed before may be another's.
    fn term(&self) -> u64 {
        0
    }
}

impl Leases for Lease {
    fn standing(&self, process: &str) -> Standing {
        self.standing(process)
    }

    fn holds(&self) -> bool {
        self.holds()
    }

    fn preferred(&self, group: &str) -> Option<String> {
        self.preferred(group)
    }

    fn term(&self) -> u64 {
        self.term()
    }
}

/// The view of a gateway that shares its store with no other: whoever else is recorded is a former self.
pub struct Alone(pub OwnerId);

impl Leases for Alone {
    fn standing(&self, process: &str) -> Standing {
        if process == self.0.0 { Standing::Live } else { Standing::Gone }
    }

    fn holds(&self) -> bool {
        true
    }

    fn preferred(&self, _group: &str) -> Option<String> {
        Some(self.0.0.clone())
    }
}
