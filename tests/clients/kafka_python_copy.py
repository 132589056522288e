"""Copies records from one topic to another with kafka-python. Arguments: bootstrap, from, to, count."""

import sys

from checks import eventually
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

bootstrap, source, target, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
consumer.assign([TopicPartition(source, 0)])
consumer.seek_to_beginning()
producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
copied = 0


def enough():
    global copied
    for batch in consumer.poll(timeout_ms=200).values():
        for record in batch:
            producer.send(target, partition=0, value=record.value)
            copied += 1
    return copied >= count


eventually(f"{count} records", enough)
producer.flush(timeout=30)
producer.close()
consumer.close()
