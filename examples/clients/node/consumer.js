// Prints the records of a topic as they come, as a member of a consumer group that goes on where it stopped:
// `node consumer.js --topic t [--group readers] [--count n] [--bootstrap localhost:9092]`.

import { parseArgs } from "node:util";
import { Kafka, logLevel } from "kafkajs";

const { values: args } = parseArgs({
  options: {
    topic: { type: "string" },
    group: { type: "string", default: "readers" },
    count: { type: "string" },
    bootstrap: { type: "string", default: "localhost:9092" },
  },
});
if (!args.topic) throw new Error("--topic is needed");

const kafka = new Kafka({ brokers: args.bootstrap.split(","), logLevel: logLevel.ERROR });
const consumer = kafka.consumer({ groupId: args.group });

let printed = 0;
let enough;
const done = new Promise((resolve) => {
  enough = resolve;
  process.once("SIGINT", resolve);
});

await consumer.connect();
await consumer.subscribe({ topic: args.topic, fromBeginning: true });
await consumer.run({
  eachMessage: async ({ partition, message }) => {
    if (args.count && printed >= Number(args.count)) return;
    console.log(`partition ${partition} offset ${message.offset}: ${message.value?.toString() ?? "(null)"}`);
    printed += 1;
    if (args.count && printed >= Number(args.count)) enough();
  },
});
await done;
await consumer.disconnect(); // Commits what was read.
