//! A child process that is killed when it is dropped, whatever became of the test.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`, its standard error appended to `log`; its output too, unless the caller set another.
    pub fn start(mut command: Command, log: &Path) -> Process {
        let sink = File::options().create(true).append(true).open(log).expect("the log file opens");
        command.stdin(Stdio::null()).stderr(sink);
        die_with_the_test(&mut command);
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        Process { child, log: log.to_owned() }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn take_stdout(&mut self) -> std::process::ChildStdout {
        self.child.stdout.take().expect("its output was piped")
    }

    pub fn signal(&self, signal: libc::c_int) {
        let pid = libc::pid_t::try_from(self.child.id()).expect("a pid fits");
        // SAFETY: kill has no memory effects; the pid is our own child's, not yet waited for.
        unsafe { libc::kill(pid, signal) };
    }

    /// Whether no thread of it runs any more, after SIGSTOP; where the system does not tell, it is believed.
    pub fn is_stopped(&self) -> bool {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", self.pid())) else { return true };
        threads.flatten().all(|thread| {
            // The state follows the name, which stands in parentheses.
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
        })
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// SIGTERM, and waits until it has exited by itself.
    #[track_caller]
    pub fn terminate(&mut self, limit: Duration) -> ExitStatus {
        self.signal(libc::SIGTERM);
        super::eventually("the process exits after SIGTERM", limit, || self.exited())
    }

    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// All that it logged.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Whether its log holds this text.
    pub fn logged(&self, text: &str) -> bool {
        self.log().contains(text)
    }

    /// The end of what it logged.
    pub fn log_tail(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let from = text.len().saturating_sub(8_000);
        String::from_utf8_lossy(&text[from..]).into_owned()
    }

    /// How many threads it has, where the system tells.
    pub fn threads(&self) -> Option<usize> {
        Some(std::fs::read_dir(format!("/proc/{}/task", self.pid())).ok()?.count())
    }

    /// Resident memory in bytes, where the system tells.
    pub fn resident_bytes(&self) -> Option<u64> {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.pid())).ok()?;
        let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
        Some(pages * 4096)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A stopped process must be killed too: SIGKILL needs no SIGCONT.
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- the end of {}:\n{}", self.log.display(), self.log_tail());
        }
    }
}

/// A test run that is killed hard runs no destructors: on Linux the kernel then kills the child.
fn die_with_the_test(command: &mut Command) {
    #[cfg(target_os = "linux")]
    // SAFETY: prctl is async-signal-safe and touches nothing of the parent.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command;
}
