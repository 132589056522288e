//! Settings of a topic that is there, changed: all streams or none.
//!
//! What holds for a topic is what partition 0 says. So the streams of the other partitions get their new limits first and
//! partition 0 comes last, with the settings in its metadata: its update is the change. Each change of limits has a
//! number; a stream with another number than partition 0's was left behind by a gateway that died in between, and is
//! brought in line by the next slow poll (ADR 25).

use super::claim::Claim;
use super::room::Asked;
use super::settings::{self, Change};
use super::streams::{self, Found, Limits, Standing};
use super::{Catalog, CatalogDefaults, TopicSettings, names};
use crate::store::{StoreError, StoreResult};
use crate::wire::Uuid;
use serde_json::Value;
use slog::{info, warn};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

/// Why a topic was not changed. The texts are for the user.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterTopicError {
    /// There is no such topic.
    Unknown(String),
    InvalidSetting(String),
    InvalidPartitions(String),
    /// The server has no room for the streams with their new limits.
    NoRoom(String),
    Store(StoreError),
}

impl fmt::Display for AlterTopicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AlterTopicError::Unknown(name) => write!(f, "The topic '{name}' does not exist."),
            AlterTopicError::InvalidSetting(text)
            | AlterTopicError::InvalidPartitions(text)
            | AlterTopicError::NoRoom(text) => f.write_str(text),
            AlterTopicError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AlterTopicError {}

impl From<StoreError> for AlterTopicError {
    fn from(error: StoreError) -> Self {
        AlterTopicError::Store(error)
    }
}

/// How a topic's settings are to change.
#[derive(Clone, Debug, PartialEq)]
pub enum Alteration {
    /// One by one, the others stay.
    Each(Vec<(String, Change)>),
    /// These and no others.
    All(BTreeMap<String, String>),
}

impl Alteration {
    /// The settings given afterwards, checked.
    fn of(
        &self,
        given: &BTreeMap<String, String>,
        defaults: &CatalogDefaults,
    ) -> Result<BTreeMap<String, String>, AlterTopicError> {
        let after = match self {
            Alteration::Each(changes) => settings::altered(given, changes, defaults),
            Alteration::All(all) => Ok(all.clone()),
        };
        let after = after.map_err(AlterTopicError::InvalidSetting)?;
        match settings::fault_after(given, &after) {
            Some(fault) => Err(AlterTopicError::InvalidSetting(fault)),
            None => Ok(after),
        }
    }
}

impl Catalog {
    /// Whether a topic's settings could be changed so, as far as that can be told without trying.
    pub fn validate_alteration(&self, name: &str, alteration: &Alteration) -> Result<(), AlterTopicError> {
        let topic = self.topic(name)?;
        let given = topic.as_ref().map(|topic| topic.settings.given.clone()).unwrap_or_default();
        alteration.of(&given, &self.defaults())?;
        topic.map(drop).ok_or_else(|| AlterTopicError::Unknown(name.to_owned()))
    }

    /// Changes a topic's settings, in the store and for all gateways.
    pub fn alter(&self, name: &str, alteration: &Alteration, deadline: Instant) -> Result<(), AlterTopicError> {
        self.validate_alteration(name, alteration)?;
        let _turn = self.take_turn(name, deadline)?;
        let mut claim = self.claim(name, deadline)?;
        let outcome = self.alter_claimed(name, alteration, &mut claim);
        if matches!(outcome, Err(AlterTopicError::Store(StoreError::NoAnswer))) {
            claim.keep();
        }
        drop(claim);
        // What was changed is shown at once; if it cannot be looked at now, it will be when it is asked for.
        self.invalidate(name);
        outcome
    }

    fn alter_claimed(&self, name: &str, alteration: &Alteration, claim: &mut Claim) -> Result<(), AlterTopicError> {
        let Some(Standing::Whole(known)) = self.examine(name)? else {
            return Err(AlterTopicError::Unknown(name.to_owned()));
        };
        let partitions = known.topic.partitions.len();
        let zero = self.part(name, Some(known.topic.id), 0, claim)?;
        let defaults = self.defaults();
        let given = zero.given();
        let after = alteration.of(&given, &defaults)?;
        if after == given {
            return Ok(());
        }
        let (before, resolved) = (zero.settings(&defaults), settings::resolve(after.clone(), &defaults));
        let mut config = zero.with_given(&after);
        let limits = changed_limits(&before, &resolved, &defaults);
        if limits.is_none() {
            self.commit(&zero, &config, claim)?;
            info!(self.logger, "topic altered"; "topic" => name);
            return Ok(());
        }
        let revision = zero.limits_revision() + 1;
        limits.apply_numbered(&mut config, revision);
        let mut done = Vec::new();
        let limited = self.limit_others(&zero, partitions, &limits, revision, claim, &mut done);
        let outcome = match limited {
            Ok(()) => self.commit(&zero, &config, claim).inspect_err(|error| {
                // It may come to hold yet: then the others are as they should be, and otherwise the slow poll sees it.
                if *error == StoreError::NoAnswer {
                    done.clear();
                }
            }),
            Err(error) => Err(error),
        };
        match outcome {
            Ok(()) => {
                info!(self.logger, "topic altered, with its limits"; "topic" => name, "partitions" => partitions);
                Ok(())
            }
            Err(error) => {
                self.put_back(&done, claim);
                let bytes = streams::max_bytes(&resolved, &defaults);
                let asked = Asked { partitions, bytes, replicas: zero.replicas() };
                Err(match self.no_room(&error, &asked) {
                    Some(text) => AlterTopicError::NoRoom(text),
                    None => AlterTopicError::Store(error),
                })
            }
        }
    }

    /// Gives the streams of all partitions but the first new limits. `done` gets what they were before.
    fn limit_others(
        &self,
        zero: &Found,
        partitions: usize,
        limits: &Limits,
        revision: u64,
        claim: &mut Claim,
        done: &mut Vec<Value>,
    ) -> StoreResult<()> {
        for partition in (1..partitions).rev() {
            let found = self.part(&zero.topic, zero.id, partition, claim)?;
            let mut config = found.config().clone();
            limits.apply_numbered(&mut config, revision);
            // Before the outcome is known: an update whose answer is lost is put back too.
            done.push(found.config().clone());
            self.update(&config, claim)?;
        }
        Ok(())
    }

    /// Updates partition 0, which makes a change hold.
    pub(super) fn commit(&self, zero: &Found, config: &Value, claim: &mut Claim) -> StoreResult<()> {
        match self.update(config, claim) {
            // Only that it holds can be seen: it may come to hold yet.
            Err(StoreError::NoAnswer) => match self.part(&zero.topic, zero.id, 0, claim) {
                Ok(found) if streams::same_metadata(found.config(), config) => Ok(()),
                _ => Err(StoreError::NoAnswer),
            },
            outcome => outcome,
        }
    }

    pub(super) fn update(&self, config: &Value, claim: &mut Claim) -> StoreResult<()> {
        let by = claim.deadline()?;
        self.persist(by, |call| self.store.stream_update(config, call)).map(drop)
    }

    /// Undoes a change that did not come to hold. What cannot be undone now, the slow poll does.
    fn put_back(&self, done: &[Value], claim: &mut Claim) {
        claim.extend();
        for config in done {
            if let Err(error) = self.update(config, claim) {
                warn!(self.logger, "limits of a change that failed are left to the slow poll"; "stream" => %config["name"],
                    "error" => %error);
                return;
            }
        }
    }

    /// The partition of the topic with that id (or that was made without one), read at its stream's leader.
    pub(super) fn part(&self, name: &str, id: Option<Uuid>, partition: usize, claim: &mut Claim) -> StoreResult<Found> {
        let by = claim.deadline()?;
        let info = self.persist(by, |call| self.store.stream_info(&names::stream(name, partition), call))?;
        let found = streams::read(&info).filter(|found| found.topic == name);
        found.filter(|found| id.is_none() || found.id.is_none() || found.id == id).ok_or(StoreError::NoStream)
    }
}

/// The limits that another choice of settings brings; an axis that it does not touch stays as the stream has it.
fn changed_limits(before: &TopicSettings, after: &TopicSettings, defaults: &CatalogDefaults) -> Limits {
    let policy = before.never_deleted != after.never_deleted;
    let touched = |name: &str| policy || before.given.get(name) != after.given.get(name);
    Limits {
        max_age_ns: touched("retention.ms").then(|| streams::max_age_ns(after)),
        max_bytes: touched("retention.bytes").then(|| streams::max_bytes(after, defaults)),
    }
}
