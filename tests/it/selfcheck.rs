//! temp
use crate::harness::*;
use crate::on_each_server;
use serde_json::json;
use std::time::Duration;
on_each_server! {
fn nats(version) {
    let mut n = Nats::start(version);
    let mut js = n.jetstream();
    js.api("STREAM.CREATE.kafka-t-0", &json!({"name":"kafka-t-0","subjects":["kafka.t.0"],"allow_direct":true,"storage":"file","num_replicas":1,"retention":"limits","discard":"old"}));
    let mut w = n.jetstream();
    w.subscribe("$JS.API.DIRECT.GET.>");
    w.subscribe("$JS.API.STREAM.MSG.GET.>");
    assert_eq!(js.store("kafka.t.0", "A: b\r\n", b"hi"), 1);
    js.publish_all("kafka.t.0", (0..100_000).map(|_| &b"xx"[..]));
    assert_eq!(eventually("x", SOON, || Some(js.state("kafka-t-0")).filter(|s| s.messages==100_001)).last, 100_001);
    let t=std::time::Instant::now();
    assert_eq!(js.messages("kafka-t-0").len(), 100_001);
    eprintln!("read {:?}", t.elapsed());
    js.purge("kafka-t-0", None);
    js.purge("kafka-t-0", Some(1_000_000_000_000_000_000));
    eprintln!("{:?}", js.state("kafka-t-0"));
    assert_eq!(js.store("kafka.t.0", "", b"hi"), 1_000_000_000_000_000_000);
    let seen = w.watch(Duration::from_millis(500));
    eprintln!("{} {:?}", seen.len(), &seen[0]);
    n.restart();
    let mut js = n.jetstream();
    eprintln!("{:?} {}", js.state("kafka-t-0"), n.monitor("/varz")["version"]);
    let e = js.try_api("STREAM.MSG.GET.kafka-t-0", &json!({"seq":77}));
    eprintln!("{e:?}");
}
}
