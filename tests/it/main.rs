//! The gateway as its users see it: a real nats-server, a real gateway process, other people's clients.

mod harness;
mod selfcheck;
