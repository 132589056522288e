"""A session of confluent-kafka's AdminClient: settings altered and described, partitions added, records deleted.
Argument: bootstrap."""

import sys

from checks import equal, eventually
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
)

BOOTSTRAP = sys.argv[1]
TOPIC = "confluent-admin"


def resource(kind, name, *entries):
    made = ConfigResource(kind, name)
    for name, value, operation in entries:
        made.add_incremental_config(ConfigEntry(name, value, incremental_operation=operation))
    return made


def refused(futures, code, *words):
    for future in futures.values():
        error = future.exception(timeout=30)
        assert isinstance(error, KafkaException), f"not refused: {error}"
        equal(error.args[0].code(), code, "the code")
        for word in words:
            assert word in error.args[0].str(), f"{word} is missing in: {error}"


def settings(admin, kind=ConfigResource.Type.TOPIC, name=TOPIC):
    asked = ConfigResource(kind, name)
    return admin.describe_configs([asked])[asked].result(timeout=30)


def alter(admin):
    topic = ConfigResource.Type.TOPIC
    operations = AlterConfigOpType
    changed = resource(
        topic,
        TOPIC,
        ("retention.ms", "7200000", operations.SET),
        ("max.message.bytes", "500000", operations.SET),
        ("cleanup.policy", "compact", operations.APPEND),
    )
    for future in admin.incremental_alter_configs([changed]).values():
        future.result(timeout=30)
    found = settings(admin)
    equal(found["retention.ms"].value, "7200000", "retention.ms")
    equal(found["retention.ms"].source, ConfigSource.DYNAMIC_TOPIC_CONFIG.value, "its source")
    equal(found["cleanup.policy"].value, "delete,compact", "cleanup.policy")
    equal(found["max.message.bytes"].synonyms["message.max.bytes"].value, "1048588", "the default behind it")
    equal(found["min.insync.replicas"].is_default, True, "min.insync.replicas")

    only_checked = resource(topic, TOPIC, ("retention.ms", "1", operations.SET))
    for future in admin.incremental_alter_configs([only_checked], validate_only=True).values():
        future.result(timeout=30)
    equal(settings(admin)["retention.ms"].value, "7200000", "retention.ms after a check only")

    # The older API replaces all.
    replaced = ConfigResource(topic, TOPIC, set_config={"retention.ms": "3600000"})
    for future in admin.alter_configs([replaced]).values():
        future.result(timeout=30)
    found = settings(admin)
    equal((found["retention.ms"].value, found["cleanup.policy"].value), ("3600000", "delete"), "what was replaced")

    for entry, word in [(("no.such", "1"), "no.such"), (("retention.ms", "soon"), "retention.ms")]:
        bad = resource(topic, TOPIC, (*entry, operations.SET))
        refused(admin.incremental_alter_configs([bad]), KafkaError.INVALID_CONFIG, word)
    missing = resource(topic, "no-such-topic", ("retention.ms", "1", operations.SET))
    refused(admin.incremental_alter_configs([missing]), KafkaError.UNKNOWN_TOPIC_OR_PART)
    broker = resource(ConfigResource.Type.BROKER, "1", ("log.retention.ms", "1", operations.SET))
    refused(admin.incremental_alter_configs([broker]), KafkaError.INVALID_REQUEST, "log.retention.ms")
    found = settings(admin, ConfigResource.Type.BROKER, "1")
    assert len(found) > 300, len(found)
    equal(found["ssl.keystore.password"].is_sensitive, True, "a password")
    assert found["num.partitions"].is_read_only


def add_partitions(admin):
    for future in admin.create_partitions([NewPartitions(TOPIC, 5)]).values():
        future.result(timeout=30)
    equal(len(admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions), 5, "partitions")
    refused(admin.create_partitions([NewPartitions(TOPIC, 5)]), KafkaError.INVALID_PARTITIONS)
    refused(admin.create_partitions([NewPartitions("no-such-topic", 5)]), KafkaError.UNKNOWN_TOPIC_OR_PART)


def delete_records(admin):
    producer = Producer({"bootstrap.servers": BOOTSTRAP})
    for number in range(100):
        producer.produce(TOPIC, value=b"%d" % number, partition=4)
    equal(producer.flush(30), 0, "records left")
    for future in admin.delete_records([TopicPartition(TOPIC, 4, 60)]).values():
        equal(future.result(timeout=30).low_watermark, 60, "the low watermark")
    refused(admin.delete_records([TopicPartition(TOPIC, 4, 1000)]), KafkaError.OFFSET_OUT_OF_RANGE)
    consumer = Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": "g", "auto.offset.reset": "earliest"})
    equal(consumer.get_watermark_offsets(TopicPartition(TOPIC, 4), timeout=30), (60, 100), "watermarks")
    consumer.assign([TopicPartition(TOPIC, 4, 10)])
    values = []

    def enough():
        values.extend(message.value() for message in consumer.consume(100, 0.2) if message.error() is None)
        return len(values) >= 40

    eventually("what is left is read", enough)
    equal(values, [b"%d" % number for number in range(60, 100)], "what is left")
    for future in admin.delete_records([TopicPartition(TOPIC, 4, -1)]).values():
        equal(future.result(timeout=30).low_watermark, 100, "the low watermark")
    equal(consumer.get_watermark_offsets(TopicPartition(TOPIC, 4), timeout=30), (100, 100), "watermarks")
    consumer.close()


def main():
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    for future in admin.create_topics([NewTopic(TOPIC, num_partitions=3, replication_factor=1)]).values():
        future.result(timeout=30)
    alter(admin)
    add_partitions(admin)
    delete_records(admin)


main()
