//! The right to change a topic, among all gateways of a store.
//!
//! JetStream updates a stream's configuration unguarded: the last one wins. So whoever changes a topic that is there first
//! writes its name into the bucket `kafka-gateways`, by compare-and-set. A claim ends when it is given back, or with its
//! time, when a gateway died or does not know whether its last update may still arrive (ADR 25). A deletion writes down what
//! it deletes, so that what one that was cut short has left can be told from what somebody else has damaged.

use super::{Catalog, LOOK_TIMEOUT};
use crate::cluster::BUCKET;
use crate::limits::{CLAIM_LASTS, CLAIM_USED_MAX};
use crate::sealed;
use crate::store::{KvBucket, KvEntry, Sequence, StoreError, StoreResult, keys, kv_replace};
use crate::wire::Uuid;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Pauses between looks at a claim of somebody else's.
const PAUSE: Duration = Duration::from_millis(50);

pub(super) struct Claim<'a> {
    catalog: &'a Catalog,
    key: String,
    revision: Sequence,
    taken: Instant,
    /// When the change must be done, however often the claim is renewed.
    by: Instant,
    kept: bool,
    /// The topic whose deletion has begun, be it by who had the claim before, and is not known to have ended.
    deleting: Option<Uuid>,
}

const UNTIL: &str = "until_ms";
const DELETING: &str = "deleting";
/// Tells our own write from another one's.
const NONCE: &str = "nonce";

/// What a claim says.
fn open(entry: &KvEntry) -> Option<Value> {
    entry.value.as_deref().and_then(sealed::open)
}

fn deleting_of(said: Option<&Value>) -> Option<Uuid> {
    said.and_then(|said| said[DELETING].as_str()).and_then(Uuid::parse)
}

fn key_of(name: &str) -> String {
    format!("changing.{}", keys::token(name))
}

impl Catalog {
    /// Claims a topic; waits for others until `deadline`, then it is `Busy`.
    pub(super) fn claim(&self, name: &str, deadline: Instant) -> StoreResult<Claim<'_>> {
        let patience = deadline.saturating_duration_since(self.clock.now().mono);
        let looks = 1 + patience.as_millis() / PAUSE.as_millis();
        for look in 0..looks {
            if look > 0 {
                let changing = self.changing.lock().expect("no holder panics");
                drop(self.changed.wait_timeout(changing, PAUSE).expect("no holder panics"));
            }
            match self.try_claim(name, deadline) {
                Err(StoreError::WrongLast(_) | StoreError::Busy) => {}
                outcome => return outcome,
            }
        }
        Err(StoreError::Busy)
    }

    /// Claims a topic, for a change that is to be done by `by`, if nobody else has it.
    pub(super) fn try_claim(&self, name: &str, by: Instant) -> StoreResult<Claim<'_>> {
        let key = key_of(name);
        let now = self.clock.now();
        let entry = self.claim_entry(&key, now.mono + LOOK_TIMEOUT)?;
        let said = open(&entry);
        let held = said.as_ref().and_then(|said| said[UNTIL].as_i64());
        if held.is_some_and(|until_ms| now.wall_ms < until_ms) {
            return Err(StoreError::Busy);
        }
        let deleting = deleting_of(said.as_ref());
        let revision = self.write_claim(&key, entry.revision, CLAIM_LASTS, deleting)?;
        Ok(Claim { catalog: self, key, revision, taken: now.mono, by, kept: false, deleting })
    }

    /// The topic of that name whose deletion has begun and is not known to have ended.
    pub(super) fn half_deleted(&self, name: &str, deadline: Instant) -> StoreResult<Option<Uuid>> {
        let entry = self.claim_entry(&key_of(name), deadline)?;
        Ok(deleting_of(open(&entry).as_ref()))
    }

    fn claim_entry(&self, key: &str, deadline: Instant) -> StoreResult<KvEntry> {
        match self.store.kv_get(BUCKET, key, deadline) {
            Err(StoreError::NoStream) => {
                let replicas = self.defaults.replicas;
                self.store.kv_ensure(&KvBucket { name: BUCKET.to_owned(), replicas, max_age_ms: None }, deadline)?;
                // A cluster may not know the new bucket for a moment, which says nothing of a topic.
                self.store.kv_get(BUCKET, key, deadline).map_err(|error| match error {
                    StoreError::NoStream => StoreError::Unavailable,
                    other => other,
                })
            }
            outcome => outcome,
        }
    }

    fn write_claim(
        &self,
        key: &str,
        expected: Sequence,
        lasts: Duration,
        deleting: Option<Uuid>,
    ) -> StoreResult<Sequence> {
        let now = self.clock.now();
        let lasts_ms = i64::try_from(lasts.as_millis()).expect("a claim lasts seconds");
        let deleting = deleting.map(|id| id.to_string());
        let nonce = Uuid::random().to_string();
        let value = json!({ UNTIL: now.wall_ms.saturating_add(lasts_ms), DELETING: deleting, NONCE: nonce });
        let value = Some(sealed::seal(&value));
        match kv_replace(&*self.store, BUCKET, key, value, expected, now.mono + LOOK_TIMEOUT) {
            // It may have been the answer that was lost.
            Err(StoreError::NoAnswer) => {
                let entry = self.store.kv_get(BUCKET, key, self.clock.now().mono + LOOK_TIMEOUT)?;
                let is_ours = open(&entry).is_some_and(|said| said[NONCE].as_str() == Some(nonce.as_str()));
                if is_ours { Ok(entry.revision) } else { Err(StoreError::NoAnswer) }
            }
            outcome => outcome,
        }
    }
}

impl Claim<'_> {
    /// Until when calls may be made under this claim, which is renewed if it is no longer young.
    pub fn deadline(&mut self) -> StoreResult<Instant> {
        let now = self.catalog.clock.now().mono;
        if now >= self.taken + CLAIM_USED_MAX / 2 {
            self.renew(now, self.deleting)?;
        }
        Ok(self.by.min(self.taken + CLAIM_USED_MAX))
    }

    /// Lets undoing take some time beyond the deadline.
    pub fn extend(&mut self) {
        self.by = self.by.max(self.catalog.clock.now().mono + LOOK_TIMEOUT);
    }

    /// Writes down that this topic is being deleted.
    pub fn begin_deletion(&mut self, id: Uuid) -> StoreResult<()> {
        self.renew(self.catalog.clock.now().mono, Some(id))
    }

    fn renew(&mut self, now: Instant, deleting: Option<Uuid>) -> StoreResult<()> {
        self.revision = self.catalog.write_claim(&self.key, self.revision, CLAIM_LASTS, deleting)?;
        (self.taken, self.deleting) = (now, deleting);
        Ok(())
    }

    /// Nothing is left of the topic.
    pub fn end_deletion(&mut self) {
        self.deleting = None;
    }

    /// Leaves it to its time: a change whose outcome is not known may still arrive.
    pub fn keep(&mut self) {
        self.kept = true;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // Who cannot give it back lets it run out.
        let _ = match self.deleting {
            Some(_) => self.catalog.write_claim(&self.key, self.revision, Duration::ZERO, self.deleting),
            None => {
                let deadline = self.catalog.clock.now().mono + LOOK_TIMEOUT;
                kv_replace(&*self.catalog.store, BUCKET, &self.key, None, self.revision, deadline)
            }
        };
    }
}
