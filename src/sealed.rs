//! The values of our KV buckets: one JSON object, then a blank and its CRC-32 (IEEE) in hex.

use bytes::Bytes;
use serde_json::Value;

/// `{"offset":7} 1a2b3c4d`.
pub fn seal(value: &Value) -> Bytes {
    let text = value.to_string();
    Bytes::from(format!("{text} {:08x}", crc32fast::hash(text.as_bytes())))
}

/// The object of a sealed value; `None` if it is damaged or not ours.
pub fn open(bytes: &[u8]) -> Option<Value> {
    let at = bytes.len().checked_sub(9)?;
    let (text, seal) = bytes.split_at_checked(at)?;
    let sum = std::str::from_utf8(seal).ok()?.strip_prefix(' ')?;
    if u32::from_str_radix(sum, 16).ok()? != crc32fast::hash(text) {
        return None;
    }
    serde_json::from_slice(text).ok().filter(Value::is_object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn any_damage_is_seen() {
        let sealed = seal(&json!({"offset": 8_872_783_363_889_192_000_i64, "metadata": "ü"}));
        assert_eq!(open(&sealed).and_then(|v| v["offset"].as_i64()), Some(8_872_783_363_889_192_000));
        for at in 0..sealed.len() {
            let mut damaged = sealed.to_vec();
            damaged[at] ^= 1;
            assert_eq!(open(&damaged), None, "byte {at}");
            assert_eq!(open(&sealed[..at]), None, "cut at {at}");
        }
    }
}
