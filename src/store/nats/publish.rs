//! Publishing into streams: one attempt, its acknowledgement, and what a refusal means.

use super::link::Request;
use super::pending::Outcome;
use super::requester::Requester;
use super::{header, json_of};
use crate::store::{PubAck, Publish, PublishDone, Sequence, StoreError, StoreResult};
use std::sync::Arc;
use std::time::Instant;

/// Sends and returns at once; `done` never runs on this thread.
pub fn begin(requester: &Arc<Requester>, message: Publish, deadline: Instant, done: PublishDone) {
    match request_of(message) {
        Ok(request) => {
            let finish = move |outcome: Outcome| done(acknowledged(outcome));
            requester.begin(Arc::new(request), deadline, Box::new(finish));
        }
        Err(error) => requester.later(Instant::now(), Box::new(move || done(Err(error)))),
    }
}

fn request_of(message: Publish) -> StoreResult<Request> {
    let Publish { subject, mut headers, payload, expected_last, expected_last_on_subject } = message;
    header::check_subject(&subject)?;
    if let Some(last) = expected_last {
        headers.push((nats::header::NATS_EXPECTED_LAST_SEQUENCE.to_owned(), last.0.to_string()));
    }
    if let Some(last) = expected_last_on_subject {
        headers.push((nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE.to_owned(), last.0.to_string()));
    }
    header::check_headers(&headers)?;
    Ok(Request { subject, headers, payload })
}

fn acknowledged(outcome: Outcome) -> StoreResult<PubAck> {
    let json = json_of(outcome)?;
    let sequence =
        json["seq"].as_u64().ok_or_else(|| StoreError::Garbled("an acknowledgement without seq".to_owned()))?;
    Ok(PubAck {
        stream: json["stream"].as_str().unwrap_or_default().to_owned(),
        sequence: Sequence(sequence),
        duplicate: json["duplicate"].as_bool().unwrap_or(false),
    })
}

#[cfg(test)]
mod tests {
    use super::super::pending::{Lost, Reply};
    use super::*;

    #[track_caller]
    fn check(payload: &str, expected: StoreResult<PubAck>) {
        let reply = Reply { headers: None, payload: payload.as_bytes().to_vec() };
        assert_eq!(acknowledged(Ok(reply)), expected);
    }

    #[test]
    fn acknowledgements_and_refusals_are_told_apart() {
        let ack = |sequence, duplicate| Ok(PubAck { stream: "s".to_owned(), sequence: Sequence(sequence), duplicate });
        check(r#"{"stream":"s","seq":1000000000000000001}"#, ack(1_000_000_000_000_000_001, false));
        check(r#"{"stream":"s","seq":1,"duplicate":true}"#, ack(1, true));
        let wrong =
            r#"{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 7"},"stream":"s","seq":0}"#;
        check(wrong, Err(StoreError::WrongLast(Some(Sequence(7)))));
        let unnumbered = r#"{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"}}"#;
        check(unnumbered, Err(StoreError::WrongLast(None)));
        let full = r#"{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"}}"#;
        check(full, Err(StoreError::NoSpace("maximum bytes exceeded".to_owned())));
        let other = r#"{"error":{"code":400,"err_code":10060,"description":"no"}}"#;
        check(other, Err(StoreError::Refused { code: 10060, text: "no".to_owned() }));
        assert!(matches!(acknowledged(Err(Lost::TimedOut)), Err(StoreError::NoAnswer)));
        assert!(matches!(acknowledged(Err(Lost::NotConnected)), Err(StoreError::Unavailable)));
        let empty = Reply { headers: None, payload: b"{}".to_vec() };
        assert!(matches!(acknowledged(Ok(empty)), Err(StoreError::Garbled(_))));
    }
}
