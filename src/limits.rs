//! Every limit of the gateway, each with its reason. Units stand last in the names.

use std::time::Duration;

/// The largest Kafka request frame accepted, as Kafka's `socket.request.max.bytes` (100 MiB).
pub const FRAME_BYTES_MAX: usize = 100 * 1024 * 1024;

/// What a decoded message may reserve beyond its own frame's size; see `wire::Reader`.
pub const DECODE_BUDGET_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Decompressed size of one record batch: a guard against bombs. Far above what `max.message.bytes` can carry honestly.
pub const DECOMPRESSED_BYTES_MAX: usize = 256 * 1024 * 1024;

/// How far the stored ceiling is raised above the next offset: one KV write per million offsets.
pub const CEILING_STEP_OFFSETS: i64 = 1 << 20;

/// Producer states kept for one partition; beyond it the older half is forgotten (a producer that is forgotten and comes
/// back may begin at any sequence, as in Kafka after `producer.id.expiration.ms`).
pub const PRODUCERS_PER_PARTITION_MAX: usize = 10_000;

/// Producer states in the snapshot beside a partition's end entry: a value of about 200 KB at most.
pub const PRODUCERS_PER_SNAPSHOT_MAX: usize = 1_000;

/// Bytes of batches waiting for their group at one partition: what four full groups hold at `--embedded`'s max_payload.
pub const APPEND_QUEUE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Stored messages kept in memory for all partitions together: the newest, and what readers read ahead.
pub const CACHE_BYTES_MAX: usize = 192 * 1024 * 1024;

/// Bytes asked of the store in one read: enough to amortise a round trip, small enough not to starve other readers.
pub const READ_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Messages asked of the store in one read: bounds what small or foreign messages cost.
pub const READ_MESSAGES_MAX: usize = 2_048;

/// Points of a partition's sparse index; beyond it every second one is dropped.
pub const INDEX_POINTS_MAX: usize = 4_096;

/// Messages appended between two exact end entries, and bytes: what a load after a crash has to read at most.
pub const END_ENTRY_MESSAGES_MAX: u64 = 4_096;
pub const END_ENTRY_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// One blocking call to the store, or one publish attempt. Well below a client's request timeout (30 s), so that the
/// client is told instead of left to guess; well above what a leader election takes (0.4 to 5 s seen on R3).
pub const STORE_CALL_MAX: Duration = Duration::from_secs(5);

/// A partition without an append for this long has its exact end written.
pub const END_QUIET: Duration = Duration::from_secs(2);

/// Pauses between looks at an undecided slot, doubling from the first to the second.
pub const UNDECIDED_PAUSE_MIN: Duration = Duration::from_millis(20);
pub const UNDECIDED_PAUSE_MAX: Duration = Duration::from_secs(2);

/// Pause before a ceiling that could not be raised is tried again.
pub const END_RETRY: Duration = Duration::from_millis(500);

/// A gateway sends a heartbeat tick this often; three missed ones make partitions uncertain.
pub const TICK_EVERY: Duration = Duration::from_secs(1);
pub const TICK_SILENCE_MAX: Duration = Duration::from_secs(3);

/// The least time a Produce waits for its commit, whatever its timeout says: Kafka with one replica does not wait at all.
pub const PRODUCE_WAIT_MIN: Duration = Duration::from_secs(1);

/// Record bytes of one Fetch answer, as Kafka's `fetch.max.bytes` of brokers (55 MiB).
pub const FETCH_BYTES_MAX: usize = 55 * 1024 * 1024;

/// How long one round of reading for a Fetch may take: max_wait_ms, but within these. A client that polls fast still gets
/// what one read of the store takes; one that waits long is told of a slow store in time.
pub const FETCH_READ_MIN: Duration = Duration::from_secs(1);
pub const FETCH_READ_MAX: Duration = Duration::from_secs(5);

/// How long ListOffsets may search, below the clients' default request timeout of 30 s.
pub const LIST_OFFSETS_MAX: Duration = Duration::from_secs(20);
