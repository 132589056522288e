//! What is wrong with a peer's bytes, and where.

use std::fmt;

/// A frame that does not decode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DecodeError {
    /// The innermost field that was being read.
    pub field: &'static str,
    /// Where it was found, in bytes from the start of the frame (its length prefix left out).
    pub offset: usize,
    pub fault: Fault,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The frame, or the tagged field, ends before the value does.
    Truncated,
    /// A count of more elements than bytes remain.
    CountTooLarge,
    /// A length below zero where null is not allowed, or below minus one anywhere.
    NegativeLength,
    /// Null where this version does not allow it.
    UnexpectedNull,
    /// A string longer than the 32,767 bytes Kafka allows, whatever its length prefix could say.
    StringTooLong,
    NotUtf8,
    /// A varint of more bits than its type has.
    VarintOverflow,
    /// A marker of a nullable struct that is neither 1 nor -1.
    BadMarker,
    /// A tagged field whose value is shorter than its size says.
    TagSizeMismatch,
    /// More memory asked for than one message may have.
    OverBudget,
    /// Bytes after the end of the message.
    TrailingBytes,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {} of the frame, in field {}", self.fault, self.offset, self.field)
    }
}

impl std::error::Error for DecodeError {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Truncated => "value cut short",
            Fault::CountTooLarge => "count larger than what remains",
            Fault::NegativeLength => "negative length",
            Fault::UnexpectedNull => "null where none is allowed",
            Fault::StringTooLong => "string over 32767 bytes",
            Fault::NotUtf8 => "string is not UTF-8",
            Fault::VarintOverflow => "varint overflow",
            Fault::BadMarker => "bad null marker",
            Fault::TagSizeMismatch => "tagged field shorter than its size",
            Fault::OverBudget => "message needs more memory than allowed",
            Fault::TrailingBytes => "trailing bytes",
        })
    }
}
