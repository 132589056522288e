//! The settings a topic can be given: Kafka's names, types, defaults and bounds (Kafka 4, `LogConfig`).

use super::{CatalogDefaults, TopicSettings};
use std::collections::BTreeMap;

/// One topic setting.
pub struct Setting {
    pub name: &'static str,
    pub kind: Kind,
    /// Kafka's default; `default_value` knows those that depend on this gateway.
    default: &'static str,
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
    Long,
    Double,
    List,
}

impl Kind {
    /// The number by which DescribeConfigs tells this type.
    pub fn id(self) -> i8 {
        match self {
            Kind::Boolean => 1,
            Kind::String => 2,
            Kind::Int => 3,
            Kind::Long => 5,
            Kind::Double => 6,
            Kind::List => 7,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Boolean => "BOOLEAN",
            Kind::String => "STRING",
            Kind::Int => "INT",
            Kind::Long => "LONG",
            Kind::Double => "DOUBLE",
            Kind::List => "LIST",
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
    for (name, value) in given {
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

impl Setting {
    fn fault(&self, value: &str) -> Option<String> {
        let text = value.trim();
        let number = match self.kind {
            Kind::Boolean => {
                let known = text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false");
                return (!known).then(|| "Expected value to be either true or false".to_owned());
            }
            Kind::Int => text.parse::<i32>().ok().map(i64::from),
            Kind::Long => text.parse::<i64>().ok(),
            Kind::Double => {
                let ratio = text.parse::<f64>().ok();
                let good = ratio.is_some_and(|r| !matches!(self.bounds, Bounds::Ratio) || (0.0..=1.0).contains(&r));
                return (!good).then(|| "Expected a number from 0 to 1".to_owned());
            }
            Kind::String | Kind::List => return self.text_fault(text),
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
}

/// The settings that the gateway acts on, with what is given in front of the defaults. What does not parse (a foreign
/// hand in the metadata) counts as not given. `message_bytes_max` is what the server's max_payload can carry.
pub fn resolve(given: BTreeMap<String, String>, defaults: &CatalogDefaults) -> TopicSettings {
    let text = |name: &str| given.get(name).map(|value| value.trim());
    let number = |name: &str, default: i64| text(name).and_then(|value| value.parse().ok()).unwrap_or(default);
    let policy = text("cleanup.policy").unwrap_or("delete");
    let compacted = list(policy).any(|item| item == "compact");
    let deleted = !compacted || list(policy).any(|item| item == "delete");
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
        retention_ms: limit("retention.ms", defaults.retention_ms),
        retention_bytes: limit("retention.bytes", defaults.retention_bytes),
        given,
    }
}

fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

const CODECS: &[&str] = &["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"];

/// All of Kafka 4's topic settings, in the order of their names.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "cleanup.policy",
        kind: Kind::List,
        default: "delete",
        broker_name: Some("log.cleanup.policy"),
        bounds: Bounds::EachOf(&["compact", "delete"]),
        documentation: "What becomes of old records: `delete` drops them by age and size, `compact` keeps at least the \
            newest record of each key. Both may be given.",
    },
    Setting {
        name: "compression.gzip.level",
        kind: Kind::Int,
        default: "-1",
        broker_name: Some("compression.gzip.level"),
        bounds: Bounds::WithinNotZero(-1, 9),
        documentation: "The level used where compression.type is gzip.",
    },
    Setting {
        name: "compression.lz4.level",
        kind: Kind::Int,
        default: "9",
        broker_name: Some("compression.lz4.level"),
        bounds: Bounds::Within(1, 17),
        documentation: "The level used where compression.type is lz4.",
    },
    Setting {
        name: "compression.type",
        kind: Kind::String,
        default: "producer",
        broker_name: Some("compression.type"),
        bounds: Bounds::OneOf(CODECS),
        documentation: "The codec of stored batches; `producer` keeps each as its producer sent it, which this gateway \
            always does.",
    },
    Setting {
        name: "compression.zstd.level",
        kind: Kind::Int,
        default: "3",
        broker_name: Some("compression.zstd.level"),
        bounds: Bounds::Within(-131_072, 22),
        documentation: "The level used where compression.type is zstd.",
    },
    Setting {
        name: "delete.retention.ms",
        kind: Kind::Long,
        default: "86400000",
        broker_name: Some("log.cleaner.delete.retention.ms"),
        bounds: Bounds::AtLeast(0),
        documentation: "How long a compacted topic keeps the tombstone of a deleted key, in milliseconds.",
    },
    Setting {
        name: "file.delete.delay.ms",
        kind: Kind::Long,
        default: "60000",
        broker_name: Some("log.segment.delete.delay.ms"),
        bounds: Bounds::AtLeast(0),
        documentation: "How long Kafka waits before it removes a file. Stored and shown; JetStream has its own way.",
    },
    Setting {
        name: "flush.messages",
        kind: Kind::Long,
        default: "9223372036854775807",
        broker_name: Some("log.flush.interval.messages"),
        bounds: Bounds::AtLeast(1),
        documentation: "Records between forced writes to disk. Stored and shown; see the server's sync_interval.",
    },
    Setting {
        name: "flush.ms",
        kind: Kind::Long,
        default: "9223372036854775807",
        broker_name: Some("log.flush.interval.ms"),
        bounds: Bounds::AtLeast(0),
        documentation: "Milliseconds between forced writes to disk. Stored and shown; see the server's sync_interval.",
    },
    Setting {
        name: "follower.replication.throttled.replicas",
        kind: Kind::List,
        default: "",
        broker_name: None,
        bounds: Bounds::Replicas,
        documentation: "Replicas whose catching up is throttled on the follower's side. Stored and shown.",
    },
    Setting {
        name: "index.interval.bytes",
        kind: Kind::Int,
        default: "4096",
        broker_name: Some("log.index.interval.bytes"),
        bounds: Bounds::AtLeast(0),
        documentation: "Bytes between two entries of a segment's index. Stored and shown.",
    },
    Setting {
        name: "leader.replication.throttled.replicas",
        kind: Kind::List,
        default: "",
        broker_name: None,
        bounds: Bounds::Replicas,
        documentation: "Replicas whose catching up is throttled on the leader's side. Stored and shown.",
    },
    Setting {
        name: "local.retention.bytes",
        kind: Kind::Long,
        default: "-2",
        broker_name: Some("log.local.retention.bytes"),
        bounds: Bounds::AtLeast(-2),
        documentation: "With tiered storage: bytes kept locally. Stored and shown.",
    },
    Setting {
        name: "local.retention.ms",
        kind: Kind::Long,
        default: "-2",
        broker_name: Some("log.local.retention.ms"),
        bounds: Bounds::AtLeast(-2),
        documentation: "With tiered storage: milliseconds for which records are kept locally. Stored and shown.",
    },
    Setting {
        name: "max.compaction.lag.ms",
        kind: Kind::Long,
        default: "9223372036854775807",
        broker_name: Some("log.cleaner.max.compaction.lag.ms"),
        bounds: Bounds::AtLeast(1),
        documentation: "How long a record of a compacted topic may stay uncompacted, in milliseconds.",
    },
    Setting {
        name: "max.message.bytes",
        kind: Kind::Int,
        default: "1048588",
        broker_name: Some("message.max.bytes"),
        bounds: Bounds::AtLeast(0),
        documentation: "The largest batch taken, in bytes, after compression. The server's max_payload bounds it too.",
    },
    Setting {
        name: "message.timestamp.after.max.ms",
        kind: Kind::Long,
        default: "3600000",
        broker_name: Some("log.message.timestamp.after.max.ms"),
        bounds: Bounds::AtLeast(0),
        documentation: "How far a record's timestamp may lie ahead of the broker's clock, in milliseconds.",
    },
    Setting {
        name: "message.timestamp.before.max.ms",
        kind: Kind::Long,
        default: "9223372036854775807",
        broker_name: Some("log.message.timestamp.before.max.ms"),
        bounds: Bounds::AtLeast(0),
        documentation: "How far a record's timestamp may lie behind the broker's clock, in milliseconds.",
    },
    Setting {
        name: "message.timestamp.type",
        kind: Kind::String,
        default: "CreateTime",
        broker_name: Some("log.message.timestamp.type"),
        bounds: Bounds::OneOf(&["CreateTime", "LogAppendTime"]),
        documentation: "Whose clock stamps records: the producer's (CreateTime) or the broker's (LogAppendTime).",
    },
    Setting {
        name: "min.cleanable.dirty.ratio",
        kind: Kind::Double,
        default: "0.5",
        broker_name: Some("log.cleaner.min.cleanable.ratio"),
        bounds: Bounds::Ratio,
        documentation: "The share of uncompacted bytes from which a compacted log is compacted again.",
    },
    Setting {
        name: "min.compaction.lag.ms",
        kind: Kind::Long,
        default: "0",
        broker_name: Some("log.cleaner.min.compaction.lag.ms"),
        bounds: Bounds::AtLeast(0),
        documentation: "How long a record of a compacted topic stays uncompacted at least, in milliseconds.",
    },
    Setting {
        name: "min.insync.replicas",
        kind: Kind::Int,
        default: "1",
        broker_name: Some("min.insync.replicas"),
        bounds: Bounds::AtLeast(1),
        documentation: "Replicas that must hold a record before acks=all succeeds. Stored and shown: JetStream always \
            asks a majority.",
    },
    Setting {
        name: "preallocate",
        kind: Kind::Boolean,
        default: "false",
        broker_name: Some("log.preallocate"),
        bounds: Bounds::Any,
        documentation: "Whether segment files are allocated in full when made. Stored and shown.",
    },
    Setting {
        name: "remote.log.copy.disable",
        kind: Kind::Boolean,
        default: "false",
        broker_name: None,
        bounds: Bounds::Any,
        documentation: "With tiered storage: no more copies to the remote tier. Stored and shown.",
    },
    Setting {
        name: "remote.log.delete.on.disable",
        kind: Kind::Boolean,
        default: "false",
        broker_name: None,
        bounds: Bounds::Any,
        documentation: "With tiered storage: remote data goes when it is switched off. Stored and shown.",
    },
    Setting {
        name: "remote.storage.enable",
        kind: Kind::Boolean,
        default: "false",
        broker_name: None,
        bounds: Bounds::Any,
        documentation: "Tiered storage, which this gateway does not have.",
    },
    Setting {
        name: "retention.bytes",
        kind: Kind::Long,
        default: "-1",
        broker_name: Some("log.retention.bytes"),
        bounds: Bounds::Any,
        documentation: "Bytes a partition may hold before its oldest records go, under the `delete` policy; -1: no limit.",
    },
    Setting {
        name: "retention.ms",
        kind: Kind::Long,
        default: "604800000",
        broker_name: Some("log.retention.ms"),
        bounds: Bounds::AtLeast(-1),
        documentation: "How long records are kept under the `delete` policy, in milliseconds since they were stored; -1: \
            no limit.",
    },
    Setting {
        name: "segment.bytes",
        kind: Kind::Int,
        default: "1073741824",
        broker_name: Some("log.segment.bytes"),
        bounds: Bounds::AtLeast(14),
        documentation: "The size of a segment file. Stored and shown: records go one by one here, not by the segment.",
    },
    Setting {
        name: "segment.index.bytes",
        kind: Kind::Int,
        default: "10485760",
        broker_name: Some("log.index.size.max.bytes"),
        bounds: Bounds::AtLeast(4),
        documentation: "The size of a segment's index. Stored and shown.",
    },
    Setting {
        name: "segment.jitter.ms",
        kind: Kind::Long,
        default: "0",
        broker_name: Some("log.roll.jitter.ms"),
        bounds: Bounds::AtLeast(0),
        documentation: "Random time taken off segment.ms. Stored and shown.",
    },
    Setting {
        name: "segment.ms",
        kind: Kind::Long,
        default: "604800000",
        broker_name: Some("log.roll.ms"),
        bounds: Bounds::AtLeast(1),
        documentation: "How long a segment is written before the next one begins. Stored and shown.",
    },
    Setting {
        name: "unclean.leader.election.enable",
        kind: Kind::Boolean,
        default: "false",
        broker_name: Some("unclean.leader.election.enable"),
        bounds: Bounds::Any,
        documentation: "Whether a replica that lags may lead as a last resort. Stored and shown: JetStream never does.",
    },
];

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
    }
}
