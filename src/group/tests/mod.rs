//! Group tests are scripts with a manual clock: `join a`, `sleep 3s`, `expect join a generation=1 leader=a`.

mod classic;
mod commits;
mod crowd;
mod members;
mod owners;
pub mod rig;
mod service;
mod static_members;
mod stored;

use super::event::{Event, Join, JoinReply, LeaveReply, Leaving, Protocol, Reply, Sender, Sync, SyncReply, Token};
use super::record::{self, Label, Owner};
use super::state::{Effects, Group, Rules};
use crate::clock::{Clock, ManualClock};
use crate::protocol::error_code::ErrorCode;
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// Runs a script, one command a line; lines that start with `#` say why. What the commands are: see `Script::run`.
#[track_caller]
fn check(script: &str) {
    let mut state = Script::new();
    for (number, line) in script.lines().enumerate() {
        let line = line.trim();
        if !line.is_empty() && !line.starts_with('#') {
            state.run(line, number + 1);
        }
    }
}

#[derive(Default)]
struct Client {
    member_id: String,
    instance_id: Option<String>,
    generation: i32,
    joins: Vec<Token>,
    syncs: Vec<Token>,
    leaves: Vec<Token>,
}

struct Script {
    clock: ManualClock,
    group: Group,
    rules: Rules,
    clients: BTreeMap<String, Client>,
    replies: HashMap<Token, Reply>,
    next: u64,
    /// What waits for `stored` or `refused`, if writes are held.
    held: Option<(Group, Effects)>,
    hold: bool,
    stored: Option<Bytes>,
    writes: usize,
    line: String,
}

impl Script {
    fn new() -> Script {
        let clock = ManualClock::new();
        let group = Group::new(clock.now());
        let rules = Rules { initial_rebalance_delay: Duration::from_secs(3), size_max: 100, stored_bytes_max: 100_000 };
        let (clients, replies) = (BTreeMap::new(), HashMap::new());
        let line = String::new();
        Script {
            clock,
            group,
            rules,
            clients,
            replies,
            next: 1,
            held: None,
            hold: false,
            stored: None,
            writes: 0,
            line,
        }
    }

    /// join NAME [instance=I] [id=ID|id=none] [v=N] [session=D] [rebalance=D] [protocols=n:meta,…] [type=T]
    /// sync NAME [generation=N] [protocol=P] [assign=name:text,…]
    /// heartbeat NAME [generation=N] [id=ID] = CODE        commit NAME [generation=N] [id=ID] = CODE
    /// leave NAME… [instance=I]      gone NAME (its join or sync)      sleep D [beating=a,b]      limit size=N bytes=N
    /// hold | stored | refused       restart (from what is stored)
    /// expect join|sync|leave NAME key=value…     expect group key=value…
    #[track_caller]
    fn run(&mut self, line: &str, number: usize) {
        self.line = format!("line {number}: {line}");
        let words: Vec<&str> = line.split_whitespace().collect();
        let (verb, rest) = words.split_first().expect("not empty");
        let named: HashMap<&str, &str> = rest.iter().filter_map(|w| w.split_once('=')).collect();
        let plain: Vec<&str> = rest.iter().filter(|w| !w.contains('=')).copied().collect();
        match *verb {
            "join" => self.join(plain[0], &named),
            "sync" => self.sync(plain[0], &named),
            "heartbeat" | "commit" => self.ask(verb, plain[0], &named, plain[1]),
            "leave" => self.leave(&plain, &named),
            "gone" => self.gone(plain[0]),
            "sleep" => self.sleep(duration(plain[0]), named.get("beating").copied()),
            "limit" => self.limit(&named),
            "hold" => self.hold = true,
            "stored" => self.settle(true),
            "refused" => self.settle(false),
            "restart" => self.restart(),
            "expect" => self.expect(&plain, &named),
            other => panic!("{}: no such command: {other}", self.line),
        }
    }

    fn token(&mut self) -> Token {
        self.next += 1;
        Token(self.next)
    }

    fn join(&mut self, name: &str, named: &HashMap<&str, &str>) {
        let token = self.token();
        let version: i32 = named.get("v").map_or(3, |v| v.parse().expect("a version"));
        let client = self.clients.entry(name.to_owned()).or_default();
        client.joins.push(token);
        if let Some(instance_id) = named.get("instance") {
            client.instance_id = Some((*instance_id).to_owned());
        }
        let member_id = match named.get("id") {
            Some(&"none") => String::new(),
            Some(id) => (*id).to_owned(),
            None => client.member_id.clone(),
        };
        let join = Join {
            member_id,
            instance_id: client.instance_id.clone(),
            client_id: name.to_owned(),
            client_host: "/127.0.0.1".to_owned(),
            protocol_type: named.get("type").unwrap_or(&"consumer").to_string(),
            protocols: protocols(named.get("protocols").unwrap_or(&"range:m")),
            session_timeout: duration(named.get("session").unwrap_or(&"10s")),
            rebalance_timeout: duration(named.get("rebalance").unwrap_or(&"60s")),
            member_id_required: version >= 4,
            can_skip_assignment: version >= 9,
            reason: None,
            fresh_member_id: format!("{name}-{}", token.0),
        };
        self.apply(Event::Join(join), token);
    }

    fn sync(&mut self, name: &str, named: &HashMap<&str, &str>) {
        let token = self.token();
        let assignments = named.get("assign").map_or_else(Vec::new, |list| {
            let one = |pair: &str| {
                let (to, what) = pair.split_once(':').expect("name:text");
                (self.id_of(to), Bytes::from(what.to_owned()))
            };
            list.split(',').map(one).collect()
        });
        let sender = self.sender(name, named);
        self.clients.get_mut(name).expect("joined before").syncs.push(token);
        let protocol_name = named.get("protocol").map(|p| (*p).to_owned());
        self.apply(Event::Sync(Sync { sender, protocol_type: None, protocol_name, assignments }), token);
    }

    fn sender(&self, name: &str, named: &HashMap<&str, &str>) -> Sender {
        let client = self.clients.get(name);
        Sender {
            member_id: named.get("id").map_or_else(|| self.id_of(name), |id| (*id).replace("none", "")),
            instance_id: client.and_then(|c| c.instance_id.clone()),
            generation: match named.get("generation") {
                Some(generation) => generation.parse().expect("a number"),
                None => client.map_or(-1, |c| c.generation),
            },
        }
    }

    fn id_of(&self, name: &str) -> String {
        self.clients.get(name).map_or_else(|| name.to_owned(), |c| c.member_id.clone())
    }

    #[track_caller]
    fn ask(&mut self, verb: &str, name: &str, named: &HashMap<&str, &str>, expected: &str) {
        let sender = self.sender(name, named);
        let now = self.clock.now();
        let code = if verb == "heartbeat" {
            self.group.heartbeat(&sender, now)
        } else {
            let checked = self.group.check_commit(&sender).err();
            if checked.is_none() {
                self.group.touch_by_commit(&sender.member_id, now);
            }
            checked.unwrap_or(ErrorCode::NONE)
        };
        assert_eq!(code.code().to_string(), expected, "{}", self.line);
    }

    fn leave(&mut self, names: &[&str], named: &HashMap<&str, &str>) {
        let token = self.token();
        let mut leaving = Vec::new();
        for name in names {
            let client = self.clients.entry((*name).to_owned()).or_default();
            client.leaves.push(token);
            let member_id = named.get("id").map_or(client.member_id.clone(), |id| (*id).replace("none", ""));
            let instance_id = named.get("instance").map(|i| (*i).to_owned()).or(client.instance_id.clone());
            leaving.push(Leaving { member_id, instance_id, reason: None });
        }
        self.apply(Event::Leave(leaving), token);
    }

    fn gone(&mut self, name: &str) {
        let client = &self.clients[name];
        let last = client.joins.iter().chain(&client.syncs).max().copied().expect("it asked for something");
        let token = self.token();
        self.apply(Event::Abandon(last), token);
    }

    fn sleep(&mut self, length: Duration, beating: Option<&str>) {
        let until = self.clock.now().mono + length;
        loop {
            let now = self.clock.now().mono;
            let beat = beating.map(|_| now + Duration::from_secs(1));
            let due = self.group.next_deadline();
            let wake = [Some(until), beat, due].into_iter().flatten().min().expect("at least the end").max(now);
            self.clock.advance(wake - now);
            if due.is_some_and(|due| due <= wake) {
                let token = self.token();
                self.apply(Event::Tick, token);
                self.assert_rested(wake);
            }
            for name in beating.into_iter().flat_map(|names| names.split(',')) {
                let sender = self.sender(name, &HashMap::new());
                self.group.heartbeat(&sender, self.clock.now());
            }
            if wake >= until {
                return;
            }
        }
    }

    /// A tick leaves nothing that is due already: otherwise the timer would spin.
    fn assert_rested(&self, now: Instant) {
        if self.held.is_none() {
            assert!(self.group.next_deadline().is_none_or(|due| due > now), "{}: still due", self.line);
        }
    }

    fn limit(&mut self, named: &HashMap<&str, &str>) {
        if let Some(size) = named.get("size") {
            self.rules.size_max = size.parse().expect("a number");
        }
        if let Some(bytes) = named.get("bytes") {
            self.rules.stored_bytes_max = bytes.parse().expect("a number");
        }
    }

    fn apply(&mut self, event: Event, token: Token) {
        assert!(self.held.is_none(), "{}: a write is in flight", self.line);
        let mut next = self.group.clone();
        let effects = next.apply(event, token, self.clock.now(), &self.rules);
        if effects.persist {
            self.held = Some((next, effects));
            if !self.hold {
                self.settle(true);
            }
        } else {
            self.group = next;
            self.deliver(effects);
        }
    }

    fn settle(&mut self, stored: bool) {
        let (next, effects) = self.held.take().expect("a write is in flight");
        if stored {
            let owner = Some(Owner { gateway: "g1".to_owned(), epoch: 1 });
            let value = record::encode(&next, &Label { owner, nonce: "n".to_owned() });
            assert!(value.len() <= record::bytes_max(&next), "{}: {} bytes", self.line, value.len());
            self.stored = Some(value);
            self.writes += 1;
            self.group = next;
            self.deliver(effects);
        }
    }

    fn deliver(&mut self, effects: Effects) {
        for (token, reply) in effects.replies {
            if let Reply::Join(join) = &reply {
                let asker = self.clients.values_mut().find(|c| c.joins.contains(&token)).expect("who asked");
                let renamed = [ErrorCode::NONE, ErrorCode::MEMBER_ID_REQUIRED].contains(&join.error);
                if renamed && asker.joins.last() == Some(&token) {
                    asker.member_id = join.member_id.clone();
                    asker.generation = join.generation;
                }
            }
            assert!(self.replies.insert(token, reply).is_none(), "{}: answered twice", self.line);
        }
    }

    fn restart(&mut self) {
        let stored = self.stored.clone().expect("something is stored");
        let (group, label) = record::decode(&stored, self.clock.now()).expect("what was stored can be read");
        assert_eq!(label.owner.map(|o| o.gateway).as_deref(), Some("g1"));
        self.group = group;
        self.held = None;
    }

    #[track_caller]
    fn expect(&mut self, plain: &[&str], named: &HashMap<&str, &str>) {
        let facts = match plain[0] {
            "group" => self.group_facts(),
            what => {
                let client = &self.clients[plain[1]];
                let asked = match what {
                    "join" => &client.joins,
                    "sync" => &client.syncs,
                    _ => &client.leaves,
                };
                match asked.last().and_then(|token| self.replies.get(token)) {
                    None => HashMap::from([("answered", "no".to_owned())]),
                    Some(Reply::Join(reply)) => self.join_facts(reply),
                    Some(Reply::Sync(reply)) => sync_facts(reply),
                    Some(Reply::Leave(reply)) => leave_facts(reply),
                }
            }
        };
        for (key, expected) in named {
            let found = facts.get(key).map_or("(nothing)", String::as_str);
            assert_eq!(found, *expected, "{}: {key}; all: {facts:?}", self.line);
        }
    }

    fn name_of(&self, member_id: &str) -> String {
        member_id.rsplit_once('-').map_or(member_id, |(name, _)| name).to_owned()
    }

    fn group_facts(&self) -> HashMap<&'static str, String> {
        let members: Vec<String> = self.group.members().iter().map(|m| self.name_of(&m.id)).collect();
        HashMap::from([
            ("state", self.group.state.name().to_owned()),
            ("generation", self.group.generation.to_string()),
            ("members", members.join(",")),
            ("leader", self.group.leader.as_deref().map(|id| self.name_of(id)).unwrap_or_default()),
            ("pending", self.group.pending.len().to_string()),
            ("writes", self.writes.to_string()),
            ("type", self.group.protocol_type.clone().unwrap_or_default()),
            ("protocol", self.group.protocol_name.clone().unwrap_or_default()),
        ])
    }

    fn join_facts(&self, reply: &JoinReply) -> HashMap<&'static str, String> {
        let members: Vec<String> = reply.members.iter().map(|m| self.name_of(&m.member_id)).collect();
        HashMap::from([
            ("answered", "yes".to_owned()),
            ("error", reply.error.code().to_string()),
            ("generation", reply.generation.to_string()),
            ("leader", self.name_of(&reply.leader)),
            ("leader_id", reply.leader.clone()),
            ("id", reply.member_id.clone()),
            ("members", members.join(",")),
            ("protocol", reply.protocol_name.clone().unwrap_or_default()),
            ("skip", reply.skip_assignment.to_string()),
        ])
    }
}

fn sync_facts(reply: &SyncReply) -> HashMap<&'static str, String> {
    HashMap::from([
        ("answered", "yes".to_owned()),
        ("error", reply.error.code().to_string()),
        ("assignment", String::from_utf8_lossy(&reply.assignment).into_owned()),
        ("protocol", reply.protocol_name.clone().unwrap_or_default()),
    ])
}

fn leave_facts(reply: &LeaveReply) -> HashMap<&'static str, String> {
    let codes: Vec<String> = reply.members.iter().map(|(_, code)| code.code().to_string()).collect();
    HashMap::from([
        ("answered", "yes".to_owned()),
        ("error", reply.error.code().to_string()),
        ("members", codes.join(",")),
    ])
}

fn protocols(list: &str) -> Vec<Protocol> {
    let one = |pair: &str| {
        let (name, metadata) = pair.split_once(':').expect("name:metadata");
        Protocol { name: name.to_owned(), metadata: Bytes::from(metadata.to_owned()) }
    };
    if list == "none" { Vec::new() } else { list.split(',').map(one).collect() }
}

fn duration(text: &str) -> Duration {
    match text.strip_suffix("ms") {
        Some(millis) => Duration::from_millis(millis.parse().expect("milliseconds")),
        None => Duration::from_secs(text.strip_suffix('s').expect("a unit").parse().expect("seconds")),
    }
}
