//! KV buckets as the streams they are: made, read at the leader, listed.

use super::NatsStore;
use super::api::api_request;
use super::{header, json_of, read};
use crate::store::{KvBucket, KvEntry, Pick, StoreError, StoreResult, kv_entry};
use crossbeam_channel::bounded;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;

/// Leader reads under way for one list.
const WINDOW: usize = 64;

/// The window in which JetStream looks for message ids; must not exceed the age of a bucket's values.
const DUPLICATE_WINDOW_NS: u64 = 120_000_000_000;

impl NatsStore {
    pub(super) fn bucket_ensure(&self, bucket: &KvBucket, deadline: Instant) -> StoreResult<()> {
        let max_age_ns = bucket.max_age_ms.map_or(0, |ms| ms.saturating_mul(1_000_000));
        let duplicate_window = if max_age_ns == 0 { DUPLICATE_WINDOW_NS } else { max_age_ns.min(DUPLICATE_WINDOW_NS) };
        let config = json!({
            "name": format!("KV_{}", bucket.name),
            "subjects": [format!("$KV.{}.>", bucket.name)],
            "storage": "file",
            "retention": "limits",
            "num_replicas": bucket.replicas,
            "max_msgs_per_subject": 1,
            "max_msgs": -1,
            "max_bytes": -1,
            "max_msg_size": -1,
            "max_age": max_age_ns,
            "duplicate_window": duplicate_window,
            "discard": "new",
            "allow_rollup_hdrs": true,
            "deny_delete": true,
            "allow_direct": true,
        });
        match self.api_stream_create(&config, deadline) {
            Ok(_) | Err(StoreError::StreamExists) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn entry_get(&self, bucket: &str, key: &str, deadline: Instant) -> StoreResult<KvEntry> {
        let subject = format!("$KV.{bucket}.{key}");
        header::check_subject(&subject)?;
        let body = read::body_of(&Pick::LastOf(subject));
        match self.api(&format!("STREAM.MSG.GET.KV_{bucket}"), &body, deadline).and_then(read::stored_message) {
            Ok((message, _)) => Ok(kv_entry(message)),
            Err(StoreError::NoMessage) => Ok(KvEntry::default()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn entry_list(
        &self,
        bucket: &str,
        filter: &str,
        deadline: Instant,
    ) -> StoreResult<Vec<(String, KvEntry)>> {
        let prefix = format!("$KV.{bucket}.");
        let subjects = self.subjects_of(bucket, &format!("{prefix}{filter}"), deadline)?;
        let mut entries = Vec::with_capacity(subjects.len());
        let mut waiting = std::collections::VecDeque::new();
        let mut unsent = subjects.into_iter();
        loop {
            while waiting.len() < WINDOW {
                let Some(subject) = unsent.next() else { break };
                let body = read::body_of(&Pick::LastOf(subject.clone()));
                let request = api_request(&format!("STREAM.MSG.GET.KV_{bucket}"), &body);
                let (sender, receiver) = bounded(1);
                let done = Box::new(move |outcome| drop(sender.send(outcome)));
                self.control.begin(Arc::new(request), deadline, done);
                waiting.push_back((subject, receiver));
            }
            let Some((subject, receiver)) = waiting.pop_front() else { break };
            let outcome = receiver.recv_deadline(deadline).map_err(|_| StoreError::NoAnswer)?;
            match json_of(outcome).and_then(read::stored_message) {
                Ok((message, _)) => entries.push((subject, kv_entry(message))),
                // Expired since the subjects were listed.
                Err(StoreError::NoMessage) => {}
                Err(error) => return Err(error),
            }
        }
        entries.retain(|(_, entry)| entry.value.is_some());
        for (subject, _) in &mut entries {
            subject.drain(..prefix.len());
        }
        Ok(entries)
    }

    /// The bucket's subjects that match, sorted.
    fn subjects_of(&self, bucket: &str, filter: &str, deadline: Instant) -> StoreResult<Vec<String>> {
        header::check_subject(filter)?;
        let mut subjects = std::collections::BTreeSet::new();
        let mut offset = 0;
        loop {
            let body = json!({ "subjects_filter": filter, "offset": offset });
            let mut page = self.api(&format!("STREAM.INFO.KV_{bucket}"), &body, deadline)?;
            let Value::Object(listed) = page["state"]["subjects"].take() else { break };
            offset += listed.len() as u64;
            let is_last = listed.is_empty() || offset >= page["total"].as_u64().unwrap_or(0);
            subjects.extend(listed.into_iter().map(|(subject, _)| subject));
            if is_last {
                break;
            }
        }
        Ok(subjects.into_iter().collect())
    }
}
