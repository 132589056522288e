//! Every limit of the gateway, each with its reason. Units stand last in the names.

/// The largest Kafka request frame accepted, as Kafka's `socket.request.max.bytes` (100 MiB).
pub const FRAME_BYTES_MAX: usize = 100 * 1024 * 1024;

/// What a decoded message may reserve beyond its own frame's size; see `wire::Reader`.
pub const DECODE_BUDGET_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Decompressed size of one record batch: a guard against bombs. Far above what `max.message.bytes` can carry honestly.
pub const DECOMPRESSED_BYTES_MAX: usize = 256 * 1024 * 1024;

/// How far the stored ceiling is raised above the next offset: one KV write per million offsets.
pub const CEILING_STEP_OFFSETS: i64 = 1 << 20;
