//! What is told of the flags: `--help`, the man page, shell completions. All of it is made from the flags themselves.

use super::flags::Args;
use std::fmt::Write;
use structopt::StructOpt;
use structopt::clap::{App, Shell};

/// The flags by what they are about. A flag that no group names stands in the last.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "The store",
        &[
            "pubsub-url",
            "nats-creds",
            "nats-nkey",
            "nats-user",
            "nats-password-file",
            "nats-token-file",
            "embedded",
            "data-dir",
            "nats-server",
            "replicas",
        ],
    ),
    ("Kafka clients", &["host", "port", "advertise", "node-id", "max-connections", "connections-max-idle", "workers"]),
    ("Topics", &["auto-create", "default-partitions", "accept-any-replication-factor", "retention", "retention-bytes"]),
    (
        "Consumer groups",
        &[
            "group-initial-rebalance-delay",
            "group-min-session-timeout",
            "group-max-session-timeout",
            "group-max-size",
            "offset-metadata-max-bytes",
            "offsets-retention",
        ],
    ),
    ("Operation", &["admin-host", "admin-port", "log-format", "log-level", "slow-request-ms"]),
    ("More", &["help", "version"]),
];

const TIMES_AND_SIZES: &str = "TIME is written 168h, 30s, 500ms or 1h30m; BYTES plain, or with KiB, MiB, GiB.";

const VARIABLES: &str = "A flag that is not given is taken from its environment variable. Where the retention has neither, \
    CLOUD_KAFKA_RETENTION and CLOUD_KAFKA_RETENTION_BYTES are looked at.";

const SIGNALS: &str = "SIGTERM and SIGINT answer what is under way, write down what is to be kept, and stop within 10 seconds; \
    a second one ends at once. SIGQUIT prints what every worker does and who waits for what, and all goes on.";

const EXAMPLES: &[(&str, &str)] = &[
    ("hanzo-kafka --embedded", "all on this machine, data in ./data"),
    (
        "hanzo-kafka --pubsub-url nats://n1:4222,nats://n2:4222 --replicas 3 --host 0.0.0.0 --advertise kafka.example.com:9092",
        "beside a JetStream cluster",
    ),
];

/// The widest line of `--help`.
const COLUMNS: usize = 100;

/// A flag as it is told.
struct Flag {
    long: String,
    value: Option<String>,
    /// Without default and variable.
    text: String,
    default: Option<String>,
    variable: Option<String>,
}

impl Flag {
    /// `text` may name default and variable itself, in clap's brackets, where clap does not know them.
    fn new(long: &str, value: Option<&str>, text: &str) -> Flag {
        let mut flag = Flag {
            long: long.to_owned(),
            value: value.map(str::to_owned),
            text: text.split_whitespace().collect::<Vec<_>>().join(" "),
            default: None,
            variable: None,
        };
        flag.default = flag.take("[default: ");
        flag.variable = flag.take("[env: ");
        flag
    }

    fn take(&mut self, opening: &str) -> Option<String> {
        let at = self.text.find(opening)?;
        let taken = self.text.split_off(at);
        let (inside, after) = taken[opening.len()..].split_once(']')?;
        let inside = inside.to_owned();
        self.text = format!("{}{after}", self.text).trim().to_owned();
        Some(inside)
    }

    fn usage(&self) -> String {
        match &self.value {
            Some(value) => format!("--{} <{value}>", self.long),
            None => format!("--{}", self.long),
        }
    }
}

fn flags(app: &App<'_, '_>) -> Vec<Flag> {
    let mut flags = Vec::new();
    for option in &app.p.opts {
        let value = option.v.val_names.as_ref().and_then(|names| names.values().next().copied());
        let mut flag = Flag::new(option.s.long.unwrap_or_default(), value, option.b.help.unwrap_or_default());
        flag.default = option.v.default_val.map(|default| default.to_string_lossy().into_owned()).or(flag.default);
        flag.variable = option.v.env.as_ref().map(|(name, _)| name.to_string_lossy().into_owned()).or(flag.variable);
        flags.push(flag);
    }
    for switch in &app.p.flags {
        flags.push(Flag::new(switch.s.long.unwrap_or_default(), None, switch.b.help.unwrap_or_default()));
    }
    flags.push(Flag::new("help", None, "Prints this"));
    flags.push(Flag::new("version", None, "Prints the version"));
    flags
}

/// The groups with their flags, in the order of `GROUPS`.
fn grouped(app: &App<'_, '_>) -> Vec<(&'static str, Vec<Flag>)> {
    let mut groups: Vec<(&str, Vec<Flag>)> = GROUPS.iter().map(|(title, _)| (*title, Vec::new())).collect();
    for flag in flags(app) {
        let at = GROUPS.iter().position(|(_, names)| names.contains(&flag.long.as_str()));
        if let Some((_, members)) = groups.get_mut(at.unwrap_or(GROUPS.len() - 1)) {
            members.push(flag);
        }
    }
    for ((_, members), (_, names)) in groups.iter_mut().zip(GROUPS) {
        members.sort_by_key(|flag| names.iter().position(|name| *name == flag.long));
    }
    groups
}

/// The text of `--help`.
pub fn help() -> String {
    let app = Args::clap();
    let mut text = format!("hanzo-kafka {}\n", env!("CARGO_PKG_VERSION"));
    wrap(&mut text, 0, env!("CARGO_PKG_DESCRIPTION"));
    text.push_str("\nUSAGE: hanzo-kafka [FLAGS]\n");
    for (title, flags) in grouped(&app) {
        let _ = write!(text, "\n{title}:\n");
        for flag in flags {
            let _ = writeln!(text, "  {}", flag.usage());
            wrap(&mut text, 8, &flag.text);
            let default = flag.default.map(|default| format!("default: {default}"));
            let variable = flag.variable.map(|variable| format!("env: {variable}"));
            let facts: Vec<String> = default.into_iter().chain(variable).collect();
            if !facts.is_empty() {
                wrap(&mut text, 8, &format!("[{}]", facts.join(", ")));
            }
        }
    }
    for paragraph in [TIMES_AND_SIZES, VARIABLES, SIGNALS] {
        text.push('\n');
        wrap(&mut text, 0, paragraph);
    }
    text.push_str("\nExamples:\n");
    for (command, what) in EXAMPLES {
        let _ = writeln!(text, "  {command}\n        {what}");
    }
    text
}

fn wrap(out: &mut String, indent: usize, text: &str) {
    let mut column = COLUMNS;
    for word in text.split_whitespace() {
        let width = word.chars().count();
        if column + 1 + width > COLUMNS {
            if column < COLUMNS {
                out.push('\n');
            }
            out.push_str(&" ".repeat(indent));
            column = indent;
        } else {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
    }
    out.push('\n');
}

/// The man page hanzo-kafka(1), in man(7)'s language.
pub fn man_page() -> String {
    let app = Args::clap();
    let mut text = String::from(".\\\" Made from the flags: UPDATE=1 cargo test --test deploy\n");
    let _ = writeln!(text, ".TH HANZO-KAFKA 1 \"\" \"hanzo-kafka {}\" \"Hanzo Kafka\"", env!("CARGO_PKG_VERSION"));
    text.push_str(".SH NAME\nhanzo-kafka \\- the Kafka protocol on NATS JetStream\n");
    text.push_str(".SH SYNOPSIS\n.B hanzo-kafka\n[\\fIFLAGS\\fR]\n.SH DESCRIPTION\n");
    let mut paragraphs = [
        "A stateless gateway. Kafka clients speak the Kafka wire protocol to it, and it keeps all state in NATS JetStream: \
         records, committed offsets, groups. A gateway that dies is replaced by starting another.",
        "JetStream 2.10 or newer is needed. If none can be reached within two seconds of the start, the gateway serves all \
         the same and tells clients to try again.",
        TIMES_AND_SIZES,
    ]
    .map(escaped)
    .join("\n.PP\n");
    paragraphs.push('\n');
    text.push_str(&paragraphs);
    text.push_str(".SH OPTIONS\n");
    for (title, flags) in grouped(&app) {
        let _ = writeln!(text, ".SS {}", escaped(title));
        for flag in flags {
            let value = flag.value.as_ref().map_or(String::new(), |value| format!(" \\fI{}\\fR", escaped(value)));
            let _ = write!(text, ".TP\n\\fB\\-\\-{}\\fR{value}\n{}.\n", escaped(&flag.long), escaped(&flag.text));
            if let Some(default) = &flag.default {
                let _ = write!(text, ".br\nDefault: {}\n", escaped(default));
            }
            if let Some(variable) = &flag.variable {
                let _ = write!(text, ".br\nEnvironment: {}\n", escaped(variable));
            }
        }
    }
    let _ = write!(text, ".SH ENVIRONMENT\n{}\n", escaped(VARIABLES));
    text.push_str(".PP\n\\fBNOTIFY_SOCKET\\fR, \\fBWATCHDOG_USEC\\fR: a service manager's; see sd_notify(3).\n");
    let _ = write!(text, ".SH SIGNALS\n{}\n", escaped(SIGNALS));
    text.push_str(
        ".SH EXIT STATUS\n0 after a stop that was asked for, 1 where the start fails: one line says what to change.\n",
    );
    text.push_str(".SH EXAMPLES\n");
    for (command, what) in EXAMPLES {
        let _ = write!(text, ".TP\n{}\n{}\n", escaped(command), escaped(what));
    }
    text.push_str(".SH SEE ALSO\nnats-server, and docs/operations.md in the sources.\n");
    text
}

/// Dashes and backslashes as they are; a line never begins with a request.
fn escaped(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-");
    if escaped.starts_with(['.', '\'']) { format!("\\&{escaped}") } else { escaped }
}

/// A shell that completions are made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completions {
    Bash,
    Zsh,
    Fish,
}

/// A script that completes flags; for `deploy/completions`.
pub fn completions(shell: Completions) -> String {
    let shell = match shell {
        Completions::Bash => Shell::Bash,
        Completions::Zsh => Shell::Zsh,
        Completions::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    Args::clap().gen_completions_to("hanzo-kafka", shell, &mut script);
    let script = String::from_utf8(script).expect("clap writes the flags, which are UTF-8");
    let lines: Vec<&str> = script.lines().map(str::trim_end).collect();
    format!("{}\n", lines.join("\n").trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_is_told_with_default_and_variable() {
        let text = help();
        let app = Args::clap();
        for option in &app.p.opts {
            let flag = format!("  --{} <", option.s.long.expect("every flag has a long form"));
            let at = text.find(&flag).unwrap_or_else(|| panic!("{flag} is missing"));
            let rest = &text[at..];
            let (variable, _) = option.v.env.as_ref().expect("every flag has a variable");
            assert!(rest.contains(&*variable.to_string_lossy()), "{flag}");
            if let Some(default) = option.v.default_val {
                assert!(rest.contains(&format!("default: {}", default.to_string_lossy())), "{flag}");
            }
        }
        for switch in &app.p.flags {
            assert!(text.contains(&format!("  --{}\n", switch.s.long.expect("a long form"))));
        }
        assert!(text.contains("[default: ./data, env: HANZO_KAFKA_DATA_DIR]"), "{text}");
        assert!(text.contains("[env: HANZO_KAFKA_EMBEDDED=true]"), "{text}");
        let names: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        for name in names {
            assert!(text.contains(&format!("  --{name}")), "{name} is in a group and is no flag");
        }
    }

    #[test]
    fn lines_are_wrapped() {
        let mut text = String::new();
        wrap(&mut text, 4, &"word ".repeat(40));
        assert!(text.lines().all(|line| line.len() <= COLUMNS && line.starts_with("    word")), "{text}");
        assert_eq!(text.split_whitespace().count(), 40);
        let command = EXAMPLES.iter().map(|(command, _)| command.len() + 2).max().unwrap_or(0);
        assert!(help().lines().all(|line| line.chars().count() <= COLUMNS.max(command)));
    }
}
