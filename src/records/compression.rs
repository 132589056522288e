//! The codecs of record batches: inflating with a bound that holds while inflating, and deflating.

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use std::fmt;
use std::io::{self, Read, Write};

/// The codec of a batch's records, by Kafka's ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Compression {
    #[default]
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl Compression {
    pub const ALL: [Compression; 5] =
        [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

    pub fn from_id(id: i16) -> Option<Compression> {
        Self::ALL.into_iter().find(|codec| codec.id() == id)
    }

    /// The codec bits of a batch's attributes.
    pub fn id(self) -> i16 {
        match self {
            Compression::None => 0,
            Compression::Gzip => 1,
            Compression::Snappy => 2,
            Compression::Lz4 => 3,
            Compression::Zstd => 4,
        }
    }

    /// As in `compression.type`.
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Snappy => "snappy",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionFault {
    /// Not what the codec writes.
    Malformed(Compression),
    /// More than the given bound comes out.
    TooLarge { bytes_max: usize },
}

impl fmt::Display for CompressionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompressionFault::Malformed(codec) => write!(f, "the records are not valid {} data", codec.name()),
            CompressionFault::TooLarge { bytes_max } => {
                write!(f, "the records are larger than {bytes_max} bytes when decompressed")
            }
        }
    }
}

impl std::error::Error for CompressionFault {}

/// Inflates all of `bytes`; no more than `bytes_max` are ever held.
pub fn decompress(codec: Compression, bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>, CompressionFault> {
    let mut inflater = Inflater::new(codec, bytes, bytes_max);
    let mut out = Vec::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = inflater.read(&mut chunk)?;
        match chunk.get(..count) {
            Some(read) if count > 0 => out.extend_from_slice(read),
            _ => return Ok(out),
        }
    }
}

/// What is inflated at a time.
pub(super) const CHUNK_BYTES: usize = 32 * 1024;

/// Inflates step by step in bounded memory, whatever the bytes claim.
pub struct Inflater<'a> {
    codec: Compression,
    source: Box<dyn Read + 'a>,
    bytes_max: usize,
    bytes_left: usize,
}

impl<'a> Inflater<'a> {
    /// At most `bytes_max` bytes come out; more is a fault.
    pub fn new(codec: Compression, bytes: &'a [u8], bytes_max: usize) -> Inflater<'a> {
        let source: Box<dyn Read + 'a> = match codec {
            Compression::None => Box::new(bytes),
            Compression::Gzip => Box::new(MultiGzDecoder::new(bytes)),
            Compression::Snappy => Box::new(SnappyReader::new(bytes, bytes_max)),
            Compression::Lz4 => Box::new(Lz4Reader { rest: Some(bytes), frame: None }),
            Compression::Zstd => match zstd_reader(bytes) {
                Ok(reader) => Box::new(reader),
                Err(_) => Box::new(Refusing),
            },
        };
        Inflater { codec, source, bytes_max, bytes_left: bytes_max }
    }

    /// Fills the front of `buffer`; 0 means that all is inflated.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, CompressionFault> {
        loop {
            match self.source.read(buffer) {
                Ok(count) => {
                    self.bytes_left = self.bytes_left.checked_sub(count).ok_or(self.too_large())?;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::FileTooLarge => return Err(self.too_large()),
                Err(_) => return Err(CompressionFault::Malformed(self.codec)),
            }
        }
    }

    fn too_large(&self) -> CompressionFault {
        CompressionFault::TooLarge { bytes_max: self.bytes_max }
    }
}

/// A decoder that could not be made.
struct Refusing;

impl Read for Refusing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(malformed())
    }
}

fn malformed() -> io::Error {
    io::Error::from(io::ErrorKind::InvalidData)
}

/// Concatenated frames are read on. Level 22 of a streaming producer claims a window of 128 MiB, the most that zstd takes
/// by itself: that is address space, its pages are touched only as far as real data reaches.
fn zstd_reader(bytes: &[u8]) -> io::Result<zstd::Decoder<'static, &[u8]>> {
    let mut decoder = zstd::Decoder::with_buffer(bytes)?;
    decoder.window_log_max(27)?;
    Ok(decoder)
}

/// Java's SnappyOutputStream (xerial) cuts the data into framed blocks; most other clients write one raw block.
const XERIAL_MAGIC: [u8; 8] = *b"\x82SNAPPY\0";

/// A raw snappy block cannot grow further than this: its densest element makes 64 bytes of 3.
const SNAPPY_GROWTH_MAX: usize = 22;

struct SnappyReader<'a> {
    rest: &'a [u8],
    framed: bool,
    bytes_max: usize,
    block: io::Cursor<Vec<u8>>,
}

impl<'a> SnappyReader<'a> {
    fn new(bytes: &'a [u8], bytes_max: usize) -> SnappyReader<'a> {
        let block = io::Cursor::new(Vec::new());
        match bytes.strip_prefix(&XERIAL_MAGIC) {
            // Version and lowest compatible version follow the magic; a header cut short fails as a block cut short.
            Some(after) => SnappyReader { rest: after.get(8..).unwrap_or(&[0]), framed: true, bytes_max, block },
            None => SnappyReader { rest: bytes, framed: false, bytes_max, block },
        }
    }

    fn next_block(&mut self) -> io::Result<&'a [u8]> {
        if !self.framed {
            return Ok(std::mem::take(&mut self.rest));
        }
        let (length, after) = self.rest.split_first_chunk::<4>().ok_or_else(malformed)?;
        let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| malformed())?;
        let (block, after) = after.split_at_checked(length).ok_or_else(malformed)?;
        self.rest = after;
        Ok(block)
    }
}

impl Read for SnappyReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.block.read(buffer)?;
            if count > 0 || buffer.is_empty() || self.rest.is_empty() {
                return Ok(count);
            }
            let block = self.next_block()?;
            let length = snap::raw::decompress_len(block).map_err(|_| malformed())?;
            if length > block.len().saturating_mul(SNAPPY_GROWTH_MAX) {
                return Err(malformed());
            }
            if length > self.bytes_max {
                return Err(io::Error::from(io::ErrorKind::FileTooLarge));
            }
            let mut room = std::mem::take(&mut self.block).into_inner();
            room.resize(length, 0);
            let count = snap::raw::Decoder::new().decompress(block, &mut room).map_err(|_| malformed())?;
            room.truncate(count);
            self.block = io::Cursor::new(room);
        }
    }
}

/// LZ4 frames, one after the other.
struct Lz4Reader<'a> {
    /// What follows the frame being read, while none is.
    rest: Option<&'a [u8]>,
    frame: Option<lz4::Decoder<&'a [u8]>>,
}

impl Read for Lz4Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(frame) = &mut self.frame {
                let count = frame.read(buffer)?;
                if count > 0 || buffer.is_empty() {
                    return Ok(count);
                }
                let (rest, outcome) = self.frame.take().expect("just used").finish();
                // A frame cut short is told as `Interrupted`, which readers retry.
                outcome.map_err(|_| malformed())?;
                self.rest = Some(rest);
            }
            match self.rest.take() {
                Some(rest) if !rest.is_empty() => self.frame = Some(lz4::Decoder::new(rest)?),
                _ => return Ok(0),
            }
        }
    }
}

/// Deflates at the codec's default level; snappy as one raw block.
pub fn compress(codec: Compression, bytes: &[u8]) -> io::Result<Vec<u8>> {
    match codec {
        Compression::None => Ok(bytes.to_vec()),
        Compression::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(bytes)?;
            encoder.finish()
        }
        Compression::Snappy => snap::raw::Encoder::new().compress_vec(bytes).map_err(io::Error::other),
        Compression::Lz4 => {
            let mut encoder = lz4::EncoderBuilder::new().level(1).build(Vec::new())?;
            encoder.write_all(bytes)?;
            let (out, outcome) = encoder.finish();
            outcome.map(|()| out)
        }
        Compression::Zstd => zstd::encode_all(bytes, zstd::DEFAULT_COMPRESSION_LEVEL),
    }
}
