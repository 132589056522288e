//! A plain TCP load balancer before several gateways: connections go round, and past those that do not listen.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub struct Balancer {
    pub port: u16,
    behind: Arc<Mutex<Vec<u16>>>,
}

impl Balancer {
    /// Listens on `port`; gateways are added when their ports are known.
    pub fn start(port: u16) -> Balancer {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
        let behind: Arc<Mutex<Vec<u16>>> = Arc::default();
        let ports = behind.clone();
        std::thread::spawn(move || {
            let turn = AtomicUsize::new(0);
            for client in listener.incoming().map_while(Result::ok) {
                let ports = ports.lock().expect("no holder panics").clone();
                let first = turn.fetch_add(1, Ordering::Relaxed);
                let live = (0..ports.len()).find_map(|n| connect(ports[(first + n) % ports.len()]));
                // Without anybody behind it the client's connection is closed.
                if let Some(gateway) = live {
                    join(client, gateway);
                }
            }
        });
        Balancer { port, behind }
    }

    pub fn add(&self, port: u16) {
        self.behind.lock().expect("no holder panics").push(port);
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

fn connect(port: u16) -> Option<TcpStream> {
    TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), Duration::from_secs(1)).ok()
}

fn join(client: TcpStream, gateway: TcpStream) {
    let pair = |from: &TcpStream, to: &TcpStream| Some((from.try_clone().ok()?, to.try_clone().ok()?));
    for (from, to) in [pair(&client, &gateway), pair(&gateway, &client)].into_iter().flatten() {
        std::thread::spawn(move || pass(from, to));
    }
}

/// Passes bytes on until one side ends, and then ends the other.
fn pass(mut from: TcpStream, mut to: TcpStream) {
    let _ = from.set_nodelay(true);
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
