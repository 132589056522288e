//! Named cases that need no script: one kind of fault while clients write and read, and the checker judges what they saw.

use crate::at_random::{number, seed};
use crate::harness::Version;
use crate::nemesis::Fault::{self, ForeignMessages, Of};
use crate::on_both_servers;
use crate::outages::Outage::{KillAllServers, KillGateway, KillServer, StepDown};
use crate::rig::{Config, alone};
use crate::run::{Load, Plan, run};
use std::time::Duration;

/// Strikes as often as there is time for within `seconds`, at least once.
#[track_caller]
fn judge(config: Config, load: Load, seconds: u64, faults: &[Fault]) {
    let _alone = (load != Load::Light).then(alone);
    run(&Plan { config, seed: seed(), span: Duration::from_secs(seconds), faults, load });
}

on_both_servers! {
    fn the_only_server_restarted_under_load_loses_nothing(version) {
        judge(Config { servers: 1, version, gateways: 2 }, Load::Light, 4, &[Of(KillAllServers)]);
    }

    fn all_three_servers_restarted_under_load_lose_nothing(version) {
        judge(Config { servers: 3, version, gateways: 2 }, Load::Light, 4, &[Of(KillAllServers)]);
    }

    fn foreign_messages_and_copies_of_batches_among_produced_ones_are_stepped_over(version) {
        judge(Config { servers: 1, version, gateways: 2 }, Load::Light, 4, &[ForeignMessages]);
    }
}

#[test]
fn leaders_that_step_down_and_die_again_and_again_lose_nothing() {
    let faults = [StepDown, KillServer, KillGateway, KillAllServers].map(Of);
    judge(Config { servers: 3, version: Version::Newest, gateways: 2 }, Load::Usual, 15, &faults);
}

#[test]
fn eight_producers_through_two_gateways_share_one_partition() {
    let seconds = if number("MINUTES").is_some() { 60 } else { 10 };
    judge(Config { servers: 1, version: Version::Oldest, gateways: 2 }, Load::Crowded, seconds, &[]);
}
