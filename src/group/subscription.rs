//! The one thing the coordinator reads in a consumer's metadata: the topics of its subscription.

/// The topics of a `ConsumerProtocolSubscription`, whose first fields are the same in every version: version, topics.
/// `None` if the bytes are not one.
pub fn topics(metadata: &[u8]) -> Option<Vec<String>> {
    let mut rest = metadata;
    let version = i16::from_be_bytes(take(&mut rest, 2)?.try_into().ok()?);
    if version < 0 {
        return None;
    }
    let count = i32::from_be_bytes(take(&mut rest, 4)?.try_into().ok()?);
    let mut topics = Vec::new();
    for _ in 0..count {
        let length = i16::from_be_bytes(take(&mut rest, 2)?.try_into().ok()?);
        let name = take(&mut rest, usize::try_from(length).ok()?)?;
        topics.push(std::str::from_utf8(name).ok()?.to_owned());
    }
    Some(topics)
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_read_and_damage_is_seen() {
        let metadata = b"\0\x01\0\0\0\x02\0\x01a\0\x03b.c\xff\xff\xff\xff\0\0\0\0";
        assert_eq!(topics(metadata), Some(vec!["a".to_owned(), "b.c".to_owned()]));
        for cut in 0..14 {
            assert_eq!(topics(&metadata[..cut]), None, "cut at {cut}");
        }
        assert_eq!(topics(b"\0\0\x7f\xff\xff\xff"), None);
        assert_eq!(topics(b"\0\0\0\0\0\x01\xff\xff"), None);
        assert_eq!(topics(b"\xff\xff\0\0\0\0"), None);
    }
}
