//! A nats-server process with JetStream on files, on ports and in a folder of its own.

use super::process::Process;
use super::{Folder, JetStream, SOON, eventually, free_port, tool};
use std::process::{Command, Stdio};

/// The newest server that we pin, and the oldest that we serve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    Newest,
    Oldest,
}

pub struct Nats {
    pub port: u16,
    version: Version,
    process: Option<Process>,
    folder: Folder,
}

impl Nats {
    /// Starts a server with the documented max_payload of 8 MiB.
    pub fn start(version: Version) -> Nats {
        Nats::with_max_payload(version, 8 * 1024 * 1024)
    }

    pub fn with_max_payload(version: Version, max_payload: usize) -> Nats {
        let mut nats = Nats::not_started(version, max_payload);
        nats.restart();
        nats
    }

    /// With room for so much on disk, as nats-server writes sizes.
    pub fn with_room(version: Version, max_file_store: &str) -> Nats {
        let mut nats = Nats::settled(version, 8 * 1024 * 1024, max_file_store);
        nats.restart();
        nats
    }

    /// Its port and folder are settled, nothing listens yet: `restart` starts it.
    pub fn not_started(version: Version, max_payload: usize) -> Nats {
        Nats::settled(version, max_payload, "1TB")
    }

    fn settled(version: Version, max_payload: usize, max_file_store: &str) -> Nats {
        let folder = Folder::new("nats");
        let port = free_port();
        let store = folder.path().join("data");
        let config = format!(
            "listen: \"127.0.0.1:{port}\"\nmax_payload: {max_payload}\n\
             jetstream {{ store_dir: \"{}\", max_file_store: {max_file_store} }}\n",
            store.display()
        );
        std::fs::write(folder.path().join("nats.conf"), config).expect("the configuration is written");
        Nats { port, version, process: None, folder }
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Starts it (again) on the same ports and data.
    pub fn restart(&mut self) {
        self.kill();
        let binary = match self.version {
            Version::Newest => tool("nats-server"),
            Version::Oldest => tool("nats-server-2.10"),
        };
        let mut command = Command::new(binary);
        command.arg("-c").arg(self.folder.path().join("nats.conf")).stdout(Stdio::null());
        let process = self.process.insert(Process::start(command, &self.folder.path().join("log")));
        let port = self.port;
        eventually("nats-server answers", SOON, || {
            assert!(process.exited().is_none(), "nats-server exited:\n{}", process.log_tail());
            JetStream::try_connect(port).ok()?.account_ready().then_some(())
        });
    }

    /// kill -9.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Freezes it: its connections stay open, nothing is answered.
    pub fn freeze(&self) {
        let process = self.process.as_ref().expect("it runs");
        process.signal(libc::SIGSTOP);
        eventually("all of its threads have stopped", SOON, || process.is_stopped().then_some(()));
    }

    pub fn thaw(&self) {
        self.process.as_ref().expect("it runs").signal(libc::SIGCONT);
    }

    pub fn jetstream(&self) -> JetStream {
        JetStream::try_connect(self.port).expect("nats-server answers")
    }
}

/// Makes each function a test against the newest and the oldest nats-server, `name::newest` and `name::oldest`.
#[macro_export]
macro_rules! on_each_server {
    ($($(#[$doc:meta])* fn $name:ident($version:ident) $body:block)+) => {$(
        $(#[$doc])*
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            fn check($version: $crate::harness::Version) $body

            #[test]
            fn newest() {
                check($crate::harness::Version::Newest);
            }

            #[test]
            fn oldest() {
                check($crate::harness::Version::Oldest);
            }
        }
    )+};
}
