//! The asking side: who waits for which answer, and when the wait is over without one.

use super::envelope::{Assembly, Content, Part};
use super::{Answer, Done, Failure, Forwarder, Returned, Visit};
use crate::group::Standing;
use crate::limits::{FORWARD_SILENCE_MAX, FORWARD_TICK_EVERY, FORWARDED_BYTES_MAX, FORWARDED_MAX, GIVEN_UP_TOLD};
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::time::Instant;

/// 32 KiB: below every max_payload.
const TOKENS_PER_MESSAGE: usize = 4_096;

#[derive(Default)]
pub(super) struct Asks {
    open: HashMap<u64, Asked>,
    /// Bytes of all requests, and of the answers as far as they have come.
    bytes: usize,
    /// When each process was last heard.
    heard: HashMap<String, Instant>,
    /// Requests that are not waited for any more and were not answered, whom they were sent to, and since when.
    given_up: VecDeque<(String, u64, Instant)>,
}

struct Asked {
    to: String,
    at: Instant,
    bytes: usize,
    answer: Option<Assembly>,
    done: Done,
}

impl Asks {
    fn remove(&mut self, token: u64) -> Option<Asked> {
        let asked = self.open.remove(&token)?;
        self.bytes -= asked.bytes;
        Some(asked)
    }

    /// Removes what is not waited for any more, and remembers to say so.
    fn give_up(&mut self, token: u64, now: Instant) -> Option<Asked> {
        let asked = self.remove(token)?;
        if self.given_up.len() >= FORWARDED_MAX {
            self.given_up.pop_front();
        }
        self.given_up.push_back((asked.to.clone(), token, now));
        Some(asked)
    }
}

impl Forwarder {
    /// Sends a request to a process. `done` runs exactly once unless the ask is abandoned. Never blocks.
    pub fn ask(&self, to: &str, visit: &Visit, done: Done) -> u64 {
        let order = self.sending.lock().expect("no holder panics");
        let token = self.token();
        let whole = visit.encode();
        let bytes = whole.len();
        let Some(parts) = self.cut(token, whole) else {
            drop(order);
            done(Err(Failure::TooLarge));
            return token;
        };
        {
            let mut asks = self.asks.lock().expect("no holder panics");
            if asks.open.len() >= FORWARDED_MAX || asks.bytes + bytes > FORWARDED_BYTES_MAX {
                drop((asks, order));
                done(Err(Failure::Full));
                return token;
            }
            asks.bytes += bytes;
            let asked = Asked { to: to.to_owned(), at: self.clock.now().mono, bytes, answer: None, done };
            asks.open.insert(token, asked);
        }
        for part in parts {
            self.send(to, Content::Ask(part));
        }
        token
    }

    /// The client is gone: its answer is not waited for any more.
    pub fn abandon(&self, token: u64) {
        let asked = self.asks.lock().expect("no holder panics").give_up(token, self.clock.now().mono);
        if let Some(asked) = asked {
            self.send(&asked.to, Content::Abandoned(vec![token]));
        }
    }

    /// How many requests wait for other gateways.
    pub fn asks_open(&self) -> usize {
        self.asks.lock().expect("no holder panics").open.len()
    }

    pub(super) fn answer_came(&self, from: &str, part: Part) {
        let settled = {
            let mut asks = self.asks.lock().expect("no holder panics");
            asks.heard.insert(from.to_owned(), self.clock.now().mono);
            take_answer(&mut asks, from, part)
        };
        if let Some((asked, answer)) = settled {
            (asked.done)(answer);
        }
    }

    pub(super) fn unknown_came(&self, from: &str, tokens: &[u64]) {
        let lost: Vec<Asked> = {
            let mut asks = self.asks.lock().expect("no holder panics");
            asks.heard.insert(from.to_owned(), self.clock.now().mono);
            let known = |asks: &Asks, token: &u64| asks.open.get(token).is_some_and(|asked| asked.to == from);
            tokens.iter().filter_map(|token| if known(&asks, token) { asks.remove(*token) } else { None }).collect()
        };
        for asked in lost {
            (asked.done)(Err(Failure::Lost));
        }
    }

    /// Says what is waited for, and ends the waits that are hopeless.
    pub(super) fn tick_asks(&self) {
        let now = self.clock.now().mono;
        let asked: Vec<String> = {
            let asks = self.asks.lock().expect("no holder panics");
            let mut asked: Vec<String> = asks.open.values().map(|asked| asked.to.clone()).collect();
            asked.sort();
            asked.dedup();
            asked
        };
        let standings: HashMap<String, Standing> =
            asked.into_iter().map(|process| (process.clone(), self.leases.standing(&process))).collect();
        let mut waiting: HashMap<String, Vec<u64>> = HashMap::new();
        let mut given_up: HashMap<String, Vec<u64>> = HashMap::new();
        let mut failed = Vec::new();
        {
            let mut asks = self.asks.lock().expect("no holder panics");
            asks.heard.retain(|process, _| standings.contains_key(process));
            let mut hopeless = Vec::new();
            for (token, asked) in &asks.open {
                let sign = asks.heard.get(&asked.to).map_or(asked.at, |heard| asked.at.max(*heard));
                if standings.get(&asked.to) == Some(&Standing::Gone) {
                    hopeless.push((*token, Failure::Gone));
                } else if now.saturating_duration_since(sign) > FORWARD_SILENCE_MAX {
                    hopeless.push((*token, Failure::Silent));
                } else if now.saturating_duration_since(asked.at) >= FORWARD_TICK_EVERY {
                    waiting.entry(asked.to.clone()).or_default().push(*token);
                }
            }
            for (token, failure) in hopeless {
                failed.extend(asks.give_up(token, now).map(|asked| (asked, failure)));
            }
            asks.given_up.retain(|(_, _, since)| now.saturating_duration_since(*since) < GIVEN_UP_TOLD);
            for (process, token, _) in &asks.given_up {
                given_up.entry(process.clone()).or_default().push(*token);
            }
        }
        self.send_tokens(given_up, Content::Abandoned);
        self.send_tokens(waiting, Content::Waiting);
        for (asked, failure) in failed {
            (asked.done)(Err(failure));
        }
    }

    fn send_tokens(&self, to: HashMap<String, Vec<u64>>, content: fn(Vec<u64>) -> Content) {
        for (process, tokens) in to {
            for some in tokens.chunks(TOKENS_PER_MESSAGE) {
                self.send(&process, content(some.to_vec()));
            }
        }
    }
}

fn take_answer(asks: &mut Asks, from: &str, part: Part) -> Option<(Asked, Answer)> {
    let token = part.token;
    let is_over = asks.bytes + part.bytes.len() > FORWARDED_BYTES_MAX;
    let asked = asks.open.get_mut(&token).filter(|asked| asked.to == from)?;
    let answer = asked.answer.get_or_insert_with(|| Assembly::new(part.count));
    let before = answer.bytes;
    answer.put(part);
    let more = answer.bytes - before;
    let complete = answer.complete();
    asked.bytes += more;
    asks.bytes += more;
    let answer = match complete {
        Some(whole) => returned(&whole),
        // A large answer that finds no room is lost; one that is complete needs none.
        None if is_over => Err(Failure::Full),
        None => return None,
    };
    Some((asks.remove(token)?, answer))
}

fn returned(whole: &Bytes) -> Answer {
    match whole.first() {
        Some(1) => Ok(Returned { served: true, frame: whole.slice(1..) }),
        Some(0) => Ok(Returned { served: false, frame: whole.slice(1..) }),
        // The receiver had no room.
        Some(2) => Err(Failure::Full),
        _ => Err(Failure::Lost),
    }
}
