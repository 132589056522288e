"""A session of confluent-kafka: topics, every codec, a group, offsets, configurations. Argument: bootstrap."""

import sys

from checks import equal, eventually
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

BOOTSTRAP = sys.argv[1]


def consume(consumer, count):
    records = []

    def enough():
        for message in consumer.consume(num_messages=500, timeout=0.2):
            if message.error() is None:
                records.append(message)
        return len(records) >= count

    eventually(f"{count} records", enough)
    return records


def produce(topic, values, **settings):
    failures = []
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "linger.ms": 5, **settings})
    for value in values:
        producer.produce(topic, value=value, partition=0, on_delivery=lambda error, _: error and failures.append(error))
        producer.poll(0)
    equal(producer.flush(30), 0, "records left")
    equal(failures, [], "failed deliveries")


def main():
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    for future in admin.create_topics([NewTopic("confluent-session", num_partitions=3, replication_factor=1)]).values():
        future.result(timeout=30)
    equal(len(admin.list_topics("confluent-session", timeout=30).topics["confluent-session"].partitions), 3, "partitions")

    for codec in ["none", "gzip", "snappy", "lz4", "zstd"]:
        values = [f"{codec} {n} {'x' * (n % 50)}".encode() for n in range(300)]
        topic = f"codec-{codec}"
        produce(topic, values, **{"compression.type": codec, "enable.idempotence": True})
        consumer = Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": "codecs", "check.crcs": True})
        consumer.assign([TopicPartition(topic, 0, 0)])
        equal([message.value() for message in consume(consumer, 300)], values, topic)
        consumer.close()

    produce("confluent-session", [b"%d" % n for n in range(20)])
    settings = {"bootstrap.servers": BOOTSTRAP, "group.id": "confluent-group", "enable.auto.commit": False}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe(["confluent-session"])
    equal(len(consume(consumer, 20)), 20, "records of the group")
    consumer.commit(offsets=[TopicPartition("confluent-session", 0, 11)], asynchronous=False)
    equal(consumer.get_watermark_offsets(TopicPartition("confluent-session", 0), timeout=30), (0, 20), "watermarks")
    groups = admin.list_consumer_groups().result(timeout=30).valid
    assert "confluent-group" in [group.group_id for group in groups], groups
    described = admin.describe_consumer_groups(["confluent-group"])["confluent-group"].result(timeout=30)
    equal((described.state.name, len(described.members)), ("STABLE", 1), "the group")
    consumer.close()

    again = Consumer({**settings, "auto.offset.reset": "error"})
    again.assign([TopicPartition("confluent-session", 0)])
    equal(consume(again, 9)[0].value(), b"11", "where the group goes on")
    again.close()
    listed = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("confluent-group")])
    offsets = listed["confluent-group"].result(timeout=30).topic_partitions
    equal([(place.partition, place.offset) for place in offsets if place.offset >= 0], [(0, 11)], "committed offsets")

    resource = ConfigResource(ConfigResource.Type.TOPIC, "confluent-session")
    configs = admin.describe_configs([resource])[resource].result(timeout=30)
    equal(configs["cleanup.policy"].value, "delete", "cleanup.policy")
    assert len(admin.describe_cluster().result(timeout=30).nodes) == 1
    eventually("the empty group can be deleted", lambda: deleted_group(admin))
    for future in admin.delete_topics(["confluent-session"]).values():
        future.result(timeout=30)
    eventually("the topic is gone", lambda: "confluent-session" not in admin.list_topics(timeout=30).topics)


def deleted_group(admin):
    return admin.delete_consumer_groups(["confluent-group"])["confluent-group"].exception(timeout=30) is None


main()
