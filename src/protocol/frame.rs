//! Frames: a 4-byte length, a header, a message. Both directions, for the gateway and for clients.

use super::api::{ApiKey, Message, Request};
use super::header::{RequestHeader, response_header_flexible};
use crate::wire::{DecodeError, Errors, Reader, Writer};
use bytes::Bytes;

/// A request frame whose header is read, its message not yet.
pub enum Opened {
    /// To be decoded with `message`, and answered.
    Request { api: ApiKey, header: RequestHeader, body: Reader },
    /// ApiVersions of a version nobody here knows: answered by `api::unknown_api_versions`.
    UnknownApiVersions { header: RequestHeader },
    /// An API, or a version of one, that is not served: no answer could be understood, the connection is closed.
    Unserved { header: RequestHeader },
}

/// Reads the header of a request frame (its length prefix left out). Memory: the client id, nothing else.
pub fn open(frame: Bytes) -> Result<Opened, DecodeError> {
    let mut reader = Reader::new(frame, 0, false);
    let mut header = RequestHeader::read_fixed(&mut reader)?;
    let Some(api) = ApiKey::from_code(header.api_key) else { return Ok(Opened::Unserved { header }) };
    if !api.serves(header.api_version) {
        return Ok(match api {
            ApiKey::ApiVersions => Opened::UnknownApiVersions { header },
            _ => Opened::Unserved { header },
        });
    }
    let body = header.read_rest(reader, api.flexible(header.api_version))?;
    Ok(Opened::Request { api, header, body })
}

/// The API a request frame (its length prefix left out) is about, without decoding it; `None` if it is not served.
pub fn peek_api(frame: &[u8]) -> Option<ApiKey> {
    let key = frame.first_chunk::<2>()?;
    ApiKey::from_code(i16::from_be_bytes(*key))
}

/// As much of a request's header as can be read, for people: zero and nothing where bytes are missing.
pub fn peek_header(frame: &[u8]) -> RequestHeader {
    let number = |at: usize| frame.get(at..)?.first_chunk::<2>().map(|bytes| i16::from_be_bytes(*bytes));
    let correlation_id = frame.get(4..).and_then(|rest| rest.first_chunk::<4>());
    let length = number(8).and_then(|length| usize::try_from(length).ok());
    let client_id = length.and_then(|length| frame.get(10..)?.get(..length));
    RequestHeader {
        api_key: number(0).unwrap_or_default(),
        api_version: number(2).unwrap_or_default(),
        correlation_id: correlation_id.map_or(0, |bytes| i32::from_be_bytes(*bytes)),
        client_id: client_id.map(|id| String::from_utf8_lossy(id).into_owned()),
    }
}

/// Decodes the message that a reader stands before, to its last byte.
pub fn message<M: Message>(mut body: Reader) -> Result<M, DecodeError> {
    let message = M::read(&mut body)?;
    body.finish()?;
    Ok(message)
}

/// Decodes a client's request. What follows it in the frame is left alone, as Kafka does: librdkafka 2.16 writes a null of
/// four bytes instead of one when it asks for all topics in Metadata 13.
pub fn request_message<R: Request>(mut body: Reader) -> Result<R, DecodeError> {
    R::read(&mut body)
}

/// The whole response frame, its length prefix included.
pub fn response<M: Message>(header: &RequestHeader, message: &M) -> Vec<u8> {
    response_and_errors(header, message).0
}

/// The whole response frame, and the error codes that stand in it.
pub fn response_and_errors<M: Message>(header: &RequestHeader, message: &M) -> (Vec<u8>, Errors) {
    debug_assert_eq!(M::KEY.code(), header.api_key, "the response belongs to another API");
    write_response(header.correlation_id, header.api_version, message)
}

/// Like `response`, in a version that is not the request's.
pub fn response_in_version<M: Message>(correlation_id: i32, version: i16, message: &M) -> Vec<u8> {
    write_response(correlation_id, version, message).0
}

fn write_response<M: Message>(correlation_id: i32, version: i16, message: &M) -> (Vec<u8>, Errors) {
    let mut writer = Writer::append_to(vec![0; LENGTH_BYTES], version, M::KEY.flexible(version));
    writer.raw(&correlation_id.to_be_bytes());
    if response_header_flexible(M::KEY, version) {
        writer.tags(|_| ());
    }
    message.write(&mut writer);
    let errors = writer.errors();
    (with_length(writer.into_bytes()), errors)
}

/// A whole request frame, its length prefix included, as a client sends it; `header.api_key` is set to the message's.
pub fn request<R: Request>(header: &RequestHeader, message: &R) -> Vec<u8> {
    let header = RequestHeader { api_key: R::KEY.code(), ..header.clone() };
    let flexible = R::KEY.flexible(header.api_version);
    let out = header.write(vec![0; LENGTH_BYTES], flexible);
    let mut writer = Writer::append_to(out, header.api_version, flexible);
    message.write(&mut writer);
    with_length(writer.into_bytes())
}

/// Reads a response frame (its length prefix left out) as a client does: correlation id and message. `version` is the
/// request's.
pub fn read_response<R: Request>(version: i16, frame: Bytes) -> Result<(i32, R::Response), DecodeError> {
    let mut reader = Reader::new(frame, version, R::KEY.flexible(version));
    let correlation_id = reader.i32()?;
    if response_header_flexible(R::KEY, version) {
        reader.tags(|_, _| Ok(false))?;
    }
    Ok((correlation_id, message(reader)?))
}

const LENGTH_BYTES: usize = 4;

/// Fills in the length prefix, whose place is already there. A response of 2 GiB is never built.
fn with_length(mut frame: Vec<u8>) -> Vec<u8> {
    let length = i32::try_from(frame.len().saturating_sub(LENGTH_BYTES)).unwrap_or(i32::MAX);
    if let Some(prefix) = frame.first_chunk_mut() {
        *prefix = length.to_be_bytes();
    }
    frame
}
