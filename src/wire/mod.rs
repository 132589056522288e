//! How bytes are read and written: cursor, primitives, the `wire!` macro.

mod uuid;

pub use uuid::Uuid;
