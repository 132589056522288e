import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.errors.*;

/** Groups of consumers, and groups as administrators see them. */
final class Groups {
    private static final int VALUES_EACH = 50;
    private static final int VALUES = VALUES_EACH * Clients.PARTITIONS;

    private final Clients clients;
    private final Admin admin;
    private String topic;

    Groups(Clients clients) {
        this.clients = clients;
        this.admin = clients.admin;
    }

    void run() {
        for (String assignor : List.of("Range", "RoundRobin", "Sticky", "CooperativeSticky")) {
            Check.step("group_of_three_" + assignor, () -> share("org.apache.kafka.clients.consumer." + assignor + "Assignor"));
        }
        Check.step("group_member_leaves", this::leaves);
        Check.step("group_member_is_lost", this::lost);
        Check.step("group_resumes", this::resumes);
        Check.step("group_static_member", this::staticMember);
        Check.step("group_static_member_fenced", this::fenced);
        Check.step("group_enforced_rebalance", this::enforced);
        Check.step("group_inconsistent_protocols", this::inconsistent);
        Check.step("admin_list_groups", this::list);
        Check.step("admin_describe_group", this::describe);
        Check.step("admin_describe_classic_group", this::describeClassic);
        Check.step("admin_describe_unknown_group", this::describeUnknown);
        Check.step("admin_delete_group", this::delete);
        Check.step("admin_alter_group_offsets", this::alterOffsets);
        Check.step("admin_list_group_offsets", this::listOffsets);
        Check.step("admin_delete_group_offsets", this::deleteOffsets);
        Check.step("admin_remove_members", this::removeMembers);
    }

    private String topic() throws Exception {
        if (topic == null) {
            topic = clients.filledTopic("shared", Clients.PARTITIONS, VALUES_EACH);
        }
        return topic;
    }

    /** A member of a group on a thread of its own, until it is closed. */
    private final class Member implements AutoCloseable {
        final Set<String> seen = ConcurrentHashMap.newKeySet();
        volatile Set<TopicPartition> assigned = Set.of();
        volatile boolean rebalanceWanted;
        volatile String id = "";
        private volatile boolean isClosed;
        private volatile boolean leaves = true;
        private final Future<?> done;
        private final ExecutorService thread = Executors.newSingleThreadExecutor();

        Member(String group, Object... settings) throws Exception {
            topic();
            List<Object> all = new ArrayList<>(List.of("group.id", group, "heartbeat.interval.ms", 300, "session.timeout.ms", 10_000));
            all.addAll(List.of(settings));
            KafkaConsumer<String, String> consumer = clients.consumer(all.toArray());
            done = thread.submit(() -> {
                try {
                    consumer.subscribe(List.of(topic));
                    while (!isClosed) {
                        consumer.poll(Duration.ofMillis(100)).forEach(record -> seen.add(record.partition() + ":" + record.offset()));
                        assigned = Set.copyOf(consumer.assignment());
                        id = consumer.groupMetadata().memberId();
                        if (rebalanceWanted) {
                            rebalanceWanted = false;
                            consumer.enforceRebalance("wanted");
                        }
                    }
                } finally {
                    CloseOptions how = leaves ? CloseOptions.timeout(Duration.ofSeconds(10))
                        : CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP);
                    consumer.close(how);
                }
                return null;
            });
        }

        void vanish() throws Exception {
            leaves = false;
            close();
        }

        /** Throws what ended the member before. */
        void check() throws Exception {
            if (done.isDone()) {
                done.get();
            }
        }

        @Override
        public void close() throws Exception {
            isClosed = true;
            thread.shutdown();
            done.get(30, TimeUnit.SECONDS);
        }
    }

    private static boolean isShared(Member... members) throws Exception {
        Thread.sleep(50);
        Set<TopicPartition> held = new HashSet<>();
        int count = 0;
        for (Member member : members) {
            member.check();
            count += member.assigned.size();
            held.addAll(member.assigned);
            if (member.assigned.isEmpty()) {
                return false;
            }
        }
        return count == Clients.PARTITIONS && held.size() == Clients.PARTITIONS;
    }

    private void share(String assignor) throws Exception {
        String group = clients.name(assignor);
        Object[] settings = {"partition.assignment.strategy", assignor};
        try (Member a = new Member(group, settings); Member b = new Member(group, settings); Member c = new Member(group, settings)) {
            Check.eventually("the partitions are shared", () -> isShared(a, b, c));
            Check.eventually("all is read", () -> {
                Thread.sleep(50);
                Set<String> all = new HashSet<>(a.seen);
                all.addAll(b.seen);
                all.addAll(c.seen);
                return all.size() == VALUES;
            });
        }
        Collection<OffsetAndMetadata> committed = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().values();
        Check.equal((long) VALUES, committed.stream().mapToLong(OffsetAndMetadata::offset).sum(), "what was committed");
    }

    private void leaves() throws Exception {
        String group = clients.name("leaves");
        try (Member a = new Member(group)) {
            try (Member b = new Member(group)) {
                Check.eventually("shared", () -> isShared(a, b));
            }
            Check.eventually("the other takes over", () -> isShared(a));
        }
    }

    private void lost() throws Exception {
        String group = clients.name("lost");
        try (Member a = new Member(group, "session.timeout.ms", 6000)) {
            Member b = new Member(group, "session.timeout.ms", 6000);
            Check.eventually("shared", () -> isShared(a, b));
            b.vanish();
            Check.eventually("the other takes over after the session", () -> isShared(a));
        }
    }

    private void resumes() throws Exception {
        String group = clients.name("resumes");
        try (Member a = new Member(group)) {
            Check.eventually("all is read", () -> a.seen.size() == VALUES || waited());
        }
        try (Member b = new Member(group)) {
            Check.eventually("assigned", () -> isShared(b));
            Thread.sleep(1000);
            Check.equal(Set.of(), b.seen, "nothing is read twice");
        }
    }

    private static boolean waited() throws Exception {
        Thread.sleep(50);
        return false;
    }

    private void staticMember() throws Exception {
        topic();
        Object[] settings = {"group.id", clients.name("static"), "group.instance.id", "one"};
        List<Integer> generations = new ArrayList<>();
        for (int run = 0; run < 2; run++) {
            try (KafkaConsumer<String, String> consumer = clients.consumer(settings)) {
                consumer.subscribe(List.of(topic));
                Check.eventually("partitions are assigned", () -> {
                    consumer.poll(Duration.ofMillis(200));
                    return consumer.assignment().size() == Clients.PARTITIONS;
                });
                generations.add(consumer.groupMetadata().generationId());
            }
        }
        Check.equal(generations.get(0), generations.get(1), "the generation");
    }

    private void fenced() throws Exception {
        String group = clients.name("fenced");
        Member a = new Member(group, "group.instance.id", "one");
        Check.eventually("assigned", () -> isShared(a));
        try (Member b = new Member(group, "group.instance.id", "one")) {
            Check.eventually("the newer one has all", () -> isShared(b));
            Check.refused(FencedInstanceIdException.class, () -> a.done.get(20, TimeUnit.SECONDS));
        }
        a.thread.shutdown();
    }

    private void enforced() throws Exception {
        String group = clients.name("enforced");
        try (Member a = new Member(group)) {
            Check.eventually("assigned", () -> isShared(a));
            a.rebalanceWanted = true;
            Check.eventually("assigned again", () -> !a.rebalanceWanted && isShared(a));
        }
    }

    private void inconsistent() throws Exception {
        String group = clients.name("inconsistent");
        String prefix = "org.apache.kafka.clients.consumer.";
        try (Member a = new Member(group, "partition.assignment.strategy", prefix + "RangeAssignor")) {
            Check.eventually("assigned", () -> isShared(a));
            Member b = new Member(group, "partition.assignment.strategy", prefix + "RoundRobinAssignor");
            Check.refused(InconsistentGroupProtocolException.class, () -> b.done.get(20, TimeUnit.SECONDS));
            b.thread.shutdown();
            Check.eventually("the first is not disturbed", () -> isShared(a));
        }
    }

    private boolean isListed(ListGroupsOptions options, String group) throws Exception {
        return admin.listGroups(options).all().get().stream().anyMatch(listing -> listing.groupId().equals(group));
    }

    private void list() throws Exception {
        String group = clients.name("listed");
        try (Member a = new Member(group)) {
            Check.eventually("assigned", () -> isShared(a));
            GroupListing found = admin.listGroups().all().get().stream().filter(one -> one.groupId().equals(group)).findFirst().get();
            Check.equal(Optional.of(GroupType.CLASSIC), found.type(), "type");
            Check.equal(Optional.of(GroupState.STABLE), found.groupState(), "state");
            Check.equal("consumer", found.protocol(), "protocol");
            Check.holds(isListed(new ListGroupsOptions().inGroupStates(Set.of(GroupState.STABLE)), group), "by its state");
            Check.holds(!isListed(new ListGroupsOptions().inGroupStates(Set.of(GroupState.EMPTY)), group), "not by another");
            Check.holds(isListed(ListGroupsOptions.forConsumerGroups(), group), "as a consumer group");
            Check.holds(!isListed(ListGroupsOptions.forShareGroups(), group), "not as a share group");
            Check.holds(isListed(new ListGroupsOptions().withTypes(Set.of(GroupType.CLASSIC)), group), "by its type");
            Check.holds(!isListed(new ListGroupsOptions().withTypes(Set.of(GroupType.CONSUMER)), group), "not by another type");
        }
        Check.holds(isListed(new ListGroupsOptions().inGroupStates(Set.of(GroupState.EMPTY)), group), "empty at the end");
    }

    private ConsumerGroupDescription described(String group) throws Exception {
        DescribeConsumerGroupsOptions options = new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true);
        return admin.describeConsumerGroups(List.of(group), options).all().get().get(group);
    }

    private void describe() throws Exception {
        String group = clients.name("described");
        try (Member a = new Member(group, "client.id", "me", "group.instance.id", "one"); Member b = new Member(group)) {
            Check.eventually("shared", () -> isShared(a, b));
            ConsumerGroupDescription told = described(group);
            Check.equal(GroupState.STABLE, told.groupState(), "state");
            Check.equal("range", told.partitionAssignor(), "assignor");
            Check.equal(2, told.members().size(), "members");
            MemberDescription me = told.members().stream().filter(member -> member.clientId().equals("me")).findFirst().get();
            Check.equal(Optional.of("one"), me.groupInstanceId(), "instance");
            Check.equal(a.assigned, me.assignment().topicPartitions(), "assignment");
            Check.equal("/127.0.0.1", me.host(), "host");
            Check.holds(told.coordinator() != null && told.authorizedOperations() != null, "coordinator and operations");
        }
        Check.eventually("the dynamic member is gone", () -> described(group).members().size() == 1 || waited());
    }

    private void describeClassic() throws Exception {
        String group = clients.name("classic");
        try (Member a = new Member(group)) {
            Check.eventually("assigned", () -> isShared(a));
            ClassicGroupDescription told = admin.describeClassicGroups(List.of(group)).all().get().get(group);
            Check.equal(ClassicGroupState.STABLE, told.state(), "state");
            Check.equal("consumer", told.protocol(), "protocol");
            Check.equal("range", told.protocolData(), "protocol data");
            Check.equal(1, told.members().size(), "members");
        }
    }

    private void describeUnknown() throws Exception {
        String group = clients.name("unknown");
        Check.refused(GroupIdNotFoundException.class, () -> described(group));
        Check.refused(GroupIdNotFoundException.class, () -> admin.deleteConsumerGroups(List.of(group)).all().get());
        TopicPartition partition = new TopicPartition(topic(), 0);
        Check.refused(GroupIdNotFoundException.class, () -> admin.deleteConsumerGroupOffsets(group, Set.of(partition)).all().get());
        Check.equal(Map.of(), admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get(), "no offsets");
    }

    private void delete() throws Exception {
        String group = clients.name("deleted-group");
        try (Member a = new Member(group)) {
            Check.eventually("assigned", () -> isShared(a));
            Check.refused(GroupNotEmptyException.class, () -> admin.deleteConsumerGroups(List.of(group)).all().get());
        }
        admin.deleteConsumerGroups(List.of(group)).all().get();
        Check.holds(!isListed(new ListGroupsOptions(), group), "gone");
        Check.equal(Map.of(), admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get(), "and its offsets");
    }

    private void alterOffsets() throws Exception {
        String group = clients.name("altered");
        TopicPartition partition = new TopicPartition(topic(), 0);
        TopicPartition other = new TopicPartition(topic, 99);
        admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(7, "seven"))).all().get();
        Check.equal("seven", admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(partition).metadata(), "metadata");
        AlterConsumerGroupOffsetsResult result = admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(8), other, new OffsetAndMetadata(1)));
        Check.refused(UnknownTopicOrPartitionException.class, () -> result.partitionResult(other).get());
        Check.eventually("it is written", () -> 8L == admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(partition).offset() || waited());
        try (Member a = new Member(group)) {
            Check.eventually("assigned", () -> isShared(a));
            Check.refused(UnknownMemberIdException.class, () -> admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(9))).all().get());
        }
    }

    private void listOffsets() throws Exception {
        String one = clients.name("offsets-one");
        String two = clients.name("offsets-two");
        TopicPartition a = new TopicPartition(topic(), 0);
        TopicPartition b = new TopicPartition(topic, 1);
        admin.alterConsumerGroupOffsets(one, Map.of(a, new OffsetAndMetadata(1), b, new OffsetAndMetadata(2))).all().get();
        admin.alterConsumerGroupOffsets(two, Map.of(b, new OffsetAndMetadata(3))).all().get();
        Map<String, ListConsumerGroupOffsetsSpec> asked = new HashMap<>();
        asked.put(one, new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(b)));
        asked.put(two, new ListConsumerGroupOffsetsSpec());
        ListConsumerGroupOffsetsResult told = admin.listConsumerGroupOffsets(asked, new ListConsumerGroupOffsetsOptions().requireStable(true));
        Check.equal(Map.of(b, new OffsetAndMetadata(2)), told.partitionsToOffsetAndMetadata(one).get(), "one partition of the first");
        Check.equal(Map.of(b, new OffsetAndMetadata(3)), told.partitionsToOffsetAndMetadata(two).get(), "all of the second");
    }

    private void deleteOffsets() throws Exception {
        String group = clients.name("offsets-deleted");
        TopicPartition partition = new TopicPartition(topic(), 0);
        try (Member a = new Member(group)) {
            Check.eventually("all is read, so that all is committed at the end", () -> a.seen.size() == VALUES || waited());
            Check.refused(GroupSubscribedToTopicException.class, () -> admin.deleteConsumerGroupOffsets(group, Set.of(partition)).partitionResult(partition).get());
        }
        Check.holds(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().containsKey(partition), "committed");
        admin.deleteConsumerGroupOffsets(group, Set.of(partition)).all().get();
        Check.holds(!admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().containsKey(partition), "deleted");
    }

    private void removeMembers() throws Exception {
        String group = clients.name("removed");
        Member a = new Member(group, "group.instance.id", "one");
        try (Member b = new Member(group)) {
            Check.eventually("shared", () -> isShared(a, b));
            RemoveMembersFromConsumerGroupResult unknown = admin.removeMembersFromConsumerGroup(group,
                new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("none"))));
            Check.refused(UnknownMemberIdException.class, () -> unknown.memberResult(new MemberToRemove("none")).get());
            a.vanish();
            admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("one")))).all().get();
            Check.eventually("the other takes over", () -> isShared(b));
        }
        Member c = new Member(group, "group.instance.id", "two");
        Check.eventually("assigned", () -> isShared(c));
        c.vanish();
        admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions()).all().get();
        Check.equal(0, described(group).members().size(), "all members are removed");
    }
}
