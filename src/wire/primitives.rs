//! How each type of a message field is read, written and sampled.

use super::sample::Sampler;
use super::{DecodeError, Fault, Reader, Uuid, Writer};
use bytes::Bytes;

/// A type with a place on the wire. Version and form (compact or not) come from the cursor.
pub trait Wire: Sized {
    fn read(reader: &mut Reader) -> Result<Self, DecodeError>;
    fn write(&self, writer: &mut Writer);
    /// A random value, for tests.
    #[doc(hidden)]
    fn sample(sampler: &mut Sampler) -> Self;
}

/// A type whose wire form has a null.
pub trait Nullable: Wire {
    fn read_nullable(reader: &mut Reader) -> Result<Option<Self>, DecodeError>;
    /// Writes `Some` where a null was possible; for most types no different from `write`.
    fn write_some(&self, writer: &mut Writer) {
        self.write(writer);
    }
    fn write_null(writer: &mut Writer);
}

impl<T: Nullable> Wire for Option<T> {
    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        T::read_nullable(reader)
    }

    fn write(&self, writer: &mut Writer) {
        match self {
            Some(value) => value.write_some(writer),
            None => T::write_null(writer),
        }
    }

    fn sample(sampler: &mut Sampler) -> Self {
        if sampler.below(3) == 0 { None } else { Some(T::sample(sampler)) }
    }
}

/// Reads a nullable field in a version that knows no null for it.
#[doc(hidden)]
pub fn read_required<T: Wire>(reader: &mut Reader) -> Result<Option<T>, DecodeError> {
    T::read(reader).map(Some)
}

/// Writes a nullable field in a version that knows no null for it: null becomes the empty value.
#[doc(hidden)]
pub fn write_required<T: Wire + Default>(value: &Option<T>, writer: &mut Writer) {
    match value {
        Some(value) => value.write(writer),
        None => T::default().write(writer),
    }
}

fn required<T>(value: Option<T>, reader: &Reader) -> Result<T, DecodeError> {
    value.ok_or_else(|| reader.error(Fault::UnexpectedNull))
}

macro_rules! integers {
    ($($int:ident)*) => { $(
        impl Wire for $int {
            fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
                reader.$int()
            }

            fn write(&self, writer: &mut Writer) {
                writer.raw(&self.to_be_bytes());
            }

            fn sample(sampler: &mut Sampler) -> Self {
                $int::from_be_bytes(sampler.array())
            }
        }
    )* };
}

integers!(i8 i16 u16 i32 i64);

impl Wire for f64 {
    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        reader.array().map(f64::from_be_bytes)
    }

    fn write(&self, writer: &mut Writer) {
        writer.raw(&self.to_be_bytes());
    }

    /// Never NaN, which would differ from itself.
    fn sample(sampler: &mut Sampler) -> Self {
        f64::from(i32::from_be_bytes(sampler.array())) / 8.0
    }
}

impl Wire for bool {
    /// Any byte but zero is true, as in Kafka.
    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(reader.i8()? != 0)
    }

    fn write(&self, writer: &mut Writer) {
        writer.raw(&[u8::from(*self)]);
    }

    fn sample(sampler: &mut Sampler) -> Self {
        sampler.below(2) == 0
    }
}

impl Wire for Uuid {
    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        reader.array().map(Uuid)
    }

    fn write(&self, writer: &mut Writer) {
        writer.raw(&self.0);
    }

    fn sample(sampler: &mut Sampler) -> Self {
        Uuid(sampler.array())
    }
}

impl Wire for String {
    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let text = reader.nullable_string()?;
        required(text, reader)
    }

    fn write(&self, writer: &mut Writer) {
        writer.string(self);
    }

    fn sample(sampler: &mut Sampler) -> Self {
        sampler.text()
    }
}

impl Nullable for String {
    fn read_nullable(reader: &mut Reader) -> Result<Option<Self>, DecodeError> {
        reader.nullable_string()
    }

    fn write_null(writer: &mut Writer) {
        writer.null_string();
    }
}

impl Wire for Bytes {
    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let bytes = reader.nullable_bytes()?;
        required(bytes, reader)
    }

    fn write(&self, writer: &mut Writer) {
        writer.length(self.len());
        writer.raw(self);
    }

    fn sample(sampler: &mut Sampler) -> Self {
        sampler.text().into()
    }
}

impl Nullable for Bytes {
    fn read_nullable(reader: &mut Reader) -> Result<Option<Self>, DecodeError> {
        reader.nullable_bytes()
    }

    fn write_null(writer: &mut Writer) {
        writer.null_length();
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let elements = Self::read_nullable(reader)?;
        required(elements, reader)
    }

    fn write(&self, writer: &mut Writer) {
        writer.length(self.len());
        for element in self {
            element.write(writer);
        }
    }

    fn sample(sampler: &mut Sampler) -> Self {
        (0..sampler.below(4)).map(|_| T::sample(sampler)).collect()
    }
}

impl<T: Wire> Nullable for Vec<T> {
    fn read_nullable(reader: &mut Reader) -> Result<Option<Self>, DecodeError> {
        let Some(count) = reader.nullable_count()? else { return Ok(None) };
        let field = reader.field();
        let mut elements = Vec::new();
        for _ in 0..count {
            reader.enter(field);
            reader.reserve(&mut elements, count)?;
            elements.push(T::read(reader)?);
        }
        Ok(Some(elements))
    }

    fn write_null(writer: &mut Writer) {
        writer.null_length();
    }
}
