//! The names that a description takes in a place, which only the code that reads descriptions knows: it is given a name
//! that nobody has, and refuses it with those that it would take.

use serde::de::value::{MapDeserializer, StrDeserializer};
use serde::de::{DeserializeOwned, Error, IntoDeserializer};
use std::fmt;
use std::iter;

const NOBODY: &str = "?";

/// Why a name is refused.
#[derive(Debug)]
enum Refused {
    /// It is none of these.
    Unknown(&'static [&'static str]),
    /// Something else is wrong.
    Otherwise(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Unknown(names) => write!(f, "none of {names:?}"),
            Refused::Otherwise(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Refused {}

impl Error for Refused {
    fn custom<T: fmt::Display>(message: T) -> Refused {
        Refused::Otherwise(message.to_string())
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Refused {
        Refused::Unknown(expected)
    }
}

fn known<T>(read: Result<T, Refused>) -> &'static [&'static str] {
    match read {
        Err(Refused::Unknown(names)) => names,
        Err(Refused::Otherwise(why)) => panic!("a type without names: {why}"),
        Ok(_) => panic!("a type that takes any name"),
    }
}

fn read<T: DeserializeOwned>(name: &'static str) -> Result<T, Refused> {
    let name: StrDeserializer<'_, Refused> = name.into_deserializer();
    T::deserialize(name)
}

/// The names of an enum's variants, in order.
pub fn of<T: DeserializeOwned>() -> &'static [&'static str] {
    known(read::<T>(NOBODY))
}

/// The variants of an enum without fields, with their names, in order.
pub fn with_values<T: DeserializeOwned>() -> Vec<(&'static str, T)> {
    of::<T>().iter().map(|&name| (name, read(name).expect("a variant that has no fields"))).collect()
}

/// The names of the variants of an enum that are told apart by a field, in order.
pub fn of_tagged<T: DeserializeOwned>(tag: &'static str) -> &'static [&'static str] {
    known(T::deserialize(MapDeserializer::<_, Refused>::new(iter::once((tag, NOBODY)))))
}
