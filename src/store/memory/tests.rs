//! The store in memory against what JetStream was seen to do.

use super::*;
use crate::store::{kv_message, kv_replace, publish};
use std::sync::mpsc;

fn soon() -> Instant {
    Instant::now()
}

fn store_with(config: Value) -> MemoryStore {
    let store = MemoryStore::new();
    store.stream_create(&config, soon()).expect("created");
    store
}

fn store() -> MemoryStore {
    store_with(json!({ "name": "s", "subjects": ["t.0"], "metadata": { "k": "v" } }))
}

fn guarded(text: &'static str, expected: u64) -> Publish {
    Publish {
        subject: "t.0".to_owned(),
        payload: Bytes::from(text),
        expected_last: Some(Sequence(expected)),
        ..Publish::default()
    }
}

fn put(store: &MemoryStore, text: &'static str, expected: u64) -> StoreResult<u64> {
    publish(store, guarded(text, expected), soon()).map(|ack| ack.sequence.0)
}

fn read_all(store: &MemoryStore) -> Vec<(u64, String)> {
    let read = store.messages_read("s", Sequence(0), 1000, usize::MAX, soon()).expect("read");
    read.iter().map(|m| (m.sequence.0, String::from_utf8_lossy(&m.payload).into_owned())).collect()
}

fn leader_at(store: &MemoryStore, at: u64) -> StoreResult<Bytes> {
    store.message_get("s", Pick::At(Sequence(at)), From::Leader, soon()).map(|m| m.payload)
}

fn ends(store: &MemoryStore) -> (u64, u64) {
    let state = store.stream_info("s", soon()).expect("there").state;
    (state.first.0, state.last.0)
}

fn wrong(last: u64) -> StoreResult<u64> {
    Err(StoreError::WrongLast(Some(Sequence(last))))
}

#[test]
fn guards_hold() {
    let store = store();
    assert_eq!(put(&store, "a", 0), Ok(1));
    assert_eq!(put(&store, "b", 0), wrong(1));
    assert_eq!(put(&store, "b", 1), Ok(2));
    let on_subject = |expected| Publish {
        subject: "t.0".to_owned(),
        expected_last_on_subject: Some(Sequence(expected)),
        ..Publish::default()
    };
    assert_eq!(publish(&store, on_subject(1), soon()), Err(StoreError::WrongLast(Some(Sequence(2)))));
    assert_eq!(publish(&store, on_subject(2), soon()).map(|ack| ack.sequence), Ok(Sequence(3)));
    let nowhere = Publish { subject: "t.1".to_owned(), ..Publish::default() };
    assert_eq!(publish(&store, nowhere, soon()), Err(StoreError::Unavailable));
}

#[test]
fn streams_are_made_changed_and_deleted() {
    let store = store();
    let config = json!({ "name": "s", "subjects": ["t.0"], "metadata": { "k": "v" } });
    let first = store.stream_create(&config, soon()).expect("the same again");
    assert_eq!((first.config.clone(), first.metadata("k")), (config.clone(), Some("v")));
    let other = json!({ "name": "s", "subjects": ["t.0"], "max_msgs": 5 });
    assert_eq!(store.stream_create(&other, soon()).err(), Some(StoreError::StreamExists));
    let overlapping = store.stream_create(&json!({ "name": "s2", "subjects": ["t.>"] }), soon());
    assert!(matches!(overlapping, Err(StoreError::Refused { code: 10065, .. })));
    store.stream_create(&json!({ "name": "u", "subjects": ["u.0"] }), soon()).expect("created");
    let listed = store.stream_list("t.>", soon()).expect("listed");
    assert_eq!(listed.streams.iter().map(|info| &info.name[..]).collect::<Vec<_>>(), ["s"]);
    assert_eq!(store.stream_update(&other, soon()).expect("updated").config, other);
    store.stream_delete("s", soon()).expect("deleted");
    assert_eq!(store.stream_delete("s", soon()), Err(StoreError::NoStream));
    assert_eq!(store.stream_info("s", soon()).err(), Some(StoreError::NoStream));
    assert_eq!(leader_at(&store, 1), Err(StoreError::NoStream));
    let direct = store.message_get("s", Pick::At(Sequence(1)), From::Any, soon());
    assert_eq!(direct.err(), Some(StoreError::Unavailable));
    let again = store.stream_create(&config, soon()).expect("created");
    assert_ne!(again.created, first.created);
}

#[test]
fn the_last_sequence_survives_purge_and_deletes() {
    let store = store();
    assert_eq!(ends(&store), (1, 0));
    for (at, text) in ["a", "b", "c"].into_iter().enumerate() {
        put(&store, text, at as u64).expect("stored");
    }
    store.message_delete("s", Sequence(2), soon()).expect("deleted");
    assert_eq!(store.message_delete("s", Sequence(2), soon()), Err(StoreError::NoMessage));
    assert_eq!(leader_at(&store, 2), Err(StoreError::NoMessage));
    let after_hole = store.message_get("s", Pick::AtOrAfter(Sequence(2)), From::Leader, soon());
    assert_eq!(after_hole.map(|m| m.sequence), Ok(Sequence(3)));
    store.stream_purge("s", Some(Sequence(3)), soon()).expect("purged");
    assert_eq!(ends(&store), (3, 3));
    store.stream_purge("s", None, soon()).expect("purged");
    assert_eq!(ends(&store), (4, 3));
    assert_eq!(put(&store, "d", 0), wrong(3));
    assert_eq!(put(&store, "d", 3), Ok(4));
}

#[test]
fn purging_beyond_the_end_moves_the_sequence() {
    let store = store();
    let far = 1_000_000_000_000_000_000;
    store.stream_purge("s", Some(Sequence(far)), soon()).expect("purged");
    assert_eq!(ends(&store), (far, far - 1));
    assert_eq!(put(&store, "a", 0), wrong(far - 1));
    assert_eq!(put(&store, "a", far - 1), Ok(far));
    store.stream_purge("s", Some(Sequence(5)), soon()).expect("purged");
    assert_eq!(ends(&store), (far, far));
    store.skip_to("s", Sequence(far + 10));
    assert_eq!(store.publish_foreign("t.0", "x"), Ok(Sequence(far + 10)));
    assert_eq!(read_all(&store), [(far, "a".to_owned()), (far + 10, "x".to_owned())]);
}

#[test]
fn limits_remove_the_oldest_or_refuse_the_newest() {
    let store = store_with(json!({ "name": "s", "subjects": ["t.0"], "max_msgs": 2 }));
    for (at, text) in ["a", "b", "c"].into_iter().enumerate() {
        put(&store, text, at as u64).expect("stored");
    }
    assert_eq!(ends(&store), (2, 3));
    let store = store_with(json!({ "name": "s", "subjects": ["t.0"], "max_bytes": 10, "discard": "new" }));
    assert_eq!(put(&store, "1234567", 0), Ok(1));
    assert!(matches!(put(&store, "8", 1), Err(StoreError::NoSpace(_))));
    store.set_max_payload(2);
    assert_eq!(put(&store, "123", 1), Err(StoreError::TooLarge { max: 2 }));
}

#[test]
fn age_empties_a_stream() {
    let store = store_with(json!({ "name": "s", "subjects": ["t.0"], "max_age": 1_000_000_000 }));
    let start = 1_700_000_000_000;
    put(&store, "a", 0).expect("stored");
    store.set_time(start + 600);
    put(&store, "b", 1).expect("stored");
    assert_eq!(store.message_stored_since("s", start + 1, soon()), Ok(Some(Sequence(2))));
    assert_eq!(store.message_stored_since("s", start + 601, soon()), Ok(None));
    store.set_time(start + 1_000);
    assert_eq!(ends(&store), (2, 2));
    store.set_time(start + 9_000);
    assert_eq!(ends(&store), (3, 2));
}

#[test]
fn reads_stop_at_their_bounds() {
    let store = store();
    for (at, text) in ["aaaa", "bbbb", "cccc"].into_iter().enumerate() {
        put(&store, text, at as u64).expect("stored");
    }
    let count = |start, messages_max, bytes_max| {
        store.messages_read("s", Sequence(start), messages_max, bytes_max, soon()).expect("read").len()
    };
    assert_eq!([count(0, 2, 100), count(1, 9, 8), count(1, 9, 1), count(3, 9, 100), count(4, 9, 100)], [2, 2, 1, 1, 0]);
    let last = store.message_get("s", Pick::LastOf("t.0".to_owned()), From::Any, soon());
    assert_eq!(last.map(|m| m.sequence), Ok(Sequence(3)));
}

#[test]
fn kv_entries_are_replaced_by_revision() {
    let store = MemoryStore::new();
    assert_eq!(store.kv_get("b", "k", soon()), Err(StoreError::NoStream));
    let bucket = KvBucket { name: "b".to_owned(), replicas: 1, max_age_ms: Some(4_000) };
    store.kv_ensure(&bucket, soon()).expect("made");
    store.kv_ensure(&KvBucket { max_age_ms: None, ..bucket }, soon()).expect("left as it is");
    assert_eq!(store.kv_get("b", "k", soon()), Ok(KvEntry::default()));
    let replace = |key: &str, value: Option<&'static str>, expected| {
        kv_replace(&store, "b", key, value.map(Bytes::from), Sequence(expected), soon()).map(|s| s.0)
    };
    assert_eq!(replace("g.k", Some("1"), 0), Ok(1));
    assert_eq!(replace("g.k", Some("2"), 0), wrong(1));
    assert_eq!(replace("g.k", Some("2"), 1), Ok(2));
    assert_eq!(replace("g.a", Some("x"), 0), Ok(3));
    assert_eq!(replace("h.a", None, 0), Ok(4));
    let keys = |filter| {
        let listed = store.kv_list("b", filter, soon()).expect("listed");
        listed.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
    };
    assert_eq!(keys(">"), ["g.a", "g.k"]);
    assert_eq!(keys("*.k"), ["g.k"]);
    let deleted = store.kv_get("b", "h.a", soon()).expect("a marker");
    assert_eq!((deleted.revision, deleted.value), (Sequence(4), None));
    assert_eq!(replace("h.a", Some("y"), 4), Ok(5));
    assert_eq!(store.stream_info("KV_b", soon()).expect("there").state.messages, 3);
    store.set_time(1_700_000_005_000);
    assert!(keys(">").is_empty());
}

#[test]
fn an_ack_is_lost_but_the_message_stored() {
    let store = store();
    store.fail_next("t.>", PublishFault::AckLost);
    assert_eq!(put(&store, "a", 0), Err(StoreError::NoAnswer));
    assert_eq!(put(&store, "a", 0), wrong(1));
    assert_eq!(leader_at(&store, 1), Ok(Bytes::from("a")));
}

#[test]
fn a_publish_is_lost_or_comes_late() {
    let store = store();
    store.fail_next("other", PublishFault::Lost);
    store.fail_next("t.0", PublishFault::Lost);
    store.fail_next("t.0", PublishFault::Stalled);
    assert_eq!(put(&store, "a", 0), Err(StoreError::NoAnswer));
    assert_eq!(put(&store, "b", 0), Err(StoreError::NoAnswer));
    assert_eq!(store.faults_left(), 1);
    assert!(read_all(&store).is_empty());
    assert_eq!(put(&store, "c", 0), Ok(1));
    assert_eq!(store.deliver_stalled(), [Err(StoreError::WrongLast(Some(Sequence(1))))]);
    assert_eq!(read_all(&store), [(1, "c".to_owned())]);
}

#[test]
fn what_is_proposed_blocks_its_slot_until_it_is_decided() {
    let store = store();
    put(&store, "a", 0).expect("stored");
    for committed in [false, true] {
        store.fail_next("t.0", PublishFault::Proposed);
        assert_eq!(put(&store, "b", 1), Err(StoreError::NoAnswer));
        assert_eq!(put(&store, "b", 1), wrong(2));
        assert_eq!(put(&store, "c", 2), Err(StoreError::NoAnswer), "proposed behind it");
        assert_eq!(put(&store, "d", 2), wrong(3));
        assert_eq!(leader_at(&store, 2), Err(StoreError::NoMessage));
        assert_eq!(ends(&store), (1, 1));
        if committed {
            assert_eq!(store.commit_proposed("s"), 2);
            assert_eq!(read_all(&store), [(1, "a".to_owned()), (2, "b".to_owned()), (3, "c".to_owned())]);
        } else {
            assert_eq!(store.drop_proposed("s"), 2);
            assert_eq!(leader_at(&store, 2), Err(StoreError::NoMessage));
        }
    }
    assert_eq!(put(&store, "d", 3), Ok(4));
}

#[test]
fn acks_wait_until_they_are_released() {
    let store = store();
    let (sender, receiver) = mpsc::channel();
    let begin = |text, expected| {
        let sender = sender.clone();
        let done = Box::new(move |outcome: StoreResult<PubAck>| sender.send(outcome).expect("received"));
        store.publish_begin(guarded(text, expected), soon(), done);
    };
    store.fail_next("t.0", PublishFault::Delayed);
    begin("a", 0);
    store.hold_acks(true);
    begin("b", 1);
    begin("c", 1);
    assert!(receiver.try_recv().is_err());
    assert_eq!(read_all(&store).len(), 2);
    store.hold_acks(false);
    begin("d", 2);
    assert_eq!(store.release_acks(), 3);
    let outcomes: Vec<_> = receiver.try_iter().map(|outcome| outcome.map(|ack| ack.sequence.0)).collect();
    assert_eq!(outcomes, [Ok(3), Ok(1), Ok(2), wrong(2)]);
}

/// What runs when a publish is done may publish in turn.
#[test]
fn done_runs_without_the_lock() {
    let store = Arc::new(store());
    let (sender, receiver) = mpsc::channel();
    let again = Arc::clone(&store);
    let done = Box::new(move |outcome: StoreResult<PubAck>| {
        let next = outcome.expect("stored").sequence.0;
        sender.send(put(&again, "b", next)).expect("received");
    });
    store.publish_begin(guarded("a", 0), soon(), done);
    assert_eq!(receiver.try_recv(), Ok(Ok(2)));
}

#[test]
fn an_outage_fails_every_call_until_it_ends() {
    let store = store();
    put(&store, "a", 0).expect("stored");
    for (outage, error) in [(Outage::Unavailable, StoreError::Unavailable), (Outage::NoAnswer, StoreError::NoAnswer)] {
        store.set_outage(Some(outage));
        assert_eq!(store.info().connected, outage == Outage::NoAnswer);
        assert_eq!(put(&store, "b", 1), Err(error.clone()));
        assert_eq!(leader_at(&store, 1), Err(error.clone()));
        assert_eq!(store.kv_get("b", "k", soon()), Err(error.clone()));
        assert_eq!(store.stream_info("s", soon()).err(), Some(error));
        store.set_outage(None);
        assert_eq!(read_all(&store), [(1, "a".to_owned())]);
    }
    store.set_full(true);
    assert!(matches!(put(&store, "b", 1), Err(StoreError::NoSpace(_))));
    store.set_full(false);
    assert_eq!(put(&store, "b", 1), Ok(2));
}

#[test]
fn direct_reads_lag_and_leader_reads_do_not() {
    let store = store();
    for (at, text) in ["a", "b", "c"].into_iter().enumerate() {
        put(&store, text, at as u64).expect("stored");
    }
    store.set_direct_lag(2);
    assert_eq!(read_all(&store), [(1, "a".to_owned())]);
    let direct = |pick| store.message_get("s", pick, From::Any, soon()).map(|m| m.sequence.0);
    assert_eq!(direct(Pick::At(Sequence(2))), Err(StoreError::NoMessage));
    assert_eq!(direct(Pick::LastOf("t.0".to_owned())), Ok(1));
    assert_eq!(leader_at(&store, 3), Ok(Bytes::from("c")));
    store.set_direct_lag(9);
    assert!(read_all(&store).is_empty());
}

#[test]
fn core_messages_reach_subscribers_unless_dropped() {
    let store = store();
    let (sender, receiver) = mpsc::channel();
    let handler = move |subject: &str, payload: Bytes| sender.send((subject.to_owned(), payload)).expect("received");
    store.core_subscribe("_kafka.tick.>", Box::new(handler.clone())).expect("subscribed");
    store.core_subscribe("$JS.EVENT.ADVISORY.STREAM.DELETED.*", Box::new(handler)).expect("subscribed");
    store.core_publish("_kafka.tick.1", Bytes::from("x"));
    store.core_publish("_kafka.other", Bytes::from("x"));
    store.drop_core_messages(true);
    store.core_publish("_kafka.tick.2", Bytes::from("x"));
    store.drop_core_messages(false);
    store.stream_delete("s", soon()).expect("deleted");
    let subjects: Vec<String> = receiver.try_iter().map(|(subject, _)| subject).collect();
    assert_eq!(subjects, ["_kafka.tick.1", "$JS.EVENT.ADVISORY.STREAM.DELETED.s"]);
}

#[test]
fn calls_are_counted() {
    let store = store();
    let before = store.counts();
    put(&store, "a", 0).expect("stored");
    let _ = leader_at(&store, 1);
    let _ = read_all(&store);
    let _ = ends(&store);
    let _ = publish(&store, kv_message("b", "k", None, Sequence(0)), soon());
    let after = store.counts();
    assert_eq!((after.reads() - before.reads(), after.writes() - before.writes()), (3, 2));
}

/// A writer that repeats under the same guard until something decides, as the log does, keeps its order under any faults.
#[test]
fn chaos_is_repeatable_and_survivable() {
    const TEXTS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
    let run = |seed| {
        let store = store();
        store.set_chaos(Some(Chaos {
            seed,
            ack_lost_permille: 150,
            lost_permille: 150,
            proposed_permille: 150,
            unavailable_permille: 100,
            lagging_permille: 300,
            stale_leader_permille: 0,
        }));
        for (tail, text) in (0..).zip(TEXTS) {
            while leader_at(&store, tail + 1).is_err() {
                let _ = put(&store, text, tail);
            }
        }
        store.set_chaos(None);
        (read_all(&store), store.counts())
    };
    for seed in 0..200 {
        let (read, counts) = run(seed);
        assert_eq!(read.iter().map(|(_, text)| &text[..]).collect::<Vec<_>>(), TEXTS, "seed {seed}");
        assert_eq!(run(seed), (read, counts));
    }
}
