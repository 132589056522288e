//! Clients that write down all they see: producers, readers, committers. They try again as Kafka's clients do.

use crate::harness::Wire;
use crate::harness::batch::{Batch, offsets_and_values};
use crate::harness::wire::{LATEST, RETRIABLE, fetch_request, produce_request, produced, topic_name};
use crate::history::{Event, Journal, Outcome, Value, What};
use crate::random::Random;
use crate::rig::RECOVERY;
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{BrokerId, InitProducerIdRequest, ListOffsetsRequest, ProduceRequest};
use std::collections::VecDeque;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longer than a produce may wait for its commit: what has no answer by then never gets one.
const ANSWER_MAX: Duration = Duration::from_secs(12);
const PRODUCE_TIMEOUT_MS: i32 = 5_000;

/// Batches of an idempotent producer that are not acknowledged yet: what Kafka's clients send and brokers remember.
const IN_FLIGHT_MAX: usize = 5;

const OFFSET_OUT_OF_RANGE: i16 = 1;
pub const OUT_OF_ORDER_SEQUENCE_NUMBER: i16 = 45;

/// What all clients of a run know.
pub struct Course {
    pub topic: String,
    pub ports: Vec<u16>,
    pub began: Instant,
    /// No new work is begun; what was begun is finished.
    pub stop: AtomicBool,
    /// When even what was begun is given up.
    pub give_up: Mutex<Option<Instant>>,
    /// How many batches were acknowledged.
    pub acked: AtomicU64,
}

impl Course {
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Waits until so many more batches are acknowledged, and gives whether that happened: the load runs.
    pub fn sees_more_acks(&self, count: u64) -> bool {
        let wanted = self.acked.load(Ordering::Relaxed) + count;
        let until = Instant::now() + RECOVERY;
        while self.acked.load(Ordering::Relaxed) < wanted && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.acked.load(Ordering::Relaxed) >= wanted
    }

    pub fn given_up(&self) -> bool {
        self.give_up.lock().expect("no holder panics").is_some_and(|at| at <= Instant::now())
    }
}

/// A connection to one of the gateways, made when needed; after a failure maybe to another one.
pub struct Line<'a> {
    pub course: &'a Course,
    pub random: Random,
    pub gateway: usize,
    wire: Option<Wire>,
}

impl<'a> Line<'a> {
    pub fn new(course: &'a Course, mut random: Random) -> Line<'a> {
        let gateway = random.below(course.ports.len());
        Line { course, random, gateway, wire: None }
    }

    /// Runs one exchange; a failed one costs the connection.
    pub fn exchange<T>(&mut self, exchange: impl FnOnce(&mut Wire) -> io::Result<T>) -> io::Result<T> {
        let mut wire = match self.wire.take() {
            Some(wire) => wire,
            None => {
                let mut wire = Wire::try_connect(self.course.ports[self.gateway])?;
                wire.wait_at_most(ANSWER_MAX)?;
                wire
            }
        };
        let outcome = exchange(&mut wire)?;
        self.wire = Some(wire);
        Ok(outcome)
    }

    /// Rests a little, and turns to another gateway now and then.
    pub fn back_off(&mut self) {
        std::thread::sleep(Duration::from_millis(self.random.between(20, 150)));
        if self.random.one_in(3) {
            self.wire = None;
            self.gateway = self.random.below(self.course.ports.len());
        }
    }
}

/// The text of a record: its identity, and as much filling as its identity asks for.
pub fn text(value: Value) -> String {
    let filling = match (value.n.wrapping_mul(2_654_435_761) >> 16) % 64 {
        0 => 20_000,
        few => few * 4,
    };
    format!("{}/{}/{}", value.producer, value.n, "x".repeat(usize::try_from(filling).expect("small")))
}

/// Whose record this text is; one that is not as it was sent belongs to nobody.
pub fn parse(text_read: &str) -> Value {
    let mut words = text_read.split('/');
    let mut word = || words.next().unwrap_or_default();
    let value = match (word().parse(), word().parse()) {
        (Ok(producer), Ok(n)) => Value { producer, n },
        _ => return Value { producer: u16::MAX, n: 0 },
    };
    if text(value) == text_read { value } else { Value { producer: u16::MAX, n: value.n } }
}

pub fn values(data: &PartitionData, from: i64) -> Vec<(i64, Value)> {
    let chain = data.records.clone().unwrap_or_default();
    if chain.is_empty() {
        return Vec::new();
    }
    offsets_and_values(&chain).into_iter().filter(|(at, _)| *at >= from).map(|(at, text)| (at, parse(&text))).collect()
}

pub struct Producer {
    pub number: u16,
    pub partition: i32,
    pub idempotent: bool,
    pub pause_ms_max: u64,
}

/// A batch that is not settled.
struct Pending {
    /// The how-manieth of its producer's batches it is.
    number: usize,
    first: u32,
    count: u32,
    sent_us: Option<u64>,
}

struct Producing<'a> {
    producer: &'a Producer,
    line: Line<'a>,
    journal: Journal,
    producer_id: i64,
    next: u32,
    batches: usize,
    pending: VecDeque<Pending>,
}

impl Producer {
    /// Produces until the course is over and everything is settled; gives what it saw.
    pub fn run(&self, course: &Course, random: Random) -> Vec<Event> {
        let line = Line::new(course, random);
        let journal = Journal::new(course.began);
        let mut run =
            Producing { producer: self, line, journal, producer_id: -1, next: 0, batches: 0, pending: VecDeque::new() };
        while self.idempotent && run.producer_id < 0 && !course.stopping() {
            run.ask_for_an_id();
        }
        while !(course.given_up() || course.stopping() && run.pending.is_empty()) {
            run.fill();
            if !run.round() {
                run.line.back_off();
            } else if self.pause_ms_max > 0 {
                std::thread::sleep(Duration::from_millis(run.line.random.between(0, self.pause_ms_max)));
            }
        }
        for pending in std::mem::take(&mut run.pending) {
            run.settle(&pending, Outcome::Unknown);
        }
        run.journal.events
    }
}

impl Producing<'_> {
    fn ask_for_an_id(&mut self) {
        let request = InitProducerIdRequest::default().with_transactional_id(None).with_transaction_timeout_ms(60_000);
        match self.line.exchange(|wire| wire.try_call(4, &request)) {
            Ok(answer) if answer.error_code == 0 => self.producer_id = answer.producer_id.0,
            _ => self.line.back_off(),
        }
    }

    fn fill(&mut self) {
        let most = if self.producer.idempotent { IN_FLIGHT_MAX } else { 1 };
        // Counted from the oldest that is open: a broker knows again no more than so many.
        let oldest = |run: &Self| run.pending.front().map_or(run.batches, |pending| pending.number);
        while self.batches - oldest(self) < most && !self.line.course.stopping() {
            let count = u32::try_from(self.line.random.between(1, 12)).expect("few");
            self.pending.push_back(Pending { number: self.batches, first: self.next, count, sent_us: None });
            self.next += count;
            self.batches += 1;
            if self.line.random.one_in(3) {
                break;
            }
        }
    }

    fn request(&self, pending: &Pending) -> ProduceRequest {
        let value = |n| text(Value { producer: self.producer.number, n });
        let mut batch = Batch::of((pending.first..pending.first + pending.count).map(value));
        if self.producer.idempotent {
            let sequence = i32::try_from(pending.first).expect("runs are short");
            batch = batch.idempotent(self.producer_id, 0, sequence);
        }
        let request = produce_request(&self.line.course.topic, self.producer.partition, batch.encode());
        request.with_timeout_ms(PRODUCE_TIMEOUT_MS)
    }

    /// Sends all that is pending, in order, and hears all answers; whether everything went well.
    fn round(&mut self) -> bool {
        let requests: Vec<ProduceRequest> = self.pending.iter().map(|pending| self.request(pending)).collect();
        let now_us = self.journal.now_us();
        self.pending.iter_mut().for_each(|pending| pending.sent_us = pending.sent_us.or(Some(now_us)));
        let sent = self.line.exchange(|wire| requests.iter().try_for_each(|request| wire.try_send(9, request)));
        if sent.is_err() {
            return false;
        }
        let mut open = VecDeque::new();
        while let Some(pending) = self.pending.pop_front() {
            let answer = self.line.exchange(|wire| wire.try_receive::<ProduceRequest>(9));
            let Ok((_, answer)) = answer else {
                open.push_back(pending);
                break;
            };
            match produced(&answer.responses[0].partition_responses[0]) {
                (0, base_offset) => {
                    self.line.course.acked.fetch_add(1, Ordering::Relaxed);
                    self.settle(&pending, Outcome::At(base_offset));
                }
                (error, _) if RETRIABLE.contains(&error) => open.push_back(pending),
                // It came after one that failed, and comes again after it.
                (OUT_OF_ORDER_SEQUENCE_NUMBER, _) if !open.is_empty() => open.push_back(pending),
                (error, _) => self.settle(&pending, Outcome::Refused(error)),
            }
        }
        open.append(&mut self.pending);
        self.pending = open;
        self.pending.is_empty()
    }

    fn settle(&mut self, pending: &Pending, outcome: Outcome) {
        let Some(sent_us) = pending.sent_us else {
            return;
        };
        let what =
            What::Produce { producer: self.producer.number, first: pending.first, count: pending.count, outcome };
        self.journal.note(self.line.gateway, self.producer.partition, sent_us, what);
    }
}

/// ListOffsets for the end of a partition: error and offset.
pub fn latest(wire: &mut Wire, topic: &str, partition: i32) -> io::Result<(i16, i64)> {
    let asked = ListOffsetsPartition::default()
        .with_partition_index(partition)
        .with_current_leader_epoch(-1)
        .with_timestamp(LATEST);
    let topic = ListOffsetsTopic::default().with_name(topic_name(topic)).with_partitions(vec![asked]);
    let request = ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic]);
    let answer = wire.try_call(7, &request)?;
    let partition = &answer.topics[0].partitions[0];
    Ok((partition.error_code, partition.offset))
}

pub struct Reader {
    pub partition: i32,
    /// Follows the end; otherwise it reads on from older places again and again.
    pub tail: bool,
}

impl Reader {
    pub fn run(&self, course: &Course, random: Random) -> Vec<Event> {
        let mut line = Line::new(course, random);
        let mut journal = Journal::new(course.began);
        let mut at = (!self.tail).then_some(0);
        while !course.stopping() {
            let sent_us = journal.now_us();
            let Some(from) = at else {
                match line.exchange(|wire| latest(wire, &course.topic, self.partition)) {
                    Ok((0, high_watermark)) => {
                        journal.note(line.gateway, self.partition, sent_us, What::End { high_watermark });
                        at = Some(high_watermark);
                    }
                    Ok((error, _)) => self.failed(&mut line, &mut journal, sent_us, error),
                    Err(_) => line.back_off(),
                }
                continue;
            };
            let request = fetch_request(&course.topic, self.partition, from).with_max_wait_ms(300);
            match line.exchange(|wire| wire.try_call(12, &request)) {
                Ok(answer) => {
                    let data = answer.responses[0].partitions[0].clone();
                    at = self.read(&mut line, &mut journal, sent_us, from, data);
                }
                Err(_) => line.back_off(),
            }
        }
        journal.events
    }

    /// Notes what a fetch gave; where to go on, or `None` for the end.
    fn read(
        &self,
        line: &mut Line,
        journal: &mut Journal,
        sent_us: u64,
        from: i64,
        data: PartitionData,
    ) -> Option<i64> {
        let (log_start, high_watermark) = (data.log_start_offset, data.high_watermark);
        match data.error_code {
            0 => {
                let records = values(&data, from);
                let last = records.last().map(|(offset, _)| *offset);
                let what = What::Read { from, log_start, high_watermark, records };
                journal.note(line.gateway, self.partition, sent_us, what);
                match last {
                    Some(last) => Some(last + 1),
                    None if self.tail => Some(from),
                    // At the end: once more, from somewhere.
                    None => {
                        let span = usize::try_from(high_watermark - log_start).unwrap_or(0);
                        let back = i64::try_from(line.random.below(span + 1)).expect("a small number");
                        Some(log_start + back)
                    }
                }
            }
            OFFSET_OUT_OF_RANGE => {
                let what = What::OutOfRange { from, log_start, high_watermark };
                journal.note(line.gateway, self.partition, sent_us, what);
                line.back_off();
                (from < log_start).then_some(log_start)
            }
            error => {
                self.failed(line, journal, sent_us, error);
                Some(from)
            }
        }
    }

    fn failed(&self, line: &mut Line, journal: &mut Journal, sent_us: u64, error: i16) {
        if !RETRIABLE.contains(&error) {
            journal.note(line.gateway, self.partition, sent_us, What::Failed { error });
        }
        line.back_off();
    }
}
