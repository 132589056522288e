//! Consumer groups: the classic protocol as pure transitions, and the service that persists them.

pub mod event;
mod rebalance;
pub mod record;
mod session;
pub mod state;
mod subscription;
#[cfg(test)]
mod tests;
