//! One file per API: the only place that knows both messages and domain.

use crate::clock::Now;
use crate::wake::WatchKey;
use std::time::Instant;

/// What became of a request.
pub enum Outcome {
    /// The whole response frame, its 4-byte length included.
    Reply(Vec<u8>),
    /// Nothing is written (Produce with acks=0), the connection goes on.
    Silent,
    /// The connection is closed, after the replies before it are written.
    Close,
    /// The answer waits for someone else.
    Park(Box<dyn Parked>),
}

/// A request whose answer waits for someone else.
pub trait Parked: Send {
    /// Answers if it can now. Called once right after parking, then after each wake-up of one of its keys, and at its
    /// deadline; `now.mono >= deadline` means it must answer. Never gives `Outcome::Park`.
    fn poll(&mut self, now: Now) -> Option<Outcome>;

    /// What wakes it; constant over its life.
    fn keys(&self) -> Vec<WatchKey>;

    fn deadline(&self) -> Instant;

    /// The client is gone: release what waits on its behalf. What is under way to the store goes on.
    fn abandon(&mut self) {}
}

/// How a frame is to be treated before it is decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Answered from memory: the reserved workers take these.
    Light,
    /// May wait for the store.
    Heavy,
    /// Heavy, and begun before an earlier Produce of its connection has finished.
    Produce,
}

/// What the server knows of the protocol.
pub trait Dispatch: Send + Sync {
    /// Looks at the first bytes of a frame (its length prefix left out).
    fn kind(&self, frame: &[u8]) -> Kind;

    /// Decodes and answers one frame (its length prefix left out). A frame that cannot be answered gives `Close`.
    fn dispatch(&self, frame: bytes::Bytes, peer: std::net::IpAddr) -> Outcome;
}
