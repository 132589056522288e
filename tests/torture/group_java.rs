//! Groups of Java consumers: processes that are started, ended and killed, and print what their consumers see.

use crate::group_consumers::{PARTITIONS, TOPIC};
use crate::group_history::{Event, Journal, Micros, What};
use crate::group_members::Course;
use crate::harness::Folder;
use crate::harness::process::Process;
use crate::random::Random;
use crate::rig::RECOVERY;
use crate::run::say;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The consumers of each process, by group and name. Groups differ in what tests/torture/java sets for them.
const PROCESSES: &[&[&str]] = &[
    &["java-eager:a", "java-eager:b", "java-cooperative:a", "java-static:a"],
    &["java-eager:c", "java-cooperative:b", "java-cooperative:c", "java-static:b"],
];

/// The client waits at least 160 ms before it sends a commit again: one that was acknowledged sooner was sent once.
const SENT_ONCE: Micros = 100_000;

/// Where `tests/torture/java/install` has put the consumers, when the run is to have some.
pub fn installed() -> Option<PathBuf> {
    let home = PathBuf::from(std::env::var_os("JAVA_CONSUMERS").filter(|path| !path.is_empty())?);
    home.join("classes/GroupConsumers.class").exists().then_some(home)
}

/// All groups of Java consumers of a run.
pub struct JavaGroups {
    home: PathBuf,
    folder: Folder,
    groups: BTreeMap<&'static str, Group>,
}

/// What the consumers of one group saw, in a history of its own.
pub struct Group {
    pub journal: Journal,
    now: Mutex<Now>,
}

/// What is known at the moment, by the consumers' names.
#[derive(Default)]
struct Now {
    assigned: BTreeMap<String, BTreeSet<i32>>,
    /// When each partition gave a record last.
    heard: BTreeMap<i32, Micros>,
    /// The commit that each consumer waits for.
    open: BTreeMap<String, Commit>,
}

struct Commit {
    sent: Micros,
    /// Where the consumer knows it.
    generation: Option<i32>,
    rows: Vec<(i32, i64)>,
}

impl JavaGroups {
    pub fn new(home: PathBuf, journal: &Journal) -> JavaGroups {
        let names = PROCESSES.iter().flat_map(|members| members.iter().map(|member| group_of(member)));
        let group = |name| (name, Group { journal: journal.beside(), now: Mutex::default() });
        JavaGroups { home, folder: Folder::new("java"), groups: names.map(group).collect() }
    }

    pub fn processes() -> std::ops::Range<usize> {
        0..PROCESSES.len()
    }

    /// Groups by name.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, &Group)> {
        self.groups.iter().map(|(name, group)| (*name, group))
    }

    /// What a process and those after it in its place logged.
    fn log(&self, process: usize) -> PathBuf {
        self.folder.path().join(format!("java-{process}"))
    }

    /// Copies what the processes logged to a folder.
    pub fn keep_logs(&self, folder: &Path) {
        for process in JavaGroups::processes() {
            let log = self.log(process);
            let _ = std::fs::copy(&log, folder.join(log.file_name().expect("a file of ours has a name")));
        }
    }

    /// Waits until in each group all members share the partitions and each of these has given a record since; what is amiss.
    pub fn wait_settled(&self) -> Vec<String> {
        let deadline = Instant::now() + RECOVERY;
        let since = self.groups.values().next().expect("there are groups").journal.now();
        loop {
            let amiss: Vec<String> = self.each().filter_map(|(name, group)| group.amiss(name, since)).collect();
            if amiss.is_empty() || Instant::now() > deadline {
                return amiss;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Runs one process, kills it now and then and starts another, until the run is over; then it is ended gracefully.
    pub fn run(&self, course: &Course, which: usize, bootstrap: &str, restless_until: Micros, mut random: Random) {
        while !course.stop.load(Ordering::Relaxed) {
            let mut process = self.start(which, bootstrap, restless_until, &mut random);
            let output = process.take_stdout();
            let until = Instant::now() + Duration::from_millis(random.between(12_000, 45_000));
            std::thread::scope(|scope| {
                scope.spawn(|| self.read(output));
                loop {
                    if let Some(status) = process.exited() {
                        self.note_death(which, &format!("the process ended by itself: {status}"));
                        break;
                    }
                    if course.stop.load(Ordering::Relaxed) {
                        process.terminate(RECOVERY);
                        break;
                    }
                    if Instant::now() > until && course.restless.load(Ordering::Relaxed) {
                        process.kill();
                        say(&format!("killed the Java process {which}"));
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            self.are_gone(which);
            let away = Instant::now() + Duration::from_millis(*random.pick(&[0, 500, 3_000, 12_000]));
            while Instant::now() < away && !course.stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    fn start(&self, which: usize, bootstrap: &str, restless_until: Micros, random: &mut Random) -> Process {
        let mut command = Command::new("java");
        command.args([
            "-Xmx64m",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
        ]);
        command.arg("-cp").arg(format!("{0}/classes:{0}/lib/*", self.home.display())).arg("GroupConsumers");
        let journal = &self.groups.values().next().expect("there are groups").journal;
        let restless_until = journal.monotonic_ns(restless_until);
        let seed = random.below(1 << 30);
        command.args([bootstrap, TOPIC, &seed.to_string(), &restless_until.to_string()]).args(PROCESSES[which]);
        command.stdout(Stdio::piped());
        Process::start(command, &self.log(which))
    }

    /// Reads what a process prints, to its end; a line that was cut off by its death says nothing.
    fn read(&self, output: impl Read) {
        let mut output = BufReader::new(output);
        let mut line = String::new();
        while output.read_line(&mut line).is_ok_and(|bytes| bytes > 0) && line.ends_with('\n') {
            self.hear(line.trim_end()).unwrap_or_else(|| panic!("a Java consumer printed {line:?}"));
            line.clear();
        }
    }

    fn hear(&self, line: &str) -> Option<()> {
        let mut words = line.splitn(6, ' ');
        let (from, to) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let (group, name, word) = (words.next()?, words.next()?, words.next()?);
        let group = self.groups.get(group)?;
        let times = (group.journal.at(from), group.journal.at(to));
        group.hear(times, name, word, words.next().unwrap_or_default())
    }

    fn note_death(&self, which: usize, error: &str) {
        let group = &self.groups[group_of(PROCESSES[which][0])];
        group.journal.note(group.journal.now(), What::Stopped { error: error.to_owned() });
    }

    /// What a process has left behind: its consumers have nothing, and nobody knows what became of their last commits.
    fn are_gone(&self, which: usize) {
        for member in PROCESSES[which] {
            let (group, name) = member.split_once(':').expect("a group and a name");
            let group = &self.groups[group];
            group.now().assigned.remove(name);
            group.commit_settled(name, group.journal.now(), false);
        }
    }
}

impl Group {
    fn now(&self) -> std::sync::MutexGuard<'_, Now> {
        self.now.lock().expect("no holder panics")
    }

    /// What keeps it from being settled.
    fn amiss(&self, name: &str, since: Micros) -> Option<String> {
        let members = PROCESSES.iter().flat_map(|members| members.iter()).filter(|member| group_of(member) == name);
        let now = self.now();
        let partitions: Vec<i32> = now.assigned.values().flatten().copied().collect();
        let distinct: BTreeSet<i32> = partitions.iter().copied().collect();
        let shared = partitions.len() == distinct.len() && distinct == (0..PARTITIONS).collect();
        let silent = (0..PARTITIONS).filter(|partition| now.heard.get(partition).is_none_or(|at| *at < since)).count();
        let settled = now.assigned.len() == members.count() && shared && silent == 0;
        (!settled).then(|| format!("{name} is not settled: {:?}, {silent} partitions without records", now.assigned))
    }

    /// One event of a consumer; `None` if it cannot be read.
    fn hear(&self, (sent, settled): (Micros, Micros), name: &str, word: &str, rest: &str) -> Option<()> {
        let enter = |what| self.journal.enter(Event { sent, settled, what });
        let words: Vec<&str> = rest.split(' ').collect();
        match word {
            "assigned" => {
                let (generation, member, partitions) = (words[0].parse().ok()?, words.get(1)?, numbers(words.get(2)?)?);
                self.now().assigned.insert(name.to_owned(), partitions.clone());
                let member = (*member).to_owned();
                enter(What::Joined { member: member.clone(), generation, members: None });
                enter(What::Told { member, generation, partitions });
            }
            "began" => enter(What::Began { partition: words[0].parse().ok()?, offset: words.get(1)?.parse().ok()? }),
            "delivered" => {
                let partition = words[0].parse().ok()?;
                self.now().heard.insert(partition, settled);
                enter(What::Delivered { partition, offset: words.get(1)?.parse().ok()? });
            }
            "revoked" | "lost" => {
                let partitions = numbers(words[0])?;
                if let Some(theirs) = self.now().assigned.get_mut(name) {
                    theirs.retain(|partition| !partitions.contains(partition));
                }
            }
            "commits" => {
                let row = |row: &str| row.split_once(':').and_then(|(p, o)| Some((p.parse().ok()?, o.parse().ok()?)));
                let rows = words.get(2)?.split(',').map(row).collect::<Option<_>>()?;
                let commit = Commit { sent, generation: words.get(1)?.parse().ok(), rows };
                self.now().open.insert(name.to_owned(), commit);
            }
            "committed" => self.commit_settled(name, settled, true),
            "uncommitted" => self.commit_settled(name, settled, false),
            "stopped" => enter(What::Stopped { error: format!("{name}: {rest}") }),
            "closed" => drop(self.now().assigned.remove(name)),
            _ => return None,
        }
        Some(())
    }

    fn commit_settled(&self, name: &str, settled: Micros, acked: bool) {
        let Some(Commit { sent, generation, rows }) = self.now().open.remove(name) else { return };
        for (partition, offset) in rows {
            let enter = |what| self.journal.enter(Event { sent, settled, what });
            if let Some(generation) = generation {
                enter(What::Committed { generation, partition, offset, acked });
            }
            enter(What::Stored { partition, offset, acked });
            if acked && settled - sent > SENT_ONCE {
                // It may have been sent twice, and the first to be sent may be the last to be taken.
                enter(What::Stored { partition, offset, acked: false });
            }
        }
    }
}

fn group_of(member: &'static str) -> &'static str {
    member.split(':').next().expect("a group and a name")
}

/// Partitions as in `0,3`; `-` for none.
fn numbers(text: &str) -> Option<BTreeSet<i32>> {
    if text == "-" {
        return Some(BTreeSet::new());
    }
    text.split(',').map(|number| number.parse().ok()).collect()
}

#[test]
fn what_a_consumer_prints_becomes_history() {
    let group = Group { journal: Journal::new(), now: Mutex::default() };
    let say = |times, line: &str| {
        let (word, rest) = line.split_once(' ').expect("more than a word");
        assert_eq!(group.hear(times, "a", word, rest), Some(()), "{line}");
    };
    say((1, 5), "assigned 3 a-17 0,2");
    say((5, 6), "began 2 40");
    say((7, 8), "delivered 2 40");
    say((9, 9), "commits 1 3 2:41");
    say((9, 10), "committed 1");
    assert_eq!(
        group.amiss("java-eager", 0).map(|text| text.contains("{0, 2}") && text.contains("5 partitions without")),
        Some(true)
    );
    let stored = |offset, acked| What::Stored { partition: 2, offset, acked };
    let saw: Vec<What> = group.journal.take().into_iter().map(|event| event.what).collect();
    let expected = [
        What::Joined { member: "a-17".into(), generation: 3, members: None },
        What::Told { member: "a-17".into(), generation: 3, partitions: BTreeSet::from([0, 2]) },
        What::Began { partition: 2, offset: 40 },
        What::Delivered { partition: 2, offset: 40 },
        What::Committed { generation: 3, partition: 2, offset: 41, acked: true },
        stored(41, true),
    ];
    assert_eq!(saw, expected);

    // Acknowledged late, it may have been sent twice; of the last one its killed consumer never heard.
    say((20, 20), "commits 2 - 2:50");
    say((20, 20 + 2 * SENT_ONCE), "committed 2");
    say((500_000, 500_000), "commits 3 - 2:60");
    group.commit_settled("a", 600_000, false);
    let saw: Vec<What> = group.journal.take().into_iter().map(|event| event.what).collect();
    assert_eq!(saw, [stored(50, true), stored(50, false), stored(60, false)]);
    assert_eq!(group.hear((0, 1), "a", "nonsense", ""), None);
}
