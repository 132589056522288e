//! Ticks: how gateways tell each other what they stored.
//!
//! Each process numbers its ticks; a heartbeat every second carries the number. A gap, or silence, means something may
//! have been missed: then the *epoch* is raised, every partition's end is uncertain until it is read once, and whoever
//! waits looks once more. While no other gateway is heard, commits are only counted, not told: a newcomer sees the gap and
//! becomes uncertain. A gateway that does not get to append because others are always faster says that as well.

use crate::clock::Clock;
use crate::limits::{TICK_DEAF_RETRY, TICK_EVERY, TICK_SILENCE_MAX};
use crate::log::cache::PartitionKey;
use crate::store::{Sequence, Store};
use crate::tasks::{Repeated, Tasks};
use crate::wire::Uuid;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

/// The subject of all ticks; the process follows as the last token.
const SUBJECT: &str = "_kafka.tick";

pub struct Ticks {
    store: Arc<dyn Store>,
    tasks: Arc<dyn Tasks>,
    clock: Arc<dyn Clock>,
    process: String,
    epoch: AtomicU64,
    /// The number of our last tick. Protects the order in which numbers are given and sent.
    number: Mutex<u64>,
    others_heard: AtomicBool,
    /// What makes waiting fetches look again; set at the start.
    on_doubt: OnceLock<OnDoubt>,
    /// It was asked for and has not run yet: what is missed together is looked for once.
    doubt_pending: AtomicBool,
    /// What was heard, of whom (ourselves included: our own heartbeat shows that we hear at all).
    heard: Mutex<HashMap<String, Heard>>,
}

struct Heard {
    number: u64,
    at: Instant,
    silent: bool,
}

/// What a tick tells of a partition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum News {
    /// A message, the offset after it, and where the log begins now if it says that: then the offset may lie further on.
    Stored { next_offset: i64, sequence: Sequence, log_start: Option<i64> },
    /// Somebody's appends come too late again and again.
    Wanted,
}

/// The word for `News::Wanted`.
const WANTED: &str = "wanted";

type OnNews = Box<dyn Fn(PartitionKey, News) + Send + Sync>;
type OnDoubt = Box<dyn Fn() + Send + Sync>;

impl Ticks {
    pub fn new(store: Arc<dyn Store>, tasks: Arc<dyn Tasks>, clock: Arc<dyn Clock>, process: String) -> Arc<Ticks> {
        Arc::new(Ticks {
            store,
            tasks,
            clock,
            process,
            epoch: AtomicU64::new(1),
            number: Mutex::new(0),
            others_heard: AtomicBool::new(false),
            on_doubt: OnceLock::new(),
            doubt_pending: AtomicBool::new(false),
            heard: Mutex::new(HashMap::new()),
        })
    }

    /// Begins to listen and to send heartbeats. `on_news` is told what others stored or want; `on_doubt` runs on a worker after
    /// the epoch was raised.
    pub fn start(self: &Arc<Self>, on_news: OnNews, on_doubt: OnDoubt) {
        let _ = self.on_doubt.set(on_doubt);
        let ticks = Arc::downgrade(self);
        let handler = move |subject: &str, payload: Bytes| {
            if let Some(ticks) = ticks.upgrade() {
                ticks.hear(subject, &payload, &on_news);
            }
        };
        // A subscription that fails is noticed: who does not hear itself is certain of nothing.
        let _ = self.store.core_subscribe(&format!("{SUBJECT}.*"), Box::new(handler));
        let round = |ticks: &Arc<Ticks>| {
            ticks.heartbeat();
            if ticks.look_for_silence() { TICK_DEAF_RETRY } else { TICK_EVERY }
        };
        let (of, pause) = (Arc::downgrade(self), round(self));
        Repeated { of, tasks: self.tasks.clone(), clock: self.clock.clone(), round }.after(pause);
    }

    /// What was certain in an older epoch is not any more.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    pub fn hears_others(&self) -> bool {
        self.others_heard.load(Ordering::SeqCst)
    }

    /// Tells the others of a commit.
    pub fn committed(&self, key: PartitionKey, next_offset: i64, sequence: Sequence) {
        let mut number = self.number.lock().expect("no holder panics");
        *number += 1;
        if self.others_heard.load(Ordering::SeqCst) {
            let text = format!("{number} {} {} {next_offset} {}", key.0, key.1, sequence.0);
            self.send(text);
        }
    }

    /// Tells the others that records were deleted.
    pub fn started(&self, key: PartitionKey, next_offset: i64, sequence: Sequence, log_start: i64) {
        let mut number = self.number.lock().expect("no holder panics");
        *number += 1;
        if self.others_heard.load(Ordering::SeqCst) {
            let text = format!("{number} {} {} {next_offset} {} {log_start}", key.0, key.1, sequence.0);
            self.send(text);
        }
    }

    /// Asks the others to let this gateway append.
    pub fn want(&self, key: PartitionKey) {
        let number = self.number.lock().expect("no holder panics");
        self.send(format!("{number} {} {} {WANTED}", key.0, key.1));
    }

    fn send(&self, text: String) {
        self.store.core_publish(&format!("{SUBJECT}.{}", self.process), Bytes::from(text));
    }

    fn heartbeat(&self) {
        let number = self.number.lock().expect("no holder panics");
        self.send(number.to_string());
    }

    /// Something may have been missed.
    fn doubt_all(self: &Arc<Self>) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        if self.doubt_pending.swap(true, Ordering::SeqCst) {
            return;
        }
        let ticks = self.clone();
        self.tasks.spawn(Box::new(move || {
            // Before the look: what is missed from now on is looked for again.
            ticks.doubt_pending.store(false, Ordering::SeqCst);
            if let Some(on_doubt) = ticks.on_doubt.get() {
                on_doubt();
            }
        }));
    }

    fn hear(self: &Arc<Self>, subject: &str, payload: &[u8], on_news: &OnNews) {
        let Some((number, news)) = parse(payload) else {
            return;
        };
        let process = subject.rsplit('.').next().unwrap_or_default();
        let ours = process == self.process;
        let (was_silent, in_order) = {
            let mut heard = self.heard.lock().expect("no holder panics");
            let now = Heard { number, at: self.clock.now().mono, silent: false };
            match heard.insert(process.to_owned(), now) {
                // What was stored is one tick further than what was before it; all else repeats the last number.
                Some(before) => {
                    let is_stored = matches!(news, Some((_, News::Stored { .. })));
                    (before.silent, !before.silent && number == before.number + u64::from(is_stored))
                }
                None => (false, false),
            }
        };
        if ours {
            // After a time in which we heard nobody.
            if was_silent {
                self.doubt_all();
            }
            return;
        }
        self.others_heard.store(true, Ordering::SeqCst);
        if !in_order {
            self.doubt_all();
        }
        if let Some((key, news)) = news {
            on_news(key, news);
        }
    }

    /// Who was silent for too long may have stored something that was not heard of; if it is ourselves, we hear nobody.
    /// Whether that is so.
    fn look_for_silence(self: &Arc<Self>) -> bool {
        let now = self.clock.now().mono;
        let mut heard = self.heard.lock().expect("no holder panics");
        let mut doubt = false;
        for other in heard.values_mut() {
            if !other.silent && now.saturating_duration_since(other.at) > TICK_SILENCE_MAX {
                other.silent = true;
                doubt = true;
            }
        }
        heard.retain(|process, other| {
            *process == self.process || now.saturating_duration_since(other.at) < TICK_SILENCE_MAX * 20
        });
        // Deaf: nothing is certain for longer than one beat. Who waits looks when we hear again.
        let deaf = heard.get(&self.process).is_none_or(|own| own.silent);
        let others = heard.keys().any(|process| *process != self.process);
        drop(heard);
        self.others_heard.store(others, Ordering::SeqCst);
        if deaf {
            self.epoch.fetch_add(1, Ordering::SeqCst);
        } else if doubt {
            self.doubt_all();
        }
        deaf
    }
}

/// `number`, or `number topic-id partition next-offset sequence`, with the log start behind it where that has moved, or
/// `number topic-id partition wanted`.
fn parse(payload: &[u8]) -> Option<(u64, Option<(PartitionKey, News)>)> {
    let text = std::str::from_utf8(payload).ok()?;
    let mut words = text.split(' ');
    let number = words.next()?.parse().ok()?;
    let Some(topic_id) = words.next() else {
        return Some((number, None));
    };
    let key = (Uuid::parse(topic_id)?, words.next()?.parse().ok()?);
    let word = words.next()?;
    if word == WANTED {
        return Some((number, Some((key, News::Wanted))));
    }
    let next_offset = word.parse().ok()?;
    let sequence = Sequence(words.next()?.parse().ok()?);
    let log_start = words.next().and_then(|word| word.parse().ok());
    Some((number, Some((key, News::Stored { next_offset, sequence, log_start }))))
}
