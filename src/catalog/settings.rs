//! The settings a topic can be given: Kafka's names, types, defaults and bounds (Kafka 4, `LogConfig`).

mod table;

pub use table::SETTINGS;

use super::{CatalogDefaults, TopicSettings};
use crate::records::compression::{Compression, Packing};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// One topic setting.
pub struct Setting {
    pub name: &'static str,
    pub kind: Kind,
    /// Kafka's default; `default_value` knows those that depend on this gateway.
    pub(super) default: &'static str,
    /// The broker setting that is the default of this one, if Kafka names one.
    pub broker_name: Option<&'static str>,
    bounds: Bounds,
    pub documentation: &'static str,
}

/// The type of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Boolean,
    String,
    Int,
    Short,
    Long,
    Double,
    List,
    Class,
    Password,
}

impl Kind {
    /// The number by which DescribeConfigs tells this type.
    pub fn id(self) -> i8 {
        match self {
            Kind::Boolean => 1,
            Kind::String => 2,
            Kind::Int => 3,
            Kind::Short => 4,
            Kind::Long => 5,
            Kind::Double => 6,
            Kind::List => 7,
            Kind::Class => 8,
            Kind::Password => 9,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Boolean => "BOOLEAN",
            Kind::String => "STRING",
            Kind::Int => "INT",
            Kind::Short => "SHORT",
            Kind::Long => "LONG",
            Kind::Double => "DOUBLE",
            Kind::List => "LIST",
            Kind::Class => "CLASS",
            Kind::Password => "PASSWORD",
        }
    }
}

enum Bounds {
    Any,
    AtLeast(i64),
    Within(i64, i64),
    /// As `Within`, but for zero.
    WithinNotZero(i64, i64),
    Ratio,
    OneOf(&'static [&'static str]),
    EachOf(&'static [&'static str]),
    /// `*`, or pairs like `0:1`.
    Replicas,
}

/// The setting of that name.
pub fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

/// What is wrong with the settings given for a topic, if anything is: an unknown name, a value out of bounds, a conflict.
pub fn fault(given: &BTreeMap<String, String>) -> Option<String> {
    fault_after(&BTreeMap::new(), given)
}

/// As `fault`, for settings that stood as `before`: what is left as it was is not judged again. A newer gateway may have
/// written what is not known here.
pub fn fault_after(before: &BTreeMap<String, String>, given: &BTreeMap<String, String>) -> Option<String> {
    for (name, value) in given.iter().filter(|(name, value)| before.get(*name) != Some(*value)) {
        let Some(setting) = find(name) else {
            return Some(format!("Unknown topic config name: {name}"));
        };
        if let Some(fault) = setting.fault(value) {
            return Some(format!("Invalid value {value} for configuration {name}: {fault}"));
        }
    }
    let number = |name: &str, default: i64| given.get(name).and_then(|v| v.trim().parse().ok()).unwrap_or(default);
    let (min, max) = (number("min.compaction.lag.ms", 0), number("max.compaction.lag.ms", i64::MAX));
    if min > max {
        return Some(format!("min.compaction.lag.ms ({min}) is above max.compaction.lag.ms ({max})"));
    }
    if given.get("remote.storage.enable").is_some_and(|v| v.trim().eq_ignore_ascii_case("true")) {
        return Some("Tiered storage is not available here: remote.storage.enable must stay false".to_owned());
    }
    None
}

/// What is done to one setting (KIP-339).
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Set(String),
    /// Back to the default.
    Delete,
    /// Adds items to a list.
    Append(String),
    /// Takes items from a list.
    Subtract(String),
}

/// The settings after some changes, unchecked but for this: only lists are appended to and subtracted from.
pub fn altered(
    given: &BTreeMap<String, String>,
    changes: &[(String, Change)],
    defaults: &CatalogDefaults,
) -> Result<BTreeMap<String, String>, String> {
    let mut after = given.clone();
    for (name, change) in changes {
        let items = |what: &str| match find(name).filter(|setting| setting.kind == Kind::List) {
            Some(setting) => Ok(after.get(name).cloned().unwrap_or_else(|| setting.default_value(defaults))),
            None => Err(format!("Can't {what} to key {name} because its type is not LIST.")),
        };
        let value = match change {
            Change::Set(value) => Some(value.clone()),
            Change::Delete => None,
            Change::Append(added) => {
                let items = items("APPEND")?;
                let fresh = list(added).filter(|item| !list(&items).any(|known| known == *item));
                Some(list(&items).chain(fresh).collect::<Vec<_>>().join(","))
            }
            Change::Subtract(taken) => {
                let items = items("SUBTRACT")?;
                let left = list(&items).filter(|item| !list(taken).any(|gone| gone == *item));
                Some(left.collect::<Vec<_>>().join(","))
            }
        };
        match value {
            Some(value) => after.insert(name.clone(), value),
            None => after.remove(name),
        };
    }
    Ok(after)
}

impl Setting {
    fn fault(&self, value: &str) -> Option<String> {
        let text = value.trim();
        let number = match self.kind {
            Kind::Boolean => {
                let known = text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false");
                return (!known).then(|| "Expected value to be either true or false".to_owned());
            }
            Kind::Int => text.parse::<i32>().ok().map(i64::from),
            Kind::Short => text.parse::<i16>().ok().map(i64::from),
            Kind::Long => text.parse::<i64>().ok(),
            Kind::Double => {
                let ratio = text.parse::<f64>().ok();
                let good = ratio.is_some_and(|r| !matches!(self.bounds, Bounds::Ratio) || (0.0..=1.0).contains(&r));
                return (!good).then(|| "Expected a number from 0 to 1".to_owned());
            }
            Kind::String | Kind::List | Kind::Class | Kind::Password => return self.text_fault(text),
        };
        let Some(number) = number else {
            return Some(format!("Not a number of type {}", self.kind.name()));
        };
        match self.bounds {
            Bounds::AtLeast(least) if number < least => Some(format!("Value must be at least {least}")),
            Bounds::Within(least, most) | Bounds::WithinNotZero(least, most) if number < least || number > most => {
                Some(format!("Value must be from {least} to {most}"))
            }
            Bounds::WithinNotZero(..) if number == 0 => Some("Value must not be 0".to_owned()),
            _ => None,
        }
    }

    fn text_fault(&self, text: &str) -> Option<String> {
        match self.bounds {
            Bounds::OneOf(known) if !known.contains(&text) => {
                Some(format!("String must be one of: {}", known.join(", ")))
            }
            Bounds::EachOf(known) => {
                let foreign = list(text).find(|item| !known.contains(item));
                foreign.map(|_| format!("List items must be among: {}", known.join(", ")))
            }
            Bounds::Replicas => {
                let pair = |item: &str| {
                    item.split_once(':').is_some_and(|(p, b)| p.parse::<u32>().is_ok() && b.parse::<u32>().is_ok())
                };
                let good = text == "*" || list(text).all(pair);
                (!good).then(|| "Must be '*' or a list of pairs like 0:1".to_owned())
            }
            _ => None,
        }
    }

    /// The value that holds where a topic was given none.
    pub fn default_value(&self, defaults: &CatalogDefaults) -> String {
        match self.name {
            "retention.ms" => defaults.retention_ms.to_string(),
            "retention.bytes" => defaults.retention_bytes.to_string(),
            "max.message.bytes" => defaults.message_bytes_max().to_string(),
            _ => self.default.to_owned(),
        }
    }

    /// A given value as DescribeConfigs tells it: read and written again, as Kafka does.
    pub fn shown<'a>(&self, value: &'a str) -> Cow<'a, str> {
        match self.kind {
            Kind::List => {
                let mut items: Vec<&str> = Vec::new();
                list(value).for_each(|item| {
                    if !items.contains(&item) {
                        items.push(item);
                    }
                });
                Cow::Owned(items.join(","))
            }
            Kind::Boolean => Cow::Owned(value.trim().to_ascii_lowercase()),
            _ => Cow::Borrowed(value.trim()),
        }
    }

    /// Whether Kafka's broker setting behind this one has a default of its own to show.
    pub fn has_broker_default(&self) -> bool {
        !matches!(self.name, "flush.ms" | "retention.ms" | "segment.jitter.ms" | "segment.ms")
    }
}

/// The settings that the gateway acts on, with what is given in front of the defaults. What does not parse (a foreign
/// hand in the metadata) counts as not given. `message_bytes_max` is what the server's max_payload can carry.
pub fn resolve(given: BTreeMap<String, String>, defaults: &CatalogDefaults) -> TopicSettings {
    let text = |name: &str| given.get(name).map(|value| value.trim());
    let number = |name: &str, default: i64| text(name).and_then(|value| value.parse().ok()).unwrap_or(default);
    let policy = text("cleanup.policy").unwrap_or("delete");
    let compacted = list(policy).any(|item| item == "compact");
    let deleted = list(policy).any(|item| item == "delete");
    let carried = defaults.message_bytes_max();
    let asked = text("max.message.bytes").and_then(|value| value.parse::<usize>().ok());
    let limit = |name: &str, default: i64| match number(name, default) {
        _ if !deleted => -1,
        value if value < 0 => -1,
        value => value,
    };
    TopicSettings {
        max_message_bytes: asked.map_or(carried, |bytes| bytes.min(defaults.carried_bytes_max)),
        append_time: text("message.timestamp.type") == Some("LogAppendTime"),
        timestamp_before_ms_max: number("message.timestamp.before.max.ms", i64::MAX),
        timestamp_after_ms_max: number("message.timestamp.after.max.ms", 3_600_000),
        compacted,
        never_deleted: !deleted,
        packing: packing(&given),
        retention_ms: limit("retention.ms", defaults.retention_ms),
        retention_bytes: limit("retention.bytes", defaults.retention_bytes),
        given,
    }
}

/// How batches are to be compressed; `None`: as their producers did.
fn packing(given: &BTreeMap<String, String>) -> Option<Packing> {
    let level = |name: &str| given.get(name).and_then(|value| value.trim().parse().ok());
    let (codec, level) = match given.get("compression.type")?.trim() {
        "uncompressed" => (Compression::None, None),
        "gzip" => (Compression::Gzip, level("compression.gzip.level")),
        "snappy" => (Compression::Snappy, None),
        "lz4" => (Compression::Lz4, level("compression.lz4.level")),
        "zstd" => (Compression::Zstd, level("compression.zstd.level")),
        _ => return None,
    };
    Some(Packing { codec, level })
}

fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn every_default_is_within_its_own_bounds() {
        assert!(SETTINGS.is_sorted_by(|a, b| a.name < b.name), "sorted, none twice");
        for setting in SETTINGS {
            let value = setting.default_value(&CatalogDefaults::default());
            assert_eq!(setting.fault(&value), None, "{}", setting.name);
        }
    }

    #[test]
    fn bad_values_are_refused_by_name() {
        for (name, value) in [
            ("retention.ms", "abc"),
            ("retention.ms", "-2"),
            ("retention.ms", "9223372036854775808"),
            ("max.message.bytes", "2147483648"),
            ("max.message.bytes", "-1"),
            ("cleanup.policy", "compact,foo"),
            ("compression.type", "brotli"),
            ("compression.gzip.level", "0"),
            ("compression.zstd.level", "23"),
            ("message.timestamp.type", "createtime"),
            ("min.cleanable.dirty.ratio", "1.5"),
            ("min.cleanable.dirty.ratio", "NaN"),
            ("min.insync.replicas", "0"),
            ("preallocate", "yes"),
            ("leader.replication.throttled.replicas", "1"),
            ("remote.storage.enable", "true"),
        ] {
            let fault = fault(&given(&[(name, value)])).unwrap_or_else(|| panic!("{name}={value} was taken"));
            assert!(fault.contains(name), "{fault}");
        }
        assert!(fault(&given(&[("no.such.setting", "1")])).is_some_and(|f| f.contains("no.such.setting")));
        assert!(fault(&given(&[("min.compaction.lag.ms", "5"), ("max.compaction.lag.ms", "4")])).is_some());
        for (name, value) in [
            ("retention.ms", "-1"),
            ("retention.bytes", "-1"),
            ("cleanup.policy", "compact, delete"),
            ("preallocate", "TRUE"),
            ("follower.replication.throttled.replicas", "0:1,1:2"),
            ("follower.replication.throttled.replicas", "*"),
        ] {
            assert_eq!(fault(&given(&[(name, value)])), None, "{name}={value}");
        }
    }

    #[test]
    fn given_settings_win_over_the_defaults() {
        let defaults = CatalogDefaults {
            retention_ms: 5_000,
            retention_bytes: -1,
            carried_bytes_max: 900_000,
            ..Default::default()
        };
        let settings = resolve(BTreeMap::new(), &defaults);
        assert_eq!((settings.retention_ms, settings.retention_bytes, settings.max_message_bytes), (5_000, -1, 900_000));
        assert!(!settings.compacted && !settings.append_time);
        let settings = resolve(
            given(&[
                ("retention.ms", "77"),
                ("max.message.bytes", "1000"),
                ("message.timestamp.type", "LogAppendTime"),
            ]),
            &defaults,
        );
        assert_eq!((settings.retention_ms, settings.max_message_bytes), (77, 1000));
        assert!(settings.append_time);
        assert_eq!(settings.packing, None);
        let zstd = resolve(given(&[("compression.type", "zstd"), ("compression.zstd.level", "7")]), &defaults);
        assert_eq!(zstd.packing, Some(Packing { codec: Compression::Zstd, level: Some(7) }));
        let settings = resolve(given(&[("max.message.bytes", "2000000")]), &defaults);
        assert_eq!(settings.max_message_bytes, 900_000, "the server's max_payload bounds it");
    }

    #[test]
    fn a_compacted_topic_is_not_aged_out() {
        let defaults = CatalogDefaults { retention_ms: 5_000, retention_bytes: 1_000, ..Default::default() };
        let compact = resolve(given(&[("cleanup.policy", "compact"), ("retention.ms", "5")]), &defaults);
        assert_eq!((compact.compacted, compact.retention_ms, compact.retention_bytes), (true, -1, -1));
        let both = resolve(given(&[("cleanup.policy", "compact,delete")]), &defaults);
        assert_eq!((both.compacted, both.retention_ms, both.retention_bytes), (true, 5_000, 1_000));
        let neither = resolve(given(&[("cleanup.policy", "")]), &defaults);
        assert_eq!((neither.compacted, neither.retention_ms, neither.retention_bytes), (false, -1, -1));
    }

    #[test]
    fn changes_follow_each_other() {
        let defaults = CatalogDefaults::default();
        let text = str::to_owned;
        let check = |before: &[(&str, &str)], name: &str, change: Change, expected: Result<Option<&str>, &str>| {
            let after = altered(&given(before), &[(text(name), change.clone())], &defaults);
            let value = after.map(|after| after.get(name).cloned());
            match expected {
                Ok(expected) => assert_eq!(value, Ok(expected.map(text)), "{name} {change:?}"),
                Err(part) => assert!(value.is_err_and(|fault| fault.contains(part)), "{name} {change:?}"),
            }
        };
        let policy = "cleanup.policy";
        check(&[], policy, Change::Append(text("compact")), Ok(Some("delete,compact")));
        check(&[(policy, "compact")], policy, Change::Append(text("compact")), Ok(Some("compact")));
        check(&[(policy, "delete,compact")], policy, Change::Subtract(text("delete")), Ok(Some("compact")));
        check(&[], policy, Change::Subtract(text("delete")), Ok(Some("")));
        check(&[(policy, "compact")], policy, Change::Delete, Ok(None));
        check(&[("retention.ms", "5")], "retention.ms", Change::Set(text("6")), Ok(Some("6")));
        check(&[], "retention.ms", Change::Append(text("6")), Err("retention.ms"));
        check(&[], "no.such", Change::Subtract(text("6")), Err("no.such"));
        check(&[], "no.such", Change::Delete, Ok(None));
    }

    #[test]
    fn what_stood_there_before_is_not_judged_again() {
        let before = given(&[("of.a.newer.gateway", "1"), ("retention.ms", "5")]);
        let mut after = before.clone();
        after.insert("retention.ms".to_owned(), "6".to_owned());
        assert_eq!(fault_after(&before, &after), None);
        after.insert("of.a.newer.gateway".to_owned(), "2".to_owned());
        assert!(fault_after(&before, &after).is_some_and(|fault| fault.contains("of.a.newer.gateway")));
    }

    #[test]
    fn values_are_told_as_they_are_read() {
        for (name, value, expected) in [
            ("cleanup.policy", "compact, compact,,delete", "compact,delete"),
            ("retention.ms", " 5000 ", "5000"),
            ("preallocate", "TRUE", "true"),
        ] {
            assert_eq!(find(name).expect("a setting").shown(value), expected, "{name}");
        }
    }
}
