//! One run: load, faults from a seed, quiet, judgement.

use crate::checker::{Violation, check};
use crate::clients::{Course, Producer, Reader};
use crate::committer;
use crate::history::{Event, History, Outcome, Promises, What};
use crate::nemesis::{self, Fault};
use crate::random::Random;
use crate::rig::{Config, PARTITIONS, RECOVERY, Rig};
use crate::weather;
use std::fmt;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const GROUPS: [u16; 2] = [0, 1];

/// What a run came to.
#[derive(Default)]
pub struct Report {
    pub records_acked: u64,
    pub records_unknown: u64,
    pub reads: u64,
    pub commits: u64,
    pub faults: usize,
    /// From the end of the last fault until the last producer was settled.
    pub settled_after: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { records_acked, records_unknown, reads, commits, faults, settled_after } = self;
        write!(
            f,
            "{faults} faults, {records_acked} records acknowledged, {records_unknown} of unknown outcome, {reads} reads, \
             {commits} commits, settled after {settled_after:.1?}"
        )
    }
}

/// Says something to a person past the test harness's capture.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "torture: {text}");
}

/// Where few produce, so many batches are acknowledged before a fault strikes: it would meet nobody otherwise.
const ACKS_BEFORE_A_STRIKE: u64 = 50;

/// How much the clients of a run want of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Few producers, which rest a little: other cases may run beside it.
    Light,
    Usual,
    /// All producers write to partition 0 and never rest.
    Crowded,
}

impl Load {
    fn producers(self) -> u16 {
        if self == Load::Light { 3 } else { 8 }
    }

    fn pause_ms_max(self, random: &mut Random) -> u64 {
        match self {
            Load::Light => 20,
            Load::Usual => *random.pick(&[5, 20, 60]),
            Load::Crowded => 0,
        }
    }
}

/// What a run is made of.
pub struct Plan<'a> {
    pub config: Config,
    pub seed: u64,
    pub span: Duration,
    /// Those that may strike; none for a calm run.
    pub faults: &'a [Fault],
    pub load: Load,
}

/// Runs a plan and panics with what the checker found.
#[track_caller]
pub fn run(plan: &Plan) -> Report {
    let Plan { config, seed, span, faults, load } = *plan;
    say(&format!("CONFIG={config} SEED={seed} for {span:?}"));
    let mut random = Random::new(seed);
    let mut rig = Rig::start(config);
    let course = rig.course();
    let mut stands_still = false;
    let (mut events, report) = under_load(&mut rig, &course, &mut random, load, |rig, random| {
        let (until, mut struck) = (Instant::now() + span, 0);
        if faults.is_empty() {
            std::thread::sleep(span);
        }
        while Instant::now() < until {
            let fault = *random.pick(faults);
            if config.servers == 1 && fault.needs_a_cluster() {
                continue;
            }
            if load == Load::Light && !course.sees_more_acks(ACKS_BEFORE_A_STRIKE) {
                // Maybe the checker knows why.
                stands_still = true;
                break;
            }
            let began = rig.began.elapsed();
            let sent_us = rig.journal.now_us();
            nemesis::strike(rig, random, fault);
            if fault.troubles_the_store() {
                (0..PARTITIONS).for_each(|partition| rig.journal.note(0, partition, sent_us, What::Trouble));
            }
            say(&format!("{began:.1?} to {:.1?} {fault}", rig.began.elapsed()));
            std::thread::sleep(Duration::from_millis(random.between(200, 2_500)));
            struck += 1;
        }
        struck
    });
    rig.read_finally(&GROUPS, &events);
    events.append(&mut rig.journal.events);
    let producers = (0..load.producers()).map(|number| Promises { idempotent: is_idempotent(number) }).collect();
    let history = History { producers, events };
    let violations = check(&history);
    say(&format!("CONFIG={config} SEED={seed}: {report}; {} violations", violations.len()));
    if let (true, Some(folder)) = (stands_still || !violations.is_empty(), std::env::var_os("KEEP")) {
        keep(&rig, &history, &Path::new(&folder).join(seed.to_string()));
    }
    expect_none(config, seed, &violations);
    assert!(!stands_still, "CONFIG={config} SEED={seed}: nothing was acknowledged any more");
    report
}

/// Writes down all that is known of a run that went wrong.
fn keep(rig: &Rig, history: &History, folder: &Path) {
    rig.keep_logs(folder);
    let lines = history.events.iter().map(|event| format!("{event:?}\n")).collect::<String>();
    let _ = std::fs::write(folder.join("history"), format!("began {:?} ago\n{lines}", rig.began.elapsed()));
}

#[track_caller]
fn expect_none(config: Config, seed: u64, violations: &[Violation]) {
    let lines: Vec<String> = violations
        .iter()
        .map(|violation| format!("{:?} in partition {}: {}", violation.fault, violation.partition, violation.evidence))
        .collect();
    assert!(violations.is_empty(), "CONFIG={config} SEED={seed}\n  {}", lines.join("\n  "));
}

/// Two of three are.
fn is_idempotent(number: u16) -> bool {
    number % 3 != 2
}

/// Ends the course when dropped, also when the run fails: the clients are waited for.
struct Over<'a>(&'a Course);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
        *self.0.give_up.lock().expect("no holder panics") = Some(Instant::now() + RECOVERY);
    }
}

/// Starts all clients, lets `weather` rage, and gives what the clients saw once they are settled.
fn under_load(
    rig: &mut Rig,
    course: &Course,
    random: &mut Random,
    load: Load,
    weather: impl FnOnce(&mut Rig, &mut Random) -> usize,
) -> (Vec<Event>, Report) {
    let mut report = Report::default();
    let mut events = Vec::new();
    std::thread::scope(|scope| {
        let mut clients = Vec::new();
        for number in 0..load.producers() {
            let partition = if load == Load::Crowded { 0 } else { i32::from(number) % PARTITIONS };
            let pause_ms_max = load.pause_ms_max(random);
            let producer = Producer { number, partition, idempotent: is_idempotent(number), pause_ms_max };
            let random = random.fork();
            clients.push(scope.spawn(move || producer.run(course, random)));
        }
        for partition in 0..PARTITIONS {
            for tail in [true, false] {
                let random = random.fork();
                clients.push(scope.spawn(move || Reader { partition, tail }.run(course, random)));
            }
        }
        for group in GROUPS {
            let random = random.fork();
            clients.push(scope.spawn(move || committer::run(course, random, group)));
        }
        let servers = rig.servers.ports();
        clients.push(scope.spawn(move || weather::watch(course, &servers)));
        let over = Over(course);
        report.faults = weather(rig, random);
        let quiet = Instant::now();
        drop(over);
        for client in clients {
            events.extend(client.join().expect("no client panics"));
        }
        report.settled_after = quiet.elapsed();
        assert!(!course.given_up(), "producers were not settled {RECOVERY:?} after all was well again");
    });
    for event in &events {
        match event.what {
            What::Produce { count, outcome: Outcome::At(_), .. } => report.records_acked += u64::from(count),
            What::Produce { count, .. } => report.records_unknown += u64::from(count),
            What::Read { .. } => report.reads += 1,
            What::Commit { acked: true, .. } => report.commits += 1,
            _ => {}
        }
    }
    (events, report)
}
