//! The checker itself: clean histories pass, and each fault that is planted is found, and only that.

use crate::checker::{Fault, check};
use crate::history::{Event, History, Outcome, Promises, Value, What};

const IDEMPOTENT: u16 = 0;
const PLAIN: u16 = 1;

/// A history that is written by hand: each event lasts 10 us and begins 5 us after the one before it ended.
#[derive(Default)]
struct Script {
    events: Vec<Event>,
    now_us: u64,
    gateway: usize,
}

impl Script {
    fn add(mut self, what: What) -> Script {
        let sent_us = self.now_us;
        self.now_us += 15;
        self.events.push(Event { gateway: self.gateway, partition: 0, sent_us, settled_us: sent_us + 10, what });
        self
    }

    fn at(mut self, gateway: usize) -> Script {
        self.gateway = gateway;
        self
    }

    fn wait_s(mut self, seconds: u64) -> Script {
        self.now_us += seconds * 1_000_000;
        self
    }

    fn sent(self, producer: u16, first: u32, count: u32, outcome: Outcome) -> Script {
        self.add(What::Produce { producer, first, count, outcome })
    }

    fn acked(self, producer: u16, first: u32, count: u32, base: i64) -> Script {
        self.sent(producer, first, count, Outcome::At(base))
    }

    fn read(self, from: i64, high_watermark: i64, records: &[(i64, u16, u32)]) -> Script {
        self.add(What::Read { from, log_start: 0, high_watermark, records: values(records) })
    }

    fn end(self, high_watermark: i64) -> Script {
        self.add(What::End { high_watermark })
    }

    fn quiet(self, log_start: i64, high_watermark: i64, records: &[(i64, u16, u32)]) -> Script {
        self.add(What::Final { log_start, high_watermark, records: values(records) })
    }

    fn commit(self, offset: i64, acked: bool) -> Script {
        self.add(What::Commit { group: 7, offset, acked })
    }

    fn committed(self, offset: i64) -> Script {
        self.add(What::Committed { group: 7, offset })
    }

    #[track_caller]
    fn expect(self, faults: &[Fault]) {
        let producers = vec![Promises { idempotent: true }, Promises { idempotent: false }];
        let found = check(&History { producers, events: self.events });
        let mut kinds: Vec<Fault> = found.iter().map(|violation| violation.fault).collect();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds, faults, "{found:#?}");
    }
}

fn values(records: &[(i64, u16, u32)]) -> Vec<(i64, Value)> {
    records.iter().map(|(offset, producer, n)| (*offset, Value { producer: *producer, n: *n })).collect()
}

#[test]
fn a_clean_history_passes() {
    let log = [(0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 1, 0), (4, 0, 2), (5, 1, 1)];
    Script::default()
        .committed(-1)
        .acked(IDEMPOTENT, 0, 2, 0)
        .sent(PLAIN, 0, 1, Outcome::Unknown)
        .acked(PLAIN, 0, 1, 3)
        .read(0, 4, &log[..3])
        .read(4, 4, &[])
        .commit(3, true)
        .commit(4, false)
        .committed(3)
        .commit(5, true)
        .committed(5)
        .sent(IDEMPOTENT, 2, 1, Outcome::Unknown)
        .acked(PLAIN, 1, 1, 5)
        .at(1)
        .end(5)
        .add(What::OutOfRange { from: 900, log_start: 0, high_watermark: 6 })
        .quiet(0, 6, &log)
        .expect(&[]);
}

#[test]
fn what_was_purged_on_purpose_is_not_lost() {
    Script::default()
        .acked(IDEMPOTENT, 0, 3, 0)
        .read(0, 3, &[(0, 0, 0), (1, 0, 1), (2, 0, 2)])
        .add(What::Purged { below: 2 })
        .read(0, 3, &[(0, 0, 0)])
        .add(What::OutOfRange { from: 0, log_start: 2, high_watermark: 3 })
        .read(2, 3, &[(2, 0, 2)])
        .quiet(2, 3, &[(2, 0, 2)])
        .expect(&[]);
}

#[test]
fn an_emptied_stream_may_skip_offsets_once() {
    let emptied = |skips: &[i64]| {
        let mut script = Script::default().acked(PLAIN, 0, 1, 0).add(What::Purged { below: 1 }).add(What::Emptied);
        let mut log = Vec::new();
        for (n, offset) in (1..).zip(skips) {
            script = script.acked(PLAIN, n, 1, *offset);
            log.push((*offset, PLAIN, n));
        }
        let end = skips.last().expect("one at least") + 1;
        script.quiet(skips[0], end, &log)
    };
    emptied(&[500, 501]).expect(&[]);
    emptied(&[500, 900]).expect(&[]);
    emptied(&[500, 900, 1000]).expect(&[Fault::Gap]);
}

#[test]
fn a_lost_record_is_found() {
    Script::default()
        .acked(PLAIN, 0, 1, 0)
        .acked(PLAIN, 1, 1, 1)
        .quiet(0, 1, &[(0, 1, 0)])
        .expect(&[Fault::Lost, Fault::WatermarkWentBack]);
    Script::default().acked(PLAIN, 0, 3, 0).quiet(0, 3, &[(0, 1, 0), (2, 1, 2)]).expect(&[
        Fault::Lost,
        Fault::SteppedOver,
        Fault::Gap,
    ]);
}

#[test]
fn what_a_reader_saw_must_stay_too() {
    Script::default()
        .sent(PLAIN, 0, 1, Outcome::Unknown)
        .at(1)
        .read(0, 1, &[(0, 1, 0)])
        .at(0)
        .quiet(0, 0, &[])
        .expect(&[Fault::Lost]);
}

#[test]
fn a_purge_that_removes_too_much_is_a_loss() {
    Script::default()
        .acked(PLAIN, 0, 3, 0)
        .add(What::Purged { below: 1 })
        .quiet(2, 3, &[(2, 1, 2)])
        .expect(&[Fault::Lost]);
}

#[test]
fn a_read_that_steps_over_a_record_is_found() {
    let log = [(0, 1, 0), (1, 1, 1), (2, 1, 2)];
    Script::default()
        .acked(PLAIN, 0, 3, 0)
        .read(0, 3, &[log[0], log[2]])
        .quiet(0, 3, &log)
        .expect(&[Fault::SteppedOver]);
    Script::default().acked(PLAIN, 0, 3, 0).read(1, 3, &log[2..]).quiet(0, 3, &log).expect(&[Fault::SteppedOver]);
}

#[test]
fn an_offset_given_twice_is_found() {
    Script::default()
        .acked(IDEMPOTENT, 0, 2, 0)
        .acked(PLAIN, 0, 1, 1)
        .quiet(0, 2, &[(0, 0, 0), (1, 0, 1)])
        .expect(&[Fault::OffsetGivenTwice]);
}

#[test]
fn an_offset_that_changes_its_content_is_found() {
    Script::default()
        .acked(PLAIN, 0, 1, 0)
        .sent(PLAIN, 1, 1, Outcome::Unknown)
        .read(0, 1, &[(0, 1, 0)])
        .read(0, 1, &[(0, 1, 1)])
        .quiet(0, 1, &[(0, 1, 0)])
        .expect(&[Fault::OffsetGivenTwice]);
}

#[test]
fn a_gap_is_found_wherever_it_is() {
    Script::default().acked(PLAIN, 0, 1, 1).quiet(0, 2, &[(1, 1, 0)]).expect(&[Fault::Gap]);
    Script::default().acked(PLAIN, 0, 1, 0).quiet(0, 9, &[(0, 1, 0)]).expect(&[Fault::Gap]);
    Script::default()
        .acked(PLAIN, 0, 1, 0)
        .acked(PLAIN, 1, 1, 4)
        .quiet(0, 5, &[(0, 1, 0), (4, 1, 1)])
        .expect(&[Fault::Gap]);
}

#[test]
fn reordering_is_found() {
    Script::default()
        .acked(PLAIN, 0, 1, 1)
        .acked(PLAIN, 1, 1, 0)
        .quiet(0, 2, &[(0, 1, 1), (1, 1, 0)])
        .expect(&[Fault::Reordered]);
    // Without an acknowledgement it counts only where order is promised whatever happens.
    let unknown = |producer| {
        Script::default().sent(producer, 0, 1, Outcome::Unknown).sent(producer, 1, 1, Outcome::Unknown).quiet(
            0,
            2,
            &[(0, producer, 1), (1, producer, 0)],
        )
    };
    unknown(PLAIN).expect(&[]);
    unknown(IDEMPOTENT).expect(&[Fault::Reordered]);
}

#[test]
fn a_duplicate_of_an_idempotent_producer_is_found() {
    let twice = |producer| {
        Script::default().sent(producer, 0, 1, Outcome::Unknown).acked(producer, 0, 1, 1).quiet(
            0,
            2,
            &[(0, producer, 0), (1, producer, 0)],
        )
    };
    twice(PLAIN).expect(&[]);
    twice(IDEMPOTENT).expect(&[Fault::Duplicate]);
}

#[test]
fn a_watermark_that_goes_back_is_found() {
    let log = [(0, 1, 0), (1, 1, 1)];
    let history = || Script::default().acked(PLAIN, 0, 2, 0);
    history().end(2).end(1).quiet(0, 2, &log).expect(&[Fault::WatermarkWentBack]);
    history().end(2).read(0, 1, &log[..1]).quiet(0, 2, &log).expect(&[Fault::WatermarkWentBack]);
    history().end(1).quiet(0, 2, &log).expect(&[Fault::WatermarkWentBack]);
    history().at(1).end(1).end(2).quiet(0, 2, &log).expect(&[]);
    history().at(1).wait_s(20).end(1).end(2).quiet(0, 2, &log).expect(&[Fault::Stale]);
}

#[test]
fn a_read_may_be_stale_while_the_store_is_away_or_the_gateway_was_stopped() {
    let lasting = |script: Script, what: What, seconds: u64| {
        let mut script = script.add(what);
        script.now_us += seconds * 1_000_000;
        script.events.last_mut().expect("just added").settled_us = script.now_us;
        script
    };
    let trouble = |script: Script, seconds: u64| lasting(script, What::Trouble, seconds);
    let unasked = || Script::default().acked(PLAIN, 0, 2, 0).at(1);
    let history = || unasked().read(0, 1, &[]);
    let log = [(0, 1, 0), (1, 1, 1)];
    let rest = |script: Script| script.end(2).quiet(0, 2, &log);
    for records in [&[] as &[(i64, u16, u32)], &log[..1]] {
        // It begins to learn with the first request.
        let asked_late = || unasked().wait_s(20).read(0, 1, records);
        rest(asked_late().wait_s(5).read(0, 1, records)).expect(&[]);
        rest(asked_late().wait_s(12).read(0, 1, records)).expect(&[Fault::Stale]);
        rest(history().wait_s(20).read(0, 1, records)).expect(&[Fault::Stale]);
        // Twice away, with a few seconds between.
        let troubled = trouble(trouble(history().wait_s(2), 9).wait_s(8), 9).wait_s(8);
        rest(troubled.read(0, 1, records)).expect(&[]);
        let well_between = trouble(trouble(history().wait_s(2), 9).wait_s(12), 9).wait_s(4);
        rest(well_between.read(0, 1, records)).expect(&[Fault::Stale]);
        let well_since = trouble(history().wait_s(2), 9).wait_s(12);
        rest(well_since.read(0, 1, records)).expect(&[Fault::Stale]);
        let stopped = |gateway: usize| lasting(history().at(gateway).wait_s(8), What::Frozen, 9).wait_s(4);
        rest(stopped(1).read(0, 1, records)).expect(&[]);
        rest(stopped(0).at(1).read(0, 1, records)).expect(&[Fault::Stale]);
    }
    let below = |script: Script| {
        let script = script.add(What::OutOfRange { from: 0, log_start: 1, high_watermark: 1 });
        script.end(2).quiet(1, 2, &log[1..])
    };
    let purged = || history().add(What::Purged { below: 1 });
    below(trouble(purged(), 18)).expect(&[]);
    below(purged().wait_s(20)).expect(&[Fault::Stale]);
    // "Latest" is never told without asking.
    trouble(history(), 20).end(1).end(2).quiet(0, 2, &log).expect(&[Fault::Stale]);
}

#[test]
fn what_was_purged_before_its_producer_heard_of_it_may_be_stored_again() {
    // The second record is stored with the others, and its acknowledgement is lost.
    let stored = || Script::default().acked(IDEMPOTENT, 0, 1, 0).acked(IDEMPOTENT, 2, 1, 2);
    let again = |script: Script| script.acked(IDEMPOTENT, 1, 1, 10).sent(IDEMPOTENT, 3, 1, Outcome::Refused(45));
    let log = [(10, IDEMPOTENT, 1)];
    let purge = |script: Script| script.add(What::Purged { below: 3 });
    again(purge(stored())).quiet(10, 11, &log).expect(&[]);
    purge(again(stored())).quiet(10, 11, &log).expect(&[Fault::Reordered, Fault::FalseError]);
    purge(stored()).sent(IDEMPOTENT, 3, 1, Outcome::Refused(45)).quiet(10, 10, &[]).expect(&[Fault::FalseError]);
}

#[test]
fn answers_that_overlap_may_come_in_any_order() {
    let mut script = Script::default().acked(PLAIN, 0, 2, 0);
    let overlapping = |high_watermark| Event {
        gateway: 0,
        partition: 0,
        sent_us: 0,
        settled_us: 12,
        what: What::End { high_watermark },
    };
    script.events.extend([overlapping(2), overlapping(0)]);
    script.quiet(0, 2, &[(0, 1, 0), (1, 1, 1)]).expect(&[]);
}

#[test]
fn a_read_beyond_the_watermark_is_found() {
    Script::default()
        .sent(PLAIN, 0, 2, Outcome::Unknown)
        .read(0, 1, &[(0, 1, 0), (1, 1, 1)])
        .quiet(0, 2, &[(0, 1, 0), (1, 1, 1)])
        .expect(&[Fault::ReadBeyondWatermark]);
}

#[test]
fn a_commit_that_goes_back_is_found() {
    Script::default().commit(5, true).commit(9, true).committed(5).expect(&[Fault::CommitWentBack]);
    // One of unknown outcome may be taken late, but not at any time.
    let late = || Script::default().commit(5, false).commit(9, true);
    late().wait_s(60).committed(5).expect(&[]);
    late().committed(9).committed(5).expect(&[]);
    late().wait_s(60).committed(9).committed(5).expect(&[Fault::CommitWentBack]);
    Script::default().commit(5, true).committed(-1).expect(&[Fault::CommitWentBack]);
    Script::default().commit(5, true).committed(8).expect(&[Fault::CommitFromNowhere]);
    Script::default().commit(5, true).commit(9, false).committed(9).expect(&[]);
}

#[test]
fn errors_without_a_reason_are_found() {
    Script::default().sent(IDEMPOTENT, 0, 1, Outcome::Refused(45)).expect(&[Fault::FalseError]);
    // Also where a stream was emptied: what the log sent back comes again before what followed it.
    let emptied = Script::default().add(What::Purged { below: 0 }).add(What::Emptied);
    emptied.sent(IDEMPOTENT, 0, 1, Outcome::Refused(45)).expect(&[Fault::FalseError]);
    Script::default().add(What::Failed { error: 3 }).expect(&[Fault::FalseError]);
    let log = [(0, 1, 0), (1, 1, 1)];
    Script::default()
        .acked(PLAIN, 0, 2, 0)
        .at(1)
        .add(What::OutOfRange { from: 1, log_start: 0, high_watermark: 0 })
        .quiet(0, 2, &log)
        .expect(&[Fault::FalseError]);
}

#[test]
fn a_record_that_nobody_sent_is_found() {
    Script::default().acked(PLAIN, 0, 1, 0).quiet(0, 2, &[(0, 1, 0), (1, 1, 77)]).expect(&[Fault::NeverSent]);
}
