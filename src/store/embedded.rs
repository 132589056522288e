//! A nats-server of our own: found, configured, started, restarted when it dies, stopped with us.
//!
//! Two things keep a data directory from ever having two servers: a lock that the child inherits, so that it is free
//! only when gateway and server are both gone; and, on Linux, a kernel promise that the child is killed when its parent is.

use super::nats::servers::{is_new_enough, jetstream_answers};
use crate::config;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use slog::{Logger, error, info, warn};
use std::fs::{File, OpenOptions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use std::{fmt, thread};

/// Above 8 MiB the server warns; Kafka's default of 1 MiB and a bit is well below it.
const MAX_PAYLOAD_BYTES: usize = 8 << 20;

/// The server's own log file is rotated at this size, once; an older process's file is, too.
const LOG_BYTES_MAX: u64 = 16 << 20;

/// JetStream sets each stream's max_bytes aside when the stream is made, and by itself lets three quarters of the free disk be
/// set aside: a hundred partitions with the default retention on a common disk. Kafka sets nothing aside, nor do we.
const FILE_STORE_BYTES_MAX: u64 = 1 << 50;

/// A big store takes its time to be read at start.
const READY_PATIENCE: Duration = Duration::from_secs(60);

/// How long a server left over from a killed run may hold the data directory.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// After SIGTERM; then SIGKILL. What was acknowledged is on disk or in the page cache either way.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

const RESTART_DELAY_MIN: Duration = Duration::from_millis(100);
const RESTART_DELAY_MAX: Duration = Duration::from_secs(5);

/// A server that lived so long was healthy: the next restart is quick again.
const HEALTHY_AFTER: Duration = Duration::from_secs(30);

/// Why there is no embedded server, in words for the operator.
#[derive(Debug)]
pub enum EmbeddedError {
    /// No binary: the places that were tried.
    NotFound(Vec<PathBuf>),
    NotRunnable {
        binary: PathBuf,
        why: String,
    },
    TooOld {
        binary: PathBuf,
        version: String,
    },
    DataDir {
        path: PathBuf,
        why: String,
    },
    InUse {
        path: PathBuf,
    },
    /// The server did not become ready: what it said last.
    NotReady {
        why: String,
        log: String,
    },
}

impl fmt::Display for EmbeddedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EmbeddedError::NotFound(tried) => {
                f.write_str("--nats-server: none was found on PATH or at")?;
                tried.iter().try_for_each(|path| write!(f, " {}", path.display()))?;
                f.write_str("; install one, or name it")
            }
            EmbeddedError::NotRunnable { binary, why } => write!(
                f,
                "--nats-server {}: it cannot be run ({why}); name an executable nats-server",
                binary.display()
            ),
            EmbeddedError::TooOld { binary, version } => {
                write!(f, "--nats-server {}: it is {version}; 2.10 or newer is needed, upgrade it", binary.display())
            }
            EmbeddedError::DataDir { path, why } => {
                write!(
                    f,
                    "--data-dir {}: it cannot be used ({why}); name one that this user may write to",
                    path.display()
                )
            }
            EmbeddedError::InUse { path } => {
                write!(
                    f,
                    "--data-dir {}: in use by another gateway or its nats-server; stop that, or name another",
                    path.display()
                )
            }
            EmbeddedError::NotReady { why, log } => {
                let last = log.lines().last().unwrap_or_default();
                write!(f, "--embedded: nats-server did not start ({why}); its last words: {last}")
            }
        }
    }
}

impl std::error::Error for EmbeddedError {}

/// A running, supervised server. Dropping it stops the server.
pub struct Embedded {
    shared: Arc<Shared>,
    stop: Sender<()>,
    stopped: Receiver<()>,
}

struct Shared {
    binary: PathBuf,
    data_dir: PathBuf,
    address: SocketAddr,
    logger: Logger,
    /// The child, while it runs. Held while it is signalled or reaped, so that no other process is ever meant.
    child: Mutex<Running>,
    /// Held by us and, inherited, by the child.
    lock: File,
}

#[derive(Default)]
struct Running {
    child: Option<Child>,
    /// No other child is to be started.
    stopping: bool,
}

impl Embedded {
    /// Starts the server and waits until JetStream answers.
    pub fn start(config: &config::Embedded, logger: Logger) -> Result<Embedded, EmbeddedError> {
        let binary = find_binary(config.nats_server.as_deref())?;
        check_version(&binary)?;
        let unusable = |e: io::Error| EmbeddedError::DataDir { path: config.data_dir.clone(), why: e.to_string() };
        std::fs::create_dir_all(&config.data_dir).map_err(unusable)?;
        // Absolute, as the server and its configuration file must agree on it.
        let data_dir = config.data_dir.canonicalize().map_err(unusable)?;
        let lock = lock(&data_dir)?;
        let address = free_address().map_err(unusable)?;
        rotate_log(&data_dir).map_err(unusable)?;
        write_config(&data_dir, address).map_err(unusable)?;
        let shared = Arc::new(Shared { binary, data_dir, address, logger, child: Mutex::default(), lock });
        let (stop, stop_asked) = bounded(1);
        let (has_stopped, stopped) = bounded(1);
        let (started, is_started) = bounded(1);
        let keeper = shared.clone();
        // The kernel's promise to kill the child is tied to the thread that started it, so it is one that stays.
        let spawned = thread::Builder::new().name("nats-keeper".to_owned()).spawn(move || {
            keeper.keep(&stop_asked, &started);
            let _ = has_stopped.send(());
        });
        spawned.map_err(unusable)?;
        let embedded = Embedded { shared, stop, stopped };
        is_started.recv().expect("the keeper reports its first start").map_err(unusable)?;
        embedded.wait_ready()?;
        Ok(embedded)
    }

    /// Where the server listens; stays the same when it is restarted.
    pub fn url(&self) -> String {
        format!("nats://{}", self.shared.address)
    }

    /// The server's process id while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.shared.running().child.as_ref().map(Child::id)
    }

    /// Stops the server gracefully, or after a while by force. Returns when it is gone.
    pub fn stop(&self) {
        self.shared.running().stopping = true;
        let _ = self.stop.try_send(());
        self.shared.signal(libc::SIGTERM);
        if self.stopped.recv_timeout(STOP_PATIENCE) == Err(RecvTimeoutError::Timeout) {
            warn!(self.shared.logger, "the embedded nats-server does not stop; killing it");
            self.shared.signal(libc::SIGKILL);
            let _ = self.stopped.recv_timeout(Duration::from_secs(1));
        }
        if self.pid().is_none() {
            // SAFETY: flock touches no memory; the descriptor is open as long as we are.
            unsafe { libc::flock(self.shared.lock.as_raw_fd(), libc::LOCK_UN) };
        }
    }

    fn wait_ready(&self) -> Result<(), EmbeddedError> {
        let until = Instant::now() + READY_PATIENCE;
        loop {
            let why = match jetstream_answers(self.shared.address, Duration::from_secs(1)) {
                Ok(()) => return Ok(()),
                Err(why) => why,
            };
            let has_died = self.shared.running().child.is_none();
            if has_died || Instant::now() > until {
                let why = if has_died { "it ended".to_owned() } else { why };
                return Err(EmbeddedError::NotReady { why, log: log_tail(&self.shared.data_dir) });
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn running(&self) -> MutexGuard<'_, Running> {
        self.child.lock().expect("no holder panics")
    }

    /// Runs the server again and again until asked to stop.
    fn keep(&self, stop_asked: &Receiver<()>, first_start: &Sender<io::Result<()>>) {
        let mut delay = RESTART_DELAY_MIN;
        loop {
            let began = Instant::now();
            match self.spawn() {
                Ok(pid) => {
                    let _ = first_start.try_send(Ok(()));
                    if let Some(pid) = pid {
                        self.wait(pid);
                    }
                }
                Err(e) => {
                    error!(self.logger, "nats-server cannot be started"; "why" => %e);
                    let _ = first_start.try_send(Err(e));
                }
            }
            if began.elapsed() > HEALTHY_AFTER {
                delay = RESTART_DELAY_MIN;
            }
            if stop_asked.recv_timeout(delay).is_ok() {
                return info!(self.logger, "the embedded nats-server has stopped");
            }
            warn!(self.logger, "the embedded nats-server ended; starting it again"; "log" => %log_path(&self.data_dir).display());
            delay = (delay * 2).min(RESTART_DELAY_MAX);
        }
    }

    /// Starts the child and gives its process id, unless it is not wanted any more.
    fn spawn(&self) -> io::Result<Option<u32>> {
        let mut running = self.running();
        if running.stopping {
            return Ok(None);
        }
        let log = OpenOptions::new().create(true).append(true).open(log_path(&self.data_dir))?;
        let lock = self.lock.as_raw_fd();
        let mut command = Command::new(&self.binary);
        command.arg("-c").arg(config_path(&self.data_dir));
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // A Ctrl-C in the terminal is for us: the server is stopped when we have finished with it.
        command.process_group(0);
        let parent = std::process::id();
        // SAFETY: between fork and exec only system calls that POSIX allows there are made, and no memory is allocated.
        unsafe {
            command.pre_exec(move || before_exec(lock, parent));
        }
        let child = command.spawn()?;
        let pid = child.id();
        running.child = Some(child);
        Ok(Some(pid))
    }

    /// Waits until the child has ended, and reaps it.
    fn wait(&self, pid: u32) {
        loop {
            // SAFETY: siginfo_t is plain data, and waitid only writes to it. WNOWAIT leaves the id taken until the
            // child is reaped under the lock.
            let ended = unsafe {
                let mut info: libc::siginfo_t = std::mem::zeroed();
                libc::waitid(libc::P_PID, pid, &mut info, libc::WEXITED | libc::WNOWAIT)
            };
            if ended == 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                break;
            }
        }
        let mut running = self.running();
        if let Some(mut child) = running.child.take() {
            let _ = child.wait();
        }
    }

    fn signal(&self, signal: i32) {
        let running = self.running();
        if let Some(pid) = running.child.as_ref().and_then(|child| i32::try_from(child.id()).ok()) {
            // SAFETY: kill touches no memory; the child is not reaped while the lock is held, so the id is its own.
            unsafe { libc::kill(pid, signal) };
        }
    }
}

/// Runs in the child: keeps the lock open over exec, and asks the kernel to kill the server when we die.
fn before_exec(lock: i32, parent: u32) -> io::Result<()> {
    // SAFETY: fcntl, prctl and getppid touch no memory of ours.
    unsafe {
        if libc::fcntl(lock, libc::F_SETFD, 0) == -1 {
            return Err(io::Error::last_os_error());
        }
        #[cfg(target_os = "linux")]
        {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == -1 {
                return Err(io::Error::last_os_error());
            }
            // We may have died before the promise was made.
            if u32::try_from(libc::getppid()) != Ok(parent) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = parent;
    }
    Ok(())
}

/// The given path; else PATH; else where `make` puts it, seen from here and from beside the executable.
fn find_binary(given: Option<&Path>) -> Result<PathBuf, EmbeddedError> {
    let mut tried = Vec::new();
    let mut take = |path: PathBuf| {
        let found = is_executable(&path);
        tried.push(path.clone());
        found.then_some(path)
    };
    let found = match given {
        Some(path) => take(path.to_owned()),
        None => {
            let on_path = std::env::var_os("PATH").unwrap_or_default();
            let on_path = std::env::split_paths(&on_path).map(|dir| dir.join("nats-server")).find(|p| is_executable(p));
            let made = Path::new(".tools/nats-server");
            let beside = std::env::current_exe().ok();
            let beside = beside.iter().flat_map(|exe| exe.ancestors().skip(1).take(3)).map(|dir| dir.join(made));
            on_path.or_else(|| take(made.to_owned())).or_else(|| beside.collect::<Vec<_>>().into_iter().find_map(take))
        }
    };
    found.ok_or(EmbeddedError::NotFound(tried))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn check_version(binary: &Path) -> Result<(), EmbeddedError> {
    let not_runnable = |why: String| EmbeddedError::NotRunnable { binary: binary.to_owned(), why };
    let output = Command::new(binary).arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(|e| not_runnable(e.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version =
        text.trim().strip_prefix("nats-server: ").ok_or_else(|| not_runnable("it is no nats-server".into()))?;
    match is_new_enough(version) {
        true => Ok(()),
        false => Err(EmbeddedError::TooOld { binary: binary.to_owned(), version: version.to_owned() }),
    }
}

fn lock(data_dir: &Path) -> Result<File, EmbeddedError> {
    let unusable = |e: io::Error| EmbeddedError::DataDir { path: data_dir.to_owned(), why: e.to_string() };
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).open(data_dir.join("lock")).map_err(unusable)?;
    let until = Instant::now() + LOCK_PATIENCE;
    // SAFETY: flock touches no memory; the descriptor is open.
    while unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == -1 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::WouldBlock && error.kind() != io::ErrorKind::Interrupted {
            return Err(unusable(error));
        }
        if Instant::now() > until {
            return Err(EmbeddedError::InUse { path: data_dir.to_owned() });
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(file)
}

fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

fn log_path(data_dir: &Path) -> PathBuf {
    data_dir.join("nats-server.log")
}

fn config_path(data_dir: &Path) -> PathBuf {
    data_dir.join("nats-server.conf")
}

fn rotate_log(data_dir: &Path) -> io::Result<()> {
    let path = log_path(data_dir);
    match path.metadata() {
        Ok(meta) if meta.len() > LOG_BYTES_MAX => std::fs::rename(&path, data_dir.join("nats-server.log.1")),
        _ => Ok(()),
    }
}

fn write_config(data_dir: &Path, address: SocketAddr) -> io::Result<()> {
    let quoted = |path: PathBuf| format!("{:?}", path.as_os_str().to_string_lossy());
    let text = format!(
        "# Written by hanzo-kafka at every start.\n\
         server_name: \"hanzo-kafka-embedded\"\n\
         listen: \"{address}\"\n\
         max_payload: {MAX_PAYLOAD_BYTES}\n\
         log_file: {log}\n\
         logfile_size_limit: {LOG_BYTES_MAX}\n\
         logfile_max_num: 2\n\
         jetstream {{\n  store_dir: {store}\n  max_file_store: {FILE_STORE_BYTES_MAX}\n}}\n",
        log = quoted(log_path(data_dir)),
        store = quoted(data_dir.to_owned()),
    );
    std::fs::write(config_path(data_dir), text)
}

/// The last lines of the server's log.
fn log_tail(data_dir: &Path) -> String {
    let text = std::fs::read(log_path(data_dir)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_or_foreign_binary_is_named() {
        let missing = PathBuf::from("/nowhere/nats-server");
        match find_binary(Some(&missing)) {
            Err(EmbeddedError::NotFound(tried)) => assert_eq!(tried, [missing]),
            other => panic!("{other:?}"),
        }
        let echo = Path::new("/bin/echo");
        assert!(matches!(check_version(echo), Err(EmbeddedError::NotRunnable { .. })));
    }
}
