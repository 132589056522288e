//! Fetch: what is told of a store that fails.

use super::*;
use crate::protocol::messages::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic};

impl Rig {
    /// Asks what is parked once, `later`.
    fn fetch(&self, request: &FetchRequest, later: Duration) -> Option<FetchResponse> {
        let outcome = self.gateway.dispatch(Bytes::from(frame_of(12, request)), PEER);
        self.clock.advance(later);
        let outcome = match outcome {
            Outcome::Park(mut parked) => parked.poll(self.clock.now())?,
            outcome => outcome,
        };
        let Outcome::Reply(reply) = outcome else { panic!("it is answered") };
        let (_, response) = frame::read_response::<FetchRequest>(12, Bytes::from(reply).slice(4..)).expect("readable");
        Some(response)
    }
}

fn from_the_start(topic: &str) -> FetchRequest {
    let partition = FetchPartition { partition_max_bytes: 1_048_576, ..Default::default() };
    let topic = FetchTopic { topic: topic.to_owned(), partitions: vec![partition], ..Default::default() };
    FetchRequest { max_bytes: 1_048_576, topics: vec![topic], ..Default::default() }
}

/// Java's consumer throws an IllegalStateException out of poll() at any code that it does not expect in a Fetch.
const EXPECTED: [ErrorCode; 2] = [ErrorCode::NOT_LEADER_OR_FOLLOWER, ErrorCode::KAFKA_STORAGE_ERROR];

#[test]
fn a_store_that_is_away_is_told_with_codes_that_consumers_expect() {
    for outage in [Outage::NoAnswer, Outage::Unavailable] {
        let rig = Rig::new();
        rig.create(topic("t", 1, 1));
        rig.store.set_outage(Some(outage));
        let response = rig.fetch(&from_the_start("t"), Duration::ZERO).expect("an error is told at once");
        let code = ErrorCode::from_code(response.responses[0].partitions[0].error_code);
        assert!(EXPECTED.contains(&code), "of a log that was never loaded: {code:?}");
        let response = rig.fetch(&from_the_start("unknown"), Duration::ZERO).expect("an error is told at once");
        let code = ErrorCode::from_code(response.responses[0].partitions[0].error_code);
        assert!(EXPECTED.contains(&code), "of a topic that cannot be looked for: {code:?}");
    }
}
