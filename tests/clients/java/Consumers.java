import java.time.Duration;
import java.util.*;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.*;

/** What one consumer does: positions, times, pauses, commits, subscriptions. */
final class Consumers {
    private final Clients clients;
    private String topic;
    private TopicPartition first;

    Consumers(Clients clients) {
        this.clients = clients;
    }

    void run() {
        Check.step("consume_ends", this::ends);
        Check.step("consume_seek", this::seek);
        Check.step("consume_by_time", this::byTime);
        Check.step("consume_pause_resume", this::pause);
        Check.step("consume_out_of_range", this::outOfRange);
        Check.step("consume_read_committed", this::readCommitted);
        Check.step("consume_small_fetches", this::smallFetches);
        Check.step("consume_max_poll_records", this::maxPoll);
        Check.step("consume_waits_for_records", this::waits);
        Check.step("consume_metadata", this::metadata);
        Check.step("commit_sync", this::commits);
        Check.step("commit_async", this::commitAsync);
        Check.step("commit_too_much_metadata", this::commitTooMuch);
        Check.step("commit_automatically", this::autoCommit);
        Check.step("subscribe_by_pattern", this::pattern);
        Check.step("subscribe_to_topic_made_later", this::later);
        Check.step("consume_invalid_group_id", this::invalidGroup);
    }

    /** The topic of these steps: ten values in each of four partitions. */
    private TopicPartition topic() throws Exception {
        if (topic == null) {
            topic = clients.filledTopic("consumed", Clients.PARTITIONS, 10);
            first = new TopicPartition(topic, 0);
        }
        return first;
    }

    private List<String> read(KafkaConsumer<String, String> consumer, int count) throws Exception {
        List<String> values = new ArrayList<>();
        Check.eventually(count + " records came", () -> {
            consumer.poll(Duration.ofMillis(200)).forEach(record -> values.add(record.value()));
            return values.size() >= count;
        });
        return values;
    }

    private void ends() throws Exception {
        topic();
        try (KafkaConsumer<String, String> consumer = clients.consumer()) {
            List<TopicPartition> all = clients.partitions(topic, Clients.PARTITIONS);
            Check.holds(consumer.beginningOffsets(all).values().stream().allMatch(offset -> offset == 0), "beginnings");
            Check.holds(consumer.endOffsets(all).values().stream().allMatch(offset -> offset == 10), "ends");
            consumer.assign(all);
            read(consumer, 40);
            all.forEach(partition -> Check.equal(10L, consumer.position(partition), "position"));
            all.forEach(partition -> Check.equal(0L, consumer.currentLag(partition).getAsLong(), "lag"));
        }
    }

    private void seek() throws Exception {
        TopicPartition first = topic();
        try (KafkaConsumer<String, String> consumer = clients.consumer()) {
            consumer.assign(List.of(first));
            consumer.seek(first, 7);
            Check.equal(List.of("v7", "v8", "v9"), read(consumer, 3), "from 7");
            consumer.seekToBeginning(List.of(first));
            Check.equal(10, read(consumer, 10).size(), "from the beginning");
            consumer.seekToEnd(List.of(first));
            Check.equal(10L, consumer.position(first), "the end");
            consumer.seek(first, new OffsetAndMetadata(9, Optional.of(0), ""));
            Check.equal(List.of("v9"), read(consumer, 1), "from 9, with its epoch");
        }
    }

    private void byTime() throws Exception {
        String timed = clients.createdTopic("timed", 1);
        TopicPartition partition = new TopicPartition(timed, 0);
        long start = System.currentTimeMillis() - 100_000;
        try (KafkaProducer<String, String> producer = clients.producer("linger.ms", 50)) {
            for (int n = 0; n < 100; n++) {
                producer.send(new ProducerRecord<>(timed, 0, start + n * 1000L, "k", "v" + n));
            }
        }
        try (KafkaConsumer<String, String> consumer = clients.consumer()) {
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, start + 41_500)).get(partition);
            Check.equal(42L, found.offset(), "the first at or after a time");
            Check.equal(start + 42_000, found.timestamp(), "its time");
            Check.equal(0L, consumer.offsetsForTimes(Map.of(partition, 0L)).get(partition).offset(), "the first of all");
            Check.holds(consumer.offsetsForTimes(Map.of(partition, start + 99_001)).get(partition) == null, "none after the last");
            consumer.assign(List.of(partition));
            consumer.seek(partition, found.offset());
            Check.equal("v42", read(consumer, 1).get(0), "reading starts there");
        }
    }

    private void pause() throws Exception {
        topic();
        TopicPartition second = new TopicPartition(topic, 1);
        try (KafkaConsumer<String, String> consumer = clients.consumer()) {
            consumer.assign(List.of(first, second));
            consumer.pause(List.of(second));
            Check.equal(Set.of(second), consumer.paused(), "paused");
            Set<Integer> seen = new HashSet<>();
            int[] count = {0};
            Check.eventually("the other came", () -> {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(300))) {
                    seen.add(record.partition());
                    count[0]++;
                }
                return count[0] >= 10;
            });
            Check.equal(Set.of(0), seen, "only the other one");
            consumer.resume(List.of(second));
            Check.equal(10, read(consumer, 10).size(), "resumed");
        }
    }

    private void outOfRange() throws Exception {
        TopicPartition first = topic();
        try (KafkaConsumer<String, String> consumer = clients.consumer("auto.offset.reset", "none")) {
            consumer.assign(List.of(first));
            consumer.seek(first, 1000);
            Check.refused(org.apache.kafka.clients.consumer.OffsetOutOfRangeException.class, () -> {
                for (int n = 0; n < 100; n++) {
                    consumer.poll(Duration.ofMillis(200));
                }
            });
        }
        try (KafkaConsumer<String, String> consumer = clients.consumer()) {
            consumer.assign(List.of(first));
            consumer.seek(first, 1000);
            Check.equal("v0", read(consumer, 10).get(0), "reset to the earliest");
        }
        try (KafkaConsumer<String, String> consumer = clients.consumer("auto.offset.reset", "none")) {
            consumer.assign(List.of(first));
            Check.refused(NoOffsetForPartitionException.class, () -> consumer.poll(Duration.ofSeconds(10)));
        }
    }

    private void readCommitted() throws Exception {
        TopicPartition first = topic();
        try (KafkaConsumer<String, String> consumer = clients.consumer("isolation.level", "read_committed")) {
            consumer.assign(List.of(first));
            Check.equal(10, read(consumer, 10).size(), "all");
            Check.equal(10L, consumer.endOffsets(List.of(first)).get(first), "the stable end");
        }
    }

    private void smallFetches() throws Exception {
        topic();
        try (KafkaConsumer<String, String> consumer = clients.consumer("max.partition.fetch.bytes", 1, "fetch.max.bytes", 1)) {
            consumer.assign(clients.partitions(topic, Clients.PARTITIONS));
            Check.equal(40, read(consumer, 40).size(), "all, one batch at a time");
        }
    }

    private void maxPoll() throws Exception {
        TopicPartition first = topic();
        try (KafkaConsumer<String, String> consumer = clients.consumer("max.poll.records", 3)) {
            consumer.assign(List.of(first));
            int[] count = {0};
            Check.eventually("all came", () -> {
                int got = consumer.poll(Duration.ofMillis(200)).count();
                Check.holds(got <= 3, "three at most");
                return (count[0] += got) == 10;
            });
        }
    }

    private void waits() throws Exception {
        String quiet = clients.createdTopic("quiet", 1);
        try (KafkaConsumer<String, String> consumer = clients.consumer("fetch.max.wait.ms", 20_000, "fetch.min.bytes", 1);
                KafkaProducer<String, String> producer = clients.producer()) {
            consumer.assign(List.of(new TopicPartition(quiet, 0)));
            Check.equal(0, consumer.poll(Duration.ofSeconds(2)).count(), "nothing yet");
            producer.send(new ProducerRecord<>(quiet, "now")).get();
            long sent = System.nanoTime();
            Check.equal(List.of("now"), read(consumer, 1), "it comes");
            Check.holds(System.nanoTime() - sent < 10_000_000_000L, "at once, not at the end of the fetch");
        }
    }

    private void metadata() throws Exception {
        topic();
        try (KafkaConsumer<String, String> consumer = clients.consumer("allow.auto.create.topics", false)) {
            Check.equal(Clients.PARTITIONS, consumer.partitionsFor(topic).size(), "partitions");
            Check.holds(consumer.listTopics().containsKey(topic), "listed");
            Check.holds(consumer.partitionsFor(clients.name("not-there")).isEmpty(), "no partitions of a topic that is not there");
        }
        Check.equal(false, clients.admin.listTopics().names().get().contains(clients.name("not-there")), "it was not made");
    }

    private void commits() throws Exception {
        TopicPartition first = topic();
        try (KafkaConsumer<String, String> consumer = clients.consumer("group.id", clients.name("commits"), "enable.auto.commit", false)) {
            consumer.assign(List.of(first));
            Check.holds(consumer.committed(Set.of(first)).get(first) == null, "nothing yet");
            consumer.commitSync(Map.of(first, new OffsetAndMetadata(5, Optional.of(0), "note")));
            Check.equal(new OffsetAndMetadata(5, Optional.of(0), "note"), consumer.committed(Set.of(first)).get(first), "committed");
            consumer.commitSync(Map.of(first, new OffsetAndMetadata(2)));
            Check.equal(2L, consumer.committed(Set.of(first)).get(first).offset(), "also backwards");
        }
        try (KafkaConsumer<String, String> consumer = clients.consumer("group.id", clients.name("commits"))) {
            consumer.assign(List.of(first));
            Check.equal(2L, consumer.position(first), "begins at the commit");
            Check.equal("v2", read(consumer, 1).get(0), "and reads from there");
        }
    }

    private void commitAsync() throws Exception {
        TopicPartition first = topic();
        try (KafkaConsumer<String, String> consumer = clients.consumer("group.id", clients.name("async"), "enable.auto.commit", false)) {
            consumer.assign(List.of(first));
            List<Object> told = new ArrayList<>();
            for (int n = 1; n <= 50; n++) {
                consumer.commitAsync(Map.of(first, new OffsetAndMetadata(n)), (offsets, error) -> told.add(error == null ? "ok" : error));
            }
            Check.eventually("all are told", () -> {
                consumer.poll(Duration.ofMillis(100));
                return told.size() == 50;
            });
            Check.equal(Set.of("ok"), Set.copyOf(told), "outcomes");
            Check.equal(50L, consumer.committed(Set.of(first)).get(first).offset(), "the last holds");
        }
    }

    private void commitTooMuch() throws Exception {
        TopicPartition first = topic();
        try (KafkaConsumer<String, String> consumer = clients.consumer("group.id", clients.name("much"), "enable.auto.commit", false)) {
            consumer.assign(List.of(first));
            OffsetAndMetadata commit = new OffsetAndMetadata(1, "x".repeat(5000));
            Check.refused(OffsetMetadataTooLarge.class, () -> consumer.commitSync(Map.of(first, commit)));
        }
    }

    private void autoCommit() throws Exception {
        topic();
        String group = clients.name("automatic");
        try (KafkaConsumer<String, String> consumer = clients.consumer("group.id", group)) {
            consumer.subscribe(List.of(topic));
            read(consumer, 40);
        }
        Map<TopicPartition, OffsetAndMetadata> committed = clients.admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
        Check.equal(40L, committed.values().stream().mapToLong(OffsetAndMetadata::offset).sum(), "committed at the end");
    }

    private void pattern() throws Exception {
        String one = clients.filledTopic("pattern-one", 1, 5);
        String two = clients.filledTopic("pattern-two", 1, 5);
        try (KafkaConsumer<String, String> consumer = clients.consumer("group.id", clients.name("pattern"))) {
            consumer.subscribe(Pattern.compile("pattern-.*" + one.substring("pattern-one".length())));
            Check.equal(10, read(consumer, 10).size(), "both topics");
            Check.equal(Set.of(one, two), Set.copyOf(consumer.assignment().stream().map(TopicPartition::topic).toList()), "topics");
        }
    }

    private void later() throws Exception {
        String late = clients.name("late");
        try (KafkaConsumer<String, String> consumer = clients.consumer("group.id", clients.name("late"), "metadata.max.age.ms", 1000, "allow.auto.create.topics", false)) {
            consumer.subscribe(List.of(late));
            Check.equal(0, consumer.poll(Duration.ofSeconds(3)).count(), "nothing yet");
            clients.filledTopic("late", 2, 5);
            Check.equal(10, read(consumer, 10).size(), "seen when it is there");
        }
    }

    private void invalidGroup() throws Exception {
        try (KafkaConsumer<String, String> consumer = clients.consumer()) {
            consumer.assign(List.of(topic()));
            Check.refused(InvalidGroupIdException.class, consumer::commitSync);
        }
    }
}
