import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;

/** Clients with their default settings, and what most steps begin with. */
final class Clients {
    static final int PARTITIONS = 4;

    final String bootstrap;
    final Admin admin;
    private final String mark = Long.toHexString(new Random().nextLong() >>> 32);

    Clients(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    /** A name for a topic or a group that no other session has. */
    String name(String text) {
        return text + "-" + mark;
    }

    String createdTopic(String text, int partitions) throws Exception {
        String topic = name(text);
        create(new NewTopic(topic, partitions, (short) 1));
        return topic;
    }

    /** Makes a topic and waits until it is described: a Kafka broker learns of it a little after the controller made it. */
    void create(NewTopic topic) throws Exception {
        admin.createTopics(List.of(topic)).all().get();
        Check.eventually("the topic is known", () -> {
            try {
                return admin.describeTopics(List.of(topic.name())).allTopicNames().get() != null;
            } catch (ExecutionException error) {
                Thread.sleep(20);
                return false;
            }
        });
    }

    /** A new topic with values v0, v1, … in each partition, in order. */
    String filledTopic(String text, int partitions, int valuesEach) throws Exception {
        String topic = createdTopic(text, partitions);
        fill(topic, partitions, valuesEach);
        return topic;
    }

    void fill(String topic, int partitions, int valuesEach) throws Exception {
        try (KafkaProducer<String, String> producer = producer("linger.ms", 20)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int partition = 0; partition < partitions; partition++) {
                for (int n = 0; n < valuesEach; n++) {
                    sent.add(producer.send(new ProducerRecord<>(topic, partition, "k" + n, "v" + n)));
                }
            }
            for (Future<RecordMetadata> one : sent) {
                one.get();
            }
        }
    }

    List<TopicPartition> partitions(String topic, int count) {
        List<TopicPartition> all = new ArrayList<>();
        for (int partition = 0; partition < count; partition++) {
            all.add(new TopicPartition(topic, partition));
        }
        return all;
    }

    KafkaProducer<String, String> producer(Object... settings) {
        return new KafkaProducer<>(config(settings), new StringSerializer(), new StringSerializer());
    }

    /** Reads from the beginning unless told otherwise. */
    KafkaConsumer<String, String> consumer(Object... settings) {
        Map<String, Object> config = config(settings);
        config.putIfAbsent("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    Map<String, Object> config(Object... settings) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap));
        for (int n = 0; n < settings.length; n += 2) {
            config.put((String) settings[n], settings[n + 1]);
        }
        return config;
    }
}
