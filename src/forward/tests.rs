//! Forwarders over one store in memory, with a clock and a worker pool that move only when told.

use super::envelope::{Content, Envelope, Part};
use super::{Answer, Failure, Forwarder, Responder, Returned, Visit};
use crate::clock::ManualClock;
use crate::group::Standing;
use crate::group::tests::rig::{Queued, View, World};
use crate::limits::{FORWARDED_BYTES_MAX, FORWARDED_MAX};
use crate::store::Store;
use crate::store::memory::MemoryStore;
use bytes::Bytes;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Visits = Arc<Mutex<Vec<(Visit, Responder)>>>;

/// One gateway's forwarder and what came to it.
struct Side {
    forwarder: Arc<Forwarder>,
    view: Arc<View>,
    visits: Visits,
    tasks: Arc<Queued>,
    clock: Arc<ManualClock>,
}

fn sides() -> (World, Side, Side) {
    let world = World::new();
    world.live(&["one", "two"]);
    let (one, two) = (side(&world, "one"), side(&world, "two"));
    (world, one, two)
}

fn side(world: &World, name: &str) -> Side {
    let view = world.view();
    let store: Arc<MemoryStore> = world.store.clone();
    let forwarder = Forwarder::new(store, world.tasks.clone(), world.clock.clone(), view.clone(), name);
    let visits: Visits = Arc::default();
    let came = visits.clone();
    let serve = move |visit, responder| came.lock().expect("no holder panics").push((visit, responder));
    forwarder.start(Box::new(serve)).expect("the memory subscribes");
    Side { forwarder, view, visits, tasks: world.tasks.clone(), clock: world.clock.clone() }
}

fn visit(frame: &[u8]) -> Visit {
    let client_host = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7));
    Visit { client_host, group: "g".to_owned(), frame: Bytes::copy_from_slice(frame) }
}

/// Where an answer arrives.
type Place = Arc<Mutex<Option<Answer>>>;

impl Side {
    fn ask(&self, to: &str, frame: &[u8]) -> (u64, Place) {
        let place: Place = Arc::default();
        let kept = place.clone();
        let done = move |answer| *kept.lock().expect("no holder panics") = Some(answer);
        let token = self.forwarder.ask(to, &visit(frame), Box::new(done));
        self.tasks.run();
        (token, place)
    }

    fn visitor(&self) -> (Visit, Responder) {
        self.visits.lock().expect("no holder panics").pop().expect("somebody came")
    }

    fn sleep(&self, seconds: u64) {
        self.tasks.sleep(&self.clock, Duration::from_secs(seconds));
    }
}

fn answer(place: &Place) -> Option<Answer> {
    place.lock().expect("no holder panics").clone()
}

#[test]
fn a_request_is_answered_by_the_other_side() {
    let (_world, one, two) = sides();
    let (_, place) = one.ask("two", b"question");
    let (came, responder) = two.visitor();
    assert_eq!(came, visit(b"question"));
    assert_eq!((answer(&place), two.forwarder.visits_open()), (None, 1));
    responder.answer(true, b"answer");
    let frame = Bytes::from_static(b"answer");
    assert_eq!(answer(&place), Some(Ok(Returned { served: true, frame })));
    assert_eq!((one.forwarder.asks_open(), two.forwarder.visits_open()), (0, 0));
}

/// Its connection holds it until its sender has given it up.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Late {
    /// It was overtaken.
    BehindNewerOnes,
    /// Its sender had heard nothing, and says that it has given it up.
    TakenBack,
    /// It was not known when its sender asked for it.
    CalledUnknown,
}

#[test]
fn a_request_that_comes_late_is_not_served() {
    for late in [Late::BehindNewerOnes, Late::TakenBack, Late::CalledUnknown] {
        let (world, one, two) = sides();
        world.store.drop_core_messages(true);
        let (token, place) = one.ask("two", b"late");
        if late != Late::CalledUnknown {
            one.sleep(8);
            assert_eq!(answer(&place), Some(Err(Failure::Silent)));
        }
        world.store.drop_core_messages(false);
        match late {
            Late::BehindNewerOnes => {
                one.ask("two", b"newer");
                assert_eq!(two.visitor().0, visit(b"newer"));
            }
            Late::TakenBack => one.sleep(2),
            Late::CalledUnknown => {
                one.sleep(2);
                assert_eq!(answer(&place), Some(Err(Failure::Lost)));
            }
        }
        let part = Part { token, index: 0, count: 1, bytes: visit(b"late").encode() };
        let envelope = Envelope { from: "one".to_owned(), content: Content::Ask(part) };
        world.store.core_publish("_kafka.forward.two", envelope.encode());
        assert!(two.visits.lock().expect("no holder panics").is_empty(), "{late:?}");
        one.ask("two", b"next");
        assert_eq!(two.visitor().0, visit(b"next"));
    }
}

#[test]
fn what_is_larger_than_a_message_goes_in_parts_both_ways() {
    let (world, one, two) = sides();
    world.store.set_max_payload(2_000);
    let large: Vec<u8> = (0..100_000_u32).map(|number| (number % 251) as u8).collect();
    let (_, place) = one.ask("two", &large);
    let (came, responder) = two.visitor();
    assert_eq!(came.frame, large);
    responder.answer(false, &large);
    assert_eq!(answer(&place), Some(Ok(Returned { served: false, frame: Bytes::from(large) })));
    let (_, place) = one.ask("two", &vec![0; 3_000_000]);
    assert_eq!(answer(&place), Some(Err(Failure::TooLarge)));
}

#[test]
fn a_long_wait_goes_on_as_long_as_both_sides_live() {
    let (_world, one, two) = sides();
    let (_, place) = one.ask("two", b"question");
    let (_, responder) = two.visitor();
    one.sleep(600);
    assert_eq!((answer(&place), two.forwarder.visits_open()), (None, 1));
    responder.answer(true, b"late");
    assert!(matches!(answer(&place), Some(Ok(_))));
}

#[test]
fn a_lost_request_and_a_lost_answer_are_noticed() {
    let (world, one, two) = sides();
    world.store.drop_core_messages(true);
    let (_, place) = one.ask("two", b"question");
    world.store.drop_core_messages(false);
    one.sleep(2);
    assert_eq!(answer(&place), Some(Err(Failure::Lost)));
    assert!(two.visits.lock().expect("no holder panics").is_empty());

    let (_, place) = one.ask("two", b"question");
    let (_, responder) = two.visitor();
    world.store.drop_core_messages(true);
    responder.answer(true, b"answer");
    world.store.drop_core_messages(false);
    one.sleep(2);
    assert_eq!(answer(&place), Some(Err(Failure::Lost)));
}

#[test]
fn who_drops_a_visit_unanswered_is_noticed() {
    let (_world, one, two) = sides();
    let (_, place) = one.ask("two", b"question");
    drop(two.visitor());
    one.sleep(2);
    assert_eq!(answer(&place), Some(Err(Failure::Lost)));
}

#[test]
fn silence_ends_the_wait_and_so_does_the_end_of_the_lease() {
    let (world, one, two) = sides();
    let (_, place) = one.ask("nobody", b"question");
    one.sleep(1);
    assert_eq!(answer(&place), Some(Err(Failure::Gone)));

    let (_, place) = one.ask("two", b"question");
    let (_, responder) = two.visitor();
    world.store.drop_core_messages(true);
    one.sleep(4);
    assert_eq!(answer(&place), None);
    one.sleep(2);
    assert_eq!(answer(&place), Some(Err(Failure::Silent)));
    world.store.drop_core_messages(false);
    responder.answer(true, b"too late");

    let (_, place) = one.ask("two", b"question");
    one.view.believe("two", Standing::Gone);
    one.sleep(1);
    assert_eq!(answer(&place), Some(Err(Failure::Gone)));
}

#[test]
fn a_client_that_is_gone_is_told_to_the_other_side() {
    let (_world, one, two) = sides();
    let (token, place) = one.ask("two", b"question");
    let (_, responder) = two.visitor();
    let told = Arc::new(Mutex::new(0));
    let count = told.clone();
    responder.on_abandon(Box::new(move || *count.lock().expect("no holder panics") += 1));
    one.forwarder.abandon(token);
    assert_eq!(*told.lock().expect("no holder panics"), 1);
    one.forwarder.abandon(token);
    assert_eq!(*told.lock().expect("no holder panics"), 1);
    responder.answer(true, b"for nobody");
    assert_eq!(answer(&place), None);
    assert_eq!((one.forwarder.asks_open(), two.forwarder.visits_open()), (0, 0));
}

#[test]
fn a_visit_whose_sender_died_is_abandoned_also_if_it_is_known_late_whom_to_tell() {
    for told_late in [false, true] {
        let (world, one, two) = sides();
        one.ask("two", b"question");
        let (_, responder) = two.visitor();
        let told = Arc::new(Mutex::new(0));
        let count = told.clone();
        let call = Box::new(move || *count.lock().expect("no holder panics") += 1);
        let call = if told_late {
            Some(call)
        } else {
            responder.on_abandon(call);
            None
        };
        world.store.drop_core_messages(true);
        two.sleep(8);
        if let Some(call) = call {
            responder.on_abandon(call);
        }
        assert_eq!(*told.lock().expect("no holder panics"), 1, "{told_late}");
        drop(responder);
        assert_eq!(two.forwarder.visits_open(), 0);
    }
}

#[test]
fn repeated_late_and_forged_messages_change_nothing() {
    let (world, one, two) = sides();
    let recorded: Arc<Mutex<Vec<Bytes>>> = Arc::default();
    let record = recorded.clone();
    let tap = move |_: &str, payload: Bytes| record.lock().expect("no holder panics").push(payload);
    world.store.core_subscribe("_kafka.forward.*", Box::new(tap)).expect("the memory subscribes");
    let (_, place) = one.ask("two", b"question");
    let (_, responder) = two.visitor();
    let ask = recorded.lock().expect("no holder panics")[0].clone();
    // While it is served, the same message again is no second request.
    world.store.core_publish("_kafka.forward.two", ask);
    one.tasks.run();
    assert!(two.visits.lock().expect("no holder panics").is_empty());
    responder.answer(true, b"answer");
    let reply = recorded.lock().expect("no holder panics").last().cloned().expect("the answer");
    let first = answer(&place);
    *place.lock().expect("no holder panics") = None;
    world.store.core_publish("_kafka.forward.one", reply);
    assert!(first.is_some() && answer(&place).is_none());
    for rubbish in [&b""[..], b"\x01", b"\x01\x04one\x01", b"\x01\x04one\x09123", &[0xff; 300]] {
        world.store.core_publish("_kafka.forward.one", Bytes::copy_from_slice(rubbish));
    }
    one.sleep(2);
}

#[test]
fn what_is_under_way_is_bounded_on_both_sides() {
    let (_world, one, two) = sides();
    let megabytes = vec![0; 8 * 1024 * 1024];
    let places: Vec<Place> = (0..9).map(|_| one.ask("two", &megabytes).1).collect();
    let refused = places.iter().filter(|place| answer(place) == Some(Err(Failure::Full))).count();
    assert_eq!(refused, 9 - (FORWARDED_BYTES_MAX / (8 * 1024 * 1024 + 20)));
    two.visits.lock().expect("no holder panics").clear();
    one.sleep(2);
    assert!(places.iter().all(|place| answer(place).is_some()));

    let three = side(&_world, "three");
    let half: Vec<Place> = (0..FORWARDED_MAX / 2).map(|_| one.ask("two", b"x").1).collect();
    let more: Vec<Place> = (0..FORWARDED_MAX / 2 + 5).map(|_| three.ask("two", b"x").1).collect();
    let refused = more.iter().filter(|place| answer(place) == Some(Err(Failure::Full))).count();
    assert_eq!(refused, 5);
    assert!(half.iter().all(|place| answer(place).is_none()));
}
