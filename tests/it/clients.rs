//! Clients that are programs of their own: kcat, confluent-kafka, kafka-python.

use crate::harness::commands::{has_kcat, kcat, python};
use crate::harness::librdkafka::{self, numbered, texts};
use crate::harness::{Gateway, Nats, Version};
use crate::on_each_server;

on_each_server! {
    fn kcat_reads_what_kcat_wrote(version) {
        if !has_kcat() {
            return;
        }
        let nats = Nats::start(version);
        let gateway = Gateway::start(&nats, &[]);
        let broker = gateway.bootstrap();
        let lines: String = numbered(200).iter().map(|line| format!("{line}\n")).collect();
        kcat(&["-b", &broker, "-t", "t", "-P", "-z", "gzip"], &lines);
        assert_eq!(kcat(&["-b", &broker, "-t", "t", "-C", "-e", "-q", "-o", "beginning"], ""), lines);
        assert_eq!(kcat(&["-b", &broker, "-t", "t", "-C", "-e", "-q", "-o", "-2"], ""), "record-198\nrecord-199\n");
        assert_eq!(kcat(&["-b", &broker, "-Q", "-t", "t:0:-1"], "").trim(), "t [0] offset 200");
        let listing = kcat(&["-b", &broker, "-L"], "");
        assert!(listing.contains(&format!("at {broker}")), "{listing}");
        assert!(listing.contains("topic \"t\" with 1 partitions"), "{listing}");
    }

    fn a_kcat_group_resumes_where_it_stopped(version) {
        if !has_kcat() {
            return;
        }
        let nats = Nats::start(version);
        let mut gateway = Gateway::start(&nats, &[]);
        let broker = gateway.bootstrap();
        librdkafka::produce(&broker, "t", &[], &numbered(10));
        let group = ["-b", &broker, "-q", "-X", "auto.offset.reset=earliest"];
        let take = |count: &'static str| kcat(&[&group[..], &["-c", count, "-G", "g", "t"]].concat(), "");
        let first = take("4");
        gateway.kill();
        gateway.restart();
        let rest = take("6");
        let seen: Vec<&str> = first.lines().chain(rest.lines()).collect();
        assert_eq!(seen, numbered(10));
    }

    fn kafka_python_shares_a_topic_among_three_consumers(version) {
        let nats = Nats::start(version);
        let gateway = Gateway::start(&nats, &[]);
        python("kafka_python_group.py", &[&gateway.bootstrap()]);
    }
}

#[test]
fn kafka_python_produces_consumes_and_administers() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    python("kafka_python_session.py", &[&gateway.bootstrap()]);
}

#[test]
fn confluent_kafka_produces_consumes_and_administers() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    python("confluent_kafka_session.py", &[&gateway.bootstrap()]);
}

#[test]
fn kafka_python_reads_what_librdkafka_wrote_and_the_other_way_round() {
    let nats = Nats::start(Version::Newest);
    let gateway = Gateway::start(&nats, &[]);
    let values = numbered(500);
    librdkafka::produce(&gateway.bootstrap(), "there", &[("compression.codec", "gzip")], &values);
    python("kafka_python_copy.py", &[&gateway.bootstrap(), "there", "back", "500"]);
    assert_eq!(texts(&librdkafka::consume(&gateway.bootstrap(), "back", 500)), values);
}
