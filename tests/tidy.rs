//! The rules of the house that a program can check: layers, headers, banned words, lengths, one file per API.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const LINES_MAX: usize = 600;

/// What stands beside all layers and may be imported by each.
const FOR_ALL: &[&str] = &[
    "activity", "limits", "listen", "clock", "config", "logging", "metrics", "tasks", "wake", "promise", "sealed",
    "wire",
];

/// The layers: what each part of `src` imports beside itself and `FOR_ALL`. `main` and `gateway`, which joins the domain to
/// a store, see everything.
const LAYERS: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("activity", &[]),
    ("notify", &[]),
    ("limits", &[]),
    ("listen", &[]),
    ("clock", &[]),
    ("config", &[]),
    ("logging", &[]),
    ("metrics", &[]),
    ("tasks", &[]),
    ("wake", &[]),
    ("promise", &[]),
    ("sealed", &[]),
    ("protocol", &[]),
    ("records", &[]),
    ("store", &[]),
    ("cluster", &["store", "records", "protocol"]),
    ("catalog", &["cluster", "store", "records", "protocol"]),
    ("log", &["catalog", "cluster", "store", "records", "protocol"]),
    ("offsets", &["catalog", "cluster", "store", "records", "protocol"]),
    ("group", &["offsets", "log", "catalog", "cluster", "store", "records", "protocol"]),
    ("forward", &["group", "store"]),
    ("handlers", &["forward", "group", "offsets", "log", "catalog", "cluster", "store", "records", "protocol"]),
    ("server", &["handlers", "protocol"]),
    ("admin", &["handlers", "group", "offsets", "log", "catalog", "cluster", "store", "records", "protocol"]),
];

/// The domain: of `protocol` it knows error codes, of `wire` only the UUID.
const DOMAIN: &[&str] = &["cluster", "catalog", "log", "offsets", "group"];

/// What peers send is read here, so nothing here may panic; `expect` may state what the code itself has just ensured.
const NO_PANIC: &[&str] = &["wire", "protocol", "records"];

struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    /// The text without its test module, which stands last, and without comment lines.
    fn code(&self) -> String {
        let code = self.text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
    }

    /// The top-level module it belongs to: `log` for src/log/append.rs.
    fn module(&self) -> String {
        let inside = self.path.strip_prefix("src").unwrap_or(&self.path);
        let first = inside.iter().next().unwrap_or_default().to_string_lossy();
        first.trim_end_matches(".rs").to_owned()
    }
}

fn sources(folders: &[&str]) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = folders.iter().map(|folder| root.join(folder)).collect();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.expect("a folder entry").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source file is UTF-8");
                let path = path.strip_prefix(root).expect("below the root").to_owned();
                found.push(Source { path, text });
            }
        }
    }
    assert!(!found.is_empty());
    found
}

fn everything() -> Vec<Source> {
    sources(&["src", "tests", "examples", "bench"])
}

#[track_caller]
fn expect_none(rule: &str, offences: &[String]) {
    assert!(offences.is_empty(), "{rule}:\n  {}", offences.join("\n  "));
}

/// The paths after each `crate::`: `store::keys::token`, and for `crate::{a, b::C}` both.
fn imports(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let Some(group) = rest.strip_prefix('{') else {
            found.insert(path_of(rest));
            continue;
        };
        let mut depth = 0;
        let mut from = 0;
        for (index, character) in group.char_indices() {
            match character {
                '{' => depth += 1,
                '}' if depth > 0 => depth -= 1,
                '}' | ',' if depth == 0 => {
                    found.insert(path_of(group[from..index].trim_start()));
                    from = index + 1;
                }
                _ => {}
            }
            if character == '}' && depth == 0 && from == index + 1 {
                break;
            }
        }
    }
    found.remove("");
    found
}

fn path_of(text: &str) -> String {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(text.len());
    text[..end].trim_end_matches(':').to_owned()
}

#[test]
fn groups_of_imports_are_understood() {
    let code =
        "use crate::{log::{append, fetch}, store::Store};\nuse crate::wire::{Reader, Uuid};\ncrate::clock::Now { }";
    let found: Vec<String> = imports(code).into_iter().collect();
    assert_eq!(found, ["clock::Now", "log", "store::Store", "wire"]);
}

#[test]
fn imports_go_downwards_only() {
    let mut offences = Vec::new();
    for source in sources(&["src"]) {
        let module = source.module();
        if ["main", "lib", "gateway"].contains(&module.as_str()) {
            continue;
        }
        let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == module) else {
            offences.push(format!("{} belongs to no layer", source.path.display()));
            continue;
        };
        for import in imports(&source.code()) {
            let target = import.split("::").next().unwrap_or_default();
            let known = LAYERS.iter().any(|(name, _)| *name == target);
            let fine = target == module || FOR_ALL.contains(&target) || allowed.contains(&target);
            if known && !fine {
                offences.push(format!("{} imports {import}", source.path.display()));
            }
        }
    }
    expect_none("imports that do not go downwards", &offences);
}

#[test]
fn the_domain_knows_no_messages() {
    let mut offences = Vec::new();
    for source in sources(&["src"]).iter().filter(|source| DOMAIN.contains(&source.module().as_str())) {
        for import in imports(&source.code()) {
            let stranger = import.starts_with("protocol") && !import.starts_with("protocol::error_code");
            let cursor = import.starts_with("wire") && !import.starts_with("wire::Uuid");
            if stranger || cursor {
                offences.push(format!("{} imports {import}", source.path.display()));
            }
        }
    }
    expect_none("the domain uses error codes and UUIDs, nothing else of protocol and wire", &offences);
}

#[test]
fn every_file_says_what_it_is_for() {
    let missing = everything().into_iter().filter(|source| !source.text.starts_with("//! "));
    let missing: Vec<String> = missing.map(|source| source.path.display().to_string()).collect();
    expect_none("files whose first line is no `//!` purpose", &missing);
}

#[test]
fn files_fit_one_sitting() {
    let long = everything().into_iter().filter(|source| source.text.lines().count() > LINES_MAX);
    let long: Vec<String> = long.map(|source| source.path.display().to_string()).collect();
    expect_none("files of more than 600 lines", &long);
}

#[test]
fn nothing_is_async_unfinished_or_switched_off() {
    // Written in two halves, so that this file passes its own rule.
    let banned = [
        ["tok", "io"],
        ["async", " fn"],
        ["async", "-std"],
        ["async", " move"],
        [".aw", "ait;"],
        [".aw", "ait?"],
        [".aw", "ait."],
        [".aw", "ait)"],
        ["TO", "DO"],
        ["FIX", "ME"],
        ["unimple", "mented!"],
        ["to", "do!("],
        ["#[ig", "nore"],
    ]
    .map(|halves| halves.concat());
    let mut offences = Vec::new();
    for source in everything() {
        for (number, line) in source.text.lines().enumerate() {
            if let Some(word) = banned.iter().find(|word| line.contains(word.as_str())) {
                offences.push(format!("{}:{}: {word}", source.path.display(), number + 1));
            }
        }
    }
    expect_none("banned words", &offences);
}

#[test]
fn no_async_runtime_is_depended_on() {
    let lock = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.lock")).expect("Cargo.lock is there");
    let runtimes = [["tok", "io"], ["async", "-std"], ["sm", "ol"], ["async", "-nats"], ["async", "-executor"]];
    let mut names: Vec<String> = runtimes.iter().map(|halves| halves.concat()).collect();
    names.push("futures-executor".to_owned());
    names.retain(|name| lock.contains(&format!("name = \"{name}\"\n")));
    expect_none("async runtimes in Cargo.lock", &names);
}

/// The names in the `apis!` table, as file names.
fn api_names() -> Vec<String> {
    let table = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/protocol/api.rs")).expect("the table");
    let rows =
        table.lines().filter(|line| line.contains(" serves ") && line.contains(" flexible ") && line.contains("=> "));
    let names =
        rows.filter_map(|row| row.split_whitespace().next()).filter(|name| name.chars().all(char::is_alphanumeric));
    let names: Vec<String> = names.map(snake_case).collect();
    assert!(names.len() > 20, "the apis! table was not understood: {names:?}");
    names
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for character in name.chars() {
        if character.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(character.to_lowercase());
    }
    snake
}

#[test]
fn each_api_has_a_message_and_a_handler_of_its_own() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut missing = Vec::new();
    for name in api_names() {
        for file in [format!("src/protocol/messages/{name}.rs"), format!("src/handlers/{name}.rs")] {
            if !root.join(&file).exists() {
                missing.push(file);
            }
        }
    }
    expect_none("files an API lacks", &missing);
}

#[test]
fn what_reads_peers_bytes_cannot_panic() {
    let mut offences = Vec::new();
    for source in sources(&["src"]).iter().filter(|source| NO_PANIC.contains(&source.module().as_str())) {
        for line in source.code().lines() {
            let calls = [".unwrap()", "panic!(", "unreachable!("].iter().any(|call| line.contains(call));
            if calls || indexes(line) {
                offences.push(format!("{}: {}", source.path.display(), line.trim()));
            }
        }
    }
    expect_none("code on peers' bytes that can panic", &offences);
}

/// Whether a bracket follows an expression, as in `a[i]`, `f()[0]`, `a[0][1]`.
fn indexes(line: &str) -> bool {
    let mut before = ' ';
    let mut quoted = false;
    for character in line.chars() {
        if character == '"' && before != '\\' && before != '\'' {
            quoted = !quoted;
        }
        if character == '[' && !quoted && (before.is_alphanumeric() || "_)]".contains(before)) {
            return true;
        }
        before = character;
    }
    false
}

#[test]
fn indexing_is_told_from_types_and_attributes() {
    for line in ["a[i]", "f()[0]", "let b = &bytes[1..];"] {
        assert!(indexes(line), "{line}");
    }
    for line in ["fn f(a: &[u8; 4]) -> [u8; 2] {", "#[derive(Debug)]", "vec![1]", "let [a, b] = c;", "\"a[0]\""] {
        assert!(!indexes(line), "{line}");
    }
}
