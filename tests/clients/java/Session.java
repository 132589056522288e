import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.*;

/** A session of the Java client: what it produces, consumes and administers in everyday use. */
public final class Session {
    private static final int PARTITIONS = 4;
    private static final int RECORDS_PER_CODEC = 1000;
    private static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");
    private static final int RECORDS = RECORDS_PER_CODEC * CODECS.size();

    private final String bootstrap;
    private final Admin admin;
    private final String topic = "java-" + UUID.randomUUID();
    private final TopicPartition first = new TopicPartition(topic, 0);

    public static void main(String[] arguments) {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            new Session(arguments[0], admin).run();
        }
        System.exit(Check.failures() == 0 ? 0 : 1);
    }

    private Session(String bootstrap, Admin admin) {
        this.bootstrap = bootstrap;
        this.admin = admin;
    }

    private void run() {
        Check.step("topics are created, described and refused", this::topics);
        for (String codec : CODECS) {
            Check.step("an idempotent producer sends " + codec, () -> produce(codec));
        }
        Check.step("every record comes back in order", this::readAll);
        Check.step("offsets by time, position and reset", this::offsets);
        Check.step("a record that is too large is refused alone", this::tooLarge);
        for (String assignor : List.of("Range", "RoundRobin", "Sticky", "CooperativeSticky")) {
            Check.step("three members share by " + assignor, () -> share("org.apache.kafka.clients.consumer." + assignor + "Assignor"));
        }
        Check.step("a static member comes back without a rebalance", this::staticMember);
        Check.step("commits are kept, listed and deleted", this::commits);
        Check.step("a deleted topic is created again from offset 0", this::createdAgain);
    }

    private void topics() throws Exception {
        CreateTopicsResult created = admin.createTopics(List.of(new NewTopic(topic, PARTITIONS, (short) 1).configs(Map.of("retention.ms", "3600000"))));
        created.all().get();
        TopicDescription described = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        Check.equal(PARTITIONS, described.partitions().size(), "partitions");
        Check.equal(created.topicId(topic).get(), described.topicId(), "the id");
        Check.equal("3600000", created.config(topic).get().get("retention.ms").value(), "the setting");
        Check.equal(true, admin.listTopics().names().get().contains(topic), "listed");
        Check.refused(TopicExistsException.class, () -> admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get());
        Check.refused(InvalidTopicException.class, () -> admin.createTopics(List.of(new NewTopic("a b", 1, (short) 1))).all().get());
        Check.refused(UnknownTopicOrPartitionException.class, () -> admin.deleteTopics(List.of(topic + "-none")).all().get());
    }

    private void produce(String codec) throws Exception {
        try (KafkaProducer<String, String> producer = producer("compression.type", codec, "linger.ms", 20)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int n = 0; n < RECORDS_PER_CODEC; n++) {
                ProducerRecord<String, String> record = new ProducerRecord<>(topic, "key-" + n, codec + " " + n + " " + "again ".repeat(n % 50));
                record.headers().add(new RecordHeader("codec", codec.getBytes())).add(new RecordHeader("null", null));
                sent.add(producer.send(record));
            }
            for (Future<RecordMetadata> one : sent) {
                one.get();
            }
        }
    }

    private void readAll() throws Exception {
        try (KafkaConsumer<String, String> consumer = consumer()) {
            List<TopicPartition> all = consumer.partitionsFor(topic).stream().map(info -> new TopicPartition(topic, info.partition())).toList();
            consumer.assign(all);
            Map<Integer, Long> next = new HashMap<>();
            Set<String> seen = new HashSet<>();
            Check.eventually("all records came", () -> {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    Check.equal(next.merge(record.partition(), 1L, Long::sum) - 1, record.offset(), "the next offset");
                    Check.equal(record.value().split(" ")[0], new String(record.headers().lastHeader("codec").value()), "the header");
                    Check.equal(true, record.headers().lastHeader("null").value() == null, "a null header");
                    seen.add(record.value());
                }
                return seen.size() == RECORDS;
            });
            Check.equal(next, all.stream().collect(Collectors.toMap(TopicPartition::partition, consumer::position)), "positions");
            Check.equal(0L, consumer.currentLag(first).getAsLong(), "the lag");
        }
    }

    private void offsets() throws Exception {
        try (KafkaConsumer<String, String> consumer = consumer()) {
            long end = consumer.endOffsets(List.of(first)).get(first);
            Check.equal(0L, consumer.beginningOffsets(List.of(first)).get(first), "the start");
            Check.equal(0L, consumer.offsetsForTimes(Map.of(first, 1L)).get(first).offset(), "the first by time");
            Check.equal(true, consumer.offsetsForTimes(Map.of(first, Long.MAX_VALUE)).get(first) == null, "none that late");
            Check.equal(end, admin.listOffsets(Map.of(first, OffsetSpec.latest())).partitionResult(first).get().offset(), "the end");
            Check.equal(true, admin.listOffsets(Map.of(first, OffsetSpec.maxTimestamp())).partitionResult(first).get().offset() < end, "the newest");
            consumer.assign(List.of(first));
            consumer.seek(first, end + 1000);
            Check.eventually("the position is reset", () -> consumer.poll(Duration.ofMillis(200)).count() > 0 && consumer.position(first) <= end);
        }
    }

    private void tooLarge() throws Exception {
        try (KafkaProducer<String, String> producer = producer("max.request.size", 5_000_000)) {
            Check.refused(RecordTooLargeException.class, () -> producer.send(new ProducerRecord<>(topic + "-large", "x".repeat(2_000_000))).get());
            producer.send(new ProducerRecord<>(topic + "-large", "x".repeat(1_000_000))).get();
        }
        admin.deleteTopics(List.of(topic + "-large")).all().get();
    }

    private void share(String assignor) throws Exception {
        String group = topic + assignor;
        Map<Integer, Set<TopicPartition>> assigned = new ConcurrentHashMap<>();
        Set<String> seen = ConcurrentHashMap.newKeySet();
        CountDownLatch done = new CountDownLatch(1);
        ExecutorService pool = Executors.newFixedThreadPool(3);
        List<Future<?>> members = new ArrayList<>();
        for (int member = 0; member < 3; member++) {
            int number = member;
            members.add(pool.submit(() -> {
                try (KafkaConsumer<String, String> consumer = consumer("group.id", group, "partition.assignment.strategy", assignor, "heartbeat.interval.ms", 500)) {
                    consumer.subscribe(List.of(topic));
                    while (done.getCount() > 0) {
                        consumer.poll(Duration.ofMillis(100)).forEach(record -> seen.add(record.value()));
                        assigned.put(number, Set.copyOf(consumer.assignment()));
                    }
                }
            }));
        }
        try {
            Check.eventually("all is shared and read", () -> {
                List<TopicPartition> held = assigned.values().stream().flatMap(Set::stream).toList();
                boolean shared = assigned.size() == 3 && assigned.values().stream().noneMatch(Set::isEmpty);
                return !done.await(100, TimeUnit.MILLISECONDS) && shared && held.size() == PARTITIONS && Set.copyOf(held).size() == PARTITIONS && seen.size() == RECORDS;
            });
            Check.equal(3, admin.describeConsumerGroups(List.of(group)).all().get().get(group).members().size(), "members");
        } finally {
            done.countDown();
            pool.shutdown();
        }
        for (Future<?> member : members) {
            member.get();
        }
        Collection<OffsetAndMetadata> committed = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().values();
        Check.equal((long) RECORDS, committed.stream().mapToLong(OffsetAndMetadata::offset).sum(), "what was committed");
        admin.deleteConsumerGroups(List.of(group)).all().get();
    }

    private void staticMember() throws Exception {
        Object[] settings = {"group.id", topic + "-static", "group.instance.id", "one"};
        List<Integer> generations = new ArrayList<>();
        for (int run = 0; run < 2; run++) {
            try (KafkaConsumer<String, String> consumer = consumer(settings)) {
                consumer.subscribe(List.of(topic));
                Check.eventually("partitions are assigned", () -> {
                    consumer.poll(Duration.ofMillis(200));
                    return consumer.assignment().size() == PARTITIONS;
                });
                generations.add(consumer.groupMetadata().generationId());
            }
        }
        Check.equal(generations.get(0), generations.get(1), "the generation");
    }

    private void commits() throws Exception {
        String group = topic + "-commits";
        try (KafkaConsumer<String, String> consumer = consumer("group.id", group, "enable.auto.commit", false)) {
            consumer.assign(List.of(first));
            Check.equal(true, consumer.committed(Set.of(first)).get(first) == null, "nothing yet");
            consumer.commitSync(Map.of(first, new OffsetAndMetadata(5, Optional.of(0), "note")));
            Check.equal(new OffsetAndMetadata(5, Optional.of(0), "note"), consumer.committed(Set.of(first)).get(first), "committed");
        }
        admin.alterConsumerGroupOffsets(group, Map.of(first, new OffsetAndMetadata(7))).all().get();
        Check.equal(7L, admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(first).offset(), "altered");
        Check.equal(true, admin.listGroups().all().get().stream().anyMatch(listing -> listing.groupId().equals(group)), "listed");
        admin.deleteConsumerGroupOffsets(group, Set.of(first)).all().get();
        Check.equal(Map.of(), admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get(), "deleted");
        Check.refused(GroupIdNotFoundException.class, () -> admin.deleteConsumerGroups(List.of(group + "-none")).all().get());
    }

    private void createdAgain() throws Exception {
        admin.deleteTopics(List.of(topic)).all().get();
        admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
        try (KafkaProducer<String, String> producer = producer()) {
            Check.equal(0L, producer.send(new ProducerRecord<>(topic, "again")).get().offset(), "the first offset");
        }
        admin.deleteTopics(List.of(topic)).all().get();
    }

    private KafkaProducer<String, String> producer(Object... settings) {
        return new KafkaProducer<>(config(settings), new StringSerializer(), new StringSerializer());
    }

    private KafkaConsumer<String, String> consumer(Object... settings) {
        Map<String, Object> config = config(settings);
        config.putIfAbsent("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    private Map<String, Object> config(Object... settings) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap));
        for (int n = 0; n < settings.length; n += 2) {
            config.put((String) settings[n], settings[n + 1]);
        }
        return config;
    }
}
