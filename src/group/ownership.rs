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

/// What is known of a gateway process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Live,
    /// Its lease has run out or was given back: what it owned may be taken.
    Gone,
    /// The leases could not be read lately. Not a reason to take anything.
    Unknown,
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
