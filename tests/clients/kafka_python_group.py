"""Three kafka-python consumers of one group share a topic; one leaves; the others take over. Argument: bootstrap."""

import sys
import threading

from checks import equal, eventually
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic

BOOTSTRAP = sys.argv[1]
TOPIC = "python-group"


class Member(threading.Thread):
    """A consumer that polls and commits in a thread of its own until it is told to leave."""

    def __init__(self):
        super().__init__(daemon=True)
        self.assigned = 0
        self.seen = []
        self.leaving = threading.Event()
        self.start()

    def run(self):
        consumer = KafkaConsumer(
            TOPIC,
            bootstrap_servers=BOOTSTRAP,
            group_id="three",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=10000,
            heartbeat_interval_ms=500,
        )
        while not self.leaving.is_set():
            # Longer than a rebalance takes: kafka-python 3.0.12 can lose itself where a poll ends in the middle of one.
            records = consumer.poll(timeout_ms=5000)
            for batch in records.values():
                self.seen.extend((record.partition, record.offset, record.value.decode()) for record in batch)
            if records:
                consumer.commit()
            self.assigned = len(consumer.assignment())
        consumer.close()

    def leave(self):
        self.leaving.set()
        self.join(timeout=30)
        equal(self.is_alive(), False, "the member has left")


def produce(numbers):
    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, acks="all")
    sent = [producer.send(TOPIC, key=str(n).encode(), value=str(n).encode()) for n in numbers]
    for future in sent:
        future.get(timeout=30)
    producer.close()


def seen_by(members):
    return [record for member in members for record in list(member.seen)]


def main():
    admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    admin.create_topics([NewTopic(TOPIC, num_partitions=6, replication_factor=1)])
    members = [Member() for _ in range(3)]

    def spread(group):
        return sorted(member.assigned for member in group)

    eventually("three members have two partitions each", lambda: spread(members) == [2, 2, 2])
    produce(range(300))
    eventually("300 records are seen", lambda: len(seen_by(members)) >= 300)
    equal(sorted(int(value) for _, _, value in seen_by(members)), list(range(300)), "each record is seen once")

    members[0].leave()
    eventually("two members have three partitions each", lambda: spread(members[1:]) == [3, 3])
    produce(range(300, 400))
    eventually("100 more are seen", lambda: len(seen_by(members)) >= 400)
    equal(sorted(int(value) for _, _, value in seen_by(members)), list(range(400)), "each record is seen once")
    for member in members:
        for partition in range(6):
            offsets = [offset for where, offset, _ in member.seen if where == partition]
            equal(offsets, sorted(offsets), f"the order of partition {partition}")
    for member in members[1:]:
        member.leave()
    admin.close()


main()
