import java.util.*;
import java.util.stream.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.quota.*;

/** The cluster as administrators see it: brokers, features, the quorum, log directories, replicas, quotas, client metrics. */
final class Cluster {
    private final Clients clients;
    private final Admin admin;

    Cluster(Clients clients) {
        this.clients = clients;
        this.admin = clients.admin;
    }

    void run() {
        Check.step("admin_describe_cluster", this::describe);
        Check.step("admin_describe_features", this::features);
        Check.step("admin_update_features", this::updateFeatures);
        Check.step("admin_describe_quorum", this::quorum);
        Check.step("admin_raft_voters", this::voters);
        Check.step("admin_unregister_broker", this::unregister);
        Check.step("admin_describe_log_dirs", this::logDirs);
        Check.step("admin_alter_replica_log_dirs", this::alterLogDirs);
        Check.step("admin_list_reassignments", this::listReassignments);
        Check.step("admin_alter_reassignments", this::alterReassignments);
        Check.step("admin_elect_leaders", this::elect);
        Check.step("admin_describe_producers", this::producers);
        Check.step("admin_describe_broker_configs", this::brokerConfigs);
        Check.step("admin_alter_broker_configs_refused", this::alterBrokerConfigsRefused);
        Check.step("admin_alter_broker_configs", this::alterBrokerConfigs);
        Check.step("admin_broker_loggers", this::loggers);
        Check.step("admin_list_config_resources", this::configResources);
        Check.step("admin_client_metrics", this::clientMetrics);
        Check.step("admin_group_configs", this::groupConfigs);
        Check.step("admin_describe_quotas", this::describeQuotas);
        Check.step("admin_alter_quotas_refused", this::refusedQuotas);
        Check.step("admin_alter_quotas", this::alterQuotas);
        Check.step("admin_other_kinds_of_groups", this::otherGroups);
    }

    private void describe() throws Exception {
        DescribeClusterResult told = admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
        Check.equal(22, told.clusterId().get().length(), "the id's length");
        Check.holds(told.nodes().get().contains(told.controller().get()), "the controller is one of the brokers");
        Check.equal(7, told.authorizedOperations().get().size(), "operations");
        DescribeClusterOptions fenced = new DescribeClusterOptions().includeFencedBrokers(true);
        Check.holds(admin.describeCluster(fenced).nodes().get().stream().noneMatch(Node::isFenced), "none is fenced");
    }

    private int broker() throws Exception {
        return admin.describeCluster().nodes().get().iterator().next().id();
    }

    private void features() throws Exception {
        FeatureMetadata told = admin.describeFeatures().featureMetadata().get();
        Check.holds(told.finalizedFeaturesEpoch().isPresent(), "an epoch");
        short level = told.finalizedFeatures().get("metadata.version").maxVersionLevel();
        SupportedVersionRange range = told.supportedFeatures().get("metadata.version");
        Check.holds(range.minVersion() <= level && level <= range.maxVersion(), "the finalized level is supported");
    }

    private void update(String feature, int level, FeatureUpdate.UpgradeType how) throws Exception {
        UpdateFeaturesOptions dry = new UpdateFeaturesOptions().validateOnly(true);
        admin.updateFeatures(Map.of(feature, new FeatureUpdate((short) level, how)), dry).all().get();
    }

    private void updateFeatures() throws Exception {
        short level = admin.describeFeatures().featureMetadata().get().finalizedFeatures().get("metadata.version").maxVersionLevel();
        update("metadata.version", level, FeatureUpdate.UpgradeType.UPGRADE);
        Check.refused(InvalidUpdateVersionException.class, () -> update("metadata.version", 999, FeatureUpdate.UpgradeType.UPGRADE));
        Check.refused(InvalidUpdateVersionException.class, () -> update("metadata.version", 1, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE));
        Check.refused(InvalidUpdateVersionException.class, () -> update("no.such.feature", 1, FeatureUpdate.UpgradeType.UPGRADE));
    }

    private void quorum() throws Exception {
        QuorumInfo told = admin.describeMetadataQuorum().quorumInfo().get();
        Set<Integer> voters = told.voters().stream().map(QuorumInfo.ReplicaState::replicaId).collect(Collectors.toSet());
        Check.holds(voters.contains(told.leaderId()), "the leader is a voter");
        Check.equal(voters, told.nodes().keySet(), "the voters' addresses");
        Check.holds(told.highWatermark() >= 0 && told.leaderEpoch() >= 0, "a log");
    }

    private void voters() throws Exception {
        Check.refused(UnsupportedVersionException.class, () -> admin.addRaftVoter(77, Uuid.randomUuid(), Set.of(new RaftVoterEndpoint("CONTROLLER", "localhost", 1))).all().get());
        Check.refused(UnsupportedVersionException.class, () -> admin.removeRaftVoter(77, Uuid.randomUuid()).all().get());
    }

    private void unregister() throws Exception {
        Check.refused(BrokerIdNotRegisteredException.class, () -> admin.unregisterBroker(broker() + 77).all().get());
    }

    private void logDirs() throws Exception {
        String topic = clients.filledTopic("sized", 2, 100);
        int broker = broker();
        Map<String, LogDirDescription> dirs = admin.describeLogDirs(List.of(broker)).allDescriptions().get().get(broker);
        Check.equal(1, dirs.size(), "directories");
        LogDirDescription dir = dirs.values().iterator().next();
        Check.holds(dir.error() == null, "no error");
        for (TopicPartition partition : clients.partitions(topic, 2)) {
            ReplicaInfo told = dir.replicaInfos().get(partition);
            Check.holds(told.size() > 1000 && told.size() < 100_000, "the size " + told.size());
            Check.holds(told.offsetLag() == 0 && !told.isFuture(), "where it is");
        }
        TopicPartitionReplica replica = new TopicPartitionReplica(topic, 0, broker);
        DescribeReplicaLogDirsResult.ReplicaLogDirInfo where = admin.describeReplicaLogDirs(List.of(replica)).all().get().get(replica);
        Check.equal(dirs.keySet().iterator().next(), where.getCurrentReplicaLogDir(), "the directory of one replica");
    }

    private void alterLogDirs() throws Exception {
        int broker = broker();
        TopicPartitionReplica replica = new TopicPartitionReplica(clients.createdTopic("moved", 1), 0, broker);
        String dir = admin.describeLogDirs(List.of(broker)).allDescriptions().get().get(broker).keySet().iterator().next();
        admin.alterReplicaLogDirs(Map.of(replica, dir)).all().get();
        Check.refused(LogDirNotFoundException.class, () -> admin.alterReplicaLogDirs(Map.of(replica, "/no/such/directory")).all().get());
    }

    private void listReassignments() throws Exception {
        TopicPartition partition = new TopicPartition(clients.createdTopic("still", 1), 0);
        Check.equal(Map.of(), admin.listPartitionReassignments().reassignments().get(), "none under way");
        Check.equal(Map.of(), admin.listPartitionReassignments(Set.of(partition)).reassignments().get(), "none of one partition");
    }

    private void reassign(TopicPartition partition, List<Integer> brokers) throws Exception {
        Optional<NewPartitionReassignment> target = Optional.ofNullable(brokers).map(NewPartitionReassignment::new);
        admin.alterPartitionReassignments(Map.of(partition, target)).all().get();
    }

    private void alterReassignments() throws Exception {
        TopicPartition partition = new TopicPartition(clients.createdTopic("reassigned", 1), 0);
        int broker = broker();
        reassign(partition, List.of(broker));
        Check.refused(InvalidReplicaAssignmentException.class, () -> reassign(partition, List.of(broker + 77)));
        Check.refused(InvalidReplicaAssignmentException.class, () -> reassign(partition, List.of(broker, broker)));
        Check.refused(NoReassignmentInProgressException.class, () -> reassign(partition, null));
        Check.refused(UnknownTopicOrPartitionException.class, () -> reassign(new TopicPartition(partition.topic(), 5), List.of(broker)));
    }

    private void elect() throws Exception {
        TopicPartition there = new TopicPartition(clients.createdTopic("elected", 1), 0);
        TopicPartition not = new TopicPartition(there.topic(), 5);
        for (ElectionType how : ElectionType.values()) {
            Map<TopicPartition, Optional<Throwable>> told = admin.electLeaders(how, Set.of(there, not)).partitions().get();
            Check.equal(ElectionNotNeededException.class, told.get(there).get().getClass(), "not needed");
            Check.equal(UnknownTopicOrPartitionException.class, told.get(not).get().getClass(), "not there");
            Check.equal(Map.of(), admin.electLeaders(how, null).partitions().get(), "of all, none is needed");
        }
    }

    private void producers() throws Exception {
        TopicPartition partition = new TopicPartition(clients.createdTopic("produced-by", 1), 0);
        Check.equal(List.of(), admin.describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers(), "none yet");
        try (KafkaProducer<String, String> producer = clients.producer()) {
            for (int n = 0; n < 3; n++) {
                producer.send(new ProducerRecord<>(partition.topic(), "v")).get();
            }
        }
        List<ProducerState> told = admin.describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers();
        Check.equal(1, told.size(), "producers");
        Check.equal(2, told.get(0).lastSequence(), "the last sequence");
        Check.holds(told.get(0).currentTransactionStartOffset().isEmpty(), "no transaction");
    }

    private static ConfigResource broker(int id) {
        return new ConfigResource(ConfigResource.Type.BROKER, "" + id);
    }

    private Config config(ConfigResource resource) throws Exception {
        return admin.describeConfigs(List.of(resource)).all().get().get(resource);
    }

    private void alter(ConfigResource resource, AlterConfigOp.OpType how, String name, String value) throws Exception {
        admin.incrementalAlterConfigs(Map.of(resource, List.of(new AlterConfigOp(new ConfigEntry(name, value), how)))).all().get();
    }

    private void brokerConfigs() throws Exception {
        Config told = config(broker(broker()));
        Check.equal("4", told.get("num.partitions").value(), "a setting that was given");
        Check.holds(told.get("num.partitions").isReadOnly(), "read only");
        for (String name : List.of("log.retention.ms", "message.max.bytes", "auto.create.topics.enable", "default.replication.factor",
                "group.initial.rebalance.delay.ms", "log.cleanup.policy", "compression.type", "advertised.listeners")) {
            Check.holds(told.get(name) != null, name);
        }
        // A Kafka that was formatted with eligible leader replicas (KIP-966) pins that one for the cluster.
        Collection<ConfigEntry> defaults = config(new ConfigResource(ConfigResource.Type.BROKER, "")).entries();
        Check.holds(defaults.stream().allMatch(entry -> entry.name().equals("min.insync.replicas")), "no dynamic defaults");
    }

    private void alterBrokerConfigsRefused() throws Exception {
        ConfigResource broker = broker(broker());
        Check.refused(InvalidRequestException.class, () -> alter(broker, AlterConfigOp.OpType.SET, "num.partitions", "9"));
        Check.refused(InvalidRequestException.class, () -> alter(broker, AlterConfigOp.OpType.SET, "node.id", "9"));
        alter(broker, AlterConfigOp.OpType.DELETE, "leader.replication.throttled.rate", "");
    }

    private void alterBrokerConfigs() throws Exception {
        ConfigResource broker = broker(broker());
        String before = config(broker).get("message.max.bytes").value();
        alter(broker, AlterConfigOp.OpType.SET, "message.max.bytes", "900000");
        Check.eventually("the change is seen", () -> "900000".equals(config(broker).get("message.max.bytes").value()));
        alter(broker, AlterConfigOp.OpType.DELETE, "message.max.bytes", "");
        Check.eventually("the default is back", () -> before.equals(config(broker).get("message.max.bytes").value()));
    }

    private void loggers() throws Exception {
        ConfigResource loggers = new ConfigResource(ConfigResource.Type.BROKER_LOGGER, "" + broker());
        Check.holds(config(loggers).get("root") != null, "the root logger");
    }

    private void configResources() throws Exception {
        String topic = clients.createdTopic("resource", 1);
        Collection<ConfigResource> all = admin.listConfigResources().all().get();
        Check.holds(all.contains(new ConfigResource(ConfigResource.Type.TOPIC, topic)), "a topic");
        Check.holds(all.contains(broker(broker())), "a broker");
        Collection<ConfigResource> brokers = admin.listConfigResources(Set.of(ConfigResource.Type.BROKER), new ListConfigResourcesOptions()).all().get();
        Check.equal(List.of(broker(broker())), List.copyOf(brokers), "brokers alone");
    }

    private List<String> clientMetricsNames() throws Exception {
        Set<ConfigResource.Type> asked = Set.of(ConfigResource.Type.CLIENT_METRICS);
        return admin.listConfigResources(asked, new ListConfigResourcesOptions()).all().get().stream().map(ConfigResource::name).toList();
    }

    private void clientMetrics() throws Exception {
        ConfigResource metrics = new ConfigResource(ConfigResource.Type.CLIENT_METRICS, clients.name("metrics"));
        Check.equal(List.of(), clientMetricsNames(), "none");
        alter(metrics, AlterConfigOp.OpType.SET, "metrics", "org.apache.kafka.producer.");
        Check.eventually("listed", () -> clientMetricsNames().size() == 1);
        alter(metrics, AlterConfigOp.OpType.DELETE, "metrics", "");
        Check.eventually("gone", () -> clientMetricsNames().isEmpty());
    }

    private void groupConfigs() throws Exception {
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, clients.name("group"));
        Check.equal("45000", config(group).get("consumer.session.timeout.ms").value(), "a default");
        alter(group, AlterConfigOp.OpType.SET, "consumer.session.timeout.ms", "50000");
        Check.eventually("set", () -> "50000".equals(config(group).get("consumer.session.timeout.ms").value()));
        alter(group, AlterConfigOp.OpType.DELETE, "consumer.session.timeout.ms", "");
    }

    private Map<ClientQuotaEntity, Map<String, Double>> quotas(String user) throws Exception {
        ClientQuotaFilter filter = ClientQuotaFilter.contains(List.of(ClientQuotaFilterComponent.ofEntity("user", user)));
        return admin.describeClientQuotas(filter).entities().get();
    }

    private void quota(Map<String, String> entity, String key, Double value) throws Exception {
        ClientQuotaAlteration change = new ClientQuotaAlteration(new ClientQuotaEntity(entity), List.of(new ClientQuotaAlteration.Op(key, value)));
        admin.alterClientQuotas(List.of(change)).all().get();
    }

    private void describeQuotas() throws Exception {
        Check.equal(Map.of(), admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get(), "none at all");
        Check.equal(Map.of(), quotas(clients.name("user")), "none of a user");
        ClientQuotaFilter unknown = ClientQuotaFilter.contains(List.of(ClientQuotaFilterComponent.ofEntity("planet", "x")));
        Check.refused(UnsupportedVersionException.class, () -> admin.describeClientQuotas(unknown).entities().get());
    }

    private void refusedQuotas() throws Exception {
        Map<String, String> user = Map.of("user", clients.name("user"));
        quota(user, "consumer_byte_rate", null);
        Check.refused(InvalidRequestException.class, () -> quota(user, "no_such_rate", 5.0));
        Check.refused(InvalidRequestException.class, () -> quota(user, "consumer_byte_rate", -5.0));
        Check.refused(InvalidRequestException.class, () -> quota(Map.of("user", "u", "ip", "127.0.0.1"), "consumer_byte_rate", 5.0));
    }

    private void alterQuotas() throws Exception {
        String user = clients.name("user");
        quota(Map.of("user", user), "consumer_byte_rate", 1e9);
        Check.eventually("set", () -> quotas(user).size() == 1);
        quota(Map.of("user", user), "consumer_byte_rate", null);
        Check.eventually("gone", () -> quotas(user).isEmpty());
    }

    private void otherGroups() throws Exception {
        String group = clients.name("none");
        Check.refused(GroupIdNotFoundException.class, () -> admin.describeShareGroups(List.of(group)).all().get());
        Check.refused(GroupIdNotFoundException.class, () -> admin.describeStreamsGroups(List.of(group)).all().get());
    }
}
