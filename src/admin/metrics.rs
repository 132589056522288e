//! `/metrics` in Prometheus's text format.

use super::Pages;
use super::exposition::{Kind, MEDIA_TYPE, Text, float};
use crate::limits::CACHE_BYTES_MAX;
use crate::metrics::{Metrics, Operation};
use crate::protocol::api::ApiKey;
use crate::protocol::error_code::ErrorCode;
use rouille::Response;

/// Nanoseconds.
const SECOND: f64 = 1e9;

pub(super) fn answer(pages: &Pages) -> Response {
    let mut text = Text::default();
    let metrics = &*pages.services.metrics;
    process(&mut text, pages);
    server(&mut text, metrics);
    apis(&mut text, metrics);
    logs(&mut text, pages);
    store(&mut text, pages);
    lag(&mut text, pages);
    Response::from_data(MEDIA_TYPE, text.into_string())
}

fn process(text: &mut Text, pages: &Pages) {
    text.family("hanzo_kafka_build_info", Kind::Gauge, "The gateway's version; the value is always 1.");
    text.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    let started_ms = u64::try_from(pages.started.wall_ms).unwrap_or(0);
    text.single(
        "process_start_time_seconds",
        Kind::Gauge,
        "When the process started, in seconds since the Unix epoch.",
        float(started_ms) / 1000.0,
    );
    let figures = Figures::read();
    text.single("process_threads", Kind::Gauge, "Threads of the process.", float(figures.threads));
    text.single(
        "process_resident_memory_bytes",
        Kind::Gauge,
        "Memory of the process that is in RAM.",
        float(figures.resident_bytes),
    );
    text.single("process_open_fds", Kind::Gauge, "Open file descriptors.", float(figures.open_files));
    text.single("process_cpu_seconds_total", Kind::Counter, "CPU time spent.", figures.cpu_seconds);
    let panics = float(pages.services.metrics.panics.get());
    text.single("hanzo_kafka_panics_total", Kind::Counter, "Jobs that panicked: each is a bug.", panics);
}

fn server(text: &mut Text, metrics: &Metrics) {
    let mut count = |name, help, value| text.single(name, Kind::Counter, help, float(value));
    count(
        "hanzo_kafka_connections_accepted_total",
        "Kafka connections that were accepted.",
        metrics.connections_accepted.get(),
    );
    count(
        "hanzo_kafka_connections_refused_total",
        "Kafka connections that were closed at once because --max-connections were open.",
        metrics.connections_refused.get(),
    );
    count("hanzo_kafka_received_bytes_total", "Bytes from Kafka clients.", metrics.bytes_in.get());
    count("hanzo_kafka_sent_bytes_total", "Bytes to Kafka clients.", metrics.bytes_out.get());
    count(
        "hanzo_kafka_requests_refused_total",
        "Requests that are not served or do not decode, each of which closed its connection.",
        metrics.requests_refused.get(),
    );
    let workers = &metrics.workers;
    count("hanzo_kafka_jobs_total", "Jobs that workers ran.", workers.jobs.get());
    let busy = float(workers.busy_ns.get()) / SECOND;
    text.single("hanzo_kafka_workers_busy_seconds_total", Kind::Counter, "Time that workers spent in jobs.", busy);
    text.family("hanzo_kafka_workers", Kind::Gauge, "Worker threads; light ones take only what memory answers.");
    text.sample(&[("kind", "regular")], float(workers.regular.get()));
    text.sample(&[("kind", "light")], float(workers.light.get()));
    let mut gauge = |name, help, value| text.single(name, Kind::Gauge, help, float(value));
    gauge("hanzo_kafka_workers_busy", "Workers that run a job now.", workers.busy.get());
    gauge("hanzo_kafka_jobs_queued", "Jobs that wait for a worker.", workers.queued.get());
    gauge("hanzo_kafka_connections", "Open Kafka connections.", metrics.connections_open.get());
    gauge(
        "hanzo_kafka_requests_parked",
        "Requests that wait for news or for a commit, without a thread.",
        metrics.requests_parked.get(),
    );
}

fn apis(text: &mut Text, metrics: &Metrics) {
    let rows = || ApiKey::ALL.iter().filter_map(|api| Some((api.name(), metrics.apis.row(api.code())?)));
    text.family("hanzo_kafka_requests_total", Kind::Counter, "Requests by API.");
    rows().for_each(|(api, row)| text.sample(&[("api", api)], float(row.requests.get())));
    text.family("hanzo_kafka_errors_total", Kind::Counter, "Error codes in answers, by API; one answer may hold many.");
    for (api, row) in rows() {
        for (code, count) in row.errors() {
            let name = ErrorCode::from_code(code).to_string();
            text.sample(&[("api", api), ("code", &code.to_string()), ("error", &name)], float(count));
        }
    }
    text.family(
        "hanzo_kafka_request_seconds",
        Kind::Histogram,
        "From a request's dispatch to its answer, waiting included (a Fetch waits for records).",
    );
    rows().for_each(|(api, row)| text.histogram(&[("api", api)], &row.latency.read(), SECOND));
}

fn logs(text: &mut Text, pages: &Pages) {
    let metrics = pages.services.logs.metrics();
    text.family("hanzo_kafka_commit_batches", Kind::Histogram, "Record batches in one stored message.");
    text.histogram(&[], &metrics.commit_batches.read(), 1.0);
    text.family("hanzo_kafka_commit_bytes", Kind::Histogram, "Bytes of one stored message.");
    text.histogram(&[], &metrics.commit_bytes.read(), 1.0);
    let cache = pages.services.logs.cache_facts();
    let mut count = |name, help, value| text.single(name, Kind::Counter, help, float(value));
    count(
        "hanzo_kafka_append_conflicts_total",
        "Appends that found another writer's message in their place, and were stamped anew.",
        metrics.conflicts.get(),
    );
    count(
        "hanzo_kafka_append_undecided_total",
        "Publish attempts whose outcome had to be found out.",
        metrics.undecided_slots.get(),
    );
    count("hanzo_kafka_cache_hits_total", "Reads of a stored message that memory answered.", cache.hits);
    count("hanzo_kafka_cache_misses_total", "Reads of a stored message that the store answered.", cache.misses);
    text.single(
        "hanzo_kafka_cache_bytes",
        Kind::Gauge,
        "Stored messages held in memory.",
        float(u64::try_from(cache.bytes).unwrap_or(u64::MAX)),
    );
    text.single(
        "hanzo_kafka_cache_limit_bytes",
        Kind::Gauge,
        "How much of them may be held.",
        float(u64::try_from(CACHE_BYTES_MAX).unwrap_or(u64::MAX)),
    );
}

fn store(text: &mut Text, pages: &Pages) {
    let server = pages.services.store.info();
    let connected = if server.connected { 1.0 } else { 0.0 };
    text.single("hanzo_kafka_store_connected", Kind::Gauge, "1 while JetStream can be reached.", connected);
    text.family(
        "hanzo_kafka_store_info",
        Kind::Gauge,
        "The nats-server's version and API level; the value is always 1.",
    );
    text.sample(&[("version", &server.version), ("api_level", &server.api_level.to_string())], 1.0);
    let metrics = &pages.services.metrics.store;
    text.family("hanzo_kafka_store_failures_total", Kind::Counter, "Store calls without an answer, or not tried.");
    for operation in Operation::ALL {
        text.sample(&[("operation", operation.name())], float(metrics.failures(operation)));
    }
    text.family(
        "hanzo_kafka_store_seconds",
        Kind::Histogram,
        "What store calls take, the wait for their turn included.",
    );
    for operation in Operation::ALL {
        text.histogram(&[("operation", operation.name())], &metrics.latency(operation).read(), SECOND);
    }
}

fn lag(text: &mut Text, pages: &Pages) {
    let look = pages.lag.look(pages);
    let now = pages.services.clock.now().mono;
    text.family(
        "hanzo_kafka_group_lag",
        Kind::Gauge,
        "Log end minus committed offset, of all groups in the store: the same from every gateway.",
    );
    let Some(look) = look else { return };
    for (group, at, lag) in &look.rows {
        let labels = [("group", group.as_str()), ("topic", &at.topic), ("partition", &at.partition.to_string())];
        #[expect(clippy::cast_precision_loss, reason = "the format has no integers")]
        text.sample(&labels, *lag as f64);
    }
    text.single(
        "hanzo_kafka_group_lag_left_out",
        Kind::Gauge,
        "Partitions of groups that are not shown because there are too many; those with the least lag.",
        float(u64::try_from(look.left_out).unwrap_or(u64::MAX)),
    );
    let age = now.saturating_duration_since(look.at).as_secs_f64();
    text.single("hanzo_kafka_group_lag_age_seconds", Kind::Gauge, "How long ago the lag was looked at.", age);
}

/// What the kernel tells of this process; zero where it tells nothing.
#[derive(Default)]
struct Figures {
    threads: u64,
    resident_bytes: u64,
    open_files: u64,
    cpu_seconds: f64,
}

impl Figures {
    fn read() -> Figures {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let figure = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        let open_files = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        Figures {
            threads: figure("Threads:").unwrap_or(0),
            resident_bytes: figure("VmRSS:").unwrap_or(0) * 1024,
            open_files: u64::try_from(open_files).unwrap_or(0),
            cpu_seconds: cpu_seconds().unwrap_or(0.0),
        }
    }
}

fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The command's name, in parentheses, may hold blanks.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    // SAFETY: sysconf only reads a constant.
    let per_second = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok().filter(|ticks| *ticks > 0)?;
    Some(float(ticks) / float(per_second))
}
