"""Sends each line of standard input as a record: `python producer.py --topic t [--bootstrap localhost:9092]`."""

import argparse
import sys

from confluent_kafka import Producer

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--topic", required=True)
parser.add_argument("--bootstrap", default="localhost:9092")
args = parser.parse_args()

failed = 0


def delivered(error, record):
    global failed
    if error is None:
        print(f"partition {record.partition()} offset {record.offset()}")
    else:
        failed += 1
        print(f"not delivered: {error}", file=sys.stderr)


producer = Producer({"bootstrap.servers": args.bootstrap, "enable.idempotence": True})
for line in sys.stdin:
    while True:
        try:
            producer.produce(args.topic, value=line.rstrip("\n"), on_delivery=delivered)
            break
        except BufferError:  # The queue is full; it empties as records are delivered.
            producer.poll(0.1)
    producer.poll(0)
left = producer.flush(30)
if failed or left:
    sys.exit(f"{failed + left} records were not delivered")
