"""Prints the records of a topic as they come, as a member of a consumer group that goes on where it stopped:
`python consumer.py --topic t [--group readers] [--count n] [--bootstrap localhost:9092]`."""

import argparse
import sys

from confluent_kafka import Consumer, KafkaError

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--topic", required=True)
parser.add_argument("--group", default="readers", help="consumers of one group share the partitions")
parser.add_argument("--count", type=int, help="stops after so many records")
parser.add_argument("--bootstrap", default="localhost:9092")
args = parser.parse_args()

consumer = Consumer(
    {"bootstrap.servers": args.bootstrap, "group.id": args.group, "auto.offset.reset": "earliest"}
)
consumer.subscribe([args.topic])
printed = 0
try:
    while args.count is None or printed < args.count:
        record = consumer.poll(1.0)
        if record is None:
            continue
        if record.error():
            # A topic that is not there yet may still come.
            if record.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                continue
            sys.exit(str(record.error()))
        value = record.value()
        text = "(null)" if value is None else value.decode(errors="replace")
        print(f"partition {record.partition()} offset {record.offset()}: {text}", flush=True)
        printed += 1
except KeyboardInterrupt:
    pass
finally:
    consumer.close()  # Commits what was read.
