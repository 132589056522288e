//! The slog logger: logfmt or JSON lines on stderr, and a brake for lines that peers can cause.

use crate::config::LogFormat;
use slog::{Drain, KV, Key, Level, Logger, Never, OwnedKVList, Record, Serializer};
use std::fmt::{self, Write as _};
use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The process's logger. Lines below `level` cost nothing. Where stderr is the journal, each line begins with its priority
/// as sd-daemon(3) has it, which the journal takes off.
pub fn logger(format: LogFormat, level: Level) -> Logger {
    to_writer(format, level, is_journal(std::env::var("JOURNAL_STREAM").ok()), std::io::stderr())
}

/// Whether stderr is what `JOURNAL_STREAM` names by device and inode (systemd.exec(5)).
fn is_journal(stream: Option<String>) -> bool {
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;
    let stderr = std::io::stderr().as_fd().try_clone_to_owned().map(std::fs::File::from);
    let named = stderr.and_then(|file| file.metadata()).map(|meta| format!("{}:{}", meta.dev(), meta.ino()));
    stream.is_some_and(|stream| named.is_ok_and(|named| named == stream))
}

/// A logger for tests and embedders that want no lines.
pub fn discard() -> Logger {
    Logger::root(slog::Discard, slog::o!())
}

fn to_writer<W: Write + Send + 'static>(format: LogFormat, level: Level, journal: bool, writer: W) -> Logger {
    let drain = LineDrain { format, level, journal, writer: Mutex::new(writer) };
    Logger::root(drain, slog::o!())
}

/// Lets a line of one kind through at most once in an interval, and counts what it held back.
pub struct Brake {
    interval: Duration,
    /// When the last line went through, and how many were held back since.
    state: Mutex<(Option<Instant>, u64)>,
}

impl Brake {
    pub const fn new(interval: Duration) -> Self {
        Brake { interval, state: Mutex::new((None, 0)) }
    }

    /// `Some(held_back)` if a line may be written now.
    pub fn pass(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().expect("no holder panics");
        if state.0.is_some_and(|last| now.saturating_duration_since(last) < self.interval) {
            state.1 += 1;
            return None;
        }
        state.0 = Some(now);
        Some(std::mem::take(&mut state.1))
    }
}

struct LineDrain<W> {
    format: LogFormat,
    level: Level,
    journal: bool,
    /// Protects the order of whole lines.
    writer: Mutex<W>,
}

impl<W: Write + Send> Drain for LineDrain<W> {
    type Ok = ();
    type Err = Never;

    fn log(&self, record: &Record<'_>, values: &OwnedKVList) -> Result<(), Never> {
        if !record.level().is_at_least(self.level) {
            return Ok(());
        }
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut line = Line { format: self.format, pairs: Vec::new() };
        // slog gives the values of a line last to first; people want them as they were written.
        let _ = values.serialize(record, &mut line);
        let _ = record.kv().serialize(record, &mut line);
        line.text_pair("msg", &record.msg().to_string());
        line.text_pair("level", level_name(record.level()));
        line.text_pair("ts", &timestamp(since_epoch));
        line.pairs.reverse();
        let text = line.text(if self.journal { priority(record.level()) } else { "" });
        // A log that cannot be written must not stop the gateway.
        if let Ok(mut writer) = self.writer.lock() {
            let _ = writer.write_all(text.as_bytes());
        }
        Ok(())
    }

    fn is_enabled(&self, level: Level) -> bool {
        level.is_at_least(self.level)
    }
}

/// syslog's number of a level, as the journal reads it.
fn priority(level: Level) -> &'static str {
    match level {
        Level::Critical => "<2>",
        Level::Error => "<3>",
        Level::Warning => "<4>",
        Level::Info => "<6>",
        Level::Debug | Level::Trace => "<7>",
    }
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::Critical => "critical",
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Info => "info",
        Level::Debug => "debug",
        Level::Trace => "trace",
    }
}

struct Line {
    format: LogFormat,
    /// Each a key and its value.
    pairs: Vec<String>,
}

impl Line {
    fn text(&self, prefix: &str) -> String {
        match self.format {
            LogFormat::Json => format!("{prefix}{{{}}}\n", self.pairs.join(",")),
            LogFormat::Logfmt => format!("{prefix}{}\n", self.pairs.join(" ")),
        }
    }

    fn pair(&mut self, key: &str, value: &str) {
        self.pairs.push(match self.format {
            LogFormat::Json => format!("{}:{value}", quoted(key)),
            LogFormat::Logfmt => format!("{key}={value}"),
        });
    }

    fn text_pair(&mut self, key: &str, value: &str) {
        let plain = |c: char| !is_escaped(c) && !matches!(c, ' ' | '"' | '=' | '\\');
        if self.format == LogFormat::Logfmt && !value.is_empty() && value.chars().all(plain) {
            self.pair(key, value);
        } else {
            self.pair(key, &quoted(value));
        }
    }

    fn bare_pair(&mut self, key: &str, value: impl fmt::Display) {
        self.pair(key, &value.to_string());
    }
}

/// JSON's quoting, which logfmt readers take as well. Peers' text can neither begin a line nor move a terminal's cursor.
fn quoted(value: &str) -> String {
    let json = serde_json::Value::from(value).to_string();
    if !json.contains(is_escaped) {
        return json;
    }
    let mut text = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        if is_escaped(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(text, "\\u{unit:04x}");
            }
        } else {
            text.push(character);
        }
    }
    text
}

/// Control characters of both ranges, and what would reorder or break a line on screen.
fn is_escaped(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

impl Serializer for Line {
    fn emit_arguments(&mut self, key: Key, value: &fmt::Arguments<'_>) -> slog::Result {
        self.text_pair(key, &value.to_string());
        Ok(())
    }

    fn emit_str(&mut self, key: Key, value: &str) -> slog::Result {
        self.text_pair(key, value);
        Ok(())
    }

    fn emit_bool(&mut self, key: Key, value: bool) -> slog::Result {
        self.bare_pair(key, value);
        Ok(())
    }

    fn emit_i64(&mut self, key: Key, value: i64) -> slog::Result {
        self.bare_pair(key, value);
        Ok(())
    }

    fn emit_u64(&mut self, key: Key, value: u64) -> slog::Result {
        self.bare_pair(key, value);
        Ok(())
    }

    fn emit_i32(&mut self, key: Key, value: i32) -> slog::Result {
        self.bare_pair(key, value);
        Ok(())
    }

    fn emit_u32(&mut self, key: Key, value: u32) -> slog::Result {
        self.bare_pair(key, value);
        Ok(())
    }

    fn emit_usize(&mut self, key: Key, value: usize) -> slog::Result {
        self.bare_pair(key, value);
        Ok(())
    }
}

/// RFC 3339 in UTC with milliseconds; the calendar after Howard Hinnant's `civil_from_days`.
fn timestamp(since_epoch: Duration) -> String {
    let seconds = since_epoch.as_secs();
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", since_epoch.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no holder panics").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn lines(format: LogFormat) -> String {
        let kept = Kept::default();
        let logger = to_writer(format, Level::Info, false, kept.clone()).new(slog::o!("broker" => 1));
        slog::debug!(logger, "not seen");
        slog::warn!(logger, "a \"quoted\" line\nof two"; "topic" => "t-1", "left" => 7u64, "empty" => "");
        let bytes = kept.0.lock().expect("no holder panics").clone();
        String::from_utf8(bytes).expect("lines are UTF-8")
    }

    #[test]
    fn json_lines_parse_and_carry_all_values() {
        let text = lines(LogFormat::Json);
        assert_eq!(text.lines().count(), 1);
        let value: serde_json::Value = serde_json::from_str(&text).expect("one JSON object");
        assert_eq!(value["level"], "warning");
        assert_eq!(value["msg"], "a \"quoted\" line\nof two");
        assert_eq!((&value["topic"], &value["left"], &value["broker"]), (&"t-1".into(), &7.into(), &1.into()));
    }

    #[test]
    fn logfmt_keeps_one_line_and_quotes_what_needs_it() {
        let text = lines(LogFormat::Logfmt);
        assert_eq!(text.lines().count(), 1);
        assert!(text.contains(r#" level=warning msg="a \"quoted\" line\nof two""#), "{text}");
        assert!(text.contains(" topic=t-1") && text.contains(" left=7") && text.contains(r#" empty="""#), "{text}");
    }

    #[test]
    fn what_peers_send_stays_in_its_value() {
        let evil = "a\nts=0 level=info msg=forged\r\u{1b}[2J\u{9b}31m\u{7f}\u{2028}\u{202e}\u{feff}\0";
        for format in [LogFormat::Logfmt, LogFormat::Json] {
            let kept = Kept::default();
            slog::warn!(to_writer(format, Level::Info, false, kept.clone()), "x"; "client_id" => evil);
            let bytes = kept.0.lock().expect("no holder panics").clone();
            let text = String::from_utf8(bytes).expect("lines are UTF-8");
            let line = text.strip_suffix('\n').expect("a whole line");
            assert!(line.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{line:?}");
            let value = match format {
                LogFormat::Json => line.to_owned(),
                LogFormat::Logfmt => format!("{{\"client_id\":{}}}", line.split_once("client_id=").expect("the key").1),
            };
            let value: serde_json::Value = serde_json::from_str(&value).expect("one value, well quoted");
            assert_eq!(value["client_id"], evil, "nothing is lost");
        }
    }

    #[test]
    fn the_journal_gets_priorities() {
        let kept = Kept::default();
        let logger = to_writer(LogFormat::Json, Level::Info, true, kept.clone());
        slog::error!(logger, "bad");
        slog::info!(logger, "good");
        let bytes = kept.0.lock().expect("no holder panics").clone();
        let text = String::from_utf8(bytes).expect("lines are UTF-8");
        let starts: Vec<&str> = text.lines().map(|line| line.split_at(9).0).collect();
        assert_eq!(starts, ["<3>{\"ts\":", "<6>{\"ts\":"]);
        assert!(!is_journal(None) && !is_journal(Some("1:2".to_owned())));
    }

    #[test]
    fn timestamps_follow_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(timestamp(Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn a_brake_counts_what_it_holds_back() {
        let brake = Brake::new(Duration::from_secs(1));
        let start = Instant::now();
        assert_eq!(brake.pass(start), Some(0));
        assert_eq!(brake.pass(start), None);
        assert_eq!(brake.pass(start + Duration::from_millis(999)), None);
        assert_eq!(brake.pass(start + Duration::from_secs(1)), Some(2));
    }
}
