//! Values that all gateways share and none may lose, changed by compare-and-set.

use super::nonce;
use crate::clock::Clock;
use crate::sealed;
use crate::store::{KvBucket, KvEntry, Sequence, Store, StoreError, StoreResult, kv_replace};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The bucket of what all gateways share. Nothing in it may age.
pub const BUCKET: &str = "kafka-gateways";

/// How long one question to the store may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(4);

/// How often a compare-and-set is tried against others who write the same key.
const TRIES: usize = 20;

/// The bucket's values.
pub struct Stored {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    /// JetStream replicas of the bucket, where it has to be made.
    pub replicas: u32,
}

impl Stored {
    /// Replaces a value by what `next` makes of the present one (`None`: leave it), by compare-and-set; gives what
    /// stands in the end. `next` runs again whenever somebody else was faster.
    pub fn change(
        &self,
        key: &str,
        mut next: impl FnMut(Option<Value>) -> StoreResult<Option<Value>>,
    ) -> StoreResult<Value> {
        let deadline = self.clock.now().mono + CALL_TIMEOUT;
        let mut entry = self.read(key, deadline)?;
        for _ in 0..TRIES {
            let present = entry.value.as_deref().map(|bytes| sealed::open(bytes).ok_or_else(|| damaged(key)));
            let present = present.transpose()?;
            let Some(mut value) = next(present.clone())? else {
                return Ok(present.unwrap_or_default());
            };
            let nonce = nonce();
            value["nonce"] = json!(nonce);
            let written = kv_replace(&*self.store, BUCKET, key, Some(sealed::seal(&value)), entry.revision, deadline);
            match written {
                Ok(_) => return Ok(value),
                // What stands there may be our own write whose answer was lost.
                Err(StoreError::WrongLast(_) | StoreError::NoAnswer) => {
                    entry = self.read(key, self.clock.now().mono + CALL_TIMEOUT)?;
                    let standing = entry.value.as_deref().and_then(sealed::open);
                    if standing.is_some_and(|standing| standing["nonce"] == json!(nonce)) {
                        return Ok(value);
                    }
                }
                Err(error) => return Err(error),
            }
            if self.clock.now().mono >= deadline {
                break;
            }
        }
        Err(StoreError::NoAnswer)
    }

    /// Reads a key, and makes the bucket if it is not there yet.
    fn read(&self, key: &str, deadline: Instant) -> StoreResult<KvEntry> {
        match self.store.kv_get(BUCKET, key, deadline) {
            Err(StoreError::NoStream) => {
                let bucket = KvBucket { name: BUCKET.to_owned(), replicas: self.replicas, max_age_ms: None };
                self.store.kv_ensure(&bucket, deadline)?;
                Ok(KvEntry { revision: Sequence(0), value: None, stored_ms: 0 })
            }
            outcome => outcome,
        }
    }
}

pub fn damaged(key: &str) -> StoreError {
    StoreError::Garbled(format!("the value of {key} in bucket {BUCKET} is damaged"))
}
