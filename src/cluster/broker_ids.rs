//! Broker ids: one for each advertised address, recorded, so that they outlive restarts.

use super::stored::{Stored, damaged};
use crate::store::{StoreError, StoreResult};
use serde_json::{Value, json};

const KEY: &str = "brokers";

/// Addresses remembered; beyond it those whose gateways started longest ago are forgotten. Where every gateway has a new
/// address (containers without stable names) the list would grow for ever.
const ADDRESSES_MAX: usize = 1_000;

/// A start within this after the recorded one is not written down.
const FRESH_MS: i64 = 24 * 3600 * 1000;

/// One recorded broker: id, address, when a gateway with it last started (milliseconds since the epoch).
type Row = (i32, String, i64);

/// The id of the broker at `address`: the one that was asked for, or the one recorded, or the smallest that is free.
pub fn claim(stored: &Stored, address: &str, asked: Option<i32>) -> StoreResult<i32> {
    let now_ms = stored.clock.now().wall_ms;
    let (mut claimed, mut is_recorded) = (0, false);
    let outcome = stored.change(KEY, |present| {
        let mut rows = present.map_or_else(|| Ok(Vec::new()), |value| rows(&value).ok_or_else(|| damaged(KEY)))?;
        let recorded = rows.iter().find(|(_, known, _)| known == address).map(|(id, _, _)| *id);
        claimed = asked.or(recorded).unwrap_or_else(|| free_id(&rows));
        is_recorded = recorded == Some(claimed);
        let is_fresh = |(id, known, at): &Row| *id == claimed && known == address && now_ms - at < FRESH_MS;
        if rows.iter().any(is_fresh) {
            return Ok(None);
        }
        rows.retain(|(id, known, _)| known != address && *id != claimed);
        rows.sort_by_key(|(_, _, at)| *at);
        rows.drain(..(rows.len() + 1).saturating_sub(ADDRESSES_MAX));
        rows.push((claimed, address.to_owned(), now_ms));
        rows.sort();
        Ok(Some(json!({ "brokers": rows })))
    });
    match outcome {
        // Only the time of this start could not be written.
        Err(StoreError::NoSpace(_)) if is_recorded => Ok(claimed),
        outcome => outcome.map(|_| claimed),
    }
}

/// Kafka's own ids begin with 0 or 1; 1 is what a single broker of ours always had.
fn free_id(rows: &[Row]) -> i32 {
    (1..=i32::MAX).find(|id| !rows.iter().any(|(taken, _, _)| taken == id)).expect("rows are few")
}

fn rows(value: &Value) -> Option<Vec<Row>> {
    serde_json::from_value(value.get("brokers")?.clone()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, ManualClock};
    use crate::store::memory::{MemoryStore, PublishFault};
    use std::collections::HashSet;
    use std::sync::Arc;
    use std::time::Duration;

    fn stored() -> (Stored, Arc<MemoryStore>, Arc<ManualClock>) {
        let (store, clock) = (Arc::new(MemoryStore::new()), Arc::new(ManualClock::new()));
        (Stored { store: store.clone(), clock: clock.clone(), replicas: 1 }, store, clock)
    }

    #[test]
    fn an_address_keeps_its_id() {
        let (stored, _, clock) = stored();
        assert_eq!(claim(&stored, "a:9092", None), Ok(1));
        assert_eq!(claim(&stored, "b:9092", None), Ok(2));
        clock.advance(Duration::from_secs(86_400));
        assert_eq!(claim(&stored, "b:9092", None), Ok(2));
        assert_eq!(claim(&stored, "a:9092", None), Ok(1));
        assert_eq!(claim(&stored, "c:9092", None), Ok(3));
    }

    #[test]
    fn an_id_that_was_asked_for_is_taken_from_whom_it_was_recorded() {
        let (stored, _, _) = stored();
        assert_eq!(claim(&stored, "a:1", None), Ok(1));
        assert_eq!(claim(&stored, "b:1", Some(1)), Ok(1));
        assert_eq!(claim(&stored, "a:1", None), Ok(2), "it gets another at its next start");
        assert_eq!(claim(&stored, "a:1", Some(7)), Ok(7));
        assert_eq!(claim(&stored, "a:1", None), Ok(7), "what was asked for once is kept");
        assert_eq!(claim(&stored, "c:1", Some(0)), Ok(0));
    }

    #[test]
    fn many_at_once_never_share_an_id() {
        let (stored, store, _) = stored();
        for fault in [PublishFault::AckLost, PublishFault::Lost, PublishFault::Stalled] {
            store.fail_next("$KV.>", fault);
        }
        let ids: HashSet<i32> = std::thread::scope(|scope| {
            let one = |n: usize| claim(&stored, &format!("host-{n}:9092"), None).expect("the memory answers");
            let threads: Vec<_> = (0..8).map(|n| scope.spawn(move || one(n))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        store.deliver_stalled();
        assert_eq!(ids.len(), 8);
    }

    #[test]
    fn addresses_that_do_not_come_back_are_forgotten_at_last() {
        let (stored, _, clock) = stored();
        let now_ms = clock.now().wall_ms;
        let rows: Vec<Row> = (1..=1000).map(|n| (n, format!("pod-{n}:9092"), now_ms - 1000 + i64::from(n))).collect();
        stored.change(KEY, |_| Ok(Some(json!({ "brokers": rows })))).expect("the memory answers");
        assert_eq!(claim(&stored, "new:9092", None), Ok(1001));
        assert_eq!(claim(&stored, "newer:9092", None), Ok(1), "the id of the first is free again");
        assert_eq!(claim(&stored, "pod-1000:9092", None), Ok(1000));
    }
}
