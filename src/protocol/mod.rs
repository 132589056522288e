//! The Kafka protocol: API table, headers, frames, messages.

pub mod api;
pub mod error_code;
pub mod features;
pub mod frame;
pub mod header;
pub mod messages;
