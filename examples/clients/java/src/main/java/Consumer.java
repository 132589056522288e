import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Prints the records of a topic as they come, as a member of a consumer group that goes on where it stopped:
 * {@code mvn -q compile exec:java -Dexec.mainClass=Consumer -Dexec.args="t readers [count] [localhost:9092]"}.
 */
public class Consumer {
    public static void main(String[] args) {
        String topic = args[0];
        String group = args[1];
        long count = args.length > 2 ? Long.parseLong(args[2]) : Long.MAX_VALUE;
        String bootstrap = args.length > 3 ? args[3] : "localhost:9092";
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(
            Map.of("bootstrap.servers", bootstrap, "group.id", group, "auto.offset.reset", "earliest",
                "enable.auto.commit", "false"),
            new StringDeserializer(), new StringDeserializer());
        Thread main = Thread.currentThread();
        Thread stop = new Thread(() -> {
            consumer.wakeup();
            try {
                main.join();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        });
        Runtime.getRuntime().addShutdownHook(stop);
        try (consumer) {
            consumer.subscribe(List.of(topic));
            for (long printed = 0; printed < count; ) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    if (printed == count) {
                        break;
                    }
                    System.out.println("partition " + record.partition() + " offset " + record.offset() + ": " + record.value());
                    printed++;
                    // Only what was printed is committed; a busy program commits once a poll.
                    consumer.commitSync(Map.of(new TopicPartition(record.topic(), record.partition()),
                        new OffsetAndMetadata(record.offset() + 1)));
                }
            }
        } catch (WakeupException e) {
            System.err.println("stopped");
        }
    }
}
