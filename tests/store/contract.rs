//! What every implementation of the store does alike.

use bytes::Bytes;
use hanzo_kafka::store::{
    From, KvBucket, Pick, PubAck, Publish, Sequence, Store, StoreError, StoreResult, kv_message, kv_replace, publish,
    publish_all,
};
use serde_json::{Value, json};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Runs the whole contract on a store that holds no streams called `contract-…`. `later` lets a few milliseconds pass for
/// the store and tells its time.
pub fn check(shared: &Arc<dyn Store>, later: &dyn Fn() -> i64) {
    let store = &**shared;
    streams_live(store);
    guards_hold(store);
    purge_moves_an_empty_stream(store);
    messages_are_read(store, later);
    runs_are_read(store);
    holes_are_stepped_over(store);
    store_time_is_found(store, later);
    entries_live(store);
    many_entries_are_listed(store);
    core_subjects_reach(store);
    refusals_are_told_apart(store);
    callbacks_may_publish_again(shared);
}

pub fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

pub fn config(name: &str) -> Value {
    json!({ "name": name, "subjects": [format!("contract.{name}")], "storage": "file", "retention": "limits",
        "num_replicas": 1, "allow_direct": true, "discard": "old", "metadata": { "color": "red" } })
}

pub fn message(stream: &str, payload: impl Into<Bytes>) -> Publish {
    Publish { subject: format!("contract.{stream}"), payload: payload.into(), ..Publish::default() }
}

pub fn fresh(store: &dyn Store, name: &str) {
    store.stream_create(&config(name), soon()).expect("the stream is made");
}

pub fn send(store: &dyn Store, stream: &str, payload: impl Into<Bytes>) -> Sequence {
    publish(store, message(stream, payload), soon()).expect("it is stored").sequence
}

fn streams_live(store: &dyn Store) {
    assert!(matches!(store.stream_info("contract-a", soon()), Err(StoreError::NoStream)));
    let made = store.stream_create(&config("contract-a"), soon()).expect("it is made");
    assert_eq!((made.name.as_str(), made.metadata("color")), ("contract-a", Some("red")));
    assert_eq!((made.state.messages, made.state.first, made.state.last), (0, Sequence(1), Sequence(0)));
    let again = store.stream_create(&config("contract-a"), soon()).expect("the same again is fine");
    assert_eq!(again.created, made.created);
    let mut other = config("contract-a");
    other["max_msgs"] = json!(7);
    assert_eq!(store.stream_create(&other, soon()).map(drop), Err(StoreError::StreamExists));

    let mut changed = store.stream_info("contract-a", soon()).expect("it is there").config;
    changed["metadata"]["color"] = json!("blue");
    changed["max_age"] = json!(3_600_000_000_000u64);
    let updated = store.stream_update(&changed, soon()).expect("it is changed");
    assert_eq!(updated.metadata("color"), Some("blue"));
    let seen = store.stream_info("contract-a", soon()).expect("it is there");
    assert_eq!(seen.config["max_age"], json!(3_600_000_000_000u64));
    assert_eq!(seen.config["allow_direct"], json!(true));

    fresh(store, "contract-b");
    let listed = store.stream_list("contract.>", soon()).expect("they are listed").streams;
    let names: Vec<&str> = listed.iter().map(|info| info.name.as_str()).collect();
    assert_eq!(names, ["contract-a", "contract-b"]);
    assert_eq!(listed[0].metadata("color"), Some("blue"));
    assert!(store.stream_list("nothing.>", soon()).expect("none is fine").streams.is_empty());
    store.stream_delete("contract-b", soon()).expect("it is deleted");
    assert_eq!(store.stream_delete("contract-b", soon()), Err(StoreError::NoStream));
    assert_eq!(store.stream_list("contract.>", soon()).expect("they are listed").streams.len(), 1);
}

fn guards_hold(store: &dyn Store) {
    fresh(store, "contract-guard");
    let guarded = |expected| Publish { expected_last: Some(Sequence(expected)), ..message("contract-guard", "x") };
    let ack = publish(store, guarded(0), soon()).expect("the guard fits");
    assert_eq!((ack.stream.as_str(), ack.sequence, ack.duplicate), ("contract-guard", Sequence(1), false));
    match publish(store, guarded(0), soon()) {
        Err(StoreError::WrongLast(last)) => assert!(last.is_none() || last == Some(Sequence(1)), "{last:?}"),
        other => panic!("a stale guard gave {other:?}"),
    }
    assert_eq!(publish(store, guarded(1), soon()).expect("a failed guard burns no sequence").sequence, Sequence(2));
    let racing = (0..20).map(|_| guarded(2)).collect();
    let outcomes = publish_all(store, racing, soon());
    assert_eq!(outcomes.iter().filter(|o| o.is_ok()).count(), 1, "{outcomes:?}");
}

fn purge_moves_an_empty_stream(store: &dyn Store) {
    fresh(store, "contract-purge");
    let start = Sequence(1_000_000_000_000);
    store.stream_purge("contract-purge", Some(start), soon()).expect("an empty stream is moved");
    let guarded = |expected| Publish { expected_last: Some(Sequence(expected)), ..message("contract-purge", "x") };
    assert!(matches!(publish(store, guarded(0), soon()), Err(StoreError::WrongLast(_))));
    let first = send(store, "contract-purge", "a");
    assert!(first >= start, "{first:?}");
    let next = send(store, "contract-purge", "b");
    send(store, "contract-purge", "c");
    store.stream_purge("contract-purge", Some(next), soon()).expect("the first goes");
    let state = store.stream_info("contract-purge", soon()).expect("it is there").state;
    assert_eq!((state.messages, state.first, state.last), (2, next, next.next()));
    store.stream_purge("contract-purge", None, soon()).expect("all go");
    let state = store.stream_info("contract-purge", soon()).expect("it is there").state;
    assert_eq!((state.messages, state.first, state.last), (0, next.next().next(), next.next()));
}

fn messages_are_read(store: &dyn Store, later: &dyn Fn() -> i64) {
    fresh(store, "contract-read");
    let name = "contract-read";
    assert_eq!(store.stream_purge(name, Some(Sequence(10)), soon()), Ok(()));
    assert_eq!(store.message_get(name, Pick::At(Sequence(10)), From::Leader, soon()), Err(StoreError::NoMessage));
    let headers = vec![("Kafka-Writer".to_owned(), "w-1".to_owned()), ("Other".to_owned(), "a: b c".to_owned())];
    let sent = Publish { headers, ..message(name, &b"one\r\n\0two"[..]) };
    let before = later();
    let at = publish(store, sent, soon()).expect("it is stored").sequence;
    let last = send(store, name, "last");
    for from in [From::Leader, From::Any] {
        for pick in [Pick::At(at), Pick::AtOrAfter(at), Pick::AtOrAfter(Sequence(1))] {
            let read = store.message_get(name, pick, from, soon()).expect("it is there");
            assert_eq!((read.sequence, read.subject.as_str()), (at, "contract.contract-read"));
            assert_eq!(read.payload.as_ref(), b"one\r\n\0two");
            assert_eq!((read.header("Kafka-Writer"), read.header("Other")), (Some("w-1"), Some("a: b c")));
            assert_eq!(read.headers.len(), 2, "{:?}", read.headers);
            assert!((before..before + 10_000).contains(&read.stored_ms), "{} stored at {}", before, read.stored_ms);
        }
        let newest = Pick::LastOf("contract.contract-read".to_owned());
        assert_eq!(store.message_get(name, newest, from, soon()).expect("it is there").sequence, last);
        let none = Pick::LastOf("contract.other".to_owned());
        assert_eq!(store.message_get(name, none, from, soon()), Err(StoreError::NoMessage));
        let beyond = Pick::AtOrAfter(last.next());
        assert_eq!(store.message_get(name, beyond, from, soon()), Err(StoreError::NoMessage));
        let nowhere = Pick::At(Sequence(1));
        let missing = store.message_get("contract-none", nowhere, from, soon());
        // Nobody answers a direct get there; what that means is left to the implementation.
        let is_unheard = from == From::Any && missing == Err(StoreError::Unavailable);
        assert!(is_unheard || missing == Err(StoreError::NoStream), "{missing:?}");
    }
    store.message_delete(name, at, soon()).expect("it is deleted");
    assert_eq!(store.message_get(name, Pick::At(at), From::Leader, soon()), Err(StoreError::NoMessage));
    assert_eq!(store.message_delete(name, at, soon()), Err(StoreError::NoMessage));
    let after = store.message_get(name, Pick::AtOrAfter(at), From::Leader, soon()).expect("the next one");
    assert_eq!(after.sequence, last);
}

fn runs_are_read(store: &dyn Store) {
    fresh(store, "contract-run");
    let read = |start, count, bytes| {
        store.messages_read("contract-run", Sequence(start), count, bytes, soon()).expect("it reads")
    };
    assert!(read(1, 10, 1000).is_empty());
    for n in 0..100u32 {
        send(store, "contract-run", format!("{n:0100}"));
    }
    let run = read(1, 1000, 1 << 20);
    assert_eq!(run.len(), 100);
    for (n, message) in run.iter().enumerate() {
        assert_eq!(
            (message.sequence, message.payload.as_ref()),
            (Sequence(n as u64 + 1), format!("{n:0100}").as_bytes())
        );
    }
    assert_eq!(read(51, 7, 1 << 20).iter().map(|m| m.sequence.0).collect::<Vec<_>>(), (51..58).collect::<Vec<_>>());
    assert_eq!(read(0, 1, 1 << 20).len(), 1);
    assert_eq!(read(5, 10, 0).first().map(|m| m.sequence), Some(Sequence(5)));
    let some = read(1, 1000, 1000);
    assert!((8..=12).contains(&some.len()), "{} messages of 100 bytes for 1000", some.len());
    assert!(read(101, 10, 1000).is_empty());
}

fn holes_are_stepped_over(store: &dyn Store) {
    fresh(store, "contract-holes");
    for n in 1..=200u32 {
        send(store, "contract-holes", n.to_string());
    }
    store.stream_purge("contract-holes", Some(Sequence(5)), soon()).expect("the head goes");
    let kept = |n: u64| n >= 5 && !n.is_multiple_of(7) && !(40..150).contains(&n);
    for n in (5..=200).filter(|n| !kept(*n)) {
        store.message_delete("contract-holes", Sequence(n), soon()).expect("it is deleted");
    }
    let mut seen = Vec::new();
    let mut next = Sequence(1);
    loop {
        let run = store.messages_read("contract-holes", next, 30, 1 << 20, soon()).expect("it reads");
        let Some(last) = run.last() else { break };
        next = last.sequence.next();
        assert!(run.iter().all(|m| m.payload.as_ref() == m.sequence.0.to_string().as_bytes()));
        seen.extend(run.iter().map(|m| m.sequence.0));
    }
    assert_eq!(seen, (1..=200).filter(|n| kept(*n)).collect::<Vec<_>>());
}

fn store_time_is_found(store: &dyn Store, later: &dyn Fn() -> i64) {
    fresh(store, "contract-time");
    let since = |wall_ms| store.message_stored_since("contract-time", wall_ms, soon()).expect("it answers");
    assert_eq!(since(0), None);
    send(store, "contract-time", "a");
    let first = store.message_get("contract-time", Pick::At(Sequence(1)), From::Leader, soon()).expect("stored");
    later();
    let at = send(store, "contract-time", "b");
    let second = store.message_get("contract-time", Pick::At(at), From::Leader, soon()).expect("stored");
    assert!(second.stored_ms > first.stored_ms);
    assert_eq!(since(0), Some(Sequence(1)));
    assert_eq!(since(first.stored_ms), Some(Sequence(1)));
    assert_eq!(since(first.stored_ms + 1), Some(at));
    assert_eq!(since(second.stored_ms), Some(at));
    assert_eq!(since(second.stored_ms + 60_000), None);
    // Clients that count in nanoseconds, and the end of all times.
    assert_eq!([since(second.stored_ms * 1_000_000), since(i64::MAX)], [None, None]);
    assert_eq!(since(i64::MIN), Some(Sequence(1)));
    assert_eq!(store.message_stored_since("contract-none", 0, soon()), Err(StoreError::NoStream));
}

fn entries_live(store: &dyn Store) {
    let bucket = KvBucket { name: "contract".to_owned(), replicas: 1, max_age_ms: None };
    assert_eq!(store.kv_get("contract", "a", soon()), Err(StoreError::NoStream));
    store.kv_ensure(&bucket, soon()).expect("it is made");
    store.kv_ensure(&bucket, soon()).expect("it is there");
    store.kv_ensure(&KvBucket { max_age_ms: Some(1000), ..bucket }, soon()).expect("it is left as it is");
    let get = |key: &str| store.kv_get("contract", key, soon()).expect("it answers");
    let put = |key: &str, value: Option<&'static str>, expected| {
        kv_replace(store, "contract", key, value.map(Bytes::from), expected, soon())
    };
    let never = get("g.t.0");
    assert_eq!((never.revision, never.value), (Sequence(0), None));
    let first = put("g.t.0", Some("1"), Sequence(0)).expect("it was not there");
    assert!(matches!(put("g.t.0", Some("2"), Sequence(0)), Err(StoreError::WrongLast(_))));
    let second = put("g.t.0", Some("2"), first).expect("the revision fits");
    let entry = get("g.t.0");
    assert_eq!((entry.revision, entry.value.as_deref()), (second, Some(&b"2"[..])));
    assert!(entry.stored_ms > 1_600_000_000_000);
    let marker = put("g.t.0", None, second).expect("it is deleted");
    assert_eq!((get("g.t.0").revision, get("g.t.0").value), (marker, None));
    assert!(matches!(put("g.t.0", Some("3"), Sequence(0)), Err(StoreError::WrongLast(_))));
    put("g.t.0", Some("3"), marker).expect("a deleted one is made again");
    put("g.t.1", Some(""), Sequence(0)).expect("an empty value is a value");
    put("h.t.0", Some("5"), Sequence(0)).expect("it was not there");
    let gone = put("g.t.2", Some("6"), Sequence(0)).expect("it was not there");
    put("g.t.2", None, gone).expect("it is deleted");
    let list = |filter: &str| {
        let entries = store.kv_list("contract", filter, soon()).expect("it lists");
        entries.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
    };
    assert_eq!(list(">"), ["g.t.0", "g.t.1", "h.t.0"]);
    assert_eq!(list("g.*.*"), ["g.t.0", "g.t.1"]);
    assert!(list("nobody.>").is_empty());
    assert_eq!(store.kv_list("contract-none", ">", soon()), Err(StoreError::NoStream));
}

fn many_entries_are_listed(store: &dyn Store) {
    let bucket = KvBucket { name: "contract-many".to_owned(), replicas: 1, max_age_ms: Some(3_600_000) };
    store.kv_ensure(&bucket, soon()).expect("it is made");
    let puts =
        (0..1000).map(|n| kv_message("contract-many", &format!("k.{n:04}"), Some(format!("{n}").into()), Sequence(0)));
    assert!(publish_all(store, puts.collect(), soon()).iter().all(Result::is_ok));
    let listed = store.kv_list("contract-many", ">", soon()).expect("it lists");
    assert_eq!(listed.len(), 1000);
    for (n, (key, entry)) in listed.iter().enumerate() {
        assert_eq!((key.as_str(), entry.value.as_deref()), (&*format!("k.{n:04}"), Some(n.to_string().as_bytes())));
    }
}

fn core_subjects_reach(store: &dyn Store) {
    let (sender, receiver) = mpsc::channel();
    let handler = move |subject: &str, payload: Bytes| drop(sender.send((subject.to_owned(), payload)));
    store.core_subscribe("_contract.tick.*", Box::new(handler)).expect("it subscribes");
    store.core_publish("_contract.tick.a", Bytes::from_static(b"1"));
    let got = receiver.recv_timeout(Duration::from_secs(10)).expect("it arrives");
    assert_eq!(got, ("_contract.tick.a".to_owned(), Bytes::from_static(b"1")));
}

fn refusals_are_told_apart(store: &dyn Store) {
    let unheard = Publish { subject: "contract.nobody-listens".to_owned(), ..Publish::default() };
    assert_eq!(publish(store, unheard, soon()), Err(StoreError::Unavailable));
    assert!(store.info().connected);
}

/// A callback starts the next publish from the thread it runs on, as a partition does that has more to commit.
fn callbacks_may_publish_again(store: &Arc<dyn Store>) {
    const ROUNDS: u64 = 200;
    fn publish_on(store: Arc<dyn Store>, expected: u64, finished: mpsc::Sender<u64>) {
        let guarded = Publish { expected_last: Some(Sequence(expected)), ..message("contract-again", "x") };
        let next = store.clone();
        let done = move |outcome: StoreResult<PubAck>| match outcome.expect("the guard fits").sequence.0 {
            ROUNDS => drop(finished.send(ROUNDS)),
            stored => publish_on(next, stored, finished),
        };
        store.publish_begin(guarded, soon(), Box::new(done));
    }
    fresh(&**store, "contract-again");
    let (finished, wait) = mpsc::channel();
    publish_on(store.clone(), 0, finished);
    assert_eq!(wait.recv_timeout(Duration::from_secs(10)), Ok(ROUNDS));
}
