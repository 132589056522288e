//! The wire format judged from outside: by an independent implementation, by hostile bytes, by frames of real clients.

mod allocations;
mod api_versions;
mod golden;
mod hostile;
mod oracle;
