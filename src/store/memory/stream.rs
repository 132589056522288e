//! One stream: sequences, guards, limits, holes, and messages that are proposed but have no quorum yet.

use super::subject;
use crate::store::{Message, Pick, Publish, Sequence, StoreError, StoreResult, StreamInfo, StreamState};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Clone)]
pub struct Stream {
    name: String,
    pub config: Value,
    subjects: Vec<String>,
    created: String,
    messages: BTreeMap<u64, Message>,
    by_subject: BTreeMap<String, BTreeSet<u64>>,
    /// Payload, header and subject bytes of all messages.
    bytes: u64,
    /// The highest sequence ever given; survives purge and deletes.
    last: u64,
    /// They have claimed the sequences after `last`.
    proposed: VecDeque<Message>,
    /// What the leader of now has applied, if that is not yet all.
    told: Option<Box<Stream>>,
}

pub fn name_of(config: &Value) -> StoreResult<String> {
    let name = config.get("name").and_then(Value::as_str).unwrap_or_default();
    let is_legal =
        !name.is_empty() && name.len() <= 255 && !name.contains([' ', '\t', '\r', '\n', '.', '*', '>', '/', '\\']);
    if is_legal { Ok(name.to_owned()) } else { Err(refused(10052, "invalid stream name")) }
}

fn refused(code: u32, text: &str) -> StoreError {
    StoreError::Refused { code, text: text.to_owned() }
}

fn size(message: &Message) -> u64 {
    let headers: usize = message.headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    (message.subject.len() + headers + message.payload.len()) as u64
}

impl Stream {
    /// `incarnation` makes the creation time unique.
    pub fn new(config: Value, incarnation: u64) -> StoreResult<Stream> {
        let mut stream = Stream {
            name: name_of(&config)?,
            config: Value::Null,
            subjects: Vec::new(),
            created: format!("2023-11-14T22:13:20.{incarnation:09}Z"),
            messages: BTreeMap::new(),
            by_subject: BTreeMap::new(),
            bytes: 0,
            last: 0,
            proposed: VecDeque::new(),
            told: None,
        };
        stream.reconfigure(config)?;
        Ok(stream)
    }

    pub fn reconfigure(&mut self, config: Value) -> StoreResult<()> {
        let subjects = match config.get("subjects").and_then(Value::as_array) {
            Some(subjects) => subjects.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            None => vec![self.name.clone()],
        };
        self.subjects = subjects;
        self.config = config;
        self.enforce_limits();
        Ok(())
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn takes(&self, subject: &str) -> bool {
        self.subjects.iter().any(|filter| subject::matches(filter, subject))
    }

    pub fn overlaps(&self, other: &Stream) -> bool {
        self.subjects.iter().any(|one| other.subjects.iter().any(|two| subject::overlap(one, two)))
    }

    /// Whether its one subject is covered by the filter.
    pub fn is_within(&self, filter: &str) -> bool {
        matches!(&self.subjects[..], [only] if subject::matches(filter, only))
    }

    pub fn info(&self) -> StreamInfo {
        StreamInfo {
            name: self.name.clone(),
            config: self.config.clone(),
            created: self.created.clone(),
            state: StreamState {
                messages: self.messages.len() as u64,
                bytes: self.bytes,
                first: Sequence(self.messages.keys().next().copied().unwrap_or(self.last + 1)),
                last: Sequence(self.last),
            },
            leader: String::new(),
        }
    }

    /// As `info`, from who does not know the newest `lag` messages.
    pub fn old_info(&self, lag: usize) -> StreamInfo {
        let mut info = self.info();
        let end = self.seen_end(lag);
        if end <= self.last {
            info.state.last = Sequence(end.saturating_sub(1).max(info.state.first.0.saturating_sub(1)));
            info.state.messages = info.state.messages.saturating_sub(lag as u64);
        }
        info
    }

    /// What its leader tells of it.
    pub fn as_told(&self) -> &Stream {
        self.told.as_deref().unwrap_or(self)
    }

    pub fn lead_anew(&mut self, applied: Stream) {
        self.told = Some(Box::new(applied));
    }

    pub fn reach_the_newest(&mut self) {
        self.told = None;
    }

    pub fn is_replicated(&self) -> bool {
        self.config.get("num_replicas").and_then(Value::as_u64).is_some_and(|replicas| replicas > 1)
    }

    /// Guards count what is proposed as if it were stored: the leader has given those sequences away.
    pub fn check_guards(&self, message: &Publish) -> StoreResult<()> {
        let tail = self.last + self.proposed.len() as u64;
        if message.expected_last.is_some_and(|expected| expected.0 != tail) {
            return Err(StoreError::WrongLast(Some(Sequence(tail))));
        }
        let newest = self.newest_on(&message.subject);
        if message.expected_last_on_subject.is_some_and(|expected| expected.0 != newest) {
            return Err(StoreError::WrongLast(Some(Sequence(newest))));
        }
        Ok(())
    }

    fn newest_on(&self, subject: &str) -> u64 {
        let proposed = self.proposed.iter().rev().find(|message| message.subject == subject);
        let stored = self.by_subject.get(subject).and_then(|sequences| sequences.last());
        proposed.map(|message| message.sequence.0).or(stored.copied()).unwrap_or(0)
    }

    pub fn append(&mut self, message: Publish, wall_ms: i64) -> StoreResult<Sequence> {
        let sequence = Sequence(self.last + 1);
        let message = stored(message, sequence, wall_ms);
        if self.config.get("discard").and_then(Value::as_str) == Some("new") && self.would_overflow(&message) {
            return Err(StoreError::NoSpace("maximum messages or bytes exceeded".to_owned()));
        }
        self.insert(message);
        self.enforce_limits();
        Ok(sequence)
    }

    fn insert(&mut self, message: Message) {
        let sequence = message.sequence.0;
        self.last = sequence;
        self.bytes += size(&message);
        self.by_subject.entry(message.subject.clone()).or_default().insert(sequence);
        self.messages.insert(sequence, message);
    }

    fn remove(&mut self, sequence: u64) -> bool {
        let Some(message) = self.messages.remove(&sequence) else { return false };
        self.bytes -= size(&message);
        if let Some(sequences) = self.by_subject.get_mut(&message.subject) {
            sequences.remove(&sequence);
            if sequences.is_empty() {
                self.by_subject.remove(&message.subject);
            }
        }
        true
    }

    /// A limit of the configuration; absent, zero and negative mean none.
    fn limit(&self, field: &str) -> Option<u64> {
        self.config.get(field).and_then(Value::as_i64).and_then(|limit| u64::try_from(limit).ok()).filter(|l| *l > 0)
    }

    fn would_overflow(&self, message: &Message) -> bool {
        let replaced = match (self.limit("max_msgs_per_subject"), self.by_subject.get(&message.subject)) {
            (Some(max), Some(sequences)) if sequences.len() as u64 >= max => {
                sequences.first().and_then(|sequence| self.messages.get(sequence))
            }
            _ => None,
        };
        let messages = self.messages.len() as u64 + 1 - u64::from(replaced.is_some());
        let bytes = self.bytes + size(message) - replaced.map_or(0, size);
        self.limit("max_msgs").is_some_and(|max| messages > max)
            || self.limit("max_bytes").is_some_and(|max| bytes > max)
    }

    /// Removes the oldest until all limits hold.
    fn enforce_limits(&mut self) {
        if let Some(max) = self.limit("max_msgs_per_subject") {
            let surplus = |sequences: &BTreeSet<u64>| {
                let count = sequences.len().saturating_sub(usize::try_from(max).unwrap_or(usize::MAX));
                sequences.iter().take(count).copied().collect::<Vec<u64>>()
            };
            for sequence in self.by_subject.values().flat_map(surplus).collect::<Vec<u64>>() {
                self.remove(sequence);
            }
        }
        let (max_messages, max_bytes) = (self.limit("max_msgs"), self.limit("max_bytes"));
        let exceeds = |stream: &Stream| {
            max_messages.is_some_and(|max| stream.messages.len() as u64 > max)
                || max_bytes.is_some_and(|max| stream.bytes > max)
        };
        while exceeds(self) {
            let Some(oldest) = self.messages.keys().next().copied() else { return };
            self.remove(oldest);
        }
    }

    /// Removes what is older than `max_age`, which is in nanoseconds.
    pub fn expire(&mut self, wall_ms: i64) {
        let Some(age_ms) = self.limit("max_age").map(|age| i64::try_from(age / 1_000_000).unwrap_or(i64::MAX)) else {
            return;
        };
        let aged = self.messages.values().filter(|m| m.stored_ms.saturating_add(age_ms) <= wall_ms);
        for sequence in aged.map(|m| m.sequence.0).collect::<Vec<u64>>() {
            self.remove(sequence);
        }
    }

    pub fn purge(&mut self, below: Option<Sequence>) {
        let below = below.map_or(self.last + 1, |below| below.0);
        for sequence in self.messages.range(..below).map(|(sequence, _)| *sequence).collect::<Vec<u64>>() {
            self.remove(sequence);
        }
        // A purge beyond the end takes the end along.
        self.advance(Sequence(below));
    }

    /// The next message gets `next` or more: those in between were never there.
    pub fn advance(&mut self, next: Sequence) {
        self.last = self.last.max(next.0.saturating_sub(1));
    }

    pub fn delete(&mut self, at: Sequence) -> StoreResult<()> {
        if self.remove(at.0) { Ok(()) } else { Err(StoreError::NoMessage) }
    }

    pub fn lose_newest(&mut self, messages: usize) {
        for _ in 0..messages {
            self.remove(self.last);
            self.last -= 1;
        }
    }

    /// The newest `lag` messages are not seen.
    pub fn get(&self, pick: &Pick, lag: usize) -> StoreResult<Message> {
        let end = self.seen_end(lag);
        let found = match pick {
            Pick::At(at) => self.messages.get(&at.0),
            Pick::AtOrAfter(at) => self.messages.range(at.0..).next().map(|(_, message)| message),
            Pick::LastOf(subject) => self.by_subject.get(subject).and_then(|sequences| {
                sequences.range(..end).next_back().and_then(|sequence| self.messages.get(sequence))
            }),
        };
        found.filter(|message| message.sequence.0 < end).cloned().ok_or(StoreError::NoMessage)
    }

    pub fn read(&self, start: Sequence, messages_max: usize, bytes_max: usize, lag: usize) -> Vec<Message> {
        let end = self.seen_end(lag);
        let mut bytes = 0;
        let mut read = Vec::new();
        for (_, message) in self.messages.range(start.0..).take_while(|(sequence, _)| **sequence < end) {
            bytes += message.payload.len();
            if read.len() == messages_max || (bytes > bytes_max && !read.is_empty()) {
                break;
            }
            read.push(message.clone());
        }
        read
    }

    /// The sequence from which on a replica that lags sees nothing.
    fn seen_end(&self, lag: usize) -> u64 {
        match lag.checked_sub(1) {
            None => u64::MAX,
            Some(before) => self.messages.keys().rev().nth(before).copied().unwrap_or(0),
        }
    }

    pub fn stored_since(&self, wall_ms: i64) -> Option<Sequence> {
        self.messages.values().find(|message| message.stored_ms >= wall_ms).map(|message| message.sequence)
    }

    /// The newest message of each subject that the filter covers, in subject order.
    pub fn newest_of_each(&self, filter: &str) -> Vec<Message> {
        let covered = self.by_subject.iter().filter(|(subject, _)| subject::matches(filter, subject));
        covered.filter_map(|(_, sequences)| self.messages.get(sequences.last()?).cloned()).collect()
    }

    pub fn has_proposed(&self) -> bool {
        !self.proposed.is_empty()
    }

    /// Claims the next sequence without becoming readable.
    pub fn propose(&mut self, message: Publish, wall_ms: i64) {
        let sequence = Sequence(self.last + self.proposed.len() as u64 + 1);
        self.proposed.push_back(stored(message, sequence, wall_ms));
    }

    pub fn commit_proposed(&mut self) -> usize {
        let proposed = std::mem::take(&mut self.proposed);
        let count = proposed.len();
        proposed.into_iter().for_each(|message| self.insert(message));
        self.enforce_limits();
        count
    }

    pub fn drop_proposed(&mut self) -> usize {
        std::mem::take(&mut self.proposed).len()
    }
}

fn stored(message: Publish, sequence: Sequence, wall_ms: i64) -> Message {
    Message {
        sequence,
        subject: message.subject,
        headers: message.headers,
        payload: message.payload,
        stored_ms: wall_ms,
    }
}
