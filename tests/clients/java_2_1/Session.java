import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.*;

/** What a Java client of 2.1 produces, consumes and administers. Arguments: bootstrap, file for results. */
public final class Session {
    private static final int PARTITIONS = 4;
    private static final int RECORDS = 1000;

    private final String bootstrap;
    private final AdminClient admin;
    private final String mark = Long.toHexString(new Random().nextLong() >>> 32);

    public static void main(String[] arguments) throws Exception {
        Check.tellTo(arguments[1]);
        new Session(arguments[0]).run();
        System.exit(0);
    }

    private Session(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = AdminClient.create(Map.of("bootstrap.servers", bootstrap));
    }

    private void run() {
        Check.step("create_topic", this::create);
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            Check.step("produce_" + codec, () -> produceAndRead(codec, codec));
        }
        Check.step("produce_idempotent", () -> produceAndRead("idempotent", "none", "enable.idempotence", true));
        Check.step("produce_auto_creates", this::autoCreate);
        Check.step("seek_by_time", this::byTime);
        Check.step("commit_resume", this::commits);
        Check.step("group_of_three", this::share);
        Check.step("describe_configs", this::configs);
        Check.step("alter_configs", this::alterConfigs);
        Check.step("create_partitions", this::createPartitions);
        Check.step("delete_records", this::deleteRecords);
        Check.step("describe_log_dirs", this::logDirs);
        Check.step("admin_groups", this::groups);
        Check.step("delete_topic", this::delete);
    }

    private String made(String text, int partitions) throws Exception {
        String topic = text + "-" + mark;
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
        Check.eventually("the topic is known", () -> {
            try {
                return described(topic) != null;
            } catch (ExecutionException error) {
                Thread.sleep(20);
                return false;
            }
        });
        return topic;
    }

    private TopicDescription described(String topic) throws Exception {
        return admin.describeTopics(List.of(topic)).all().get().get(topic);
    }

    private Map<String, Object> config(Object... settings) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "auto.offset.reset", "earliest"));
        for (int n = 0; n < settings.length; n += 2) {
            config.put((String) settings[n], settings[n + 1]);
        }
        return config;
    }

    private KafkaProducer<String, String> producer(Object... settings) {
        return new KafkaProducer<>(config(settings), new StringSerializer(), new StringSerializer());
    }

    private KafkaConsumer<String, String> consumer(Object... settings) {
        return new KafkaConsumer<>(config(settings), new StringDeserializer(), new StringDeserializer());
    }

    private List<TopicPartition> all(String topic) {
        List<TopicPartition> found = new ArrayList<>();
        for (int partition = 0; partition < PARTITIONS; partition++) {
            found.add(new TopicPartition(topic, partition));
        }
        return found;
    }

    private void fill(String topic, int each) throws Exception {
        try (KafkaProducer<String, String> producer = producer("linger.ms", 20)) {
            for (TopicPartition partition : all(topic)) {
                for (int n = 0; n < each; n++) {
                    producer.send(new ProducerRecord<>(topic, partition.partition(), "k" + n, "v" + n));
                }
            }
            producer.flush();
        }
    }

    private void create() throws Exception {
        String topic = made("made", PARTITIONS);
        Check.equal(PARTITIONS, described(topic).partitions().size(), "partitions");
        Check.holds(admin.listTopics().names().get().contains(topic), "listed");
        Check.refused(TopicExistsException.class, () -> admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get());
        Check.holds(admin.describeCluster().clusterId().get() != null, "a cluster id");
    }

    private void produceAndRead(String name, String codec, Object... more) throws Exception {
        String topic = made(name, PARTITIONS);
        List<Object> settings = new ArrayList<>(List.of("compression.type", codec));
        settings.addAll(List.of(more));
        try (KafkaProducer<String, String> producer = producer(settings.toArray())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int n = 0; n < RECORDS; n++) {
                ProducerRecord<String, String> record = new ProducerRecord<>(topic, "key-" + n, n % 100 == 99 ? null : n + " again".repeat(n % 50));
                record.headers().add(new RecordHeader("n", ("" + n).getBytes()));
                sent.add(producer.send(record));
            }
            for (Future<RecordMetadata> one : sent) {
                one.get();
            }
        }
        Map<Integer, Long> next = new HashMap<>();
        Set<String> seen = new HashSet<>();
        try (KafkaConsumer<String, String> consumer = consumer()) {
            consumer.assign(all(topic));
            Check.eventually("all records came", () -> {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    Check.equal(next.merge(record.partition(), 1L, Long::sum) - 1, record.offset(), "the next offset");
                    String n = new String(record.headers().lastHeader("n").value());
                    Check.equal("key-" + n, record.key(), "the key");
                    Check.holds(n.endsWith("99") ? record.value() == null : record.value().startsWith(n), "the value");
                    seen.add(n);
                }
                return seen.size() == RECORDS;
            });
        }
    }

    private void autoCreate() throws Exception {
        String topic = "auto-" + mark;
        try (KafkaProducer<String, String> producer = producer()) {
            producer.send(new ProducerRecord<>(topic, "v")).get();
            Check.equal(PARTITIONS, producer.partitionsFor(topic).size(), "partitions");
        }
    }

    private void byTime() throws Exception {
        TopicPartition partition = new TopicPartition(made("timed", 1), 0);
        long start = System.currentTimeMillis() - 100_000;
        try (KafkaProducer<String, String> producer = producer("linger.ms", 50)) {
            for (int n = 0; n < 100; n++) {
                producer.send(new ProducerRecord<>(partition.topic(), 0, start + n * 1000L, "k", "v" + n));
            }
        }
        try (KafkaConsumer<String, String> consumer = consumer()) {
            Check.equal(42L, consumer.offsetsForTimes(Map.of(partition, start + 41_500)).get(partition).offset(), "the first at or after a time");
            Check.holds(consumer.offsetsForTimes(Map.of(partition, start + 99_001)).get(partition) == null, "none after the last");
            Check.equal(0L, consumer.beginningOffsets(List.of(partition)).get(partition), "the beginning");
            Check.equal(100L, consumer.endOffsets(List.of(partition)).get(partition), "the end");
        }
    }

    private void commits() throws Exception {
        String topic = made("committed", PARTITIONS);
        fill(topic, 10);
        TopicPartition first = new TopicPartition(topic, 0);
        String group = "commits-" + mark;
        try (KafkaConsumer<String, String> consumer = consumer("group.id", group, "enable.auto.commit", false)) {
            consumer.assign(List.of(first));
            Check.holds(consumer.committed(first) == null, "nothing yet");
            consumer.commitSync(Map.of(first, new OffsetAndMetadata(7, Optional.of(0), "note")));
            Check.equal("note", consumer.committed(first).metadata(), "metadata");
        }
        try (KafkaConsumer<String, String> consumer = consumer("group.id", group)) {
            consumer.assign(List.of(first));
            Check.equal(7L, consumer.position(first), "it begins there");
        }
    }

    private void share() throws Exception {
        String topic = made("shared", PARTITIONS);
        fill(topic, 50);
        String group = "three-" + mark;
        Map<Integer, Set<TopicPartition>> held = new ConcurrentHashMap<>();
        Set<String> seen = ConcurrentHashMap.newKeySet();
        CountDownLatch done = new CountDownLatch(1);
        ExecutorService pool = Executors.newFixedThreadPool(3);
        List<Future<?>> members = new ArrayList<>();
        for (int member = 0; member < 3; member++) {
            int number = member;
            members.add(pool.submit(() -> {
                try (KafkaConsumer<String, String> consumer = consumer("group.id", group, "heartbeat.interval.ms", 300)) {
                    consumer.subscribe(List.of(topic));
                    while (done.getCount() > 0) {
                        consumer.poll(Duration.ofMillis(100)).forEach(record -> seen.add(record.partition() + ":" + record.offset()));
                        held.put(number, Set.copyOf(consumer.assignment()));
                    }
                }
            }));
        }
        try {
            Check.eventually("all is shared and read", () -> {
                Thread.sleep(50);
                Set<TopicPartition> all = new HashSet<>();
                held.values().forEach(all::addAll);
                boolean each = held.size() == 3 && held.values().stream().noneMatch(Set::isEmpty);
                return each && all.size() == PARTITIONS && seen.size() == 50 * PARTITIONS;
            });
            Check.equal(3, admin.describeConsumerGroups(List.of(group)).all().get().get(group).members().size(), "members");
        } finally {
            done.countDown();
            pool.shutdown();
        }
        for (Future<?> member : members) {
            member.get();
        }
        long committed = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().values().stream().mapToLong(OffsetAndMetadata::offset).sum();
        Check.equal(50L * PARTITIONS, committed, "what was committed");
    }

    private static ConfigResource resource(String topic) {
        return new ConfigResource(ConfigResource.Type.TOPIC, topic);
    }

    private ConfigEntry setting(String topic, String name) throws Exception {
        return admin.describeConfigs(List.of(resource(topic))).all().get().get(resource(topic)).get(name);
    }

    private void configs() throws Exception {
        String topic = made("configured", 1);
        Check.equal("delete", setting(topic, "cleanup.policy").value(), "a default");
        Check.holds(setting(topic, "cleanup.policy").isDefault(), "told as one");
    }

    private void alterConfigs() throws Exception {
        String topic = made("altered", 1);
        admin.alterConfigs(Map.of(resource(topic), new Config(List.of(new ConfigEntry("retention.ms", "3600000"))))).all().get();
        Check.eventually("the change is seen", () -> "3600000".equals(setting(topic, "retention.ms").value()));
        admin.alterConfigs(Map.of(resource(topic), new Config(List.of(new ConfigEntry("max.message.bytes", "2000"))))).all().get();
        Check.eventually("all others are defaults again", () -> setting(topic, "retention.ms").isDefault() && "2000".equals(setting(topic, "max.message.bytes").value()));
    }

    private void createPartitions() throws Exception {
        String topic = made("grown", 2);
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(4))).all().get();
        Check.eventually("four", () -> described(topic).partitions().size() == 4);
        Check.refused(InvalidPartitionsException.class, () -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get());
    }

    private void deleteRecords() throws Exception {
        String topic = made("trimmed", PARTITIONS);
        fill(topic, 10);
        TopicPartition first = new TopicPartition(topic, 0);
        Check.equal(4L, admin.deleteRecords(Map.of(first, RecordsToDelete.beforeOffset(4))).lowWatermarks().get(first).get().lowWatermark(), "the new beginning");
        try (KafkaConsumer<String, String> consumer = consumer()) {
            Check.equal(4L, consumer.beginningOffsets(List.of(first)).get(first), "it is told");
        }
    }

    private void logDirs() throws Exception {
        String topic = made("sized", PARTITIONS);
        fill(topic, 20);
        int broker = admin.describeCluster().nodes().get().iterator().next().id();
        long found = admin.describeLogDirs(List.of(broker)).all().get().get(broker).values().stream()
            .flatMap(dir -> dir.replicaInfos.entrySet().stream()).filter(row -> row.getKey().topic().equals(topic) && row.getValue().size > 100).count();
        Check.equal((long) PARTITIONS, found, "partitions with a size");
    }

    private void groups() throws Exception {
        String topic = made("grouped", PARTITIONS);
        fill(topic, 5);
        String group = "administered-" + mark;
        try (KafkaConsumer<String, String> consumer = consumer("group.id", group)) {
            consumer.subscribe(List.of(topic));
            Check.eventually("assigned", () -> {
                consumer.poll(Duration.ofMillis(100));
                return consumer.assignment().size() == PARTITIONS;
            });
            Check.holds(admin.listConsumerGroups().all().get().stream().anyMatch(one -> one.groupId().equals(group)), "listed");
            ConsumerGroupDescription told = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
            Check.equal(ConsumerGroupState.STABLE, told.state(), "state");
            Check.equal("range", told.partitionAssignor(), "assignor");
            Check.refused(GroupNotEmptyException.class, () -> admin.deleteConsumerGroups(List.of(group)).all().get());
        }
        admin.deleteConsumerGroups(List.of(group)).all().get();
        Check.refused(GroupIdNotFoundException.class, () -> admin.deleteConsumerGroups(List.of(group)).all().get());
    }

    private void delete() throws Exception {
        String topic = made("deleted", 1);
        admin.deleteTopics(List.of(topic)).all().get();
        Check.eventually("gone", () -> !admin.listTopics().names().get().contains(topic));
        Check.refused(UnknownTopicOrPartitionException.class, () -> admin.deleteTopics(List.of(topic)).all().get());
    }
}
