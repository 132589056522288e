//! Fetch: when an answer is full.

use super::*;
use crate::protocol::messages::fetch::FetchResponse;
use crate::records::build::BatchBuilder;

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

#[test]
fn an_answer_that_holds_all_it_may_waits_for_no_more() {
    let rig = Rig::new();
    rig.create(topic("t", 1, 1));
    for offset in 0..4 {
        let batch = BatchBuilder::new().base_offset(offset).record(None, Some(&[7; 500])).build();
        rig.store.publish_foreign("kafka.t.0", batch).expect("the memory stores it");
    }
    let patient = FetchRequest { max_wait_ms: 60_000, ..from_the_start("t") };
    let less = FetchRequest { min_bytes: 100_000, max_bytes: 1_000, ..patient.clone() };
    let response = rig.fetch(&less, Duration::ZERO).expect("max_bytes is below min_bytes");
    assert!(response.responses[0].partitions[0].records.as_ref().is_some_and(|records| records.len() > 500));
    let mut cut = FetchRequest { min_bytes: 950, ..patient.clone() };
    cut.topics[0].partitions[0].partition_max_bytes = 1_000;
    assert!(rig.fetch(&cut, Duration::ZERO).is_some(), "the next batch is there and does not fit");
    let more = FetchRequest { min_bytes: 100_000, ..patient };
    assert!(rig.fetch(&more, Duration::ZERO).is_none(), "there may be more");
    assert!(rig.fetch(&more, Duration::from_secs(60)).is_some(), "its time is up");
}
