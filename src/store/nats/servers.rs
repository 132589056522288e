//! Which servers there are: URLs, credentials, and a look at a server before the crate, which has no timeouts, is let on it.

use super::NatsError;
use crate::config::{NatsLogin, Secret};
use nats::{Options, ServerAddress};
use nkeys::KeyPair;
use serde_json::Value;
use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::{Duration, Instant};

/// Discovered servers are remembered up to this count.
const SERVERS_MAX: usize = 64;

/// The crate cannot read a longer INFO line.
const INFO_BYTES_MAX: usize = 4096;

/// The oldest version served: below it JetStream lacks what the gateway's guards need.
pub const VERSION_MIN: (u32, u32) = (2, 10);

/// A server to connect to. Shows as `host:port`, never with its password.
#[derive(Clone)]
pub struct Server {
    host: String,
    port: u16,
    login: NatsLogin,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl Server {
    fn parse(url: &str, login: &NatsLogin) -> Result<Server, NatsError> {
        let bad = |why: &str| NatsError::Url { url: without_password(url), why: why.to_owned() };
        if url.trim_start().to_ascii_lowercase().starts_with("tls://") {
            return Err(NatsError::Tls { url: without_password(url) });
        }
        let address: ServerAddress = url.trim().parse().map_err(|e: std::io::Error| bad(&e.to_string()))?;
        if address.host().is_empty() {
            return Err(bad("it names no host"));
        }
        let (host, port) = (address.host().to_owned(), address.port());
        let url = address.into_inner();
        let decoded = |text: &str| percent_decoded(text).ok_or_else(|| bad("its user or password is not UTF-8"));
        let login = match (login, url.username(), url.password()) {
            (NatsLogin::InUrls, "", _) => NatsLogin::InUrls,
            (NatsLogin::InUrls, token, None) => NatsLogin::Token(Secret::Text(decoded(token)?)),
            (NatsLogin::InUrls, user, Some(password)) => {
                NatsLogin::Password { user: decoded(user)?, password: Secret::Text(decoded(password)?) }
            }
            (login, ..) => login.clone(),
        };
        Ok(Server { host, port, login })
    }

    /// The crate's options with this server's login, and the address to give it. Reads the login's files.
    pub fn options(&self) -> Result<(Options, String), NatsError> {
        Ok((options(&self.login)?, format!("nats://{self}")))
    }
}

fn options(login: &NatsLogin) -> Result<Options, NatsError> {
    Ok(match login {
        NatsLogin::InUrls => Options::new(),
        NatsLogin::Token(token) => Options::with_token(&text_of(token)?),
        NatsLogin::Password { user, password } => Options::with_user_pass(user, &text_of(password)?),
        NatsLogin::Credentials(path) => {
            read(path)?;
            Options::with_credentials(path)
        }
        NatsLogin::Nkey(path) => {
            // Comments and blank lines may stand around the seed, as around one that nsc or nk wrote.
            let text = read(path)?;
            let seed = text.lines().map(str::trim).find(|line| line.starts_with('S')).unwrap_or_default();
            let failed = |why: String| NatsError::Login { path: path.clone(), why };
            let pair = KeyPair::from_seed(seed).map_err(|e| failed(format!("it holds no nkey seed: {e}")))?;
            // Checked once, so that signing cannot fail later.
            pair.sign(b"").map_err(|e| failed(e.to_string()))?;
            Options::with_nkey(&pair.public_key(), move |nonce| pair.sign(nonce).unwrap_or_default())
        }
    })
}

fn text_of(secret: &Secret) -> Result<String, NatsError> {
    match secret {
        Secret::Text(text) => Ok(text.clone()),
        Secret::File(path) => read(path).map(|text| text.trim_end_matches(['\r', '\n']).to_owned()),
    }
}

fn read(path: &Path) -> Result<String, NatsError> {
    std::fs::read_to_string(path).map_err(|e| NatsError::Login { path: path.to_owned(), why: e.to_string() })
}

/// The configured servers, and those that the cluster told about.
pub struct Servers {
    list: Vec<Server>,
}

impl Servers {
    /// Each text may hold several URLs, separated by commas.
    pub fn parse(urls: &[String], login: &NatsLogin) -> Result<Servers, NatsError> {
        // What cannot be used now is told at the start.
        options(login)?;
        let urls = urls.iter().flat_map(|text| text.split(',')).filter(|url| !url.trim().is_empty());
        let list = urls.map(|url| Server::parse(url, login)).collect::<Result<Vec<_>, _>>()?;
        match list.is_empty() {
            true => Err(NatsError::Url { url: String::new(), why: "no server is named".to_owned() }),
            false => Ok(Servers { list }),
        }
    }

    pub fn list(&self) -> Vec<Server> {
        self.list.clone()
    }

    /// Remembers servers by the addresses an INFO carried; they take the first configured server's login.
    pub fn learn(&mut self, addresses: &[String]) {
        for address in addresses {
            let Ok(mut server) = Server::parse(address, &NatsLogin::InUrls) else { continue };
            if self.list.len() < SERVERS_MAX && !self.list.iter().any(|s| s.to_string() == server.to_string()) {
                server.login = self.list[0].login.clone();
                self.list.push(server);
            }
        }
    }
}

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Greeting {
    pub version: String,
    pub max_payload: usize,
    pub jetstream: bool,
    pub clustered: bool,
    pub cluster_addresses: Vec<String>,
}

#[derive(Debug)]
pub enum ProbeError {
    TooOld { server: String, version: String },
    Unreachable { server: String, why: String },
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbeError::TooOld { server, version } => write!(f, "{}", NatsError::too_old(server, version)),
            ProbeError::Unreachable { server, why } => write!(f, "{server}: {why}"),
        }
    }
}

/// Connects, reads the server's INFO and hangs up. Takes no longer than `patience`, name lookup aside.
pub fn probe(server: &Server, patience: Duration) -> Result<Greeting, ProbeError> {
    let unreachable = |why: String| ProbeError::Unreachable { server: server.to_string(), why };
    let addresses = (server.host.as_str(), server.port).to_socket_addrs().map_err(|e| unreachable(e.to_string()))?;
    let mut why = "the name has no address".to_owned();
    for address in addresses {
        match greeting(address, patience) {
            Ok((_, greeting)) if !is_new_enough(&greeting.version) => {
                return Err(ProbeError::TooOld { server: server.to_string(), version: greeting.version });
            }
            Ok((_, greeting)) => return Ok(greeting),
            Err(error) => why = error,
        }
    }
    Err(unreachable(why))
}

/// Whether JetStream answers at `address`. For servers that ask no login.
pub fn jetstream_answers(address: SocketAddr, patience: Duration) -> Result<(), String> {
    let (mut stream, _) = greeting(address, patience)?;
    let ask = b"CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\nSUB r 1\r\nPUB $JS.API.INFO r 0\r\n\r\n";
    stream.write_all(ask).map_err(|e| e.to_string())?;
    let line = read_line(&mut stream, Instant::now() + patience)?;
    match line.starts_with("MSG r 1 ") {
        true => Ok(()),
        false => Err(format!("JetStream does not answer: {}", line.trim_end())),
    }
}

fn greeting(address: SocketAddr, patience: Duration) -> Result<(TcpStream, Greeting), String> {
    let until = Instant::now() + patience;
    let mut stream = TcpStream::connect_timeout(&address, patience).map_err(|e| e.to_string())?;
    let line = read_line(&mut stream, until)?;
    if line.len() > INFO_BYTES_MAX {
        return Err(format!("its INFO line has {} bytes, more than {INFO_BYTES_MAX}", line.len()));
    }
    let json = line.strip_prefix("INFO ").ok_or("this is not a NATS server")?;
    let info: Value = serde_json::from_str(json).map_err(|e| format!("its INFO cannot be read: {e}"))?;
    if info["tls_required"].as_bool() == Some(true) {
        return Err("it requires TLS, which is not supported".to_owned());
    }
    let addresses = info["connect_urls"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let greeting = Greeting {
        version: info["version"].as_str().unwrap_or_default().to_owned(),
        max_payload: info["max_payload"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(1 << 20),
        clustered: info["cluster"].is_string(),
        jetstream: info["jetstream"].as_bool().unwrap_or(false),
        cluster_addresses: addresses.map(str::to_owned).collect(),
    };
    Ok((stream, greeting))
}

/// Reads byte by byte, as INFO is short and nothing beyond it may be taken.
fn read_line(stream: &mut TcpStream, until: Instant) -> Result<String, String> {
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err("it accepts connections but does not answer".to_owned());
        }
        stream.set_read_timeout(Some(left)).map_err(|e| e.to_string())?;
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(0) => return Err("it closed the connection".to_owned()),
            Ok(_) => line.push(byte[0]),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e.to_string()),
        }
        if line.len() > 16 * INFO_BYTES_MAX {
            return Err("this is not a NATS server".to_owned());
        }
    }
    String::from_utf8(line).map_err(|_| "this is not a NATS server".to_owned())
}

/// `v2.10.26-beta.1` and `2.10.26` are both new enough; what cannot be read is taken for a build of today.
pub fn is_new_enough(version: &str) -> bool {
    let mut parts = version.trim_start_matches('v').split('.').map(|part| part.parse::<u32>());
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= VERSION_MIN,
        _ => true,
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escaped = after.get(..2).filter(|_| first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        match escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

pub(super) fn without_password(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => format!("{}://…{}", &url[..scheme], &url[at..]),
        (None, Some(at)) => format!("…{}", &url[at..]),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(urls: &[&str]) -> Result<Servers, NatsError> {
        Servers::parse(&urls.iter().map(|u| (*u).to_string()).collect::<Vec<_>>(), &NatsLogin::InUrls)
    }

    #[test]
    fn urls_give_addresses_and_logins() {
        let made = servers(&["nats://a, b:4333", "nats://[::1]:1", "nats://u:p%40x@c", "nats://token@d"]).unwrap();
        let shown: Vec<String> = made.list.iter().map(Server::to_string).collect();
        assert_eq!(shown, ["a:4222", "b:4333", "[::1]:1", "c:4222", "d:4222"]);
        assert!(matches!(&made.list[3].login,
            NatsLogin::Password { user, password: Secret::Text(p) } if user == "u" && p == "p@x"));
        assert!(matches!(&made.list[4].login, NatsLogin::Token(Secret::Text(t)) if t == "token"));
    }

    #[test]
    fn bad_urls_are_refused_by_name_and_without_their_password() {
        assert!(matches!(servers(&["tls://u:secret@h"]), Err(NatsError::Tls { url }) if !url.contains("secret")));
        for url in ["http://u:secret@h", "nats://u:secret@h:99999", ""] {
            match servers(&[url]) {
                Err(error @ NatsError::Url { .. }) => assert!(!error.to_string().contains("secret"), "{error}"),
                _ => panic!("{url} was taken"),
            }
        }
        for login in [NatsLogin::Credentials("no-such-file".into()), NatsLogin::Token(Secret::File("no-such".into()))] {
            assert!(matches!(Servers::parse(&["h".to_owned()], &login), Err(NatsError::Login { .. })));
        }
        let no_seed = NatsLogin::Nkey("Cargo.toml".into());
        let refused = Servers::parse(&["h".to_owned()], &no_seed).map(|_| ()).map_err(|error| error.to_string());
        assert!(refused.is_err_and(|text| text.contains("Cargo.toml") && text.contains("no nkey seed")));
    }

    #[test]
    fn discovered_servers_take_the_login_and_are_not_doubled() {
        let mut made = servers(&["nats://token@a"]).unwrap();
        made.learn(&["a:4222".to_owned(), "b:4222".to_owned(), "b:4222".to_owned()]);
        assert_eq!(made.list.len(), 2);
        assert!(matches!(&made.list[1].login, NatsLogin::Token(_)));
    }

    #[test]
    fn versions_are_compared_by_number() {
        for (version, good) in [
            ("2.9.25", false),
            ("2.10.0", true),
            ("v2.10.26-RC.1", true),
            ("2.9", false),
            ("3.0.0", true),
            ("dev", true),
        ] {
            assert_eq!(is_new_enough(version), good, "{version}");
        }
    }
}
