//! `/v1/stream/topics[?topic=]`: topics and partitions, where they are stored, and what they hold.
//!
//! All topics cost the store one listing of streams and, where logs are not in memory, one of end entries; no log is
//! loaded, so a bound may be a lower one: `log_start_exact` and `next_offset_exact` say so. Of one topic that is asked for
//! by name, what is uncertain is looked at.

use super::{Pages, Refusal};
use crate::catalog::{Topic, names};
use crate::cluster::{Broker, Cluster};
use crate::log::{Bounds, Surveyed};
use crate::store::{Sequence, StoreError, StoreResult, StreamInfo};
use rouille::Request;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// The metadata key of the sequence at which a partition's stream began.
const FIRST: &str = "kafka.first";

/// Partitions with their streams and bounds.
pub(super) struct Survey {
    pub rows: Vec<Row>,
}

pub(super) struct Row {
    pub topic: Arc<Topic>,
    pub partition: i32,
    /// `None`: the stream was not among those listed.
    pub stream: Option<StreamInfo>,
    pub bounds: Bounds,
}

pub(super) fn tell(pages: &Pages, request: &Request) -> Result<Value, Refusal> {
    let deadline = pages.deadline();
    let asked = request.get_param("topic");
    let topics = match &asked {
        Some(name) => vec![find(pages, name)?],
        None => pages.services.catalog.topics()?,
    };
    let mut survey = Survey::of(pages, &topics, deadline)?;
    if asked.is_some() {
        survey.make_exact(pages, deadline)?;
    }
    let mut rows = survey.rows.iter().peekable();
    let brokers = pages.services.cluster.brokers();
    let mut told = Vec::with_capacity(topics.len());
    for topic in &topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        let (mut messages, mut bytes) = (0, 0);
        while let Some(row) = rows.next_if(|row| row.topic.id == topic.id) {
            let state = row.stream.as_ref().map(|stream| &stream.state);
            messages += state.map_or(0, |state| state.messages);
            bytes += state.map_or(0, |state| state.bytes);
            partitions.push(partition(row, &brokers));
        }
        told.push(json!({
            "topic": topic.name,
            "id": topic.id.to_string(),
            "internal": names::is_internal(&topic.name),
            "settings": topic.settings.given,
            "messages": messages,
            "bytes": bytes,
            "partitions": partitions,
        }));
    }
    Ok(json!({ "topics": told }))
}

/// The topic of that name.
pub(super) fn find(pages: &Pages, name: &str) -> Result<Arc<Topic>, Refusal> {
    pages.services.catalog.topic(name)?.ok_or_else(|| Refusal::Unknown(format!("there is no topic {name:?}")))
}

fn partition(row: &Row, brokers: &[Broker]) -> Value {
    let index = usize::try_from(row.partition).unwrap_or(0);
    let place = &row.topic.partitions[index];
    let state = row.stream.as_ref().map(|stream| stream.state.clone()).unwrap_or_default();
    json!({
        "partition": row.partition,
        "leader": Cluster::leader(brokers, row.topic.id, row.partition),
        "log_start": row.bounds.log_start,
        "log_start_exact": row.bounds.start_is_exact,
        "next_offset": row.bounds.next_offset,
        "next_offset_exact": row.bounds.next_is_exact,
        "messages": state.messages,
        "bytes": state.bytes,
        "stream": place.stream,
        "stream_found": row.stream.is_some(),
        "stream_leader": row.stream.as_ref().map_or("", |stream| stream.leader.as_str()),
        "subject": place.subject,
        "replicas": place.replicas,
        "first_sequence": state.first.0,
        "last_sequence": state.last.0,
    })
}

impl Survey {
    /// All partitions of `topics`, in their order.
    pub fn of(pages: &Pages, topics: &[Arc<Topic>], deadline: Instant) -> StoreResult<Survey> {
        let mut streams = streams_of(pages, topics, deadline)?;
        let mut rows = Vec::new();
        for topic in topics {
            for (partition, place) in (0..).zip(&topic.partitions) {
                let stream = streams.remove(&place.stream);
                rows.push(Row { topic: topic.clone(), partition, stream, bounds: Bounds::default() });
            }
        }
        let born = |stream: &StreamInfo| stream.metadata(FIRST).and_then(|first| first.parse().ok()).map(Sequence);
        let found = || rows.iter().filter_map(|row| row.stream.as_ref().map(|stream| (row, stream)));
        let asked: Vec<Surveyed<'_>> = found()
            .map(|(row, stream)| Surveyed {
                topic: &row.topic,
                partition: row.partition,
                state: &stream.state,
                born: born(stream),
            })
            .collect();
        let mut told = pages.services.logs.survey(&asked, deadline)?.into_iter();
        for row in rows.iter_mut().filter(|row| row.stream.is_some()) {
            row.bounds = told.next().expect("one for each that was asked");
        }
        Ok(Survey { rows })
    }

    /// Looks at what is uncertain, one log after the other, as far as the time goes.
    pub fn make_exact(&mut self, pages: &Pages, deadline: Instant) -> Result<(), Refusal> {
        for row in &mut self.rows {
            if row.stream.is_none() || (row.bounds.next_is_exact && row.bounds.start_is_exact) {
                continue;
            }
            if pages.services.clock.now().mono >= deadline {
                break;
            }
            let Some(log) = pages.services.logs.partition(&row.topic, row.partition) else { continue };
            let view = log.exact_start(deadline)?;
            row.bounds = Bounds {
                log_start: view.log_start,
                start_is_exact: true,
                next_offset: view.high_watermark,
                next_is_exact: true,
            };
        }
        Ok(())
    }
}

/// The streams of these topics, by name: of a few topics listed one by one, of more all at once.
fn streams_of(pages: &Pages, topics: &[Arc<Topic>], deadline: Instant) -> StoreResult<HashMap<String, StreamInfo>> {
    const LISTED_SINGLY_MAX: usize = 4;
    let store = &pages.services.store;
    let mut listed = Vec::new();
    if topics.len() <= LISTED_SINGLY_MAX {
        for topic in topics {
            listed.extend(store.stream_list(&names::topic_subjects(&topic.name), deadline)?.streams);
        }
    } else {
        listed = store.stream_list(names::ALL_SUBJECTS, deadline)?.streams;
    }
    if pages.services.clock.now().mono >= deadline {
        return Err(StoreError::NoAnswer);
    }
    Ok(listed.into_iter().map(|stream| (stream.name.clone(), stream)).collect())
}
