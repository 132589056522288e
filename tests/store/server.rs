//! A nats-server of our own for one test: on a free port, with its own directory, gone with the test.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The newest server: `NATS_SERVER`, or where `make` puts it, or on the PATH.
pub fn newest() -> PathBuf {
    binary("NATS_SERVER", ".tools/nats-server")
}

/// The oldest server that is served (2.10).
pub fn oldest() -> PathBuf {
    binary("NATS_SERVER_OLD", ".tools/nats-server-2.10")
}

fn binary(variable: &str, place: &str) -> PathBuf {
    if let Some(path) = std::env::var_os(variable) {
        return path.into();
    }
    let made = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(place);
    if made.exists() { made } else { PathBuf::from("nats-server") }
}

pub struct Server {
    binary: PathBuf,
    dir: PathBuf,
    port: u16,
    max_payload: usize,
    /// More lines for its configuration.
    extra: String,
    child: Option<Child>,
}

impl Server {
    pub fn start(binary: PathBuf) -> Server {
        let mut server = Server::unstarted(binary);
        server.up();
        server
    }

    pub fn with_max_payload(binary: PathBuf, max_payload: usize) -> Server {
        let mut server = Server::unstarted(binary);
        server.max_payload = max_payload;
        server.up();
        server
    }

    /// A server with more lines in its configuration.
    pub fn configured(binary: PathBuf, extra: &str) -> Server {
        let mut server = Server::unstarted(binary);
        server.configure(extra);
        server.up();
        server
    }

    /// Sets more lines of its configuration, before it is brought `up`.
    pub fn configure(&mut self, extra: &str) {
        self.extra = extra.to_owned();
    }

    /// A server that will listen at `url` once it is brought `up`.
    pub fn unstarted(binary: PathBuf) -> Server {
        let port = TcpListener::bind("127.0.0.1:0").expect("a port is free").local_addr().expect("it is bound").port();
        let dir = std::env::temp_dir().join(format!("hanzo-kafka-store-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("the temporary directory is writable");
        Server { binary, dir, port, max_payload: 1 << 20, extra: String::new(), child: None }
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    pub fn up(&mut self) {
        let config = self.dir.join("nats.conf");
        let text = format!(
            "listen: 127.0.0.1:{}\nmax_payload: {}\njetstream {{ store_dir: {:?} }}\n{}\n",
            self.port,
            self.max_payload,
            self.dir.join("data"),
            self.extra
        );
        std::fs::write(&config, text).expect("the directory is writable");
        let child =
            Command::new(&self.binary).arg("-c").arg(&config).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.child = Some(child.expect("nats-server is where it should be"));
        let until = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(self.address()).is_err() {
            assert!(Instant::now() < until, "nats-server does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Stops the process in its tracks, as a machine does that is paused: its sockets stay open.
    pub fn freeze(&self) {
        self.signal(libc::SIGSTOP);
        while !self.is_frozen() {
            std::thread::yield_now();
        }
    }

    pub fn thaw(&self) {
        self.signal(libc::SIGCONT);
    }

    fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    fn signal(&self, signal: i32) {
        // SAFETY: kill touches no memory; the child is not reaped, so the id is its own.
        let done = unsafe { libc::kill(i32::try_from(self.pid()).expect("pids are small"), signal) };
        assert_eq!(done, 0);
    }

    /// Whether every thread has stopped, which takes a moment.
    fn is_frozen(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("it runs").flatten();
        let mut states = threads.map(|thread| std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default());
        states.all(|stat| stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T')))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
