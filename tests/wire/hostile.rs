//! Bytes nobody honest sends: an error or a valid message, never a panic, never memory the frame has not paid for.

use crate::allocations::peak_bytes;
use bytes::Bytes;
use hanzo_kafka::limits::DECODE_BUDGET_BYTES_MAX;
use hanzo_kafka::protocol::api::{ApiKey, ApiVisitor, Message, Request};
use hanzo_kafka::protocol::frame;
use hanzo_kafka::protocol::messages::metadata::MetadataRequest;
use hanzo_kafka::protocol::messages::offset_fetch::OffsetFetchRequest;
use hanzo_kafka::protocol::messages::produce::ProduceRequest;
use hanzo_kafka::wire::sample::Sampler;
use hanzo_kafka::wire::{DecodeError, Fault, Reader, Writer};

const SAMPLES_PER_VERSION: u64 = 2;

/// The widest struct is some 200 bytes in memory and its smallest form a few on the wire; vectors grow by doubling.
const MEMORY_PER_FRAME_BYTE: usize = 256;

/// Runs one attack on samples of every message in every version.
struct Attack<F: FnMut(&[u8], &mut Decode)>(F);

type Decode<'a> = dyn FnMut(Vec<u8>) -> Result<(), DecodeError> + 'a;

impl<F: FnMut(&[u8], &mut Decode)> Attack<F> {
    fn on<M: Message>(&mut self) {
        for version in M::KEY.versions() {
            let flexible = M::KEY.flexible(version);
            for seed in 0..SAMPLES_PER_VERSION {
                let mut writer = Writer::new(version, flexible);
                M::sample(&mut Sampler::new(version, seed + 1)).write(&mut writer);
                (self.0)(&writer.into_bytes(), &mut |body| decode::<M>(body, version));
            }
        }
    }
}

impl<F: FnMut(&[u8], &mut Decode)> ApiVisitor for Attack<F> {
    fn visit<R: Request>(&mut self) {
        self.on::<R>();
        self.on::<R::Response>();
    }
}

fn attack(attack: impl FnMut(&[u8], &mut Decode)) {
    ApiKey::visit_all(&mut Attack(attack));
}

/// Decodes, and checks what it cost.
fn decode<M: Message>(body: Vec<u8>, version: i16) -> Result<(), DecodeError> {
    let length = body.len();
    let reader = Reader::new(Bytes::from(body), version, M::KEY.flexible(version));
    let (peak, result) = peak_bytes(|| frame::message::<M>(reader).map(drop));
    assert!(peak <= length * MEMORY_PER_FRAME_BYTE, "{} v{version}: {length} bytes cost {peak}", M::KEY.name());
    result
}

#[test]
fn a_message_cut_short_anywhere_is_refused() {
    attack(|body, decode| {
        for length in 0..body.len() {
            assert!(decode(body[..length].to_vec()).is_err(), "{length} of {} bytes decoded", body.len());
        }
    });
}

#[test]
fn a_byte_too_many_is_refused() {
    attack(|body, decode| {
        let error = decode([body, &[0]].concat()).expect_err("one byte more than the message has");
        assert_eq!((error.fault, error.offset), (Fault::TrailingBytes, body.len()));
    });
}

#[test]
fn what_follows_a_request_is_left_alone() {
    let all_topics = [0, 0, 0, 0, 0];
    let reader = Reader::new(Bytes::copy_from_slice(&all_topics), 13, true);
    let request: MetadataRequest = frame::request_message(reader).expect("as librdkafka sends it");
    assert_eq!(request.topics, None);
}

#[test]
fn flipped_bytes_do_no_harm() {
    attack(|body, decode| {
        for at in 0..body.len() {
            for pattern in [0x01, 0x02, 0x40, 0x80, 0x7f, 0xff] {
                let mut body = body.to_vec();
                body[at] ^= pattern;
                let _ = decode(body);
            }
        }
    });
}

#[test]
fn huge_lengths_do_no_harm_wherever_they_stand() {
    let fixed: [&[u8]; 5] =
        [&[0x7f, 0xff, 0xff, 0xff], &[0x80, 0, 0, 0], &[0xff, 0xff, 0xff, 0xfe], &[0x7f, 0xff], &[0xff, 0xfe]];
    let compact: [&[u8]; 4] = [
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0xff, 0xff, 0xff, 0xff, 0x07],
        &[0xff, 0xff, 0xff, 0xff, 0xff],
        &[0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
    ];
    attack(|body, decode| {
        for at in 0..body.len() {
            for patch in fixed {
                let end = body.len().min(at + patch.len());
                let mut body = body.to_vec();
                body[at..end].copy_from_slice(&patch[..end - at]);
                let _ = decode(body);
            }
            for patch in compact {
                let _ = decode([&body[..at], patch, &body[at + 1..]].concat());
            }
        }
    });
}

#[test]
fn random_bytes_do_no_harm() {
    let mut random = Sampler::new(0, 99);
    attack(|body, decode| {
        for _ in 0..50 {
            let _ = decode(body.iter().map(|_| random.array::<1>()[0] & random.array::<1>()[0]).collect());
        }
    });
}

#[track_caller]
fn refused<M: Message>(version: i16, body: &[u8]) -> (usize, DecodeError) {
    let reader = Reader::new(Bytes::copy_from_slice(body), version, M::KEY.flexible(version));
    let (peak, result) = peak_bytes(|| frame::message::<M>(reader).map(drop));
    (peak, result.expect_err("refused"))
}

#[test]
fn four_bytes_that_claim_two_billion_topics_cost_nothing() {
    let (peak, error) = refused::<MetadataRequest>(0, &[0x7f, 0xff, 0xff, 0xff]);
    assert_eq!(peak, 0);
    assert_eq!(error, DecodeError { field: "topics", offset: 4, fault: Fault::CountTooLarge });

    let (peak, error) = refused::<MetadataRequest>(12, &[0xff, 0xff, 0xff, 0xff, 0x0f]);
    assert_eq!(peak, 0);
    assert_eq!(error, DecodeError { field: "topics", offset: 5, fault: Fault::CountTooLarge });
}

#[test]
fn a_large_frame_of_tiny_elements_is_stopped_by_the_budget() {
    // Two bytes a topic on the wire (an empty name, no tags), twenty times that in memory.
    const TOPICS: u32 = 4 << 20;
    let mut writer = Writer::new(9, true);
    writer.unsigned_varint(TOPICS + 1);
    writer.raw(&[1, 0].repeat(TOPICS as usize));
    writer.raw(&[0, 0, 0, 0]);
    let body = writer.into_bytes();
    let (peak, error) = refused::<MetadataRequest>(9, &body);
    assert_eq!((error.field, error.fault), ("topics", Fault::OverBudget));
    assert!(peak <= body.len() + DECODE_BUDGET_BYTES_MAX, "{peak}");
}

/// Four bytes a partition on the wire and in memory; its row in the answer has many times that.
#[test]
fn what_is_named_pays_for_its_row_in_the_answer() {
    let offset_fetch = |partitions: u32| {
        let mut writer = Writer::new(5, false);
        writer.string("group");
        writer.raw(&1u32.to_be_bytes());
        writer.string("topic");
        writer.raw(&partitions.to_be_bytes());
        writer.raw(&vec![0; 4 * partitions as usize]);
        writer.into_bytes()
    };
    let (_, error) = refused::<OffsetFetchRequest>(5, &offset_fetch(1_000_000));
    assert_eq!((error.field, error.fault), ("partition_indexes", Fault::OverBudget));
    // As many as all partitions of a large cluster.
    let body = Bytes::from(offset_fetch(200_000));
    assert!(frame::message::<OffsetFetchRequest>(Reader::new(body, 5, false)).is_ok());
}

#[test]
fn tagged_fields_are_held_to_their_size() {
    // Produce v9, no topics, one unknown tag 7 whose size runs over the end of the frame.
    let head: &[u8] = &[0, 0xff, 0xff, 0, 0, 0, 0, 1];
    let (_, error) = refused::<ProduceRequest>(9, &[head, &[1, 7, 2, 0]].concat());
    assert_eq!((error.field, error.fault), ("tagged fields", Fault::Truncated));
    // The same, skipped as it should be.
    let body = Bytes::from([head, &[1, 7, 2, 0, 0]].concat());
    assert!(frame::message::<ProduceRequest>(Reader::new(body, 9, true)).is_ok());
    // More tags than bytes.
    let (peak, error) = refused::<ProduceRequest>(9, &[head, &[0xff, 0xff, 0xff, 0xff, 0x0f]].concat());
    assert_eq!((peak, error.field, error.fault), (0, "tagged fields", Fault::Truncated));
}

#[test]
fn faults_name_their_field_and_place() {
    #[track_caller]
    fn check(version: i16, body: &[u8], field: &'static str, offset: usize, fault: Fault) {
        assert_eq!(refused::<MetadataRequest>(version, body).1, DecodeError { field, offset, fault });
    }
    check(0, &[0xff, 0xff, 0xff, 0xff], "topics", 4, Fault::UnexpectedNull);
    check(1, &[0xff, 0xff, 0xff, 0xfe], "topics", 4, Fault::NegativeLength);
    check(1, &[0, 0, 0, 1, 0, 2, b'a'], "name", 6, Fault::Truncated);
    check(1, &[0, 0, 0, 1, 0, 2, 0xc3, 0x28], "name", 8, Fault::NotUtf8);
    check(1, &[0, 0, 0, 1, 0xff, 0xff], "name", 6, Fault::UnexpectedNull);
    check(9, &[2, 0, 0], "name", 2, Fault::UnexpectedNull);
    check(9, &[0xff, 0xff, 0xff, 0xff, 0x1f], "topics", 5, Fault::VarintOverflow);
    check(9, &[0xff, 0xff, 0xff, 0xff, 0xff, 0], "topics", 5, Fault::VarintOverflow);
    let long = [&[2, 0x81, 0x80, 0x02][..], &[b'a'; 0x8000]].concat();
    check(9, &long, "name", 4, Fault::StringTooLong);
    check(12, &[1, 0, 0, 0, 7], "end of message", 4, Fault::TrailingBytes);
}

#[test]
fn what_kafka_allows_is_not_refused() {
    let read = |version: i16, body: &[u8]| {
        let reader = Reader::new(Bytes::copy_from_slice(body), version, version >= 9);
        frame::message::<MetadataRequest>(reader).expect("reads")
    };
    assert_eq!(read(1, &[0xff, 0xff, 0xff, 0xff]).topics, None, "null is all");
    assert_eq!(read(1, &[0, 0, 0, 0]).topics, Some(vec![]), "empty is none");
    assert_eq!(read(9, &[0, 0, 0, 0, 0]).topics, None);
    assert_eq!(read(9, &[1, 0, 0, 0, 0]).topics, Some(vec![]));
    assert!(read(4, &[0, 0, 0, 0, 2]).allow_auto_topic_creation, "any byte but zero is true");
    assert!(read(3, &[0, 0, 0, 0]).allow_auto_topic_creation, "without the flag creation is allowed");
    let padded_varint = [0x81, 0x00, 0, 0, 0, 0];
    assert_eq!(read(9, &padded_varint).topics, Some(vec![]));
}

#[test]
fn a_text_too_long_for_kafka_is_cut_between_characters() {
    let mut writer = Writer::new(0, false);
    writer.string(&"é".repeat(20_000));
    let bytes = writer.into_bytes();
    assert_eq!(bytes[..2], 32_766u16.to_be_bytes());
    assert_eq!(bytes.len(), 2 + 32_766);
}
