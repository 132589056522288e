//! The fixed worker pool: two queues, regular and light workers, timers.
//!
//! Both queues are unbounded, because whoever sends must never block: a worker that waited for room in a queue that only
//! workers drain would wait for itself. What stands in them is bounded by its sources: each connection is in a queue at
//! most once, and tasks are bounded by the partitions and groups that spawn them.
//!
//! `work` is drained by the regular workers, `ready` by all. A connection that became readable goes to `work` only if a
//! regular worker is certain to be free for it, otherwise to `ready`, where the light workers find it too; a light worker
//! that meets a heavy frame passes the connection on to `work`. So while the store stalls every regular worker, light
//! requests are still answered, and in quiet times no request takes the detour through a light worker.

use super::timers::{Due, Timers};
use crate::activity::{self, Board, Doing, Phase};
use crate::limits;
use crate::metrics::Metrics;
use crate::tasks::{Task, Tasks};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use slog::{Logger, error};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A job that knows whose worker runs it.
pub(super) trait Work: Send {
    fn run(self: Box<Self>, worker: &Worker);
}

enum Job {
    Work(Box<dyn Work>),
    Task(Task),
    Stop,
}

/// The worker pool. Its threads end with `stop`.
pub struct Pool {
    work: Queue,
    ready: Queue,
    /// The workers that take every job.
    regular: usize,
    /// Jobs that regular workers run, plus jobs that stand in `work`. Below `regular`, one more job in `work` finds a free
    /// worker for certain.
    claimed: AtomicUsize,
    timers: Timers,
    /// What each worker does.
    board: Board,
    /// The threads until `stop` joins them.
    threads: Mutex<Vec<JoinHandle<()>>>,
    metrics: Arc<Metrics>,
    logger: Logger,
}

struct Queue {
    sender: Sender<Job>,
    receiver: Receiver<Job>,
}

impl Queue {
    fn new() -> Self {
        let (sender, receiver) = unbounded();
        Queue { sender, receiver }
    }

    fn send(&self, job: Job) {
        self.sender.send(job).expect("the pool holds a receiver");
    }
}

/// A worker thread's knowledge of itself.
pub(super) struct Worker {
    pool: Arc<Pool>,
    light: bool,
}

impl Worker {
    /// A light worker must not run what may wait for the store.
    pub(super) fn is_light(&self) -> bool {
        self.light
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }
}

impl Pool {
    /// Starts `workers` threads in all, at least two; one or two of them take only light requests.
    pub fn start(workers: usize, metrics: Arc<Metrics>, logger: Logger) -> std::io::Result<Arc<Pool>> {
        let workers = workers.max(2);
        let light = limits::LIGHT_WORKERS.min(workers / 2);
        let pool = Arc::new(Pool {
            work: Queue::new(),
            ready: Queue::new(),
            regular: workers - light,
            claimed: AtomicUsize::new(0),
            timers: Timers::default(),
            board: Board::default(),
            threads: Mutex::new(Vec::new()),
            metrics,
            logger,
        });
        for index in 0..pool.regular {
            let worker = Worker { pool: pool.clone(), light: false };
            pool.metrics.workers.regular.raise();
            let name = format!("worker-{index}");
            pool.spawn_thread(name.clone(), move || worker.run(name, Worker::run_regular))?;
        }
        for index in 0..light {
            let worker = Worker { pool: pool.clone(), light: true };
            pool.metrics.workers.light.raise();
            let name = format!("light-{index}");
            pool.spawn_thread(name.clone(), move || worker.run(name, Worker::run_light))?;
        }
        let timed = pool.clone();
        pool.spawn_thread("timers".to_owned(), move || timed.timers.run(|due| timed.deliver(due)))?;
        Ok(pool)
    }

    fn spawn_thread(&self, name: String, life: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let handle = thread::Builder::new().name(name).spawn(life)?;
        self.threads.lock().expect("no holder panics").push(handle);
        Ok(())
    }

    /// Queues a connection whose next frame may be light.
    pub(super) fn submit(&self, work: Box<dyn Work>) {
        let below = |claimed| (claimed < self.regular).then_some(claimed + 1);
        self.metrics.workers.queued.raise();
        match self.claimed.fetch_update(Ordering::SeqCst, Ordering::SeqCst, below) {
            Ok(_) => self.work.send(Job::Work(work)),
            Err(_) => self.ready.send(Job::Work(work)),
        }
    }

    /// Queues a connection that only a regular worker may serve.
    pub(super) fn submit_heavy(&self, work: Box<dyn Work>) {
        self.claim_and_send(Job::Work(work));
    }

    fn claim_and_send(&self, job: Job) {
        self.metrics.workers.queued.raise();
        self.claimed.fetch_add(1, Ordering::SeqCst);
        self.work.send(job);
    }

    /// Runs `call` on the timers thread at or soon after `at`.
    pub(super) fn call_at(&self, at: Instant, call: Box<dyn FnOnce() + Send>) {
        self.timers.at(at, Due::Call(call));
    }

    fn deliver(&self, due: Due) {
        match due {
            Due::Task(task) => self.spawn(task),
            Due::Call(call) => self.guard(call),
        }
    }

    /// Whether someone waits for a worker.
    pub(super) fn is_pressed(&self) -> bool {
        !self.ready.receiver.is_empty() || !self.work.receiver.is_empty()
    }

    /// Whether at least half of the regular workers have nothing to do.
    pub(super) fn is_quiet(&self) -> bool {
        self.claimed.load(Ordering::Relaxed) * 2 <= self.regular
    }

    /// The last net: a panic ends this job and nothing else, and is counted.
    fn guard(&self, job: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
            self.metrics.panics.add_one();
            error!(self.logger, "a job panicked"; "panic" => panic_text(&*panic));
        }
    }

    /// Whether a job that does nothing gets through the timers and both queues by `deadline`.
    pub fn answers(&self, deadline: Instant) -> bool {
        let (done, jobs_done) = bounded(2);
        let by_work = done.clone();
        self.timers.at(Instant::now(), Due::Task(Box::new(move || by_work.send(()).unwrap_or_default())));
        self.ready.send(Job::Task(Box::new(move || done.send(()).unwrap_or_default())));
        (0..2).all(|_| jobs_done.recv_deadline(deadline).is_ok())
    }

    /// What each worker does at this moment.
    pub fn workers(&self) -> Vec<(String, Doing)> {
        self.board.workers()
    }

    /// Jobs for which no worker was free yet.
    pub fn queued(&self) -> usize {
        self.ready.receiver.len() + self.work.receiver.len()
    }

    /// Ends all threads, after the jobs that are queued. A thread that is still stuck in a job at `deadline` is left behind.
    pub fn stop(&self, deadline: Instant) {
        self.timers.stop();
        let threads = std::mem::take(&mut *self.threads.lock().expect("no holder panics"));
        for _ in &threads {
            self.work.send(Job::Stop);
            self.ready.send(Job::Stop);
        }
        for handle in threads {
            while !handle.is_finished() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(1));
            }
            if handle.is_finished() {
                let _ = handle.join();
            }
        }
    }
}

impl Tasks for Pool {
    fn spawn(&self, task: Task) {
        self.claim_and_send(Job::Task(task));
    }

    fn spawn_at(&self, at: Instant, task: Task) {
        self.timers.at(at, Due::Task(task));
    }
}

impl Worker {
    /// The thread's life.
    fn run(self, name: String, life: fn(&Worker)) {
        self.pool.board.enrol(name);
        life(&self);
    }

    fn run_regular(&self) {
        let mut claim = Claim { held: false, ready_next: false };
        while let Some(job) = self.next_job(&mut claim) {
            self.do_job(job);
        }
    }

    /// Each job of `work` brings its claim. With it held, a job of `ready` may be run on the same claim; the two queues
    /// take turns, so that neither starves. A worker without a claim waits at `work` alone: what is in `ready` then was
    /// sent while all regular workers were claimed, or is seen by the light workers.
    fn next_job(&self, claim: &mut Claim) -> Option<Job> {
        let pool = &self.pool;
        if claim.held {
            claim.ready_next = !claim.ready_next;
            if !claim.ready_next
                && let Ok(job) = pool.work.receiver.try_recv()
            {
                pool.claimed.fetch_sub(1, Ordering::SeqCst);
                return job.unless_stop();
            }
            if let Ok(job) = pool.ready.receiver.try_recv() {
                return job.unless_stop();
            }
            claim.held = false;
            pool.claimed.fetch_sub(1, Ordering::SeqCst);
        }
        let job = pool.work.receiver.recv().expect("the pool holds a sender");
        claim.held = true;
        job.unless_stop()
    }

    fn run_light(&self) {
        while let Some(job) = self.pool.ready.receiver.recv().expect("the pool holds a sender").unless_stop() {
            self.do_job(job);
        }
    }

    fn do_job(&self, job: Job) {
        let workers = &self.pool.metrics.workers;
        let began = Instant::now();
        workers.queued.lower();
        workers.busy.raise();
        match job {
            Job::Work(work) => {
                activity::begin(Phase::Reading);
                self.pool.guard(|| work.run(self));
            }
            Job::Task(task) => {
                activity::begin(Phase::Task);
                self.pool.guard(task);
            }
            Job::Stop => {}
        }
        activity::begin(Phase::Idle);
        workers.busy.lower();
        workers.jobs.add_one();
        workers.busy_ns.add(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
}

struct Claim {
    held: bool,
    ready_next: bool,
}

impl Job {
    fn unless_stop(self) -> Option<Job> {
        match self {
            Job::Stop => None,
            job => Some(job),
        }
    }
}

/// What a panic said.
pub(super) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
