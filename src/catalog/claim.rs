//! The right to change a topic, among all gateways of a store.
//!
//! JetStream updates a stream's configuration unguarded: the last one wins. So whoever changes a topic that is there first
//! writes its name into the bucket `kafka-gateways`, by compare-and-set. A claim ends when it is given back, or with its
//! time, when a gateway died or does not know whether its last update may still arrive (ADR 25). A deletion writes down what
//! it deletes, so that what one that was cut short has left can be told from what somebody else has damaged, and until when a
//! removal that got no answer may still arrive: until then no topic of that name is made, which it would meet.

use super::{Catalog, LOOK_TIMEOUT, names};
use crate::clock::Now;
use crate::cluster::BUCKET;
use crate::limits::{CLAIM_LASTS, CLAIM_USED_MAX};
use crate::sealed;
use crate::store::{KvBucket, KvEntry, Sequence, StoreError, StoreResult, keys, kv_get_or_make, kv_replace};
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
    removal: Removal,
}

/// What is known of a topic's removal, be it from who had the claim before.
#[derive(Clone, Copy, Default)]
struct Removal {
    /// The topic whose deletion has begun and is not known to have ended.
    deleting: Option<Uuid>,
    /// Until when one that got no answer may still arrive, in milliseconds since the epoch; 0: there is none.
    late_ms: i64,
}

const UNTIL: &str = "until_ms";
const DELETING: &str = "deleting";
const LATE: &str = "late_ms";
/// Tells our own write from another one's.
const NONCE: &str = "nonce";

/// What a claim says.
struct Said {
    /// Until when it is held, in milliseconds since the epoch.
    until_ms: i64,
    removal: Removal,
    nonce: Option<String>,
}

fn open(entry: &KvEntry) -> Said {
    let value = entry.value.as_deref().and_then(sealed::open).unwrap_or(Value::Null);
    let ms = |field: &str| value[field].as_i64().unwrap_or(0);
    Said {
        until_ms: ms(UNTIL),
        removal: Removal { deleting: value[DELETING].as_str().and_then(Uuid::parse), late_ms: ms(LATE) },
        nonce: value[NONCE].as_str().map(str::to_owned),
    }
}

/// In milliseconds since the epoch.
fn after(now: Now, time: Duration) -> i64 {
    now.wall_ms.saturating_add(i64::try_from(time.as_millis()).expect("a claim lasts seconds"))
}

const PREFIX: &str = "changing.";

fn key_of(name: &str) -> String {
    format!("{PREFIX}{}", keys::token(name))
}

impl Catalog {
    /// Claims a topic; waits for others until `deadline`, then it is `Busy`.
    pub(super) fn claim(&self, name: &str, deadline: Instant) -> StoreResult<Claim<'_>> {
        self.when_free(deadline, || self.try_claim(name, deadline))
    }

    /// Waits until nobody has a claim on that name, and no removal may still arrive; `Busy` when the time is up.
    pub(super) fn await_removal(&self, name: &str, deadline: Instant) -> StoreResult<()> {
        let key = key_of(name);
        self.when_free(deadline, || {
            let now = self.clock.now();
            let said = open(&self.claim_entry(&key, now.mono + LOOK_TIMEOUT)?);
            if now.wall_ms < said.until_ms.max(said.removal.late_ms) { Err(StoreError::Busy) } else { Ok(()) }
        })
    }

    /// Asks again and again while others are in the way.
    fn when_free<T>(&self, deadline: Instant, ask: impl Fn() -> StoreResult<T>) -> StoreResult<T> {
        let patience = deadline.saturating_duration_since(self.clock.now().mono);
        let looks = 1 + patience.as_millis() / PAUSE.as_millis();
        for look in 0..looks {
            if look > 0 {
                let changing = self.changing.lock().expect("no holder panics");
                drop(self.changed.wait_timeout(changing, PAUSE).expect("no holder panics"));
            }
            match ask() {
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
        let Said { until_ms, removal, .. } = open(&entry);
        if now.wall_ms < until_ms {
            return Err(StoreError::Busy);
        }
        let revision = self.write_claim(&key, entry.revision, CLAIM_LASTS, removal)?;
        Ok(Claim { catalog: self, key, revision, taken: now.mono, by, kept: false, removal })
    }

    /// The topic of that name that is not served, but can be deleted.
    pub fn deletable(&self, name: &str, deadline: Instant) -> StoreResult<Option<Uuid>> {
        if names::fault(name).is_some() {
            return Ok(None);
        }
        self.half_deleted(name, deadline)?.map_or_else(|| self.damaged(name), |id| Ok(Some(id)))
    }

    /// The topic of that name whose deletion has begun and is not known to have ended.
    pub(super) fn half_deleted(&self, name: &str, deadline: Instant) -> StoreResult<Option<Uuid>> {
        let entry = self.claim_entry(&key_of(name), deadline)?;
        Ok(open(&entry).removal.deleting)
    }

    /// The name of the topic with that id whose deletion has begun and is not known to have ended.
    pub fn half_deleted_by_id(&self, id: Uuid, deadline: Instant) -> StoreResult<Option<String>> {
        let entries = match self.store.kv_list(BUCKET, &format!("{PREFIX}*"), deadline) {
            Err(StoreError::NoStream) => Vec::new(),
            listed => listed?,
        };
        let found = entries.into_iter().find(|(_, entry)| open(entry).removal.deleting == Some(id));
        Ok(found.and_then(|(key, _)| keys::text_of(key.strip_prefix(PREFIX)?)))
    }

    fn claim_entry(&self, key: &str, deadline: Instant) -> StoreResult<KvEntry> {
        let bucket = KvBucket { name: BUCKET.to_owned(), replicas: self.defaults.replicas, max_age_ms: None };
        kv_get_or_make(&*self.store, &bucket, key, deadline)
    }

    fn write_claim(&self, key: &str, expected: Sequence, lasts: Duration, removal: Removal) -> StoreResult<Sequence> {
        let now = self.clock.now();
        let (deleting, nonce) = (removal.deleting.map(|id| id.to_string()), Uuid::random().to_string());
        let value = json!({ UNTIL: after(now, lasts), DELETING: deleting, LATE: removal.late_ms, NONCE: nonce });
        let value = Some(sealed::seal(&value));
        match kv_replace(&*self.store, BUCKET, key, value, expected, now.mono + LOOK_TIMEOUT) {
            // It may have been the answer that was lost.
            Err(StoreError::NoAnswer) => {
                let entry = self.store.kv_get(BUCKET, key, self.clock.now().mono + LOOK_TIMEOUT)?;
                if open(&entry).nonce == Some(nonce) { Ok(entry.revision) } else { Err(StoreError::NoAnswer) }
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
            self.renew(now)?;
        }
        Ok(self.by.min(self.taken + CLAIM_USED_MAX))
    }

    /// Lets undoing take some time beyond the deadline.
    pub fn extend(&mut self) {
        self.by = self.by.max(self.catalog.clock.now().mono + LOOK_TIMEOUT);
    }

    /// Writes down that this topic is being deleted.
    pub fn begin_deletion(&mut self, id: Uuid) -> StoreResult<()> {
        self.removal.deleting = Some(id);
        self.renew(self.catalog.clock.now().mono)
    }

    fn renew(&mut self, now: Instant) -> StoreResult<()> {
        self.revision = self.catalog.write_claim(&self.key, self.revision, CLAIM_LASTS, self.removal)?;
        self.taken = now;
        Ok(())
    }

    /// The topic whose deletion has begun and is not known to have ended.
    pub fn deleting(&self) -> Option<Uuid> {
        self.removal.deleting
    }

    /// Nothing is left of the topic.
    pub fn end_deletion(&mut self) {
        self.removal.deleting = None;
    }

    /// A removal got no answer: it may still arrive, as long as what is done under a claim may.
    pub fn may_arrive_late(&mut self) {
        self.removal.late_ms = after(self.catalog.clock.now(), CLAIM_LASTS);
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
        let now = self.catalog.clock.now();
        let _ = if self.removal.deleting.is_some() || now.wall_ms < self.removal.late_ms {
            self.catalog.write_claim(&self.key, self.revision, Duration::ZERO, self.removal)
        } else {
            kv_replace(&*self.catalog.store, BUCKET, &self.key, None, self.revision, now.mono + LOOK_TIMEOUT)
        };
    }
}
