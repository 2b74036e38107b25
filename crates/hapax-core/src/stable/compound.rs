//! Arrays and objects while they are being written.

use std::{borrow::Cow, ops::Range};

use serde::{
    Serialize,
    ser::{self, Error as _},
};

use super::{
    error::{Fault, NoStableReason, Step},
    key::{KeyWriter, text_of},
    text::{name_order, write_number_text, write_string},
    value::ValueWriter,
};

/// The name an enum's variant puts around its data: `{"Variant":` … `}`.
pub(super) type Variant = Option<&'static str>;

pub(super) fn open_variant(out: &mut Vec<u8>, variant: &str) -> Result<(), Fault> {
    out.push(b'{');
    write_string(out, variant)?;
    out.push(b':');
    Ok(())
}

pub(super) fn close_variant(out: &mut Vec<u8>, variant: Variant) {
    if variant.is_some() {
        out.push(b'}');
    }
}

fn inside_variant(fault: Fault, variant: Variant) -> Fault {
    match variant {
        Some(variant) => fault.inside_property(variant),
        None => fault,
    }
}

/// An array: sequences, tuples, and variants that hold a tuple.
pub(super) struct ArrayWriter<'a> {
    out: &'a mut Vec<u8>,
    left: u32,
    variant: Variant,
    count: usize,
}

impl<'a> ArrayWriter<'a> {
    pub(super) fn open(out: &'a mut Vec<u8>, left: u32, variant: Variant) -> Self {
        out.push(b'[');
        Self { out, left, variant, count: 0 }
    }

    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
        if self.count > 0 {
            self.out.push(b',');
        }
        value
            .serialize(ValueWriter::new(self.out, self.left))
            .map_err(|fault| inside_variant(fault.inside(Step::Element(self.count)), self.variant))?;
        self.count += 1;
        Ok(())
    }

    fn close(self) {
        self.out.push(b']');
        close_variant(self.out, self.variant);
    }
}

/// An object: maps, structs, and variants that hold a struct.
pub(super) struct ObjectWriter<'a> {
    out: &'a mut Vec<u8>,
    left: u32,
    variant: Variant,
    /// Where in `out` the first property begins.
    start: usize,
    properties: Vec<Property>,
    /// The key of a map's entry whose value has not come yet.
    pending: Option<Cow<'static, str>>,
}

struct Property {
    name: Cow<'static, str>,
    /// Where in the output `"name":value` is.
    text: Range<usize>,
}

impl<'a> ObjectWriter<'a> {
    pub(super) fn open(out: &'a mut Vec<u8>, left: u32, variant: Variant) -> Self {
        out.push(b'{');
        let start = out.len();
        Self { out, left, variant, start, properties: Vec::new(), pending: None }
    }

    fn key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Fault> {
        if self.pending.is_some() {
            return Err(Fault::custom("a map gave two keys in a row"));
        }
        self.pending = Some(key.serialize(KeyWriter { left: self.left })?);
        Ok(())
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
        let name = self.pending.take().ok_or_else(|| Fault::custom("a map gave a value without a key"))?;
        self.property(name, value)
    }

    fn property<T: Serialize + ?Sized>(&mut self, name: Cow<'static, str>, value: &T) -> Result<(), Fault> {
        if !self.properties.is_empty() {
            self.out.push(b',');
        }
        let start = self.out.len();
        write_string(self.out, &name)?;
        self.out.push(b':');
        if let Err(fault) = value.serialize(ValueWriter::new(self.out, self.left)) {
            return Err(inside_variant(fault.inside_property(name), self.variant));
        }
        self.properties.push(Property { name, text: start..self.out.len() });
        Ok(())
    }

    fn close(mut self) -> Result<(), Fault> {
        if self.pending.is_some() {
            return Err(Fault::custom("a map gave a key without a value"));
        }
        // Strictly rising names are in place and cannot collide. Structs whose fields are declared in
        // alphabetical order, and maps that were sorted already, need no second copy.
        if !self.properties.is_sorted_by(|a, b| name_order(&a.name, &b.name).is_lt()) {
            self.sort()?;
        }
        self.out.push(b'}');
        close_variant(self.out, self.variant);
        Ok(())
    }

    fn sort(&mut self) -> Result<(), Fault> {
        self.properties.sort_by(|a, b| name_order(&a.name, &b.name));
        if let Some(twice) = first_twice(&self.properties) {
            let fault = Fault::new(NoStableReason::CollidingKeys).inside_property(twice.to_owned());
            return Err(inside_variant(fault, self.variant));
        }
        let mut sorted = Vec::with_capacity(self.out.len() - self.start);
        for property in &self.properties {
            if !sorted.is_empty() {
                sorted.push(b',');
            }
            sorted.extend_from_slice(self.out.get(property.text.clone()).unwrap_or_default());
        }
        self.out.truncate(self.start);
        self.out.append(&mut sorted);
        Ok(())
    }
}

/// The first name that two neighbours share.
fn first_twice(sorted: &[Property]) -> Option<&str> {
    let following = sorted.iter().skip(1);
    sorted.iter().zip(following).find(|(a, b)| a.name == b.name).map(|(a, _)| a.name.as_ref())
}

/// A struct. One name is not an object: `serde_json` passes numbers on in it when its feature
/// `arbitrary_precision` is on, and the form must not depend on what another crate switches on.
pub(super) enum StructWriter<'a> {
    Object(ObjectWriter<'a>),
    Number(&'a mut Vec<u8>),
}

macro_rules! array {
    ($($of:ident :: $method:ident),* $(,)?) => {$(
        impl ser::$of for ArrayWriter<'_> {
            type Ok = ();
            type Error = Fault;
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
                self.element(value)
            }
            fn end(self) -> Result<(), Fault> {
                self.close();
                Ok(())
            }
        }
    )*};
}

array! {
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field,
}

impl ser::SerializeMap for ObjectWriter<'_> {
    type Ok = ();
    type Error = Fault;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Fault> {
        self.key(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
        self.value(value)
    }

    fn end(self) -> Result<(), Fault> {
        self.close()
    }
}

impl ser::SerializeStructVariant for ObjectWriter<'_> {
    type Ok = ();
    type Error = Fault;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Fault> {
        self.property(Cow::Borrowed(name), value)
    }

    fn end(self) -> Result<(), Fault> {
        self.close()
    }
}

impl ser::SerializeStruct for StructWriter<'_> {
    type Ok = ();
    type Error = Fault;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Fault> {
        match self {
            Self::Object(object) => object.property(Cow::Borrowed(name), value),
            Self::Number(out) => write_number_text(out, &text_of(value)?),
        }
    }

    fn end(self) -> Result<(), Fault> {
        match self {
            Self::Object(object) => object.close(),
            Self::Number(_) => Ok(()),
        }
    }
}
