//! The gateway as its users see it: a real nats-server, a real gateway process, other people's clients.

mod admin;
mod clients;
mod crashes;
mod deleted_records;
mod deploy;
mod embedded;
mod examples;
mod foreign;
mod gateway_groups;
mod gateways;
mod groups;
#[allow(dead_code, reason = "shared with the torture tests and the bench, each of which uses a part")]
mod harness;
mod hostile;
mod nats_login;
mod offsets;
mod outages;
mod produce;
mod retention;
mod round_trips;
mod service;
mod settings;
mod three_servers;
mod topics;
mod two_gateways;
mod versions;
mod waiting;
