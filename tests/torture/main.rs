//! The log under fire: clients write down what they see while servers stall, lie and die; a checker judges.

mod at_random;
mod cases;
mod checker;
mod checker_tests;
mod clients;
mod committer;
mod disk;
mod group_checker;
mod group_checker_tests;
mod group_consumers;
mod group_history;
mod group_java;
mod group_members;
mod group_run;
#[path = "../it/harness/mod.rs"]
#[allow(dead_code, unused_imports, reason = "shared with the integration tests, which use all of it")]
mod harness;
mod history;
mod judged_cases;
mod nemesis;
mod no_room;
mod outages;
mod proxy;
mod random;
mod rig;
mod run;
mod servers;
mod weather;
