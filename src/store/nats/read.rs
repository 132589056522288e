//! Reading messages: at the leader as JSON, or raw by direct gets, batched or in a window; and around header poison.
//!
//! A stored message whose header block is malformed makes the crate drop its connection when it is read raw. What was
//! under way then is asked again at the leader, whose JSON carries the block as base64, and the culprit is remembered.

use super::api::api_request;
use super::pending::{Lost, Outcome, Reply};
use super::requester::Requester;
use super::{NatsStore, header, json_of, lost_error, time};
use crate::store::{Message, Pick, Sequence, StoreError, StoreResult};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crossbeam_channel::{Receiver, bounded};
use serde_json::{Value, json};
use slog::warn;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

/// Bytes that may be on their way to us: the server cuts a connection at 64 MiB pending.
const OUTSTANDING_BYTES_MAX: usize = 48 << 20;

/// Bytes of one batch; a caller that wants more comes again.
const BATCH_BYTES_MAX: usize = 16 << 20;
const BATCH_MESSAGES_MAX: usize = 4096;

/// Direct gets under way for one window, and for its first round.
const WINDOW_MAX: usize = 32;
const WINDOW_MIN: usize = 4;

/// Remembered poisoned messages; the oldest is forgotten, which costs one more disconnect when it is met again.
const POISONED_MAX: usize = 4096;

/// A read for "at or after" goes to the leader if poison stands within this many sequences.
const POISON_REACH: u64 = 1024;

/// The server counts in nanoseconds, in 64 bits: it takes times after the year 2262 for long ago.
const SERVER_MS_MAX: i64 = i64::MAX / 1_000_000;

/// Header names that the server adds to a message read raw.
const ADDED: [&str; 6] =
    ["Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Num-Pending", "Nats-Last-Sequence"];

/// How much of a run of messages is wanted.
#[derive(Clone, Copy)]
pub struct Wanted {
    pub messages_max: usize,
    pub bytes_max: usize,
}

/// What one pass of direct gets brought, and what ended it early.
#[derive(Default)]
struct Run {
    messages: Vec<Message>,
    bytes: usize,
    fault: Option<Fault>,
}

impl Run {
    fn push(&mut self, message: Message) {
        self.bytes += message.payload.len();
        self.messages.push(message);
    }

    fn is_enough(&self, wanted: Wanted) -> bool {
        self.messages.len() >= wanted.messages_max || self.bytes >= wanted.bytes_max
    }

    fn next(&self, start: Sequence) -> Sequence {
        self.messages.last().map_or(start, |message| message.sequence.next())
    }
}

/// Why a direct get gave no message.
enum Fault {
    /// There is none, or no more.
    End,
    /// Only the leader can tell: no direct gets on this stream, or the reply was not to be understood or lost.
    AskLeader,
    Failed(StoreError),
}

impl Fault {
    fn of(lost: Lost) -> Fault {
        match lost {
            // Poison, perhaps somebody else's; the leader's answer goes by another connection if need be.
            Lost::Disconnected | Lost::NotConnected => Fault::AskLeader,
            lost => Fault::Failed(lost_error(lost)),
        }
    }
}

impl NatsStore {
    pub(super) fn leader_get(&self, stream: &str, pick: &Pick, deadline: Instant) -> StoreResult<Message> {
        self.leader_ask(stream, &body_of(pick), deadline)
    }

    fn leader_ask(&self, stream: &str, body: &Value, deadline: Instant) -> StoreResult<Message> {
        let subject = format!("STREAM.MSG.GET.{stream}");
        let base64_bytes = self.reads.max_payload() / 3 * 4;
        let reserved = self.budget.reserve(base64_bytes, deadline)?;
        let mut outcome = self.reads.request(api_request(&subject, body), deadline);
        if matches!(outcome, Err(Lost::Disconnected | Lost::NotConnected)) {
            outcome = self.control.request(api_request(&subject, body), deadline);
        }
        drop(reserved);
        let (message, is_poison) = stored_message(json_of(outcome)?)?;
        if is_poison && self.poisoned.lock().expect("no holder panics").remember(stream, message.sequence) {
            warn!(self.logger, "a message has a malformed header block; it is read around";
                "stream" => stream, "sequence" => message.sequence.0);
        }
        Ok(message)
    }

    pub(super) fn direct_get(&self, stream: &str, pick: &Pick, deadline: Instant) -> StoreResult<Message> {
        if self.poisoned.lock().expect("no holder panics").may_hit(stream, pick) {
            return self.leader_get(stream, pick, deadline);
        }
        let reserved = self.budget.reserve(self.reads.max_payload(), deadline)?;
        let outcome = self.reads.request(direct_request(stream, &body_of(pick)), deadline);
        drop(reserved);
        match raw_message(outcome) {
            Ok((message, _)) => Ok(message),
            Err(Fault::End) => Err(StoreError::NoMessage),
            Err(Fault::AskLeader) => self.leader_get(stream, pick, deadline),
            Err(Fault::Failed(error)) => Err(error),
        }
    }

    pub(super) fn read_run(
        &self,
        stream: &str,
        start: Sequence,
        wanted: Wanted,
        deadline: Instant,
    ) -> StoreResult<Vec<Message>> {
        let start = start.max(Sequence(1));
        if wanted.messages_max == 0 {
            return Ok(Vec::new());
        }
        let wanted = Wanted { bytes_max: wanted.bytes_max.max(1), ..wanted };
        let poison = self.poisoned.lock().expect("no holder panics").first_from(stream, start);
        let mut run = match poison {
            Some(at) if at == start => Run { fault: Some(Fault::AskLeader), ..Run::default() },
            Some(at) => self.window(stream, start, wanted, Some(at), deadline),
            None if self.level() >= 1 => self.batch(stream, start, wanted, deadline),
            None => self.window(stream, start, wanted, None, deadline),
        };
        let next = run.next(start);
        let ask_leader = match run.fault.take() {
            None => false,
            // Only holes before the poison, or the poison itself.
            Some(Fault::End) => poison.is_some() && run.messages.is_empty(),
            Some(Fault::AskLeader) => true,
            Some(Fault::Failed(error)) if run.messages.is_empty() => return Err(error),
            Some(Fault::Failed(_)) => false,
        };
        if ask_leader && !run.is_enough(wanted) {
            match self.leader_get(stream, &Pick::AtOrAfter(next), deadline) {
                Ok(message) => {
                    // A poisoned message that was deleted since need not be stepped around any more.
                    self.poisoned.lock().expect("no holder panics").forget_range(stream, next, message.sequence);
                    run.push(message);
                }
                Err(StoreError::NoMessage) => {}
                Err(error) if run.messages.is_empty() => return Err(error),
                Err(_) => {}
            }
        }
        Ok(run.messages)
    }

    /// One batched direct get (API level 1).
    fn batch(&self, stream: &str, start: Sequence, wanted: Wanted, deadline: Instant) -> Run {
        let mut run = Run::default();
        let bytes_max = wanted.bytes_max.clamp(1, BATCH_BYTES_MAX);
        // The server sends the message that crosses the limit, too.
        let _reserved = match self.budget.reserve(bytes_max.saturating_add(self.reads.max_payload()), deadline) {
            Ok(reserved) => reserved,
            Err(error) => return Run { fault: Some(Fault::Failed(error)), ..run },
        };
        let messages_max = wanted.messages_max.min(BATCH_MESSAGES_MAX);
        let body = json!({ "seq": start.0, "batch": messages_max, "max_bytes": bytes_max });
        let replies = self.reads.request_many(direct_request(stream, &body), deadline);
        loop {
            match raw_message(replies.next()) {
                Ok((message, is_of_batch)) => {
                    if message.sequence >= run.next(start) {
                        run.push(message);
                    }
                    // A replica that does not know batches sends one message and no end.
                    if !is_of_batch {
                        return run;
                    }
                }
                Err(Fault::End) => return run,
                Err(fault) => return Run { fault: Some(fault), ..run },
            }
        }
    }

    /// Direct gets of consecutive sequences, several under way. Stops before `before`, and at missing messages once it
    /// has some.
    fn window(
        &self,
        stream: &str,
        start: Sequence,
        wanted: Wanted,
        before: Option<Sequence>,
        deadline: Instant,
    ) -> Run {
        let mut run = Run::default();
        let mut next = start;
        let mut width = WINDOW_MIN;
        let mut largest_bytes = 1;
        while !run.is_enough(wanted) {
            let left = before.map_or(u64::MAX, |before| before.0.saturating_sub(next.0));
            if left == 0 {
                return Run { fault: Some(Fault::End), ..run };
            }
            let fit = (wanted.bytes_max - run.bytes).div_ceil(largest_bytes).max(1);
            let count = width.min(fit).min(wanted.messages_max - run.messages.len());
            let count = count.min(usize::try_from(left).unwrap_or(usize::MAX));
            let asked = match self.ask_window(stream, next, count, before.is_none(), deadline) {
                Ok(asked) => asked,
                Err(error) => return Run { fault: Some(Fault::Failed(error)), ..run },
            };
            let beyond = Sequence(next.0.saturating_add(asked.len() as u64));
            // A miss before a hit is no hole where somebody writes: what was missing may have been stored in between. Only
            // a request that looks ahead tells, so the run goes on from the miss with a new window.
            let (mut missing, mut goes_on) = (false, false);
            for (at, (receiver, _reserved)) in (next.0..).zip(asked) {
                let outcome = receiver.recv_deadline(deadline).unwrap_or(Err(Lost::TimedOut));
                match raw_message(outcome) {
                    Ok(_) if missing && before.is_none() => goes_on = true,
                    Ok((message, _)) => {
                        missing = false;
                        if message.sequence >= next && !run.is_enough(wanted) {
                            largest_bytes = largest_bytes.max(message.payload.len());
                            next = message.sequence.next();
                            run.push(message);
                        }
                    }
                    Err(Fault::End) => missing |= at >= next.0,
                    Err(fault) => return Run { fault: Some(fault), ..run },
                }
            }
            if missing && !goes_on && (before.is_none() || !run.messages.is_empty()) {
                return Run { fault: Some(Fault::End), ..run };
            }
            // Without the first request looking ahead, an empty window was all holes.
            if before.is_some() {
                next = next.max(beyond);
            }
            width = (width * 2).min(WINDOW_MAX);
        }
        run
    }

    /// Sends up to `count` direct gets, fewer if the budget is short. The first may look ahead over holes.
    fn ask_window(
        &self,
        stream: &str,
        next: Sequence,
        count: usize,
        looks_ahead: bool,
        deadline: Instant,
    ) -> StoreResult<Vec<(Receiver<Outcome>, Reserved<'_>)>> {
        let mut asked = Vec::with_capacity(count);
        let mut at = next;
        let message_bytes = self.reads.max_payload();
        let mut reserved = Some(self.budget.reserve(message_bytes, deadline)?);
        while let Some(reservation) = reserved {
            let pick = if looks_ahead && asked.is_empty() { Pick::AtOrAfter(at) } else { Pick::At(at) };
            asked.push((send(&self.reads, direct_request(stream, &body_of(&pick)), deadline), reservation));
            at = at.next();
            reserved = if asked.len() < count { self.budget.try_reserve(message_bytes) } else { None };
        }
        Ok(asked)
    }

    pub(super) fn stored_since(&self, stream: &str, wall_ms: i64, deadline: Instant) -> StoreResult<Option<Sequence>> {
        let wall_ms = wall_ms.clamp(-SERVER_MS_MAX, SERVER_MS_MAX);
        let found = if self.level() >= 1 {
            let body = json!({ "start_time": time::format(wall_ms), "next_by_subj": ">" });
            self.leader_ask(stream, &body, deadline)
        } else {
            let at = self.consumer_start(stream, wall_ms, deadline)?;
            self.leader_get(stream, &Pick::AtOrAfter(at), deadline)
        };
        match found {
            Ok(message) => Ok(Some(message.sequence)),
            Err(StoreError::NoMessage) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Where a consumer by start time would begin: 2.10 answers this question in no other way.
    fn consumer_start(&self, stream: &str, wall_ms: i64, deadline: Instant) -> StoreResult<Sequence> {
        let config = json!({
            "deliver_policy": "by_start_time",
            "opt_start_time": time::format(wall_ms),
            "ack_policy": "none",
            "mem_storage": true,
            "num_replicas": 1,
            "inactive_threshold": 5_000_000_000u64,
        });
        let body = json!({ "stream_name": stream, "config": config });
        let info = self.api(&format!("CONSUMER.CREATE.{stream}"), &body, deadline)?;
        if let Some(name) = info["name"].as_str() {
            // Not waited for: it goes by itself after its threshold.
            let request = api_request(&format!("CONSUMER.DELETE.{stream}.{name}"), &Value::Null);
            self.control.begin(Arc::new(request), deadline, Box::new(drop));
        }
        let before = info["delivered"]["stream_seq"].as_u64();
        before
            .map(|before| Sequence(before).next())
            .ok_or_else(|| StoreError::Garbled("a consumer without a start".to_owned()))
    }
}

fn send(requester: &Requester, request: super::link::Request, deadline: Instant) -> Receiver<Outcome> {
    let (sender, receiver) = bounded(1);
    requester.begin(Arc::new(request), deadline, Box::new(move |outcome| drop(sender.send(outcome))));
    receiver
}

fn direct_request(stream: &str, body: &Value) -> super::link::Request {
    api_request(&format!("DIRECT.GET.{stream}"), body)
}

/// The request body for one message, the same for leader and direct gets.
pub(super) fn body_of(pick: &Pick) -> Value {
    match pick {
        Pick::At(sequence) => json!({ "seq": sequence.0 }),
        Pick::AtOrAfter(sequence) => json!({ "seq": sequence.0.max(1), "next_by_subj": ">" }),
        Pick::LastOf(subject) => json!({ "last_by_subj": subject }),
    }
}

/// The message in a leader's answer, and whether its header block is poison.
pub(super) fn stored_message(mut json: Value) -> StoreResult<(Message, bool)> {
    let garbled = |what: &str| StoreError::Garbled(format!("a stored message with a bad {what}"));
    let message = json["message"].take();
    let bytes = |field: &str| match message[field].as_str() {
        None => Ok(Vec::new()),
        Some(text) => STANDARD.decode(text).map_err(|_| garbled(field)),
    };
    let block = bytes("hdrs")?;
    let stored = Message {
        sequence: Sequence(message["seq"].as_u64().ok_or_else(|| garbled("seq"))?),
        subject: message["subject"].as_str().unwrap_or_default().to_owned(),
        headers: header::parse(&block),
        payload: bytes("data")?.into(),
        stored_ms: message["time"].as_str().and_then(time::parse).ok_or_else(|| garbled("time"))?,
    };
    Ok((stored, header::is_poison(&block)))
}

/// The message in a direct get's reply, and whether it came as part of a batch.
fn raw_message(outcome: Outcome) -> Result<(Message, bool), Fault> {
    let reply = outcome.map_err(Fault::of)?;
    let Some(sequence) = reply.header("Nats-Sequence") else {
        let is_message = reply.headers.as_ref().is_some_and(|headers| headers.contains_key("Nats-Sequence"));
        return Err(match reply.status() {
            // The stored message carries such a header itself, so which one is the server's cannot be told.
            _ if is_message => Fault::AskLeader,
            204 | 404 => Fault::End,
            503 => Fault::AskLeader,
            status => Fault::Failed(StoreError::Garbled(format!("a direct get was answered with status {status}"))),
        });
    };
    let sequence = sequence.parse().map(Sequence).map_err(|_| Fault::AskLeader)?;
    let subject = reply.header("Nats-Subject").ok_or(Fault::AskLeader)?.to_owned();
    let stored_ms = reply.header("Nats-Time-Stamp").and_then(time::parse).ok_or(Fault::AskLeader)?;
    let is_of_batch = reply.header("Nats-Num-Pending").is_some();
    let Reply { headers, payload } = reply;
    let headers = headers.iter().flat_map(|map| map.iter());
    let headers = headers.filter(|(name, _)| !ADDED.contains(&name.as_str()));
    let headers = headers.flat_map(|(name, values)| values.iter().map(|value| (name.clone(), value.clone()))).collect();
    Ok((Message { sequence, subject, headers, payload: payload.into(), stored_ms }, is_of_batch))
}

/// Bytes that reads may bring onto the connection at once.
pub struct Budget {
    /// Bytes reserved.
    used: Mutex<usize>,
    freed: Condvar,
}

/// A part of the budget; given back when dropped.
pub struct Reserved<'a> {
    budget: &'a Budget,
    bytes: usize,
}

impl Budget {
    pub fn new() -> Budget {
        Budget { used: Mutex::new(0), freed: Condvar::new() }
    }

    /// Waits for room. What exceeds the whole budget goes alone.
    fn reserve(&self, bytes: usize, deadline: Instant) -> StoreResult<Reserved<'_>> {
        let bytes = bytes.min(OUTSTANDING_BYTES_MAX);
        let mut used = self.used.lock().expect("no holder panics");
        while *used + bytes > OUTSTANDING_BYTES_MAX {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(StoreError::Busy);
            }
            used = self.freed.wait_timeout(used, left).expect("no holder panics").0;
        }
        *used += bytes;
        Ok(Reserved { budget: self, bytes })
    }

    fn try_reserve(&self, bytes: usize) -> Option<Reserved<'_>> {
        let bytes = bytes.min(OUTSTANDING_BYTES_MAX);
        let mut used = self.used.lock().expect("no holder panics");
        if *used + bytes > OUTSTANDING_BYTES_MAX {
            return None;
        }
        *used += bytes;
        Some(Reserved { budget: self, bytes })
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        *self.budget.used.lock().expect("no holder panics") -= self.bytes;
        self.budget.freed.notify_all();
    }
}

/// Messages that break the connection when they are read raw.
#[derive(Default)]
pub struct Poisoned {
    set: BTreeSet<(String, Sequence)>,
    /// In the order they were found.
    order: VecDeque<(String, Sequence)>,
}

impl Poisoned {
    /// Whether it is news.
    fn remember(&mut self, stream: &str, sequence: Sequence) -> bool {
        let found = (stream.to_owned(), sequence);
        if !self.set.insert(found.clone()) {
            return false;
        }
        self.order.push_back(found);
        if self.order.len() > POISONED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.set.remove(&oldest);
        }
        true
    }

    fn forget_range(&mut self, stream: &str, from: Sequence, below: Sequence) {
        let is_gone = |(name, at): &(String, Sequence)| name == stream && *at >= from && *at < below;
        if self.first_from(stream, from).is_some_and(|at| at < below) {
            self.set.retain(|found| !is_gone(found));
            self.order.retain(|found| !is_gone(found));
        }
    }

    fn first_from(&self, stream: &str, start: Sequence) -> Option<Sequence> {
        let (name, at) = self.set.range((stream.to_owned(), start)..).next()?;
        (name == stream).then_some(*at)
    }

    fn may_hit(&self, stream: &str, pick: &Pick) -> bool {
        if self.set.is_empty() {
            return false;
        }
        match pick {
            Pick::At(at) => self.first_from(stream, *at) == Some(*at),
            Pick::AtOrAfter(start) => self.first_from(stream, *start).is_some_and(|at| at.0 - start.0 <= POISON_REACH),
            Pick::LastOf(_) => self.first_from(stream, Sequence(0)).is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_budget_admits_what_fits_and_one_giant_alone() {
        let budget = Budget::new();
        let soon = || Instant::now() + Duration::from_millis(20);
        let giant = budget.reserve(usize::MAX, soon()).ok();
        assert!(giant.is_some());
        assert!(matches!(budget.reserve(1, soon()), Err(StoreError::Busy)));
        drop(giant);
        let half = budget.reserve(OUTSTANDING_BYTES_MAX / 2, soon()).ok();
        assert!(budget.try_reserve(OUTSTANDING_BYTES_MAX).is_none());
        assert!(half.is_some() && budget.try_reserve(1024).is_some());
    }

    #[test]
    fn poison_is_remembered_per_stream_and_bounded() {
        let mut poisoned = Poisoned::default();
        poisoned.remember("a", Sequence(5));
        assert_eq!(poisoned.first_from("a", Sequence(1)), Some(Sequence(5)));
        assert_eq!(poisoned.first_from("a", Sequence(6)), None);
        assert_eq!(poisoned.first_from("b", Sequence(1)), None);
        assert!(poisoned.may_hit("a", &Pick::At(Sequence(5))) && !poisoned.may_hit("a", &Pick::At(Sequence(4))));
        assert!(poisoned.may_hit("a", &Pick::AtOrAfter(Sequence(4))));
        assert!(poisoned.may_hit("a", &Pick::LastOf("x".to_owned())));
        poisoned.forget_range("a", Sequence(4), Sequence(6));
        assert_eq!(poisoned.first_from("a", Sequence(1)), None);
        (0..=POISONED_MAX as u64).for_each(|n| assert!(poisoned.remember("c", Sequence(n + 1))));
        assert_eq!(poisoned.first_from("c", Sequence(1)), Some(Sequence(2)));
    }

    #[test]
    fn a_leaders_answer_is_read_leniently() {
        let json = json!({ "message": { "subject": "s", "seq": 9, "time": "1970-01-01T00:00:01Z",
            "hdrs": STANDARD.encode(b"NATS/1.0\r\nbroken\r\n\r\n"), "data": STANDARD.encode(b"payload") } });
        let (message, is_poison) = stored_message(json).unwrap();
        assert!(is_poison && message.headers.is_empty());
        assert_eq!((message.payload.as_ref(), message.stored_ms), (&b"payload"[..], 1000));
        assert!(stored_message(json!({ "message": { "seq": 1, "data": "?" } })).is_err());
    }
}
