//! One nats-server or a cluster of three, each behind a proxy, and what can be done to them.

use crate::harness::process::Process;
use crate::harness::{Folder, JetStream, Version, eventually, free_port, tool};
use crate::proxy::Proxy;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What a cluster of three may need on a busy machine until it has leaders.
const READY: Duration = Duration::from_secs(60);

/// How long a new cluster may take to know its members, and how often it is started anew if it does not.
const FORMING: Duration = Duration::from_secs(20);
const FORMING_ATTEMPTS: u32 = 3;

/// Makes each function a test that runs against the newest and the oldest nats-server, both at once: most of a case is waiting.
#[macro_export]
macro_rules! on_both_servers {
    ($($(#[$doc:meta])* fn $name:ident($version:ident) $body:block)+) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            $crate::servers::on_both(|$version| $body);
        }
    )+};
}

/// Which of the two failed stands in the message of the panic, as the thread's name.
pub fn on_both(check: impl Fn(Version) + Sync) {
    let check = &check;
    std::thread::scope(|scope| {
        for version in [Version::Newest, Version::Oldest] {
            let thread = std::thread::Builder::new().name(format!("{version:?}"));
            thread.spawn_scoped(scope, move || check(version)).expect("a thread");
        }
    });
}

/// What a server stores its streams on.
#[derive(Clone, Copy)]
pub enum Store<'a> {
    /// A folder, and more room than any test takes.
    Ample,
    /// A folder, and so many bytes that JetStream may use there.
    Quota(u64),
    /// A place that may get full.
    On(&'a Path),
}

pub struct Servers {
    nodes: Vec<Node>,
    version: Version,
}

struct Node {
    name: String,
    port: u16,
    proxy: Proxy,
    process: Option<Process>,
    folder: Folder,
}

impl Servers {
    /// `count` is 1, or 3 for a cluster.
    pub fn start(version: Version, count: usize) -> Servers {
        Servers::on(Store::Ample, version, count)
    }

    pub fn on(store: Store, version: Version, count: usize) -> Servers {
        let ports: Vec<(u16, u16)> = (0..count).map(|_| (free_port(), free_port())).collect();
        let routes: Vec<String> = ports.iter().map(|(_, route)| format!("nats-route://127.0.0.1:{route}")).collect();
        let node = |(number, (port, route)): (usize, &(u16, u16))| {
            let folder = Folder::new("nats");
            let name = format!("n{number}");
            let place = if let Store::On(place) = store { place } else { folder.path() };
            let bytes = if let Store::Quota(bytes) = store { bytes } else { 1 << 40 };
            let mut config = format!(
                "listen: \"127.0.0.1:{port}\"\nserver_name: {name}\nmax_payload: 8388608\n\
                 jetstream {{ store_dir: \"{}\", max_file_store: {bytes} }}\n",
                place.join("data").display()
            );
            if count > 1 {
                config += &format!(
                    "cluster {{ name: c, listen: \"127.0.0.1:{route}\", no_advertise: true, routes: [{}] }}\n",
                    routes.join(", ")
                );
            }
            std::fs::write(folder.path().join("nats.conf"), config).expect("the configuration is written");
            Node { name, port: *port, proxy: Proxy::before(*port), process: None, folder }
        };
        let nodes = ports.iter().enumerate().map(node).collect();
        let mut servers = Servers { nodes, version };
        for attempt in 1..=FORMING_ATTEMPTS {
            servers.revive();
            match servers.formed() {
                Ok(()) => return servers,
                Err(why) => eprintln!("attempt {attempt}: no three servers for one stream: {why}"),
            }
            servers.kill_all();
        }
        panic!(
            "the cluster does not form; {}",
            servers.nodes.iter().map(|node| node.folder.path().display().to_string()).collect::<Vec<_>>().join(", ")
        );
    }

    /// A cluster that answers may still not know its members: it has formed when a stream gets a place on all of them.
    fn formed(&self) -> Result<(), String> {
        if self.nodes.len() == 1 {
            return Ok(());
        }
        let deadline = Instant::now() + FORMING;
        let probe =
            json!({ "name": "probe", "subjects": ["probe"], "num_replicas": self.nodes.len(), "max_bytes": 1 << 20 });
        loop {
            let mut jetstream = self.jetstream();
            match jetstream.try_api("STREAM.CREATE.probe", &probe) {
                Ok(_) => {
                    let _ = jetstream.try_api("STREAM.DELETE.probe", &Value::Null);
                    return Ok(());
                }
                Err(error) if Instant::now() >= deadline => return Err(error.to_string()),
                Err(_) => std::thread::sleep(Duration::from_millis(200)),
            }
        }
    }

    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Where each server listens itself.
    pub fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(|node| node.port).collect()
    }

    /// What each server is called, and the file that it logs to.
    pub fn logs(&self) -> Vec<(String, PathBuf)> {
        self.nodes.iter().map(|node| (node.name.clone(), node.folder.path().join("log"))).collect()
    }

    /// The servers behind their proxies, for `--pubsub-url`.
    pub fn urls(&self) -> String {
        self.nodes.iter().map(|node| node.proxy.url()).collect::<Vec<_>>().join(",")
    }

    pub fn proxies(&self) -> impl Iterator<Item = &Proxy> {
        self.nodes.iter().map(|node| &node.proxy)
    }

    /// kill -9.
    pub fn kill(&mut self, index: usize) {
        self.nodes[index].process = None;
    }

    pub fn kill_all(&mut self) {
        (0..self.nodes.len()).for_each(|index| self.kill(index));
    }

    pub fn freeze(&self, index: usize) {
        self.signal(index, libc::SIGSTOP);
    }

    fn signal(&self, index: usize, signal: libc::c_int) {
        if let Some(process) = &self.nodes[index].process {
            process.signal(signal);
        }
    }

    pub fn thaw_all(&self) {
        (0..self.nodes.len()).for_each(|index| self.signal(index, libc::SIGCONT));
    }

    /// Starts what is dead, thaws what is frozen, and waits until JetStream answers at each.
    pub fn revive(&mut self) {
        self.start_dead();
        for node in &mut self.nodes {
            let process = node.process.as_mut().expect("it was started");
            let port = node.port;
            eventually("nats-server answers", READY, || {
                assert!(process.exited().is_none(), "nats-server exited:\n{}", process.log_tail());
                let mut jetstream = JetStream::try_connect(port).ok()?;
                // Without a leader a cluster gives no answer at all.
                jetstream.wait_at_most(Duration::from_millis(500)).ok()?;
                jetstream.account_ready().then_some(())
            });
        }
    }

    fn start_dead(&mut self) {
        self.thaw_all();
        for node in &mut self.nodes {
            node.proxy.heal();
            if node.process.is_some() {
                continue;
            }
            let binary = match self.version {
                Version::Newest => tool("nats-server"),
                Version::Oldest => tool("nats-server-2.10"),
            };
            let mut command = Command::new(binary);
            command.arg("-c").arg(node.folder.path().join("nats.conf")).stdout(Stdio::null());
            node.process = Some(Process::start(command, &node.folder.path().join("log")));
        }
    }

    /// A connection past the proxies, to a server that answers.
    pub fn jetstream(&self) -> JetStream {
        let live = |node: &Node| node.process.is_some().then(|| JetStream::try_connect(node.port).ok()).flatten();
        eventually("a nats-server answers", READY, || self.nodes.iter().find_map(live))
    }

    /// One server behind its proxy.
    pub fn url(&self, index: usize) -> String {
        self.nodes[index].proxy.url()
    }

    /// The index of the server that leads a stream, where it is known.
    pub fn leader_of(&self, stream: &str) -> Option<usize> {
        let info = self.jetstream().try_api(&format!("STREAM.INFO.{stream}"), &Value::Null).ok()?;
        if self.nodes.len() == 1 {
            return Some(0);
        }
        let leader = info["cluster"]["leader"].as_str()?;
        self.nodes.iter().position(|node| node.name == leader)
    }

    pub fn step_down(&self, stream: &str) {
        // It may have no leader just now, and then nothing is to be done.
        let _ = self.jetstream().try_api(&format!("STREAM.LEADER.STEPDOWN.{stream}"), &Value::Null);
    }
}
