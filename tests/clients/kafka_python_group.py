"""Three kafka-python consumers of one group share a topic; one leaves; the others take over. Argument: bootstrap."""

import sys

from checks import equal, eventually
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic

BOOTSTRAP = sys.argv[1]
TOPIC = "python-group"


def consumer():
    return KafkaConsumer(
        TOPIC,
        bootstrap_servers=BOOTSTRAP,
        group_id="three",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=10000,
        heartbeat_interval_ms=500,
    )


def poll(members, seen):
    """One round: every member polls, what it got is noted and committed."""
    for member in members:
        records = member.poll(timeout_ms=100)
        for batch in records.values():
            seen.extend((record.partition, record.offset, record.value.decode()) for record in batch)
        if records:
            member.commit()


def spread(members):
    return sorted(len(member.assignment()) for member in members)


def produce(numbers):
    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, acks="all")
    sent = [producer.send(TOPIC, key=str(n).encode(), value=str(n).encode()) for n in numbers]
    places = [future.get(timeout=30) for future in sent]
    producer.close()
    return places


def main():
    admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    admin.create_topics([NewTopic(TOPIC, num_partitions=6, replication_factor=1)])
    members = [consumer() for _ in range(3)]
    seen = []

    def settled(expected):
        poll(members, seen)
        return spread(members) == expected

    eventually("three members have two partitions each", lambda: settled([2, 2, 2]))
    produce(range(300))

    def all_seen(count):
        poll(members, seen)
        return len(seen) >= count

    eventually("300 records are seen", lambda: all_seen(300))
    equal(sorted(int(value) for _, _, value in seen), list(range(300)), "each record is seen once")

    members.pop().close()
    eventually("two members have three partitions each", lambda: settled([3, 3]))
    produce(range(300, 400))
    eventually("100 more are seen", lambda: all_seen(400))
    equal(sorted(int(value) for _, _, value in seen), list(range(400)), "each record is seen once")
    for partition in range(6):
        offsets = [offset for where, offset, _ in seen if where == partition]
        equal(offsets, sorted(offsets), f"the order of partition {partition}")
    for member in members:
        member.close()
    admin.close()


main()
