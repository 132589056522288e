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
pub(super) const XERIAL_MAGIC: [u8; 8] = *b"\x82SNAPPY\0";

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

/// What a batch is to be compressed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Packing {
    pub codec: Compression,
    /// As in Kafka's `compression.<codec>.level`; `None`, and what the codec does not know: its default.
    pub level: Option<i32>,
}

/// Kafka's default for lz4, by which it means the fast compressor, not level 9 of the strong one.
const LZ4_LEVEL_FAST: u32 = 9;

/// Deflates step by step into `out`; `finish` ends it.
pub(super) enum Sink<'a, W: Write> {
    Plain(&'a mut W),
    Gzip(GzEncoder<&'a mut W>),
    Lz4(lz4::Encoder<&'a mut W>),
    Zstd(zstd::Encoder<'static, &'a mut W>),
}

/// A sink for any codec but snappy, whose blocks are not written step by step.
pub(super) fn sink<W: Write>(packing: Packing, out: &mut W) -> io::Result<Sink<'_, W>> {
    Ok(match packing.codec {
        Compression::None => Sink::Plain(out),
        Compression::Gzip => {
            let level = packing.level.and_then(|level| u32::try_from(level).ok()).filter(|level| *level <= 9);
            Sink::Gzip(GzEncoder::new(out, level.map_or(flate2::Compression::default(), flate2::Compression::new)))
        }
        Compression::Snappy => return Err(io::Error::from(io::ErrorKind::Unsupported)),
        Compression::Lz4 => {
            let level = packing.level.and_then(|level| u32::try_from(level).ok()).filter(|l| *l != LZ4_LEVEL_FAST);
            // Blocks that refer to those before them, the crate's default, are not read by Java clients.
            let alone = lz4::BlockMode::Independent;
            Sink::Lz4(lz4::EncoderBuilder::new().level(level.unwrap_or(1)).block_mode(alone).build(out)?)
        }
        Compression::Zstd => {
            Sink::Zstd(zstd::Encoder::new(out, packing.level.unwrap_or(zstd::DEFAULT_COMPRESSION_LEVEL))?)
        }
    })
}

impl<W: Write> Sink<'_, W> {
    pub(super) fn finish(self) -> io::Result<()> {
        match self {
            Sink::Plain(_) => Ok(()),
            Sink::Gzip(encoder) => encoder.finish().map(drop),
            Sink::Lz4(encoder) => encoder.finish().1,
            Sink::Zstd(encoder) => encoder.finish().map(drop),
        }
    }
}

impl<W: Write> Write for Sink<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Plain(out) => out.write(bytes),
            Sink::Gzip(encoder) => encoder.write(bytes),
            Sink::Lz4(encoder) => encoder.write(bytes),
            Sink::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether the blocks of the (first) frame do not refer to those before them: the only frames that Java clients read.
pub(super) fn lz4_blocks_stand_alone(bytes: &[u8]) -> bool {
    const FLAGS_AT: usize = 4;
    const BLOCK_INDEPENDENCE: u8 = 1 << 5;
    bytes.get(FLAGS_AT).is_none_or(|flags| flags & BLOCK_INDEPENDENCE != 0)
}

/// Deflates at the codec's default level; snappy as one raw block.
pub fn compress(codec: Compression, bytes: &[u8]) -> io::Result<Vec<u8>> {
    if codec == Compression::Snappy {
        return snap::raw::Encoder::new().compress_vec(bytes).map_err(io::Error::other);
    }
    let mut out = Vec::new();
    let mut sink = sink(Packing { codec, level: None }, &mut out)?;
    sink.write_all(bytes)?;
    sink.finish()?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODECS: [Compression; 4] = [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

    /// Neither all the same nor without pattern.
    fn sample(length: usize) -> Vec<u8> {
        (0..length).map(|i| u8::try_from((i * i / 7) % 251).expect("small")).collect()
    }

    fn xerial(blocks: &[&[u8]]) -> Vec<u8> {
        let mut out = [&XERIAL_MAGIC[..], &1i32.to_be_bytes(), &1i32.to_be_bytes()].concat();
        for block in blocks {
            let packed = compress(Compression::Snappy, block).expect("packed");
            out.extend(i32::try_from(packed.len()).expect("small").to_be_bytes());
            out.extend(packed);
        }
        out
    }

    #[test]
    fn every_codec_round_trips() {
        for codec in Compression::ALL {
            assert_eq!(Compression::from_id(codec.id()), Some(codec));
            for length in [0, 1, 15, 40_000, 5_000_000] {
                let plain = sample(length);
                let packed = compress(codec, &plain).expect("packed");
                assert_eq!(decompress(codec, &packed, length), Ok(plain), "{codec:?} {length}");
                assert!(codec != Compression::Lz4 || lz4_blocks_stand_alone(&packed), "Java clients read it");
            }
        }
        assert_eq!(Compression::from_id(5), None);
    }

    #[test]
    fn frames_that_follow_each_other_are_read_on() {
        for codec in [Compression::Gzip, Compression::Lz4, Compression::Zstd] {
            let parts = [sample(70_000), sample(3), sample(200_000)];
            let packed: Vec<u8> = parts.iter().flat_map(|p| compress(codec, p).expect("packed")).collect();
            assert_eq!(decompress(codec, &packed, 1 << 20), Ok(parts.concat()), "{codec:?}");
        }
    }

    #[test]
    fn xerial_frames_are_read() {
        let plain = sample(100_000);
        let framed = xerial(&[&plain[..32_768], &plain[32_768..65_536], &plain[65_536..]]);
        assert_eq!(decompress(Compression::Snappy, &framed, plain.len()), Ok(plain.clone()));
        assert_eq!(decompress(Compression::Snappy, &xerial(&[]), 0), Ok(Vec::new()));
        let too_large = CompressionFault::TooLarge { bytes_max: plain.len() - 1 };
        assert_eq!(decompress(Compression::Snappy, &framed, plain.len() - 1), Err(too_large));
        let mut negative = xerial(&[]);
        negative.extend((-1i32).to_be_bytes());
        assert!(decompress(Compression::Snappy, &negative, 10).is_err());
    }

    #[test]
    fn lz4_frames_of_every_make_are_read() {
        let plain = sample(9_000_000);
        for size in [lz4::BlockSize::Max64KB, lz4::BlockSize::Max4MB] {
            for mode in [lz4::BlockMode::Independent, lz4::BlockMode::Linked] {
                for content_size in [0, plain.len() as u64] {
                    let mut encoder = lz4::EncoderBuilder::new()
                        .block_size(size.clone())
                        .block_mode(mode.clone())
                        .block_checksum(lz4::liblz4::BlockChecksum::BlockChecksumEnabled)
                        .checksum(lz4::ContentChecksum::ChecksumEnabled)
                        .content_size(content_size)
                        .build(Vec::new())
                        .expect("an encoder");
                    encoder.write_all(&plain).expect("written");
                    let (packed, outcome) = encoder.finish();
                    outcome.expect("finished");
                    assert!(decompress(Compression::Lz4, &packed, plain.len()).is_ok_and(|out| out == plain));
                    let mut wrong = packed.clone();
                    *wrong.last_mut().expect("not empty") ^= 1;
                    assert!(decompress(Compression::Lz4, &wrong, plain.len()).is_err(), "the checksum counts");
                }
            }
        }
    }

    #[test]
    fn a_zstd_window_of_level_22_is_taken() {
        let plain = sample(300_000);
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("an encoder");
        encoder.window_log(27).expect("a window");
        encoder.write_all(&plain).expect("written");
        let packed = encoder.finish().expect("finished");
        assert_eq!(decompress(Compression::Zstd, &packed, plain.len()), Ok(plain));
    }

    #[test]
    fn the_cap_holds_to_the_byte() {
        let plain = vec![0; 3_000_000];
        for codec in Compression::ALL {
            let packed = compress(codec, &plain).expect("packed");
            assert!(decompress(codec, &packed, plain.len()).is_ok());
            let fault = CompressionFault::TooLarge { bytes_max: plain.len() - 1 };
            assert_eq!(decompress(codec, &packed, plain.len() - 1), Err(fault), "{codec:?}");
            assert!(decompress(codec, &packed, 0).is_err());
        }
    }

    /// Ten gigabytes in ten thousand repeats of one frame: only as much as the cap is ever inflated.
    #[test]
    fn a_bomb_of_many_frames_stops_at_the_cap() {
        for codec in [Compression::Gzip, Compression::Lz4, Compression::Zstd] {
            let frame = compress(codec, &vec![0; 1 << 20]).expect("packed");
            let bomb = frame.repeat(10_000);
            let fault = CompressionFault::TooLarge { bytes_max: 3 << 20 };
            assert_eq!(decompress(codec, &bomb, 3 << 20), Err(fault), "{codec:?}");
        }
    }

    #[test]
    fn claims_reserve_nothing() {
        // A raw snappy block that claims 4 GiB in a few bytes.
        assert!(decompress(Compression::Snappy, b"\xff\xff\xff\xff\x0f\0", usize::MAX).is_err());
        // A zstd frame header with a content size of 2^62 and nothing behind it.
        let claim = b"\x28\xb5\x2f\xfd\xe0\0\0\0\0\0\0\0\x40";
        assert!(decompress(Compression::Zstd, claim, usize::MAX).is_err());
    }

    #[test]
    fn cut_data_is_refused_at_every_length() {
        let plain = sample(5_000);
        for codec in CODECS {
            let packed = compress(codec, &plain).expect("packed");
            for length in 1..packed.len() {
                let outcome = decompress(codec, &packed[..length], plain.len());
                assert!(outcome.is_err(), "{codec:?} cut to {length} of {}", packed.len());
            }
        }
    }

    #[test]
    fn flipped_bytes_never_panic_or_pass_the_cap() {
        let plain = sample(2_000);
        let packed = CODECS.map(|codec| (codec, compress(codec, &plain).expect("packed")));
        let framed = (Compression::Snappy, xerial(&[&plain, &plain]));
        for (codec, packed) in packed.into_iter().chain([framed]) {
            for at in 0..packed.len() {
                for mask in [0xff, 0x80, 0x01] {
                    let mut flipped = packed.clone();
                    flipped[at] ^= mask;
                    let outcome = decompress(codec, &flipped, 10_000);
                    assert!(outcome.map_or(0, |out| out.len()) <= 10_000, "{codec:?} byte {at}");
                }
            }
        }
    }
}
