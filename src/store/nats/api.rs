//! The JetStream API as JSON: streams, their messages, and what its error codes mean to the gateway.

use super::link::Request;
use super::{NatsStore, header, json_of};
use crate::store::{Sequence, Storage, StoreError, StoreResult, StreamInfo, StreamListing, StreamState};
use bytes::Bytes;
use crossbeam_channel::bounded;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pages of a list that are asked for; far more than a cluster can hold, so that a list that never ends does end.
const PAGES_MAX: u64 = 10_000;

/// How long a reader waits to learn the API level, and how often it is asked for in vain.
const LEVEL_PATIENCE: Duration = Duration::from_millis(250);
const LEVEL_ASKED_EVERY: Duration = Duration::from_secs(1);

/// The server's API level.
#[derive(Default)]
pub(super) struct Level {
    pub number: u32,
    /// The control connection it was asked on.
    connection: Option<u64>,
    asked_at: Option<Instant>,
}

impl NatsStore {
    /// Asks `$JS.API.<subject>` on the control connection.
    pub(super) fn api(&self, subject: &str, body: &Value, deadline: Instant) -> StoreResult<Value> {
        json_of(self.control.request(api_request(subject, body), deadline))
    }

    /// The server's API level, asked once for each control connection. While nobody tells (a cluster without a leader),
    /// the last level that was known, or 0: what 2.10 can do, all can.
    pub(super) fn level(&self) -> u32 {
        let connection = self.control.connections();
        let now = Instant::now();
        {
            let mut level = self.level.lock().expect("no holder panics");
            let asked_lately = level.asked_at.is_some_and(|at| now < at + LEVEL_ASKED_EVERY);
            if level.connection == Some(connection) || asked_lately {
                return level.number;
            }
            level.asked_at = Some(now);
        }
        let _ = self.ask_level(now + LEVEL_PATIENCE);
        self.level.lock().expect("no holder panics").number
    }

    pub(super) fn ask_level(&self, deadline: Instant) -> StoreResult<()> {
        let connection = self.control.connections();
        let json = self.api("INFO", &Value::Null, deadline)?;
        let number = json["api"]["level"].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        let known = Level { number, connection: Some(connection), asked_at: None };
        *self.level.lock().expect("no holder panics") = known;
        Ok(())
    }

    pub(super) fn api_storage(&self, deadline: Instant) -> StoreResult<Storage> {
        let account = self.api("INFO", &Value::Null, deadline)?;
        let limit = account["limits"]["max_storage"].as_i64().filter(|bytes| *bytes > 0);
        Ok(Storage {
            used: account["storage"].as_u64().unwrap_or(0),
            reserved: account["reserved_storage"].as_u64().unwrap_or(0),
            limit: limit.and_then(|bytes| u64::try_from(bytes).ok()),
        })
    }

    pub(super) fn api_stream_create(&self, config: &Value, deadline: Instant) -> StoreResult<StreamInfo> {
        let name = config_name(config)?;
        stream_info(self.api(&format!("STREAM.CREATE.{name}"), config, deadline)?)
    }

    pub(super) fn api_stream_update(&self, config: &Value, deadline: Instant) -> StoreResult<StreamInfo> {
        let name = config_name(config)?;
        stream_info(self.api(&format!("STREAM.UPDATE.{name}"), config, deadline)?)
    }

    pub(super) fn api_stream_info(&self, stream: &str, deadline: Instant) -> StoreResult<StreamInfo> {
        header::check_stream(stream)?;
        stream_info(self.api(&format!("STREAM.INFO.{stream}"), &Value::Null, deadline)?)
    }

    pub(super) fn api_stream_delete(&self, stream: &str, deadline: Instant) -> StoreResult<()> {
        header::check_stream(stream)?;
        self.api(&format!("STREAM.DELETE.{stream}"), &Value::Null, deadline).map(drop)
    }

    pub(super) fn api_stream_purge(&self, stream: &str, below: Option<Sequence>, deadline: Instant) -> StoreResult<()> {
        header::check_stream(stream)?;
        let subject = format!("STREAM.PURGE.{stream}");
        let Some(below) = below else { return self.api(&subject, &Value::Null, deadline).map(drop) };
        // A sequence above the last one moves the stream's sequence: wanted on an empty stream, never on another.
        let state = self.api_stream_info(stream, deadline)?.state;
        let below = if state.messages > 0 { below.min(state.last.next()) } else { below };
        // Zero would mean all.
        if below <= Sequence(1) {
            return Ok(());
        }
        self.api(&subject, &json!({ "seq": below.0 }), deadline).map(drop)
    }

    pub(super) fn api_stream_list(&self, subject_filter: &str, deadline: Instant) -> StoreResult<StreamListing> {
        let mut listing = StreamListing::default();
        let first = self.api("STREAM.LIST", &page(subject_filter, 0), deadline)?;
        let total = first["total"].as_u64().unwrap_or(0);
        let listed = take_page(first, subject_filter, &mut listing)?;
        // Together: a server waits four seconds for each page with a stream that does not answer.
        let offsets = (1..PAGES_MAX).map(|number| number * listed).take_while(|offset| listed > 0 && *offset < total);
        let asked: Vec<_> = offsets
            .map(|offset| {
                let (sender, receiver) = bounded(1);
                let request = api_request("STREAM.LIST", &page(subject_filter, offset));
                self.control.begin(Arc::new(request), deadline, Box::new(move |outcome| drop(sender.send(outcome))));
                receiver
            })
            .collect();
        for receiver in asked {
            let outcome = receiver.recv_deadline(deadline).map_err(|_| StoreError::NoAnswer)?;
            take_page(json_of(outcome)?, subject_filter, &mut listing)?;
        }
        // Streams that came or went between two pages may stand twice.
        let StreamListing { streams, silent } = &mut listing;
        streams.sort_by(|a, b| a.name.cmp(&b.name));
        streams.dedup_by(|a, b| a.name == b.name);
        silent.retain(|name| streams.binary_search_by(|info| info.name.cmp(name)).is_err());
        silent.sort();
        silent.dedup();
        Ok(listing)
    }

    pub(super) fn api_message_delete(&self, stream: &str, at: Sequence, deadline: Instant) -> StoreResult<()> {
        header::check_stream(stream)?;
        let body = json!({ "seq": at.0, "no_erase": true });
        match self.api(&format!("STREAM.MSG.DELETE.{stream}"), &body, deadline) {
            Ok(_) => Ok(()),
            // The server puts the store's own words into this one.
            Err(StoreError::Refused { code: 10057, text }) if text.contains("no message found") => {
                Err(StoreError::NoMessage)
            }
            Err(error) => Err(error),
        }
    }
}

pub(super) fn api_request(subject: &str, body: &Value) -> Request {
    let payload = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    Request { subject: format!("$JS.API.{subject}"), headers: Vec::new(), payload }
}

fn page(subject_filter: &str, offset: u64) -> Value {
    json!({ "subject": subject_filter, "offset": offset })
}

/// Takes in one page of a list; how many streams it was about.
fn take_page(mut page: Value, subject_filter: &str, listing: &mut StreamListing) -> StoreResult<u64> {
    // A stream whose leader is away is missing, not gone.
    let missing = page["missing"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut count = 0;
    for name in missing {
        count += 1;
        listing.silent.push(name.to_owned());
    }
    let Value::Array(listed) = page["streams"].take() else { return Ok(count) };
    for info in listed {
        count += 1;
        let info = stream_info(info)?;
        if one_subject(&info.config).is_some_and(|subject| subject_matches(subject_filter, subject)) {
            listing.streams.push(info);
        }
    }
    Ok(count)
}

fn config_name(config: &Value) -> StoreResult<&str> {
    let name = config["name"].as_str().unwrap_or_default();
    header::check_stream(name).map(|()| name)
}

fn stream_info(mut json: Value) -> StoreResult<StreamInfo> {
    let config = json["config"].take();
    let Some(name) = config["name"].as_str().map(str::to_owned) else {
        return Err(StoreError::Garbled("stream information without a name".to_owned()));
    };
    let number = |field: &str| json["state"][field].as_u64().unwrap_or(0);
    let (messages, last) = (number("messages"), Sequence(number("last_seq")));
    let first = if messages == 0 { last.next() } else { Sequence(number("first_seq")) };
    let state = StreamState { messages, bytes: number("bytes"), first, last };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(StreamInfo { name, config, created: text(&json["created"]), state, leader: text(&json["cluster"]["leader"]) })
}

fn one_subject(config: &Value) -> Option<&str> {
    match config["subjects"].as_array()?.as_slice() {
        [subject] => subject.as_str(),
        _ => None,
    }
}

/// Whether every subject that `subject` stands for is matched by `filter`.
fn subject_matches(filter: &str, subject: &str) -> bool {
    let mut tokens = subject.split('.');
    for wanted in filter.split('.') {
        match (wanted, tokens.next()) {
            (">", Some(_)) => return true,
            ("*", Some(token)) if token != ">" => {}
            (wanted, Some(token)) if wanted == token => {}
            _ => return false,
        }
    }
    tokens.next().is_none()
}

/// What an `error` object of JetStream means.
pub(super) fn store_error(error: &Value) -> StoreError {
    let code = error["err_code"].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    let text = error["description"].as_str().unwrap_or_default().to_owned();
    match code {
        10059 => StoreError::NoStream,
        10037 | 10043 => StoreError::NoMessage,
        10058 => StoreError::StreamExists,
        10071 | 10164 => StoreError::WrongLast(number_at_end(&text).map(Sequence)),
        // No server for one of the replicas: for want of room, or of servers.
        10005 if !text.contains("storage") => StoreError::NoPeers(text),
        // Insufficient resources, storage, memory; limits of account, stream, placement.
        10002 | 10005 | 10023 | 10028 | 10047 | 10077 | 10122 => StoreError::NoSpace(text),
        // Cluster or stream without a leader, guard check busy, too many requests: it passes.
        10008 | 10009 | 10118 | 10163 | 10167 | 10194 => StoreError::Unavailable,
        // A server whose JetStream is about to stop, or has not started yet.
        _ if error["code"] == 503 => StoreError::Unavailable,
        code => StoreError::Refused { code, text },
    }
}

fn number_at_end(text: &str) -> Option<u64> {
    text.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_match_whole_subjects() {
        let cases = [
            ("kafka.>", "kafka.a.0", true),
            ("kafka.>", "kafka", false),
            ("kafka.>", "other.a", false),
            ("kafka.*.*", "kafka.a.0", true),
            ("kafka.*.*", "kafka.a.0.b", false),
            ("kafka.*", "kafka.>", false),
            ("kafka.>", "kafka.>", true),
            (">", "a", true),
        ];
        for (filter, subject, matches) in cases {
            assert_eq!(subject_matches(filter, subject), matches, "{filter} {subject}");
        }
    }

    #[test]
    fn what_is_not_served_now_passes() {
        let error = json!({ "code": 503, "err_code": 10039, "description": "JetStream not enabled for account" });
        assert_eq!(store_error(&error), StoreError::Unavailable);
        let error = json!({ "code": 400, "err_code": 10052, "description": "invalid" });
        assert!(matches!(store_error(&error), StoreError::Refused { code: 10052, .. }));
    }

    #[test]
    fn an_empty_stream_starts_after_its_last() {
        let json = json!({ "config": { "name": "s", "future": 1 }, "created": "c", "state": { "messages": 0, "first_seq": 0, "last_seq": 9 } });
        let info = stream_info(json).unwrap();
        assert_eq!((info.state.first, info.state.last), (Sequence(10), Sequence(9)));
        assert_eq!(info.config["future"], 1);
        assert!(stream_info(json!({})).is_err());
    }
}
