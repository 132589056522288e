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

/// The first record of the batch at or after offset `from` that is not older than `timestamp`, if there is one. In an
/// append-time batch all records bear the same time, so it is the first of them or none. The bytes are one batch, exactly.
pub fn first_at_or_after(batch: &[u8], timestamp: i64, from: i64) -> Result<Option<OffsetAndTimestamp>, RecordFault> {
    let header = BatchHeader::parse(batch)?;
    if header.is_append_time() {
        return Ok(append_time_record(&header, from).filter(|record| record.timestamp >= timestamp));
    }
    each_record(&header, batch, |record| {
        let found = record.timestamp >= timestamp && record.offset >= from;
        if found { ControlFlow::Break(record) } else { ControlFlow::Continue(()) }
    })
}

/// The first of the newest records of the batch at or after offset `from` (ListOffsets -3, KIP-734); `None` where there are
/// none.
pub fn max_timestamp(batch: &[u8], from: i64) -> Result<Option<OffsetAndTimestamp>, RecordFault> {
    let header = BatchHeader::parse(batch)?;
    if header.is_append_time() {
        return Ok(append_time_record(&header, from));
    }
    let mut newest: Option<OffsetAndTimestamp> = None;
    each_record(&header, batch, |record| {
        if record.offset >= from && newest.is_none_or(|n| n.timestamp < record.timestamp) {
            newest = Some(record);
        }
        ControlFlow::<()>::Continue(())
    })?;
    Ok(newest)
}

fn append_time_record(header: &BatchHeader, from: i64) -> Option<OffsetAndTimestamp> {
    (header.record_count > 0 && header.last_offset() >= from)
        .then_some(OffsetAndTimestamp { offset: header.base_offset.max(from), timestamp: header.max_timestamp })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::batch::set_append_time;
    use crate::records::build::BatchBuilder;
    use crate::records::compression::Compression;

    fn batch(codec: Compression, timestamps: &[i64]) -> Vec<u8> {
        let start = BatchBuilder::new().compression(codec).base_offset(100);
        timestamps.iter().fold(start, |builder, at| builder.timestamp(*at).value("v")).build()
    }

    fn found(offset: i64, timestamp: i64) -> Result<Option<OffsetAndTimestamp>, RecordFault> {
        Ok(Some(OffsetAndTimestamp { offset, timestamp }))
    }

    #[test]
    fn the_exact_record_is_found_in_every_codec() {
        for codec in Compression::ALL {
            let batch = batch(codec, &[50, 40, 70, 70, 60]);
            assert_eq!(first_at_or_after(&batch, i64::MIN, 0), found(100, 50));
            assert_eq!(first_at_or_after(&batch, 50, 0), found(100, 50));
            assert_eq!(first_at_or_after(&batch, 51, 0), found(102, 70));
            assert_eq!(first_at_or_after(&batch, 71, 0), Ok(None));
            assert_eq!(first_at_or_after(&batch, 51, 103), found(103, 70), "what lies below is deleted");
            assert_eq!(first_at_or_after(&batch, 51, 105), Ok(None));
            assert_eq!(max_timestamp(&batch, 0), found(102, 70));
            assert_eq!(max_timestamp(&batch, 104), found(104, 60));
        }
    }

    #[test]
    fn append_time_is_every_records_time() {
        let mut batch = batch(Compression::Gzip, &[50, 40, 70]);
        set_append_time(&mut batch, 65);
        assert_eq!(first_at_or_after(&batch, 65, 0), found(100, 65));
        assert_eq!(first_at_or_after(&batch, 66, 0), Ok(None));
        assert_eq!(first_at_or_after(&batch, 65, 101), found(101, 65));
        assert_eq!(max_timestamp(&batch, 0), found(100, 65));
        assert_eq!(max_timestamp(&batch, 103), Ok(None));
    }

    #[test]
    fn nothing_is_found_where_nothing_is() {
        let empty = batch(Compression::None, &[]);
        assert_eq!(first_at_or_after(&empty, 0, 0), Ok(None));
        assert_eq!(max_timestamp(&empty, 0), Ok(None));
        assert!(first_at_or_after(b"not a batch", 0, 0).is_err());
    }
}
