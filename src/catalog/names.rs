//! Topic names as stream names and subjects, one to one.
//!
//! Topic `a.b`, partition 3 is stream `kafka-a~b-3` with the one subject `kafka.a~b.3`. A name that would not fit into
//! JetStream's 255 bytes is written as its first bytes, `=` and a hash; `~` and `=` occur in no topic name.

use sha2::{Digest, Sha256};

/// Kafka's longest topic name, in bytes.
pub const NAME_BYTES_MAX: usize = 249;

/// What every partition subject matches.
pub const ALL_SUBJECTS: &str = "kafka.>";

/// Longest name that is written out: `kafka-`, the name, `-` and ten digits are at most 255 bytes.
const PLAIN_BYTES_MAX: usize = 238;

/// What is kept of a longer name in front of its hash, so that people still recognize it.
const PREFIX_BYTES: usize = 128;

/// What is wrong with a topic name, if anything is.
pub fn fault(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("A topic name must not be empty.".to_owned());
    }
    if name == "." || name == ".." {
        return Some(format!("'{name}' cannot be a topic name."));
    }
    if name.len() > NAME_BYTES_MAX {
        return Some(format!("The topic name is longer than {NAME_BYTES_MAX} characters."));
    }
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if !name.bytes().all(legal) {
        return Some(format!(
            "The topic name '{}' has characters other than ASCII letters and digits, '.', '_' and '-'.",
            name.escape_debug()
        ));
    }
    None
}

/// Kafka's own topics.
pub fn is_internal(name: &str) -> bool {
    matches!(name, "__consumer_offsets" | "__transaction_state" | "__share_group_state")
}

pub fn stream(name: &str, partition: usize) -> String {
    format!("kafka-{}-{partition}", stem(name))
}

pub fn subject(name: &str, partition: usize) -> String {
    format!("kafka.{}.{partition}", stem(name))
}

/// What the subjects of all partitions of a topic match.
pub fn topic_subjects(name: &str) -> String {
    format!("kafka.{}.*", stem(name))
}

/// The stem and the partition of a stream whose name and subject both fit the pattern and each other.
pub fn parse<'a>(stream: &'a str, subject: &str) -> Option<(&'a str, usize)> {
    let (stem, partition) = parse_stream(stream)?;
    (subject == format!("kafka.{stem}.{partition}")).then_some((stem, partition))
}

/// The stem and the partition of a stream name that fits the pattern.
pub fn parse_stream(stream: &str) -> Option<(&str, usize)> {
    let (stem, digits) = stream.strip_prefix("kafka-")?.rsplit_once('-')?;
    let partition = digits.parse::<u32>().ok().filter(|n| n.to_string() == digits)?;
    Some((stem, usize::try_from(partition).ok()?))
}

/// The topic whose stem this is; `None` if only metadata can tell, or if no topic has it.
pub fn of_stem(stem: &str) -> Option<String> {
    let name = stem.replace('~', ".");
    (fault(&name).is_none() && self::stem(&name) == stem).then_some(name)
}

/// The topic's part of its streams' names and subjects.
pub fn stem(name: &str) -> String {
    let plain = name.replace('.', "~");
    if plain.len() <= PLAIN_BYTES_MAX {
        return plain;
    }
    let prefix: String = plain.chars().take(PREFIX_BYTES).collect();
    let hash: String = Sha256::digest(name).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{prefix}={hash}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_judged_as_kafka_does() {
        for good in ["a", "a.b", "A_b-9", "...", "-", "x".repeat(249).as_str()] {
            assert_eq!(fault(good), None, "{good}");
        }
        for bad in ["", ".", "..", "a/b", " a", "a b", "a*", "a>", "a~b", "a=b", "ü", "a\r\nPUB x", &"x".repeat(250)] {
            assert!(fault(bad).is_some(), "{bad:?}");
        }
    }

    #[test]
    fn look_alike_names_never_share_a_stream() {
        let long = "x".repeat(248);
        let mut names: Vec<String> = [
            "a.b", "a_b", "a-b", "A.B", "a", "a-0", "a-0-0", "a.0", "a-00", "-", "--", "a-", "-a", "...", ".a", "a..b",
            "0", "a.b-1", "a-1.b",
        ]
        .map(str::to_owned)
        .to_vec();
        for last in ["0", "1", ".", "-"] {
            names.push(format!("{long}{last}"));
            names.push(format!("{}{last}", long.replace('x', ".")));
        }
        names.extend((230..249).map(|length| "y".repeat(length)));
        let mut streams = HashSet::new();
        for name in &names {
            for partition in [0, 1, 10, 4_294_967_295] {
                let stream = stream(name, partition);
                assert!(stream.len() <= 255 && !stream.contains(['.', '*', '>', '/', '\\', ' ']), "{stream}");
                let parsed = parse(&stream, &subject(name, partition));
                assert_eq!(parsed, Some((stem(name).as_str(), partition)));
                assert!(streams.insert(stream), "{name} shares a stream");
            }
            if name.len() <= PLAIN_BYTES_MAX {
                assert_eq!(of_stem(&stem(name)).as_ref(), Some(name));
            } else {
                assert_eq!(of_stem(&stem(name)), None, "only metadata can tell a hashed name");
            }
        }
    }

    #[test]
    fn foreign_streams_are_left_alone() {
        for (stream, subject) in [
            ("kafka-x-1abc", "kafka.x.1abc"),
            ("kafka-x-01", "kafka.x.01"),
            ("kafka-x-1", "kafka.x.2"),
            ("kafka-x-1", "kafka.x.>"),
            ("kafka-x-1", "orders.x.1"),
            ("kafka-x", "kafka.x"),
            ("kafkax-1", "kafka.x.1"),
            ("kafka-x-+1", "kafka.x.+1"),
            ("kafka-x-4294967296", "kafka.x.4294967296"),
        ] {
            assert_eq!(parse(stream, subject), None, "{stream}");
        }
        for stem in ["a b", "a.b", "", "~", "~~", "ü"] {
            assert_eq!(of_stem(stem), None, "{stem:?}");
        }
    }
}
