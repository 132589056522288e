import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.*;

/** Topics, their settings, partitions, records and offsets, as administrators see them. */
final class Topics {
    private final Clients clients;
    private final Admin admin;

    Topics(Clients clients) {
        this.clients = clients;
        this.admin = clients.admin;
    }

    void run() {
        Check.step("admin_create_topics", this::create);
        Check.step("admin_create_topics_refused", this::createRefused);
        Check.step("admin_create_topics_validate_only", this::validateOnly);
        Check.step("admin_create_topics_assigned", this::assigned);
        Check.step("admin_describe_topics", this::describe);
        Check.step("admin_describe_topics_in_pages", this::describePages);
        Check.step("admin_list_topics", this::list);
        Check.step("admin_delete_topics", this::delete);
        Check.step("admin_create_partitions", this::createPartitions);
        Check.step("admin_create_partitions_refused", this::createPartitionsRefused);
        Check.step("admin_describe_topic_configs", this::describeConfigs);
        Check.step("admin_alter_topic_configs", this::alterConfigs);
        Check.step("admin_alter_topic_configs_lists", this::alterLists);
        Check.step("admin_alter_topic_configs_refused", this::alterRefused);
        Check.step("admin_delete_records", this::deleteRecords);
        Check.step("admin_delete_records_refused", this::deleteRecordsRefused);
        Check.step("admin_list_offsets", this::listOffsets);
        Check.step("admin_list_offsets_refused", this::listOffsetsRefused);
    }

    private static NewTopic topic(String name, int partitions) {
        return new NewTopic(name, partitions, (short) 1);
    }

    private TopicDescription described(String topic) throws Exception {
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
    }

    private void create() throws Exception {
        String name = clients.name("made");
        String defaults = clients.name("made.with_defaults");
        NewTopic asked = topic(name, 3).configs(Map.of("retention.ms", "3600000", "cleanup.policy", "compact,delete"));
        CreateTopicsResult made = admin.createTopics(List.of(asked, new NewTopic(defaults, Optional.empty(), Optional.empty())));
        made.all().get();
        Check.equal(3, made.numPartitions(name).get(), "partitions");
        Check.equal(1, made.replicationFactor(name).get(), "replicas");
        Check.equal("3600000", made.config(name).get().get("retention.ms").value(), "a setting");
        Check.equal(Clients.PARTITIONS, made.numPartitions(defaults).get(), "the default number of partitions");
        Check.eventually("listed", () -> admin.listTopics().names().get().containsAll(List.of(name, defaults)));
        Check.equal(made.topicId(name).get(), described(name).topicId(), "the id");
    }

    private void createRefused() throws Exception {
        String name = clients.createdTopic("there", 1);
        Check.refused(TopicExistsException.class, () -> admin.createTopics(List.of(topic(name, 1))).all().get());
        Check.refused(InvalidTopicException.class, () -> admin.createTopics(List.of(topic("a b", 1))).all().get());
        Check.refused(InvalidTopicException.class, () -> admin.createTopics(List.of(topic("x".repeat(250), 1))).all().get());
        String other = clients.name("refused");
        Check.refused(InvalidPartitionsException.class, () -> admin.createTopics(List.of(topic(other, 0))).all().get());
        Check.refused(InvalidReplicationFactorException.class, () -> admin.createTopics(List.of(new NewTopic(other, 1, (short) 0))).all().get());
        Check.refused(InvalidConfigurationException.class, () -> admin.createTopics(List.of(topic(other, 1).configs(Map.of("no.such", "1")))).all().get());
        Check.refused(InvalidConfigurationException.class, () -> admin.createTopics(List.of(topic(other, 1).configs(Map.of("retention.ms", "x")))).all().get());
        Check.holds(!admin.listTopics().names().get().contains(other), "none was made");
    }

    private void validateOnly() throws Exception {
        String name = clients.name("validated");
        CreateTopicsOptions dry = new CreateTopicsOptions().validateOnly(true);
        admin.createTopics(List.of(topic(name, 1)), dry).all().get();
        Check.refused(InvalidTopicException.class, () -> admin.createTopics(List.of(topic("a b", 1)), dry).all().get());
        Check.holds(!admin.listTopics().names().get().contains(name), "not made");
    }

    private void assigned() throws Exception {
        int broker = admin.describeCluster().nodes().get().iterator().next().id();
        String name = clients.name("assigned");
        clients.create(new NewTopic(name, Map.of(0, List.of(broker), 1, List.of(broker))));
        Check.equal(2, described(name).partitions().size(), "partitions");
        String bad = clients.name("misassigned");
        Check.refused(InvalidReplicaAssignmentException.class, () -> admin.createTopics(List.of(new NewTopic(bad, Map.of(0, List.of(broker + 77))))).all().get());
        Check.refused(InvalidReplicaAssignmentException.class, () -> admin.createTopics(List.of(new NewTopic(bad, Map.of(1, List.of(broker))))).all().get());
    }

    private void describe() throws Exception {
        String name = clients.createdTopic("described", 2);
        DescribeTopicsOptions options = new DescribeTopicsOptions().includeAuthorizedOperations(true);
        TopicDescription told = admin.describeTopics(List.of(name), options).allTopicNames().get().get(name);
        Check.holds(!told.isInternal(), "not internal");
        for (TopicPartitionInfo partition : told.partitions()) {
            Check.equal(1, partition.replicas().size(), "replicas");
            Check.equal(partition.replicas(), partition.isr(), "in sync");
            Check.equal(partition.leader(), partition.replicas().get(0), "leader");
        }
        Check.equal(8, told.authorizedOperations().size(), "operations");
        Uuid id = told.topicId();
        TopicCollection byId = TopicCollection.ofTopicIds(List.of(id));
        Check.equal(name, admin.describeTopics(byId).allTopicIds().get().get(id).name(), "by id");
        Check.refused(UnknownTopicOrPartitionException.class, () -> described(clients.name("nowhere")));
        Check.refused(InvalidTopicException.class, () -> described("a b"));
        Uuid unknown = Uuid.randomUuid();
        Check.refused(UnknownTopicIdException.class, () -> admin.describeTopics(TopicCollection.ofTopicIds(List.of(unknown))).allTopicIds().get());
    }

    private void describePages() throws Exception {
        String one = clients.createdTopic("paged-one", 5);
        String two = clients.createdTopic("paged-two", 4);
        DescribeTopicsOptions options = new DescribeTopicsOptions().partitionSizeLimitPerResponse(2);
        Map<String, TopicDescription> told = admin.describeTopics(List.of(two, one), options).allTopicNames().get();
        Check.equal(5, told.get(one).partitions().size(), "partitions of the first");
        Check.equal(4, told.get(two).partitions().size(), "partitions of the second");
        Check.equal(List.of(), told.get(one).partitions().get(4).elr(), "no eligible leaders");
    }

    private void list() throws Exception {
        String name = clients.createdTopic("listed", 1);
        TopicListing told = admin.listTopics().namesToListings().get().get(name);
        Check.equal(described(name).topicId(), told.topicId(), "id");
        Check.holds(!told.isInternal(), "not internal");
    }

    private void delete() throws Exception {
        String byName = clients.createdTopic("deleted-by-name", 1);
        String byId = clients.createdTopic("deleted-by-id", 1);
        Uuid id = described(byId).topicId();
        admin.deleteTopics(List.of(byName)).all().get();
        admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get();
        Check.eventually("gone", () -> Collections.disjoint(admin.listTopics().names().get(), List.of(byName, byId)));
        Check.refused(UnknownTopicOrPartitionException.class, () -> admin.deleteTopics(List.of(byName)).all().get());
        Check.refused(UnknownTopicIdException.class, () -> admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get());
    }

    private void createPartitions() throws Exception {
        String name = clients.filledTopic("grown", 2, 5);
        admin.createPartitions(Map.of(name, NewPartitions.increaseTo(4)), new CreatePartitionsOptions().validateOnly(true)).all().get();
        Check.equal(2, described(name).partitions().size(), "not by a dry run");
        admin.createPartitions(Map.of(name, NewPartitions.increaseTo(4))).all().get();
        Check.eventually("partitions", () -> described(name).partitions().size() == 4);
        try (KafkaProducer<String, String> producer = clients.producer()) {
            Check.equal(0L, producer.send(new ProducerRecord<>(name, 3, "k", "v")).get().offset(), "the new one is used");
            Check.equal(5L, producer.send(new ProducerRecord<>(name, 0, "k", "v")).get().offset(), "the old one goes on");
        }
    }

    private void createPartitionsRefused() throws Exception {
        String name = clients.createdTopic("not-grown", 2);
        int broker = admin.describeCluster().nodes().get().iterator().next().id();
        Check.refused(InvalidPartitionsException.class, () -> admin.createPartitions(Map.of(name, NewPartitions.increaseTo(2))).all().get());
        Check.refused(InvalidPartitionsException.class, () -> admin.createPartitions(Map.of(name, NewPartitions.increaseTo(1))).all().get());
        Check.refused(InvalidReplicaAssignmentException.class, () -> admin.createPartitions(Map.of(name, NewPartitions.increaseTo(4, List.of(List.of(broker))))).all().get());
        Check.refused(InvalidReplicaAssignmentException.class, () -> admin.createPartitions(Map.of(name, NewPartitions.increaseTo(3, List.of(List.of(broker + 77))))).all().get());
        Check.refused(UnknownTopicOrPartitionException.class, () -> admin.createPartitions(Map.of(clients.name("nowhere"), NewPartitions.increaseTo(3))).all().get());
        Check.equal(2, described(name).partitions().size(), "partitions");
    }

    private static ConfigResource resource(String topic) {
        return new ConfigResource(ConfigResource.Type.TOPIC, topic);
    }

    private Config config(String topic) throws Exception {
        DescribeConfigsOptions options = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        return admin.describeConfigs(List.of(resource(topic)), options).all().get().get(resource(topic));
    }

    private void alter(String topic, AlterConfigOp.OpType how, String name, String value) throws Exception {
        admin.incrementalAlterConfigs(Map.of(resource(topic), List.of(new AlterConfigOp(new ConfigEntry(name, value), how)))).all().get();
    }

    private void describeConfigs() throws Exception {
        String name = clients.name("configured");
        clients.create(topic(name, 1).configs(Map.of("retention.ms", "3600000")));
        ConfigEntry given = config(name).get("retention.ms");
        Check.equal("3600000", given.value(), "value");
        Check.equal(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, given.source(), "source");
        Check.equal(ConfigEntry.ConfigType.LONG, given.type(), "type");
        Check.equal("retention.ms", given.synonyms().get(0).name(), "synonym");
        Check.holds(given.documentation() != null, "documentation");
        ConfigEntry free = config(name).get("cleanup.policy");
        Check.equal("delete", free.value(), "default");
        Check.holds(free.isDefault(), "told as a default");
        Check.refused(UnknownTopicOrPartitionException.class, () -> config(clients.name("nowhere")));
    }

    private void alterConfigs() throws Exception {
        String name = clients.createdTopic("altered", 1);
        admin.incrementalAlterConfigs(Map.of(resource(name), List.of(new AlterConfigOp(new ConfigEntry("retention.ms", "1"), AlterConfigOp.OpType.SET))),
            new AlterConfigsOptions().validateOnly(true)).all().get();
        Check.holds(config(name).get("retention.ms").isDefault(), "not by a dry run");
        alter(name, AlterConfigOp.OpType.SET, "retention.ms", "7200000");
        alter(name, AlterConfigOp.OpType.SET, "max.message.bytes", "2000");
        Check.eventually("the change is seen", () -> "7200000".equals(config(name).get("retention.ms").value()));
        try (KafkaProducer<String, String> producer = clients.producer()) {
            Check.refused(RecordTooLargeException.class, () -> producer.send(new ProducerRecord<>(name, "x".repeat(3000))).get());
        }
        alter(name, AlterConfigOp.OpType.DELETE, "retention.ms", "");
        Check.eventually("the default is back", () -> config(name).get("retention.ms").isDefault());
        Check.equal("2000", config(name).get("max.message.bytes").value(), "the other stays");
    }

    private void alterLists() throws Exception {
        String name = clients.createdTopic("altered-lists", 1);
        alter(name, AlterConfigOp.OpType.APPEND, "cleanup.policy", "compact");
        Check.eventually("appended", () -> "delete,compact".equals(config(name).get("cleanup.policy").value()));
        alter(name, AlterConfigOp.OpType.SUBTRACT, "cleanup.policy", "delete");
        Check.eventually("taken away", () -> "compact".equals(config(name).get("cleanup.policy").value()));
    }

    private void alterRefused() throws Exception {
        String name = clients.createdTopic("not-altered", 1);
        Check.refused(InvalidConfigurationException.class, () -> alter(name, AlterConfigOp.OpType.SET, "no.such", "1"));
        Check.refused(InvalidConfigurationException.class, () -> alter(name, AlterConfigOp.OpType.SET, "retention.ms", "x"));
        Check.refused(InvalidConfigurationException.class, () -> alter(name, AlterConfigOp.OpType.SET, "cleanup.policy", "burn"));
        Check.refused(InvalidConfigurationException.class, () -> alter(name, AlterConfigOp.OpType.APPEND, "retention.ms", "1"));
        Check.refused(UnknownTopicOrPartitionException.class, () -> alter(clients.name("nowhere"), AlterConfigOp.OpType.SET, "retention.ms", "1"));
    }

    private void deleteRecords() throws Exception {
        String name = clients.filledTopic("trimmed", 2, 10);
        TopicPartition one = new TopicPartition(name, 0);
        TopicPartition two = new TopicPartition(name, 1);
        DeleteRecordsResult done = admin.deleteRecords(Map.of(one, RecordsToDelete.beforeOffset(4), two, RecordsToDelete.beforeOffset(-1)));
        Check.equal(4L, done.lowWatermarks().get(one).get().lowWatermark(), "the new beginning");
        Check.equal(10L, done.lowWatermarks().get(two).get().lowWatermark(), "all of the other");
        try (KafkaConsumer<String, String> consumer = clients.consumer()) {
            Check.equal(Map.of(one, 4L, two, 10L), consumer.beginningOffsets(List.of(one, two)), "beginnings");
            consumer.assign(List.of(one));
            consumer.seekToBeginning(List.of(one));
            List<String> values = new ArrayList<>();
            Check.eventually("the rest came", () -> {
                consumer.poll(java.time.Duration.ofMillis(200)).forEach(record -> values.add(record.value()));
                return values.size() == 6;
            });
            Check.equal("v4", values.get(0), "reading begins there");
        }
    }

    private void deleteRecordsRefused() throws Exception {
        String name = clients.filledTopic("not-trimmed", 1, 5);
        TopicPartition one = new TopicPartition(name, 0);
        Check.refused(org.apache.kafka.common.errors.OffsetOutOfRangeException.class, () -> admin.deleteRecords(Map.of(one, RecordsToDelete.beforeOffset(6))).all().get());
        DeleteRecordsOptions impatient = new DeleteRecordsOptions().timeoutMs(4000);
        TopicPartition beyond = new TopicPartition(name, 7);
        Check.refused(TimeoutException.class, () -> admin.deleteRecords(Map.of(beyond, RecordsToDelete.beforeOffset(1)), impatient).all().get());
    }

    private long offset(TopicPartition partition, OffsetSpec spec) throws Exception {
        return admin.listOffsets(Map.of(partition, spec)).partitionResult(partition).get().offset();
    }

    private void listOffsets() throws Exception {
        String name = clients.createdTopic("offsets", 1);
        TopicPartition partition = new TopicPartition(name, 0);
        Check.equal(-1L, offset(partition, OffsetSpec.maxTimestamp()), "no newest in an empty log");
        long start = System.currentTimeMillis() - 100_000;
        try (KafkaProducer<String, String> producer = clients.producer()) {
            for (long age : new long[] {0, 30_000, 20_000}) {
                producer.send(new ProducerRecord<>(name, 0, start + age, "k", "v")).get();
            }
        }
        Check.equal(0L, offset(partition, OffsetSpec.earliest()), "earliest");
        Check.equal(3L, offset(partition, OffsetSpec.latest()), "latest");
        Check.equal(1L, offset(partition, OffsetSpec.maxTimestamp()), "the newest by time");
        Check.equal(1L, offset(partition, OffsetSpec.forTimestamp(start + 10_000)), "by time");
        Check.equal(-1L, offset(partition, OffsetSpec.forTimestamp(start + 90_000)), "none that late");
        Check.equal(0L, offset(partition, OffsetSpec.earliestLocal()), "earliest local");
        Check.equal(-1L, offset(partition, OffsetSpec.latestTiered()), "nothing is tiered");
        ListOffsetsOptions committed = new ListOffsetsOptions(IsolationLevel.READ_COMMITTED);
        Check.equal(3L, admin.listOffsets(Map.of(partition, OffsetSpec.latest()), committed).partitionResult(partition).get().offset(), "the stable end");
    }

    private void listOffsetsRefused() throws Exception {
        String name = clients.createdTopic("few-offsets", 1);
        ListOffsetsOptions options = new ListOffsetsOptions().timeoutMs(4000);
        TopicPartition beyond = new TopicPartition(name, 3);
        Check.refused(TimeoutException.class, () -> admin.listOffsets(Map.of(beyond, OffsetSpec.latest()), options).all().get());
    }
}
