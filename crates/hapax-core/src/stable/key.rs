//! Map keys become property names, for the kinds where that is one name per key.

use std::borrow::Cow;

use serde::{
    Serialize, Serializer,
    ser::{Error as _, Impossible},
};

use super::error::{Fault, NoStableReason};

type Name = Cow<'static, str>;

/// Answers the property name of a map's key.
pub(super) struct KeyWriter {
    /// Levels left, so that wrappers in wrappers end before the stack does.
    pub(super) left: u32,
}

impl KeyWriter {
    fn within<T: Serialize + ?Sized>(self, value: &T) -> Result<Name, Fault> {
        let left = self.left.checked_sub(1).ok_or_else(|| Fault::new(NoStableReason::TooDeep))?;
        value.serialize(Self { left })
    }
}

macro_rules! displayed {
    ($($method:ident: $kind:ty),* $(,)?) => {$(
        fn $method(self, key: $kind) -> Result<Name, Fault> {
            Ok(Cow::Owned(key.to_string()))
        }
    )*};
}

impl Serializer for KeyWriter {
    type Ok = Name;
    type Error = Fault;
    type SerializeSeq = Impossible<Name, Fault>;
    type SerializeTuple = Impossible<Name, Fault>;
    type SerializeTupleStruct = Impossible<Name, Fault>;
    type SerializeTupleVariant = Impossible<Name, Fault>;
    type SerializeMap = Impossible<Name, Fault>;
    type SerializeStruct = Impossible<Name, Fault>;
    type SerializeStructVariant = Impossible<Name, Fault>;

    displayed! {
        serialize_bool: bool, serialize_char: char, serialize_str: &str,
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128,
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<Name, Fault> {
        Ok(Cow::Borrowed(variant))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Name, Fault> {
        self.within(value)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Name, Fault> {
        self.within(value)
    }

    fn serialize_f32(self, _: f32) -> Result<Name, Fault> {
        Err(Fault::unorderable("a float"))
    }

    fn serialize_f64(self, _: f64) -> Result<Name, Fault> {
        Err(Fault::unorderable("a float"))
    }

    fn serialize_bytes(self, _: &[u8]) -> Result<Name, Fault> {
        Err(Fault::unorderable("a byte string"))
    }

    fn serialize_none(self) -> Result<Name, Fault> {
        Err(Fault::unorderable("`None`"))
    }

    fn serialize_unit(self) -> Result<Name, Fault> {
        Err(Fault::unorderable("a unit"))
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Name, Fault> {
        Err(Fault::unorderable("a unit"))
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Name, Fault> {
        Err(Fault::unorderable("a variant with data"))
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, Fault> {
        Err(Fault::unorderable("a sequence"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Fault> {
        Err(Fault::unorderable("a tuple"))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeTupleStruct, Fault> {
        Err(Fault::unorderable("a tuple"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Fault> {
        Err(Fault::unorderable("a variant with data"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, Fault> {
        Err(Fault::unorderable("a map"))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeStruct, Fault> {
        Err(Fault::unorderable("a struct"))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Fault> {
        Err(Fault::unorderable("a variant with data"))
    }
}

/// The text of a value that has to be text, for the forms that smuggle a number through serde as one.
pub(super) fn text_of<T: Serialize + ?Sized>(value: &T) -> Result<Name, Fault> {
    value.serialize(KeyWriter { left: 1 }).map_err(|_| Fault::custom("a number was not given as text"))
}
