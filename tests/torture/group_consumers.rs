//! Librdkafka's consumers in a group of their own, beside a producer: what they are given and what they commit.

use crate::group_history::{Journal, What};
use crate::group_members::Course;
use crate::harness::librdkafka::{config, producer};
use crate::random::Random;
use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::message::Message;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub const TOPIC: &str = "k";
pub const PARTITIONS: i32 = 6;

/// When each partition was assigned that has given no record yet, and how many times anything was assigned or taken back.
#[derive(Clone, Default)]
struct Assigned {
    changes: Arc<AtomicU64>,
    since: Arc<Mutex<BTreeMap<i32, u64>>>,
    journal: Option<Arc<Journal>>,
}

impl ClientContext for Assigned {}

impl ConsumerContext for Assigned {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        let mut since = self.since.lock().expect("no holder panics");
        since.clear();
        if let (Rebalance::Assign(list), Some(journal)) = (rebalance, &self.journal) {
            let now = journal.now();
            since.extend(list.elements().iter().map(|element| (element.partition(), now)));
        }
    }
}

/// Consumes and commits what it has consumed, until the run is over; now and then it leaves and another comes.
pub fn consume(course: &Course, journal: &Arc<Journal>, bootstrap: &str, mut random: Random) {
    let settings = [
        ("group.id", "librdkafka"),
        ("auto.offset.reset", "earliest"),
        ("enable.auto.commit", "false"),
        ("session.timeout.ms", "10000"),
        ("heartbeat.interval.ms", "1000"),
    ];
    while !course.stop.load(Ordering::Relaxed) {
        let assigned = Assigned { journal: Some(journal.clone()), ..Assigned::default() };
        let consumer: BaseConsumer<Assigned> =
            config(bootstrap, &settings).create_with_context(assigned.clone()).expect("a consumer");
        consumer.subscribe(&[TOPIC]).expect("a subscription");
        let mut positions: BTreeMap<i32, i64> = BTreeMap::new();
        let mut changes = 0;
        while !course.stop.load(Ordering::Relaxed) {
            let polled = consumer.poll(Duration::from_millis(100));
            // What was consumed under another assignment is not ours to commit any more.
            let now = assigned.changes.load(Ordering::SeqCst);
            if std::mem::replace(&mut changes, now) != now {
                positions.clear();
            }
            if let Some(Ok(message)) = polled {
                let (partition, offset) = (message.partition(), message.offset());
                if let Some(sent) = assigned.since.lock().expect("no holder panics").remove(&partition) {
                    journal.note(sent, What::Began { partition, offset });
                }
                journal.note(journal.now(), What::Delivered { partition, offset });
                positions.insert(partition, offset + 1);
            }
            if random.one_in(20) && !positions.is_empty() {
                commit(&consumer, journal, &positions);
            }
            if course.restless.load(Ordering::Relaxed) && random.one_in(600) {
                break;
            }
        }
    }
}

fn commit(consumer: &BaseConsumer<Assigned>, journal: &Journal, positions: &BTreeMap<i32, i64>) {
    let mut list = TopicPartitionList::new();
    for (partition, offset) in positions {
        list.add_partition_offset(TOPIC, *partition, Offset::Offset(*offset)).expect("an offset");
    }
    let sent = journal.now();
    let acked = consumer.commit(&list, CommitMode::Sync).is_ok();
    for (partition, offset) in positions {
        journal.note(sent, What::Stored { partition: *partition, offset: *offset, acked });
    }
}

/// Produces to all partitions, slowly, until the run is over.
pub fn produce(course: &Course, bootstrap: &str) {
    let producer = producer(bootstrap, &[]);
    let mut number = 0;
    while !course.stop.load(Ordering::Relaxed) {
        producer.send_value(TOPIC, number % PARTITIONS, format!("{number}").as_bytes());
        number += 1;
        if number % 10 == 0 {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
