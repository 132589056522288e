"""Runs the judges of tests/clients against the gateway and against Apache Kafka, and writes docs/compatibility.md.

The contract of a judge's folder is tests/clients/README.md. Settings come from the environment: JUDGES (names with blanks between), TARGET
(a gateway that runs already), FRESH=1 (asks Apache Kafka again), GATEWAY (the binary)."""

import configparser
import contextlib
import fnmatch
import hashlib
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLIENTS = ROOT / "tests" / "clients"
HOMES = ROOT / ".tools" / "judges"
YARDSTICK = CLIENTS / "yardstick"
TABLE = ROOT / "docs" / "compatibility.md"
INSTALL_SECONDS_MAX = 3600
START_SECONDS_MAX = 300
NOT_JUDGED_BY = {"allow.txt", "FINDINGS.md"}
SHARED = ("session.py", "steps.py", "checks.py", "*_results.py", "crate_source.sh", "steps_go/*")


class Entry(typing.NamedTuple):
    """A line of allow.txt; the word is "sometimes", "left-out" or empty."""

    pattern: str
    reason: str
    word: str


class Judge:
    def __init__(self, name):
        self.name = name
        self.folder = CLIENTS / name
        self.home = HOMES / name
        settings = configparser.ConfigParser()
        settings.read(self.folder / "judge.ini")
        about = settings["judge"]
        self.client, self.version = about["client"], about["version"]
        self.seconds_max = about.getint("seconds")
        self.partitions = about.getint("partitions", 1)
        self.node_id = about.getint("node_id", 1)
        self.port = about.getint("port", 0)
        self.auto_create = about.getboolean("auto_create", True)

    def key(self):
        """What a result depends on: the files of the judge and of what judges share, and what it leaves out."""
        digest = hashlib.sha256(self.left_out().encode())
        shared = [path for pattern in SHARED for path in CLIENTS.glob(pattern) if path.is_file()]
        own = [path for path in self.folder.rglob("*") if path.is_file() and path.name not in NOT_JUDGED_BY]
        for path in sorted(own + shared):
            if "__pycache__" not in path.parts:
                digest.update(str(path.relative_to(CLIENTS)).encode() + b"\0" + path.read_bytes())
        return digest.hexdigest()

    def allowed(self):
        """The entries of allow.txt."""
        entries = []
        path = self.folder / "allow.txt"
        for line in path.read_text().splitlines() if path.exists() else []:
            words = line.split("#")[0].split()
            if words:
                entries.append(Entry(words[0], words[1], words[2] if len(words) > 2 else ""))
        return entries

    def left_out(self):
        """The patterns of the tests that are not run, with blanks between."""
        return " ".join(entry.pattern for entry in self.allowed() if entry.word == "left-out")

    def explained(self):
        path = self.folder / "FINDINGS.md"
        return set(re.findall(r"^## (\S+)", path.read_text(), re.M)) if path.exists() else set()


def say(text):
    print(text, flush=True)


def end(process):
    """Ends a process and all that it started."""
    for number, seconds in ((signal.SIGTERM, 20), (signal.SIGKILL, 20)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def started(command, log, **more):
    with open(log, "ab") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=sink, start_new_session=True, **more)
    try:
        yield process
    finally:
        end(process)


def free_ports(count, wanted=0):
    """Neighbouring ports that nobody listens on; the wanted one first, if it is given."""
    for _ in range(100):
        with contextlib.ExitStack() as held, contextlib.suppress(OSError, OverflowError):
            first = held.enter_context(socket.socket())
            first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            first.bind(("127.0.0.1", wanted))
            base = first.getsockname()[1]
            for port in range(base + 1, base + count):
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return base
        time.sleep(0.1)
    sys.exit(f"port {wanted} is taken" if wanted else "no free ports")


def brokers_known(port):
    """How many brokers Metadata version 1 names there; 0 where nobody answers."""
    frame = struct.pack(">hhih4si", 3, 1, 1, 4, b"wait", 0)
    with contextlib.suppress(OSError, struct.error), socket.create_connection(("127.0.0.1", port), 2) as connection:
        connection.settimeout(2)
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        answer = b""
        while len(answer) < 12:
            piece = connection.recv(4096)
            if not piece:
                return 0
            answer += piece
        return struct.unpack(">i", answer[8:12])[0]
    return 0


def wait_until_ready(port, process, log):
    deadline = time.monotonic() + START_SECONDS_MAX
    while brokers_known(port) == 0:
        if process.poll() is not None or time.monotonic() > deadline:
            sys.exit(f"the broker did not start, see {log}")
        time.sleep(0.2)


@contextlib.contextmanager
def gateway(judge, folder):
    """A gateway on a nats-server of its own; gives HOST:PORT."""
    kafka, admin, nats = (base := free_ports(3, judge.port)), base + 1, base + 2
    settings = folder / "nats.conf"
    # As docs/operations.md wants it, but for the limit, which is out of reach: judges make hundreds of topics.
    jetstream = f'jetstream {{ store_dir: "{folder}/jetstream", max_file_store: 1TB }}'
    settings.write_text(f'listen: "127.0.0.1:{nats}"\nmax_payload: 8MB\n{jetstream}\n')
    flags = ["--pubsub-url", f"nats://127.0.0.1:{nats}", "--host", "127.0.0.1", "--port", str(kafka)]
    flags += ["--admin-port", str(admin), "--default-partitions", str(judge.partitions), "--retention-bytes", "-1"]
    flags += ["--auto-create", str(judge.auto_create).lower(), "--node-id", str(judge.node_id), "--accept-any-replication-factor"]
    flags += ["--group-initial-rebalance-delay", "0s"]
    log = folder / "gateway.log"
    with started([nats_server(), "-c", str(settings)], folder / "nats.log"):
        with started([os.environ["GATEWAY"], *flags], log) as process:
            wait_until_ready(kafka, process, log)
            yield f"127.0.0.1:{kafka}"
    shutil.rmtree(folder / "jetstream", ignore_errors=True)


@contextlib.contextmanager
def apache_kafka(judge, folder):
    """Apache Kafka, one broker; gives HOST:PORT."""
    port = free_ports(2, judge.port)
    properties = [f"num.partitions={judge.partitions}", f"auto.create.topics.enable={str(judge.auto_create).lower()}"]
    properties += [f"node.id={judge.node_id}", f"controller.quorum.voters={judge.node_id}@127.0.0.1:{port + 1}"]
    log = folder / "kafka.log"
    command = [YARDSTICK / "run", HOMES / "yardstick", str(port), folder / "kafka", *properties]
    with started(command, log) as process:
        wait_until_ready(port, process, log)
        yield f"127.0.0.1:{port}"
    shutil.rmtree(folder / "kafka", ignore_errors=True)


@contextlib.contextmanager
def running_already(judge, folder):
    yield os.environ["TARGET"]


def nats_server():
    found = subprocess.run([sys.executable, ROOT / "tools" / "nats_server.py"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def install(folder, home, key):
    stamp = home / "installed"
    if not (folder / "install").exists() or (stamp.exists() and stamp.read_text() == key):
        return True
    home.mkdir(parents=True, exist_ok=True)
    log = home / "install.log"
    say(f"installing {folder.name} (its output: {log.relative_to(ROOT)})")
    with open(log, "wb") as sink:
        done = subprocess.Popen([folder / "install", home], stdout=sink, stderr=sink, start_new_session=True)
        try:
            code = done.wait(INSTALL_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            code = "no end"
        finally:
            end(done)
    if code != 0:
        say(f"installing {folder.name} failed ({code}):\n{tail(log)}")
        return False
    stamp.write_text(key)
    return True


def tail(path, lines=30):
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else ""


def run(judge, side, broker):
    """Runs the judge once. Leaves results.txt and outcome.txt ("seconds", and "ok" or what went wrong) in its folder."""
    folder = judge.home / side
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    output = folder / "output.txt"
    with broker(judge, folder) as bootstrap:
        begun = time.monotonic()
        environment = {**os.environ, "JUDGE_HOME": str(judge.home), "JUDGE_LEFT_OUT": judge.left_out()}
        with started([judge.folder / "run", bootstrap, folder], output, env=environment, cwd=judge.home) as process:
            try:
                code = process.wait(judge.seconds_max)
                outcome = "ok" if code == 0 else f"run ended with {code}"
            except subprocess.TimeoutExpired:
                outcome = f"not finished in {judge.seconds_max} s"
        seconds = time.monotonic() - begun
    if outcome == "ok" and not results(judge, side):
        outcome = "no results"
    (folder / "outcome.txt").write_text(f"{seconds:.0f} {outcome}\n")
    say(f"{judge.name}: {side}: {seconds:.0f} s, {outcome}")
    if outcome != "ok":
        say(tail(output))


def results(judge, side):
    path = judge.home / side / "results.txt"
    found = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        verdict, _, name = line.partition(" ")
        if verdict in ("PASS", "FAIL", "SKIP") and found.get(name) != "FAIL":
            found[name] = verdict
    return found


def outcome(judge, side):
    path = judge.home / side / "outcome.txt"
    seconds, _, words = (path.read_text().strip() if path.exists() else "0 not run").partition(" ")
    return int(seconds), words


class Verdict:
    """The two sides of one judge beside each other."""

    def __init__(self, judge):
        self.judge = judge
        self.kafka, self.gateway = results(judge, "kafka"), results(judge, "gateway")
        self.kafka_seconds, kafka_outcome = outcome(judge, "kafka")
        self.gateway_seconds, gateway_outcome = outcome(judge, "gateway")
        self.passed, self.failed, self.excluded = [], [], {}
        for name in sorted({**self.kafka, **self.gateway}):
            self.sort(name)
        self.complaints = [f"Apache Kafka: {kafka_outcome}"] if kafka_outcome != "ok" else []
        self.complaints += [f"gateway: {gateway_outcome}"] if gateway_outcome != "ok" else []
        self.complaints += [f"{name} passes against Apache Kafka and not here" for name in self.failed]
        self.complaints += self.of_the_list()

    def sort(self, name):
        entry = next((entry for entry in self.judge.allowed() if fnmatch.fnmatchcase(name, entry.pattern)), None)
        if self.gateway.get(name) == "PASS":
            self.passed.append(name)
        elif entry and (entry.word == "left-out" or self.kafka.get(name) == "PASS"):
            self.excluded.setdefault(entry.reason, []).append(name)
        elif self.kafka.get(name) == "PASS":
            self.failed.append(name)

    def of_the_list(self):
        explained = self.judge.explained()
        for entry in self.judge.allowed():
            matched = [name for name in {**self.kafka, **self.gateway} if fnmatch.fnmatchcase(name, entry.pattern)]
            if entry.reason not in explained:
                yield f"allow.txt: {entry.reason} is not explained in FINDINGS.md"
            if not matched:
                yield f"allow.txt: no test is called {entry.pattern}"
            elif entry.word != "sometimes" and all(self.gateway.get(name) == "PASS" for name in matched):
                yield f"allow.txt: {entry.pattern} passes and need not be listed"

    def row(self):
        kafka = list(self.kafka.values())
        excluded = sum(len(names) for names in self.excluded.values())
        cells = [link(self.judge.client, self.judge), self.judge.version]
        cells += [kafka.count("PASS"), kafka.count("FAIL"), self.kafka_seconds]
        cells += [len(self.passed), len(self.failed), excluded, self.gateway_seconds]
        return line_of(cells)

    def exclusions(self):
        """What is not as in Apache Kafka, a line for each reason."""
        return [
            line_of([link(self.judge.client, self.judge), len(names), f"{reason.replace('-', ' ')}: {shortened(names)}"])
            for reason, names in sorted(self.excluded.items())
        ]


def link(text, judge):
    return f"[{text}](../tests/clients/{judge.name})"


def line_of(cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def shortened(names):
    shown = ", ".join(f"`{name}`" for name in names[:4])
    return f"{shown} and {len(names) - 4} more" if len(names) > 4 else shown


HEAD = "| Client | Version | passed | failed | s | passed | failed | excluded | s |"
HEAD_EXCLUDED = "| Client | Tests | Why, and which |"


def write_table(verdicts):
    """Replaces the rows of the judges that ran; the others stay as they were."""
    before = TABLE.read_text().splitlines() if TABLE.exists() else []
    known = {name: ([], []) for name in judge_names()}
    for line in before:
        found = re.match(r"\| \[[^]]*\]\(\.\./tests/clients/(\w+)\)", line)
        if found and found.group(1) in known:
            known[found.group(1)][0 if line.count("|") == HEAD.count("|") else 1].append(line)
    for verdict in verdicts:
        known[verdict.judge.name] = ([verdict.row()], verdict.exclusions())
    rows = [row for row, _ in known.values()]
    excluded = [line for _, line in known.values()]
    text = INTRODUCTION.format(kafka=kafka_version(), nats=re.search(r"==(\S+)", (ROOT / "tools/nats-server.txt").read_text()).group(1))
    text += "\n".join([HEAD, "|---|---|---:|---:|---:|---:|---:|---:|---:|", *sum(rows, [])]) + "\n\n## Exclusions\n\n" + EXCLUSIONS
    text += "\n".join([HEAD_EXCLUDED, "|---|---:|---|", *sum(excluded, [])]) + "\n"
    TABLE.write_text(text)


INTRODUCTION = """# What other people's clients say

Written by `make conformance`: each client's own tests, or a session where its package brings none, run against Apache Kafka {kafka} and against
Hanzo Kafka on nats-server {nats}, each on one machine with two cores. How a test is judged, and what a session looks at, stands in
[tests/clients](../tests/clients/README.md).

The first three numbers are Apache Kafka's, the other four the gateway's. *passed*, *failed*: tests; *s*: seconds of one run. What fails against
Apache Kafka too says nothing about the gateway, and is not counted there. *excluded* is explained below.

"""

EXCLUSIONS = """What does not pass here although it passes against Apache Kafka, or is left out. Each reason is explained in the judge's `FINDINGS.md`.

"""


def kafka_version():
    return re.search(r"<artifactId>kafka_2.13</artifactId>\s*<version>([^<]+)", (YARDSTICK / "pom.xml").read_text()).group(1)


def judge_names():
    return sorted(path.parent.name for path in CLIENTS.glob("*/judge.ini"))


def yardstick_key():
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(YARDSTICK.iterdir()))).hexdigest()


def judge_it(judge):
    """Runs both sides, Apache Kafka only where nothing is known of it yet."""
    key = judge.key()
    if not install(judge.folder, judge.home, key):
        return
    stamp = judge.home / "kafka-key"
    wanted = f"{key} {yardstick_key()}"
    if "FRESH" in os.environ or not stamp.exists() or stamp.read_text() != wanted:
        stamp.unlink(missing_ok=True)
        run(judge, "kafka", apache_kafka)
        if outcome(judge, "kafka")[1] == "ok":
            stamp.write_text(wanted)
    run(judge, "gateway", running_already if os.environ.get("TARGET") else gateway)


def main():
    names = os.environ.get("JUDGES", "").split() or judge_names()
    unknown = set(names) - set(judge_names())
    if unknown:
        sys.exit(f"no such judge: {', '.join(sorted(unknown))}; there are {', '.join(judge_names())}")
    if not install(YARDSTICK, HOMES / "yardstick", yardstick_key()):
        sys.exit(1)
    verdicts = []
    for name in names:
        judge = Judge(name)
        judge_it(judge)
        verdict = Verdict(judge)
        verdicts.append(verdict)
        say(verdict.row())
        for complaint in verdict.complaints:
            say(f"  {complaint}")
        write_table(verdicts)
    passed, failed = (sum(len(part(verdict)) for verdict in verdicts) for part in (lambda v: v.passed, lambda v: v.complaints))
    say(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
main()
