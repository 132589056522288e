//! The message in a partition's stream that tells where its log begins, after records were deleted. It is no chain, so it
//! takes no offset, and gateways that do not know it step over it.

use crate::sealed;
use crate::wire::Uuid;
use bytes::Bytes;
use serde_json::json;

/// Longer messages are not looked into.
const BYTES_MAX: usize = 128;

const FIELD: &str = "kafka.log.start";

/// The topic by its id, as everywhere: a mark that comes late must not count for another topic of that name.
pub fn write(topic_id: Uuid, log_start: i64) -> Bytes {
    sealed::seal(&json!({ FIELD: log_start, "topic": topic_id.to_string() }))
}

/// The log start that a message tells of that topic; `None` for every other message.
pub fn read(topic_id: Uuid, payload: &[u8]) -> Option<i64> {
    if payload.len() > BYTES_MAX || !payload.starts_with(b"{") {
        return None;
    }
    let mark = sealed::open(payload)?;
    let ours = mark["topic"].as_str() == Some(topic_id.to_string().as_str());
    mark[FIELD].as_i64().filter(|start| ours && *start >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_reads_back_and_nothing_else_does() {
        let topic = Uuid([255; 16]);
        for log_start in [0, 1, 1 << 40, i64::MAX] {
            assert_eq!(read(topic, &write(topic, log_start)), Some(log_start));
            assert_eq!(read(Uuid([254; 16]), &write(topic, log_start)), None, "another topic's");
        }
        let mut damaged = write(topic, 77).to_vec();
        damaged[20] ^= 1;
        assert_eq!(read(topic, &damaged), None);
        assert_eq!(read(topic, b"{\"kafka.log.start\":7} 00000000"), None);
        assert_eq!(read(topic, b""), None);
        assert_eq!(read(topic, &[b'{'; 1000]), None);
    }
}
