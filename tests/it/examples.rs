//! The programs in `examples/`: every command of its README prints what stands there.

use crate::harness::{Gateway, Nats, Version, tool};
use std::fmt::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is run if `EXAMPLES` does not name other sections, with blanks between: those need their language.
const ALWAYS: &str = "Rust Python Looking";

struct Step {
    command: String,
    printed: String,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The sections of the README whose heading begins with one of `wanted`: heading and steps.
fn sections(wanted: &str) -> Vec<(String, Vec<Step>)> {
    let text = std::fs::read_to_string(root().join("examples/README.md")).expect("the document is there");
    let mut sections: Vec<(String, Vec<Step>)> = Vec::new();
    for line in text.lines() {
        let steps = sections.last_mut().map(|(_, steps)| steps);
        if let Some(heading) = line.strip_prefix("## ") {
            sections.push((heading.to_owned(), Vec::new()));
        } else if let (Some(command), Some(steps)) = (line.strip_prefix("    $ "), steps) {
            steps.push(Step { command: command.to_owned(), printed: String::new() });
        } else if let (Some(output), Some((_, steps))) = (line.strip_prefix("    "), sections.last_mut()) {
            let step = steps.last_mut().expect("output stands below a command");
            writeln!(step.printed, "{output}").expect("text can be written");
        }
    }
    sections.retain(|(heading, _)| wanted.split_whitespace().any(|name| heading.split(' ').next() == Some(name)));
    assert_eq!(sections.len(), wanted.split_whitespace().count(), "sections of {wanted}");
    sections
}

/// Long numbers and times differ from run to run, and Maven sets the colours back where it has printed nothing.
fn without_moments(text: &str) -> String {
    let text = text.replace("\u{1b}[0m", "");
    let is_moment = |word: &str| word.chars().filter(char::is_ascii_digit).count() > 8;
    let words = |line: &str| {
        line.split(' ').map(|word| if is_moment(word) { "MOMENT" } else { word }).collect::<Vec<_>>().join(" ")
    };
    text.lines().filter(|line| !line.is_empty()).map(|line| words(line) + "\n").collect()
}

/// A shell whose `python3` is the one with the Kafka clients.
fn shell(script: &str, folder: &Path) -> Command {
    let python = folder.join("python3");
    if !python.exists() {
        symlink(tool("python"), &python).expect("a link can be made");
    }
    let mut path = folder.as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut command = Command::new("timeout");
    command.args(["300", "bash", "-euo", "pipefail", "-c", script]).current_dir(root()).env("PATH", path);
    // Cargo lets a test find the librdkafka that was built for it; other programs are to use their own.
    command.env_remove("LD_LIBRARY_PATH");
    command
}

#[test]
fn every_example_prints_what_its_document_says() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let folder = crate::harness::Folder::new("examples");
    let wanted = std::env::var("EXAMPLES").unwrap_or_else(|_| ALWAYS.to_owned());
    for (heading, steps) in sections(&wanted) {
        let mut moved = String::new();
        for Step { command, printed } in steps {
            let command = command.replace("localhost:9092", &gateway.bootstrap());
            let command = command.replace("localhost:4222", &nats.url());
            if command.starts_with("cd ") {
                moved = command + "\n";
                continue;
            }
            let output = shell(&format!("{moved}{command}"), folder.path()).output().expect("bash is here");
            let errors = String::from_utf8_lossy(&output.stderr);
            let seen = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{heading}: {command}\n{seen}\n{errors}");
            assert_eq!(without_moments(&seen), without_moments(&printed), "{heading}: {command}\n{errors}");
        }
    }
}
