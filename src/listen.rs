//! Taking a port, on every address that a host stands for.

use crate::limits::ACCEPT_BACKLOG;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

/// Listens on every address that `host` stands for; at least one must be free. Port 0 takes one free port for all of them.
/// Accepting from the listeners does not block.
pub fn bind(host: &str, port: u16) -> io::Result<Vec<TcpListener>> {
    let mut listeners: Vec<TcpListener> = Vec::new();
    let mut failure = io::Error::new(ErrorKind::AddrNotAvailable, "the name has no address");
    for mut address in (host, port).to_socket_addrs()? {
        if let (0, Some(first)) = (port, listeners.first()) {
            address.set_port(first.local_addr()?.port());
        }
        match bind_one(address) {
            Ok(listener) => listeners.push(listener),
            // A port taken on one address only would leave some clients with another server.
            Err(error) if error.kind() == ErrorKind::AddrInUse && !is_bound(&listeners, address) => return Err(error),
            // A name may have addresses that this machine lacks, IPv6 for one.
            Err(error) => failure = error,
        }
    }
    if listeners.is_empty() { Err(failure) } else { Ok(listeners) }
}

fn is_bound(listeners: &[TcpListener], address: SocketAddr) -> bool {
    listeners.iter().any(|listener| listener.local_addr().is_ok_and(|bound| bound == address))
}

fn bind_one(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(ACCEPT_BACKLOG)?;
    Ok(socket.into())
}
