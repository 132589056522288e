//! What administrators and their tools ask for.

use super::*;
use crate::protocol::features::FEATURES;
use crate::protocol::messages::alter_client_quotas::{AlterClientQuotasRequest, EntityData, EntryData, OpData};
use crate::protocol::messages::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic,
};
use crate::protocol::messages::alter_replica_log_dirs::{
    AlterReplicaLogDir, AlterReplicaLogDirTopic, AlterReplicaLogDirsRequest,
};
use crate::protocol::messages::describe_client_quotas::{ComponentData, DescribeClientQuotasRequest};
use crate::protocol::messages::describe_log_dirs::{
    DescribableLogDirTopic, DescribeLogDirsRequest, DescribeLogDirsResult,
};
use crate::protocol::messages::describe_producers::{DescribeProducersRequest, TopicRequest as ProducersOf};
use crate::protocol::messages::describe_quorum::{DescribeQuorumRequest, PartitionRequest, TopicRequest as QuorumOf};
use crate::protocol::messages::describe_topic_partitions::{
    Cursor, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, TopicRequest,
};
use crate::protocol::messages::elect_leaders::{ElectLeadersRequest, TopicPartitions};
use crate::protocol::messages::get_telemetry_subscriptions::GetTelemetrySubscriptionsRequest;
use crate::protocol::messages::list_config_resources::ListConfigResourcesRequest;
use crate::protocol::messages::list_partition_reassignments::ListPartitionReassignmentsRequest;
use crate::protocol::messages::unregister_broker::UnregisterBrokerRequest;
use crate::protocol::messages::update_features::{FeatureUpdateKey, UpdateFeaturesRequest};
use crate::records::build::BatchBuilder;

fn log_dir(rig: &Rig, topics: Option<Vec<DescribableLogDirTopic>>) -> DescribeLogDirsResult {
    let response = rig.ask(4, &DescribeLogDirsRequest { topics });
    assert_eq!((response.error_code, response.results.len()), (0, 1));
    response.results.into_iter().next().expect("one")
}

#[test]
fn the_log_directory_has_every_partition_with_the_size_of_its_stream() {
    let rig = Rig::new();
    rig.create(topic("a", 2, 1));
    rig.create(topic("b", 1, 1));
    let before = log_dir(&rig, None);
    let sizes = |dir: &DescribeLogDirsResult, name: &str| -> Vec<(i32, i64)> {
        let topic = dir.topics.iter().find(|topic| topic.name == name).expect("it is there");
        topic.partitions.iter().map(|row| (row.partition_index, row.partition_size)).collect()
    };
    assert_eq!((sizes(&before, "a"), sizes(&before, "b")), (vec![(0, 0), (1, 0)], vec![(0, 0)]));
    assert_eq!((before.total_bytes, before.usable_bytes), (-1, -1), "no limit is known");
    rig.store.publish_foreign("kafka.a.1", "some bytes").expect("the memory takes it");
    let after = sizes(&log_dir(&rig, None), "a");
    assert!(after[0] == (0, 0) && after[1].1 >= 10, "{after:?}");

    let asked = DescribableLogDirTopic { topic: "a".to_owned(), partitions: vec![1, 7] };
    let unknown = DescribableLogDirTopic { topic: "x".to_owned(), partitions: vec![0] };
    let some = log_dir(&rig, Some(vec![asked, unknown]));
    assert_eq!(some.topics.len(), 1, "what is not there is left out");
    assert_eq!(some.topics[0].partitions.iter().map(|row| row.partition_index).collect::<Vec<_>>(), [1]);
    assert_eq!(log_dir(&rig, Some(Vec::new())).topics, []);

    rig.store.set_outage(Some(Outage::NoAnswer));
    let away = log_dir(&rig, None);
    check(away.error_code, ErrorCode::KAFKA_STORAGE_ERROR);
    assert_eq!(away.log_dir, before.log_dir);
}

#[test]
fn partitions_stay_in_their_directory_and_brokers_in_the_cluster() {
    let rig = Rig::new();
    rig.create(topic("t", 1, 1));
    let path = log_dir(&rig, None).log_dir;
    let outcome = |path: &str, name: &str, index: i32| {
        let topics = vec![AlterReplicaLogDirTopic { name: name.to_owned(), partitions: vec![index] }];
        let dirs = vec![AlterReplicaLogDir { path: path.to_owned(), topics }];
        let response = rig.ask(2, &AlterReplicaLogDirsRequest { dirs });
        assert_eq!(response.results[0].topic_name, name);
        ErrorCode::from_code(response.results[0].partitions[0].error_code)
    };
    assert_eq!(outcome(&path, "t", 0), ErrorCode::NONE, "it is there");
    assert_eq!(outcome("/elsewhere", "t", 0), ErrorCode::LOG_DIR_NOT_FOUND);
    assert_eq!(outcome("/elsewhere", "x", 0), ErrorCode::LOG_DIR_NOT_FOUND);
    assert_eq!(outcome(&path, "t", 1), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(outcome(&path, "x", 0), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);

    let unregister = |broker_id| rig.ask(0, &UnregisterBrokerRequest { broker_id }).error_code;
    check(unregister(4), ErrorCode::BROKER_ID_NOT_REGISTERED);
    check(unregister(3), ErrorCode::POLICY_VIOLATION);
}

#[test]
fn replicas_stay_where_they_are() {
    let rig = Rig::new();
    rig.create(topic("t", 1, 1));
    let outcome = |name: &str, index: i32, replicas: Option<&[i32]>, may_resize: bool| {
        let replicas = replicas.map(<[i32]>::to_vec);
        let partitions = vec![ReassignablePartition { partition_index: index, replicas }];
        let request = AlterPartitionReassignmentsRequest {
            allow_replication_factor_change: may_resize,
            topics: vec![ReassignableTopic { name: name.to_owned(), partitions }],
            ..Default::default()
        };
        let response = rig.ask(1, &request);
        assert_eq!((response.error_code, response.allow_replication_factor_change), (0, may_resize));
        ErrorCode::from_code(response.responses[0].partitions[0].error_code)
    };
    assert_eq!(outcome("t", 0, Some(&[3]), true), ErrorCode::NONE, "it is there already");
    assert_eq!(outcome("t", 0, None, true), ErrorCode::NO_REASSIGNMENT_IN_PROGRESS);
    for replicas in [&[][..], &[4], &[3, 3], &[3, 4]] {
        assert_eq!(outcome("t", 0, Some(replicas), true), ErrorCode::INVALID_REPLICA_ASSIGNMENT, "{replicas:?}");
    }
    assert_eq!(outcome("t", 1, Some(&[3]), true), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(outcome("t", -1, Some(&[3]), true), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(outcome("x", 0, Some(&[3]), true), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(outcome("t", 0, Some(&[3]), false), ErrorCode::NONE);
    let listed = rig.ask(0, &ListPartitionReassignmentsRequest::default());
    assert_eq!((listed.error_code, listed.topics.len()), (0, 0));
}

#[test]
fn no_election_is_ever_needed() {
    let rig = Rig::new();
    rig.create(topic("t", 1, 1));
    let elect = |version: i16, election_type: i8, asked: Option<Vec<(&str, Vec<i32>)>>| {
        let topic = |(name, partitions): (&str, Vec<i32>)| TopicPartitions { topic: name.to_owned(), partitions };
        let topic_partitions = asked.map(|topics| topics.into_iter().map(topic).collect());
        rig.ask(version, &ElectLeadersRequest { election_type, topic_partitions, ..Default::default() })
    };
    for (version, election_type) in [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1)] {
        let asked = vec![("t", vec![0, 1]), ("x", vec![0])];
        let response = elect(version, election_type, Some(asked));
        assert_eq!(response.error_code, 0);
        let codes: Vec<Vec<i16>> = response
            .replica_election_results
            .iter()
            .map(|topic| topic.partition_result.iter().map(|row| row.error_code).collect())
            .collect();
        assert_eq!(codes, [vec![84, 3], vec![3]], "version {version}");
        let all = elect(version, election_type, None).replica_election_results;
        assert_eq!(all.len(), 1);
        assert!(all[0].topic == "t" && all[0].partition_result.is_empty(), "those without need are left out");
    }
    let response = elect(2, 9, Some(vec![("t", vec![0])]));
    check(response.error_code, ErrorCode::INVALID_REQUEST);
    check(response.replica_election_results[0].partition_result[0].error_code, ErrorCode::INVALID_REQUEST);
}

/// Names with their partitions, and where the next page begins.
type Page = (Vec<(String, Vec<i32>)>, Option<(String, i32)>);

fn page(response: DescribeTopicPartitionsResponse) -> Page {
    let rows = response.topics.into_iter().map(|topic| {
        let indexes = topic.partitions.iter().map(|partition| partition.partition_index).collect();
        (topic.name.expect("a name"), indexes)
    });
    (rows.collect(), response.next_cursor.map(|cursor| (cursor.topic_name, cursor.partition_index)))
}

fn partitions_of(names: &[&str], limit: i32, cursor: Option<(&str, i32)>) -> DescribeTopicPartitionsRequest {
    DescribeTopicPartitionsRequest {
        topics: names.iter().map(|name| TopicRequest { name: (*name).to_owned() }).collect(),
        response_partition_limit: limit,
        cursor: cursor.map(|(name, partition_index)| Cursor { topic_name: name.to_owned(), partition_index }),
    }
}

#[test]
fn partitions_are_told_page_by_page() {
    let rig = Rig::new();
    for (name, partitions) in [("b", 3), ("a", 2), ("c", 1)] {
        rig.create(topic(name, partitions, 1));
    }
    let ask = |names: &[&str], limit, cursor| page(rig.ask(0, &partitions_of(names, limit, cursor)));
    let row = |name: &str, indexes: &[i32]| (name.to_owned(), indexes.to_vec());
    let all = vec![row("a", &[0, 1]), row("b", &[0, 1, 2]), row("c", &[0])];
    assert_eq!(ask(&[], 2000, None), (all.clone(), None));
    assert_eq!(ask(&["c", "a", "b", "a"], 6, None), (all, None), "by name, each once");
    assert_eq!(ask(&[], 2, None), (vec![row("a", &[0, 1])], Some(("b".to_owned(), 0))));
    assert_eq!(ask(&[], 3, Some(("a", 1))), (vec![row("a", &[1]), row("b", &[0, 1])], Some(("b".to_owned(), 2))));
    assert_eq!(
        ask(&["a", "b", "c"], 0, Some(("b", 2))),
        (vec![row("b", &[2])], Some(("c".to_owned(), 0))),
        "at least one"
    );
    assert_eq!(ask(&[], 9, Some(("bb", 5))), (vec![row("c", &[0])], None), "a topic of the cursor that is gone");
    assert_eq!(ask(&[], 9, Some(("b", 7))), (vec![row("b", &[]), row("c", &[0])], None), "a cursor behind the end");
    assert_eq!(rig.streams(), 6, "none is made");
}

#[test]
fn topic_partitions_are_told_in_full() {
    let rig = Rig::new();
    let made = rig.create(topic("t", 1, 1));
    let response = rig.ask(0, &partitions_of(&["t", "missing", "not legal"], 2000, None));
    let codes: Vec<_> = response.topics.iter().map(|topic| (topic.name.as_deref(), topic.error_code)).collect();
    assert_eq!(codes, [(Some("missing"), 3), (Some("not legal"), 17), (Some("t"), 0)]);
    let told = &response.topics[2];
    assert_eq!((told.topic_id, told.is_internal), (made.topic_id, false));
    let partition = &told.partitions[0];
    assert_eq!((partition.leader_id, partition.leader_epoch), (3, 0));
    assert_eq!((&partition.replica_nodes[..], &partition.isr_nodes[..]), (&[3][..], &[3][..]));
    assert_eq!(
        (partition.eligible_leader_replicas.as_deref(), partition.last_known_elr.as_deref()),
        (Some(&[][..]), Some(&[][..]))
    );
    assert!(told.topic_authorized_operations > 0);
    for cursor in [("t", -1), ("other", 0)] {
        let refused = rig.ask(0, &partitions_of(&["t"], 10, Some(cursor)));
        check(refused.topics[0].error_code, ErrorCode::INVALID_REQUEST);
    }
    let cold = Rig::new();
    cold.store.set_outage(Some(Outage::NoAnswer));
    assert_eq!(cold.try_ask(0, &partitions_of(&[], 10, None)), None, "an empty list would be taken for the truth");
    check(cold.ask(0, &partitions_of(&["t"], 10, None)).topics[0].error_code, ErrorCode::LEADER_NOT_AVAILABLE);
}

#[test]
fn the_quorum_is_this_gateway() {
    let rig = Rig::new();
    let ask = |version, name: &str, index: i32| {
        let partitions = vec![PartitionRequest { partition_index: index }];
        let topics = vec![QuorumOf { topic_name: name.to_owned(), partitions }];
        rig.ask(version, &DescribeQuorumRequest { topics })
    };
    for version in 0..=2 {
        let response = ask(version, "__cluster_metadata", 0);
        let quorum = &response.topics[0].partitions[0];
        assert_eq!((response.error_code, quorum.error_code, quorum.leader_id), (0, 0, 3));
        assert_eq!(quorum.current_voters.iter().map(|voter| voter.replica_id).collect::<Vec<_>>(), [3]);
        assert!(quorum.observers.is_empty());
        if version >= 2 {
            let node = &response.nodes[0];
            assert_eq!(
                (node.node_id, node.listeners[0].host.as_str(), node.listeners[0].port),
                (3, "kafka.example", 9092)
            );
        }
        for (name, index) in [("t", 0), ("__cluster_metadata", 1)] {
            let refused = ask(version, name, index);
            check(refused.topics[0].partitions[0].error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        }
    }
}

#[test]
fn what_has_settings_is_listed() {
    let rig = Rig::new();
    rig.create(topic("t", 1, 1));
    let ask = |version, kinds: &[i8]| rig.ask(version, &ListConfigResourcesRequest { resource_types: kinds.to_vec() });
    let listed = |kinds: &[i8]| -> Vec<(i8, String)> {
        let response = ask(1, kinds);
        assert_eq!(response.error_code, 0);
        response.config_resources.into_iter().map(|row| (row.resource_type, row.resource_name)).collect()
    };
    let row = |kind: i8, name: &str| (kind, name.to_owned());
    assert_eq!(listed(&[]), [row(8, "3"), row(4, "3"), row(2, "t")]);
    assert_eq!(listed(&[2]), [row(2, "t")]);
    assert_eq!(listed(&[4]), [row(4, "3")]);
    assert_eq!(listed(&[16, 32]), []);
    check(ask(1, &[2, 64]).error_code, ErrorCode::UNSUPPORTED_VERSION);
    let response = ask(0, &[]);
    assert_eq!((response.error_code, response.config_resources.len()), (0, 0), "client metrics only");
}

#[test]
fn quotas_are_none_and_stay_none() {
    let rig = Rig::new();
    let component = |kind: &str, match_type, name: Option<&str>| ComponentData {
        entity_type: kind.to_owned(),
        match_type,
        matched: name.map(str::to_owned),
    };
    let describe = |components| rig.ask(1, &DescribeClientQuotasRequest { components, strict: false });
    let none = describe(vec![component("user", 0, Some("u")), component("client-id", 2, None)]);
    assert_eq!((none.error_code, none.entries), (0, Some(Vec::new())));
    for (components, code) in [
        (vec![component("user", 0, None)], ErrorCode::INVALID_REQUEST),
        (vec![component("user", 1, Some("u"))], ErrorCode::INVALID_REQUEST),
        (vec![component("user", 3, None)], ErrorCode::INVALID_REQUEST),
        (vec![component("user", 2, None), component("user", 2, None)], ErrorCode::INVALID_REQUEST),
        (vec![component("user", 2, None), component("ip", 2, None)], ErrorCode::INVALID_REQUEST),
        (vec![component("", 2, None)], ErrorCode::INVALID_REQUEST),
        (vec![component("group", 2, None)], ErrorCode::UNSUPPORTED_VERSION),
    ] {
        let refused = describe(components);
        check(refused.error_code, code);
        assert_eq!(refused.entries, None);
    }

    let alter = |entity: &[(&str, Option<&str>)], ops: &[(&str, f64, bool)]| {
        let part = |(kind, name): &(&str, Option<&str>)| EntityData {
            entity_type: (*kind).to_owned(),
            entity_name: name.map(str::to_owned),
        };
        let op = |(key, value, remove): &(&str, f64, bool)| OpData {
            key: (*key).to_owned(),
            value: *value,
            remove: *remove,
        };
        let entries = vec![EntryData { entity: entity.iter().map(part).collect(), ops: ops.iter().map(op).collect() }];
        let response = rig.ask(1, &AlterClientQuotasRequest { entries, validate_only: false });
        let row = &response.entries[0];
        assert_eq!(row.entity.len(), entity.len(), "the entity comes back");
        ErrorCode::from_code(row.error_code)
    };
    let user = [("user", Some("u"))];
    let rate = "consumer_byte_rate";
    assert_eq!(alter(&user, &[(rate, 1024.0, false)]), ErrorCode::POLICY_VIOLATION, "nobody would enforce it");
    assert_eq!(alter(&user, &[(rate, 0.0, true)]), ErrorCode::NONE, "there is none to remove");
    assert_eq!(
        alter(&[("ip", Some("10.0.0.1"))], &[("connection_creation_rate", 5.0, false)]),
        ErrorCode::POLICY_VIOLATION
    );
    let no_entity: &[(&str, Option<&str>)] = &[];
    for (entity, ops) in [
        (no_entity, &[(rate, 1.0, false)][..]),
        (&[("user", Some(""))], &[(rate, 1.0, false)]),
        (&[("user", None), ("user", None)], &[(rate, 1.0, false)]),
        (&[("user", None), ("ip", None)], &[(rate, 1.0, false)]),
        (&[("group", None)], &[(rate, 1.0, false)]),
        (&[("ip", Some("not an address"))], &[("connection_creation_rate", 5.0, false)]),
        (&[("ip", None)], &[(rate, 1.0, false)]),
        (&user, &[("no_such_rate", 1.0, false)]),
        (&user, &[(rate, 0.0, false)]),
        (&user, &[(rate, 1.5, false)]),
        (&user, &[(rate, 1.0, false), (rate, 2.0, false)]),
    ] {
        assert_eq!(alter(entity, ops), ErrorCode::INVALID_REQUEST, "{entity:?} {ops:?}");
    }
}

#[test]
fn no_client_metrics_are_wanted() {
    let rig = Rig::new();
    let response = rig.ask(0, &GetTelemetrySubscriptionsRequest::default());
    assert_ne!(response.client_instance_id, Uuid::ZERO, "an id is given");
    assert_eq!((response.error_code, response.requested_metrics.len()), (0, 0));
    assert!(response.push_interval_ms > 0);
    let known = Uuid([9; 16]);
    let again = rig.ask(0, &GetTelemetrySubscriptionsRequest { client_instance_id: known });
    assert_eq!(again.client_instance_id, known, "an id is kept");
}

#[test]
fn features_are_told_and_cannot_be_moved() {
    let rig = Rig::new();
    let name = "client".to_owned();
    let request = ApiVersionsRequest { client_software_name: name.clone(), client_software_version: name };
    let told = rig.ask(4, &request);
    assert!(told.finalized_features_epoch >= 0, "clients take finalized features with an epoch only");
    let finalized: Vec<_> = told.finalized_features.iter().map(|f| (f.name.as_str(), f.max_version_level)).collect();
    assert_eq!(finalized, [("metadata.version", 25)], "neither transaction.version nor group.version");
    assert_eq!(told.supported_features.len(), FEATURES.len());

    let update = |version: i16, updates: &[(&str, i16, i8)]| {
        let row = |(feature, level, kind): &(&str, i16, i8)| FeatureUpdateKey {
            feature: (*feature).to_owned(),
            max_version_level: *level,
            upgrade_type: *kind,
            ..Default::default()
        };
        let feature_updates = updates.iter().map(row).collect();
        rig.ask(version, &UpdateFeaturesRequest { feature_updates, ..Default::default() })
    };
    let same = update(1, &[("metadata.version", 25, 1)]);
    assert_eq!((same.error_code, same.results.len(), same.results[0].error_code), (0, 1, 0));
    assert_eq!(update(2, &[("metadata.version", 25, 1)]).results, []);
    assert_eq!(update(2, &[("transaction.version", 0, 2)]).error_code, 0, "it is 0 already");
    for refused in [
        &[("metadata.version", 26, 1)][..],
        &[("metadata.version", 24, 2)],
        &[("metadata.version", 0, 3)],
        &[("metadata.version", -1, 1)],
        &[("metadata.version", 25, 7)],
        &[("transaction.version", 2, 1)],
        &[("group.version", 1, 1)],
        &[("metadata.version", 25, 1), ("no.such.feature", 1, 1)],
    ] {
        let response = update(2, refused);
        check(response.error_code, ErrorCode::INVALID_UPDATE_VERSION);
        let text = response.error_message.expect("it says why");
        assert!(text.contains(refused.last().expect("one").0), "{text}");
    }
}

#[test]
fn remembered_producers_are_told() {
    let rig = Rig::new();
    rig.create(topic("t", 2, 1));
    let ask = |name: &str, indexes: &[i32]| {
        let topics = vec![ProducersOf { name: name.to_owned(), partition_indexes: indexes.to_vec() }];
        rig.ask(0, &DescribeProducersRequest { topics }).topics.remove(0).partitions
    };
    let rows = ask("t", &[0, 5]);
    assert_eq!((rows[0].error_code, rows[0].active_producers.len()), (0, 0));
    check(rows[1].error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    check(ask("x", &[0])[0].error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    check(ask("not legal", &[0])[0].error_code, ErrorCode::INVALID_TOPIC_EXCEPTION);

    for (id, epoch, base_offset) in [(9, 0, 0), (7, 2, 2)] {
        let batch = BatchBuilder::new().base_offset(base_offset).producer(id, epoch, 40).value("a").value("b");
        rig.store.publish_foreign("kafka.t.1", batch.build()).expect("the memory takes it");
    }
    let told = &ask("t", &[1])[0].active_producers;
    let told: Vec<_> = told.iter().map(|row| (row.producer_id, row.producer_epoch, row.last_sequence)).collect();
    assert_eq!(told, [(7, 2, 41), (9, 0, 41)]);
}
