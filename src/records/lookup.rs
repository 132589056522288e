//! Finds records by time inside a batch, for ListOffsets.

use super::batch::BatchHeader;
use super::record::{RecordFault, payload, scan};
use crate::limits::DECOMPRESSED_BYTES_MAX;
use std::ops::ControlFlow;

/// A record's place and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetAndTimestamp {
    pub offset: i64,
    pub timestamp: i64,
}

/// The first record of the batch that is not older than `timestamp`, if there is one. In an append-time batch all records
/// bear the same time, so it is the first record or none. The bytes are one batch, exactly.
pub fn first_at_or_after(batch: &[u8], timestamp: i64) -> Result<Option<OffsetAndTimestamp>, RecordFault> {
    let header = BatchHeader::parse(batch)?;
    if header.is_append_time() {
        return Ok(append_time_record(&header).filter(|record| record.timestamp >= timestamp));
    }
    each_record(&header, batch, |record| {
        if record.timestamp >= timestamp { ControlFlow::Break(record) } else { ControlFlow::Continue(()) }
    })
}

/// The first of the batch's newest records (ListOffsets -3, KIP-734); `None` where there are no records.
pub fn max_timestamp(batch: &[u8]) -> Result<Option<OffsetAndTimestamp>, RecordFault> {
    let header = BatchHeader::parse(batch)?;
    if header.is_append_time() {
        return Ok(append_time_record(&header));
    }
    let mut newest: Option<OffsetAndTimestamp> = None;
    each_record(&header, batch, |record| {
        if newest.is_none_or(|n| n.timestamp < record.timestamp) {
            newest = Some(record);
        }
        ControlFlow::<()>::Continue(())
    })?;
    Ok(newest)
}

fn append_time_record(header: &BatchHeader) -> Option<OffsetAndTimestamp> {
    (header.record_count > 0)
        .then_some(OffsetAndTimestamp { offset: header.base_offset, timestamp: header.max_timestamp })
}

fn each_record<B>(
    header: &BatchHeader,
    batch: &[u8],
    mut visit: impl FnMut(OffsetAndTimestamp) -> ControlFlow<B>,
) -> Result<Option<B>, RecordFault> {
    scan(header.compression()?, payload(batch), DECOMPRESSED_BYTES_MAX, |glance| {
        visit(OffsetAndTimestamp {
            offset: header.base_offset.saturating_add(i64::from(glance.offset_delta)),
            timestamp: header.base_timestamp.saturating_add(glance.timestamp_delta),
        })
    })
}
