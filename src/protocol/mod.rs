//! The Kafka protocol: API table, headers, frames, messages.
