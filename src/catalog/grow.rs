//! More partitions for a topic that is there: all of them or none.
//!
//! The new streams are made from the last down, each moved to a sequence range of its own, and nobody takes them for
//! partitions before partition 0 counts them: its update is the change. What a gateway that died left beyond that count
//! is removed by the next who tries.

use super::alter::AlterTopicError;
use super::claim::Claim;
use super::room::Asked;
use super::streams::{PARTITIONS_MAX, Standing};
use super::{Catalog, LOOK_TIMEOUT, Topic, names};
use crate::store::{StoreError, StoreResult};
use slog::{info, warn};
use std::sync::Arc;
use std::time::Instant;

impl Catalog {
    /// How many partitions a topic would gain; refused if `count` is no increase.
    pub fn validate_growth(topic: &Topic, count: i32) -> Result<usize, AlterTopicError> {
        let present = topic.partitions.len();
        let wrong = |text: String| Err(AlterTopicError::InvalidPartitions(text));
        match usize::try_from(count) {
            Ok(count) if count == present => wrong(format!("Topic already has {present} partition(s).")),
            Ok(count) if count > PARTITIONS_MAX => {
                wrong(format!("A topic has {PARTITIONS_MAX} partitions at most, not {count}."))
            }
            Ok(count) if count > present => Ok(count - present),
            _ => wrong(format!(
                "The topic {} currently has {present} partition(s); {count} would not be an increase.",
                topic.name
            )),
        }
    }

    /// Gives a topic more partitions.
    pub fn grow(&self, name: &str, count: i32, deadline: Instant) -> Result<(), AlterTopicError> {
        let unknown = || AlterTopicError::Unknown(name.to_owned());
        Catalog::validate_growth(&*self.topic(name)?.ok_or_else(unknown)?, count)?;
        let _turn = self.take_turn(name, deadline)?;
        let mut claim = self.claim(name, deadline)?;
        let topic = match self.examine(name)? {
            Some(Standing::Whole(known)) => known.topic,
            _ => return Err(unknown()),
        };
        let outcome = self.grow_claimed(&topic, count, &mut claim);
        if matches!(outcome, Err(AlterTopicError::Store(StoreError::NoAnswer))) {
            claim.keep();
        }
        drop(claim);
        self.invalidate(name);
        outcome
    }

    fn grow_claimed(&self, topic: &Arc<Topic>, count: i32, claim: &mut Claim) -> Result<(), AlterTopicError> {
        let present = topic.partitions.len();
        let count = present + Catalog::validate_growth(topic, count)?;
        let mut zero = self.part(&topic.name, Some(topic.id), 0, claim)?;
        match zero.partition_count() {
            Some(count) if count == present && zero.id.is_some() => {}
            // One of the two looks was old news.
            Some(count) if count != present => return Err(StoreError::Unavailable.into()),
            // Made by an older gateway: from now on it says itself how many there are.
            _ => {
                self.commit(&zero, &zero.adopted(topic), claim)?;
                zero = self.part(&topic.name, Some(topic.id), 0, claim)?;
            }
        }
        for partition in (present..count).rev() {
            let by = claim.deadline()?;
            let left = self.remove_uncounted(topic, partition, by);
            let config = |first| zero.sibling(partition, count, first);
            if let Err(error) = left.and_then(|()| self.make_stream(&config, by)) {
                if error == StoreError::StreamExists {
                    self.remove_beyond(topic, partition + 1, count);
                    let stream = names::stream(&topic.name, partition);
                    let text = format!(
                        "'{stream}' is in the way of a new partition: it holds messages, or is not the topic's."
                    );
                    return Err(AlterTopicError::InvalidPartitions(text));
                }
                self.remove_beyond(topic, partition, count);
                let bytes = zero.limits().max_bytes.unwrap_or(-1);
                let asked = Asked { partitions: count - present, bytes, replicas: zero.replicas() };
                return Err(match self.no_room(&error, &asked) {
                    Some(text) => AlterTopicError::NoRoom(text),
                    None => AlterTopicError::Store(error),
                });
            }
        }
        match self.commit(&zero, &zero.with_partitions(count), claim) {
            Ok(()) => {
                info!(self.logger, "topic has more partitions"; "topic" => &topic.name, "partitions" => count);
                Ok(())
            }
            // It may hold yet: the streams must stay.
            Err(StoreError::NoAnswer) => Err(StoreError::NoAnswer.into()),
            Err(error) => {
                self.remove_beyond(topic, present, count);
                Err(error.into())
            }
        }
    }

    /// Removes what a growth cut short has left of a partition. Nobody writes to a stream that is not counted: one with messages is
    /// left where it is.
    fn remove_uncounted(&self, topic: &Topic, partition: usize, deadline: Instant) -> StoreResult<()> {
        let stream = names::stream(&topic.name, partition);
        match self.persist(deadline, |call| self.store.stream_info(&stream, call)) {
            Ok(info) if info.state.messages > 0 => {
                warn!(self.logger, "a stream that is not counted as a partition has messages, and is left"; "stream" => stream);
                Err(StoreError::StreamExists)
            }
            Ok(_) => self.remove_stream(&topic.name, partition, topic.id, deadline),
            Err(StoreError::NoStream) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes a topic's streams of these partitions, which are not counted.
    fn remove_beyond(&self, topic: &Topic, from: usize, to: usize) {
        let deadline = self.clock.now().mono + LOOK_TIMEOUT;
        for partition in from..to {
            if let Err(error) = self.remove_uncounted(topic, partition, deadline) {
                let stream = names::stream(&topic.name, partition);
                warn!(self.logger, "a stream of a partition that was not made is left"; "stream" => stream, "error" => %error);
                return;
            }
        }
    }
}
