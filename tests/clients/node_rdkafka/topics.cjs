// Makes the topics that node-rdkafka's tests take for given (its run_docker.sh does).
'use strict';

const {AdminClient} = require(`${process.env.JUDGE_HOME}/node_modules/node-rdkafka`);

const admin = AdminClient.create({'metadata.broker.list': process.env.KAFKA_HOST});
const topics = ['test', 'test2', 'test3', 'test4', 'test5', 'test6'];
let left = topics.length;
topics.forEach((topic) => admin.createTopic({topic, num_partitions: 1, replication_factor: 1}, 20000, (error) => {
  if (error && error.code !== 36) { // it is there
    throw error;
  }
  if (--left === 0) {
    admin.disconnect();
  }
}));
