"""A session of kafka-python: topics, records with headers, seeking, times, offsets, groups. Argument: bootstrap."""

import sys

from checks import equal, eventually
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.structs import OffsetAndMetadata

BOOTSTRAP = sys.argv[1]
PARTITION = TopicPartition("session", 0)


def read(consumer, count):
    records = []

    def enough():
        for batch in consumer.poll(timeout_ms=200).values():
            records.extend(batch)
        return len(records) >= count

    eventually(f"{count} records", enough)
    return records


def main():
    admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    admin.create_topics([NewTopic("session", num_partitions=2, replication_factor=1)])
    assert "session" in admin.list_topics()

    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, acks="all", compression_type="gzip")
    for n in range(50):
        headers = [("n", str(n).encode()), ("empty", b"")]
        producer.send("session", partition=0, key=b"k", value=b"v%d" % n, headers=headers, timestamp_ms=1_000_000 + n)
    producer.flush(timeout=30)

    consumer = KafkaConsumer(bootstrap_servers=BOOTSTRAP, group_id="session-group", enable_auto_commit=False)
    consumer.assign([PARTITION])
    consumer.seek_to_beginning(PARTITION)
    records = read(consumer, 50)
    equal([record.value for record in records], [b"v%d" % n for n in range(50)], "values")
    equal([record.offset for record in records], list(range(50)), "offsets")
    equal(records[7].timestamp, 1_000_007, "the client's timestamp")
    equal(list(records[7].headers), [("n", b"7"), ("empty", b"")], "headers")
    consumer.seek(PARTITION, 42)
    equal(read(consumer, 8)[0].value, b"v42", "after a seek")

    equal(consumer.beginning_offsets([PARTITION]), {PARTITION: 0}, "the beginning")
    equal(consumer.end_offsets([PARTITION]), {PARTITION: 50}, "the end")
    found = consumer.offsets_for_times({PARTITION: 1_000_030})[PARTITION]
    equal((found.offset, found.timestamp), (30, 1_000_030), "a time")
    consumer.commit({PARTITION: OffsetAndMetadata(17, "note", -1)})
    equal(consumer.committed(PARTITION), 17, "the commit")
    consumer.close()
    producer.close()

    admin.delete_topics(["session"])
    eventually("the topic is gone", lambda: "session" not in admin.list_topics())
    admin.close()


main()
