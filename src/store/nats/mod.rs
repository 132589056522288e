//! The store over the blocking `nats` crate.
