//! The first request of most clients, to the byte: a client that misreads it hangs or falls back to a wrong version.

use bytes::Bytes;
use hanzo_kafka::protocol::api::{self, ApiKey};
use hanzo_kafka::protocol::frame::{self, Opened};
use hanzo_kafka::protocol::header::RequestHeader;
use hanzo_kafka::protocol::messages::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use hanzo_kafka::protocol::messages::metadata::MetadataResponse;

/// Opens a frame and answers what is an ApiVersions.
fn answer(frame: &[u8]) -> Vec<u8> {
    match frame::open(Bytes::copy_from_slice(frame)).expect("the header reads") {
        Opened::Request { api: ApiKey::ApiVersions, header, body } => {
            let request = frame::message::<ApiVersionsRequest>(body).expect("the body reads");
            frame::response(&header, &api::api_versions(header.api_version, &request))
        }
        Opened::UnknownApiVersions { header } => api::unknown_api_versions(&header),
        _ => panic!("not an ApiVersions"),
    }
}

fn named(version: i16, name: &str, software_version: &str) -> Vec<u8> {
    let header = RequestHeader { api_version: version, correlation_id: 7, ..Default::default() };
    let request =
        ApiVersionsRequest { client_software_name: name.into(), client_software_version: software_version.into() };
    let frame = frame::request(&header, &request);
    answer(&frame[4..])
}

/// Key 18, version, correlation id 7, null client id.
fn unnamed(version: u8, rest: &[u8]) -> Vec<u8> {
    answer(&[&[0, 18, 0, version, 0, 0, 0, 7, 0xff, 0xff], rest].concat())
}

fn rows(bytes: &[u8]) -> Vec<[i16; 3]> {
    let number = |row: &[u8], at: usize| i16::from_be_bytes([row[at], row[at + 1]]);
    bytes.chunks(6).map(|row| [number(row, 0), number(row, 2), number(row, 4)]).collect()
}

#[test]
fn an_unknown_version_is_answered_in_the_layout_of_version_0() {
    for version in [5, 9, 127] {
        let reply = unnamed(version, &[0xab; 20]);
        let count = ApiKey::ALL.len();
        assert_eq!(reply.len(), 4 + 4 + 2 + 4 + 6 * count, "v{version}");
        assert_eq!(reply[..4], (reply.len() as i32 - 4).to_be_bytes());
        assert_eq!(reply[4..8], 7i32.to_be_bytes());
        assert_eq!(reply[8..10], 35i16.to_be_bytes());
        assert_eq!(reply[10..14], (count as i32).to_be_bytes());
        assert!(rows(&reply[14..]).contains(&[18, 0, 4]));
    }
}

#[test]
fn an_unknown_version_needs_no_more_than_a_correlation_id() {
    assert_eq!(answer(&[0, 18, 0x7f, 0xff, 0, 0, 0, 7])[8..10], 35i16.to_be_bytes());
    assert_eq!(answer(&[0, 18, 0xff, 0xff, 0, 0, 0, 7])[8..10], 35i16.to_be_bytes(), "version -1");
}

#[test]
fn versions_0_to_2_list_the_table() {
    for (version, throttle) in [(0, 0), (1, 4), (2, 4)] {
        let reply = unnamed(version, &[]);
        let count = ApiKey::ALL.len();
        assert_eq!(reply[4..10], [0, 0, 0, 7, 0, 0], "correlation id and error");
        assert_eq!(reply[10..14], (count as i32).to_be_bytes());
        assert_eq!(reply.len(), 14 + 6 * count + throttle);
        let rows = rows(&reply[14..14 + 6 * count]);
        let expected: Vec<_> =
            ApiKey::ALL.iter().map(|api| [api.code(), api.advertised_min(), *api.versions().end()]).collect();
        assert_eq!(rows, expected);
        assert!(rows.is_sorted(), "in the order of their keys");
        assert!(rows.contains(&[0, 0, 13]), "Produce is told from 0, or librdkafka stops compressing");
    }
}

#[test]
fn versions_3_and_4_have_no_tagged_fields_in_the_header() {
    for version in [3, 4] {
        let reply = named(version, "a", "1");
        let count = ApiKey::ALL.len();
        assert_eq!(reply[4..10], [0, 0, 0, 7, 0, 0], "the error follows the correlation id at once");
        assert_eq!(usize::from(reply[10]), count + 1);
        // One feature: supported levels, the finalized epoch, the finalized level.
        let feature = [&[2, 17][..], b"metadata.version", &[0, 25, 0, 25, 0]].concat();
        let tags = [&[3, 0, 23], &feature[..], &[1, 8, 0, 0, 0, 0, 0, 0, 0, 0], &[2, 23], &feature].concat();
        assert_eq!(reply[11 + 7 * count + 4..], tags, "after rows with their tags and the throttle time");
        let (correlation_id, response) =
            frame::read_response::<ApiVersionsRequest>(version, Bytes::copy_from_slice(&reply[4..])).expect("reads");
        assert_eq!(correlation_id, 7);
        assert_eq!(response.api_keys.len(), count);
    }
}

#[test]
fn software_names_are_checked_from_version_3_on() {
    let refused = [0, 0, 0, 12, 0, 0, 0, 7, 0, 42, 1, 0, 0, 0, 0, 0];
    for (name, version) in
        [("RP Console", "1"), ("", "1"), ("a", ""), ("-a", "1"), ("a.", "1"), ("a", "1_0"), ("é", "1")]
    {
        assert_eq!(named(3, name, version), refused, "{name:?} {version:?}");
    }
    for (name, version) in [("a", "1"), ("apache-kafka-java", "4.1.0"), ("librdkafka", "v2.3.0-12-gabc")] {
        assert_eq!(named(3, name, version)[8..10], [0, 0], "{name:?} {version:?}");
    }
}

#[test]
fn other_flexible_responses_have_tagged_fields_in_the_header() {
    let header = RequestHeader { api_key: 3, api_version: 9, correlation_id: 7, client_id: None };
    let reply = frame::response(&header, &MetadataResponse { throttle_time_ms: 1, ..Default::default() });
    assert_eq!(reply[4..13], [0, 0, 0, 7, 0, 0, 0, 0, 1]);
    let header = RequestHeader { api_version: 8, ..header };
    let reply = frame::response(&header, &MetadataResponse { throttle_time_ms: 1, ..Default::default() });
    assert_eq!(reply[4..12], [0, 0, 0, 7, 0, 0, 0, 1]);
}

#[test]
fn the_client_id_is_never_compact() {
    let frame = [0, 3, 0, 9, 0, 0, 0, 7, 0, 2, b'm', b'e', 0, 0, 1, 0, 0, 0];
    let Ok(Opened::Request { api, header, .. }) = frame::open(Bytes::copy_from_slice(&frame)) else {
        panic!("a Metadata request")
    };
    assert_eq!(api, ApiKey::Metadata);
    assert_eq!(header, RequestHeader { api_key: 3, api_version: 9, correlation_id: 7, client_id: Some("me".into()) });
}

#[test]
fn what_is_not_served_is_told_apart_from_what_does_not_decode() {
    let unserved = |key: i16, version: i16| {
        let head = [&key.to_be_bytes()[..], &version.to_be_bytes(), &[0, 0, 0, 7]].concat();
        matches!(frame::open(Bytes::from(head)), Ok(Opened::Unserved { header }) if header.correlation_id == 7)
    };
    assert!(unserved(999, 0));
    assert!(unserved(-1, 0));
    assert!(unserved(0, 2), "Produce 0 to 2 are told, not served");
    assert!(unserved(3, 14));
    assert!(frame::open(Bytes::from_static(&[0, 3, 0, 9, 0, 0, 0])).is_err());
    assert!(frame::open(Bytes::from_static(&[0, 3, 0, 9, 0, 0, 0, 7, 0xff, 0xfe])).is_err(), "client id of length -2");
}

#[test]
fn a_row_is_found_by_its_key() {
    for api in ApiKey::ALL {
        assert_eq!(ApiKey::from_code(api.code()), Some(*api));
        assert_eq!(frame::peek_api(&api.code().to_be_bytes()), Some(*api));
        assert!(api.advertised_min() <= *api.versions().start());
    }
    assert_eq!(frame::peek_api(&[0]), None);
    assert_eq!(ApiVersionsResponse::default().api_keys.len(), 0);
}
