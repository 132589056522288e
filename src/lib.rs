//! Hanzo Kafka: a stateless gateway that makes NATS JetStream speak the Kafka protocol.

pub mod activity;
pub mod admin;
pub mod catalog;
pub mod clock;
pub mod cluster;
pub mod config;
pub mod forward;
pub mod gateway;
pub mod group;
pub mod handlers;
pub mod limits;
pub mod listen;
pub mod log;
pub mod logging;
pub mod metrics;
pub mod notify;
pub mod offsets;
pub mod promise;
pub mod protocol;
pub mod records;
pub mod sealed;
pub mod server;
pub mod store;
pub mod tasks;
pub mod wake;
pub mod wire;
