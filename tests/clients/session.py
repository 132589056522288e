"""The session that every Python client goes through. A client brings an adapter; `Adapter` says what it is asked."""

import queue
import threading
import time
from dataclasses import dataclass, field

from checks import equal, eventually
from steps import CODECS, Session, Skipped

PARTITIONS = 4
PER_PARTITION = 25


@dataclass
class Record:
    """One record. `value` None is a null, `timestamp` is in milliseconds."""

    key: bytes
    value: bytes
    headers: list = field(default_factory=list)
    timestamp: int = 0
    partition: int = 0
    offset: int = 0


class Adapter:
    """What is asked of a client; a method that stays as it is here is something that the client does not have.

    create_topic must raise where the topic is there, delete_topic where it is not. `produce` gives offsets, `consume` records,
    `offset_at` -1 where nothing is found, `committed` (offset, metadata) with -1 where nothing is committed, `describe_group`
    (state, members). `join` gives a member with `poll()` (some records, after at most half a second), `commit(topic, record)`, which
    commits that the record was read, and `close()`."""

    HEADERS = True

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap

    def __getattr__(self, name):
        raise Skipped(name)


def some(partition, count, text, headers=True):
    base = int(time.time() * 1000) - 3_600_000
    return [
        Record(
            key=b"key-%d" % n,
            value=f"{text}-{partition}-{n}-{'x' * 100}".encode(),
            headers=[("n", b"%d" % n), ("empty", b"")] if headers else [],
            timestamp=base + n * 1000,
            partition=partition,
            offset=n,
        )
        for n in range(count)
    ]


class Threaded:
    """A member with a thread of its own, in which all of its calls are made: clients block in poll until the group has settled."""

    def __init__(self, make):
        self.read, self.calls = queue.Queue(), queue.Queue()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.live, args=(make,), daemon=True)
        self.thread.start()

    def live(self, make):
        member = make()
        while not self.ended.is_set():
            try:
                self.calls.get_nowait()(member)
            except queue.Empty:
                for record in member.poll():
                    self.read.put(record)

    def call(self, function):
        """Calls it with the member, in the member's thread."""
        done = queue.Queue()

        def carry_out(member):
            try:
                done.put((function(member), None))
            except Exception as error:
                done.put((None, error))

        self.calls.put(carry_out)
        value, error = done.get(timeout=30)
        if error:
            raise error
        return value

    def poll(self):
        records = []
        while not self.read.empty():
            records.append(self.read.get())
        time.sleep(0 if records else 0.01)
        return records

    def commit(self, topic, record):
        self.call(lambda member: member.commit(topic, record))

    def close(self):
        def close(member):
            self.ended.set()
            member.close()

        if not self.ended.is_set():
            self.call(close)


class Script:
    def __init__(self, session, client):
        self.session, self.client, self.name = session, client, session.name
        self.topic = self.name("session")
        self.made = {}

    def some(self, partition, count, text):
        return some(partition, count, text, self.client.HEADERS)

    def create(self, topic, partitions):
        self.client.create_topic(topic, partitions)
        eventually(f"{topic} is known", lambda: self.knows(topic, partitions))

    def knows(self, topic, partitions):
        try:
            return self.client.partitions(topic) == partitions
        except Exception as error:  # a topic that was just made may be unknown for a moment
            print("not yet:", error)
            return False

    def reads(self, topic, records):
        found = self.client.consume(topic, records[0].partition, records[0].offset, len(records))
        equal(found, records, f"records of {topic}")

    def write_and_read(self, topic, records, **how):
        offsets = self.client.produce(topic, records, **how)
        equal(offsets, [record.offset for record in records], "offsets")
        self.reads(topic, records)

    def create_topic(self):
        self.create(self.topic, PARTITIONS)
        self.must_fail("TopicAlreadyExists", "TOPIC_ALREADY_EXISTS", self.client.create_topic, self.topic, PARTITIONS)
        assert self.topic in self.client.topics()

    def must_fail(self, word, other, function, *arguments):
        try:
            function(*arguments)
        except Skipped:
            raise
        except Exception as error:
            told = f"{type(error).__name__} {error}"
            assert word in told or other in told, told
        else:
            raise AssertionError(f"{word} was expected, and nothing failed")

    def produce(self):
        for partition in range(PARTITIONS):
            records = self.some(partition, PER_PARTITION, "plain")
            records[3].value = None
            records[4].headers = []
            self.write_and_read(self.topic, records)
            self.made[partition] = records

    def codec(self, name):
        topic = self.name(name)
        self.create(topic, 1)
        self.write_and_read(topic, self.some(0, 200, name), codec=name)

    def idempotent(self):
        topic = self.name("idempotent")
        self.create(topic, 1)
        self.write_and_read(topic, self.some(0, 200, "idempotent"), idempotent=True)

    def consume_all(self):
        equal(len(self.made), PARTITIONS, "partitions that were produced to")
        for records in self.made.values():
            self.reads(self.topic, records)

    def feed(self, topic, text):
        """Produces a round of records to each partition, and gives the values."""
        wanted = set()
        for partition in range(PARTITIONS):
            records = self.some(partition, 10, text)
            self.client.produce(topic, records)
            wanted |= {record.value for record in records}
        return wanted

    def collect(self, members, wanted):
        """Polls the members until all the wanted values were seen; gives how many each member has read."""
        counts = [0] * len(members)
        deadline = time.monotonic() + 45
        while wanted:
            for n, member in enumerate(members):
                records = member.poll()
                counts[n] += len(records)
                wanted -= {record.value for record in records}
            assert time.monotonic() < deadline, f"{len(wanted)} records were not read, the members have read {counts}"
        return counts

    def group_of_three(self):
        topic = group = self.name("three")
        self.create(topic, PARTITIONS)
        members = [Threaded(lambda: self.client.join(group, topic)) for _ in range(3)]
        try:
            counts, rounds = [0], 0
            while 0 in counts:
                counts = self.collect(members, self.feed(topic, f"round-{rounds}"))
                rounds += 1
            members.pop(0).close()
            self.collect(members, self.feed(topic, "late"))
        finally:
            for member in members:
                member.close()

    def commit_resume(self):
        topic = group = self.name("resume")
        self.create(topic, 1)
        records = self.some(0, 20, "resume")
        self.client.produce(topic, records)
        equal(self.client.committed(group, topic, 0)[0], -1, "before any commit")
        self.reads_from(group, topic, 0, 8)
        equal(self.client.committed(group, topic, 0)[0], 8, "after the member's commit")
        self.reads_from(group, topic, 8, 2)
        self.client.commit(group, topic, 0, 15, "a note")
        equal(self.client.committed(group, topic, 0), (15, "a note"), "after a commit from outside")
        self.reads_from(group, topic, 15, 1)

    def reads_from(self, group, topic, first, count):
        """Joins, expects this offset first, reads so many, commits and leaves."""
        member = Threaded(lambda: self.client.join(group, topic))
        read = []

        def enough():
            read.extend(member.poll())
            return len(read) >= count

        try:
            eventually(f"{count} records from {first} on", enough, 30)
            equal(read[0].offset, first, "the first offset")
            member.commit(topic, read[count - 1])
        finally:
            member.close()

    def seek_by_time(self):
        at = self.made[0][7].timestamp
        for when, expected in ((at, 7), (at - 400, 7), (at + 1, 8), (at - 3_600_000, 0), (at + 3_600_000, -1)):
            equal(self.client.offset_at(self.topic, 0, when), expected, f"the offset at {when - at}")

    def offsets(self):
        equal(self.client.bounds(self.topic, 0), (0, PER_PARTITION), "bounds")

    def describe_configs(self):
        equal(self.client.config(self.topic, "cleanup.policy"), "delete", "cleanup.policy")

    def alter_configs(self):
        self.client.set_config(self.topic, "retention.ms", "123456789")
        eventually("the setting is seen", lambda: self.client.config(self.topic, "retention.ms") == "123456789")

    def create_partitions(self):
        self.client.add_partitions(self.topic, 6)
        eventually("six partitions", lambda: self.knows(self.topic, 6))
        self.write_and_read(self.topic, self.some(5, 10, "sixth"))

    def delete_records(self):
        self.client.delete_records(self.topic, 0, 10)
        equal(self.client.bounds(self.topic, 0), (10, PER_PARTITION), "bounds")
        self.reads(self.topic, self.made[0][10:])

    def list_groups(self):
        assert self.name("resume") in self.client.groups()

    def describe_group(self):
        group = self.name("resume")
        eventually("the group is empty", lambda: self.client.describe_group(group) == ("Empty", 0))
        member = Threaded(lambda: self.client.join(group, group))

        try:
            eventually("the group is stable", lambda: self.client.describe_group(group) == ("Stable", 1))
        finally:
            member.close()

    def delete_group(self):
        group = self.name("resume")
        eventually("the group is empty", lambda: self.client.describe_group(group) == ("Empty", 0))
        self.client.delete_group(group)
        assert group not in self.client.groups()

    def delete_topic(self):
        self.client.delete_topic(self.topic)
        eventually("the topic is gone", lambda: self.topic not in self.client.topics())

    def unknown_topic(self):
        self.must_fail("UnknownTopicOrPart", "UNKNOWN_TOPIC_OR_PART", self.client.delete_topic, self.name("nowhere"))


def run(adapter):
    """Takes the client through all steps. The arguments of the program are the bootstrap address and the output folder."""
    with Session() as session:
        script = Script(session, adapter(session.bootstrap))
        session.step("create_topic", script.create_topic)
        session.step("produce", script.produce)
        for codec in CODECS:
            session.step(f"produce_{codec}", script.codec, codec)
        session.step("produce_idempotent", script.idempotent)
        for name in ("consume_all", "group_of_three", "commit_resume", "seek_by_time", "offsets", "describe_configs", "alter_configs",
                     "create_partitions", "delete_records", "list_groups", "describe_group", "delete_group", "delete_topic",
                     "unknown_topic"):
            session.step(name, getattr(script, name))
