// Sends each line of standard input as a record: `node producer.js --topic t [--bootstrap localhost:9092]`.

import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { Kafka, logLevel } from "kafkajs";

const { values: args } = parseArgs({
  options: {
    topic: { type: "string" },
    bootstrap: { type: "string", default: "localhost:9092" },
  },
});
if (!args.topic) throw new Error("--topic is needed");

const kafka = new Kafka({ brokers: args.bootstrap.split(","), logLevel: logLevel.ERROR });
// One request in flight, so that records keep their order when one is sent again.
const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });

const send = async (lines) => {
  const messages = lines.map((value) => ({ value }));
  for (const { partition, baseOffset } of await producer.send({ topic: args.topic, messages })) {
    console.log(`partition ${partition} from offset ${baseOffset}`);
  }
};

await producer.connect();
let lines = [];
for await (const line of createInterface({ input: process.stdin })) {
  lines.push(line);
  if (lines.length === 100) {
    await send(lines);
    lines = [];
  }
}
if (lines.length > 0) await send(lines);
await producer.disconnect();
