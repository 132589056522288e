//! How bytes are read and written: cursor, primitives, the `wire!` macro.

mod error;
mod macros;
mod primitives;
mod reader;
#[doc(hidden)]
pub mod sample;
mod uuid;
mod writer;

pub use error::{DecodeError, Fault};
pub use primitives::{Nullable, Wire};
pub use reader::Reader;
pub use uuid::Uuid;
pub use writer::{Errors, TagSection, Writer};

pub(crate) use macros::{nullable_struct, wire};
#[doc(hidden)]
pub use primitives::{read_required, write_required};
