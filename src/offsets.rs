//! Committed offsets: one KV entry per group, topic and partition, written by compare-and-set.
