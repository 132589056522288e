//! `/v1/stream/status`: the gateway at a glance, from memory.

use super::Pages;
use serde_json::{Value, json};

pub(super) fn tell(pages: &Pages) -> Value {
    let services = &pages.services;
    let (config, metrics, now) = (&services.config, &services.metrics, services.clock.now());
    let server = services.store.info();
    let (broker, cluster) = (services.cluster.broker(), &services.cluster);
    let lease = cluster.lease();
    let brokers = cluster.brokers();
    let brokers = brokers.iter().map(|one| json!({ "id": one.id, "host": one.host, "port": one.port }));
    let workers = &metrics.workers;
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "node_id": config.node_id,
        "broker_id": broker.map(|broker| broker.id),
        "lease": lease.holds(),
        "process_id": cluster.process_id(),
        "cluster_id": cluster.known_id(),
        "controller_id": cluster.controller_id(),
        "brokers": brokers.collect::<Vec<_>>(),
        "addresses": {
            "kafka": format!("{}:{}", config.host, config.port),
            "advertised": format!("{}:{}", config.advertised_host, config.advertised_port),
            "admin": format!("{}:{}", config.admin_host, config.admin_port),
            "store": pages.store_address,
        },
        "connected": server.connected,
        "server": { "version": server.version, "api_level": server.api_level, "max_payload": server.max_payload },
        "stopping": pages.unready() == Some("shutting down"),
        "started_ms": pages.started.wall_ms,
        "uptime_seconds": now.mono.saturating_duration_since(pages.started.mono).as_secs_f64(),
        "connections": {
            "open": metrics.connections_open.get(),
            "max": config.max_connections,
            "accepted": metrics.connections_accepted.get(),
            "refused": metrics.connections_refused.get(),
        },
        "workers": {
            "regular": workers.regular.get(),
            "light": workers.light.get(),
            "busy": workers.busy.get(),
            "queued": workers.queued.get(),
            "jobs": workers.jobs.get(),
            "busy_seconds": seconds(workers.busy_ns.get()),
        },
        "requests": metrics.requests.get(),
        "requests_refused": metrics.requests_refused.get(),
        "parked": metrics.requests_parked.get(),
        "bytes_in": metrics.bytes_in.get(),
        "bytes_out": metrics.bytes_out.get(),
        "panics": metrics.panics.get(),
    })
}

fn seconds(ns: u64) -> f64 {
    std::time::Duration::from_nanos(ns).as_secs_f64()
}
