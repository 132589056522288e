// A session of kafkajs, with the steps of ../README.md. Arguments: BOOTSTRAP OUTDIR.
'use strict';

const assert = require('assert');
const crypto = require('crypto');
const fs = require('fs');
const path = require('path');
const lz4 = require('lz4js');
const zstd = require('@bokuweb/zstd-wasm');
const {Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, Partitioners, logLevel} = require('kafkajs');

CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy');
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async (encoder) => lz4Frame(encoder.buffer),
  decompress: async (buffer) => Buffer.from(lz4.decompress(buffer)),
});
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from(zstd.compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(zstd.decompress(buffer)),
});

// lz4js makes frames of linked blocks, which Apache Kafka does not take; this one has a single block that stands alone.
function lz4Frame(plain) {
  const block = Buffer.alloc(lz4.compressBound(plain.length));
  const size = lz4.compressBlock(plain, block, 0, plain.length, new Uint32Array(1 << 16));
  const length = Buffer.alloc(4);
  length.writeUInt32LE(size || (plain.length | 0x80000000) >>> 0);
  // The magic number, version 1 with independent blocks of up to 4 MiB, and the checksum of these two bytes; at the end an empty block.
  return Buffer.concat([Buffer.from('04224d18607073', 'hex'), length, size ? block.subarray(0, size) : plain, Buffer.alloc(4)]);
}

const [bootstrap, outdir] = process.argv.slice(2);
const PARTITIONS = 4;
const PER_PARTITION = 25;
const STEP_MS = 60_000;

const mark = crypto.randomBytes(4).toString('hex');
const name = (text) => `${text}-${mark}`;
const kafka = new Kafka({clientId: 'session', brokers: [bootstrap], logLevel: logLevel.ERROR, retry: {initialRetryTime: 100}});
const admin = kafka.admin();
const topic = name('session');
const made = [];

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function eventually(what, condition, seconds = 40) {
  const deadline = Date.now() + seconds * 1000;
  for (;;) {
    if (await condition()) {
      return;
    }
    assert(Date.now() < deadline, `not within ${seconds} s: ${what}`);
    await sleep(50);
  }
}

async function step(title, run) {
  const begun = Date.now();
  let verdict = 'PASS';
  let timer;
  try {
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error('the step took too long')), STEP_MS);
    });
    await Promise.race([run(), late]);
  } catch (error) {
    verdict = 'FAIL';
    console.log(error.stack);
  }
  clearTimeout(timer);
  console.log(`${verdict} ${title} ${(Date.now() - begun) / 1000} s`);
  fs.appendFileSync(path.join(outdir, 'results.txt'), `${verdict} ${title}\n`);
}

function some(partition, count, text) {
  const base = Date.now() - 3_600_000;
  return Array.from({length: count}, (_, n) => ({
    key: `key-${n}`,
    value: `${text}-${partition}-${n}-${'x'.repeat(100)}`,
    headers: {n: `${n}`, empty: ''},
    timestamp: `${base + n * 1000}`,
    partition,
    offset: `${n}`,
  }));
}

async function create(title, numPartitions) {
  assert.strictEqual(await admin.createTopics({topics: [{topic: title, numPartitions}], waitForLeaders: true}), true);
  await eventually(`${title} is known`, async () => (await partitionsOf(title)) === numPartitions);
}

async function partitionsOf(title) {
  const {topics} = await admin.fetchTopicMetadata({topics: [title]});
  return topics[0].partitions.length;
}

async function produce(title, records, {compression = CompressionTypes.None, idempotent = false} = {}) {
  const producer = kafka.producer({idempotent, maxInFlightRequests: 1, createPartitioner: Partitioners.DefaultPartitioner});
  await producer.connect();
  try {
    const messages = records.map(({offset, ...message}) => message);
    const [told] = await producer.send({topic: title, messages, acks: -1, compression});
    return told.baseOffset;
  } finally {
    await producer.disconnect();
  }
}

// A member of a group that keeps what it reads.
class Member {
  constructor(group) {
    this.read = [];
    this.consumer = kafka.consumer({groupId: group, sessionTimeout: 10_000, rebalanceTimeout: 10_000, heartbeatInterval: 500, maxWaitTimeInMs: 500});
  }

  async join(title) {
    await this.consumer.connect();
    await this.consumer.subscribe({topics: [title], fromBeginning: true});
    await this.consumer.run({
      autoCommit: false,
      eachMessage: async ({partition, message}) => {
        this.read.push({partition, ...message});
      },
    });
    return this;
  }

  async close() {
    await this.consumer.disconnect();
  }
}

// kafkajs reads by groups only, so a reader is a group's only member that seeks.
async function reads(title, records) {
  const member = await new Member(name(`reader-${crypto.randomBytes(3).toString('hex')}`)).join(title);
  try {
    const {partition, offset} = records[0];
    await eventually('the consumer runs', () => runs(() => member.consumer.seek({topic: title, partition, offset})));
    const found = () => member.read.filter((one) => one.partition === partition && BigInt(one.offset) >= BigInt(offset));
    await eventually(`${records.length} records`, () => new Set(found().map((one) => one.offset)).size >= records.length);
    const byOffset = new Map(found().map((one) => [one.offset, one]));
    records.forEach((expected) => same(byOffset.get(expected.offset), expected));
  } finally {
    await member.close();
  }
}

// Whether it can be called: not while kafkajs starts the consumer again, as it does where the coordinator is still loading.
function runs(action) {
  try {
    action();
    return true;
  } catch {
    return false;
  }
}

function same(got, expected) {
  assert(got, `record ${expected.offset} is missing`);
  assert.strictEqual(got.key.toString(), expected.key);
  assert.strictEqual(got.value === null ? null : got.value.toString(), expected.value);
  assert.strictEqual(got.timestamp, expected.timestamp);
  const headers = Object.fromEntries(Object.entries(got.headers).map(([key, value]) => [key, value.toString()]));
  assert.deepStrictEqual(headers, expected.headers);
}

async function writeAndRead(title, records, how) {
  assert.strictEqual(await produce(title, records, how), records[0].offset);
  await reads(title, records);
}

async function createTopic() {
  await create(topic, PARTITIONS);
  assert.strictEqual(await admin.createTopics({topics: [{topic}]}), false, 'creating it again');
  assert((await admin.listTopics()).includes(topic));
}

async function producePlain() {
  for (let partition = 0; partition < PARTITIONS; partition++) {
    const records = some(partition, PER_PARTITION, 'plain');
    records[3].value = null;
    records[4].headers = {};
    await produce(topic, records);
    made.push(...records);
  }
  await reads(topic, made.slice(0, PER_PARTITION));
}

async function codec(title, compression) {
  await create(name(title), 1);
  await writeAndRead(name(title), some(0, 200, title), {compression});
}

async function idempotent() {
  await create(name('idempotent'), 1);
  await writeAndRead(name('idempotent'), some(0, 200, 'idempotent'), {idempotent: true});
}

async function consumeAll() {
  const member = await new Member(name('all')).join(topic);
  try {
    await eventually('all records', () => member.read.length >= made.length);
    assert.strictEqual(member.read.length, made.length);
    for (let partition = 0; partition < PARTITIONS; partition++) {
      const found = member.read.filter((one) => one.partition === partition);
      made.slice(partition * PER_PARTITION, (partition + 1) * PER_PARTITION).forEach((expected, n) => {
        assert.strictEqual(found[n].offset, expected.offset);
        same(found[n], expected);
      });
    }
  } finally {
    await member.close();
  }
}

async function groupOfThree() {
  const title = name('three');
  await create(title, PARTITIONS);
  let members = await Promise.all([1, 2, 3].map(() => new Member(title).join(title)));
  const feed = async (text) => {
    const values = new Set();
    for (let partition = 0; partition < PARTITIONS; partition++) {
      const records = some(partition, 10, text);
      await produce(title, records);
      records.forEach((record) => values.add(record.value));
    }
    return values;
  };
  const collect = async (wanted) => {
    const counts = members.map(() => 0);
    await eventually(`all is read by ${members.length}`, () => {
      members.forEach((member, n) => {
        member.read.splice(0).forEach((one) => {
          wanted.delete(one.value.toString());
          counts[n]++;
        });
      });
      return wanted.size === 0;
    }, 45);
    return counts;
  };
  try {
    for (let round = 0; (await collect(await feed(`round-${round}`))).includes(0); round++);
    await members.shift().close();
    await collect(await feed('late'));
  } finally {
    await Promise.all(members.map((member) => member.close()));
  }
}

async function committed(group) {
  const [{partitions}] = await admin.fetchOffsets({groupId: group, topics: [group]});
  return [partitions[0].offset, partitions[0].metadata];
}

async function readsFrom(group, first, count) {
  const member = await new Member(group).join(group);
  try {
    await eventually(`${count} records`, () => member.read.length >= count);
    assert.strictEqual(member.read[0].offset, `${first}`);
    await member.consumer.commitOffsets([{topic: group, partition: 0, offset: `${first + count}`}]);
  } finally {
    await member.close();
  }
}

async function commitResume() {
  const group = name('resume');
  await create(group, 1);
  await produce(group, some(0, 20, 'resume'));
  assert.strictEqual((await committed(group))[0], '-1');
  await readsFrom(group, 0, 8);
  assert.strictEqual((await committed(group))[0], '8');
  await readsFrom(group, 8, 2);
  await admin.setOffsets({groupId: group, topic: group, partitions: [{partition: 0, offset: '15', metadata: 'a note'}]});
  assert.strictEqual((await committed(group))[0], '15');
  await readsFrom(group, 15, 1);
}

// kafkajs gives the end where no record is found.
async function seekByTime() {
  const at = Number(made[7].timestamp);
  const end = `${PER_PARTITION}`;
  for (const [when, expected] of [[at, '7'], [at - 400, '7'], [at + 1, '8'], [at - 3_600_000, '0'], [at + 3_600_000, end]]) {
    const found = await admin.fetchTopicOffsetsByTimestamp(topic, when);
    assert.strictEqual(found.find((one) => one.partition === 0).offset, expected, `the offset at ${when - at}`);
  }
}

async function bounds(low, high) {
  const found = (await admin.fetchTopicOffsets(topic)).find((one) => one.partition === 0);
  assert.deepStrictEqual([found.low, found.high], [`${low}`, `${high}`]);
}

async function config(setting) {
  const {resources} = await admin.describeConfigs({includeSynonyms: false, resources: [{type: ConfigResourceTypes.TOPIC, name: topic}]});
  return resources[0].configEntries.find((entry) => entry.configName === setting).configValue;
}

async function alterConfigs() {
  await admin.alterConfigs({resources: [{type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{name: 'retention.ms', value: '123456789'}]}]});
  await eventually('the setting is seen', async () => (await config('retention.ms')) === '123456789');
}

async function createPartitions() {
  await admin.createPartitions({topicPartitions: [{topic, count: 6}]});
  await eventually('six partitions', async () => (await partitionsOf(topic)) === 6);
  await writeAndRead(topic, some(5, 10, 'sixth'));
}

async function deleteRecords() {
  await admin.deleteTopicRecords({topic, partitions: [{partition: 0, offset: '10'}]});
  await bounds(10, PER_PARTITION);
  await reads(topic, made.slice(10, PER_PARTITION));
}

const groups = async () => (await admin.listGroups()).groups.map((group) => group.groupId);

async function described(state, members) {
  await eventually(`the group is ${state}`, async () => {
    const {groups: [group]} = await admin.describeGroups([name('resume')]);
    return group.state === state && group.members.length === members;
  });
}

async function describeGroup() {
  await described('Empty', 0);
  const member = await new Member(name('resume')).join(name('resume'));
  try {
    await described('Stable', 1);
  } finally {
    await member.close();
  }
}

async function deleteGroup() {
  await described('Empty', 0);
  await admin.deleteGroups([name('resume')]);
  assert(!(await groups()).includes(name('resume')));
}

async function deleteTopic() {
  await admin.deleteTopics({topics: [topic]});
  await eventually('the topic is gone', async () => !(await admin.listTopics()).includes(topic));
}

async function unknownTopic() {
  await assert.rejects(admin.deleteTopics({topics: [name('nowhere')]}), /does not host this topic-partition/);
}

async function main() {
  await zstd.init();
  await admin.connect();
  await step('create_topic', createTopic);
  await step('produce', producePlain);
  await step('produce_gzip', () => codec('gzip', CompressionTypes.GZIP));
  await step('produce_snappy', () => codec('snappy', CompressionTypes.Snappy));
  await step('produce_lz4', () => codec('lz4', CompressionTypes.LZ4));
  await step('produce_zstd', () => codec('zstd', CompressionTypes.ZSTD));
  await step('produce_idempotent', idempotent);
  await step('consume_all', consumeAll);
  await step('group_of_three', groupOfThree);
  await step('commit_resume', commitResume);
  await step('seek_by_time', seekByTime);
  await step('offsets', () => bounds(0, PER_PARTITION));
  await step('describe_configs', async () => assert.strictEqual(await config('cleanup.policy'), 'delete'));
  await step('alter_configs', alterConfigs);
  await step('create_partitions', createPartitions);
  await step('delete_records', deleteRecords);
  await step('list_groups', async () => assert((await groups()).includes(name('resume'))));
  await step('describe_group', describeGroup);
  await step('delete_group', deleteGroup);
  await step('delete_topic', deleteTopic);
  await step('unknown_topic', unknownTopic);
  process.exit(0);
}

main();
