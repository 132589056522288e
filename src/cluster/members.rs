//! Which gateway processes are alive, as the leases in the store showed it. Pure: listings and time are handed in.
//!
//! No clock but our own is believed. A process is silent when a listing that began at least `LEASE_TTL` after we last saw
//! its lease renewed still shows the same revision: whatever it sent before had been acknowledged to it more than that
//! ago, and it stops believing in its lease a second earlier.

use super::{Broker, rendezvous};
use crate::limits::{LEASE_QUESTIONS_MAX, LEASE_TTL, LEASE_VIEW_MAX};
use crate::sealed;
use crate::store::{KvEntry, Sequence};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is known of a gateway process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Live,
    /// Its lease has run out or was given back: what it owned may be taken.
    Gone,
    /// The leases could not be read lately, or not since this process was first asked about. Not a reason to take anything.
    Unknown,
}

/// How long an answer to a question about a process without a lease holds. It may come back with a new one.
const QUESTION_VALID: Duration = Duration::from_secs(2);

/// What a lease says.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    pub broker: Broker,
    /// The operator chose the id.
    pub is_named: bool,
    /// When the process started, milliseconds since the epoch.
    pub started_ms: i64,
    /// It was given back.
    pub is_released: bool,
}

impl Member {
    pub fn to_value(&self) -> bytes::Bytes {
        sealed::seal(&json!({
            "node": self.broker.id,
            "host": self.broker.host,
            "port": self.broker.port,
            "named": self.is_named,
            "started_ms": self.started_ms,
            "released": self.is_released,
        }))
    }

    fn read(bytes: &[u8]) -> Option<Member> {
        let value: Value = sealed::open(bytes)?;
        Some(Member {
            broker: Broker {
                id: i32::try_from(value["node"].as_i64()?).ok()?,
                host: value["host"].as_str()?.to_owned(),
                port: u16::try_from(value["port"].as_u64()?).ok()?,
            },
            is_named: value["named"].as_bool()?,
            started_ms: value["started_ms"].as_i64()?,
            is_released: value["released"].as_bool()?,
        })
    }
}

struct Seen {
    revision: Sequence,
    /// By when we had seen this revision.
    observed: Instant,
    /// `None`: a lease that we cannot read. Its process lives, but is no broker.
    member: Option<Member>,
    is_silent: bool,
}

impl Seen {
    fn is_live(&self) -> bool {
        !self.is_silent && !self.member.as_ref().is_some_and(|member| member.is_released)
    }
}

/// The leases as last listed.
#[derive(Default)]
pub struct Members {
    seen: BTreeMap<String, Seen>,
    /// When the last listing began.
    listed: Option<Instant>,
    /// Processes without a lease that were asked about, and since when.
    questions: HashMap<String, Instant>,
    brokers: Arc<[Broker]>,
}

impl Members {
    /// Takes in a listing of all leases; whether somebody came or went.
    pub fn take_in(&mut self, listing: Vec<(String, KvEntry)>, began: Instant, ended: Instant) -> bool {
        let before = self.live();
        let mut listing: BTreeMap<String, KvEntry> = listing.into_iter().collect();
        self.seen.retain(|process, seen| {
            let expired = began.saturating_duration_since(seen.observed) >= LEASE_TTL;
            match listing.get(process) {
                Some(entry) if entry.revision != seen.revision => true,
                Some(_) => {
                    listing.remove(process);
                    seen.is_silent |= expired;
                    true
                }
                // Absence alone proves nothing of a process that was just seen: the server's clock may have jumped, or
                // somebody removed the bucket.
                None => {
                    seen.is_silent |= expired;
                    seen.is_live()
                }
            }
        });
        for (process, entry) in listing {
            let member = entry.value.as_deref().and_then(Member::read);
            let news = Seen { revision: entry.revision, observed: ended, member, is_silent: false };
            self.seen.insert(process, news);
        }
        self.listed = Some(began);
        let questions_since = began.checked_sub(QUESTION_VALID).unwrap_or(began);
        self.questions.retain(|_, asked| *asked >= questions_since);
        self.brokers = self.resolve().into();
        before != self.live()
    }

    /// What is known at `now`, from listings that began at `since` or later; and whether a new listing would tell more.
    pub fn standing(&mut self, process: &str, now: Instant, since: Instant) -> (Standing, bool) {
        let Some(listed) = self.listed.filter(|at| *at >= since && now.duration_since(*at) <= LEASE_VIEW_MAX) else {
            return (Standing::Unknown, false);
        };
        match self.seen.get(process) {
            Some(seen) if seen.is_live() => return (Standing::Live, false),
            Some(_) => return (Standing::Gone, false),
            None => {}
        }
        // It may have taken its lease, and what we were asked about, after the last listing.
        match self.questions.get(process) {
            Some(asked) if now.saturating_duration_since(*asked) <= QUESTION_VALID => match listed >= *asked {
                true => (Standing::Gone, false),
                false => (Standing::Unknown, true),
            },
            _ => {
                if self.questions.len() < LEASE_QUESTIONS_MAX {
                    self.questions.insert(process.to_owned(), now);
                }
                (Standing::Unknown, true)
            }
        }
    }

    /// When the next listing could find somebody silent who does not seem to renew any more.
    pub fn next_verdict(&self, now: Instant) -> Option<Instant> {
        let live = self.seen.values().filter(|seen| seen.is_live());
        live.map(|seen| seen.observed + LEASE_TTL).filter(|at| *at > now).min()
    }

    fn live(&self) -> Vec<String> {
        self.seen.iter().filter(|(_, seen)| seen.is_live()).map(|(process, _)| process.clone()).collect()
    }

    /// The live process that everybody would pick for `what`.
    pub fn preferred(&self, what: &str) -> Option<&str> {
        let live = self.seen.iter().filter(|(_, seen)| seen.is_live()).map(|(process, _)| process.as_str());
        rendezvous::pick(what.as_bytes(), live, |process| process.as_bytes().to_vec())
    }

    /// All live brokers, by id; the same from the same leases.
    pub fn brokers(&self) -> Arc<[Broker]> {
        self.brokers.clone()
    }

    /// The broker that a live process is told as.
    pub fn broker_of(&self, process: &str) -> Option<Broker> {
        let seen = self.seen.get(process).filter(|seen| seen.is_live())?;
        let own = &seen.member.as_ref()?.broker;
        self.brokers.iter().find(|broker| broker.is_at(own)).cloned()
    }

    /// One broker for each address and for each id. Where two claim the same, an id that the operator chose goes before one that was
    /// given, then the smaller id, then the address: all gateways decide alike.
    fn resolve(&self) -> Vec<Broker> {
        let live = self.seen.values().filter(|seen| seen.is_live()).filter_map(|seen| seen.member.as_ref());
        let mut claims: Vec<_> =
            live.map(|member| (!member.is_named, member.broker.id, &member.broker.host, member.broker.port)).collect();
        claims.sort();
        let mut brokers: Vec<Broker> = Vec::new();
        for (_, id, host, port) in claims {
            let broker = Broker { id, host: host.clone(), port };
            if !brokers.iter().any(|other| other.id == id || other.is_at(&broker)) {
                brokers.push(broker);
            }
        }
        brokers.sort_by_key(|broker| broker.id);
        brokers
    }
}
