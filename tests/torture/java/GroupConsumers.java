import java.io.*;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Consumers of several groups in one process, until SIGTERM: GroupConsumers BOOTSTRAP TOPIC SEED RESTLESS_UNTIL GROUP:NAME...
 *
 * <p>What each sees goes to standard output, a line an event: {@code FROM TO GROUP NAME WORD ...}. Times are nanoseconds of the
 * monotonic clock. Until RESTLESS_UNTIL, on that clock, consumers leave now and then and come back.
 */
final class GroupConsumers implements Runnable, ConsumerRebalanceListener {
    private static final PrintStream OUT =
            new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.US_ASCII);
    private static volatile boolean isOver;

    private final Map<String, Object> config;
    private final String topic;
    private final long restlessUntil;
    private final String group;
    private final String name;
    private final Random random;

    private KafkaConsumer<byte[], byte[]> consumer;
    /** When it was told its partitions last. */
    private long told;
    /** When each partition was assigned whose position is not known yet. */
    private final Map<TopicPartition, Long> awaited = new HashMap<>();
    /** What comes next of each partition that gave records in this assignment. */
    private final Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
    private long commits;
    /**
     * Whether it gives back all partitions before it joins, so that each commit is one of the generation it was told of. Others
     * go on while they join, and commit in the new generation from its SyncGroup on, before they are told of it.
     */
    private final boolean isEager;

    public static void main(String[] args) throws InterruptedException {
        List<Thread> threads = new ArrayList<>();
        for (int n = 4; n < args.length; n++) {
            String[] member = args[n].split(":");
            long seed = Long.parseLong(args[2]) * 31 + n;
            Runnable consumers =
                    new GroupConsumers(args[0], args[1], new Random(seed), Long.parseLong(args[3]), member[0], member[1]);
            threads.add(new Thread(consumers, args[n]));
        }
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            isOver = true;
            for (Thread thread : threads) {
                try {
                    thread.join();
                } catch (InterruptedException error) {
                    return;
                }
            }
        }));
        threads.forEach(Thread::start);
    }

    private GroupConsumers(String bootstrap, String topic, Random random, long restlessUntil, String group, String name) {
        this.topic = topic;
        this.random = random;
        this.restlessUntil = restlessUntil;
        this.group = group;
        this.name = name;
        config = new HashMap<>(Map.of(
                "bootstrap.servers", bootstrap,
                "group.id", group,
                "client.id", group + "-" + name,
                "auto.offset.reset", "earliest",
                "enable.auto.commit", "false",
                "session.timeout.ms", 10_000,
                "heartbeat.interval.ms", 1_000,
                "retry.backoff.ms", 200,
                "reconnect.backoff.max.ms", 500));
        isEager = group.endsWith("-eager");
        Class<?> assignor = isEager ? RoundRobinAssignor.class : CooperativeStickyAssignor.class;
        config.put("partition.assignment.strategy", assignor.getName());
        if (group.endsWith("-static")) {
            config.put("group.instance.id", name);
        }
    }

    @Override
    public void run() {
        while (!isOver) {
            consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            told = System.nanoTime();
            attempt(this::live);
            attempt(consumer::close);
            awaited.clear();
            positions.clear();
            say(told, "closed");
            pause(random.nextInt(5) == 0 ? 12_000 : random.nextInt(1_000));
        }
    }

    private void attempt(Runnable part) {
        try {
            part.run();
        } catch (RuntimeException error) {
            error.printStackTrace();
            say(told, "stopped", error);
        }
    }

    /** Consumes and commits until the run is over, or it is time for another consumer. */
    private void live() {
        consumer.subscribe(List.of(topic), this);
        boolean stays = true;
        while (!isOver && stays) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                TopicPartition partition = new TopicPartition(record.topic(), record.partition());
                began(partition, record.offset());
                say(System.nanoTime(), "delivered", record.partition(), record.offset());
                positions.put(partition, new OffsetAndMetadata(record.offset() + 1));
            }
            if (random.nextInt(10) == 0) {
                commit();
            }
            stays = System.nanoTime() > restlessUntil || random.nextInt(800) != 0;
        }
        if (random.nextBoolean()) {
            commit();
        }
    }

    /** Commits all positions; the client sends again what was answered with a retriable error, or not at all. */
    private void commit() {
        if (positions.isEmpty()) {
            return;
        }
        long number = ++commits;
        long sent = System.nanoTime();
        String rows = positions.entrySet().stream()
                .map(row -> row.getKey().partition() + ":" + row.getValue().offset())
                .collect(Collectors.joining(","));
        say(sent, "commits", number, isEager ? consumer.groupMetadata().generationId() : "-", rows);
        try {
            consumer.commitSync(new HashMap<>(positions));
            say(sent, "committed", number);
        } catch (CommitFailedException | RebalanceInProgressException | TimeoutException error) {
            say(sent, "uncommitted", number, error);
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        long now = System.nanoTime();
        ConsumerGroupMetadata metadata = consumer.groupMetadata();
        String member = metadata.groupInstanceId().orElse(metadata.memberId());
        say(told, "assigned", metadata.generationId(), member, numbers(consumer.assignment()));
        told = now;
        partitions.forEach(partition -> awaited.put(partition, now));
        for (TopicPartition partition : partitions) {
            try {
                began(partition, consumer.position(partition, Duration.ofSeconds(2)));
            } catch (TimeoutException error) {
                // Then the first record tells where it began.
                break;
            }
        }
    }

    private void began(TopicPartition partition, long offset) {
        Long since = awaited.remove(partition);
        if (since != null) {
            say(since, "began", partition.partition(), offset);
        }
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        if (random.nextBoolean()) {
            commit();
        }
        gone("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        gone("lost", partitions);
    }

    private void gone(String word, Collection<TopicPartition> partitions) {
        say(System.nanoTime(), word, numbers(partitions));
        awaited.keySet().removeAll(partitions);
        positions.keySet().removeAll(partitions);
    }

    /** Partitions as in {@code 0,3}; {@code -} for none. */
    private static String numbers(Collection<TopicPartition> partitions) {
        String text = partitions.stream().map(one -> "" + one.partition()).collect(Collectors.joining(","));
        return text.isEmpty() ? "-" : text;
    }

    private void say(long from, Object... words) {
        String text = Arrays.stream(words).map(Object::toString).collect(Collectors.joining(" ")).replace('\n', ' ');
        synchronized (OUT) {
            OUT.print(from + " " + System.nanoTime() + " " + group + " " + name + " " + text + "\n");
            OUT.flush();
        }
    }

    private static void pause(long ms) {
        try {
            for (long until = System.nanoTime() + ms * 1_000_000; !isOver && System.nanoTime() < until; ) {
                Thread.sleep(20);
            }
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }
}
