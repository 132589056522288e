//! The writing cursor.

use super::reader::STRING_BYTES_MAX;

/// Writes one frame at one version into memory.
pub struct Writer {
    out: Vec<u8>,
    version: i16,
    flexible: bool,
    errors: Errors,
}

/// The error codes that were written into a frame, and how often; of more than eight kinds the later ones are left out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Errors {
    kinds: [(i16, u32); ERROR_KINDS_MAX],
}

const ERROR_KINDS_MAX: usize = 8;

impl Errors {
    pub fn iter(&self) -> impl Iterator<Item = (i16, u32)> {
        self.kinds.iter().copied().filter(|(_, count)| *count > 0)
    }

    fn note(&mut self, code: i16) {
        if let Some(kind) = self.kinds.iter_mut().find(|(known, count)| *known == code || *count == 0) {
            *kind = (code, kind.1.saturating_add(1));
        }
    }
}

impl Writer {
    pub fn new(version: i16, flexible: bool) -> Writer {
        Writer::append_to(Vec::new(), version, flexible)
    }

    /// Goes on after what is already in `out`.
    pub fn append_to(out: Vec<u8>, version: i16, flexible: bool) -> Writer {
        Writer { out, version, flexible, errors: Errors::default() }
    }

    pub fn version(&self) -> i16 {
        self.version
    }

    pub fn flexible(&self) -> bool {
        self.flexible
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    /// Takes note of a field called `error_code` that is written: answers are counted by what they say.
    pub fn note_error(&mut self, code: i16) {
        if code != 0 {
            self.errors.note(code);
        }
    }

    /// What `note_error` was told.
    pub fn errors(&self) -> Errors {
        self.errors
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Kafka's UNSIGNED_VARINT.
    pub fn unsigned_varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            let [low, ..] = value.to_le_bytes();
            self.out.push(low | 0x80);
            value >>= 7;
        }
        let [low, ..] = value.to_le_bytes();
        self.out.push(low);
    }

    /// A string with its length prefix. Kafka has no strings over 32,767 bytes: the rest of a longer one is left out.
    pub fn string(&mut self, text: &str) {
        let mut length = text.len().min(STRING_BYTES_MAX);
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        let (text, _) = text.split_at(length);
        if self.flexible {
            self.length(text.len());
        } else {
            let length = i16::try_from(text.len()).unwrap_or(i16::MAX);
            self.raw(&length.to_be_bytes());
        }
        self.raw(text.as_bytes());
    }

    pub fn null_string(&mut self) {
        if self.flexible { self.unsigned_varint(0) } else { self.raw(&(-1i16).to_be_bytes()) }
    }

    /// The length of bytes, or the count of an array. A frame cannot hold 2^31 of either.
    pub fn length(&mut self, length: usize) {
        if self.flexible {
            self.unsigned_varint(u32::try_from(length).unwrap_or(u32::MAX).saturating_add(1));
        } else {
            self.raw(&i32::try_from(length).unwrap_or(i32::MAX).to_be_bytes());
        }
    }

    pub fn null_length(&mut self) {
        if self.flexible { self.unsigned_varint(0) } else { self.raw(&(-1i32).to_be_bytes()) }
    }

    /// Writes the tagged fields at a struct's end; `fill` adds them in the order of their tags.
    pub fn tags(&mut self, fill: impl FnOnce(&mut TagSection)) {
        let values = Writer::new(self.version, self.flexible);
        let mut section = TagSection { count: 0, values };
        fill(&mut section);
        self.unsigned_varint(section.count);
        self.raw(&section.values.out);
    }
}

/// The tagged fields of one struct, gathered because their number comes first.
pub struct TagSection {
    count: u32,
    values: Writer,
}

impl TagSection {
    pub fn add(&mut self, tag: u32, write: impl FnOnce(&mut Writer)) {
        let mut value = Writer::new(self.values.version, self.values.flexible);
        write(&mut value);
        self.count += 1;
        self.values.unsigned_varint(tag);
        self.values.unsigned_varint(u32::try_from(value.out.len()).unwrap_or(u32::MAX));
        self.values.raw(&value.out);
    }
}
