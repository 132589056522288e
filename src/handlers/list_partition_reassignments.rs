//! ListPartitionReassignments: none is ever under way.
//!
//! Behavior: partitions have no replicas that clients could move, so the list is empty, whatever is asked for. Kafka, too,
//! leaves out topics and partitions that are not there.

use super::{Context, Outcome};
use crate::protocol::messages::list_partition_reassignments::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
};

pub fn handle(cx: &Context, _: ListPartitionReassignmentsRequest) -> Outcome {
    cx.reply(&ListPartitionReassignmentsResponse::default())
}
