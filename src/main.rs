//! The `hanzo-kafka` command.

fn main() {}
