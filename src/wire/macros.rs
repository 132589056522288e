//! `wire!`: one declaration of a message gives its struct, defaults, reading, writing and a random sample.

/// Declares the structs of a message:
///
/// ```text
/// wire! {
///     pub struct ListOffsetsPartition {
///         partition_index: i32 => 0..;                        in every version
///         current_leader_epoch: i32 = -1 => 4..;              with a default that is not zero, null or empty
///         old: i32 => 0..=3;                                  gone after version 3
///         topics: Option<Vec<Topic>> => 0.., null 2..;        null is legal from version 2 on only
///         rack: Option<String> => 16.., tag 0;                a tagged field (KIP-482)
///     }
/// }
/// ```
///
/// A field out of its versions is left out when written and has its default when read. An unknown tagged field is
/// skipped; a tagged field with its default is not written. Tags are declared in ascending order.
macro_rules! wire {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$field_meta:meta])* $field:ident : $ty:ty $(= $default:expr)? => $versions:expr
                $(, null $nullable:expr)? $(, tag $tag:literal)? ;)*
        }
    )*) => { $(
        $(#[$meta])*
        #[derive(Clone, PartialEq, Debug)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $ty,)*
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $($field: $crate::wire::wire!(@default $($default)?),)* }
            }
        }

        impl $crate::wire::Wire for $name {
            #[allow(unused_mut, unused_variables, clippy::match_single_binding)]
            fn read(
                reader: &mut $crate::wire::Reader,
            ) -> Result<Self, $crate::wire::DecodeError> {
                let version = reader.version();
                let mut value = Self::default();
                $($crate::wire::wire!(@read reader, version, value, $field, ($versions) [$($nullable)?] [$($tag)?]);)*
                if reader.flexible() {
                    reader.tags(|reader, tag| match tag {
                        $($($tag if ($versions).contains(&version) => {
                            reader.enter(stringify!($field));
                            value.$field = $crate::wire::Wire::read(reader)?;
                            Ok(true)
                        })?)*
                        _ => Ok(false),
                    })?;
                }
                Ok(value)
            }

            #[allow(unused_variables)]
            fn write(&self, writer: &mut $crate::wire::Writer) {
                let version = writer.version();
                $(
                    $crate::wire::wire!(@note writer, version, $field self.$field, ($versions));
                    $crate::wire::wire!(@write writer, version, self.$field, ($versions) [$($nullable)?] [$($tag)?]);
                )*
                if writer.flexible() {
                    writer.tags(|tags| {
                        $($crate::wire::wire!(
                            @tagged tags, version, self.$field, $ty, ($versions) [$($default)?] [$($tag)?]
                        );)*
                    });
                }
            }

            #[allow(unused_mut, unused_variables)]
            fn sample(sampler: &mut $crate::wire::sample::Sampler) -> Self {
                let version = sampler.version();
                let mut value = Self::default();
                $($crate::wire::wire!(@sample sampler, version, value.$field, ($versions) [$($nullable)?]);)*
                value
            }
        }
    )* };

    (@default) => { Default::default() };
    (@default $default:expr) => { $default };

    (@read $reader:ident, $version:ident, $value:ident, $field:ident, ($versions:expr) [] []) => {
        if ($versions).contains(&$version) {
            $reader.enter(stringify!($field));
            $value.$field = $crate::wire::Wire::read($reader)?;
        }
    };
    (@read $reader:ident, $version:ident, $value:ident, $field:ident, ($versions:expr) [$nullable:expr] []) => {
        if ($versions).contains(&$version) {
            $reader.enter(stringify!($field));
            $value.$field = if ($nullable).contains(&$version) {
                $crate::wire::Wire::read($reader)?
            } else {
                $crate::wire::read_required($reader)?
            };
        }
    };
    (@read $reader:ident, $version:ident, $value:ident, $field:ident, ($versions:expr) [] [$tag:literal]) => {};

    (@note $writer:ident, $version:ident, error_code $value:expr, ($versions:expr)) => {
        if ($versions).contains(&$version) {
            $writer.note_error($value);
        }
    };
    (@note $writer:ident, $version:ident, $field:ident $value:expr, ($versions:expr)) => {};

    (@write $writer:ident, $version:ident, $value:expr, ($versions:expr) [] []) => {
        if ($versions).contains(&$version) {
            $crate::wire::Wire::write(&$value, $writer);
        }
    };
    (@write $writer:ident, $version:ident, $value:expr, ($versions:expr) [$nullable:expr] []) => {
        if ($versions).contains(&$version) {
            if ($nullable).contains(&$version) {
                $crate::wire::Wire::write(&$value, $writer);
            } else {
                $crate::wire::write_required(&$value, $writer);
            }
        }
    };
    (@write $writer:ident, $version:ident, $value:expr, ($versions:expr) [] [$tag:literal]) => {};

    (@tagged $tags:ident, $version:ident, $value:expr, $ty:ty, ($versions:expr) [$($default:expr)?] []) => {};
    (@tagged $tags:ident, $version:ident, $value:expr, $ty:ty, ($versions:expr) [$($default:expr)?] [$tag:literal]) => {
        if ($versions).contains(&$version) {
            let default: $ty = $crate::wire::wire!(@default $($default)?);
            if $value != default {
                $tags.add($tag, |writer| $crate::wire::Wire::write(&$value, writer));
            }
        }
    };

    (@sample $sampler:ident, $version:ident, $value:expr, ($versions:expr) [$($nullable:expr)?]) => {
        if ($versions).contains(&$version) {
            $value = $crate::wire::Wire::sample($sampler);
            $(if !($nullable).contains(&$version) {
                $value.get_or_insert_default();
            })?
        }
    };
}

/// Lets a struct be null: a byte before it says whether it is there (1) or null (-1).
macro_rules! nullable_struct {
    ($name:ident) => {
        impl $crate::wire::Nullable for $name {
            fn read_nullable(reader: &mut $crate::wire::Reader) -> Result<Option<Self>, $crate::wire::DecodeError> {
                match reader.i8()? {
                    -1 => Ok(None),
                    1 => $crate::wire::Wire::read(reader).map(Some),
                    _ => Err(reader.error($crate::wire::Fault::BadMarker)),
                }
            }

            fn write_some(&self, writer: &mut $crate::wire::Writer) {
                writer.raw(&[1]);
                $crate::wire::Wire::write(self, writer);
            }

            fn write_null(writer: &mut $crate::wire::Writer) {
                writer.raw(&[0xff]);
            }
        }
    };
}

pub(crate) use nullable_struct;
pub(crate) use wire;
