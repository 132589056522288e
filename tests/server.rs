//! The server over real sockets, with a toy protocol behind it.

#[path = "server/toy.rs"]
mod toy;

use hanzo_kafka::server::Settings;
use hanzo_kafka::tasks::Tasks;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use toy::{Client, Gateway, Op, frame, median, resident_bytes, settings, wait_until};

#[test]
fn replies_keep_the_order_of_their_requests_whatever_finishes_first() {
    let gateway = Gateway::start();
    let mut client = gateway.client();
    let mut bytes = Vec::new();
    for id in 0..400 {
        let op = [Op::ProduceIn, Op::ProduceIn, Op::ProduceIn, Op::ProduceIn, Op::HeavyEcho, Op::Echo, Op::AwaitNow]
            [id as usize % 7];
        bytes.extend(frame(op, id, (id * 7) % 11, b"x"));
    }
    client.send_bytes(&bytes);
    client.expect_ids(0..400);
}

#[test]
fn produce_is_begun_before_earlier_produce_is_done_and_anything_else_is_a_barrier() {
    let gateway = Gateway::start();
    let mut client = gateway.client();
    client.send(Op::Produce, 1, 0);
    wait_until("the first is begun", || gateway.toy.promised() == 1);
    client.send(Op::Produce, 2, 0);
    wait_until("the second is begun, though it came later", || gateway.toy.promised() == 2);
    client.send(Op::Await, 3, 0);
    client.send(Op::Produce, 4, 0);
    gateway.toy.keep(2, b"two");
    gateway.client().ping(Op::HeavyEcho);
    assert_eq!(gateway.toy.promised(), 1, "only the first is under way");
    gateway.toy.keep(1, b"one");
    client.expect(1, "one");
    client.expect(2, "two");
    gateway.toy.keep(3, b"three");
    client.expect(3, "three");
    gateway.toy.keep(4, b"four");
    client.expect(4, "four");
}

#[test]
fn produce_in_flight_is_capped() {
    let gateway = Gateway::start();
    let mut client = gateway.client();
    (0..40).for_each(|id| client.send(Op::Produce, id, 0));
    wait_until("the cap is reached", || gateway.toy.promised() == 16);
    gateway.client().ping(Op::HeavyEcho);
    assert_eq!(gateway.toy.promised(), 16);
    for id in 0..40 {
        gateway.toy.keep(id, b"");
        client.expect(id, "");
    }
}

#[test]
fn a_parked_request_answers_at_its_deadline() {
    let gateway = Gateway::start();
    let mut client = gateway.client();
    for (id, wait_ms) in [(1, 150), (2, 40), (3, 1)] {
        let start = Instant::now();
        client.send(Op::Await, id, wait_ms);
        client.expect(id, "time is up");
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(wait_ms.into()), "{took:?}");
        assert!(took < Duration::from_millis(wait_ms.into()) + Duration::from_secs(2), "{took:?}");
    }
}

#[test]
fn a_timer_that_came_while_a_worker_was_awaited_is_set_again() {
    let call_ahead_max = Duration::from_millis(100);
    let gateway = Gateway::with(Settings { call_ahead_max, ..settings() }, 6);
    let mut client = gateway.client();
    client.send(Op::Await, 1, 3_000);
    wait_until("it is parked", || gateway.metrics.requests_parked.get() == 1);
    let mut stuck: Vec<Client> = (0..4).map(|_| gateway.client()).collect();
    stuck.iter_mut().for_each(|client| client.send(Op::Block, 2, 0));
    wait_until("every regular worker is stuck", || gateway.toy.blocked.load(Ordering::SeqCst) == 4);
    client.send_bytes(&[0]);
    wait_until("it waits for a worker", || gateway.server.dump().queued == 1);
    let since = Instant::now();
    wait_until("its timer has come by", || since.elapsed() > call_ahead_max * 3);
    gateway.toy.open_gate();
    client.expect(1, "time is up");
}

#[test]
fn no_wake_up_is_lost() {
    let gateway = Gateway::start();
    thread::scope(|scope| {
        for _ in 0..4 {
            let mut client = gateway.client();
            scope.spawn(move || {
                for id in 0..2_000 {
                    client.send(Op::AwaitNow, id, 0);
                    client.expect(id, "woken");
                }
            });
        }
    });
}

#[test]
fn frames_arrive_in_any_pieces() {
    let gateway = Gateway::start();
    let mut client = gateway.client();
    for byte in frame(Op::Echo, 1, 0, b"in pieces") {
        client.send_bytes(&[byte]);
        gateway.client().ping(Op::Echo);
    }
    client.expect(1, "in pieces");
    let large = vec![b'z'; 3 << 20];
    let mut bytes = frame(Op::HeavyEcho, 2, 0, &large);
    bytes.extend(frame(Op::Echo, 3, 0, b"after it"));
    let mut writer = client.stream.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || bytes.chunks(100_001).for_each(|piece| writer.write_all(piece).unwrap()));
        assert_eq!(client.reply(), (2, large));
        client.expect(3, "after it");
    });
}

#[test]
fn a_peer_that_does_not_read_holds_neither_worker_nor_memory() {
    const REPLY_BYTES: u32 = 8 << 20;
    let gateway = Gateway::start();
    let mut client = gateway.client();
    (0..40).for_each(|id| client.send(Op::Large, id, REPLY_BYTES));
    wait_until("the first is begun", || gateway.metrics.requests.get() > 0);
    let mut other = gateway.client();
    let took = median((0..50).map(|_| other.ping(Op::HeavyEcho)).collect());
    assert!(took < Duration::from_millis(200), "{took:?}");
    let begun = gateway.metrics.requests.get() - 50;
    assert!(begun <= 3, "{begun} replies of 8 MiB were made for a peer that does not read");
    for id in 0..40 {
        let (got, payload) = client.reply();
        assert_eq!((got, payload.len()), (id, REPLY_BYTES as usize));
    }
}

#[test]
fn replies_that_nobody_takes_hold_back_fetches_only() {
    const REPLY_BYTES: u32 = 24 << 20;
    let gateway = Gateway::with(Settings { reply_bytes_held_max: 1 << 20, ..settings() }, 6);
    let mut parked: Vec<Client> = (10..16).map(|_| gateway.client()).collect();
    parked.iter_mut().zip(10..).for_each(|(client, id)| client.send(Op::AwaitFetch, id, 0));
    let mut late = gateway.client();
    late.send(Op::AwaitFetch, 16, 500);
    wait_until("fetches are parked", || gateway.metrics.requests_parked.get() == 7);
    let sent = Instant::now();
    let mut deaf = gateway.client();
    deaf.send(Op::Large, 1, REPLY_BYTES);
    wait_until("its reply is made", || gateway.server.reply_bytes_held() > 1 << 20);
    let mut fetch = gateway.client();
    fetch.send(Op::Large, 2, 10);
    (10..16).for_each(|id| gateway.toy.keep(id, b"records"));
    wait_until("the time of one is up", || sent.elapsed() > Duration::from_secs(1));
    let jobs = gateway.metrics.workers.jobs.get();
    let mut other = gateway.client();
    for _ in 0..20 {
        other.ping(Op::Echo);
        other.ping(Op::HeavyEcho);
    }
    assert_eq!(gateway.metrics.requests.get(), 8 + 40, "the fetch is not begun");
    assert_eq!(gateway.metrics.requests_parked.get(), 7, "what was parked makes no replies either");
    let turns = gateway.metrics.workers.jobs.get() - jobs;
    assert!(turns < 1_000, "{turns} turns for connections that can do nothing");
    assert_eq!(gateway.server.dump().parked.len(), 7, "they are told of");
    assert_eq!(deaf.reply().1.len(), REPLY_BYTES as usize);
    fetch.expect_ids([2]);
    parked.iter_mut().zip(10..).for_each(|(client, id)| client.expect(id, "records"));
    late.expect(16, "time is up");
    late.send(Op::AwaitFetch, 17, 50);
    late.expect(17, "time is up");
}

#[test]
fn while_replies_clog_the_server_a_peer_that_has_not_taken_its_own_gets_no_more() {
    let gateway = Gateway::with(Settings { reply_bytes_held_max: 1 << 20, ..settings() }, 6);
    let mut slow = gateway.narrow_client();
    let echo = frame(Op::Echo, 1, 0, &[7; 8 * 1024]);
    let mut sent = 0;
    let send = |slow: &mut Client, count| (0..count).for_each(|_| slow.send_bytes(&echo));
    while gateway.server.reply_bytes_held() == 0 {
        send(&mut slow, 1);
        sent += 1;
        wait_until("it is begun", || gateway.metrics.requests.get() == sent);
        gateway.server.answers(Instant::now() + Duration::from_secs(10));
    }
    send(&mut slow, 5);
    wait_until("they are begun: nobody waits", || gateway.metrics.requests.get() == sent + 5);
    let mut deaf = gateway.client();
    deaf.send(Op::Large, 2, 24 << 20);
    wait_until("the server is clogged", || gateway.server.reply_bytes_held() > 1 << 20);
    send(&mut slow, 5);
    let mut other = gateway.client();
    for _ in 0..50 {
        other.ping(Op::Echo);
    }
    assert_eq!(gateway.metrics.requests.get(), sent + 5 + 1 + 50, "no more replies are made for who takes none");
    deaf.reply();
    slow.expect_ids((0..sent + 10).map(|_| 1));
}

#[test]
fn when_there_is_room_again_a_crowd_that_never_took_a_reply_comes_last() {
    const REPLY_BYTES: u32 = 16 << 20;
    let gateway = Gateway::with(Settings { reply_bytes_held_max: 1 << 20, ..settings() }, 6);
    let mut known = gateway.client();
    known.ping(Op::HeavyEcho);
    let mut deaf = gateway.client();
    deaf.send(Op::Large, 1, REPLY_BYTES);
    wait_until("the server is clogged", || gateway.server.reply_bytes_held() > 1 << 20);
    let mut crowd: Vec<Client> = (0..20).map(|_| gateway.client()).collect();
    crowd.iter_mut().for_each(|client| client.send(Op::Large, 2, REPLY_BYTES));
    for _ in 0..20 {
        gateway.client().ping(Op::HeavyEcho);
    }
    known.send(Op::Large, 3, 10);
    deaf.reply();
    known.expect_ids([3]);
}

/// Takes little of a reply, again and again, for so many times or until the server ends it; gives how often it could.
fn sip(client: &mut Client, times: usize) -> usize {
    let took = |client: &mut Client| client.stream.read(&mut [0; 16 * 1024]).is_ok_and(|count| count > 0);
    (0..times).take_while(|_| took(client) && pause()).count()
}

/// What a slow peer does between two steps.
fn pause() -> bool {
    thread::sleep(Duration::from_millis(20));
    true
}

#[test]
fn who_takes_replies_too_slowly_lives_while_nobody_waits_for_the_room() {
    let gateway = Gateway::with(Settings { stall_max: Duration::from_millis(500), ..settings() }, 6);
    let mut slow = gateway.narrow_client();
    slow.send(Op::Large, 1, 24 << 20);
    assert_eq!(sip(&mut slow, 100), 100);
}

#[test]
fn who_takes_replies_too_slowly_makes_room_when_others_wait_for_it() {
    let stall_max = Duration::from_secs(2);
    let gateway = Gateway::with(Settings { stall_max, reply_bytes_held_max: 1 << 20, ..settings() }, 6);
    let mut slow = gateway.narrow_client();
    slow.send(Op::Large, 1, 32 << 20);
    wait_until("its reply is made", || gateway.server.reply_bytes_held() > 1 << 20);
    let mut fetch = gateway.client();
    fetch.send(Op::Large, 2, 10);
    thread::scope(|scope| {
        let slow = scope.spawn(|| sip(&mut slow, 1_500));
        fetch.expect_ids([2]);
        assert!(slow.join().unwrap() < 1_500, "it is closed");
    });
}

#[test]
fn what_waits_for_a_vanished_client_is_abandoned() {
    let gateway = Gateway::start();
    let mut fin = gateway.client();
    fin.send(Op::Await, 1, 0);
    let mut reset = gateway.client();
    reset.send(Op::Await, 2, 0);
    let mut produce = gateway.client();
    produce.send(Op::Produce, 3, 0);
    let mut behind = gateway.client();
    behind.send(Op::Await, 4, 0);
    behind.send(Op::Echo, 5, 0);
    wait_until("all are parked", || gateway.toy.promised() == 4);
    drop(fin);
    socket2::SockRef::from(&reset.stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop((reset, behind));
    wait_until("three are abandoned", || gateway.toy.abandoned.load(Ordering::SeqCst) == 3);
    wait_until("three are gone", || gateway.metrics.connections_open.get() == 1);
    gateway.toy.keep(3, b"still here");
    produce.expect(3, "still here");
}

#[test]
fn what_a_leaving_producer_has_sent_is_still_done() {
    let gateway = Gateway::start();
    let mut client = gateway.client();
    client.send(Op::ProduceIn, 1, 30);
    for id in 2..100 {
        client.send(Op::Silent, id, 0);
    }
    client.stream.shutdown(Shutdown::Write).unwrap();
    client.expect(1, "done");
    client.expect_end();
    assert_eq!(gateway.toy.silent.load(Ordering::SeqCst), 98);
}

#[test]
fn a_close_comes_after_the_replies_before_it_and_nothing_after_it_is_begun() {
    let gateway = Gateway::start();
    let mut client = gateway.client();
    client.send(Op::ProduceIn, 1, 40);
    client.send(Op::Close, 2, 0);
    client.send(Op::Panic, 3, 0);
    client.expect(1, "done");
    client.expect_end();
    assert_eq!(gateway.metrics.panics.get(), 0);
}

#[test]
fn silence_writes_nothing() {
    let gateway = Gateway::start();
    let mut client = gateway.client();
    client.send(Op::Silent, 1, 0);
    client.send(Op::Echo, 2, 0);
    client.expect_ids([2]);
}

#[test]
fn what_is_no_frame_costs_its_connection_only() {
    let gateway = Gateway::start();
    let mut healthy = gateway.client();
    let over = (100u32 * 1024 * 1024 + 1).to_be_bytes();
    let openings: [&[u8]; 8] = [
        &[0x7f, 0xff, 0xff, 0xff],
        &[0xff; 4],
        &[0x80, 0, 0, 0],
        &[0; 4],
        &over,
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3],
        b"SSH-2.0-OpenSSH_9.6\r\n",
    ];
    for opening in openings {
        let mut client = gateway.client();
        client.send_bytes(opening);
        client.expect_end();
        healthy.ping(Op::Echo);
    }
    let mut late = gateway.client();
    late.send(Op::Echo, 1, 0);
    late.send_bytes(&[0xff; 4]);
    late.expect_ids([1]);
    late.expect_end();
}

#[test]
fn a_panic_costs_its_connection_only() {
    let gateway = Gateway::start();
    let mut healthy = gateway.client();
    for round in 0..10 {
        let mut client = gateway.client();
        client.send(Op::Panic, 1, 0);
        client.expect_gone();
        let mut parked = gateway.client();
        parked.send(Op::PanicParked, 2, 0);
        gateway.toy.keep(2, b"");
        parked.expect_gone();
        healthy.ping(Op::HeavyEcho);
        assert_eq!(gateway.metrics.panics.get(), 2 * round + 2);
    }
    gateway.pool.spawn(Box::new(|| panic!("a toy panic in a task")));
    wait_until("the task's panic is counted", || gateway.metrics.panics.get() == 21);
    healthy.ping(Op::HeavyEcho);
}

#[test]
fn light_requests_are_answered_while_every_other_worker_is_stuck() {
    let gateway = Gateway::start();
    let mut stuck: Vec<Client> = (0..12).map(|_| gateway.client()).collect();
    stuck.iter_mut().for_each(|client| client.send(Op::Block, 1, 0));
    wait_until("every regular worker is stuck", || gateway.toy.blocked.load(Ordering::SeqCst) == 4);
    let mut light = gateway.client();
    for _ in 0..50 {
        light.ping(Op::Echo);
    }
    light.send(Op::Echo, 1, 0);
    light.send(Op::HeavyEcho, 2, 0);
    light.expect_ids([1]);
    gateway.toy.open_gate();
    light.expect_ids([2]);
    stuck.iter_mut().for_each(|client| client.expect(1, "unblocked"));
}

#[test]
fn what_goes_on_is_told_and_a_stuck_pool_is_noticed() {
    let gateway = Gateway::start();
    let soon = || Instant::now() + Duration::from_secs(10);
    assert!(gateway.server.answers(soon()));
    let mut parked = gateway.client();
    parked.send(Op::Await, 1, 0);
    let mut stuck: Vec<Client> = (0..4).map(|_| gateway.client()).collect();
    stuck.iter_mut().for_each(|client| client.send(Op::Block, 1, 0));
    wait_until("every regular worker is stuck", || gateway.toy.blocked.load(Ordering::SeqCst) == 4);
    wait_until("the other request is parked", || gateway.server.dump().parked.len() == 1);
    let dump = gateway.server.dump();
    let busy: Vec<&str> =
        dump.workers.iter().filter(|(_, doing)| doing.request.is_some()).map(|(thread, _)| thread.as_str()).collect();
    assert_eq!(busy, ["worker-0", "worker-1", "worker-2", "worker-3"], "{dump}");
    assert_eq!((dump.connections, dump.parked_unlisted), (5, 0), "{dump}");
    assert!(!gateway.server.answers(Instant::now() + Duration::from_millis(50)), "nobody takes a job");
    gateway.toy.open_gate();
    stuck.iter_mut().for_each(|client| client.expect(1, "unblocked"));
    assert!(gateway.server.answers(soon()));
    gateway.toy.keep(1, b"");
    parked.expect(1, "");
    wait_until("nothing goes on", || gateway.server.dump().workers.iter().all(|(_, doing)| doing.request.is_none()));
}

#[test]
fn many_idle_and_parked_connections_cost_the_busy_one_little() {
    let gateway = Gateway::start();
    let mut busy = gateway.client();
    let alone = median((0..300).map(|_| busy.ping(Op::HeavyEcho)).collect());
    let mut idle: Vec<Client> = (0..2_000).map(|_| gateway.client()).collect();
    let mut parked: Vec<Client> = (0..200).map(|_| gateway.client()).collect();
    parked.iter_mut().zip(1..).for_each(|(client, id)| client.send(Op::Await, id, 60_000));
    wait_until("all are connected and parked", || {
        gateway.metrics.connections_open.get() == 2_201 && gateway.metrics.requests_parked.get() == 200
    });
    let among_many = median((0..300).map(|_| busy.ping(Op::HeavyEcho)).collect());
    assert!(among_many < alone * 4 + Duration::from_millis(2), "{alone:?} alone, {among_many:?} among many");
    for client in idle.iter_mut().step_by(50) {
        client.ping(Op::Echo);
    }
}

#[test]
fn half_open_frames_cost_what_has_arrived_of_them() {
    const COUNT: usize = 2_500;
    let gateway = Gateway::alone();
    let before = resident_bytes();
    let mut opening = (100u32 << 20).to_be_bytes().to_vec();
    opening.resize(1_000, 0);
    let mut clients: Vec<Client> = (0..COUNT).map(|_| gateway.client()).collect();
    clients.iter_mut().for_each(|client| client.send_bytes(&opening));
    wait_until("all are connected", || gateway.metrics.connections_open.get() == COUNT as u64);
    for _ in 0..100 {
        gateway.client().ping(Op::HeavyEcho);
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < COUNT * 16 * 1024, "{grown} bytes for {COUNT} half-open frames");
}

#[test]
fn the_budget_holds_and_every_frame_gets_through() {
    const BUDGET: usize = 2 << 20;
    const FRAME: usize = 1 << 20;
    let gateway = Gateway::with(Settings { request_bytes_held_max: BUDGET, ..settings() }, 6);
    let bytes = frame(Op::HeavyEcho, 1, 0, &vec![7; FRAME]);
    let (first, rest) = bytes.split_at(FRAME / 4);
    let mut clients: Vec<Client> = (0..24).map(|_| gateway.client()).collect();
    clients.iter_mut().for_each(|client| client.send_bytes(first));
    wait_until("the budget is used up", || gateway.server.request_bytes_held() > BUDGET / 2);
    for _ in 0..20 {
        gateway.client().ping(Op::HeavyEcho);
        let held = gateway.server.request_bytes_held();
        assert!(held <= BUDGET + 2 * FRAME, "{held} bytes held");
    }
    thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| {
                client.send_bytes(rest);
                assert_eq!(client.reply().1.len(), FRAME);
            });
        }
    });
}

#[test]
fn partial_frames_that_hardly_grow_make_room_for_others() {
    const BUDGET: usize = 4 << 20;
    let stall_max = Duration::from_secs(1);
    let gateway = Gateway::with(Settings { request_bytes_held_max: BUDGET, stall_max, ..settings() }, 6);
    let hoard = frame(Op::HeavyEcho, 1, 0, &vec![7; 3 << 20]);
    let (begin, rest) = hoard.split_at(2 << 20);
    let hoarders: Vec<Client> = (0..3).map(|_| gateway.client()).collect();
    hoarders.iter().for_each(|hoarder| (&hoarder.stream).write_all(begin).unwrap());
    wait_until("the budget is used up", || gateway.server.request_bytes_held() > BUDGET);
    let served = AtomicBool::new(false);
    let drip = |mut stream: &TcpStream| {
        let mut goes_on = |byte: &u8| !served.load(Ordering::SeqCst) && stream.write_all(&[*byte]).is_ok() && pause();
        rest.iter().take(1_500).take_while(|byte| goes_on(byte)).count()
    };
    thread::scope(|scope| {
        for hoarder in &hoarders {
            scope.spawn(|| drip(&hoarder.stream));
        }
        let mut honest = gateway.client();
        honest.send_bytes(&frame(Op::HeavyEcho, 3, 0, &vec![7; 1 << 20]));
        honest.expect_ids([3]);
        served.store(true, Ordering::SeqCst);
    });
}

#[test]
fn idle_connections_are_closed_and_waiting_ones_are_not() {
    let idle_max = Duration::from_millis(300);
    let gateway = Gateway::with(Settings { connections_max_idle: idle_max, ..settings() }, 6);
    let mut waiting = gateway.client();
    waiting.send(Op::Await, 1, 1_500);
    let start = Instant::now();
    let mut idle = gateway.client();
    idle.expect_end();
    assert!(start.elapsed() >= idle_max);
    waiting.expect(1, "time is up");
    waiting.expect_end();
}

#[test]
fn a_closing_connection_whose_peer_takes_nothing_is_closed() {
    let idle_max = Duration::from_millis(300);
    let gateway = Gateway::with(Settings { connections_max_idle: idle_max, ..settings() }, 6);
    let mut deaf = gateway.client();
    deaf.send(Op::Large, 1, 24 << 20);
    deaf.send_bytes(&[0xff; 4]);
    wait_until("its reply is made", || gateway.server.reply_bytes_held() > 0);
    wait_until("it is closed", || gateway.metrics.connections_open.get() == 0);
}

#[test]
fn connections_above_the_cap_are_turned_away_and_room_is_given_back() {
    let gateway = Gateway::with(Settings { max_connections: 3, ..settings() }, 6);
    let mut clients: Vec<Client> = (0..3).map(|_| gateway.client()).collect();
    for client in &mut clients {
        client.ping(Op::Echo);
    }
    gateway.client().expect_gone();
    assert_eq!(gateway.metrics.connections_refused.get(), 1);
    clients.pop();
    wait_until("there is room again", || gateway.metrics.connections_open.get() == 2);
    gateway.client().ping(Op::Echo);
}

#[test]
fn a_stop_answers_what_waits_and_lets_commits_finish() {
    let gateway = Gateway::start();
    let mut idle = gateway.client();
    idle.ping(Op::Echo);
    let mut waiting = gateway.client();
    waiting.send(Op::Await, 1, 0);
    let mut producing = gateway.client();
    producing.send(Op::Produce, 2, 0);
    let mut hopeless = gateway.client();
    hopeless.send(Op::Produce, 3, 0);
    wait_until("all are parked", || gateway.metrics.requests_parked.get() == 3);
    let start = Instant::now();
    thread::scope(|scope| {
        let stopped = scope.spawn(|| gateway.server.stop(start + Duration::from_secs(4)));
        waiting.expect(1, "time is up");
        waiting.expect_end();
        idle.expect_end();
        assert!(start.elapsed() < Duration::from_secs(2), "what only waits is answered at once");
        gateway.toy.keep(2, b"committed");
        producing.expect(2, "committed");
        producing.expect_end();
        hopeless.expect(3, "time is up");
        hopeless.expect_end();
        assert!(stopped.join().unwrap(), "every connection was closed");
    });
    assert!(start.elapsed() >= Duration::from_secs(3), "a commit under way got its time");
    assert!(std::net::TcpStream::connect(gateway.address()).is_err());
}

#[test]
fn a_stuck_worker_does_not_hold_up_a_stop() {
    let gateway = Gateway::start();
    let mut client = gateway.client();
    client.send(Op::Block, 1, 0);
    wait_until("it is stuck", || gateway.toy.blocked.load(Ordering::SeqCst) == 1);
    let start = Instant::now();
    assert!(!gateway.server.stop(start + Duration::from_millis(400)));
    assert!(start.elapsed() < Duration::from_secs(3));
    gateway.toy.open_gate();
    client.expect(1, "unblocked");
    client.expect_end();
}
