//! A Kafka connection that speaks any version of any API, with messages encoded by another project's codec.

use super::batch::Batch;
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::{
    BrokerId, CreateTopicsRequest, DeleteTopicsRequest, FetchRequest, FetchResponse, ListOffsetsRequest,
    MetadataRequest, ProduceRequest, RequestHeader, ResponseHeader, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

pub const EARLIEST: i64 = -2;
pub const LATEST: i64 = -1;

/// LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT, COORDINATOR_NOT_AVAILABLE, KAFKA_STORAGE_ERROR and
/// the like: after these clients try again.
pub const RETRIABLE: &[i16] = &[5, 6, 7, 8, 9, 13, 14, 15, 16, 19, 20, 56];

pub struct Wire {
    stream: TcpStream,
    correlation_id: i32,
}

impl Wire {
    #[track_caller]
    pub fn connect(port: u16) -> Wire {
        Wire::try_connect(port).expect("the gateway takes a connection")
    }

    pub fn try_connect(port: u16) -> io::Result<Wire> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        stream.set_write_timeout(Some(Duration::from_secs(60)))?;
        Ok(Wire { stream, correlation_id: 0 })
    }

    /// How long reading and writing wait at most, instead of a minute.
    pub fn wait_at_most(&mut self, limit: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(limit))?;
        self.stream.set_write_timeout(Some(limit))
    }

    pub fn frame<R: Request>(correlation_id: i32, version: i16, request: &R) -> Vec<u8> {
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(correlation_id)
            .with_client_id(Some(StrBytes::from_static_str("test")));
        let mut body = BytesMut::new();
        header.encode(&mut body, R::header_version(version)).expect("a header encodes");
        request.encode(&mut body, version).expect("the request encodes at this version");
        let mut frame = u32::try_from(body.len()).expect("a frame fits").to_be_bytes().to_vec();
        frame.extend(body);
        frame
    }

    /// Sends a request and gives its correlation id.
    #[track_caller]
    pub fn send<R: Request>(&mut self, version: i16, request: &R) -> i32 {
        self.correlation_id += 1;
        self.send_bytes(&Wire::frame(self.correlation_id, version, request)).expect("the gateway takes the request");
        self.correlation_id
    }

    pub fn try_send<R: Request>(&mut self, version: i16, request: &R) -> io::Result<()> {
        self.correlation_id += 1;
        self.send_bytes(&Wire::frame(self.correlation_id, version, request))
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// One frame without its length.
    pub fn read_frame(&mut self) -> io::Result<Bytes> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut frame = vec![0; usize::try_from(u32::from_be_bytes(length)).expect("a length fits")];
        self.stream.read_exact(&mut frame)?;
        Ok(frame.into())
    }

    pub fn try_receive<R: Request>(&mut self, version: i16) -> io::Result<(i32, R::Response)> {
        let mut frame = self.read_frame()?;
        let header =
            ResponseHeader::decode(&mut frame, R::Response::header_version(version)).map_err(io::Error::other)?;
        let response = R::Response::decode(&mut frame, version).map_err(io::Error::other)?;
        if !frame.is_empty() {
            return Err(io::Error::other(format!("{} bytes after the response", frame.len())));
        }
        Ok((header.correlation_id, response))
    }

    /// The next response: its correlation id and what it says.
    #[track_caller]
    pub fn receive<R: Request>(&mut self, version: i16) -> (i32, R::Response) {
        self.try_receive::<R>(version)
            .unwrap_or_else(|error| panic!("no response to key {} v{version}: {error}", R::KEY))
    }

    #[track_caller]
    pub fn call<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        let sent = self.send(version, request);
        let (received, response) = self.receive::<R>(version);
        assert_eq!(received, sent, "the correlation id of the answer to key {} v{version}", R::KEY);
        response
    }

    pub fn try_call<R: Request>(&mut self, version: i16, request: &R) -> io::Result<R::Response> {
        self.correlation_id += 1;
        self.send_bytes(&Wire::frame(self.correlation_id, version, request))?;
        Ok(self.try_receive::<R>(version)?.1)
    }

    /// Whether the gateway has closed this connection, waiting for that up to `limit`.
    pub fn is_closed_within(&mut self, limit: Duration) -> bool {
        self.stream.set_read_timeout(Some(limit)).expect("a socket takes a timeout");
        match self.stream.read(&mut [0; 1]) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }

    /// Creates a topic and expects it to work.
    #[track_caller]
    pub fn create_topic(&mut self, name: &str, partitions: i32) {
        assert_eq!(self.try_create_topic(name, partitions), 0, "creating {name}");
    }

    #[track_caller]
    pub fn try_create_topic(&mut self, name: &str, partitions: i32) -> i16 {
        self.create_topic_with(name, partitions, &[])
    }

    #[track_caller]
    pub fn create_topic_with(&mut self, name: &str, partitions: i32, configs: &[(&str, &str)]) -> i16 {
        let text = |text: &str| StrBytes::from_string(text.to_owned());
        let config = |(name, value): &(&str, &str)| {
            CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value)))
        };
        let topic = CreatableTopic::default()
            .with_name(topic_name(name))
            .with_num_partitions(partitions)
            .with_replication_factor(1)
            .with_configs(configs.iter().map(config).collect());
        let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(20_000);
        self.call(5, &request).topics[0].error_code
    }

    #[track_caller]
    pub fn delete_topic(&mut self, name: &str) -> i16 {
        let names = vec![topic_name(name)];
        let request = DeleteTopicsRequest::default().with_topic_names(names).with_timeout_ms(20_000);
        self.call(4, &request).responses[0].error_code
    }

    /// What Metadata says of a topic; never creates it.
    #[track_caller]
    pub fn topic(&mut self, name: &str) -> MetadataResponseTopic {
        let topic = MetadataRequestTopic::default().with_name(Some(topic_name(name)));
        let request = MetadataRequest::default().with_topics(Some(vec![topic])).with_allow_auto_topic_creation(false);
        self.call(12, &request).topics.remove(0)
    }

    /// Produces with acks=all and version 9; gives the error code and the base offset.
    #[track_caller]
    pub fn produce(&mut self, topic: &str, partition: i32, batch: &Batch) -> (i16, i64) {
        let response = self.call(9, &produce_request(topic, partition, batch.encode()));
        produced(&response.responses[0].partition_responses[0])
    }

    /// Produces and expects it to work; gives the base offset.
    #[track_caller]
    pub fn produce_ok(&mut self, topic: &str, partition: i32, batch: &Batch) -> i64 {
        let (error, base_offset) = self.produce(topic, partition, batch);
        assert_eq!(error, 0, "producing to {topic}-{partition}");
        base_offset
    }

    /// Fetches once, version 12, without waiting.
    #[track_caller]
    pub fn fetch(&mut self, topic: &str, partition: i32, offset: i64) -> PartitionData {
        partition_data(self.call(12, &fetch_request(topic, partition, offset)))
    }

    /// Fetches from `offset` on until the high watermark; gives all offsets and values (uncompressed batches only). Tries
    /// again after retriable errors and before the end, as clients do: on a busy machine a log takes its time to load, and a
    /// fetch that cannot read in time is answered without records.
    #[track_caller]
    pub fn read_all(&mut self, topic: &str, partition: i32, offset: i64) -> Vec<(i64, String)> {
        let mut read: Vec<(i64, String)> = Vec::new();
        let mut next = offset;
        loop {
            let data = super::eventually("the fetch is served", super::SOON, || {
                let data = self.fetch(topic, partition, next);
                let is_empty = data.records.as_ref().is_none_or(Bytes::is_empty);
                let comes_later = data.error_code == 0 && is_empty && next < data.high_watermark;
                (!comes_later && !RETRIABLE.contains(&data.error_code)).then_some(data)
            });
            assert_eq!(data.error_code, 0, "fetching {topic}-{partition} at {next}");
            let chain = data.records.unwrap_or_default();
            if chain.is_empty() {
                assert_eq!(next, data.high_watermark, "{topic} ends before what was asked for");
                return read;
            }
            read.extend(super::batch::offsets_and_values(&chain).into_iter().filter(|(at, _)| *at >= next));
            next = read.last().expect("a fetched batch has records").0 + 1;
        }
    }

    /// ListOffsets v7: the error code and the offset at `timestamp`, which may be EARLIEST or LATEST.
    #[track_caller]
    pub fn try_list_offset(&mut self, topic: &str, partition: i32, timestamp: i64) -> (i16, i64) {
        let asked = ListOffsetsPartition::default()
            .with_partition_index(partition)
            .with_current_leader_epoch(-1)
            .with_timestamp(timestamp);
        let topic = ListOffsetsTopic::default().with_name(topic_name(topic)).with_partitions(vec![asked]);
        let request = ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic]);
        let answer = self.call(7, &request);
        let partition = &answer.topics[0].partitions[0];
        (partition.error_code, partition.offset)
    }

    #[track_caller]
    pub fn list_offset(&mut self, topic: &str, partition: i32, timestamp: i64) -> i64 {
        let (error, offset) = super::eventually("the offset is listed", super::SOON, || {
            let (error, offset) = self.try_list_offset(topic, partition, timestamp);
            (!RETRIABLE.contains(&error)).then_some((error, offset))
        });
        assert_eq!(error, 0, "listing the offsets of {topic}-{partition}");
        offset
    }
}

pub fn topic_name(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_owned()))
}

/// acks=all, for versions that name the topic.
pub fn produce_request(topic: &str, partition: i32, records: Bytes) -> ProduceRequest {
    let data = PartitionProduceData::default().with_index(partition).with_records(Some(records));
    let topic = TopicProduceData::default().with_name(topic_name(topic)).with_partition_data(vec![data]);
    ProduceRequest::default().with_acks(-1).with_timeout_ms(20_000).with_topic_data(vec![topic])
}

pub fn produced(response: &PartitionProduceResponse) -> (i16, i64) {
    (response.error_code, response.base_offset)
}

/// One partition, without waiting, for versions that name the topic.
pub fn fetch_request(topic: &str, partition: i32, offset: i64) -> FetchRequest {
    let asked = FetchPartition::default()
        .with_partition(partition)
        .with_current_leader_epoch(-1)
        .with_fetch_offset(offset)
        .with_log_start_offset(-1)
        .with_partition_max_bytes(1 << 20);
    let topic = FetchTopic::default().with_topic(topic_name(topic)).with_partitions(vec![asked]);
    FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(0)
        .with_min_bytes(1)
        .with_max_bytes(50 << 20)
        .with_session_epoch(-1)
        .with_topics(vec![topic])
}

#[track_caller]
pub fn partition_data(mut response: FetchResponse) -> PartitionData {
    assert_eq!(response.error_code, 0, "the fetch as a whole");
    response.responses.remove(0).partitions.remove(0)
}
