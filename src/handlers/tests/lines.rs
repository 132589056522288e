//! Log lines that clients can cause at will.

use super::*;
use crate::limits::PEER_LOG_INTERVAL;
use crate::protocol::messages::describe_topic_partitions::DescribeTopicPartitionsRequest;
use std::sync::Mutex;

/// Keeps the messages of lines.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<String>>>);

impl slog::Drain for Kept {
    type Ok = ();
    type Err = slog::Never;

    fn log(&self, record: &slog::Record<'_>, _: &slog::OwnedKVList) -> Result<(), slog::Never> {
        self.0.lock().expect("no holder panics").push(record.msg().to_string());
        Ok(())
    }
}

impl Kept {
    fn count(&self, line: &str) -> usize {
        self.0.lock().expect("no holder panics").iter().filter(|kept| kept.starts_with(line)).count()
    }
}

fn rig(configure: impl FnOnce(&mut Config)) -> (Rig, Kept) {
    let kept = Kept::default();
    let logger = Logger::root(kept.clone(), slog::o!());
    (Rig::logged(Arc::new(MemoryStore::new()), configure, logger), kept)
}

#[test]
fn topics_that_cannot_be_made_are_complained_of_once_a_second() {
    let (rig, kept) = rig(|config| config.default_partitions = i32::MAX);
    let names = ["a", "b", "c"];
    assert!(!codes(&rig.metadata(4, &names).topics).contains(&0));
    assert_eq!(kept.count("a topic could not be created"), 1);
    rig.clock.advance(PEER_LOG_INTERVAL);
    rig.metadata(4, &names);
    assert_eq!(kept.count("a topic could not be created"), 2);
}

#[test]
fn lists_that_cannot_be_given_are_complained_of_once_a_second() {
    let (rig, kept) = rig(|_| ());
    rig.store.set_outage(Some(Outage::NoAnswer));
    for _ in 0..3 {
        let all = MetadataRequest { topics: None, ..Default::default() };
        assert_eq!(rig.try_ask(12, &all), None);
        assert_eq!(rig.try_ask(0, &DescribeTopicPartitionsRequest::default()), None);
    }
    assert_eq!(kept.count("closed: the topics cannot be listed"), 1);
}
