//! What stands in `deploy/`, and the man page: made from the flags, and taken by the servers they are for.

use crate::harness::librdkafka::{self, numbered, texts};
use crate::harness::process::Process;
use crate::harness::{Folder, Gateway, JetStream, Version, eventually, free_port, tool};
use crate::on_each_server;
use hanzo_kafka::config::help::{self, Completions};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What a cluster may need on a busy machine until it gives a stream three servers.
const FORMING: Duration = Duration::from_secs(60);

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[track_caller]
fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn man_page_and_completions_are_those_of_the_flags() {
    let made = [
        ("docs/hanzo-kafka.1", help::man_page()),
        ("deploy/completions/hanzo-kafka.bash", help::completions(Completions::Bash)),
        ("deploy/completions/_hanzo-kafka", help::completions(Completions::Zsh)),
        ("deploy/completions/hanzo-kafka.fish", help::completions(Completions::Fish)),
    ];
    for (path, expected) in made {
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(root().join(path), &expected).expect("the folder is there");
        }
        let cure = "the flags have changed: UPDATE=1 cargo test --test it deploy::man_page";
        assert!(text(path) == expected, "{path} is out of date: {cure}");
        assert!(expected.contains("slow-request-ms") || expected.contains("slow\\-request\\-ms"), "{path}");
    }
}

#[test]
fn help_is_printed_and_names_every_group_of_flags() {
    let output = Command::new(env!("CARGO_BIN_EXE_hanzo-kafka")).arg("--help").output().expect("it runs");
    assert!(output.status.success());
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(printed.trim_end(), help::help().trim_end());
    for title in ["The store:", "Kafka clients:", "Topics:", "Consumer groups:", "Operation:", "Examples:"] {
        assert!(printed.contains(&format!("\n{title}\n")), "{title} is missing:\n{printed}");
    }
}

/// A server of this version on a configuration, with its name in the environment.
fn server(version: Version, folder: &Folder, configuration: &str, name: &str) -> Process {
    let path = folder.path().join("nats.conf");
    std::fs::write(&path, configuration).expect("the configuration is written");
    let mut command = binary(version);
    command.arg("-c").arg(path).env("NATS_NAME", name).stdout(Stdio::null());
    Process::start(command, &folder.path().join("log"))
}

fn binary(version: Version) -> Command {
    Command::new(match version {
        Version::Newest => tool("nats-server"),
        Version::Oldest => tool("nats-server-2.10"),
    })
}

/// The text with each of the first replaced by the second; all of them must be there.
#[track_caller]
fn with(mut text: String, changes: &[(&str, String)]) -> String {
    for (from, to) in changes {
        assert!(text.contains(from), "{from} is not in the configuration");
        text = text.replace(from, to);
    }
    text
}

fn store(folder: &Folder) -> (&'static str, String) {
    ("/var/lib/nats", folder.path().join("data").to_str().expect("a path of ours is UTF-8").to_owned())
}

fn at(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// A cluster that answers may still not know its members: it has formed when a stream gets a place on all of them.
#[track_caller]
fn wait_formed(port: u16) {
    let probe = json!({ "name": "probe", "subjects": ["probe"], "num_replicas": 3 });
    eventually("a stream gets three servers", FORMING, || {
        let mut jetstream = JetStream::try_connect(port).ok()?;
        jetstream.wait_at_most(Duration::from_secs(1)).ok()?;
        jetstream.try_api("STREAM.CREATE.probe", &probe).ok()?;
        jetstream.try_api("STREAM.DELETE.probe", &Value::Null).ok()
    });
}

/// The topic is made by the first record, with the gateway's number of replicas.
#[track_caller]
fn produce_and_consume(gateway: &Gateway) {
    let values = numbered(200);
    librdkafka::produce(&gateway.bootstrap(), "t", &[], &values);
    assert_eq!(texts(&librdkafka::consume(&gateway.bootstrap(), "t", 200)), values);
}

on_each_server! {
    fn a_gateway_serves_on_the_configuration_for_one_server(version) {
        let folder = Folder::new("nats");
        let port = free_port();
        let changes = [store(&folder), ("127.0.0.1:4222", at(port)), ("127.0.0.1:8222", at(free_port()))];
        let configuration = with(text("deploy/nats/one.conf"), &changes);
        let _server = server(version, &folder, &configuration, "");
        let mut gateway = Gateway::not_ready(&format!("nats://{}", at(port)), &[]);
        gateway.wait_ready();
        produce_and_consume(&gateway);
        let log = gateway.process().log();
        assert!(log.contains("max_payload=8388608"), "{log}");
    }

    fn a_gateway_serves_on_the_configuration_for_three_servers(version) {
        let ports: Vec<(u16, u16)> = (0..3).map(|_| (free_port(), free_port())).collect();
        let folders = [0; 3].map(|_| Folder::new("nats"));
        let mut servers = Vec::new();
        for (n, (folder, (port, route))) in folders.iter().zip(&ports).enumerate() {
            let mut changes = vec![
                store(folder),
                ("0.0.0.0:4222", at(*port)),
                ("0.0.0.0:6222", at(*route)),
                ("127.0.0.1:8222", at(free_port())),
            ];
            let routes = ["pubsub-0:6222", "pubsub-1:6222", "pubsub-2:6222"];
            changes.extend(routes.iter().zip(&ports).map(|(name, (_, route))| (*name, at(*route))));
            let configuration = with(text("deploy/nats/three.conf"), &changes);
            servers.push(server(version, folder, &configuration, &format!("pubsub-{n}")));
        }
        wait_formed(ports[0].0);
        let urls: Vec<String> = ports.iter().map(|(port, _)| format!("nats://{}", at(*port))).collect();
        let mut gateway = Gateway::not_ready(&urls.join(","), &["--replicas=3"]);
        gateway.wait_ready();
        produce_and_consume(&gateway);
        let mut jetstream = JetStream::try_connect(ports[0].0).expect("a server answers");
        let info = jetstream.api("STREAM.INFO.kafka-t-0", &Value::Null);
        assert_eq!(info["config"]["num_replicas"], 3, "{info}");
        assert_eq!(info["cluster"]["replicas"].as_array().map(Vec::len), Some(2), "{info}");
    }

    fn the_configuration_for_kubernetes_is_taken(version) {
        let manifest = text("deploy/kubernetes/pubsub.yaml");
        let (_, rest) = manifest.split_once("  nats.conf: |\n").expect("the configuration stands in a ConfigMap");
        let lines = rest.lines().take_while(|line| line.starts_with("    "));
        let configuration: String = lines.map(|line| format!("{line}\n")).collect();
        let folder = Folder::new("nats");
        let path: PathBuf = folder.path().join("nats.conf");
        std::fs::write(&path, configuration).expect("the configuration is written");
        let output = binary(version).arg("-t").arg("-c").arg(&path).env("NATS_NAME", "pubsub-0").output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn the_unit_starts_what_is_installed_and_waits_longer_than_a_stop_takes() {
    let unit = text("deploy/hanzo-kafka.service");
    for line in ["Type=notify", "ExecStart=/usr/local/bin/hanzo-kafka", "DynamicUser=yes", "TimeoutStopSec=30"] {
        assert!(unit.lines().any(|found| found == line), "{line} is missing");
    }
    let folder = Folder::new("install");
    let mut command = Command::new("make");
    command.current_dir(root()).arg("install").arg("PREFIX=/usr");
    command.arg(format!("DESTDIR={}", folder.path().display()));
    command.arg(format!("BINARY={}", env!("CARGO_BIN_EXE_hanzo-kafka")));
    let output = command.stdin(Stdio::null()).output().expect("make runs the tests, so it is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let installed = |path: &str| folder.path().join(path);
    let unit = std::fs::read_to_string(installed("usr/lib/systemd/system/hanzo-kafka.service")).expect("the unit");
    assert!(unit.contains("\nExecStart=/usr/bin/hanzo-kafka\n"), "{unit}");
    for path in [
        "usr/share/man/man1/hanzo-kafka.1",
        "usr/share/bash-completion/completions/hanzo-kafka",
        "usr/share/zsh/site-functions/_hanzo-kafka",
        "usr/share/fish/vendor_completions.d/hanzo-kafka.fish",
    ] {
        assert!(installed(path).exists(), "{path} is not installed");
    }
    let version = Command::new(installed("usr/bin/hanzo-kafka")).arg("--version").output().expect("it runs");
    let expected = format!("hanzo-kafka {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8_lossy(&version.stdout), expected);
}
