//! Every limit of the gateway, each with its reason. Units stand last in the names.

use std::time::Duration;

/// The largest Kafka request frame accepted, as Kafka's `socket.request.max.bytes` (100 MiB).
pub const FRAME_BYTES_MAX: usize = 100 * 1024 * 1024;

/// What a decoded message may reserve beyond its own frame's size; see `wire::Reader`.
pub const DECODE_BUDGET_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What an element of a request's arrays is charged at least. A partition is named by four bytes; its row in the answer takes 40 to
/// 120 bytes, and about half of that again when it is written. A request that names nothing but partitions may name 270,000.
pub const ANSWERED_BYTES_MIN: usize = 64;

/// Decompressed size of one record batch: a guard against bombs. Far above what `max.message.bytes` can carry honestly.
pub const DECOMPRESSED_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Records of refused batches that are named in one answer, each with a sentence of some hundred bytes; clients fail the others with
/// their batch.
pub const RECORD_ERRORS_MAX: usize = 1_000;

/// How far the stored ceiling is raised above the next offset: one KV write per million offsets.
pub const CEILING_STEP_OFFSETS: i64 = 1 << 20;

/// Producer states kept for one partition; beyond it the older half is forgotten (a producer that is forgotten and comes
/// back may begin at any sequence, as in Kafka after `producer.id.expiration.ms`).
pub const PRODUCERS_PER_PARTITION_MAX: usize = 10_000;

/// New producers of one partition whose refused batches are awaited.
pub const SENT_BACK_PRODUCERS_MAX: usize = 1_000;

/// Producer states in the snapshot beside a partition's end entry: a value of about 200 KB at most.
pub const PRODUCERS_PER_SNAPSHOT_MAX: usize = 1_000;

/// Bytes of batches waiting for their group at one partition: what four full groups hold at `--embedded`'s max_payload.
pub const APPEND_QUEUE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Bytes of one group commit where max_payload allows more: a larger message only adds latency.
pub const GROUP_BYTES_MAX: usize = 8 * 1024 * 1024;

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

/// What learning a log's end may take together: many reads where much foreign stands in the stream, and below the
/// clients' request timeout of 30 s.
pub const LOAD_MAX: Duration = Duration::from_secs(20);

/// How long a worker waits for a partition's tail, or for its turn to read, counted from when another took it. Only a
/// store that hangs holds them longer: then workers are needed for partitions that live, and clients ask again.
pub const TAIL_HELD_MAX: Duration = Duration::from_millis(500);

/// A partition without an append for this long has its exact end written.
pub const END_QUIET: Duration = Duration::from_secs(2);

/// Pauses between looks at an undecided slot, doubling from the first to the second.
pub const UNDECIDED_PAUSE_MIN: Duration = Duration::from_millis(20);
pub const UNDECIDED_PAUSE_MAX: Duration = Duration::from_secs(2);

/// A gateway whose appends came too late so many times in a row asks the others to wait.
pub const LATE_MAX: u32 = 2;

/// How long others wait for it: it reads the end and publishes, some milliseconds on a healthy store. What is lost if it dies
/// meanwhile.
pub const GIVE_WAY_MAX: Duration = Duration::from_millis(200);

/// A partition's end is proved by storing a message at most this often: a client that asks for what is not there, again and
/// again, must not fill the stream.
pub const PROOF_EVERY: Duration = Duration::from_secs(1);

/// The same where a batch waits for it, and others behind that: a producer with gaps must not keep them for long.
pub const GAP_PROOF_EVERY: Duration = Duration::from_millis(100);

/// A cluster whose leader was just elected may say of streams that they are not there. What is removed along with a topic is
/// removed this long after it was missed, if it is missing still.
pub const CLUSTER_KNOWS_AFTER: Duration = Duration::from_secs(30);

/// Pause before a ceiling that could not be raised is tried again.
pub const END_RETRY: Duration = Duration::from_millis(500);

/// A gateway sends a heartbeat tick this often; three missed ones make partitions uncertain.
pub const TICK_EVERY: Duration = Duration::from_secs(1);
pub const TICK_SILENCE_MAX: Duration = Duration::from_secs(3);

/// A gateway that does not hear its own heartbeat yet sends the next one after this.
pub const TICK_DEAF_RETRY: Duration = Duration::from_millis(100);

/// When ticks were missed, whoever waits on a partition looks at its end once: so many partitions at once, the next so much
/// later. A thousand are through in a fifth of a second, and the store answers them beside its other work.
pub const DOUBTED_AT_ONCE: usize = 100;
pub const DOUBTED_APART: Duration = Duration::from_millis(20);

/// The least time a Produce waits for its commit, whatever its timeout says: Kafka with one replica does not wait at all.
pub const PRODUCE_WAIT_MIN: Duration = Duration::from_secs(1);

/// Record bytes of one Fetch answer, as Kafka's `fetch.max.bytes` of brokers (55 MiB).
pub const FETCH_BYTES_MAX: usize = 55 * 1024 * 1024;

/// How long one round of reading for a Fetch may take: max_wait_ms, but within these. A client that polls fast still gets
/// what one read of the store takes; one that waits long is told of a slow store in time.
pub const FETCH_READ_MIN: Duration = Duration::from_secs(1);
pub const FETCH_READ_MAX: Duration = Duration::from_secs(5);

/// How long one request may look for topics and groups in the store, one after another; of the rest it is said that it may be
/// asked again. A request can name a hundred thousand, a look may take a tenth of a second in a cluster and five seconds where
/// the store hangs, and a worker serves nobody else meanwhile.
pub const LOOKING_MAX: Duration = Duration::from_secs(5);

/// How long ListOffsets may search, below the clients' default request timeout of 30 s.
pub const LIST_OFFSETS_MAX: Duration = Duration::from_secs(20);

// The server: connections, buffers, threads.

/// Bytes of requests held at once by the process: partial frames and frames in flight. Room for five frames of the largest
/// size, or 500 producers with 1 MiB each. A connection that finds no room is not read until there is some.
pub const REQUEST_BYTES_HELD_MAX: usize = 512 * 1024 * 1024;

/// What each connection may hold without asking the budget above, so that small requests (heartbeats, commits) never
/// wait for large ones. With 10,000 connections 160 MiB at the very worst.
pub const REQUEST_BYTES_FREE: usize = 16 * 1024;

/// Replies made but not yet taken by their peers, over all connections. Above it no fetch is answered, a peer that has not
/// taken all of its replies gets no others, and one that takes them too slowly is closed. Each worker may exceed it by the
/// fetch that it answers at that moment.
pub const REPLY_BYTES_HELD_MAX: usize = 512 * 1024 * 1024;

/// Unsent reply bytes of one connection above which nothing more is read from it or begun for it.
pub const UNSENT_BYTES_MAX: usize = 1024 * 1024;

/// Replies of one connection whose writing is timed; a peer that lets more pile up is known to be slow.
pub const LEAVING_TIMED_MAX: usize = 64;

/// Parked requests that are listed when it is asked what goes on: enough to see a pattern.
pub const PARKED_LISTED_MAX: usize = 1_000;

/// In this time a peer must take or send a fourth of what is held for it, while others wait for the room.
pub const STALL_MAX: Duration = Duration::from_secs(10);

/// The least and the most a single read asks for. The least is what a half-open frame costs; the most bounds how long
/// one connection is read in one go.
pub const SOCKET_READ_BYTES_MIN: usize = 4 * 1024;
pub const SOCKET_READ_BYTES_MAX: usize = 256 * 1024;

/// How much is read behind a request that must finish first. Reading is how a vanished client is noticed; the rest stays
/// in the kernel and holds the client back.
pub const READ_AHEAD_BYTES_MAX: usize = 64 * 1024;

/// Produce requests of one connection begun before the first is finished: three times what idempotent clients send.
pub const PRODUCE_IN_FLIGHT_MAX: usize = 16;

/// Frame bytes of those together; a single larger frame is begun alone.
pub const PRODUCE_IN_FLIGHT_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Frames a worker begins for one connection before it looks after others that wait.
pub const FRAMES_PER_TURN: usize = 32;

/// Workers that take only light requests, so that heartbeats are answered while the store stalls all the others.
pub const LIGHT_WORKERS: usize = 2;

/// How long a worker stays with a connection it has just answered, while half of the pool has nothing to do: a client
/// that asks again at once is served without a way through poller and queue.
pub const NEXT_REQUEST_WAIT_MS: i32 = 1;

/// How long a connection that we close is still drained, so that the peer reads its last replies before a reset.
pub const LINGER_MAX: Duration = Duration::from_secs(2);

/// How long the acceptor rests when the process has no file descriptor left.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often connections that found no room are tried again.
pub const ROOM_RETRY: Duration = Duration::from_millis(20);

/// Connections waiting in the kernel to be accepted: a burst of reconnecting clients must not meet SYN retries of a second.
pub const ACCEPT_BACKLOG: i32 = 4096;

/// Half-open peers are noticed after `KEEPALIVE_IDLE + KEEPALIVE_PROBES * KEEPALIVE_INTERVAL`, two minutes.
pub const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
pub const KEEPALIVE_PROBES: u32 = 6;

/// A connection that waits is looked at no later than this, and what calls it then ends with it: a fetch may ask for a wait of 24
/// days and leave.
pub const CALL_AHEAD_MAX: Duration = Duration::from_secs(60);

/// The least time between two log lines of one kind that peers can cause at will.
pub const PEER_LOG_INTERVAL: Duration = Duration::from_secs(1);

/// A group's key token: with a topic's and the command around them it has to fit the server's control line of 4,096 bytes.
pub const GROUP_TOKEN_BYTES_MAX: usize = 2_048;

/// Requests that wait for one group's write. No group's members ask more than that within the time of one write.
pub const GROUP_QUEUE_MAX: usize = 10_000;

/// Partitions in one page of DescribeTopicPartitions: Kafka's `max.request.partition.size.limit`. Clients ask for the next.
pub const DESCRIBED_PARTITIONS_MAX: usize = 2_000;

/// Groups of other gateways whose owner is remembered: about 100 bytes each.
pub const OWNERS_REMEMBERED_MAX: usize = 20_000;

/// How long a group's owner is remembered without a look. A wrong one costs a refused hop, which makes it forgotten at once.
pub const OWNER_TRUSTED_MAX: Duration = Duration::from_secs(10);

/// How long a gateway that was asked and gave no sign of life gets no groups that nobody owns.
pub const UNHEARD_AVOIDED: Duration = Duration::from_secs(10);

/// A group whose recorded owner may or may not be alive is looked at again after this, as often as this; a look at the
/// leases takes milliseconds.
pub const OWNER_UNKNOWN_RETRY: Duration = Duration::from_millis(100);
pub const OWNER_UNKNOWN_TRIES: usize = 20;

/// Ids of one group that were given out and not come back with. Each lives for a session timeout at most.
pub const PENDING_MEMBERS_MAX: usize = 2_000;

/// A gateway renews its lease this often, and stops believing in it this long after it sent the last renewal that was
/// acknowledged: two renewals may fail. Others give it up after the TTL, counted from when they saw it renewed; the second between
/// is for threads that wait for a processor and clocks that differ in speed.
pub const LEASE_EVERY: Duration = Duration::from_secs(1);
pub const LEASE_FENCE: Duration = Duration::from_secs(3);
pub const LEASE_TTL: Duration = Duration::from_secs(4);

/// When the server removes a lease. It only tidies up: long enough that a server's clock may jump by some seconds without
/// hiding a live gateway from one that just started.
pub const LEASE_KEPT: Duration = Duration::from_secs(10);

/// One question about leases: long enough for a server that is slow, and what is lost is still asked again in time.
pub const LEASE_CALL_MAX: Duration = Duration::from_millis(1_500);

/// Pause after a renewal that failed, and the least time between two rounds that news ask for.
pub const LEASE_RETRY: Duration = Duration::from_millis(200);
pub const LEASE_ROUNDS_APART: Duration = Duration::from_millis(20);

/// A listing of the leases older than this says nothing about who is alive.
pub const LEASE_VIEW_MAX: Duration = Duration::from_secs(3);

/// Processes without a lease about which is being asked: owners of groups at their takeover.
pub const LEASE_QUESTIONS_MAX: usize = 10_000;

// The admin endpoints.

/// Connections to the admin port at once. Above it the one that has kept us waiting longest makes room, so that slow or
/// silent ones never keep a probe out.
pub const ADMIN_CONNECTIONS_MAX: usize = 128;

/// The head of an admin request, as most web servers allow.
pub const ADMIN_HEAD_BYTES_MAX: usize = 8 * 1024;

/// How long a peer may take to send its request, and to take its answer.
pub const ADMIN_HEAD_MAX: Duration = Duration::from_secs(5);
pub const ADMIN_WRITE_MAX: Duration = Duration::from_secs(15);

/// Answers that need the store, under way or not yet taken by their peers: each may be some megabytes.
pub const ADMIN_ANSWERS_MAX: usize = 16;

/// An answer that a peer has not taken after this makes room for another.
pub const ADMIN_WRITE_PATIENCE: Duration = Duration::from_secs(2);

/// What one admin answer may ask of the store, in time.
pub const ADMIN_STORE_MAX: Duration = Duration::from_secs(5);

/// Rows of consumer lag in the metrics: a monitoring system pays for each label value. The greatest are shown.
pub const LAG_ROWS_MAX: usize = 1_000;

/// Lag is looked at anew at most this often, and for at most a twentieth of the time.
pub const LAG_EVERY: Duration = Duration::from_secs(10);
pub const LAG_TIME_SHARE: u32 = 20;

/// What looking at the lag may take, so that a scrape is answered also while the store hangs.
pub const LAG_LOOK_MAX: Duration = Duration::from_secs(4);

/// Records of one answer when somebody browses a topic, how much of a key, value or header is shown, and of all together.
pub const BROWSED_RECORDS_MAX: usize = 500;
pub const BROWSED_FIELD_BYTES_MAX: usize = 64 * 1024;
pub const BROWSED_BYTES_MAX: usize = 2 * 1024 * 1024;
pub const BROWSED_HEADERS_MAX: usize = 200;
pub const BROWSED_NAME_BYTES_MAX: usize = 1024;

/// What is read of a log for one such answer at a time, how often, and how large a batch may inflate for it.
pub const BROWSED_READ_BYTES: usize = 1024 * 1024;
pub const BROWSED_READS_MAX: usize = 16;
pub const BROWSED_INFLATED_BYTES_MAX: usize = 32 * 1024 * 1024;

/// How long a claim on a topic that is being changed lasts if nobody gives it back: what a gateway that was killed costs
/// the next change of that topic.
pub const CLAIM_LASTS: Duration = Duration::from_secs(30);

/// How long calls are made under a claim before it is renewed: with one call's time left, and the clocks of gateways a few
/// seconds apart, before others may take it.
pub const CLAIM_USED_MAX: Duration = Duration::from_secs(20);

/// Limits of streams that one slow poll sets: at a first start over very many streams the rest waits for the next one.
pub const BOUNDED_PER_POLL_MAX: usize = 2_000;

// Requests forwarded between gateways.

/// Requests that one gateway has forwarded, or has been sent, and that are not answered: a join of each client that 10,000
/// connections can have, twice over.
pub const FORWARDED_MAX: usize = 20_000;

/// Bytes of those, on either side. A large one is a leader's SyncGroup; all others are small.
pub const FORWARDED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Messages that one forwarded request or answer is cut into: 64 MiB at a max_payload of 64 KiB.
pub const FORWARD_PARTS_MAX: usize = 1_024;

/// How often a gateway says which forwarded requests it waits for, and so the time in which a lost one is noticed.
pub const FORWARD_TICK_EVERY: Duration = Duration::from_secs(1);

/// How long a gateway that was asked may give no sign of life: as long as its lease lasts without it.
pub const FORWARD_SILENCE_MAX: Duration = Duration::from_secs(4);

/// How long the other gateway is told again and again of requests that were given up: the first word may hang in the same
/// connection as they do.
pub const GIVEN_UP_TOLD: Duration = Duration::from_secs(30);

/// How long a forwarded request is served though nobody says that it is waited for.
pub const VISIT_UNASKED_MAX: Duration = Duration::from_secs(6);

/// The server's max_payload while it is not known: its default.
pub const PAYLOAD_DEFAULT_MAX: usize = 1_048_576;
