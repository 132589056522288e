//! What the integration tests stand on: real servers, a gateway process, clients. Whatever a test starts dies with it.

pub mod balancer;
pub mod batch;
pub mod cluster;
pub mod commands;
pub mod gateway;
pub mod http;
pub mod jetstream;
pub mod librdkafka;
pub mod nats;
pub mod process;
pub mod wire;

pub use gateway::Gateway;
pub use jetstream::JetStream;
pub use nats::{Nats, Version};
pub use wire::Wire;

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a test waits for what should come soon, on a machine that is busy.
pub const SOON: Duration = Duration::from_secs(30);

/// Polls `condition` until it gives a value; panics with `what` when `limit` has passed.
#[track_caller]
pub fn eventually<T>(what: &str, limit: Duration, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A port that nobody listens on, from below the range that outgoing connections take theirs from: it stays free while
/// the server that has it is down.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 12_000;
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + (std::process::id().wrapping_mul(97).wrapping_add(step)) % COUNT;
        let port = u16::try_from(port).expect("below 65536");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free");
}

/// A folder of its own for a server's data and log, removed when dropped.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(kind: &str) -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{kind}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).expect("a folder below the target folder");
        Folder(path)
    }

    pub fn path(&self) -> &std::path::Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A name that no other test uses.
pub fn unique(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{prefix}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A file that `make tools` put into `.tools`.
pub fn tool(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(".tools").join(name);
    assert!(path.exists(), "{} is missing: run `make tools`", path.display());
    path
}
