//! DeleteTopics.
//!
//! Behavior:
//! - Names and ids are answered in the order of the request, one row each; what is asked for twice is not deleted.
//! - A deletion that was cut short (its time was up, the store did not answer) is finished by asking for it again, by name or by id;
//!   until then the topic counts as there to be deleted, and so does one that has lost a stream, by its name.
//! - Deleting releases everything that waits for the topic, and its committed offsets (see `Catalog::on_loss`).
//!
//! Version notes: up to 5 by name, from 6 on by name or id (KIP-516).

use super::errors::{delete_topic_error, for_admin};
use super::{Context, Outcome};
use crate::catalog::DeleteTopicError;
use crate::protocol::error_code::ErrorCode;
use crate::protocol::messages::delete_topics::{
    DeletableTopicResult, DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse,
};
use crate::wire::Uuid;
use std::collections::HashSet;
use std::time::{Duration, Instant};

const TIMEOUT_MIN: Duration = Duration::from_secs(1);
const TIMEOUT_MAX: Duration = Duration::from_secs(60);

type Refusal = (ErrorCode, String);

pub fn handle(cx: &Context, request: DeleteTopicsRequest) -> Outcome {
    let timeout = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let deadline = cx.now.mono + timeout.clamp(TIMEOUT_MIN, TIMEOUT_MAX);
    let named = |name: String| DeleteTopicState { name: Some(name), topic_id: Uuid::ZERO };
    let mut asked = request.topics;
    asked.extend(request.topic_names.into_iter().map(named));

    let mut once = HashSet::new();
    let twice: HashSet<_> = asked.iter().filter(|item| !once.insert(key(item))).map(key).collect();
    let mut answered = HashSet::new();
    let items: Vec<_> = asked.iter().filter(|item| answered.insert(key(item))).collect();
    let found: Vec<_> = items
        .iter()
        .map(|item| match twice.contains(&key(item)) {
            true => Err((ErrorCode::INVALID_REQUEST, "Duplicate topic name or id.".to_owned())),
            false => find(cx, item, deadline),
        })
        .collect();
    let mut ids = HashSet::new();
    let by_two_ways: HashSet<Uuid> = found.iter().flatten().map(|(_, id)| *id).filter(|id| !ids.insert(*id)).collect();

    let responses = items
        .into_iter()
        .zip(found)
        .map(|(item, found)| {
            let outcome = found.and_then(|(name, id)| match by_two_ways.contains(&id) {
                true => Err((ErrorCode::INVALID_REQUEST, "The topic is asked for by name and by id.".to_owned())),
                false => delete(cx, item, name, deadline),
            });
            result(item, outcome)
        })
        .collect();
    cx.reply(&DeleteTopicsResponse { responses, ..Default::default() })
}

fn key(item: &DeleteTopicState) -> (&Option<String>, Uuid) {
    (&item.name, item.topic_id)
}

/// A topic's name and id.
type Named = (String, Uuid);

fn find(cx: &Context, item: &DeleteTopicState, deadline: Instant) -> Result<Named, Refusal> {
    let catalog = &cx.services.catalog;
    let (found, missing) = match (&item.name, item.topic_id) {
        (None, Uuid::ZERO) => {
            let text = "Neither topic name nor id were specified.".to_owned();
            return Err((ErrorCode::INVALID_REQUEST, text));
        }
        (Some(name), Uuid::ZERO) => {
            let found = match cx.topic_by(name, deadline) {
                Ok(None) => catalog.deletable(name, deadline),
                found => found.map(|topic| topic.map(|topic| topic.id)),
            };
            (found.map(|id| Some((name.clone(), id?))), delete_topic_error(&DeleteTopicError::Unknown))
        }
        (None, id) => {
            let found = match cx.topic_by_id(&id) {
                Ok(None) => catalog.half_deleted_by_id(id, deadline),
                found => found.map(|topic| topic.map(|topic| topic.name.clone())),
            };
            (found.map(|name| Some((name?, id))), unknown_id())
        }
        (Some(_), _) => {
            let text = "You may not specify both topic name and topic id.".to_owned();
            return Err((ErrorCode::INVALID_REQUEST, text));
        }
    };
    found.map_err(|error| (for_admin(&error), error.to_string()))?.ok_or(missing)
}

fn unknown_id() -> Refusal {
    (ErrorCode::UNKNOWN_TOPIC_ID, "This server does not host this topic id.".to_owned())
}

fn delete(cx: &Context, item: &DeleteTopicState, name: String, deadline: Instant) -> Result<Named, Refusal> {
    // Who asked by name wants whatever has that name; who asked by id wants that one.
    let id = Some(item.topic_id).filter(|id| *id != Uuid::ZERO);
    match cx.services.catalog.delete(&name, id, deadline) {
        Ok(id) => Ok((name, id)),
        Err(DeleteTopicError::Unknown) if id.is_some() => Err(unknown_id()),
        Err(error) => Err(delete_topic_error(&error)),
    }
}

fn result(item: &DeleteTopicState, outcome: Result<Named, Refusal>) -> DeletableTopicResult {
    match outcome {
        Ok((name, topic_id)) => DeletableTopicResult { name: Some(name), topic_id, ..Default::default() },
        Err((code, text)) => DeletableTopicResult {
            name: item.name.clone(),
            topic_id: item.topic_id,
            error_code: code.code(),
            error_message: Some(text),
        },
    }
}
