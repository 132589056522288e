"""The session by the kafka-python of 2019, whose newest broker is Kafka 2.2."""

from contextlib import closing

import session
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.errors import for_code
from kafka.structs import OffsetAndMetadata
from session import Record, Skipped

WAIT_MS = 30_000


def record_of(record):
    return Record(record.key, record.value, list(record.headers), record.timestamp, record.partition, record.offset)


class Member:
    def __init__(self, bootstrap, group, topic):
        self.consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest",
                                      enable_auto_commit=False, heartbeat_interval_ms=500)

    def poll(self):
        return [record_of(record) for records in self.consumer.poll(timeout_ms=200).values() for record in records]

    def commit(self, topic, record):
        self.consumer.commit({TopicPartition(topic, record.partition): OffsetAndMetadata(record.offset + 1, "")})

    def close(self):
        self.consumer.close()


class Adapter(session.Adapter):
    def __init__(self, bootstrap):
        super().__init__(bootstrap)
        self.admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def reader(self, group=None):
        return KafkaConsumer(bootstrap_servers=self.bootstrap, group_id=group, enable_auto_commit=False)

    def create_topic(self, topic, partitions):
        self.admin.create_topics([NewTopic(topic, partitions, 1)], timeout_ms=WAIT_MS)

    def delete_topic(self, topic):
        self.admin.delete_topics([topic], timeout_ms=WAIT_MS)

    def topics(self):
        with closing(self.reader()) as reader:
            return reader.topics()

    def partitions(self, topic):
        with closing(self.reader()) as reader:
            reader.topics()
            return len(reader.partitions_for_topic(topic) or ())

    def add_partitions(self, topic, total):
        self.admin.create_partitions({topic: NewPartitions(total)}, timeout_ms=WAIT_MS)

    def produce(self, topic, records, codec=None, idempotent=False):
        if codec == "zstd" or idempotent:
            raise Skipped
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, acks="all", compression_type=codec)
        try:
            sent = [producer.send(topic, record.value, record.key, record.headers, record.partition, record.timestamp) for record in records]
            return [future.get(WAIT_MS / 1000).offset for future in sent]
        finally:
            producer.close()

    def consume(self, topic, partition, first, count):
        where = TopicPartition(topic, partition)
        with closing(self.reader()) as reader:
            reader.assign([where])
            reader.seek(where, first)
            found = []
            while len(found) < count:
                found += [record_of(record) for record in reader.poll(timeout_ms=500, max_records=count - len(found)).get(where, [])]
            return found

    def bounds(self, topic, partition):
        where = TopicPartition(topic, partition)
        with closing(self.reader()) as reader:
            return reader.beginning_offsets([where])[where], reader.end_offsets([where])[where]

    def offset_at(self, topic, partition, when):
        where = TopicPartition(topic, partition)
        with closing(self.reader()) as reader:
            found = reader.offsets_for_times({where: when})[where]
            return -1 if found is None else found.offset

    def join(self, group, topic):
        return Member(self.bootstrap, group, topic)

    def commit(self, group, topic, partition, offset, metadata):
        where = TopicPartition(topic, partition)
        with closing(self.reader(group)) as reader:
            reader.assign([where])
            reader.commit({where: OffsetAndMetadata(offset, metadata)})

    def committed(self, group, topic, partition):
        found = self.admin.list_consumer_group_offsets(group, partitions=[TopicPartition(topic, partition)])
        return tuple(found[TopicPartition(topic, partition)])

    def groups(self):
        return {group for group, _ in self.admin.list_consumer_groups()}

    def describe_group(self, group):
        found = self.admin.describe_consumer_groups([group])[0]
        error, _, state, _, _, members = found[:6]
        if error:
            raise for_code(error)
        return state, len(members)

    def config(self, topic, name):
        answer = self.admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        (resource,) = answer.resources
        return next(entry[1] for entry in resource[4] if entry[0] == name)

    def set_config(self, topic, name, value):
        self.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs={name: value})])


session.run(Adapter)
