//! Tells a service manager how the process fares: systemd's notify protocol (sd_notify(3)), datagrams to a Unix socket.
//!
//! Without a manager that asked for it, nothing is sent.

use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Where the manager listens, and how often it wants to hear.
pub struct Notifier {
    to: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl Notifier {
    /// As the environment says: `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`. Errors: a socket that cannot be meant.
    pub fn from_env() -> Result<Notifier, String> {
        Self::new(|name| std::env::var(name).ok(), std::process::id())
    }

    fn new(variable: impl Fn(&str) -> Option<String>, pid: u32) -> Result<Notifier, String> {
        let Some(socket) = variable("NOTIFY_SOCKET").filter(|socket| !socket.is_empty()) else {
            return Ok(Notifier { to: None, watchdog: None });
        };
        let unusable =
            |why: io::Error| format!("NOTIFY_SOCKET {socket}: {why}; leave it unset without a service manager");
        let address = address(&socket).map_err(unusable)?;
        let from = UnixDatagram::unbound().map_err(unusable)?;
        let meant = variable("WATCHDOG_PID").is_none_or(|text| text.parse() == Ok(pid));
        let microseconds = variable("WATCHDOG_USEC").and_then(|text| text.parse().ok()).filter(|n| *n > 0 && meant);
        Ok(Notifier { to: Some((from, address)), watchdog: microseconds.map(Duration::from_micros) })
    }

    /// Whether somebody listens.
    pub fn is_heard(&self) -> bool {
        self.to.is_some()
    }

    /// The manager kills a process that says `alive` less often than this.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// The process serves.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={}", one_line(status)));
    }

    pub fn status(&self, status: &str) {
        self.send(&format!("STATUS={}", one_line(status)));
    }

    pub fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    pub fn stopping(&self, status: &str) {
        self.send(&format!("STOPPING=1\nSTATUS={}", one_line(status)));
    }

    /// A manager that cannot be told is no reason to stop serving.
    fn send(&self, state: &str) {
        if let Some((from, to)) = &self.to {
            let _ = from.send_to_addr(state.as_bytes(), to);
        }
    }
}

/// A path, or `@` and a name for Linux's abstract sockets.
fn address(socket: &str) -> io::Result<SocketAddr> {
    match socket.strip_prefix('@') {
        #[cfg(target_os = "linux")]
        Some(name) => {
            use std::os::linux::net::SocketAddrExt;
            SocketAddr::from_abstract_name(name)
        }
        None if socket.starts_with('/') => SocketAddr::from_pathname(socket),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a path from / nor @ and a name")),
    }
}

/// A line break would begin another assignment.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notifier(variables: &[(&str, &str)]) -> Result<Notifier, String> {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Notifier::new(variable, 7)
    }

    #[track_caller]
    fn check(listener: &UnixDatagram, socket: &str) {
        let notifier = notifier(&[("NOTIFY_SOCKET", socket)]).expect("a good socket");
        assert!(notifier.is_heard());
        listener.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout can be set");
        let heard = || {
            let mut bytes = [0; 256];
            let count = listener.recv(&mut bytes).expect("a datagram");
            String::from_utf8_lossy(&bytes[..count]).into_owned()
        };
        notifier.ready("serving\nMAINPID=1");
        assert_eq!(heard(), "READY=1\nSTATUS=serving MAINPID=1");
        notifier.alive();
        assert_eq!(heard(), "WATCHDOG=1");
        notifier.status("well");
        assert_eq!(heard(), "STATUS=well");
        notifier.stopping("ends");
        assert_eq!(heard(), "STOPPING=1\nSTATUS=ends");
    }

    #[test]
    fn datagrams_reach_a_socket_with_a_path() {
        let path = std::env::temp_dir().join(format!("hanzo-kafka-notify-{}", std::process::id()));
        let listener = UnixDatagram::bind(&path).expect("a socket in the temporary folder");
        check(&listener, path.to_str().expect("a path of ours"));
        drop(listener);
        std::fs::remove_file(path).expect("it was made");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn datagrams_reach_an_abstract_socket() {
        use std::os::linux::net::SocketAddrExt;
        let name = format!("hanzo-kafka-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a short name");
        let listener = UnixDatagram::bind_addr(&address).expect("a free name");
        check(&listener, &format!("@{name}"));
    }

    #[test]
    fn the_watchdog_is_for_the_process_it_names() {
        let socket = ("NOTIFY_SOCKET", "/nobody/listens");
        let period = |variables: &[(&str, &str)]| notifier(variables).expect("a good socket").watchdog();
        assert_eq!(period(&[socket, ("WATCHDOG_USEC", "30000000")]), Some(Duration::from_secs(30)));
        assert_eq!(period(&[socket, ("WATCHDOG_USEC", "1000"), ("WATCHDOG_PID", "7")]), Some(Duration::from_millis(1)));
        assert_eq!(period(&[socket, ("WATCHDOG_USEC", "1000"), ("WATCHDOG_PID", "8")]), None);
        assert_eq!(period(&[socket, ("WATCHDOG_USEC", "0")]), None);
        assert_eq!(period(&[("WATCHDOG_USEC", "1000")]), None);
    }

    #[test]
    fn without_a_manager_nothing_is_sent_and_a_bad_socket_is_told() {
        let silent = notifier(&[]).expect("no manager is fine");
        assert!(!silent.is_heard());
        silent.ready("x");
        notifier(&[("NOTIFY_SOCKET", "/nobody/listens")]).expect("a good path").ready("nobody hears");
        let why = notifier(&[("NOTIFY_SOCKET", "relative")]).map(drop).expect_err("no such kind of socket");
        assert!(why.contains("NOTIFY_SOCKET relative"), "{why}");
    }
}
