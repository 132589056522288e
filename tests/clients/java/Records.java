import java.time.Duration;
import java.util.*;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.header.internals.RecordHeader;

/** What producers send, and whether it comes back. */
final class Records {
    private static final int RECORDS = 1000;

    private final Clients clients;

    Records(Clients clients) {
        this.clients = clients;
    }

    void run() {
        Check.step("produce", () -> produceAndRead("produced", "none"));
        for (String codec : List.of("gzip", "snappy", "lz4", "zstd")) {
            Check.step("produce_" + codec, () -> produceAndRead(codec, codec));
        }
        Check.step("produce_not_idempotent", () -> produceAndRead("plain", "none", "enable.idempotence", false, "acks", "1"));
        Check.step("produce_acks_0", this::acksZero);
        Check.step("produce_timestamps", this::timestamps);
        Check.step("produce_log_append_time", this::appendTime);
        Check.step("produce_auto_creates", this::autoCreate);
        Check.step("produce_too_large", this::tooLarge);
        Check.step("produce_without_key_to_compacted", this::compacted);
        Check.step("produce_to_deleted", this::deleted);
        Check.step("produce_partitions_for", this::partitionsFor);
    }

    private void produceAndRead(String name, String codec, Object... more) throws Exception {
        String topic = clients.createdTopic(name, Clients.PARTITIONS);
        List<Object> settings = new ArrayList<>(List.of("compression.type", codec));
        settings.addAll(List.of(more));
        Map<Integer, List<String>> sentTo = new HashMap<>();
        try (KafkaProducer<String, String> producer = clients.producer(settings.toArray())) {
            Map<String, Future<RecordMetadata>> sent = new LinkedHashMap<>();
            for (int n = 0; n < RECORDS; n++) {
                String value = n + " " + "again ".repeat(n % 50);
                ProducerRecord<String, String> record = new ProducerRecord<>(topic, "key-" + n, n % 100 == 99 ? null : value);
                record.headers().add(new RecordHeader("n", ("" + n).getBytes())).add(new RecordHeader("null", null));
                sent.put("" + n, producer.send(record));
            }
            for (Map.Entry<String, Future<RecordMetadata>> one : sent.entrySet()) {
                RecordMetadata told = one.getValue().get();
                List<String> here = sentTo.computeIfAbsent(told.partition(), partition -> new ArrayList<>());
                Check.equal((long) here.size(), told.offset(), "the offset of " + one.getKey());
                here.add(one.getKey());
            }
        }
        Map<Integer, List<String>> read = new HashMap<>();
        try (KafkaConsumer<String, String> consumer = clients.consumer()) {
            consumer.assign(clients.partitions(topic, Clients.PARTITIONS));
            Check.eventually("all records came", () -> {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    List<String> here = read.computeIfAbsent(record.partition(), partition -> new ArrayList<>());
                    Check.equal((long) here.size(), record.offset(), "the next offset");
                    String number = new String(record.headers().lastHeader("n").value());
                    int n = Integer.parseInt(number);
                    Check.equal("key-" + n, record.key(), "the key");
                    Check.equal(n % 100 == 99, record.value() == null, "a null value");
                    Check.holds(record.value() == null || record.value().startsWith(n + " "), "the value");
                    Check.holds(record.headers().lastHeader("null").value() == null, "a null header");
                    here.add(number);
                }
                return read.values().stream().mapToInt(List::size).sum() == RECORDS;
            });
        }
        Check.equal(sentTo, read, "what was read");
    }

    private void acksZero() throws Exception {
        String topic = clients.createdTopic("acks-0", 1);
        try (KafkaProducer<String, String> producer = clients.producer("acks", "0", "enable.idempotence", false)) {
            for (int n = 0; n < 100; n++) {
                Check.equal(-1L, producer.send(new ProducerRecord<>(topic, "v" + n)).get().offset(), "no offset is told");
            }
        }
        TopicPartition partition = new TopicPartition(topic, 0);
        Check.eventually("all are there", () -> end(partition) == 100);
    }

    private long end(TopicPartition partition) throws Exception {
        return clients.admin.listOffsets(Map.of(partition, OffsetSpec.latest())).partitionResult(partition).get().offset();
    }

    private ConsumerRecord<String, String> first(String topic) throws Exception {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = clients.consumer()) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            Check.eventually("a record came", () -> {
                consumer.poll(Duration.ofMillis(200)).forEach(found::add);
                return !found.isEmpty();
            });
        }
        return found.get(0);
    }

    private void timestamps() throws Exception {
        String topic = clients.createdTopic("timestamps", 1);
        try (KafkaProducer<String, String> producer = clients.producer()) {
            RecordMetadata told = producer.send(new ProducerRecord<>(topic, 0, 1_600_000_000_123L, "k", "v")).get();
            Check.equal(1_600_000_000_123L, told.timestamp(), "the time told");
            long future = System.currentTimeMillis() + 7_200_000;
            Check.refused(InvalidTimestampException.class, () -> producer.send(new ProducerRecord<>(topic, 0, future, "k", "v")).get());
        }
        ConsumerRecord<String, String> read = first(topic);
        Check.equal(1_600_000_000_123L, read.timestamp(), "the time read");
        Check.equal("CreateTime", read.timestampType().toString(), "its type");
    }

    private void appendTime() throws Exception {
        String topic = clients.name("append-time");
        NewTopic asked = new NewTopic(topic, 1, (short) 1).configs(Map.of("message.timestamp.type", "LogAppendTime"));
        clients.create(asked);
        long before = System.currentTimeMillis();
        try (KafkaProducer<String, String> producer = clients.producer()) {
            RecordMetadata told = producer.send(new ProducerRecord<>(topic, 0, 1_600_000_000_123L, "k", "v")).get();
            Check.holds(told.timestamp() >= before - 1000, "the time told is that of the append");
            ConsumerRecord<String, String> read = first(topic);
            Check.equal(told.timestamp(), read.timestamp(), "the time read");
            Check.equal("LogAppendTime", read.timestampType().toString(), "its type");
        }
    }

    private void autoCreate() throws Exception {
        String topic = clients.name("auto-created");
        try (KafkaProducer<String, String> producer = clients.producer()) {
            producer.send(new ProducerRecord<>(topic, "k", "v")).get();
            Check.equal(Clients.PARTITIONS, producer.partitionsFor(topic).size(), "the default number of partitions");
        }
    }

    private void tooLarge() throws Exception {
        String topic = clients.createdTopic("large", 1);
        try (KafkaProducer<String, String> producer = clients.producer("max.request.size", 5_000_000)) {
            Check.refused(RecordTooLargeException.class, () -> producer.send(new ProducerRecord<>(topic, "x".repeat(2_000_000))).get());
            Check.equal(0L, producer.send(new ProducerRecord<>(topic, "x".repeat(1_000_000))).get().offset(), "the next is taken");
        }
        Check.equal(1_000_000, first(topic).value().length(), "a large one");
    }

    private void compacted() throws Exception {
        String topic = clients.name("compacted");
        NewTopic asked = new NewTopic(topic, 1, (short) 1).configs(Map.of("cleanup.policy", "compact"));
        clients.create(asked);
        try (KafkaProducer<String, String> producer = clients.producer()) {
            Check.refused(org.apache.kafka.common.InvalidRecordException.class, () -> producer.send(new ProducerRecord<>(topic, "no key")).get());
            Check.equal(0L, producer.send(new ProducerRecord<>(topic, "k", "v")).get().offset(), "with a key");
        }
    }

    private void deleted() throws Exception {
        String topic = clients.filledTopic("deleted", 1, 3);
        clients.admin.deleteTopics(List.of(topic)).all().get();
        clients.create(new NewTopic(topic, 1, (short) 1));
        try (KafkaProducer<String, String> producer = clients.producer()) {
            Check.equal(0L, producer.send(new ProducerRecord<>(topic, "again")).get().offset(), "the first offset");
        }
        Check.equal("again", first(topic).value(), "nothing of the old topic");
    }

    private void partitionsFor() throws Exception {
        String topic = clients.createdTopic("partitions-for", 3);
        try (KafkaProducer<String, String> producer = clients.producer()) {
            Check.equal(3, producer.partitionsFor(topic).size(), "partitions");
            Check.holds(producer.partitionsFor(topic).stream().allMatch(info -> info.leader() != null), "leaders");
            Check.refused(InvalidTopicException.class, () -> producer.partitionsFor("not legal"));
        }
    }
}
