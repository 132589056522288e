//! NATS header blocks: what may be sent, what it weighs, and a reading that forgives what the crate does not.

use crate::store::StoreError;

/// Bytes of the control line that the server reads; the rest of a line beside the subject stays below 200.
const SUBJECT_BYTES_MAX: usize = 3800;

/// The crate writes subjects and headers as they are: a line break in one would inject a command.
pub fn check_subject(subject: &str) -> Result<(), StoreError> {
    let legal = subject.len() <= SUBJECT_BYTES_MAX
        && subject.bytes().all(|b| b > b' ' && b != 0x7f)
        && subject.split('.').all(|token| !token.is_empty());
    if legal { Ok(()) } else { Err(refused(format!("illegal subject {subject:?}"))) }
}

pub fn check_headers(headers: &[(String, String)]) -> Result<(), StoreError> {
    for (name, value) in headers {
        let name_legal = !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic() && b != b':');
        let value_legal = !value.bytes().any(|b| matches!(b, b'\r' | b'\n' | 0));
        if !name_legal || !value_legal {
            return Err(refused(format!("illegal header {name:?}: {value:?}")));
        }
    }
    Ok(())
}

pub fn check_stream(stream: &str) -> Result<(), StoreError> {
    let legal = !stream.is_empty()
        && stream.len() <= 255
        && stream.bytes().all(|b| b > b' ' && b != 0x7f && !b".*>/\\".contains(&b));
    if legal { Ok(()) } else { Err(refused(format!("illegal stream name {stream:?}"))) }
}

fn refused(text: String) -> StoreError {
    StoreError::Refused { code: 0, text }
}

/// How many bytes the crate makes of these headers, at most; they count against max_payload.
pub fn bytes_of(headers: &[(String, String)]) -> usize {
    if headers.is_empty() {
        return 0;
    }
    let lines: usize = headers.iter().map(|(name, value)| name.len() + value.len() + ":\r\n".len()).sum();
    "NATS/1.0\r\n\r\n".len() + lines
}

/// A header block as the server stores it. A malformed block yields no headers.
pub fn parse(block: &[u8]) -> Vec<(String, String)> {
    let Some(lines) = lines(block) else { return Vec::new() };
    let mut headers: Vec<(String, String)> = Vec::new();
    for line in lines {
        if line.starts_with([' ', '\t'])
            && let Some((_, value)) = headers.last_mut()
        {
            value.push(' ');
            value.push_str(line.trim());
            continue;
        }
        match line.split_once(':') {
            Some((name, value)) => headers.push((name.trim().to_owned(), value.trim().to_owned())),
            None => return Vec::new(),
        }
    }
    headers
}

/// Whether the crate drops its connection when it meets this block in a message. Errs on the side of poison.
pub fn is_poison(block: &[u8]) -> bool {
    if block.is_empty() {
        return false;
    }
    match lines(block) {
        None => true,
        Some(mut lines) => lines.any(|line| !line.contains(':')),
    }
}

/// The lines that carry headers, or `None` if this is no header block.
fn lines(block: &[u8]) -> Option<impl Iterator<Item = &str>> {
    let text = std::str::from_utf8(block).ok()?;
    if !text.starts_with("NATS/1.0") {
        return None;
    }
    Some(text.lines().skip(1).filter(|line| !line.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_and_poison_is_seen() {
        let good = b"NATS/1.0\r\nA: 1\r\nB:two\r\n th:ree\r\nA: 2\r\n\r\n";
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(parse(good), [pair("A", "1"), pair("B", "two th:ree"), pair("A", "2")]);
        assert!(!is_poison(good));
        assert!(!is_poison(b""));
        for poison in [&b"NATS/1.0\r\nno colon\r\n\r\n"[..], b"NATS/1.0\r\nA: \xff\r\n\r\n", b"HTTP/1.1\r\n\r\n"] {
            assert!(is_poison(poison));
            assert!(parse(poison).is_empty());
        }
    }

    #[test]
    fn what_would_break_the_protocol_is_refused() {
        for subject in ["", "a b", "a\r\nPUB x 0", "a\0", "a..b", ".a", &"x".repeat(4000)] {
            assert!(check_subject(subject).is_err(), "{subject:?}");
        }
        assert!(check_subject("kafka.a~b.0").is_ok());
        for (name, value) in [("", "x"), ("a b", "x"), ("a:", "x"), ("a", "x\r\ny: z"), ("a", "\0")] {
            assert!(check_headers(&[(name.to_owned(), value.to_owned())]).is_err(), "{name:?} {value:?}");
        }
        assert!(check_headers(&[("Kafka-Writer".to_owned(), "ab cd-1".to_owned())]).is_ok());
        for stream in ["", "a.b", "a>", "a/b", "a b"] {
            assert!(check_stream(stream).is_err(), "{stream:?}");
        }
        assert!(check_stream("kafka-a~b-0").is_ok());
    }

    #[test]
    fn the_weight_is_what_the_crate_writes() {
        let headers = [("Ab".to_owned(), "c".to_owned()), ("D".to_owned(), "ef".to_owned())];
        assert_eq!(bytes_of(&headers), "NATS/1.0\r\nAb:c\r\nD:ef\r\n\r\n".len());
        assert_eq!(bytes_of(&[]), 0);
    }
}
