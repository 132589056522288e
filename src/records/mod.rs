//! Record batches: view, walk, validate, stamp, compress.

pub mod batch;
pub mod build;
pub mod compression;
#[cfg(test)]
mod golden;
pub mod lookup;
pub mod record;
pub mod repack;
pub mod validate;

pub use batch::{BatchFault, BatchHeader, ChainSummary, chain_is_valid, crc_matches, walk};
pub use build::BatchBuilder;
pub use compression::Compression;
pub use validate::{ProduceRules, Refusal, validate_produce};
