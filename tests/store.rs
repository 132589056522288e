//! The store against real servers: one contract for every implementation, then what only a real server can do to us.

#[path = "store/contract.rs"]
mod contract;
#[path = "store/embedded.rs"]
mod embedded;
#[path = "store/faults.rs"]
mod faults;
#[path = "store/server.rs"]
mod server;
#[path = "store/speed.rs"]
mod speed;

use hanzo_kafka::clock::{Clock, SystemClock};
use hanzo_kafka::store::Store;
use hanzo_kafka::store::memory::MemoryStore;
use hanzo_kafka::store::nats::{NatsOptions, NatsStore};
use server::Server;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

fn logger() -> slog::Logger {
    slog::Logger::root(slog::Discard, slog::o!())
}

fn connect(server: &Server) -> Arc<NatsStore> {
    let options = NatsOptions { urls: vec![server.url()], login: Default::default(), name: "test".to_owned() };
    NatsStore::connect(options, logger()).expect("the options are good")
}

fn ready(server: &Server) -> Arc<NatsStore> {
    let store = connect(server);
    store.wait_ready(soon()).expect("the server runs");
    store
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

fn real_time() -> i64 {
    std::thread::sleep(Duration::from_millis(3));
    SystemClock.now().wall_ms
}

#[test]
fn memory_keeps_the_contract() {
    let store = Arc::new(MemoryStore::new());
    let time = AtomicI64::new(1_700_000_000_000);
    contract::check(&(store.clone() as Arc<dyn Store>), &|| {
        let now = time.fetch_add(3, Ordering::Relaxed) + 3;
        store.set_time(now);
        now
    });
}

#[test]
fn the_newest_server_keeps_the_contract() {
    let server = Server::start(server::newest());
    contract::check(&(ready(&server) as Arc<dyn Store>), &real_time);
}

#[test]
fn server_2_10_keeps_the_contract() {
    let server = Server::start(server::oldest());
    contract::check(&(ready(&server) as Arc<dyn Store>), &real_time);
}
