"""The steps of the session, in order. Each gives what its tools printed; later ones use what earlier ones made."""

import json
import re
import time

STEPS = []

TOPICS = "TopicCommand"
PRODUCE = "ConsoleProducer"
CONSUME = "consumer.ConsoleConsumer"
GROUPS = "consumer.group.ConsumerGroupCommand"
CONFIGS = "kafka.admin.ConfigCommand"
OFFSETS = "GetOffsetShell"


def step(work):
    STEPS.append((work.__name__, work))
    return work


def broker_id(session):
    told = session.tool("BrokerApiVersionsCommand").out
    return re.search(r"id: (\d+) rack", told).group(1)


def numbers(text):
    """Times, rates and sizes are no two runs' same."""
    return re.sub(r"\d+([.,]\d+)?", "<n>", text)


def sorted_lines(tool):
    tool.out = "\n".join(sorted(tool.out.splitlines()))
    return tool


def eventually(what, condition, seconds=40):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"never happened: {what}")
        time.sleep(0.3)
    return found


@step
def broker_api_versions(session):
    """The APIs whose newest version a gateway serves; the others are known differences."""
    told = session.tool("BrokerApiVersionsCommand").out
    wanted = ("Produce", "Fetch", "Metadata", "FindCoordinator", "JoinGroup", "Heartbeat", "LeaveGroup", "SyncGroup", "DescribeGroups",
              "ListGroups", "ApiVersions", "CreateTopics", "DeleteTopics", "DeleteRecords", "InitProducerId", "OffsetForLeaderEpoch",
              "DescribeConfigs", "AlterConfigs", "CreatePartitions", "DeleteGroups", "ElectLeaders", "IncrementalAlterConfigs",
              "AlterPartitionReassignments", "ListPartitionReassignments", "OffsetDelete", "DescribeCluster", "DescribeProducers",
              "ListConfigResources", "DescribeTopicPartitions")
    found = re.findall(r"^\t(\w+)\(\d+\): (?:\d+ to )?\d+ \[usable: (\d+)\]", told, re.M)
    return [told.splitlines()[0], *(f"{name} {version}" for name, version in found if name in wanted)]


@step
def topics_create(session):
    return [session.tool(TOPICS, "--create", "--topic", session.name("orders"), "--partitions", "3"),
            session.tool(TOPICS, "--create", "--topic", session.name("defaults")),
            session.tool(TOPICS, "--create", "--topic", session.name("tuned"), "--config", "retention.ms=3600000", "--config",
                         "cleanup.policy=compact")]


@step
def topics_create_refused(session):
    again = session.tool(TOPICS, "--create", "--topic", session.name("orders"))
    again.out = re.sub(r"\[20\d\d-.*", "", again.out)
    quiet = session.tool(TOPICS, "--create", "--topic", session.name("orders"), "--if-not-exists")
    bad = session.tool(TOPICS, "--create", "--topic", session.name("bad"), "--config", "no.such=1")
    return [first_lines(again), quiet, first_lines(bad)]


def first_lines(tool, count=1):
    """The sentence of an error, without the stack below it."""
    lines = (tool.out + "\n" + tool.err).splitlines()
    tool.err = ""
    tool.out = "\n".join([line for line in lines if line.strip() and not line.startswith((" ", "\t", "SLF4J"))][:count])
    return tool


@step
def topics_list(session):
    told = session.tool(TOPICS, "--list")
    return "\n".join(line for line in told.out.splitlines() if session.mark in line)


@step
def topics_describe(session):
    return [session.tool(TOPICS, "--describe", "--topic", session.name(name)) for name in ("orders", "tuned")] + \
        [session.tool(TOPICS, "--describe", "--topic", session.name("orders"), "--under-replicated-partitions"),
         first_lines(session.tool(TOPICS, "--describe", "--topic", session.name("nowhere")))]


@step
def topics_alter(session):
    altered = session.tool(TOPICS, "--alter", "--topic", session.name("orders"), "--partitions", "4")
    fewer = first_lines(session.tool(TOPICS, "--alter", "--topic", session.name("orders"), "--partitions", "2"))
    return [altered, fewer, session.tool(TOPICS, "--describe", "--topic", session.name("orders"))]


@step
def console_producer(session):
    lines = "".join(f"h:{n},x:y\tkey{n % 5}\tvalue {n}\n" for n in range(40))
    return session.tool(PRODUCE, "--topic", session.name("defaults"), "--reader-property", "parse.key=true", "--reader-property",
                        "parse.headers=true", stdin=lines)


def consume(session, topic, *arguments, count):
    return session.tool(CONSUME, "--topic", session.name(topic), "--timeout-ms", "20000", "--max-messages", str(count), *arguments)


@step
def console_consumer(session):
    told = consume(session, "defaults", "--from-beginning", "--formatter-property", "print.key=true", "--formatter-property",
                   "print.partition=true", "--formatter-property", "print.offset=true", "--formatter-property", "print.headers=true", count=40)
    return sorted_lines(told)


@step
def console_consumer_at_offset(session):
    return consume(session, "defaults", "--partition", "0", "--offset", "5", "--formatter-property", "print.offset=true", count=2)


@step
def console_consumer_group(session):
    told = consume(session, "defaults", "--from-beginning", "--group", session.name("readers"), count=40)
    again = session.tool(CONSUME, "--topic", session.name("defaults"), "--group", session.name("readers"), "--timeout-ms", "6000")
    return [sorted_lines(told), again.out]


@step
def consumer_groups_list(session):
    told = session.tool(GROUPS, "--list").out + session.tool(GROUPS, "--list", "--state", "Empty").out
    return "\n".join(line for line in told.splitlines() if session.mark in line or "GROUP" in line)


@step
def consumer_groups_describe(session):
    group = ["--group", session.name("readers"), "--describe"]
    return [sorted_lines(session.tool(GROUPS, *group)), session.tool(GROUPS, *group, "--state"), session.tool(GROUPS, *group, "--members"),
            first_lines(session.tool(GROUPS, "--describe", "--group", session.name("nobody")))]


@step
def consumer_groups_describe_active(session):
    group = session.name("active")
    member = session.start(CONSUME, "--topic", session.name("defaults"), "--group", group, "--from-beginning")
    try:
        def stable():
            told = session.tool(GROUPS, "--group", group, "--describe", "--state")
            return told if "Stable" in told.out else None
        state = eventually("the group is stable", stable)
        members = session.tool(GROUPS, "--group", group, "--describe", "--members", "--verbose")
        offsets = sorted_lines(session.tool(GROUPS, "--group", group, "--describe", "--offsets"))
        offsets.out = re.sub(r"(defaults-\w+ +\d) +(\d+|-) +(\d+) +(\d+|-)", r"\1 <current> \3 <lag>", offsets.out)
        refused = first_lines(session.tool(GROUPS, "--group", group, "--reset-offsets", "--all-topics", "--to-earliest", "--execute"))
        return [state, members, offsets, refused, first_lines(session.tool(GROUPS, "--group", group, "--delete"), 2)]
    finally:
        member.kill()


def reset(session, *how):
    return sorted_lines(session.tool(GROUPS, "--group", session.name("readers"), "--reset-offsets", *how))


@step
def consumer_groups_reset_offsets(session):
    topic = session.name("defaults")
    one = ["--topic", f"{topic}:0"]
    whole = ["--topic", topic]
    return [reset(session, *whole, "--to-earliest", "--dry-run"), reset(session, *whole, "--to-earliest", "--execute"),
            reset(session, *one, "--to-offset", "3", "--execute"), reset(session, *one, "--shift-by", "2", "--execute"),
            reset(session, *one, "--to-offset", "1000000", "--execute"), reset(session, *whole, "--to-latest", "--execute"),
            reset(session, *whole, "--to-current", "--dry-run"), reset(session, *whole, "--to-datetime", "2020-01-01T00:00:00.000", "--execute"),
            reset(session, *whole, "--by-duration", "P1D", "--dry-run"), reset(session, "--all-topics", "--to-latest", "--dry-run", "--export"),
            sorted_lines(session.tool(GROUPS, "--group", session.name("readers"), "--describe"))]


@step
def consumer_groups_reset_from_file(session):
    plan = session.file("plan", f"{session.name('defaults')},1,2\n")
    return reset(session, "--from-file", plan, "--execute")


@step
def consumer_groups_delete_offsets(session):
    return [session.tool(GROUPS, "--group", session.name("readers"), "--delete-offsets", "--topic", session.name("defaults") + ":1"),
            sorted_lines(session.tool(GROUPS, "--group", session.name("readers"), "--describe"))]


@step
def consumer_groups_delete(session):
    return [session.tool(GROUPS, "--group", session.name("readers"), "--delete"),
            first_lines(session.tool(GROUPS, "--group", session.name("readers"), "--delete"), 3)]


@step
def groups_list(session):
    session.tool(GROUPS, "--group", session.name("listed"), "--reset-offsets", "--topic", session.name("defaults"), "--to-latest", "--execute")
    told = session.tool("GroupsCommand", "--list").out + session.tool("GroupsCommand", "--list", "--consumer").out
    return "\n".join(line for line in told.splitlines() if session.name("listed") in line or "GROUP" in line)


@step
def get_offsets(session):
    topic = ["--topic", session.name("defaults")]
    # Which record is the newest depends on how long the producer took.
    newest = re.sub(r":\d+$", ":<newest>", sorted_lines(session.tool(OFFSETS, *topic, "--time", "max-timestamp")).out, flags=re.M)
    return [sorted_lines(session.tool(OFFSETS, *topic)), sorted_lines(session.tool(OFFSETS, *topic, "--time", "earliest")),
            newest, sorted_lines(session.tool(OFFSETS, *topic, "--time", "0")),
            sorted_lines(session.tool(OFFSETS, *topic, "--partitions", "0,2", "--time", "-1")),
            sorted_lines(session.tool(OFFSETS, "--topic-partitions", session.name("defaults") + ":1-3")),
            sorted_lines(session.tool(OFFSETS, *topic, "--time", "earliest-local")),
            sorted_lines(session.tool(OFFSETS, *topic, "--time", "latest-tiered")),
            first_lines(session.tool(OFFSETS, "--topic", session.name("nowhere")))]


@step
def delete_records(session):
    topic = session.name("defaults")
    plan = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 3}, {"topic": topic, "partition": 1, "offset": -1}]}
    told = session.tool("DeleteRecordsCommand", "--offset-json-file", session.file("records", json.dumps(plan)))
    too_far = {"version": 1, "partitions": [{"topic": topic, "partition": 2, "offset": 1000}]}
    refused = session.tool("DeleteRecordsCommand", "--offset-json-file", session.file("refused", json.dumps(too_far)))
    return [sorted_lines(told), first_lines(refused, 3), sorted_lines(session.tool(OFFSETS, "--topic", topic, "--time", "earliest"))]


@step
def log_dirs(session):
    told = session.tool("LogDirsCommand", "--describe", "--topic-list", session.name("defaults") + "," + session.name("orders"))
    lines = told.out.splitlines()
    found = json.loads(lines[-1])
    rows = []
    for broker in found["brokers"]:
        for directory in broker["logDirs"]:
            rows.append(f"error {directory['error']}")
            for row in directory["partitions"]:
                used = row["size"] > 0 if session.name("defaults") in row["partition"] else row["size"] == 0
                rows.append(f"{row['partition']} lag {row['offsetLag']} future {row['isFuture']} size as expected: {used}")
    return [*lines[:-1], f"brokers {len(found['brokers'])}", *sorted(rows)]


@step
def configs_topic(session):
    topic = ["--entity-type", "topics", "--entity-name", session.name("orders")]
    return [session.tool(CONFIGS, *topic, "--describe"), session.tool(CONFIGS, *topic, "--alter", "--add-config", "retention.ms=7200000,cleanup.policy=[compact,delete]"),
            session.tool(CONFIGS, *topic, "--describe"), session.tool(CONFIGS, *topic, "--alter", "--delete-config", "retention.ms,cleanup.policy"),
            session.tool(CONFIGS, *topic, "--describe")]


@step
def configs_topic_refused(session):
    topic = ["--entity-type", "topics", "--entity-name", session.name("orders"), "--alter"]
    return [first_error(session.tool(CONFIGS, *topic, "--add-config", "no.such=1")), first_error(session.tool(CONFIGS, *topic, "--add-config", "retention.ms=x")),
            first_error(session.tool(CONFIGS, *topic, "--delete-config", "flush.ms"))]


def first_error(tool):
    """The first sentence that names an error, wherever it was printed."""
    lines = [line for line in (tool.out + "\n" + tool.err).splitlines() if line.strip()]
    tool.out, tool.err = next((line for line in lines if re.search(r"Exception: |Error: ", line)), (lines or [""])[0]), ""
    return tool


@step
def configs_topic_all(session):
    """Every setting of a topic with its value, and from where it comes."""
    return session.tool(CONFIGS, "--entity-type", "topics", "--entity-name", session.name("tuned"), "--describe", "--all")


@step
def configs_brokers(session):
    """The names of a broker's settings that are of use here, and a change of one."""
    broker = ["--entity-type", "brokers", "--entity-name", session.broker]
    told = session.tool(CONFIGS, *broker, "--describe", "--all").out
    wanted = ("auto.create.topics.enable", "compression.type", "default.replication.factor", "delete.topic.enable", "group.initial.rebalance.delay.ms",
              "group.max.session.timeout.ms", "log.cleanup.policy", "min.insync.replicas", "num.partitions", "offsets.retention.minutes")
    return [*(line for line in told.splitlines() if line.strip().split("=")[0] in wanted), session.tool(CONFIGS, *broker, "--describe")]


@step
def configs_brokers_alter(session):
    broker = ["--entity-type", "brokers", "--entity-name", session.broker]

    def described(given):
        """A broker takes a moment to learn of a change."""
        def shown():
            told = session.tool(CONFIGS, *broker, "--describe")
            return told if ("message.max.bytes" in told.out) == given else None
        return eventually("the change is seen", shown)

    changed = session.tool(CONFIGS, *broker, "--alter", "--add-config", "message.max.bytes=900000")
    if changed.code:
        return first_error(changed)
    return [changed, described(True), session.tool(CONFIGS, *broker, "--alter", "--delete-config", "message.max.bytes"), described(False)]


@step
def configs_brokers_alter_refused(session):
    broker = ["--entity-type", "brokers", "--entity-name", session.broker]
    refused = first_error(session.tool(CONFIGS, *broker, "--alter", "--add-config", "num.partitions=9"))
    return refused.out.split("]")[0]


@step
def configs_clients(session):
    return [session.tool(CONFIGS, "--entity-type", "clients", "--describe"), session.tool(CONFIGS, "--entity-type", "clients", "--entity-default", "--describe"),
            session.tool(CONFIGS, "--entity-type", "ips", "--describe")]


@step
def configs_clients_alter(session):
    client = ["--entity-type", "clients", "--entity-name", session.name("app")]
    return [session.tool(CONFIGS, *client, "--alter", "--add-config", "consumer_byte_rate=1000000"), session.tool(CONFIGS, *client, "--describe"),
            session.tool(CONFIGS, *client, "--alter", "--delete-config", "consumer_byte_rate")]


@step
def client_metrics(session):
    return [session.tool("ClientMetricsCommand", "--list"), session.tool("ClientMetricsCommand", "--describe")]


@step
def producer_perf(session):
    told = session.tool("ProducerPerformance", "--topic", session.name("orders"), "--num-records", "5000", "--record-size", "100", "--throughput", "-1")
    return [told.out.splitlines()[-1].split(",")[0], f"(code {told.code})"]


@step
def consumer_perf(session):
    told = session.tool("ConsumerPerformance", "--topic", session.name("orders"), "--num-records", "5000")
    header, row = [line for line in told.out.splitlines() if "," in line][:2]
    return [header, "records " + row.split(",")[4], f"(code {told.code})"]


@step
def end_to_end_latency(session):
    told = session.tool("EndToEndLatency", "--topic", session.name("tuned-latency"), "--num-records", "50", "--producer-acks", "all", "--record-size", "20")
    return [numbers(line) for line in told.out.splitlines() if line.startswith(("Avg", "Percentiles"))] + [f"(code {told.code})"]


def counted(text):
    """How often each kind of JSON line was printed, of those whose number is certain."""
    names = [json.loads(line)["name"] for line in text.splitlines() if line.startswith("{")]
    wanted = ("startup_complete", "shutdown_complete", "producer_send_success", "producer_send_error")
    return [f"{name} {names.count(name)}" for name in wanted if name in names]


@step
def verifiable_producer(session):
    told = session.process("VerifiableProducer", "--topic", session.name("verified"), "--max-messages", "500", "--throughput", "-1")
    last = next(json.loads(line) for line in told.out.splitlines() if '"tool_data"' in line)
    return [*counted(told.out), f"sent {last['sent']} acked {last['acked']}", f"(code {told.code})"]


@step
def verifiable_consumer(session):
    told = session.process("VerifiableConsumer", "--topic", session.name("verified"), "--group-id", session.name("verifiers"), "--max-messages", "500",
                        "--reset-policy", "earliest")
    lines = [json.loads(line) for line in told.out.splitlines() if line.startswith("{")]
    read = sum(line["count"] for line in lines if line["name"] == "records_consumed")
    committed = {(o["partition"], o["offset"]) for line in lines if line["name"] == "offsets_committed" for o in line["offsets"]}
    good = all(line["success"] for line in lines if line["name"] == "offsets_committed")
    return [*counted(told.out), f"read {read}", f"commits good: {good}, some: {bool(committed)}", f"(code {told.code})"]


@step
def leader_election(session):
    return [session.tool("LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions"),
            session.tool("LeaderElectionCommand", "--election-type", "preferred", "--topic", session.name("orders"), "--partition", "0"),
            session.tool("LeaderElectionCommand", "--election-type", "unclean", "--topic", session.name("orders"), "--partition", "0"),
            first_error(session.tool("LeaderElectionCommand", "--election-type", "preferred", "--topic", session.name("nowhere"), "--partition", "0"))]


@step
def reassign_partitions(session):
    tool = "reassign.ReassignPartitionsCommand"
    topics = session.file("topics", json.dumps({"version": 1, "topics": [{"topic": session.name("orders")}]}))
    replicas = [{"topic": session.name("orders"), "partition": 0, "replicas": [int(session.broker)]}]
    plan = session.file("reassign", json.dumps({"version": 1, "partitions": replicas}))
    proposed = session.tool(tool, "--topics-to-move-json-file", topics, "--broker-list", session.broker, "--generate")
    return [proposed, session.tool(tool, "--reassignment-json-file", plan, "--execute"),
            session.tool(tool, "--reassignment-json-file", plan, "--verify"), session.tool(tool, "--list"),
            session.tool(tool, "--reassignment-json-file", plan, "--cancel")]


@step
def reassign_partitions_to_nowhere(session):
    replicas = [{"topic": session.name("orders"), "partition": 0, "replicas": [int(session.broker) + 77]}]
    plan = session.file("nowhere", json.dumps({"version": 1, "partitions": replicas}))
    told = session.tool("reassign.ReassignPartitionsCommand", "--reassignment-json-file", plan, "--execute")
    return re.sub(r"\d{2,}", "<n>", first_error(told).text())


@step
def features(session):
    """That metadata.version is finalized, and that what is not supported is refused."""
    told = session.tool("FeatureCommand", "describe").out
    found = re.search(r"Feature: metadata.version\s+SupportedMinVersion: \S+\s+SupportedMaxVersion: \S+\s+FinalizedVersionLevel: 4\.\d\S*\s+Epoch: \d+", told)
    refused = session.tool("FeatureCommand", "upgrade", "--feature", "no.such=1", "--dry-run")
    return [f"metadata.version is told: {bool(found)}", first_error(refused)]


@step
def metadata_quorum(session):
    """That there is a leader, and that nobody is behind it."""
    told = session.tool("MetadataQuorumCommand", "describe", "--status")
    keys = [line.split(":")[0] for line in told.out.splitlines()]
    lag = [line for line in told.out.splitlines() if line.startswith(("MaxFollowerLag:", "LeaderId"))]
    table = session.tool("MetadataQuorumCommand", "describe", "--replication").out.splitlines()
    rows = [f"{line.split()[0]} lag {line.split()[3]} {line.split()[-1]}" for line in table[1:]]
    return [*keys, *lag, table[0], "\n".join(re.sub(r"^\d+", "<broker>", row) for row in rows)]


@step
def cluster(session):
    other = str(int(session.broker) + 77)
    server = ["--bootstrap-server", session.bootstrap]
    unregistered = session.tool("ClusterTool", "unregister", *server, "--id", other, server=False)
    return [session.tool("ClusterTool", "cluster-id", *server, server=False), session.tool("ClusterTool", "list-endpoints", *server, server=False),
            first_error(unregistered).text().replace(other, "<other>")]


@step
def describe_producers(session):
    told = session.tool("TransactionsCommand", "describe-producers", "--topic", session.name("defaults"), "--partition", "2")
    header, *rows = [line.split() for line in told.out.splitlines()]
    return [" ".join(header), *(f"epoch {row[1]} coordinator {row[2]} sequence {row[3]} transaction {row[5]}" for row in rows), f"(code {told.code})"]


@step
def topics_delete(session):
    deleted = session.tool(TOPICS, "--delete", "--topic", session.name("orders"))
    again = first_lines(session.tool(TOPICS, "--delete", "--topic", session.name("orders")))
    left = session.tool(TOPICS, "--list").out
    return [deleted, again, "\n".join(line for line in left.splitlines() if line == session.name("orders"))]
