"""The session by aiokafka, its event loop in a thread."""

import asyncio
import threading

import session
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code
from aiokafka.structs import OffsetAndMetadata
from session import Record

LOOP = asyncio.new_event_loop()
threading.Thread(target=LOOP.run_forever, daemon=True).start()


def wait(coroutine):
    return asyncio.run_coroutine_threadsafe(coroutine, LOOP).result(60)


def record_of(record):
    return Record(record.key, record.value, list(record.headers), record.timestamp, record.partition, record.offset)


def checked(answer, rows):
    """The rows begin with the name and the error code."""
    for _, error, *_ in rows:
        if error:
            raise for_code(error)(str(answer))


class Member:
    def __init__(self, bootstrap, group, topic):
        wait(self.start(bootstrap, group, topic))

    async def start(self, bootstrap, group, topic):
        self.consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest",
                                         enable_auto_commit=False, heartbeat_interval_ms=500)
        await self.consumer.start()

    def poll(self):
        batches = wait(self.consumer.getmany(timeout_ms=200))
        return [record_of(record) for records in batches.values() for record in records]

    def commit(self, topic, record):
        wait(self.consumer.commit({TopicPartition(topic, record.partition): record.offset + 1}))

    def close(self):
        wait(self.consumer.stop())


class Adapter(session.Adapter):
    def __init__(self, bootstrap):
        super().__init__(bootstrap)
        wait(self.start())

    async def start(self):
        self.admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await self.admin.start()

    def create_topic(self, topic, partitions):
        answer = wait(self.admin.create_topics([NewTopic(topic, partitions, 1)]))
        checked(answer, answer.topic_errors)

    def delete_topic(self, topic):
        answer = wait(self.admin.delete_topics([topic]))
        checked(answer, answer.topic_error_codes)

    def topics(self):
        return set(wait(self.admin.list_topics()))

    def partitions(self, topic):
        (found,) = wait(self.admin.describe_topics([topic]))
        return len(found["partitions"])

    def add_partitions(self, topic, total):
        answer = wait(self.admin.create_partitions({topic: NewPartitions(total)}))
        checked(answer, answer.topic_errors)

    def produce(self, topic, records, codec=None, idempotent=False):
        return wait(self.send(topic, records, codec, idempotent))

    async def send(self, topic, records, codec, idempotent):
        async with AIOKafkaProducer(bootstrap_servers=self.bootstrap, acks="all", compression_type=codec, enable_idempotence=idempotent) as producer:
            sent = [
                await producer.send(topic, record.value, record.key, record.partition, record.timestamp, record.headers)
                for record in records
            ]
            return [(await future).offset for future in sent]

    def reader(self, work):
        """What `work(consumer)` gives, with a consumer outside of groups."""
        async def with_consumer():
            async with AIOKafkaConsumer(bootstrap_servers=self.bootstrap, enable_auto_commit=False) as consumer:
                return await work(consumer)

        return wait(with_consumer())

    def consume(self, topic, partition, first, count):
        async def read(consumer):
            where = TopicPartition(topic, partition)
            consumer.assign([where])
            consumer.seek(where, first)
            return [record_of(await consumer.getone()) for _ in range(count)]

        return self.reader(read)

    def bounds(self, topic, partition):
        where = TopicPartition(topic, partition)

        async def ask(consumer):
            return (await consumer.beginning_offsets([where]))[where], (await consumer.end_offsets([where]))[where]

        return self.reader(ask)

    def offset_at(self, topic, partition, when):
        where = TopicPartition(topic, partition)

        async def ask(consumer):
            found = (await consumer.offsets_for_times({where: when}))[where]
            return -1 if found is None else found.offset

        return self.reader(ask)

    def delete_records(self, topic, partition, before):
        wait(self.admin.delete_records({TopicPartition(topic, partition): RecordsToDelete(before)}))

    def join(self, group, topic):
        return Member(self.bootstrap, group, topic)

    def commit(self, group, topic, partition, offset, metadata):
        async def alone():
            async with AIOKafkaConsumer(bootstrap_servers=self.bootstrap, group_id=group, enable_auto_commit=False) as consumer:
                where = TopicPartition(topic, partition)
                consumer.assign([where])
                await consumer.commit({where: OffsetAndMetadata(offset, metadata)})

        wait(alone())

    def committed(self, group, topic, partition):
        where = TopicPartition(topic, partition)
        return tuple(wait(self.admin.list_consumer_group_offsets(group, partitions=[where]))[where])

    def groups(self):
        return {group for group, *_ in wait(self.admin.list_consumer_groups())}

    def describe_group(self, group):
        (answer,) = wait(self.admin.describe_consumer_groups([group]))
        (found,) = answer.groups
        error, _, state, _, _, members = found[:6]
        if error:
            raise for_code(error)(str(found))
        return state, len(members)


    def config(self, topic, name):
        (answer,) = wait(self.admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)]))
        (resource,) = answer.resources
        return next(entry[1] for entry in resource[4] if entry[0] == name)

    def set_config(self, topic, name, value):
        (answer,) = wait(self.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs={name: value})]))
        for error, told, *_ in answer.resources:
            if error:
                raise for_code(error)(told)


session.run(Adapter)
