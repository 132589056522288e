//! Three nats-servers as one JetStream cluster.

use super::process::Process;
use super::{Folder, JetStream, SOON, Version, eventually, free_port, tool};
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a new cluster may take to know its members, and how often it is started anew if it does not.
const FORMING: Duration = Duration::from_secs(20);
const FORMING_ATTEMPTS: usize = 4;

pub struct Cluster {
    nodes: Vec<Node>,
    version: Version,
}

struct Node {
    name: String,
    port: u16,
    process: Option<Process>,
    folder: Folder,
}

impl Cluster {
    pub fn start(version: Version) -> Cluster {
        let ports: Vec<(u16, u16)> = (0..3).map(|_| (free_port(), free_port())).collect();
        let routes: Vec<String> = ports.iter().map(|(_, route)| format!("nats-route://127.0.0.1:{route}")).collect();
        let node = |(number, (port, route)): (usize, &(u16, u16))| {
            let folder = Folder::new("nats");
            let name = format!("n{number}");
            // Lame duck mode at its shortest.
            let config = format!(
                "listen: \"127.0.0.1:{port}\"\nserver_name: {name}\nmax_payload: 8388608\n\
                 lame_duck_grace_period: \"1s\"\nlame_duck_duration: \"30s\"\n\
                 jetstream {{ store_dir: \"{}\", max_file_store: 1TB }}\n\
                 cluster {{ name: c, listen: \"127.0.0.1:{route}\", routes: [{}] }}\n",
                folder.path().join("data").display(),
                routes.join(", ")
            );
            std::fs::write(folder.path().join("nats.conf"), config).expect("the configuration is written");
            Node { name, port: *port, process: None, folder }
        };
        let mut cluster = Cluster { nodes: ports.iter().enumerate().map(node).collect(), version };
        for _ in 0..FORMING_ATTEMPTS {
            (0..3).for_each(|index| cluster.start_node(index));
            if cluster.has_formed() {
                return cluster;
            }
            (0..3).for_each(|index| cluster.kill(index));
        }
        panic!("the cluster does not form");
    }

    fn start_node(&mut self, index: usize) {
        let binary = match self.version {
            Version::Newest => tool("nats-server"),
            Version::Oldest => tool("nats-server-2.10"),
        };
        let node = &mut self.nodes[index];
        let mut command = Command::new(binary);
        command.arg("-c").arg(node.folder.path().join("nats.conf")).stdout(Stdio::null());
        node.process = Some(Process::start(command, &node.folder.path().join("log")));
    }

    /// A cluster that answers may still not know its members: it has formed when a stream gets a place on all of them.
    fn has_formed(&self) -> bool {
        let probe = json!({ "name": "probe", "subjects": ["probe"], "num_replicas": 3 });
        let deadline = Instant::now() + FORMING;
        while Instant::now() < deadline {
            let made = self.try_jetstream(0).and_then(|mut jetstream| {
                jetstream.try_api("STREAM.CREATE.probe", &probe).ok()?;
                jetstream.try_api("STREAM.DELETE.probe", &Value::Null).ok()
            });
            if made.is_some() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        false
    }

    pub fn urls(&self) -> String {
        (0..self.nodes.len()).map(|index| self.url(index)).collect::<Vec<_>>().join(",")
    }

    pub fn url(&self, index: usize) -> String {
        format!("nats://127.0.0.1:{}", self.nodes[index].port)
    }

    pub fn pid(&self, index: usize) -> u32 {
        self.nodes[index].process.as_ref().expect("it runs").pid()
    }

    /// kill -9.
    pub fn kill(&mut self, index: usize) {
        self.nodes[index].process = None;
    }

    /// Lets the server tell its clients to leave, and stop when they have.
    pub fn lame_duck(&self, index: usize) {
        self.nodes[index].process.as_ref().expect("it runs").signal(libc::SIGUSR2);
    }

    /// Starts it again and waits until it has JetStream.
    pub fn restart(&mut self, index: usize) {
        self.start_node(index);
        eventually("the server has JetStream again", SOON, || self.try_jetstream(index)?.account_ready().then_some(()));
    }

    fn try_jetstream(&self, index: usize) -> Option<JetStream> {
        let jetstream = JetStream::try_connect(self.nodes[index].port).ok()?;
        // Without a leader a cluster gives no answer at all.
        jetstream.wait_at_most(Duration::from_secs(1)).ok()?;
        Some(jetstream)
    }

    /// A connection to a server that lives.
    pub fn jetstream(&self) -> JetStream {
        let live = |index: usize| self.nodes[index].process.as_ref().and_then(|_| self.try_jetstream(index));
        eventually("a nats-server answers", SOON, || (0..self.nodes.len()).find_map(live))
    }

    pub fn step_down(&self, stream: &str) {
        let _ = self.jetstream().try_api(&format!("STREAM.LEADER.STEPDOWN.{stream}"), &Value::Null);
    }

    /// The index of the server that leads a stream.
    pub fn leader_of(&self, stream: &str) -> usize {
        eventually("the stream has a leader", SOON, || {
            let info = self.jetstream().try_api(&format!("STREAM.INFO.{stream}"), &Value::Null).ok()?;
            let leader = info["cluster"]["leader"].as_str()?;
            self.nodes.iter().position(|node| node.name == leader)
        })
    }
}
