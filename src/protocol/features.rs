//! The features that ApiVersions tells (KIP-584), which UpdateFeatures checks against.
//!
//! A feature is told only if what it stands for is here. `metadata.version` is: tools take it for the release that a
//! cluster behaves like. There is one level of it, so it is finalized and cannot be changed. `transaction.version`,
//! `group.version`, `share.version`, `streams.version`, `kraft.version` and `eligible.leader.replicas.version` are not
//! told, so they count as level 0 everywhere (ADR 41).

/// A feature with the levels that are supported; the highest is the finalized one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Feature {
    pub name: &'static str,
    pub min: i16,
    pub max: i16,
}

/// In the order of their names.
pub const FEATURES: &[Feature] = &[Feature { name: "metadata.version", min: METADATA_4_0, max: METADATA_4_0 }];

/// Nothing is ever finalized anew, so it never grows.
pub const FINALIZED_EPOCH: i64 = 0;

/// `metadata.version` 4.0-IV3.
const METADATA_4_0: i16 = 25;

/// The finalized level of a feature, 0 for one that is not there, as in Kafka.
pub fn finalized(name: &str) -> i16 {
    find(name).map_or(0, |feature| feature.max)
}

pub fn find(name: &str) -> Option<&'static Feature> {
    FEATURES.iter().find(|feature| feature.name == name)
}
