import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Sends each line of standard input as a record: {@code mvn -q compile exec:java -Dexec.mainClass=Producer -Dexec.args="t [localhost:9092]"}. */
public class Producer {
    public static void main(String[] args) throws Exception {
        String topic = args[0];
        String bootstrap = args.length > 1 ? args[1] : "localhost:9092";
        AtomicInteger failed = new AtomicInteger();
        // Closing waits until all is delivered. Idempotence is the default.
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", bootstrap), new StringSerializer(), new StringSerializer())) {
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                producer.send(new ProducerRecord<>(topic, line), (stored, error) -> {
                    if (error == null) {
                        System.out.println("partition " + stored.partition() + " offset " + stored.offset());
                    } else {
                        failed.incrementAndGet();
                        System.err.println("not delivered: " + error);
                    }
                });
            }
        }
        if (failed.get() > 0) {
            System.exit(1);
        }
    }
}
