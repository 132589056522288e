//! Walking a partition's stream: which messages count, and where an offset is.
//!
//! A message counts if its chain is valid and its base is not below the next offset before it. Everything else (foreign
//! bytes, a copy of an old batch) is stepped over, however much of it there is.

use crate::limits::{READ_BYTES_MAX, READ_MESSAGES_MAX, STORE_CALL_MAX};
use crate::log::cache::Chain;
use crate::log::index::Boundary;
use crate::log::mark;
use crate::records::batch::{ChainSummary, chain_is_valid};
use crate::store::{From, Message, Pick, Sequence, Store, StoreError, StoreResult};
use crate::wire::Uuid;
use std::collections::VecDeque;
use std::time::Instant;

/// How many messages the last step of a search reads through instead of probing on.
const SEARCH_SPAN_MESSAGES: u64 = 32;

/// How far a search walks back to judge a message by those before it.
const WALK_BACK_MESSAGES: u64 = 256;

/// A message that counts, where it stands.
#[derive(Clone, Debug)]
pub struct Counted {
    pub sequence: Sequence,
    pub chain: Chain,
    pub summary: ChainSummary,
    /// Messages are missing between the one before it and it: what they held is not known.
    pub after_gap: bool,
}

/// Reads a stream forward from a boundary, giving the messages that count.
pub struct Scan<'a> {
    store: &'a dyn Store,
    stream: &'a str,
    at: Boundary,
    bytes_max: usize,
    messages_max: usize,
    /// Where it ends, if before the stream does.
    below: Option<Sequence>,
    /// Read, not yet looked at.
    ahead: VecDeque<Message>,
    /// The last message read at all, counted or not.
    last_seen: Option<Sequence>,
    /// Messages were missing, and none that counts has come since.
    missing: bool,
    /// Whose log start is looked for among the messages that do not count.
    topic_id: Option<Uuid>,
    log_start: Option<i64>,
}

impl<'a> Scan<'a> {
    pub fn new(store: &'a dyn Store, stream: &'a str, at: Boundary) -> Self {
        Scan {
            store,
            stream,
            at,
            bytes_max: READ_BYTES_MAX,
            messages_max: READ_MESSAGES_MAX,
            below: None,
            ahead: VecDeque::new(),
            last_seen: None,
            missing: false,
            topic_id: None,
            log_start: None,
        }
    }

    /// Asks the store for no more than this at a time.
    pub fn bytes_max(mut self, bytes_max: usize) -> Self {
        self.bytes_max = bytes_max.clamp(1, READ_BYTES_MAX);
        self
    }

    /// Begins with a read of no more than this; what follows is read in bulk.
    pub fn messages_max(mut self, messages_max: usize) -> Self {
        self.messages_max = messages_max;
        self
    }

    /// Looks for what is told of this topic's log start, too.
    pub fn with_start_of(mut self, topic_id: Uuid) -> Self {
        self.topic_id = Some(topic_id);
        self
    }

    /// Ends before this message.
    fn below(mut self, below: Sequence) -> Self {
        self.below = Some(below);
        self
    }

    /// The next message that counts; `None` at the stream's end, as its leader knows it.
    pub fn next(&mut self, deadline: Instant) -> StoreResult<Option<Counted>> {
        loop {
            if let Some(counted) = self.next_read() {
                return Ok(Some(counted));
            }
            if !self.read_on(deadline)? {
                return Ok(None);
            }
        }
    }

    /// As `next`, but where it has come to `upto` without a gap it does not ask whether there is more: on a stream that
    /// others write to there always is.
    pub fn next_up_to(&mut self, upto: Sequence, deadline: Instant) -> StoreResult<Option<Counted>> {
        match self.next_read() {
            None if !self.missing && self.last_seen >= Some(upto) => Ok(None),
            None => self.next(deadline),
            counted => Ok(counted),
        }
    }

    /// The next message that counts among those already read, without asking the store.
    pub fn next_read(&mut self) -> Option<Counted> {
        while let Some(message) = self.ahead.pop_front() {
            self.last_seen = Some(message.sequence);
            if self.below.is_some_and(|below| message.sequence >= below) {
                self.ahead.clear();
                self.at.sequence = message.sequence;
                return None;
            }
            self.missing |= message.sequence != self.at.sequence;
            self.at.sequence = message.sequence.next();
            if let Some(counted) = self.judge(message) {
                let after_gap = std::mem::take(&mut self.missing);
                return Some(Counted { after_gap, ..counted });
            }
        }
        None
    }

    /// Where it stands: after what it gave or stepped over.
    pub fn position(&self) -> Boundary {
        self.at
    }

    /// The last message read, counted or not.
    pub fn last_seen(&self) -> Option<Sequence> {
        self.last_seen
    }

    /// Whether no message is missing since the last one that counts, or since the beginning.
    pub fn complete_since_counted(&self) -> bool {
        !self.missing
    }

    /// Where the log begins, as far as messages that were read tell (records were deleted).
    pub fn log_start(&self) -> Option<i64> {
        self.log_start
    }

    fn judge(&mut self, message: Message) -> Option<Counted> {
        let Some(summary) = chain_is_valid(&message.payload) else {
            let told = self.topic_id.and_then(|topic_id| mark::read(topic_id, &message.payload));
            // A log does not begin beyond what was in it.
            self.log_start = self.log_start.max(told.filter(|start| *start <= self.at.offset));
            return None;
        };
        if summary.base_offset < self.at.offset {
            return None;
        }
        let chain = Chain { from: self.at.offset, next: summary.next_offset, payload: message.payload };
        self.at.offset = summary.next_offset;
        Some(Counted { sequence: message.sequence, chain, summary, after_gap: false })
    }

    fn read_on(&mut self, deadline: Instant) -> StoreResult<bool> {
        let start = self.at.sequence;
        if self.below.is_some_and(|below| start >= below) {
            return Ok(false);
        }
        let deadline = deadline.min(Instant::now() + STORE_CALL_MAX);
        let read = self.store.messages_read(self.stream, start, self.messages_max, self.bytes_max, deadline)?;
        self.messages_max = READ_MESSAGES_MAX;
        self.ahead.extend(read);
        if self.ahead.is_empty() {
            // A miss by direct get proves nothing: the leader decides whether this is the end.
            match self.store.message_get(self.stream, Pick::AtOrAfter(start), From::Leader, deadline) {
                Ok(message) => self.ahead.push_back(message),
                Err(StoreError::NoMessage) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// How much a search believes what a probe meets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trust {
    /// A message that the following one continues counts. A run of copied batches can lead such a search to a gap in the
    /// offsets that is none, never to other records than those asked for.
    Neighbours,
    /// Only in the light of the messages before it: for making sure that a gap is real. A run of copies longer than
    /// `WALK_BACK_MESSAGES` would still be believed.
    WalkBack,
}

/// Finds a boundary from which a scan meets the message that answers for `offset`, or the first one after it.
/// `low.offset <= offset < high.offset`; both are true boundaries.
pub fn locate(place: &Place, offset: i64, between: (Boundary, Boundary), trust: Trust) -> StoreResult<Boundary> {
    let (mut low, high) = between;
    let mut below = high.sequence;
    while below.0.saturating_sub(low.sequence.0) > SEARCH_SPAN_MESSAGES {
        let middle = Sequence(low.sequence.0 + (below.0 - low.sequence.0) / 2);
        match probe(place, middle, below, trust)? {
            Some(found) if found.base <= offset => {
                // What made a copy incredible may stand before the middle: then the search has come too far.
                if found.sequence < middle {
                    below = middle;
                }
                low = found.boundary_for(offset);
            }
            // Also right for a copy: what stood before it ended above its base.
            _ => below = middle,
        }
    }
    Ok(low)
}

/// What a search asks.
pub struct Place<'a> {
    pub store: &'a dyn Store,
    pub stream: &'a str,
    /// The stream's first message.
    pub first: Sequence,
    pub deadline: Instant,
}

/// A message that a probe met and believes.
struct Probed {
    sequence: Sequence,
    base: i64,
    next: i64,
}

impl Probed {
    fn of(counted: &Counted) -> Probed {
        let ChainSummary { base_offset, next_offset, .. } = counted.summary;
        Probed { sequence: counted.sequence, base: base_offset, next: next_offset }
    }

    /// The nearest boundary of this message that is not above `offset`.
    fn boundary_for(&self, offset: i64) -> Boundary {
        if self.next <= offset {
            Boundary { offset: self.next, sequence: self.sequence.next() }
        } else {
            Boundary { offset: self.base, sequence: self.sequence }
        }
    }
}

/// The first message in `from..below` with a valid chain, or the one before it that shows it to be a copy; `None` if
/// there is none. Foreign messages are read through in bulk.
fn probe(place: &Place, from: Sequence, below: Sequence, trust: Trust) -> StoreResult<Option<Probed>> {
    let anywhere = Boundary { offset: i64::MIN, sequence: from };
    let mut scan = Scan::new(place.store, place.stream, anywhere).messages_max(2).below(below);
    let Some(first) = scan.next(place.deadline)? else {
        return Ok(None);
    };
    if trust == Trust::Neighbours {
        let follower = scan.next_read();
        if follower.is_some_and(|follower| follower.summary.base_offset == first.summary.next_offset) {
            return Ok(Some(Probed::of(&first)));
        }
    }
    believed(place, first, trust).map(Some)
}

/// Takes `suspect` if it counts in the light of what stands before it, else the message before it that shows why not.
fn believed(place: &Place, suspect: Counted, trust: Trust) -> StoreResult<Probed> {
    let mut back = if trust == Trust::WalkBack { WALK_BACK_MESSAGES } else { 1 };
    loop {
        let start = Sequence(suspect.sequence.0.saturating_sub(back));
        let anywhere = Boundary { offset: i64::MIN, sequence: start };
        let mut scan = Scan::new(place.store, place.stream, anywhere).below(suspect.sequence);
        scan.messages_max = usize::try_from(back).unwrap_or(READ_MESSAGES_MAX).min(READ_MESSAGES_MAX);
        let mut before = None;
        while let Some(found) = scan.next(place.deadline)? {
            before = Some(found);
        }
        match before {
            Some(before) if before.summary.next_offset > suspect.summary.base_offset => return Ok(Probed::of(&before)),
            Some(before) if before.summary.next_offset == suspect.summary.base_offset => break,
            // Foreign messages alone tell nothing, however many they are.
            Some(_) if back >= WALK_BACK_MESSAGES => break,
            _ if start <= place.first => break,
            _ => back *= 4,
        }
    }
    Ok(Probed::of(&suspect))
}
