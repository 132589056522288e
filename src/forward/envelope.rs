//! What gateways write to each other, and how what is too large for one message is cut and put together again.

use crate::limits::FORWARD_PARTS_MAX;
use crate::wire::{DecodeError, Reader, Writer};
use bytes::{Bytes, BytesMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The layout. A gateway drops what has another one: its sender finds out that the request was lost.
const VERSION: u8 = 1;

/// A part's head beside the sender's name: layout, kind, token, index, count.
const HEAD_BYTES: usize = 64;

/// One message between gateways. `from` is the process that sent it.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    pub from: String,
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A part of a request.
    Ask(Part),
    /// A part of the answer to the receiver's request of that token.
    Answer(Part),
    /// The sender still waits for these.
    Waiting(Vec<u64>),
    /// The sender does not know these of the receiver's requests. An empty list is a sign of life.
    Unknown(Vec<u64>),
    /// The sender's clients that waited for these are gone.
    Abandoned(Vec<u64>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub token: u64,
    pub index: usize,
    pub count: usize,
    pub bytes: Bytes,
}

impl Envelope {
    pub fn encode(&self) -> Bytes {
        let mut writer = Writer::append_to(vec![VERSION], 0, true);
        writer.string(&self.from);
        match &self.content {
            Content::Ask(part) => write_part(&mut writer, 1, part),
            Content::Answer(part) => write_part(&mut writer, 2, part),
            Content::Waiting(tokens) => write_tokens(&mut writer, 3, tokens),
            Content::Unknown(tokens) => write_tokens(&mut writer, 4, tokens),
            Content::Abandoned(tokens) => write_tokens(&mut writer, 5, tokens),
        }
        Bytes::from(writer.into_bytes())
    }

    /// `None`: not a message of ours, or one of another layout.
    pub fn decode(bytes: Bytes) -> Option<Envelope> {
        let mut reader = Reader::new(bytes, 0, true);
        if reader.array::<1>().ok()? != [VERSION] {
            return None;
        }
        let from = reader.nullable_string().ok()??;
        let content = match reader.array::<1>().ok()? {
            [1] => Content::Ask(read_part(&mut reader)?),
            [2] => Content::Answer(read_part(&mut reader)?),
            [3] => Content::Waiting(read_tokens(&mut reader)?),
            [4] => Content::Unknown(read_tokens(&mut reader)?),
            [5] => Content::Abandoned(read_tokens(&mut reader)?),
            _ => return None,
        };
        Some(Envelope { from, content })
    }
}

fn write_part(writer: &mut Writer, kind: u8, part: &Part) {
    writer.raw(&[kind]);
    writer.raw(&part.token.to_be_bytes());
    writer.raw(&u32::try_from(part.index).unwrap_or(u32::MAX).to_be_bytes());
    writer.raw(&u32::try_from(part.count).unwrap_or(u32::MAX).to_be_bytes());
    writer.raw(&part.bytes);
}

fn read_part(reader: &mut Reader) -> Option<Part> {
    let token = u64::from_be_bytes(reader.array().ok()?);
    let index = usize::try_from(u32::from_be_bytes(reader.array().ok()?)).ok()?;
    let count = usize::try_from(u32::from_be_bytes(reader.array().ok()?)).ok()?;
    let bytes = reader.bytes(reader.remaining()).ok()?;
    (index < count && count <= FORWARD_PARTS_MAX).then_some(Part { token, index, count, bytes })
}

fn write_tokens(writer: &mut Writer, kind: u8, tokens: &[u64]) {
    writer.raw(&[kind]);
    for token in tokens {
        writer.raw(&token.to_be_bytes());
    }
}

fn read_tokens(reader: &mut Reader) -> Option<Vec<u64>> {
    let mut tokens = Vec::with_capacity(reader.remaining() / 8);
    while reader.remaining() > 0 {
        tokens.push(u64::from_be_bytes(reader.array().ok()?));
    }
    Some(tokens)
}

/// Cuts a text into parts that fit the server's `max_payload`, bytes; `None` if there were too many.
pub fn cut(token: u64, whole: Bytes, max_payload: usize, from: &str) -> Option<Vec<Part>> {
    let room = max_payload.saturating_sub(HEAD_BYTES + from.len()).max(1);
    let count = whole.len().div_ceil(room).max(1);
    if count > FORWARD_PARTS_MAX {
        return None;
    }
    let part = |index: usize| {
        let (start, end) = (index * room, whole.len().min((index + 1) * room));
        Part { token, index, count, bytes: whole.slice(start..end) }
    };
    Some((0..count).map(part).collect())
}

/// Puts together what was cut.
#[derive(Debug)]
pub struct Assembly {
    parts: Vec<Option<Bytes>>,
    missing: usize,
    pub bytes: usize,
}

impl Assembly {
    pub fn new(count: usize) -> Assembly {
        Assembly { parts: vec![None; count], missing: count, bytes: 0 }
    }

    /// Takes in a part; what does not fit, or was there already, is dropped.
    pub fn put(&mut self, part: Part) {
        if self.parts.len() == part.count
            && let Some(place @ None) = self.parts.get_mut(part.index)
        {
            self.bytes += part.bytes.len();
            self.missing -= 1;
            *place = Some(part.bytes);
        }
    }

    /// The whole, once all parts are there.
    pub fn complete(&mut self) -> Option<Bytes> {
        if self.missing > 0 {
            return None;
        }
        if let [Some(only)] = &mut self.parts[..] {
            return Some(std::mem::take(only));
        }
        let mut whole = BytesMut::with_capacity(self.bytes);
        self.parts.drain(..).flatten().for_each(|part| whole.extend_from_slice(&part));
        Some(whole.freeze())
    }
}

/// A client's request on its way to the gateway that serves its group.
#[derive(Clone, Debug, PartialEq)]
pub struct Visit {
    pub client_host: IpAddr,
    pub group: String,
    /// Header and message, its length prefix left out.
    pub frame: Bytes,
}

impl Visit {
    pub fn encode(&self) -> Bytes {
        let mut writer = Writer::append_to(Vec::with_capacity(self.frame.len() + 64), 0, true);
        match self.client_host {
            IpAddr::V4(host) => {
                writer.raw(&[4]);
                writer.raw(&host.octets());
            }
            IpAddr::V6(host) => {
                writer.raw(&[6]);
                writer.raw(&host.octets());
            }
        }
        writer.string(&self.group);
        writer.raw(&self.frame);
        Bytes::from(writer.into_bytes())
    }

    pub fn decode(bytes: Bytes) -> Option<Visit> {
        let mut reader = Reader::new(bytes, 0, true);
        let client_host = match reader.array::<1>().ok()? {
            [4] => IpAddr::V4(Ipv4Addr::from(reader.array::<4>().ok()?)),
            [6] => IpAddr::V6(Ipv6Addr::from(reader.array::<16>().ok()?)),
            _ => return None,
        };
        let group = reader.nullable_string().ok()??;
        let rest = |reader: &mut Reader| -> Result<Bytes, DecodeError> { reader.bytes(reader.remaining()) };
        Some(Visit { client_host, group, frame: rest(&mut reader).ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envelopes_survive_the_way_and_rubbish_does_not_arrive() {
        let part = Part { token: u64::MAX, index: 1, count: 3, bytes: Bytes::from_static(b"abc") };
        for content in [
            Content::Ask(part.clone()),
            Content::Answer(part),
            Content::Waiting(vec![1, u64::MAX]),
            Content::Unknown(vec![]),
            Content::Abandoned(vec![7]),
        ] {
            let envelope = Envelope { from: "0123456789abcdef".to_owned(), content };
            let bytes = envelope.encode();
            assert_eq!(Envelope::decode(bytes.clone()), Some(envelope));
            for length in 0..bytes.len().min(19) {
                assert_eq!(Envelope::decode(bytes.slice(..length)), None);
            }
        }
        assert_eq!(Envelope::decode(Bytes::from_static(b"\x02rubbish")), None);
        let lie = Part { token: 1, index: 3, count: 3, bytes: Bytes::new() };
        let lie = Envelope { from: "x".to_owned(), content: Content::Ask(lie) };
        assert_eq!(Envelope::decode(lie.encode()), None);
    }

    #[test]
    fn what_is_cut_fits_and_comes_together_in_any_order() {
        let whole: Bytes = (0..10_000_u32).flat_map(u32::to_be_bytes).collect::<Vec<u8>>().into();
        for max_payload in [1_000, 39_000, 50_000] {
            let mut parts = cut(5, whole.clone(), max_payload, "me").expect("not too many");
            let size =
                |part: &Part| Envelope { from: "me".to_owned(), content: Content::Ask(part.clone()) }.encode().len();
            assert!(parts.iter().all(|part| size(part) <= max_payload), "{max_payload}");
            let mut assembly = Assembly::new(parts.len());
            parts.reverse();
            for part in parts {
                assert!(assembly.complete().is_none());
                assembly.put(part.clone());
                assembly.put(part);
            }
            assert!(assembly.complete() == Some(whole.clone()), "{max_payload}");
        }
        assert_eq!(cut(5, whole, 70, "me"), None);
    }

    #[test]
    fn visits_survive_the_way() {
        for client_host in ["10.0.0.7", "fd00::1"] {
            let client_host = client_host.parse().expect("an address");
            let visit = Visit { client_host, group: "ü".repeat(900), frame: Bytes::from_static(b"frame") };
            assert_eq!(Visit::decode(visit.encode()), Some(visit));
        }
        assert_eq!(Visit::decode(Bytes::from_static(b"\x05")), None);
    }
}
