//! What befalls gateways, servers and the connections between them, whatever runs over them; each is taken back again.

use crate::harness::Gateway;
use crate::random::Random;
use crate::servers::Servers;
use std::fmt;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    KillGateway,
    StopGateway,
    FreezeGateway,
    /// Two of them, one after the other.
    KillGateways,
    /// A gateway dies while its server is frozen.
    KillGatewayOfFrozenServer,
    KillServer,
    KillAllServers,
    FreezeServer,
    /// Both followers of a stream: its leader cannot commit.
    FreezeFollowers,
    StepDown,
    LoseAcks,
    DelayAcks,
    HoldRequests,
    HoldAnswers,
    CutConnections,
}

impl Outage {
    /// Gateways cannot ask the store meanwhile, or not all of it.
    pub fn troubles_the_store(self) -> bool {
        use Outage::*;
        match self {
            KillGateway | StopGateway | FreezeGateway | KillGateways | LoseAcks | DelayAcks => false,
            KillServer
            | KillAllServers
            | FreezeServer
            | FreezeFollowers
            | StepDown
            | HoldRequests
            | HoldAnswers
            | CutConnections
            | KillGatewayOfFrozenServer => true,
        }
    }

    pub fn needs_a_cluster(self) -> bool {
        matches!(self, Outage::FreezeFollowers | Outage::StepDown)
    }
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What may be struck.
pub struct Site<'a> {
    pub gateways: &'a mut [Gateway],
    pub servers: &'a mut Servers,
    /// Those that lose their leaders.
    pub streams: Vec<String>,
    /// How long a gateway may be dead.
    pub dead_ms_max: u64,
}

impl Site<'_> {
    /// Lets it happen and waits; gives the gateway that was frozen, if one was. `heal` takes it back.
    pub fn strike(&mut self, random: &mut Random, outage: Outage) -> Option<usize> {
        let gateway = random.below(self.gateways.len());
        let server = random.below(self.servers.count());
        match outage {
            Outage::KillGateway => {
                self.gateways[gateway].kill();
                last(random, 0, self.dead_ms_max);
            }
            Outage::StopGateway => {
                self.gateways[gateway].terminate();
                last(random, 0, 3_000);
            }
            Outage::FreezeGateway => {
                self.gateways[gateway].process().signal(libc::SIGSTOP);
                last(random, 500, 12_000);
            }
            Outage::KillGateways => {
                for victim in [gateway, (gateway + 1) % self.gateways.len()] {
                    self.gateways[victim].kill();
                    last(random, 0, 6_000);
                }
            }
            Outage::KillGatewayOfFrozenServer => {
                self.servers.freeze(server);
                last(random, 10, 3_000);
                self.gateways[gateway].kill();
                last(random, 10, 3_000);
            }
            Outage::KillServer => {
                self.servers.kill(server);
                last(random, 0, 4_000);
            }
            Outage::KillAllServers => {
                self.servers.kill_all();
                last(random, 0, 5_000);
            }
            Outage::FreezeServer => {
                self.servers.freeze(server);
                last(random, 1_000, 12_000);
            }
            Outage::FreezeFollowers => {
                let leader = self.servers.leader_of(random.pick::<String>(&self.streams));
                let others = (0..self.servers.count()).filter(|index| Some(*index) != leader);
                others.for_each(|index| self.servers.freeze(index));
                last(random, 1_000, 8_000);
            }
            Outage::StepDown => {
                for _ in 0..random.between(1, 5) {
                    self.servers.step_down(random.pick::<String>(&self.streams));
                    last(random, 100, 1_500);
                }
            }
            Outage::LoseAcks => {
                let per_mille = *random.pick(&[50, 300, 1000]);
                self.servers.proxies().for_each(|proxy| proxy.lose_acks(per_mille));
                last(random, 1_000, 8_000);
            }
            Outage::DelayAcks => {
                let late = Duration::from_millis(*random.pick(&[20, 400, 6_000]));
                self.servers.proxies().for_each(|proxy| proxy.delay_acks(late));
                last(random, 1_000, 8_000);
            }
            Outage::HoldRequests => {
                self.servers.proxies().for_each(|proxy| proxy.hold_requests());
                last(random, 500, 12_000);
            }
            Outage::HoldAnswers => {
                self.servers.proxies().for_each(|proxy| proxy.hold_answers());
                last(random, 500, 12_000);
            }
            Outage::CutConnections => {
                for _ in 0..random.between(1, 4) {
                    self.servers.proxies().for_each(|proxy| proxy.cut());
                    last(random, 50, 1_000);
                }
            }
        }
        (outage == Outage::FreezeGateway).then_some(gateway)
    }

    /// All is taken back: frozen gateways go on, dead ones start again, the servers too.
    pub fn heal(&mut self) {
        self.servers.revive();
        for gateway in &mut *self.gateways {
            if gateway.is_running() {
                gateway.process().signal(libc::SIGCONT);
            } else {
                gateway.restart();
            }
        }
    }
}

pub fn last(random: &mut Random, least_ms: u64, most_ms: u64) {
    std::thread::sleep(Duration::from_millis(random.between(least_ms, most_ms)));
}
