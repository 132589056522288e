//! Batches compressed anew, where a topic asks for another codec than the producer used. Inflated and deflated piece by
//! piece: neither the records nor more of the result than may be stored are ever held at once.

use super::batch::{BatchHeader, CRC_AT, HEADER_BYTES, PREFIX_BYTES};
use super::compression::{CHUNK_BYTES, Compression, CompressionFault, Inflater, Packing, XERIAL_MAGIC, sink};
use super::record::payload;
use crate::limits::DECOMPRESSED_BYTES_MAX;
use std::io::{self, Write};

/// Why a batch was not compressed anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepackFault {
    /// The batch would have more bytes than this.
    TooLarge { bytes_max: usize },
    /// What is there does not inflate.
    Inflating(CompressionFault),
    /// The codec's library refuses.
    Deflating(Compression),
}

/// The batch with its records in another codec: length, attributes and CRC are right, all else is as it was. `batch` is one
/// whole batch that was parsed to `header`; at most `bytes_max` bytes are made of it.
pub fn repack(batch: &[u8], header: &BatchHeader, packing: Packing, bytes_max: usize) -> Result<Vec<u8>, RepackFault> {
    let from = header.compression().map_err(|_| RepackFault::Deflating(packing.codec))?;
    let head = batch.get(..HEADER_BYTES).ok_or(RepackFault::Deflating(packing.codec))?;
    let mut packed = Bounded { bytes: head.to_vec(), bytes_max, overrun: false };
    let mut source = Inflater::new(from, payload(batch), DECOMPRESSED_BYTES_MAX);
    let outcome = deflate(&mut source, packing, &mut packed);
    if packed.overrun {
        return Err(RepackFault::TooLarge { bytes_max });
    }
    outcome?;
    let mut packed = packed.bytes;
    let length = i32::try_from(packed.len() - PREFIX_BYTES).map_err(|_| RepackFault::TooLarge { bytes_max })?;
    let attributes = header.attributes & !super::batch::CODEC_MASK | packing.codec.id();
    super::batch::put(&mut packed, 8, &length.to_be_bytes());
    super::batch::put(&mut packed, CRC_AT + 4, &attributes.to_be_bytes());
    super::batch::refresh_crc(&mut packed);
    Ok(packed)
}

fn deflate(source: &mut Inflater, packing: Packing, out: &mut Bounded) -> Result<(), RepackFault> {
    let failed = |_: io::Error| RepackFault::Deflating(packing.codec);
    if packing.codec == Compression::Snappy {
        let mut framed = Xerial::new(out).map_err(failed)?;
        copy(source, &mut framed, packing.codec)?;
        return framed.finish().map_err(failed);
    }
    let mut sink = sink(packing, out).map_err(failed)?;
    copy(source, &mut sink, packing.codec)?;
    sink.finish().map_err(failed)
}

fn copy(source: &mut Inflater, sink: &mut dyn Write, codec: Compression) -> Result<(), RepackFault> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = source.read(&mut chunk).map_err(RepackFault::Inflating)?;
        match chunk.get(..count) {
            Some(read) if count > 0 => sink.write_all(read).map_err(|_| RepackFault::Deflating(codec))?,
            _ => return Ok(()),
        }
    }
}

/// Takes so many bytes and no more.
struct Bounded {
    bytes: Vec<u8>,
    bytes_max: usize,
    overrun: bool,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.overrun || self.bytes.len().saturating_add(bytes.len()) > self.bytes_max {
            self.overrun = true;
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes snappy as Kafka's brokers and Java clients do, in framed blocks.
struct Xerial<'a> {
    out: &'a mut Bounded,
    block: Vec<u8>,
}

impl<'a> Xerial<'a> {
    fn new(out: &'a mut Bounded) -> io::Result<Self> {
        out.write_all(&XERIAL_MAGIC)?;
        // Version, and the lowest that can read it.
        out.write_all(&1_i32.to_be_bytes())?;
        out.write_all(&1_i32.to_be_bytes())?;
        Ok(Xerial { out, block: Vec::with_capacity(CHUNK_BYTES) })
    }

    fn end_block(&mut self) -> io::Result<()> {
        let packed = snap::raw::Encoder::new().compress_vec(&self.block).map_err(io::Error::other)?;
        let length = i32::try_from(packed.len()).map_err(io::Error::other)?;
        self.block.clear();
        self.out.write_all(&length.to_be_bytes())?;
        self.out.write_all(&packed)
    }

    fn finish(mut self) -> io::Result<()> {
        if self.block.is_empty() { Ok(()) } else { self.end_block() }
    }
}

impl Write for Xerial<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = CHUNK_BYTES.saturating_sub(self.block.len());
        let (taken, _) = bytes.split_at(bytes.len().min(room));
        self.block.extend_from_slice(taken);
        if self.block.len() >= CHUNK_BYTES {
            self.end_block()?;
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::batch::crc_matches;
    use crate::records::build::BatchBuilder;
    use crate::records::record::{inflated, records};

    fn batch(codec: Compression, values: &[String]) -> Vec<u8> {
        let start = BatchBuilder::new().compression(codec).producer(7, 1, 5);
        values.iter().fold(start, |builder, value| builder.value(value.as_str())).build()
    }

    fn values(batch: &[u8]) -> Vec<Vec<u8>> {
        let inflated = inflated(batch, DECOMPRESSED_BYTES_MAX).expect("it inflates");
        records(&inflated).map(|record| record.expect("a record").value.expect("a value").to_vec()).collect()
    }

    #[test]
    fn every_codec_becomes_every_other_and_the_records_stay() {
        let texts: Vec<String> = (0..9_000).map(|n| format!("value {n} {}", "x".repeat(n % 40))).collect();
        for from in Compression::ALL {
            let sent = batch(from, &texts);
            let header = BatchHeader::parse(&sent).expect("a batch");
            for codec in Compression::ALL {
                let packed = repack(&sent, &header, Packing { codec, level: None }, 1 << 20).expect("packed");
                let after = BatchHeader::parse(&packed).expect("a batch");
                assert_eq!((after.compression(), after.total_bytes), (Ok(codec), packed.len()), "{from:?} {codec:?}");
                assert!(crc_matches(&packed), "{from:?} {codec:?}");
                let same = |header: &BatchHeader| {
                    (header.producer_id, header.base_sequence, header.record_count, header.max_timestamp)
                };
                assert_eq!(same(&after), same(&header));
                assert_eq!(values(&packed), values(&sent), "{from:?} {codec:?}");
            }
        }
    }

    #[test]
    fn levels_are_taken_and_odd_ones_do_no_harm() {
        let texts: Vec<String> = (0..2_000).map(|n| format!("{}", n * n % 977)).collect();
        let sent = batch(Compression::None, &texts);
        let header = BatchHeader::parse(&sent).expect("a batch");
        let size = |codec, level| {
            let packed = repack(&sent, &header, Packing { codec, level: Some(level) }, 1 << 20).expect("packed");
            assert_eq!(values(&packed), values(&sent), "{codec:?} {level}");
            packed.len()
        };
        assert!(size(Compression::Gzip, 9) < size(Compression::Gzip, 1));
        assert!(size(Compression::Lz4, 12) < size(Compression::Lz4, 9), "9 is Kafka's fast default");
        assert!(size(Compression::Zstd, 19) < size(Compression::Zstd, -50));
        for (codec, level) in
            [(Compression::Gzip, -1), (Compression::Gzip, 77), (Compression::Lz4, 17), (Compression::Zstd, i32::MIN)]
        {
            size(codec, level);
        }
    }

    #[test]
    fn what_would_be_too_large_is_given_up_early() {
        let zeros = vec!["\0".repeat(1 << 20); 100];
        let bomb = batch(Compression::Zstd, &zeros);
        let header = BatchHeader::parse(&bomb).expect("a batch");
        assert!(bomb.len() < 100_000);
        for codec in [Compression::None, Compression::Snappy] {
            let outcome = repack(&bomb, &header, Packing { codec, level: None }, 1 << 20);
            assert_eq!(outcome, Err(RepackFault::TooLarge { bytes_max: 1 << 20 }), "{codec:?}");
        }
    }
}
