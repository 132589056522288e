//! librdkafka through the `rdkafka` crate, without its async parts: produce all, consume so many.

use super::SOON;
use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, DeliveryResult, Headers, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A record as a consumer saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Got {
    pub partition: i32,
    pub offset: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl Got {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.value.as_deref().unwrap_or_default()).into_owned()
    }
}

pub fn config(bootstrap: &str, settings: &[(&str, &str)]) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("reconnect.backoff.max.ms", "500");
    for (name, value) in settings {
        config.set(*name, *value);
    }
    config
}

/// A record's value, and its offset or the error.
pub type Report = (String, Result<i64, KafkaError>);

/// Collects what became of each record, in the order of the reports.
#[derive(Clone, Default)]
pub struct Deliveries {
    reports: Arc<Mutex<Vec<Report>>>,
}

impl Deliveries {
    pub fn all(&self) -> Vec<Report> {
        self.reports.lock().expect("no holder panics").clone()
    }

    /// Values and offsets of what was acknowledged.
    pub fn acked(&self) -> Vec<(String, i64)> {
        self.all().into_iter().filter_map(|(value, outcome)| Some((value, outcome.ok()?))).collect()
    }
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let (message, outcome) = match result {
            Ok(message) => (message, Ok(message.offset())),
            Err((error, message)) => (message, Err(error.clone())),
        };
        let value = String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned();
        self.reports.lock().expect("no holder panics").push((value, outcome));
    }
}

pub struct TestProducer {
    pub producer: BaseProducer<Deliveries>,
    pub deliveries: Deliveries,
}

pub fn producer(bootstrap: &str, settings: &[(&str, &str)]) -> TestProducer {
    let deliveries = Deliveries::default();
    let mut config = config(bootstrap, &[("acks", "all"), ("linger.ms", "5"), ("message.timeout.ms", "60000")]);
    for (name, value) in settings {
        config.set(*name, *value);
    }
    let producer = config.create_with_context(deliveries.clone()).expect("a producer with these settings");
    TestProducer { producer, deliveries }
}

impl TestProducer {
    /// Queues a record, waiting while librdkafka's queue is full.
    #[track_caller]
    pub fn send(&self, mut record: BaseRecord<'_, [u8], [u8]>) {
        loop {
            match self.producer.send(record) {
                Ok(()) => break,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), refused)) => {
                    self.producer.poll(Duration::from_millis(20));
                    record = refused;
                }
                Err((error, _)) => panic!("librdkafka refuses a record: {error}"),
            }
        }
        self.producer.poll(Duration::ZERO);
    }

    #[track_caller]
    pub fn send_value(&self, topic: &str, partition: i32, value: &[u8]) {
        self.send(BaseRecord::to(topic).partition(partition).payload(value));
    }

    /// Waits for the reports of all.
    #[track_caller]
    pub fn flush(&self) {
        self.producer.flush(Duration::from_secs(60)).expect("everything is reported in time");
    }

    /// Waits for all, expects all to be acknowledged, gives values and offsets.
    #[track_caller]
    pub fn finish(&self) -> Vec<(String, i64)> {
        self.flush();
        for (value, outcome) in self.deliveries.all() {
            let start: String = value.chars().take(40).collect();
            assert!(outcome.is_ok(), "{start} was not delivered: {outcome:?}");
        }
        self.deliveries.acked()
    }
}

/// Produces the values to partition 0 and expects all to be acknowledged.
#[track_caller]
pub fn produce(bootstrap: &str, topic: &str, settings: &[(&str, &str)], values: &[String]) -> Vec<(String, i64)> {
    let producer = producer(bootstrap, settings);
    for value in values {
        producer.send_value(topic, 0, value.as_bytes());
    }
    producer.finish()
}

pub fn consumer(bootstrap: &str, settings: &[(&str, &str)]) -> BaseConsumer {
    let mut config = config(bootstrap, &[("group.id", "unused"), ("enable.auto.commit", "false")]);
    config.set("auto.offset.reset", "earliest").set("check.crcs", "true").set("fetch.wait.max.ms", "100");
    for (name, value) in settings {
        config.set(*name, *value);
    }
    config.create().expect("a consumer with these settings")
}

/// A consumer of one partition without a group, from `offset` on.
#[track_caller]
pub fn assigned(bootstrap: &str, topic: &str, partition: i32, offset: Offset) -> BaseConsumer {
    let consumer = consumer(bootstrap, &[]);
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, offset).expect("a legal offset");
    consumer.assign(&list).expect("an assignment");
    consumer
}

fn got(message: &BorrowedMessage<'_>) -> Got {
    let headers = message.headers().map(|headers| {
        headers.iter().map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec))).collect()
    });
    Got {
        partition: message.partition(),
        offset: message.offset(),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: headers.unwrap_or_default(),
    }
}

/// Polls until `count` records have come; passing errors, such as a lost connection, are stepped over.
#[track_caller]
pub fn take(consumer: &BaseConsumer, count: usize) -> Vec<Got> {
    take_within(consumer, count, SOON)
}

#[track_caller]
pub fn take_within(consumer: &BaseConsumer, count: usize, limit: Duration) -> Vec<Got> {
    let deadline = Instant::now() + limit;
    let mut taken = Vec::with_capacity(count);
    let mut last_error = None;
    while taken.len() < count {
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => taken.push(got(&message)),
            Some(Err(error)) => last_error = Some(error),
            None => {}
        }
        assert!(Instant::now() < deadline, "{} of {count} records came, last error {last_error:?}", taken.len());
    }
    taken
}

/// Reads `count` records of partition 0 from the beginning.
#[track_caller]
pub fn consume(bootstrap: &str, topic: &str, count: usize) -> Vec<Got> {
    take(&assigned(bootstrap, topic, 0, Offset::Beginning), count)
}

#[track_caller]
pub fn texts(got: &[Got]) -> Vec<String> {
    got.iter().map(Got::text).collect()
}

pub fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("record-{n}")).collect()
}
