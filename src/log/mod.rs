//! The partition log: append, read, producer states, and the log end that never goes back.
