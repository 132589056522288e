//! Looks at the store all the time, and writes down when it could not be asked.

use crate::clients::Course;
use crate::harness::JetStream;
use crate::history::{Event, Journal, What};
use crate::nemesis::stream;
use crate::rig::PARTITIONS;
use serde_json::Value;
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A server that takes longer is as good as away.
const PATIENCE: Duration = Duration::from_secs(1);

/// Asks each server for each partition's stream until the course is over; gives the times when one of them did not answer.
pub fn watch(course: &Course, servers: &[u16]) -> Vec<Event> {
    let mut journal = Journal::new(course.began);
    let mut trouble_since = None;
    while !course.stopping() {
        let asked_us = journal.now_us();
        if servers.iter().all(|port| answers(*port).is_some()) {
            if let Some(sent_us) = trouble_since.take() {
                (0..PARTITIONS).for_each(|partition| journal.note(0, partition, sent_us, What::Trouble));
            }
        } else {
            trouble_since.get_or_insert(asked_us);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    journal.events
}

fn answers(port: u16) -> Option<()> {
    let mut jetstream = JetStream::try_connect(port).ok()?;
    jetstream.wait_at_most(PATIENCE).ok()?;
    let info = |partition| jetstream.try_api(&format!("STREAM.INFO.{}", stream(partition)), &Value::Null).ok();
    (0..PARTITIONS).map(info).collect::<Option<Vec<Value>>>().map(|_| ())
}
