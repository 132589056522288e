//! A whole installation for a run: servers behind proxies, gateways, a topic, and what its log holds in the end.

use crate::clients::{Course, latest, values};
use crate::committer::lookup_request;
use crate::harness::wire::{EARLIEST, LATEST, RETRIABLE, fetch_request, topic_name};
use crate::harness::{Gateway, Version, Wire, eventually};
use crate::history::{Event, Journal, Outcome, Value, What};
use crate::nemesis::stream;
use crate::outages::Site;
use crate::run::say;
use crate::servers::Servers;
use kafka_protocol::messages::CreateTopicsRequest;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::protocol::StrBytes;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const TOPIC_ALREADY_EXISTS: i16 = 36;

pub const TOPIC: &str = "t";
pub const PARTITIONS: i32 = 2;

/// How long an installation may need to serve again once all is well.
pub const RECOVERY: Duration = Duration::from_secs(60);

/// How long a gateway may need to hear of what another one has acknowledged.
const HEARD_MAX: Duration = Duration::from_secs(15);

/// What loads the machine, or measures it, runs alone. Cases that mostly wait run beside it.
static ALONE: Mutex<()> = Mutex::new(());

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    pub servers: usize,
    pub version: Version,
    pub gateways: usize,
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = if self.version == Version::Newest { "newest" } else { "oldest" };
        write!(f, "r{}-{version}-{}", self.servers, self.gateways)
    }
}

impl FromStr for Config {
    type Err = String;

    /// `r3-newest-2`: three servers, the newest version, two gateways.
    fn from_str(text: &str) -> Result<Config, String> {
        let words: Vec<&str> = text.split('-').collect();
        let [servers @ ("r1" | "r3"), version @ ("newest" | "oldest"), gateways] = words[..] else {
            return Err(format!("{text} is not like r1-newest-2 or r3-oldest-3"));
        };
        let gateways = gateways.parse().ok().filter(|count| (1..=9).contains(count));
        Ok(Config {
            servers: if servers == "r1" { 1 } else { 3 },
            version: if version == "newest" { Version::Newest } else { Version::Oldest },
            gateways: gateways.ok_or_else(|| format!("{text}: 1 to 9 gateways"))?,
        })
    }
}

pub fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub struct Rig {
    pub gateways: Vec<Gateway>,
    pub servers: Servers,
    pub began: Instant,
    /// What is done to the installation on purpose, and what is read in the end.
    pub journal: Journal,
}

impl Rig {
    pub fn start(config: Config) -> Rig {
        let servers = Servers::start(config.version, config.servers);
        let gateway = |number: usize| {
            let flags = [
                format!("--node-id={}", number + 1),
                format!("--replicas={}", config.servers),
                "--auto-create=false".to_owned(),
            ];
            let mut gateway = Gateway::not_ready(&servers.urls(), &flags.each_ref().map(String::as_str));
            gateway.wait_ready();
            gateway
        };
        let gateways: Vec<Gateway> = (0..config.gateways).map(gateway).collect();
        let began = Instant::now();
        let rig = Rig { gateways, servers, began, journal: Journal::new(began) };
        rig.create_topic(TOPIC, PARTITIONS);
        rig
    }

    /// On as many servers as there are.
    #[track_caller]
    pub fn create_topic(&self, name: &str, partitions: i32) {
        // A minute of eight producers on a quiet machine is more than the default keeps.
        let (setting, unlimited) = (StrBytes::from_static_str("retention.bytes"), StrBytes::from_static_str("-1"));
        let topic = CreatableTopic::default()
            .with_name(topic_name(name))
            .with_num_partitions(partitions)
            .with_replication_factor(-1)
            .with_configs(vec![CreatableTopicConfig::default().with_name(setting).with_value(Some(unlimited))]);
        let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(20_000);
        let mut tries = 0;
        eventually("the topic is created", RECOVERY, || {
            let row = self.gateways[0].wire().call(5, &request).topics.remove(0);
            tries += 1;
            if row.error_code != 0 {
                say(&format!("creating {name}: error {}, {:?}", row.error_code, row.error_message));
            }
            // A request whose answer is "not in time" may have made it.
            let made = row.error_code == 0 || tries > 1 && row.error_code == TOPIC_ALREADY_EXISTS;
            assert!(made || RETRIABLE.contains(&row.error_code), "creating {name}: error {}", row.error_code);
            made.then_some(())
        });
    }

    pub fn course(&self) -> Course {
        Course {
            topic: TOPIC.to_owned(),
            ports: self.gateways.iter().map(|gateway| gateway.port).collect(),
            began: self.began,
            stop: AtomicBool::new(false),
            give_up: Mutex::new(None),
            acked: AtomicU64::new(0),
        }
    }

    /// Copies what gateways and servers logged to a folder, for a person to read.
    pub fn keep_logs(&self, folder: &Path) {
        let _ = std::fs::create_dir_all(folder);
        let gateways = self.gateways.iter().enumerate();
        let logs = gateways.map(|(number, gateway)| (format!("gateway-{number}"), gateway.log()));
        for (name, log) in logs.chain(self.servers.logs()) {
            let _ = std::fs::copy(log, folder.join(name));
        }
    }

    pub fn site(&mut self) -> Site<'_> {
        let streams = (0..PARTITIONS).map(stream).collect();
        Site { gateways: &mut self.gateways, servers: &mut self.servers, streams, dead_ms_max: 3_000 }
    }

    pub fn heal(&mut self) {
        self.site().heal();
    }

    /// Reads the whole log at each gateway, and once more at one that has just been started. `seen` is what clients saw.
    pub fn read_finally(&mut self, groups: &[u16], seen: &[Event]) {
        let ends: Vec<i64> = (0..PARTITIONS).map(|partition| acknowledged_end(seen, partition)).collect();
        for gateway in 0..self.gateways.len() {
            (0..).zip(&ends).for_each(|(partition, end)| self.read_whole(gateway, partition, *end));
        }
        self.gateways.iter_mut().for_each(Gateway::kill);
        let last = self.gateways.len() - 1;
        self.gateways[last].restart();
        (0..).zip(&ends).for_each(|(partition, end)| self.read_whole(last, partition, *end));
        for group in groups {
            self.read_committed(last, *group);
        }
    }

    #[track_caller]
    fn read_whole(&mut self, gateway: usize, partition: i32, acknowledged: i64) {
        let sent_us = self.journal.now_us();
        let port = self.gateways[gateway].port;
        // "latest" may come from a gateway's memory; one that has heard of all says so within a heartbeat or two.
        let known = self.known_end(partition);
        let asked = Instant::now();
        let high_watermark = eventually("the gateway knows the end", RECOVERY, || {
            let (error, offset) = latest(&mut Wire::connect(port), TOPIC, partition).ok()?;
            // What it has not heard of by then is for the checker to judge.
            let heard = offset >= acknowledged || asked.elapsed() > HEARD_MAX;
            (error == 0 && offset >= known && heard).then_some(offset)
        });
        let mut wire = Wire::connect(port);
        let log_start = eventually("the start of the log is told", RECOVERY, || {
            let (error, offset) = wire.try_list_offset(TOPIC, partition, EARLIEST);
            (error == 0).then_some(offset)
        });
        let mut records = Vec::new();
        let mut next = log_start;
        while next < high_watermark {
            let more = fetch_patiently(&mut wire, partition, next);
            next = more.last().map_or(high_watermark, |(last, _)| last + 1);
            records.extend(more);
        }
        self.journal.note(gateway, partition, sent_us, What::Final { log_start, high_watermark, records });
    }

    /// The end that an earlier final read was told.
    fn known_end(&self, partition: i32) -> i64 {
        let end = |event: &Event| match event.what {
            What::Final { high_watermark, .. } if event.partition == partition => Some(high_watermark),
            _ => None,
        };
        self.journal.events.iter().filter_map(end).max().unwrap_or(0)
    }

    fn read_committed(&mut self, gateway: usize, group: u16) {
        let mut wire = self.gateways[gateway].wire();
        let (sent_us, offset) = eventually("the committed offset is told", RECOVERY, || {
            let sent_us = self.journal.now_us();
            let answer = wire.call(7, &lookup_request(TOPIC, group));
            let partition = &answer.topics.first()?.partitions[0];
            let fine = answer.error_code == 0 && partition.error_code == 0;
            fine.then_some((sent_us, partition.committed_offset))
        });
        self.journal.note(gateway, 0, sent_us, What::Committed { group, offset });
    }
}

/// The offset after the last record of a partition that was acknowledged.
fn acknowledged_end(seen: &[Event], partition: i32) -> i64 {
    let end = |event: &Event| match event.what {
        What::Produce { count, outcome: Outcome::At(base), .. } if event.partition == partition => {
            Some(base + i64::from(count))
        }
        _ => None,
    };
    seen.iter().filter_map(end).max().unwrap_or(0)
}

/// What stands at `offset` and after it; nothing only where a batch without records ends the log.
#[track_caller]
fn fetch_patiently(wire: &mut Wire, partition: i32, offset: i64) -> Vec<(i64, Value)> {
    eventually("the log is read", RECOVERY, || {
        let data = wire.call(12, &fetch_request(TOPIC, partition, offset)).responses.remove(0).partitions.remove(0);
        assert!(
            data.error_code == 0 || RETRIABLE.contains(&data.error_code),
            "fetching {partition} at {offset}: error {} of {}",
            data.error_code,
            wire.list_offset(TOPIC, partition, LATEST)
        );
        // While the store is slow there is an answer without anything in it.
        let answered = data.error_code == 0 && data.records.as_ref().is_some_and(|records| !records.is_empty());
        answered.then(|| values(&data, offset))
    })
}
