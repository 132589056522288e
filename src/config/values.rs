//! How single values are written: durations, sizes, ports, addresses.

use super::{Limit, LogFormat};
use std::str::FromStr;
use std::time::Duration;

const TIME_UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

const SIZE_UNITS: [(&str, i64); 6] =
    [("", 1), ("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

const TIME_CURE: &str = "a time is written like 168h, 30s, 500ms or 1h30m";
const SIZE_CURE: &str = "a size is written plain or like 64KiB, 256MiB, 10GiB";

/// `168h`, `30s`, `500ms`, `1h30m`; a bare number only if it is 0.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    match milliseconds(text) {
        Some(ms) => Ok(Duration::from_millis(ms)),
        None => Err(format!("`{text}` is no time; {TIME_CURE}")),
    }
}

fn milliseconds(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let mut rest = text;
    let mut sum = 0u64;
    while !rest.is_empty() {
        let (number, after) = leading_number(rest)?;
        let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(end)?;
        let (_, factor) = TIME_UNITS.iter().find(|(name, _)| *name == unit)?;
        sum = sum.checked_add(number.checked_mul(*factor)?)?;
        rest = after;
    }
    (!text.is_empty()).then_some(sum)
}

fn leading_number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    Some((digits.parse().ok()?, rest))
}

/// A time in milliseconds; `None` for zero, which takes the default; negative lifts the limit.
pub(super) fn limit_duration(text: &str) -> Result<Option<Limit>, String> {
    if let Some(positive) = text.strip_prefix('-') {
        let good = positive.parse::<u64>().is_ok() || milliseconds(positive).is_some();
        return if good { Ok(Some(Limit::None)) } else { Err(format!("-1 lifts the limit; {TIME_CURE}")) };
    }
    match milliseconds(text).and_then(|ms| i64::try_from(ms).ok()) {
        Some(0) => Ok(None),
        Some(ms) => Ok(Some(Limit::At(ms))),
        None => Err(TIME_CURE.to_owned()),
    }
}

/// A size in bytes; `None` for zero, which takes the default; negative lifts the limit.
pub(super) fn limit_bytes(text: &str) -> Result<Option<Limit>, String> {
    match size(text) {
        Some(0) => Ok(None),
        Some(bytes) if bytes < 0 => Ok(Some(Limit::None)),
        Some(bytes) => Ok(Some(Limit::At(bytes))),
        None => Err(SIZE_CURE.to_owned()),
    }
}

fn size(text: &str) -> Option<i64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    let (_, factor) = SIZE_UNITS.iter().find(|(name, _)| *name == unit.trim())?;
    number.parse::<i64>().ok()?.checked_mul(*factor)
}

pub(super) fn port(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(format!("`{text}` is no port; 1 to 65535 are")),
    }
}

pub(super) fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is no number, or out of bounds"))
}

pub(super) fn on_or_off(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("`{text}` is neither true nor false"))
}

pub(super) fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "logfmt" => Ok(LogFormat::Logfmt),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("`{text}` is neither logfmt nor json")),
    }
}

pub(super) fn log_level(text: &str) -> Result<slog::Level, String> {
    text.parse().map_err(|()| format!("`{text}` is none of error, warn, info, debug, trace"))
}

/// `host:port`, `[v6]:port`, `host` or `[v6]`.
pub(super) fn host_port(text: &str, default_port: u16) -> Result<(String, u16), String> {
    let malformed = || "HOST:PORT is expected, an IPv6 address in brackets".to_owned();
    let (host, rest) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or_else(malformed)?,
        None => text.find(':').and_then(|colon| text.split_at_checked(colon)).unwrap_or((text, "")),
    };
    let port = match rest.strip_prefix(':') {
        Some(digits) => port(digits)?,
        None if rest.is_empty() => default_port,
        None => return Err(malformed()),
    };
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_') || c == ':' && text.starts_with('[');
    if host.is_empty() || !host.chars().all(good) {
        return Err(malformed());
    }
    Ok((host.to_owned(), port))
}

/// An address that stands for all addresses of the machine.
pub(super) fn is_wildcard(host: &str) -> bool {
    matches!(host, "" | "*" | "0" | "0.0.0.0" | "::" | "[::]" | "::0" | "0:0:0:0:0:0:0:0")
}

/// `nats://…`, or what becomes that with the scheme added.
pub(super) fn nats_url(text: &str) -> Result<String, String> {
    let text = text.trim();
    match text.split_once("://") {
        Some(("nats" | "tls", rest)) if !rest.is_empty() => Ok(text.to_owned()),
        None if !text.is_empty() => Ok(format!("nats://{text}")),
        _ => Err("a URL like nats://host:4222 is expected".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, ms) in [("0", 0), ("500ms", 500), ("30s", 30_000), ("168h", 604_800_000), ("7d", 604_800_000)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(duration("1h30m5s"), Ok(Duration::from_secs(5405)));
        for text in ["", "5", "h", "5 h", "-5s", "5S", "1h30", "99999999999999999999h", "18446744073709551615d", "5µs"]
        {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [("1", 1), ("268435456", 268_435_456), ("64KiB", 65_536), ("2 GiB", 2 << 30)] {
            assert_eq!(limit_bytes(text), Ok(Some(Limit::At(bytes))), "{text}");
        }
        assert_eq!(limit_bytes("0"), Ok(None));
        assert_eq!(limit_bytes("-1"), Ok(Some(Limit::None)));
        for text in ["", "MiB", "1.5MiB", "1MB", "1mib", "9223372036854775807KiB", "--1"] {
            assert!(limit_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses() {
        let at = |host: &str, port| Ok((host.to_owned(), port));
        assert_eq!(host_port("a.b-c:1", 9092), at("a.b-c", 1));
        assert_eq!(host_port("a", 9092), at("a", 9092));
        assert_eq!(host_port("[::1]:7", 9092), at("::1", 7));
        assert_eq!(host_port("[::1]", 9092), at("::1", 9092));
        for text in ["", ":1", "a:", "a:0", "a:65536", "[::1", "[::1]7", "::1", "a b:1", "a/b:1"] {
            assert!(host_port(text, 9092).is_err(), "{text}");
        }
    }
}
