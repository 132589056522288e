//! The torture itself: faults at random, from a seed, under load. The test harness begins tests in the order of their names, so
//! that these two, which take longest, come first.

use crate::rig::{Config, alone};
use crate::run::{Load, Plan, run};
use crate::{group_run, nemesis};
use std::fmt::{Debug, Display};
use std::time::{Duration, Instant};

/// The short form's installations and seconds each: those of a row take turns, the rows run beside each other.
const SHORT: &[&[(&str, u64)]] = &[&[("r3-newest-2", 25)], &[("r1-newest-2", 15), ("r1-oldest-1", 10)]];

/// Installations that take turns in a long run that names none.
const LONG: &[&str] = &["r1-newest-2", "r3-newest-3", "r1-oldest-2", "r3-oldest-2", "r1-newest-1", "r3-newest-2"];

/// The same for groups.
const GROUPS_LONG: &[&str] = &["r3-newest-3", "r3-oldest-3", "r1-newest-3"];

/// One stretch of a long run: then the history is judged and another one begins.
const STRETCH: Duration = Duration::from_secs(120);

/// `make torture` sets MINUTES, and SEED, CONFIG and FAULTS where they are given; otherwise this is the short form.
#[test]
fn nothing_acknowledged_is_lost_whatever_stalls_lies_or_dies() {
    let (seed, config) = (seed(), config());
    let faults = named(nemesis::ALL);
    let _alone = alone();
    let Some(minutes) = number("MINUTES") else {
        let take_turns = |row: &[(&str, u64)]| {
            for (index, (config, seconds)) in (0..).zip(row) {
                let config = config.parse().expect("a configuration of ours");
                let span = Duration::from_secs(*seconds);
                run(&Plan { config, seed: seed + index, span, faults: &faults, load: Load::Usual });
            }
        };
        return std::thread::scope(|scope| {
            for row in SHORT {
                scope.spawn(|| take_turns(row));
            }
        });
    };
    stretches(minutes, config, LONG, |config, index, span| {
        run(&Plan { config, seed: seed + index, span, faults: &faults, load: Load::Usual });
    });
}

/// The same for groups, by `make torture-groups`.
#[test]
fn groups_have_one_owner_and_commits_never_go_back_whatever_dies() {
    let (seed, config) = (seed(), config());
    let faults = named(group_run::ALL);
    let run = |config: Config, seed: u64, span: Duration| {
        group_run::run(&group_run::Plan { config, shared: seed % 2 == 1, seed, span, faults: &faults });
    };
    let Some(minutes) = number("MINUTES") else {
        return run("r1-newest-3".parse().expect("a configuration of ours"), seed, Duration::from_secs(25));
    };
    stretches(minutes, config, GROUPS_LONG, |config, index, span| run(config, seed + index, span));
}

/// Runs for so many minutes, a stretch at a time, on what was asked for or on each of `turns` in turn.
fn stretches(minutes: u64, config: Option<Config>, turns: &[&str], run: impl Fn(Config, u64, Duration)) {
    let until = Instant::now() + Duration::from_secs(60 * minutes);
    for (index, turn) in (0..).zip(turns.iter().cycle()) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        run(config.unwrap_or_else(|| turn.parse().expect("a configuration of ours")), index, left.min(STRETCH));
    }
}

/// The installation that CONFIG asks for.
fn config() -> Option<Config> {
    variable("CONFIG").map(|text| text.parse().unwrap_or_else(|error| panic!("{error}")))
}

/// Those that FAULTS names, or all.
fn named<T: Copy + Debug + Display>(all: &[T]) -> Vec<T> {
    let wanted = variable("FAULTS");
    let is_wanted =
        |fault: &&T| wanted.as_ref().is_none_or(|names| names.split(',').any(|name| name == fault.to_string()));
    let faults: Vec<T> = all.iter().filter(is_wanted).copied().collect();
    assert!(!faults.is_empty(), "FAULTS names none of {all:?}");
    faults
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

pub fn number(name: &str) -> Option<u64> {
    variable(name).map(|text| text.parse().expect("SEED and MINUTES are numbers"))
}

pub fn seed() -> u64 {
    number("SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        u64::from(now.expect("it is after 1970").subsec_nanos())
    })
}
