//! A service on the store in memory, with a clock and a worker pool that move only when told.

use crate::clock::{Clock, ManualClock, Now};
use crate::config::GroupConfig;
use crate::group::event::{Join, JoinReply, LeaveReply, Leaving, Protocol, Sender, Sync, SyncReply, Token};
use crate::group::{Groups, Leases, OwnerId, Setup, Standing, fresh_member_id};
use crate::offsets::{Committed, Offsets, Outcome, Slot, TopicPartition};
use crate::promise::{Pending, promise, promises};
use crate::protocol::error_code::ErrorCode;
use crate::store::memory::MemoryStore;
use crate::tasks::{Task, Tasks};
use crate::wake::Wakeups;
use crate::wire::Uuid;
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Work that waits until the test has it done.
#[derive(Default)]
pub struct Queued {
    soon: Mutex<VecDeque<Task>>,
    timers: Mutex<Vec<(Instant, Task)>>,
}

impl Tasks for Queued {
    fn spawn(&self, task: Task) {
        self.soon.lock().expect("no holder panics").push_back(task);
    }

    fn spawn_at(&self, at: Instant, task: Task) {
        self.timers.lock().expect("no holder panics").push((at, task));
    }
}

impl Queued {
    pub fn run(&self) {
        loop {
            let Some(task) = self.soon.lock().expect("no holder panics").pop_front() else { return };
            task();
        }
    }

    /// Lets time pass, doing what is due on the way.
    pub fn sleep(&self, clock: &ManualClock, length: Duration) {
        let until = clock.now().mono + length;
        loop {
            self.run();
            let now = clock.now().mono;
            let wake = self.next_timer().filter(|at| *at <= until).unwrap_or(until).max(now);
            clock.advance(wake - now);
            self.fire(wake);
            self.run();
            if wake == until && self.next_timer().is_none_or(|at| at > until) {
                return;
            }
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        self.timers.lock().expect("no holder panics").iter().map(|(at, _)| *at).min()
    }

    fn fire(&self, now: Instant) {
        let due = take_due(&mut self.timers.lock().expect("no holder panics"), now);
        due.into_iter().for_each(|task| task());
    }
}

fn take_due(timers: &mut Vec<(Instant, Task)>, now: Instant) -> Vec<Task> {
    let (due, rest) = std::mem::take(timers).into_iter().partition(|(at, _)| *at <= now);
    *timers = rest;
    let due: Vec<(Instant, Task)> = due;
    due.into_iter().map(|(_, task)| task).collect()
}

/// A worker pool of real threads, whose timers go by the manual clock.
pub struct Workers {
    soon: crossbeam_channel::Sender<Task>,
    timers: Mutex<Vec<(Instant, Task)>>,
    stopped: AtomicBool,
}

impl Workers {
    pub fn start(count: usize, clock: Arc<ManualClock>) -> Arc<Workers> {
        let (soon, tasks) = crossbeam_channel::unbounded::<Task>();
        let workers = Arc::new(Workers { soon, timers: Mutex::default(), stopped: AtomicBool::new(false) });
        for _ in 0..count {
            let (tasks, workers, clock) = (tasks.clone(), workers.clone(), clock.clone());
            std::thread::spawn(move || {
                while !workers.stopped.load(Ordering::Relaxed) {
                    if let Ok(task) = tasks.recv_timeout(Duration::from_millis(1)) {
                        task();
                    }
                    for task in workers.due(clock.now().mono) {
                        task();
                    }
                }
            });
        }
        workers
    }

    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    fn due(&self, now: Instant) -> Vec<Task> {
        take_due(&mut self.timers.lock().expect("no holder panics"), now)
    }
}

impl Tasks for Workers {
    fn spawn(&self, task: Task) {
        let _ = self.soon.send(task);
    }

    fn spawn_at(&self, at: Instant, task: Task) {
        self.timers.lock().expect("no holder panics").push((at, task));
    }
}

/// Which gateway processes are alive, as long as a gateway has no view of its own.
#[derive(Default)]
pub struct Living(pub Mutex<HashSet<String>>);

/// What one gateway believes of the leases.
pub struct View {
    living: Arc<Living>,
    believed: Mutex<HashMap<String, Standing>>,
    preferred: Mutex<Option<String>>,
    holds: AtomicBool,
    term: AtomicU64,
}

impl View {
    /// From now on this gateway believes so of a process, whatever is true.
    pub fn believe(&self, process: &str, standing: Standing) {
        self.believed.lock().expect("no holder panics").insert(process.to_owned(), standing);
    }

    pub fn prefer(&self, process: &str) {
        *self.preferred.lock().expect("no holder panics") = Some(process.to_owned());
    }

    pub fn lose_lease(&self) {
        self.holds.store(false, Ordering::SeqCst);
    }

    pub fn take_lease_anew(&self) {
        self.term.fetch_add(1, Ordering::SeqCst);
        self.holds.store(true, Ordering::SeqCst);
    }
}

impl Leases for View {
    fn standing(&self, process: &str) -> Standing {
        if let Some(standing) = self.believed.lock().expect("no holder panics").get(process) {
            return *standing;
        }
        let is_live = self.living.0.lock().expect("no holder panics").contains(process);
        if is_live { Standing::Live } else { Standing::Gone }
    }

    fn holds(&self) -> bool {
        self.holds.load(Ordering::SeqCst)
    }

    fn preferred(&self, _group: &str) -> Option<String> {
        self.preferred.lock().expect("no holder panics").clone()
    }

    fn term(&self) -> u64 {
        self.term.load(Ordering::SeqCst)
    }
}

type Hook = Box<dyn FnMut() -> bool + Send>;

/// A clock at whose readings something else may happen, as on another thread that is quicker just then.
pub struct Interrupted {
    clock: Arc<ManualClock>,
    hook: Mutex<Option<Hook>>,
}

impl Interrupted {
    pub fn new(clock: &Arc<ManualClock>) -> Arc<Interrupted> {
        Arc::new(Interrupted { clock: clock.clone(), hook: Mutex::new(None) })
    }

    /// Runs `hook` at each reading, until it says that it has done its work.
    pub fn interrupt(&self, hook: impl FnMut() -> bool + Send + 'static) {
        *self.hook.lock().expect("no holder panics") = Some(Box::new(hook));
    }
}

impl Clock for Interrupted {
    fn now(&self) -> Now {
        // Taken out while it runs: it reads the clock as well.
        let hook = self.hook.lock().expect("no holder panics").take();
        if let Some(mut hook) = hook
            && !hook()
        {
            *self.hook.lock().expect("no holder panics") = Some(hook);
        }
        self.clock.now()
    }
}

/// What gateways share.
pub struct World {
    pub store: Arc<MemoryStore>,
    pub clock: Arc<ManualClock>,
    pub tasks: Arc<Queued>,
    pub living: Arc<Living>,
    pub settings: GroupConfig,
}

impl World {
    pub fn new() -> World {
        World {
            store: Arc::new(MemoryStore::new()),
            clock: Arc::new(ManualClock::new()),
            tasks: Arc::new(Queued::default()),
            living: Arc::new(Living::default()),
            settings: GroupConfig::default(),
        }
    }

    pub fn gateway(&self, name: &str) -> Gateway {
        self.gateway_on(name, self.tasks.clone())
    }

    /// A gateway whose work is done elsewhere.
    pub fn gateway_on(&self, name: &str, tasks: Arc<dyn Tasks>) -> Gateway {
        self.gateway_by(name, tasks, self.clock.clone(), self.clock.clone())
    }

    /// A gateway whose groups and offsets go by clocks of their own.
    pub fn gateway_by(
        &self,
        name: &str,
        tasks: Arc<dyn Tasks>,
        clock: Arc<dyn Clock>,
        offsets_clock: Arc<dyn Clock>,
    ) -> Gateway {
        let offsets = Offsets::new(self.store.clone(), tasks.clone(), offsets_clock, 1);
        let view = self.view();
        let groups = Groups::new(Setup {
            store: self.store.clone(),
            offsets: offsets.clone(),
            tasks,
            clock,
            settings: self.settings.clone(),
            replicas: 1,
            owner: OwnerId(name.to_owned()),
            leases: view.clone(),
            logger: slog::Logger::root(slog::Discard, slog::o!()),
        });
        let wakeups = Arc::new(Wakeups::new());
        Gateway { groups, offsets, view, wakeups, tasks: self.tasks.clone(), clock: self.clock.clone() }
    }

    pub fn run(&self) {
        self.tasks.run();
    }

    pub fn sleep(&self, length: Duration) {
        self.store.set_time(self.clock.now().wall_ms);
        self.tasks.sleep(&self.clock, length);
        self.store.set_time(self.clock.now().wall_ms);
    }

    /// What a gateway believes that holds its lease.
    pub fn view(&self) -> Arc<View> {
        Arc::new(View {
            living: self.living.clone(),
            believed: Mutex::default(),
            preferred: Mutex::default(),
            holds: AtomicBool::new(true),
            term: AtomicU64::new(1),
        })
    }

    /// Whom all gateways believe to be alive that have no view of their own.
    pub fn live(&self, processes: &[&str]) {
        let processes = processes.iter().map(|process| (*process).to_owned());
        *self.living.0.lock().expect("no holder panics") = processes.collect();
    }

    pub fn deadline(&self) -> Instant {
        self.clock.now().mono + Duration::from_secs(5)
    }
}

pub struct Gateway {
    pub groups: Arc<Groups>,
    pub offsets: Arc<Offsets>,
    pub view: Arc<View>,
    wakeups: Arc<Wakeups>,
    tasks: Arc<Queued>,
    clock: Arc<ManualClock>,
}

impl Gateway {
    pub fn join(&self, group: &str, name: &str, member_id: &str) -> (Pending<JoinReply>, Token) {
        self.join_as(group, name, member_id, Duration::from_secs(10))
    }

    pub fn join_as(
        &self,
        group: &str,
        name: &str,
        member_id: &str,
        session_timeout: Duration,
    ) -> (Pending<JoinReply>, Token) {
        let (kept, pending) = promise(&self.wakeups);
        let join = Join {
            member_id: member_id.to_owned(),
            instance_id: None,
            client_id: name.to_owned(),
            client_host: "/127.0.0.1".to_owned(),
            protocol_type: "consumer".to_owned(),
            protocols: vec![Protocol { name: "range".to_owned(), metadata: subscription(&["t"]) }],
            session_timeout,
            rebalance_timeout: Duration::from_secs(60),
            member_id_required: false,
            can_skip_assignment: true,
            reason: None,
            fresh_member_id: fresh_member_id(name, None),
        };
        let token = self.groups.join(group, join, kept);
        self.tasks.run();
        (pending, token)
    }

    pub fn sync(&self, group: &str, member_id: &str, generation: i32, to: &[(&str, &str)]) -> Pending<SyncReply> {
        let (kept, pending) = promise(&self.wakeups);
        let assignments = to.iter().map(|(id, what)| ((*id).to_owned(), Bytes::from((*what).to_owned()))).collect();
        let sender = sender(member_id, generation);
        self.groups.sync(group, Sync { sender, protocol_type: None, protocol_name: None, assignments }, kept);
        self.tasks.run();
        pending
    }

    pub fn leave(&self, group: &str, member_id: &str) -> Pending<LeaveReply> {
        let (kept, pending) = promise(&self.wakeups);
        let leaving = Leaving { member_id: member_id.to_owned(), instance_id: None, reason: None };
        self.groups.leave(group, vec![leaving], kept);
        self.tasks.run();
        pending
    }

    /// As the handler does it: from memory, or later.
    pub fn heartbeat(&self, group: &str, member_id: &str, generation: i32) -> ErrorCode {
        let sender = sender(member_id, generation);
        if let Some(code) = self.groups.heartbeat(group, &sender) {
            return code;
        }
        let (kept, pending) = promise(&self.wakeups);
        self.groups.heartbeat_later(group, sender, kept);
        self.tasks.run();
        pending.take_one().flatten().expect("answered once the tasks have run")
    }

    /// A heartbeat whose answer nobody looks at.
    pub fn heartbeat_now_or_later(&self, group: &str, member_id: &str, generation: i32) {
        let sender = sender(member_id, generation);
        if self.groups.heartbeat(group, &sender).is_none() {
            let (kept, _) = promise(&self.wakeups);
            self.groups.heartbeat_later(group, sender, kept);
        }
    }

    pub fn begin_commit(&self, group: &str, who: (&str, i32), offsets: &[(i32, i64)]) -> Pending<Outcome> {
        let (kept, pending) = promises(&self.wakeups, offsets.len());
        let now = self.clock.now();
        let commits = offsets.iter().zip(kept);
        let commits = commits.map(|((partition, offset), kept)| {
            (TopicPartition::new("t", *partition), committed(*offset, now.wall_ms), kept)
        });
        self.groups.commit(group, sender(who.0, who.1), commits.collect());
        pending
    }

    pub fn commit(&self, group: &str, who: (&str, i32), offsets: &[(i32, i64)]) -> Vec<Outcome> {
        let pending = self.begin_commit(group, who, offsets);
        self.tasks.run();
        pending.take().into_iter().map(|outcome| outcome.expect("answered once the tasks have run")).collect()
    }

    /// Partition and offset of all commits of the group.
    pub fn offsets(&self, group: &str, deadline: Instant) -> BTreeMap<i32, i64> {
        let slots = self.groups.committed(group, deadline).expect("the store answers");
        let offset = |slot: &Slot| slot.committed().map_or(-1, |committed| committed.offset);
        slots.iter().map(|(at, slot)| (at.partition, offset(slot))).collect()
    }

    pub fn begin_delete(&self, group: &str) -> Pending<ErrorCode> {
        let (kept, pending) = promise(&self.wakeups);
        self.groups.delete(group, kept);
        pending
    }

    pub fn delete(&self, group: &str) -> ErrorCode {
        let pending = self.begin_delete(group);
        self.tasks.run();
        pending.take_one().flatten().expect("answered once the tasks have run")
    }
}

pub fn committed(offset: i64, commit_ms: i64) -> Committed {
    Committed {
        offset,
        leader_epoch: 0,
        metadata: String::new(),
        commit_ms,
        expire_ms: None,
        topic_id: Some(Uuid([1; 16])),
    }
}

pub fn sender(member_id: &str, generation: i32) -> Sender {
    Sender { member_id: member_id.to_owned(), instance_id: None, generation }
}

/// The metadata of a consumer that subscribes to these topics.
fn subscription(topics: &[&str]) -> Bytes {
    let mut bytes = vec![0, 1, 0, 0, 0, u8::try_from(topics.len()).expect("few")];
    for topic in topics {
        bytes.extend([0, u8::try_from(topic.len()).expect("short")]);
        bytes.extend(topic.as_bytes());
    }
    bytes.extend([0xff; 4]);
    bytes.into()
}

pub fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[track_caller]
pub fn answer<T: Debug>(pending: &Pending<T>) -> T {
    pending.take_one().expect("it is answered").expect("it is answered with something")
}
