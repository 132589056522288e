"""The session by confluent-kafka."""

import session
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, OffsetSpec,
                                   ResourceType)
from session import Record

SECONDS = 30


def only(futures):
    """The result of the only future, or what it raises."""
    (future,) = futures.values()
    return future.result(SECONDS)


def record_of(message):
    return Record(message.key(), message.value(), message.headers() or [], message.timestamp()[1], message.partition(), message.offset())


class Member:
    def __init__(self, bootstrap, group, topic):
        self.consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest",
                                  "enable.auto.commit": False, "heartbeat.interval.ms": 500})
        self.consumer.subscribe([topic])

    def poll(self):
        return [record_of(message) for message in self.consumer.consume(100, 0.2) if not message.error()]

    def commit(self, topic, record):
        self.consumer.commit(offsets=[TopicPartition(topic, record.partition, record.offset + 1)], asynchronous=False)

    def close(self):
        self.consumer.close()


class Adapter(session.Adapter):
    def __init__(self, bootstrap):
        super().__init__(bootstrap)
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def create_topic(self, topic, partitions):
        only(self.admin.create_topics([NewTopic(topic, partitions, 1)]))

    def delete_topic(self, topic):
        only(self.admin.delete_topics([topic]))

    def topics(self):
        return set(self.admin.list_topics(timeout=SECONDS).topics)

    def partitions(self, topic):
        return len(only(self.admin.describe_topics(TopicCollection([topic]))).partitions)

    def add_partitions(self, topic, total):
        only(self.admin.create_partitions([NewPartitions(topic, total)]))

    def produce(self, topic, records, codec="none", idempotent=False):
        offsets = [None] * len(records)
        producer = Producer({"bootstrap.servers": self.bootstrap, "compression.type": codec, "enable.idempotence": idempotent})

        def told(n):
            def keep(error, message):
                offsets[n] = error or message.offset()
            return keep

        for n, record in enumerate(records):
            producer.produce(topic, record.value, record.key, record.partition, on_delivery=told(n), timestamp=record.timestamp, headers=record.headers)
        producer.flush(SECONDS)
        return offsets

    def consume(self, topic, partition, first, count):
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "reader", "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, partition, first)])
        try:
            messages = consumer.consume(count, SECONDS)
            for message in messages:
                if message.error():
                    raise KafkaException(message.error())
            return [record_of(message) for message in messages]
        finally:
            consumer.close()

    def offset(self, topic, partition, spec):
        return only(self.admin.list_offsets({TopicPartition(topic, partition): spec})).offset

    def bounds(self, topic, partition):
        return self.offset(topic, partition, OffsetSpec.earliest()), self.offset(topic, partition, OffsetSpec.latest())

    def offset_at(self, topic, partition, when):
        return self.offset(topic, partition, OffsetSpec.for_timestamp(when))

    def delete_records(self, topic, partition, before):
        only(self.admin.delete_records([TopicPartition(topic, partition, before)]))

    def join(self, group, topic):
        return Member(self.bootstrap, group, topic)

    def commit(self, group, topic, partition, offset, metadata):
        wanted = TopicPartition(topic, partition, offset, metadata=metadata)
        done = only(self.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [wanted])]))
        assert done.topic_partitions[0].error is None, done.topic_partitions[0].error

    def committed(self, group, topic, partition):
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition)])
        found = only(self.admin.list_consumer_group_offsets([asked])).topic_partitions[0]
        return (found.offset, found.metadata) if found.offset >= 0 else (-1, None)

    def groups(self):
        return {group.group_id for group in self.admin.list_consumer_groups().result(SECONDS).valid}

    def describe_group(self, group):
        found = only(self.admin.describe_consumer_groups([group]))
        return found.state.name.capitalize(), len(found.members)

    def delete_group(self, group):
        only(self.admin.delete_consumer_groups([group]))

    def config(self, topic, name):
        return only(self.admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))[name].value

    def set_config(self, topic, name, value):
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        only(self.admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]))


session.run(Adapter)
