//! `/v1/stream/records?topic=&partition=&offset=&count=`: one partition's records, inflated, for people to look at.
//!
//! Bounded in number and in bytes; what is cut off says so. Content is given as text where it is legible UTF-8,
//! otherwise as hex.

use super::topics::find;
use super::{Pages, Refusal};
use crate::limits::{
    BROWSED_BYTES_MAX, BROWSED_FIELD_BYTES_MAX, BROWSED_HEADERS_MAX, BROWSED_INFLATED_BYTES_MAX,
    BROWSED_NAME_BYTES_MAX, BROWSED_READ_BYTES, BROWSED_READS_MAX, BROWSED_RECORDS_MAX,
};
use crate::records::batch::{BatchHeader, walk};
use crate::records::record::{Record, RecordFault, inflated, records};
use rouille::Request;
use serde_json::{Value, json};
use std::fmt::Write;
use std::str::FromStr;

/// How many records are shown unless the request says.
const COUNT_DEFAULT: usize = 20;

pub(super) fn tell(pages: &Pages, request: &Request) -> Result<Value, Refusal> {
    check_host(request)?;
    let deadline = pages.deadline();
    let Some(name) = request.get_param("topic") else {
        return Err(Refusal::Bad("name a topic: ?topic=NAME".to_owned()));
    };
    let partition: i32 = number(request, "partition")?.unwrap_or(0);
    let count = number(request, "count")?.unwrap_or(COUNT_DEFAULT).clamp(1, BROWSED_RECORDS_MAX);
    let topic = find(pages, &name)?;
    let unknown = || Refusal::Unknown(format!("topic {name:?} has no partition {partition}"));
    let log = pages.services.logs.partition(&topic, partition).ok_or_else(unknown)?;
    let view = log.exact_start(deadline)?;
    let newest = view.high_watermark.saturating_sub(i64::try_from(count).unwrap_or(i64::MAX));
    let from = number(request, "offset")?.unwrap_or(newest).clamp(view.log_start, view.high_watermark);
    let mut browsed = Browsed { from, count, bytes: 0, next: from, shown: Vec::new() };
    for _ in 0..BROWSED_READS_MAX {
        if browsed.is_full() || browsed.next >= view.high_watermark {
            break;
        }
        let read = log.read(browsed.next, BROWSED_READ_BYTES, true, deadline)?;
        if read.records.is_empty() {
            browsed.next = view.high_watermark;
        }
        for (header, batch) in read.records.iter().flat_map(|chain| walk(chain).flatten()) {
            browsed.take(&header, batch);
        }
    }
    Ok(json!({
        "topic": topic.name,
        "partition": partition,
        "log_start": view.log_start,
        "next_offset": view.high_watermark,
        "from": from,
        "continue_at": browsed.next,
        "records": browsed.shown,
    }))
}

/// A page elsewhere may have its name point here, and a browser on this machine would hand it what is read. So a browser
/// that came by way of loopback must have meant this machine.
fn check_host(request: &Request) -> Result<(), Refusal> {
    let Some(host) = request.header("Host").filter(|_| request.remote_addr().ip().is_loopback()) else {
        return Ok(());
    };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_local = name == "localhost" || name.ends_with(".localhost") || std::net::IpAddr::from_str(name).is_ok();
    if is_local { Ok(()) } else { Err(Refusal::Forbidden("records are shown under localhost or an address only")) }
}

fn number<T: FromStr>(request: &Request, name: &str) -> Result<Option<T>, Refusal> {
    let Some(text) = request.get_param(name).filter(|text| !text.is_empty()) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| Refusal::Bad(format!("{name}: {text:?} is no such number")))
}

struct Browsed {
    from: i64,
    count: usize,
    bytes: usize,
    /// Where the next read goes on.
    next: i64,
    shown: Vec<Value>,
}

impl Browsed {
    fn is_full(&self) -> bool {
        self.shown.len() >= self.count || self.bytes >= BROWSED_BYTES_MAX
    }

    /// Takes what is wanted of a batch; `next` is then behind the last record that was looked at.
    fn take(&mut self, header: &BatchHeader, batch: &[u8]) {
        if self.is_full() {
            return;
        }
        if let Err(fault) = self.take_records(header, batch) {
            self.shown.push(json!({ "offset": header.base_offset, "fault": fault.to_string() }));
        }
        if !self.is_full() {
            self.next = header.next_offset();
        }
    }

    fn take_records(&mut self, header: &BatchHeader, batch: &[u8]) -> Result<(), RecordFault> {
        let codec = header.compression()?;
        let inflated = inflated(batch, BROWSED_INFLATED_BYTES_MAX)?;
        for record in records(&inflated) {
            let record = record?;
            let offset = header.base_offset.saturating_add(i64::from(record.offset_delta));
            if offset < self.from {
                continue;
            }
            if self.is_full() {
                break;
            }
            self.next = offset.saturating_add(1);
            let time = match header.is_append_time() {
                true => header.max_timestamp,
                false => header.base_timestamp.saturating_add(record.timestamp_delta),
            };
            let mut told = self.content(&record);
            told["offset"] = json!(offset);
            told["timestamp"] = json!(time);
            told["timestamp_type"] = json!(if header.is_append_time() { "LogAppendTime" } else { "CreateTime" });
            told["compression"] = json!(format!("{codec:?}").to_lowercase());
            told["producer_id"] = json!(header.producer_id);
            told["control"] = json!(header.is_control());
            self.shown.push(told);
        }
        Ok(())
    }

    fn content(&mut self, record: &Record<'_>) -> Value {
        let headers: Vec<Value> = record
            .headers
            .clone()
            .take(BROWSED_HEADERS_MAX)
            .map(|(name, value)| {
                let name = &name[..name.len().min(BROWSED_NAME_BYTES_MAX)];
                json!({ "name": String::from_utf8_lossy(name), "value": self.field(value) })
            })
            .collect();
        json!({ "key": self.field(record.key), "value": self.field(record.value), "headers": headers })
    }

    fn field(&mut self, bytes: Option<&[u8]>) -> Value {
        let Some(bytes) = bytes else { return Value::Null };
        // One record is shown in any case, the others as far as there is room.
        let room = BROWSED_FIELD_BYTES_MAX.min(BROWSED_BYTES_MAX.saturating_sub(self.bytes).max(1024));
        let shown = &bytes[..bytes.len().min(room)];
        self.bytes += shown.len() + 32;
        let cut = shown.len() < bytes.len();
        let text = match std::str::from_utf8(shown) {
            Ok(text) => Some(text),
            // Cut in the middle of a character.
            Err(error) if cut && error.error_len().is_none() => std::str::from_utf8(&shown[..error.valid_up_to()]).ok(),
            Err(_) => None,
        };
        match text.filter(|text| is_legible(text)) {
            Some(text) => json!({ "size": bytes.len(), "cut": cut, "text": text }),
            None => json!({ "size": bytes.len(), "cut": cut, "hex": hex(shown) }),
        }
    }
}

/// Without control characters, which nobody could see.
fn is_legible(text: &str) -> bool {
    text.chars().all(|character| !character.is_control() || matches!(character, '\t' | '\n' | '\r'))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
