//! A store that bounds who waits for it: so many blocking calls at once, one reader a stream, and none on a stream that hangs.
//!
//! Publishes and core messages never block and pass through.

use super::{
    From, KvBucket, KvEntry, Message, Pick, Publish, PublishDone, Sequence, ServerInfo, Storage, Store, StoreError,
    StoreResult, StreamInfo, StreamListing,
};
use crate::activity;
use crate::metrics::{Metrics, Operation};
use bytes::Bytes;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// How often one caller is let through to a stream that missed its deadline.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// How long others wait for a stream's reader, counted from when it entered. Who waits holds a worker, and only a stream
/// that hangs keeps its reader longer.
const READER_PATIENCE: Duration = Duration::from_millis(500);

/// A call that had less time than this to be answered says nothing about its stream.
const PATIENCE_MIN: Duration = Duration::from_millis(500);

/// `S` behind a gate.
pub struct Gate<S: ?Sized> {
    store: Arc<S>,
    calls_max: usize,
    /// Who is inside. Never held during a call.
    inside: Mutex<Inside>,
    left: Condvar,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Inside {
    calls: usize,
    streams: HashMap<String, StreamGate>,
}

/// A stream that is being read or that hangs; others have none.
#[derive(Default)]
struct StreamGate {
    /// Since when it is being read.
    busy_since: Option<Instant>,
    /// Set while the stream hangs: when the next caller is let through.
    probe_at: Option<Instant>,
}

impl<S: Store + ?Sized> Gate<S> {
    /// At most `calls_max` blocking calls at once. Each call and its time is counted, the wait at the gate included.
    pub fn new(store: Arc<S>, calls_max: usize, metrics: Arc<Metrics>) -> Gate<S> {
        Gate { store, calls_max: calls_max.max(1), inside: Mutex::default(), left: Condvar::new(), metrics }
    }

    pub fn inner(&self) -> &S {
        &self.store
    }

    /// Blocking calls under way.
    pub fn calls(&self) -> usize {
        self.inside.lock().expect("no holder panics").calls
    }

    /// Runs a blocking call, when there is room for it; `on` is what it is about, for people.
    fn call<T>(
        &self,
        operation: Operation,
        on: &str,
        deadline: Instant,
        call: impl FnOnce() -> StoreResult<T>,
    ) -> StoreResult<T> {
        self.counted(operation, on, || {
            self.enter(None, deadline)?;
            let _leave = Leave { gate: self, stream: None };
            call()
        })
    }

    /// Runs a read of a stream, alone on that stream, and learns from how it went.
    fn read<T>(
        &self,
        operation: Operation,
        stream: &str,
        deadline: Instant,
        call: impl FnOnce() -> StoreResult<T>,
    ) -> StoreResult<T> {
        self.counted(operation, stream, || self.read_alone(stream, deadline, call))
    }

    /// Shows and counts a call.
    fn counted<T>(&self, operation: Operation, on: &str, call: impl FnOnce() -> StoreResult<T>) -> StoreResult<T> {
        let _noted = activity::store_call(operation.name(), on);
        let began = Instant::now();
        let outcome = call();
        self.metrics.store.note(operation, began, failed(&outcome));
        outcome
    }

    fn read_alone<T>(&self, stream: &str, deadline: Instant, call: impl FnOnce() -> StoreResult<T>) -> StoreResult<T> {
        self.enter(Some(stream), deadline)?;
        let leave = Leave { gate: self, stream: Some(stream) };
        let began = Instant::now();
        let outcome = call();
        let ended = Instant::now();
        let missed = matches!(outcome, Err(StoreError::NoAnswer)) && ended >= deadline;
        if missed && ended - began >= PATIENCE_MIN {
            self.set_probe(stream, Some(ended + PROBE_EVERY));
        } else if !matches!(outcome, Err(StoreError::NoAnswer | StoreError::Unavailable | StoreError::Busy)) {
            self.set_probe(stream, None);
        }
        drop(leave);
        outcome
    }

    fn enter(&self, stream: Option<&str>, deadline: Instant) -> StoreResult<()> {
        let mut inside = self.inside.lock().expect("no holder panics");
        loop {
            let now = Instant::now();
            let gate = stream.and_then(|stream| inside.streams.get(stream));
            if let Some(probe_at) = gate.and_then(|gate| gate.probe_at) {
                // Refused at once, also whoever waited behind the one that missed its deadline.
                if gate.is_some_and(|gate| gate.busy_since.is_some()) || now < probe_at {
                    return Err(StoreError::Busy);
                }
            }
            let busy_since = gate.and_then(|gate| gate.busy_since);
            if inside.calls < self.calls_max && busy_since.is_none() {
                break;
            }
            let until = busy_since.map_or(deadline, |since| deadline.min(since + READER_PATIENCE));
            let left = until.saturating_duration_since(now);
            if left.is_zero() {
                return Err(StoreError::Busy);
            }
            inside = self.left.wait_timeout(inside, left).expect("no holder panics").0;
        }
        inside.calls += 1;
        if let Some(stream) = stream {
            let gate = inside.streams.entry(stream.to_owned()).or_default();
            gate.busy_since = Some(Instant::now());
            gate.probe_at = gate.probe_at.map(|_| Instant::now() + PROBE_EVERY);
        }
        Ok(())
    }

    fn set_probe(&self, stream: &str, probe_at: Option<Instant>) {
        if let Some(gate) = self.inside.lock().expect("no holder panics").streams.get_mut(stream) {
            gate.probe_at = probe_at;
        }
    }
}

/// Whether the store did not do its part; a refusal or "there is none" is an answer.
fn failed<T>(outcome: &StoreResult<T>) -> bool {
    use StoreError::{Busy, Garbled, NoAnswer, NoSpace, Unavailable};
    matches!(outcome, Err(NoAnswer | Unavailable | Busy | Garbled(_) | NoSpace(_)))
}

/// Leaves the gate, also when the call panics.
struct Leave<'a, S: Store + ?Sized> {
    gate: &'a Gate<S>,
    stream: Option<&'a str>,
}

impl<S: Store + ?Sized> Drop for Leave<'_, S> {
    fn drop(&mut self) {
        let mut inside = self.gate.inside.lock().expect("no holder panics");
        inside.calls -= 1;
        if let Some(stream) = self.stream {
            match inside.streams.get_mut(stream) {
                Some(gate) if gate.probe_at.is_some() => gate.busy_since = None,
                _ => drop(inside.streams.remove(stream)),
            }
        }
        drop(inside);
        self.gate.left.notify_all();
    }
}

impl<S: Store + ?Sized> Store for Gate<S> {
    fn info(&self) -> ServerInfo {
        self.store.info()
    }

    fn storage(&self, deadline: Instant) -> StoreResult<Storage> {
        self.call(Operation::Storage, "", deadline, || self.store.storage(deadline))
    }

    fn stream_create(&self, config: &Value, deadline: Instant) -> StoreResult<StreamInfo> {
        self.call(Operation::StreamCreate, stream_name(config), deadline, || self.store.stream_create(config, deadline))
    }

    fn stream_info(&self, stream: &str, deadline: Instant) -> StoreResult<StreamInfo> {
        self.read(Operation::StreamInfo, stream, deadline, || self.store.stream_info(stream, deadline))
    }

    fn stream_update(&self, config: &Value, deadline: Instant) -> StoreResult<StreamInfo> {
        self.call(Operation::StreamUpdate, stream_name(config), deadline, || self.store.stream_update(config, deadline))
    }

    fn stream_delete(&self, stream: &str, deadline: Instant) -> StoreResult<()> {
        self.call(Operation::StreamDelete, stream, deadline, || self.store.stream_delete(stream, deadline))
    }

    fn stream_purge(&self, stream: &str, below: Option<Sequence>, deadline: Instant) -> StoreResult<()> {
        self.call(Operation::StreamPurge, stream, deadline, || self.store.stream_purge(stream, below, deadline))
    }

    fn stream_list(&self, subject_filter: &str, deadline: Instant) -> StoreResult<StreamListing> {
        self.call(Operation::StreamList, subject_filter, deadline, || self.store.stream_list(subject_filter, deadline))
    }

    fn publish_begin(&self, message: Publish, deadline: Instant, done: PublishDone) {
        let (metrics, began) = (self.metrics.clone(), Instant::now());
        let counted = move |outcome| {
            metrics.store.note(Operation::Publish, began, failed(&outcome));
            done(outcome);
        };
        self.store.publish_begin(message, deadline, Box::new(counted));
    }

    fn message_get(&self, stream: &str, pick: Pick, from: From, deadline: Instant) -> StoreResult<Message> {
        self.read(Operation::MessageGet, stream, deadline, || self.store.message_get(stream, pick, from, deadline))
    }

    fn messages_read(
        &self,
        stream: &str,
        start: Sequence,
        messages_max: usize,
        bytes_max: usize,
        deadline: Instant,
    ) -> StoreResult<Vec<Message>> {
        self.read(Operation::MessagesRead, stream, deadline, || {
            self.store.messages_read(stream, start, messages_max, bytes_max, deadline)
        })
    }

    fn message_stored_since(&self, stream: &str, wall_ms: i64, deadline: Instant) -> StoreResult<Option<Sequence>> {
        self.read(Operation::MessageStoredSince, stream, deadline, || {
            self.store.message_stored_since(stream, wall_ms, deadline)
        })
    }

    fn message_delete(&self, stream: &str, at: Sequence, deadline: Instant) -> StoreResult<()> {
        self.call(Operation::MessageDelete, stream, deadline, || self.store.message_delete(stream, at, deadline))
    }

    fn kv_ensure(&self, bucket: &KvBucket, deadline: Instant) -> StoreResult<()> {
        self.call(Operation::KvEnsure, &bucket.name, deadline, || self.store.kv_ensure(bucket, deadline))
    }

    fn kv_get(&self, bucket: &str, key: &str, deadline: Instant) -> StoreResult<KvEntry> {
        self.call(Operation::KvGet, bucket, deadline, || self.store.kv_get(bucket, key, deadline))
    }

    fn kv_list(&self, bucket: &str, filter: &str, deadline: Instant) -> StoreResult<Vec<(String, KvEntry)>> {
        self.call(Operation::KvList, bucket, deadline, || self.store.kv_list(bucket, filter, deadline))
    }

    fn core_publish(&self, subject: &str, payload: Bytes) {
        self.store.core_publish(subject, payload);
    }

    fn core_subscribe(&self, subject: &str, handler: Box<dyn Fn(&str, Bytes) + Send + Sync>) -> StoreResult<()> {
        self.store.core_subscribe(subject, handler)
    }
}

/// A configuration's stream, for people.
fn stream_name(config: &Value) -> &str {
    config.get("name").and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::memory::MemoryStore;
    use super::*;
    use std::sync::mpsc;

    fn gate(calls_max: usize) -> Gate<MemoryStore> {
        Gate::new(Arc::new(MemoryStore::new()), calls_max, Arc::default())
    }

    fn after(ms: u64) -> Instant {
        Instant::now() + Duration::from_millis(ms)
    }

    /// Runs `during` while `hold` calls are inside, each on a stream of its own.
    fn while_inside(gate: &Gate<MemoryStore>, hold: usize, during: impl FnOnce()) {
        std::thread::scope(|scope| {
            let (entered, wait) = mpsc::channel();
            let mut releases = Vec::new();
            for n in 0..hold {
                let (release, released) = mpsc::channel::<()>();
                releases.push(release);
                let entered = entered.clone();
                scope.spawn(move || {
                    gate.read(Operation::StreamInfo, &format!("held-{n}"), after(10_000), || {
                        entered.send(()).expect("the test waits");
                        let _ = released.recv();
                        Ok(())
                    })
                });
                wait.recv().expect("it enters");
            }
            during();
            drop(releases);
        });
    }

    #[test]
    fn no_more_calls_than_allowed_and_the_rest_wait_till_their_deadline() {
        let gate = gate(2);
        while_inside(&gate, 2, || {
            assert_eq!(gate.calls(), 2);
            let began = Instant::now();
            assert_eq!(gate.call(Operation::KvGet, "b", after(50), || Ok(1)), Err(StoreError::Busy));
            assert!(began.elapsed() >= Duration::from_millis(50));
        });
        assert_eq!(gate.call(Operation::KvGet, "b", after(50), || Ok(1)), Ok(1));
        assert_eq!((gate.calls(), gate.inside.lock().unwrap().streams.len()), (0, 0));
    }

    #[test]
    fn a_stream_has_one_reader_and_others_go_on() {
        let gate = gate(10);
        while_inside(&gate, 1, || {
            assert_eq!(gate.read(Operation::StreamInfo, "held-0", after(20), || Ok(1)), Err(StoreError::Busy));
            let began = Instant::now();
            assert_eq!(gate.read(Operation::StreamInfo, "held-0", after(60_000), || Ok(1)), Err(StoreError::Busy));
            assert!(began.elapsed() < Duration::from_secs(30), "who waits behind a hanging reader leaves soon");
            assert_eq!(gate.read(Operation::StreamInfo, "other", after(20), || Ok(1)), Ok(1));
        });
        assert_eq!(gate.read(Operation::StreamInfo, "held-0", after(20), || Ok(1)), Ok(1));
    }

    /// A read that is never answered.
    fn unanswered(gate: &Gate<MemoryStore>, ms: u64) -> StoreResult<()> {
        let deadline = after(ms);
        gate.read(Operation::StreamInfo, "s", deadline, || {
            std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
            Err(StoreError::NoAnswer)
        })
    }

    #[test]
    fn a_stream_that_hangs_is_refused_at_once_until_a_probe_succeeds() {
        let gate = gate(10);
        let rush = 10;
        assert_eq!(unanswered(&gate, rush), Err(StoreError::NoAnswer));
        assert_eq!(gate.read(Operation::StreamInfo, "s", after(100), || Ok(1)), Ok(1), "a hasty caller proves nothing");

        assert_eq!(unanswered(&gate, 500), Err(StoreError::NoAnswer));
        let mut tried = 0;
        let until = after(10_000);
        while tried < 2 {
            assert!(Instant::now() < until, "no probe is let through");
            let outcome = gate.read(Operation::StreamInfo, "s", after(10_000), || {
                tried += 1;
                if tried == 2 { Ok(1) } else { Err(StoreError::NoAnswer) }
            });
            match outcome {
                // Refused, or the probe that failed.
                Err(StoreError::Busy | StoreError::NoAnswer) => std::thread::yield_now(),
                outcome => assert_eq!((outcome, tried), (Ok(1), 2)),
            }
        }
        assert_eq!(gate.read(Operation::StreamInfo, "s", after(100), || Ok(1)), Ok(1));
        assert!(gate.inside.lock().unwrap().streams.is_empty());
    }

    #[test]
    fn a_call_that_panics_leaves_the_gate() {
        let gate = gate(1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            gate.read(Operation::StreamInfo, "s", after(100), || -> StoreResult<()> { panic!("as a bug would") })
        }));
        assert!(panicked.is_err());
        assert_eq!(gate.read(Operation::StreamInfo, "s", after(100), || Ok(1)), Ok(1));
    }
}
