//! Values: what is written as it comes, and what opens an array or an object.

use std::io::Write as _;

use serde::{Serialize, Serializer, ser::Error as _};

use super::{
    compound::{ArrayWriter, ObjectWriter, StructWriter, close_variant, open_variant},
    error::{Fault, NoStableReason},
    text::{write_f32, write_f64, write_string},
};

/// The struct in which `serde_json` passes on a number as text.
const NUMBER: &str = "$serde_json::private::Number";
/// The struct in which `serde_json` passes on JSON that was not parsed.
const RAW: &str = "$serde_json::private::RawValue";

/// Writes one value to the end of the output.
pub(super) struct ValueWriter<'a> {
    out: &'a mut Vec<u8>,
    /// Levels left below this value.
    left: u32,
}

impl<'a> ValueWriter<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>, left: u32) -> Self {
        Self { out, left }
    }

    /// The levels left for the parts of this value.
    fn below(&self, levels: u32) -> Result<u32, Fault> {
        self.left.checked_sub(levels).ok_or_else(|| Fault::new(NoStableReason::TooDeep))
    }

    fn word(self, word: &str) {
        self.out.extend_from_slice(word.as_bytes());
    }

    /// A wrapper leaves no trace in the text but uses the stack, so it counts as a level.
    fn within<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Fault> {
        let left = self.below(1)?;
        value.serialize(Self { out: self.out, left })
    }
}

macro_rules! integers {
    ($($method:ident: $kind:ty),* $(,)?) => {$(
        fn $method(self, value: $kind) -> Result<(), Fault> {
            write!(self.out, "{value}").map_err(Fault::custom)
        }
    )*};
}

impl<'a> Serializer for ValueWriter<'a> {
    type Ok = ();
    type Error = Fault;
    type SerializeSeq = ArrayWriter<'a>;
    type SerializeTuple = ArrayWriter<'a>;
    type SerializeTupleStruct = ArrayWriter<'a>;
    type SerializeTupleVariant = ArrayWriter<'a>;
    type SerializeMap = ObjectWriter<'a>;
    type SerializeStruct = StructWriter<'a>;
    type SerializeStructVariant = ObjectWriter<'a>;

    integers! {
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128,
    }

    fn serialize_bool(self, value: bool) -> Result<(), Fault> {
        self.word(if value { "true" } else { "false" });
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<(), Fault> {
        write_f32(self.out, value)
    }

    fn serialize_f64(self, value: f64) -> Result<(), Fault> {
        write_f64(self.out, value)
    }

    fn serialize_char(self, value: char) -> Result<(), Fault> {
        write_string(self.out, value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), Fault> {
        write_string(self.out, value)
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Fault> {
        value.serialize(self)
    }

    fn serialize_none(self) -> Result<(), Fault> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Fault> {
        self.within(value)
    }

    fn serialize_unit(self) -> Result<(), Fault> {
        self.word("null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Fault> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Fault> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Fault> {
        self.within(value)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Fault> {
        let left = self.below(1)?;
        open_variant(self.out, variant)?;
        value.serialize(ValueWriter::new(self.out, left)).map_err(|fault| fault.inside_property(variant))?;
        close_variant(self.out, Some(variant));
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<ArrayWriter<'a>, Fault> {
        let left = self.below(1)?;
        Ok(ArrayWriter::open(self.out, left, None))
    }

    fn serialize_tuple(self, len: usize) -> Result<ArrayWriter<'a>, Fault> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_struct(self, _: &'static str, len: usize) -> Result<ArrayWriter<'a>, Fault> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<ArrayWriter<'a>, Fault> {
        let left = self.below(2)?;
        open_variant(self.out, variant)?;
        Ok(ArrayWriter::open(self.out, left, Some(variant)))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<ObjectWriter<'a>, Fault> {
        let left = self.below(1)?;
        Ok(ObjectWriter::open(self.out, left, None))
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<StructWriter<'a>, Fault> {
        match name {
            NUMBER => Ok(StructWriter::Number(self.out)),
            RAW => Err(Fault::new(NoStableReason::RawJson)),
            _ => {
                let left = self.below(1)?;
                Ok(StructWriter::Object(ObjectWriter::open(self.out, left, None)))
            }
        }
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<ObjectWriter<'a>, Fault> {
        let left = self.below(2)?;
        open_variant(self.out, variant)?;
        Ok(ObjectWriter::open(self.out, left, Some(variant)))
    }
}
