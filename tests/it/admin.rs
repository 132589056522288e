//! The admin port: what it tells of topics, groups and the gateway, and that nobody can tie it up.

use crate::harness::batch::Batch;
use crate::harness::http::{get, json, try_get};
use crate::harness::{Gateway, Nats, SOON, Version, Wire, eventually, librdkafka};
use crate::on_each_server;
use rdkafka::consumer::{CommitMode, Consumer};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn partitions(told: &Value) -> &Vec<Value> {
    told["topics"][0]["partitions"].as_array().expect("a list of partitions")
}

on_each_server! {
    fn topics_and_groups_are_told_as_they_stand(version) {
        let mut nats = Nats::start(version);
        let gateway = Gateway::start(&nats, &[]);
        let (bootstrap, admin) = (gateway.bootstrap(), gateway.admin_port);
        gateway.wire().create_topic("t", 2);
        librdkafka::produce(&bootstrap, "t", &[], &librdkafka::numbered(30));
        let settings = [("group.id", "g"), ("auto.offset.reset", "earliest"), ("enable.auto.commit", "false")];
        let consumer = librdkafka::consumer(&bootstrap, &settings);
        consumer.subscribe(&["t"]).expect("a subscription");
        librdkafka::take(&consumer, 30);
        consumer.commit_consumer_state(CommitMode::Sync).expect("committed");
        librdkafka::produce(&bootstrap, "t", &[], &librdkafka::numbered(12));

        let topics = json(admin, "/v1/stream/topics?topic=t");
        let mut jetstream = nats.jetstream();
        for (index, partition) in partitions(&topics).iter().enumerate() {
            let state = jetstream.state(&format!("kafka-t-{index}"));
            assert_eq!(partition["stream"], json!(format!("kafka-t-{index}")));
            assert_eq!(partition["subject"], json!(format!("kafka.t.{index}")));
            assert_eq!(partition["messages"], json!(state.messages));
            assert_eq!(partition["last_sequence"], json!(state.last));
            assert_eq!((&partition["log_start"], &partition["log_start_exact"]), (&json!(0), &json!(true)));
            assert_eq!(partition["next_offset_exact"], json!(true));
        }
        let ends: i64 = partitions(&topics).iter().filter_map(|partition| partition["next_offset"].as_i64()).sum();
        assert_eq!(ends, 42);

        let groups = json(admin, "/v1/stream/groups?group=g");
        let group = &groups["groups"][0];
        assert_eq!((&group["state"], &group["lag"]), (&json!("Stable"), &json!(12)), "{groups}");
        let member = &group["members"][0]["member_id"];
        for row in group["partitions"].as_array().expect("a list") {
            let (end, committed) = (row["log_end"].as_i64().expect("a number"), row["committed"].as_i64());
            assert_eq!(row["lag"].as_i64(), committed.map(|committed| end - committed));
            assert_eq!(&row["member"], member);
        }
        assert_eq!(json(admin, "/v1/stream/groups?topic=t")["groups"][0]["group"], json!("g"));
        eventually("the lag stands in the metrics", SOON, || {
            let lag: i64 = samples(&get(admin, "/metrics").1)
                .into_iter()
                .filter(|(series, _)| series.starts_with("hanzo_kafka_group_lag{group=\"g\",topic=\"t\""))
                .map(|(_, value)| value.parse::<i64>().expect("a whole number"))
                .sum();
            (lag == 12).then_some(())
        });

        assert_eq!(get(admin, "/healthz"), (200, "ok\n".to_owned()));
        nats.kill();
        eventually("it is told that the store is away", SOON, || (get(admin, "/healthz").0 == 503).then_some(()));
        for path in ["/v1/stream/topics", "/v1/stream/groups"] {
            let (status, body) = get(admin, path);
            let reason = serde_json::from_str::<Value>(&body).expect("JSON")["error"].clone();
            assert!(status == 503 && reason.is_string(), "{path}: {status} {body}");
        }
        assert_eq!(json(admin, "/v1/stream/status")["connected"], json!(false));
        assert_eq!(get(admin, "/metrics").0, 200);
        nats.restart();
        eventually("it is healthy again", SOON, || (get(admin, "/healthz").0 == 200).then_some(()));
        assert_eq!(partitions(&json(admin, "/v1/stream/topics?topic=t")).len(), 2);
    }
}

#[test]
fn a_restarted_gateway_tells_ends_without_loading_logs() {
    let nats = Nats::start(Version::Newest);
    let mut gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    for topic in ["a", "b", "c", "d", "e", "f"] {
        wire.create_topic(topic, 1);
        wire.produce_ok(topic, 0, &Batch::of(["x", "y"]));
    }
    assert!(gateway.terminate().success());
    gateway.restart();
    let told = json(gateway.admin_port, "/v1/stream/topics");
    for topic in told["topics"].as_array().expect("a list") {
        let partition = &topic["partitions"][0];
        assert_eq!((&partition["next_offset"], &partition["next_offset_exact"]), (&json!(2), &json!(true)));
    }
    let metrics = samples(&get(gateway.admin_port, "/metrics").1);
    assert_eq!(metrics["hanzo_kafka_store_seconds_count{operation=\"messages_read\"}"], "0", "no log was read");
}

#[test]
fn a_thousand_topics_are_listed_at_once() {
    const TOPICS: usize = 1_000;
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    std::thread::scope(|scope| {
        for first in 0..4 {
            let mut wire = gateway.wire();
            scope.spawn(move || (first..TOPICS).step_by(4).for_each(|n| wire.create_topic(&format!("t{n}"), 1)));
        }
    });
    let (took, count) = (0..3)
        .map(|_| {
            let began = Instant::now();
            let told = json(gateway.admin_port, "/v1/stream/topics");
            (began.elapsed(), told["topics"].as_array().expect("a list").len())
        })
        .min()
        .expect("three");
    assert_eq!(count, TOPICS);
    println!("{TOPICS} topics in {took:?}");
    // An idle machine and a release build take a tenth of a second.
    assert!(took < Duration::from_secs(5), "{TOPICS} topics took {took:?}");
}

#[test]
fn slow_sockets_cost_neither_threads_nor_memory_nor_clients() {
    let nats = Nats::start(Version::Newest);
    let mut gateway = Gateway::start(&nats, &[]);
    let mut wire = gateway.wire();
    wire.create_topic("t", 1);
    let median = |wire: &mut Wire| {
        let mut times: Vec<Duration> = (0..100)
            .map(|_| {
                let began = Instant::now();
                wire.produce_ok("t", 0, &Batch::of(["x"]));
                began.elapsed()
            })
            .collect();
        times.sort();
        times[times.len() / 2]
    };
    median(&mut wire);
    let before = median(&mut wire);
    let (threads, resident) = (gateway.process().threads(), gateway.process().resident_bytes());

    let port = gateway.admin_port;
    let connect = move || {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.set_nonblocking(true).expect("it can be set");
        stream
    };
    let mut silent: Vec<TcpStream> = (0..100).map(|_| connect()).collect();
    let mut dripping: Vec<TcpStream> = (0..100).map(|_| connect()).collect();
    let mut drip = |byte: &[u8]| {
        // Those that were ended are replaced: always two hundred.
        for stream in dripping.iter_mut().chain(&mut silent) {
            if stream.read(&mut [0; 512]).is_ok() {
                *stream = connect();
            }
        }
        dripping.iter_mut().for_each(|stream| drop(stream.write(byte)));
    };
    let mut during = Vec::new();
    for byte in b"GET /metrics HTTP/1.1" {
        drip(&[*byte]);
        during.push(median(&mut wire));
        let began = Instant::now();
        assert_eq!(get(port, "/healthz").0, 200);
        assert!(began.elapsed() < Duration::from_secs(5), "a probe took {:?}", began.elapsed());
        assert!(try_get(port, "/v1/stream/topics").is_some_and(|(status, _)| status == 200));
    }
    during.sort();
    let during = during[during.len() / 2];
    let (threads_now, resident_now) = (gateway.process().threads(), gateway.process().resident_bytes());
    println!(
        "a produce took {before:?}, then {during:?}; threads {threads:?}, then {threads_now:?}; bytes {resident:?}, then {resident_now:?}"
    );
    drop((silent, dripping));
    // Other tests come and go meanwhile: what it takes without slow sockets is measured on both sides.
    let quiet = before.max(median(&mut wire));
    assert!(during < quiet * 4 + Duration::from_millis(50), "a produce took {quiet:?}, among slow sockets {during:?}");
    if let (Some(threads), Some(now)) = (threads, threads_now) {
        assert!(now <= threads + 2, "{threads} threads, then {now}");
    }
    if let (Some(resident), Some(now)) = (resident, resident_now) {
        assert!(now < resident + 32 * 1024 * 1024, "{resident} bytes, then {now}");
    }
}

#[test]
fn metrics_keep_to_the_format_whatever_groups_are_called() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let bootstrap = gateway.bootstrap();
    librdkafka::produce(&bootstrap, "t", &[], &librdkafka::numbered(3));
    let strange = "a \"quoted\"\n back\\slash {x=\"y\"} 1 <script>";
    let settings = [("group.id", strange), ("auto.offset.reset", "earliest"), ("enable.auto.commit", "false")];
    let consumer = librdkafka::consumer(&bootstrap, &settings);
    consumer.subscribe(&["t"]).expect("a subscription");
    librdkafka::take(&consumer, 3);
    consumer.commit_consumer_state(CommitMode::Sync).expect("committed");
    // Answered with an error.
    gateway.wire().produce("t", 99, &Batch::of(["x"]));
    let found = samples(&get(gateway.admin_port, "/metrics").1);
    let lag =
        r#"hanzo_kafka_group_lag{group="a \"quoted\"\n back\\slash {x=\"y\"} 1 <script>",topic="t",partition="0"}"#;
    assert_eq!(found.get(lag).map(String::as_str), Some("0"), "{found:#?}");
    assert_eq!(found[r#"hanzo_kafka_errors_total{api="Produce",code="3",error="UNKNOWN_TOPIC_OR_PARTITION"}"#], "1");
    for counted in [
        "hanzo_kafka_requests_total{api=\"Fetch\"}",
        "hanzo_kafka_request_seconds_count{api=\"Produce\"}",
        "hanzo_kafka_commit_batches_count",
        "hanzo_kafka_received_bytes_total",
        "hanzo_kafka_sent_bytes_total",
        "hanzo_kafka_connections",
        "hanzo_kafka_workers_busy_seconds_total",
        "hanzo_kafka_store_seconds_count{operation=\"publish\"}",
        "hanzo_kafka_cache_hits_total",
        "process_threads",
    ] {
        let value: f64 =
            found.get(counted).unwrap_or_else(|| panic!("{counted} is missing")).parse().expect("a number");
        assert!(value > 0.0, "{counted} is {value}");
    }
    let groups = json(gateway.admin_port, "/v1/stream/groups");
    assert_eq!(groups["groups"][0]["group"], json!(strange));
}

/// The metric names in a text.
fn metric_names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("hanzo_kafka_") || word.starts_with("process_")).collect()
}

#[test]
fn dashboard_alerts_and_documents_name_metrics_that_are_told() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let text = get(gateway.admin_port, "/metrics").1;
    let mut told: BTreeSet<String> = metric_names(&text).into_iter().map(str::to_owned).collect();
    let families: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split(' ').next()).collect();
    assert!(families.len() > 30);
    told.extend(families.iter().map(|family| (*family).to_owned()));
    let dashboard = include_str!("../../deploy/grafana-dashboard.json");
    let panels = serde_json::from_str::<Value>(dashboard).expect("JSON")["panels"].as_array().map_or(0, Vec::len);
    assert!(panels > 20);
    let alerts = include_str!("../../deploy/alerts.yml");
    let document = include_str!("../../docs/monitoring.md");
    for (name, text) in [("the dashboard", dashboard), ("the alerts", alerts), ("docs/monitoring.md", document)] {
        let used = metric_names(text);
        assert!(!used.is_empty());
        // In the document `process_*` stands for all of them.
        let unknown: Vec<_> = used.iter().filter(|name| **name != "process_" && !told.contains(**name)).collect();
        assert!(unknown.is_empty(), "{name} uses what is not told: {unknown:?}");
    }
    // The document names each family, if only by its end: `…_refused_total`.
    for family in families.iter().filter(|family| family.starts_with("hanzo_kafka_")) {
        let ends = (0..family.len()).filter(|at| family[*at..].starts_with('_'));
        let named =
            document.contains(family) || ends.into_iter().any(|at| document.contains(&format!("…{}", &family[at..])));
        assert!(named, "docs/monitoring.md does not name {family}");
    }
}

#[test]
fn records_are_shown_inflated_cut_and_from_where_it_was_asked() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let admin = gateway.admin_port;
    for codec in ["gzip", "snappy", "lz4", "zstd"] {
        librdkafka::produce(&gateway.bootstrap(), "t", &[("compression.codec", codec)], &librdkafka::numbered(10));
    }
    let mut wire = gateway.wire();
    wire.produce_ok("t", 0, &Batch::of([vec![b'x'; 200_000], vec![0, 1, 2, 0xff]]));
    let texts = |told: &Value| -> Vec<String> {
        let records = told["records"].as_array().expect("a list").iter();
        records.map(|record| record["value"]["text"].as_str().unwrap_or("none").to_owned()).collect()
    };
    let told = json(admin, "/v1/stream/records?topic=t&partition=0&offset=0&count=40");
    assert_eq!(texts(&told), [(); 4].map(|()| librdkafka::numbered(10)).concat());
    assert_eq!((&told["from"], &told["continue_at"], &told["next_offset"]), (&json!(0), &json!(40), &json!(42)));
    let told = json(admin, "/v1/stream/records?topic=t&offset=15&count=3");
    assert_eq!(texts(&told), ["record-5", "record-6", "record-7"]);
    assert_eq!((&told["records"][0]["offset"], &told["continue_at"]), (&json!(15), &json!(18)));
    let newest = json(admin, "/v1/stream/records?topic=t&count=2");
    let values = [&newest["records"][0]["value"], &newest["records"][1]["value"]];
    assert_eq!((&values[0]["size"], &values[0]["cut"]), (&json!(200_000), &json!(true)));
    assert!(values[0]["text"].as_str().is_some_and(|text| text.len() < 100_000));
    assert_eq!(values[1]["hex"], json!("000102ff"));
    assert_eq!(json(admin, "/v1/stream/records?topic=t&offset=42")["records"], json!([]));
    assert_eq!(json(admin, "/v1/stream/records?topic=t&offset=9999999")["from"], json!(42));
    assert_eq!(
        json(admin, "/v1/stream/records?topic=t&offset=-5&count=999999")["records"].as_array().map(Vec::len),
        Some(42)
    );
    for (path, status) in [
        ("/v1/stream/records", 400),
        ("/v1/stream/records?topic=t&offset=x", 400),
        ("/v1/stream/records?topic=t&partition=99999999999", 400),
        ("/v1/stream/records?topic=t&partition=1", 404),
        ("/v1/stream/records?topic=t&partition=-1", 404),
        ("/v1/stream/records?topic=nobody", 404),
    ] {
        let (got, body) = get(admin, path);
        let reason = serde_json::from_str::<Value>(&body).expect("JSON")["error"].is_string();
        assert!(got == status && reason, "{path}: {got} {body}");
    }
}

/// Reads Prometheus's text format, strictly: each family once, with help and type before its samples and nothing of
/// others between them; no series twice; whole histograms whose buckets grow. Gives the values by series.
#[track_caller]
fn samples(text: &str) -> BTreeMap<String, String> {
    assert!(text.ends_with('\n'), "the last line is not ended");
    let mut found = BTreeMap::new();
    let mut families = BTreeSet::new();
    let (mut family, mut kind) = (String::new(), String::new());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').expect("a help text");
            assert!(!words.is_empty() && is_name(name), "{line}");
            assert!(families.insert(name.to_owned()), "{name} stands twice");
            family = name.to_owned();
            let told = lines.next().and_then(|line| line.strip_prefix("# TYPE ")).expect("a type after the help");
            kind = told.strip_prefix(&family).expect("of the same family").trim_start().to_owned();
            assert!(matches!(kind.as_str(), "counter" | "gauge" | "histogram"), "{told}");
            assert_eq!(kind == "counter", family.ends_with("_total"), "{family} is a {kind}");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
        value.parse::<f64>().unwrap_or_else(|_| panic!("no number: {line}"));
        let (name, labels) = split_labels(series);
        let suffix = name.strip_prefix(&family).unwrap_or_else(|| panic!("{line} stands under {family}"));
        match kind.as_str() {
            "histogram" => assert!(matches!(suffix, "_bucket" | "_sum" | "_count"), "{line}"),
            _ => assert_eq!(suffix, "", "{line}"),
        }
        assert_eq!(suffix == "_bucket", labels.iter().any(|(label, _)| label == "le"), "{line}");
        let names: BTreeSet<_> = labels.iter().map(|(label, _)| label).collect();
        assert_eq!(names.len(), labels.len(), "a label twice: {line}");
        assert!(found.insert(series.to_owned(), value.to_owned()).is_none(), "twice: {series}");
    }
    check_histograms(text, &found);
    found
}

/// The buckets of each series stand in the order of their bounds, grow, and end at the count.
#[track_caller]
fn check_histograms(text: &str, found: &BTreeMap<String, String>) {
    let mut last: Option<(String, f64, f64)> = None;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').expect("a sample");
        let (name, labels) = split_labels(series);
        let Some(family) = name.strip_suffix("_bucket") else { continue };
        let value: f64 = value.parse().expect("a number");
        let bound = &labels.iter().find(|(label, _)| label == "le").expect("a bound").1;
        let bound: f64 = if bound == "+Inf" { f64::INFINITY } else { bound.parse().expect("a bound") };
        let others: Vec<String> = labels
            .iter()
            .filter(|(label, _)| label != "le")
            .map(|(label, value)| format!("{label}=\"{value}\""))
            .collect();
        let of = |part: &str| match others.is_empty() {
            true => format!("{family}{part}"),
            false => format!("{family}{part}{{{}}}", others.join(",")),
        };
        if let Some((series, before, below)) = &last {
            assert!(*series == of("") && bound > *before && value >= *below, "{line}");
        }
        last = Some((of(""), bound, value));
        if bound.is_infinite() {
            assert_eq!(found[&of("_count")].parse::<f64>(), Ok(value), "{line}");
            assert!(found.contains_key(&of("_sum")), "{line}");
            last = None;
        }
    }
    assert!(last.is_none(), "a histogram without +Inf");
}

/// A series' name and its labels, values unescaped no further than needed to find their ends.
#[track_caller]
fn split_labels(series: &str) -> (&str, Vec<(String, String)>) {
    let Some((name, rest)) = series.split_once('{') else {
        assert!(is_name(series), "{series}");
        return (series, Vec::new());
    };
    assert!(is_name(name), "{series}");
    let mut rest = rest.strip_suffix('}').unwrap_or_else(|| panic!("labels do not end: {series}"));
    let mut labels = Vec::new();
    while !rest.is_empty() {
        let (label, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("no label: {series}"));
        assert!(is_name(label) && !label.contains(':'), "{series}");
        let mut end = None;
        let mut characters = after.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => {
                    let escaped = characters.next().map(|(_, escaped)| escaped);
                    assert!(matches!(escaped, Some('\\' | '"' | 'n')), "{series}");
                }
                '"' => {
                    end = Some(at);
                    break;
                }
                _ => {}
            }
        }
        let end = end.unwrap_or_else(|| panic!("a value does not end: {series}"));
        labels.push((label.to_owned(), after[..end].to_owned()));
        rest = &after[end + 1..];
        if !rest.is_empty() {
            rest = rest.strip_prefix(',').unwrap_or_else(|| panic!("no comma: {series}"));
        }
    }
    (name, labels)
}

fn is_name(text: &str) -> bool {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
    text.starts_with(first) && text.chars().all(|c| first(c) || c.is_ascii_digit())
}
