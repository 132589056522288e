//! A gateway process, on ports of its own.

use super::process::Process;
use super::{Folder, Nats, Wire, eventually, free_port};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const READY: &str = "hanzo-kafka is ready";

pub struct Gateway {
    pub port: u16,
    pub admin_port: u16,
    environment: Vec<(String, String)>,
    arguments: Vec<String>,
    process: Option<Process>,
    folder: Folder,
}

impl Gateway {
    /// A gateway on `nats`, ready to serve. Groups start at once and topics get one partition, unless `flags` say else.
    pub fn start(nats: &Nats, flags: &[&str]) -> Gateway {
        let mut gateway = Gateway::not_ready(&nats.url(), flags);
        gateway.wait_ready();
        gateway
    }

    /// Started, not waited for.
    pub fn not_ready(pubsub_url: &str, flags: &[&str]) -> Gateway {
        let mut gateway = Gateway::not_started(flags);
        gateway.arguments.extend(["--pubsub-url".to_owned(), pubsub_url.to_owned()]);
        gateway.spawn();
        gateway
    }

    /// Like `not_ready`, with environment variables.
    pub fn in_environment(pubsub_url: &str, flags: &[&str], environment: &[(&str, &str)]) -> Gateway {
        let mut gateway = Gateway::not_started(flags);
        gateway.arguments.extend(["--pubsub-url".to_owned(), pubsub_url.to_owned()]);
        gateway.environment = environment.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        gateway.spawn();
        gateway
    }

    /// With a nats-server of its own below `data_dir`.
    pub fn embedded(data_dir: &std::path::Path, flags: &[&str]) -> Gateway {
        let mut gateway = Gateway::not_started(flags);
        let text = |path: &std::path::Path| path.to_str().expect("a path of ours is UTF-8").to_owned();
        gateway.arguments.push("--embedded".to_owned());
        gateway.arguments.extend(["--data-dir".to_owned(), text(data_dir)]);
        gateway.arguments.extend(["--nats-server".to_owned(), text(&super::tool("nats-server"))]);
        gateway.spawn();
        gateway.wait_ready();
        gateway
    }

    fn not_started(flags: &[&str]) -> Gateway {
        let (port, admin_port) = (free_port(), free_port());
        let defaults = [
            format!("--port={port}"),
            format!("--admin-port={admin_port}"),
            "--host=127.0.0.1".to_owned(),
            "--group-initial-rebalance-delay=0s".to_owned(),
            "--log-level=debug".to_owned(),
        ];
        let asked = |argument: &&String| {
            let name = argument.split('=').next();
            !flags.iter().any(|flag| flag.split('=').next() == name)
        };
        let mut arguments: Vec<String> = defaults.iter().filter(asked).cloned().collect();
        arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        if !flags.iter().any(|flag| flag.starts_with("--advertise")) {
            arguments.push(format!("--advertise=127.0.0.1:{port}"));
        }
        Gateway { port, admin_port, environment: Vec::new(), arguments, process: None, folder: Folder::new("gateway") }
    }

    fn spawn(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hanzo-kafka"));
        command.args(&self.arguments).stdout(Stdio::piped()).env("RUST_BACKTRACE", "1");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        self.process = Some(Process::start(command, &self.log()));
    }

    /// Waits for the line that says it is ready; gives how long that took.
    #[track_caller]
    pub fn wait_ready(&mut self) -> Duration {
        let started = Instant::now();
        let process = self.process.as_mut().expect("it was started");
        let (sender, lines) = crossbeam_channel::unbounded();
        let output = BufReader::new(process.take_stdout());
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let deadline = started + Duration::from_secs(30);
        loop {
            match lines.recv_deadline(deadline) {
                Ok(line) if line.starts_with(READY) => return started.elapsed(),
                Ok(_) => {}
                Err(_) => panic!("the gateway did not say that it is ready"),
            }
        }
    }

    pub fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("the gateway runs")
    }

    /// The file that it logs to, through all its lives.
    pub fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Whether it was started and neither killed nor terminated since.
    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    pub fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn wire(&self) -> Wire {
        Wire::connect(self.port)
    }

    /// All that it logged, also when it runs no more.
    pub fn log_text(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.folder.path().join("log")).unwrap_or_default()).into_owned()
    }

    /// kill -9.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// SIGTERM, and waits until it is gone.
    #[track_caller]
    pub fn terminate(&mut self) -> ExitStatus {
        let mut process = self.process.take().expect("it runs");
        process.terminate(Duration::from_secs(20))
    }

    /// Starts it again, on the same port and with the same flags, after `kill` or `terminate`.
    #[track_caller]
    pub fn restart(&mut self) {
        self.kill();
        self.spawn();
        self.wait_ready();
    }

    /// Waits until a connection is taken, for a gateway that is up but has no store.
    #[track_caller]
    pub fn wait_listening(&self) {
        let port = self.port;
        eventually("the gateway listens", super::SOON, || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
    }
}
