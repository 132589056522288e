//! A store in memory for unit tests, which can lose acks, leave holes, refuse, and commit late.
