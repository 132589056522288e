//! Groups under fire: gateways over servers behind proxies, members that come and go, faults from a seed, quiet, judgement.

use crate::group_checker::check;
use crate::group_consumers;
use crate::group_history::{Event, Journal, What};
use crate::group_java::{self, JavaGroups};
use crate::group_members::{Course, Member, PARTITIONS, TOPIC, watch_commits};
use crate::harness::balancer::Balancer;
use crate::harness::wire::topic_name;
use crate::harness::{Gateway, eventually, free_port};
use crate::outages::{Outage, Site, last};
use crate::random::Random;
use crate::rig::{Config, RECOVERY};
use crate::run::say;
use crate::servers::Servers;
use kafka_protocol::messages::CreateTopicsRequest;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const MEMBERS: usize = 6;
const CONSUMERS: usize = 3;

pub const ALL: &[Outage] = &[
    Outage::KillGateway,
    Outage::StopGateway,
    Outage::FreezeGateway,
    Outage::KillGateways,
    Outage::KillServer,
    Outage::KillAllServers,
    Outage::FreezeServer,
    Outage::FreezeFollowers,
    Outage::StepDown,
    Outage::LoseAcks,
    Outage::DelayAcks,
    Outage::HoldRequests,
    Outage::HoldAnswers,
    Outage::CutConnections,
];

/// The buckets whose leaders are made to step down.
const BUCKETS: &[&str] = &["KV_kafka-groups", "KV_kafka-consumer-offsets", "KV_kafka-leases"];

pub struct Plan<'a> {
    pub config: Config,
    /// All gateways behind one address.
    pub shared: bool,
    pub seed: u64,
    pub span: Duration,
    pub faults: &'a [Outage],
}

struct Rig {
    gateways: Vec<Gateway>,
    servers: Servers,
    ports: Vec<u16>,
    bootstrap: String,
}

impl Rig {
    fn start(config: Config, shared: bool) -> Rig {
        let servers = Servers::start(config.version, config.servers);
        servers.proxies().for_each(|proxy| proxy.include_buckets());
        let balancer = shared.then(|| Balancer::start(free_port()));
        let gateway = |_| {
            let mut flags = vec![format!("--replicas={}", config.servers), "--auto-create=false".to_owned()];
            flags.extend(balancer.as_ref().map(|balancer| format!("--advertise={}", balancer.address())));
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            let mut gateway = Gateway::not_ready(&servers.urls(), &flags);
            gateway.wait_ready();
            gateway
        };
        let gateways: Vec<Gateway> = (0..config.gateways).map(gateway).collect();
        let mut ports: Vec<u16> = gateways.iter().map(|gateway| gateway.port).collect();
        let mut bootstrap = gateways.iter().map(Gateway::bootstrap).collect::<Vec<String>>().join(",");
        if let Some(balancer) = &balancer {
            ports.iter().for_each(|port| balancer.add(*port));
            ports = vec![balancer.port];
            bootstrap = balancer.address();
        }
        let rig = Rig { gateways, servers, ports, bootstrap };
        rig.create_topic(TOPIC, PARTITIONS);
        rig.create_topic(group_consumers::TOPIC, group_consumers::PARTITIONS);
        rig
    }

    fn create_topic(&self, name: &str, partitions: i32) {
        let topic = CreatableTopic::default()
            .with_name(topic_name(name))
            .with_num_partitions(partitions)
            .with_replication_factor(-1);
        let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(20_000);
        let exists = 36;
        eventually("the topic is created", RECOVERY, || {
            let code = self.gateways[0].wire().call(5, &request).topics.remove(0).error_code;
            (code == 0 || code == exists).then_some(())
        });
    }

    fn strike(&mut self, random: &mut Random, outage: Outage) {
        let streams = BUCKETS.iter().map(|&name| name.to_owned()).collect();
        let mut site = Site { gateways: &mut self.gateways, servers: &mut self.servers, streams, dead_ms_max: 9_000 };
        site.strike(random, outage);
        site.heal();
    }
}

/// Ends the course when dropped, also when the run fails: the clients are waited for.
struct Over<'a>(&'a Course);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// Runs a plan and panics with what the checker found.
pub fn run(plan: &Plan) {
    let Plan { config, shared, seed, span, faults } = *plan;
    let address = if shared { "one address" } else { "an address each" };
    let name = format!("groups CONFIG={config} SEED={seed}, {address}");
    say(&format!("{name}, for {span:?}"));
    let mut random = Random::new(seed);
    let mut rig = Rig::start(config, shared);
    let journal = Arc::new(Journal::new());
    let course = Course {
        ports: rig.ports.clone(),
        journal: journal.clone(),
        stop: AtomicBool::new(false),
        settled: Default::default(),
        restless: AtomicBool::new(true),
    };
    let java = group_java::installed().map(|home| JavaGroups::new(home, &journal));
    let bootstrap = rig.bootstrap.clone();
    let began = Instant::now();
    let restless_until = journal.now() + u64::try_from(span.as_micros()).expect("a run is short");
    let mut struck = 0;
    let mut settled_after = Duration::ZERO;
    let mut lines: Vec<String> = Vec::new();
    std::thread::scope(|scope| {
        let (course, journal, bootstrap) = (&course, &journal, bootstrap.as_str());
        let over = Over(course);
        for number in 0..MEMBERS {
            let random = random.fork();
            scope.spawn(move || Member::run(course, number, random));
        }
        for _ in 0..2 {
            let random = random.fork();
            scope.spawn(move || watch_commits(course, random));
        }
        for _ in 0..CONSUMERS {
            let random = random.fork();
            scope.spawn(move || group_consumers::consume(course, journal, bootstrap, random));
        }
        scope.spawn(move || group_consumers::produce(course, bootstrap));
        if let Some(java) = &java {
            // With random numbers of their own, so that a seed strikes alike with and without them.
            let mut random = Random::new(!seed);
            for process in JavaGroups::processes() {
                let random = random.fork();
                scope.spawn(move || java.run(course, process, bootstrap, restless_until, random));
            }
        }
        while began.elapsed() < span {
            let fault = *random.pick(faults);
            if config.servers == 1 && fault.needs_a_cluster() {
                continue;
            }
            let from = began.elapsed();
            rig.strike(&mut random, fault);
            say(&format!("{from:.1?} to {:.1?} {fault:?}", began.elapsed()));
            last(&mut random, 500, 8_000);
            struck += 1;
        }
        course.restless.store(false, Ordering::Relaxed);
        let quiet = Instant::now();
        eventually("all members share the partitions in one generation", RECOVERY, || {
            course.is_settled(MEMBERS).then_some(())
        });
        settled_after = quiet.elapsed();
        if let Some(java) = &java {
            lines.extend(java.wait_settled());
        }
        last(&mut random, 3_000, 3_000);
        assert!(course.is_settled(MEMBERS), "they do not stay settled");
        drop(over);
    });
    let histories = histories(&journal, java.as_ref());
    for (group, events, partitions) in &histories {
        let violations = check(events, *partitions);
        say(&format!("{name}: {group}: {}; {} violations", summary(events), violations.len()));
        lines.extend(violations.iter().map(|one| format!("{group}: {:?}: {}", one.fault, one.evidence)));
    }
    say(&format!("{name}: {struck} faults, settled after {settled_after:.1?}; {} violations", lines.len()));
    if let (false, Some(folder)) = (lines.is_empty(), std::env::var_os("KEEP")) {
        let folder = std::path::Path::new(&folder).join(seed.to_string());
        keep(&rig, &histories, &folder);
        java.iter().for_each(|java| java.keep_logs(&folder));
    }
    assert!(lines.is_empty(), "{name}\n  {}", lines.join("\n  "));
}

/// Who wrote it, what they saw, and how many partitions they share.
type History = (&'static str, Vec<Event>, i32);

fn histories(journal: &Journal, java: Option<&JavaGroups>) -> Vec<History> {
    let java = java.into_iter().flat_map(JavaGroups::each);
    let java = java.map(|(group, saw)| (group, saw.journal.take(), group_consumers::PARTITIONS));
    std::iter::once(("members", journal.take(), PARTITIONS)).chain(java).collect()
}

/// What a history amounts to.
fn summary(events: &[Event]) -> String {
    let count = |which: fn(&What) -> bool| events.iter().filter(|event| which(&event.what)).count();
    let generations = events.iter().filter_map(|event| match event.what {
        What::Joined { generation, .. } => Some(generation),
        _ => None,
    });
    format!(
        "{} generations, members' commits {} acknowledged and {} not, {} looks at them; consumers' commits {} acknowledged and \
         {} not, {} partitions begun, {} records",
        generations.max().unwrap_or(0),
        count(|what| matches!(what, What::Committed { acked: true, .. })),
        count(|what| matches!(what, What::Committed { acked: false, .. })),
        count(|what| matches!(what, What::Fetched { .. })),
        count(|what| matches!(what, What::Stored { acked: true, .. })),
        count(|what| matches!(what, What::Stored { acked: false, .. })),
        count(|what| matches!(what, What::Began { .. })),
        count(|what| matches!(what, What::Delivered { .. })),
    )
}

/// Writes down all that is known of a run that went wrong.
fn keep(rig: &Rig, histories: &[History], folder: &std::path::Path) {
    let _ = std::fs::create_dir_all(folder);
    let gateways = rig.gateways.iter().enumerate();
    let logs = gateways.map(|(number, gateway)| (format!("gateway-{number}"), gateway.log()));
    for (name, log) in logs.chain(rig.servers.logs()) {
        let _ = std::fs::copy(log, folder.join(name));
    }
    for (group, events, _) in histories {
        let lines = events.iter().map(|event| format!("{event:?}\n")).collect::<String>();
        let _ = std::fs::write(folder.join(format!("history-{group}")), lines);
    }
}
