//! The canonical JSON behind [`stable_hash`](crate::fingerprint::stable_hash).
//!
//! A [`serde::Serializer`] of our own, because every step that other formats take before hashing loses
//! something: a tree of values has already merged keys that collide, and numbers have already been rounded.

mod compound;
mod error;
mod key;
mod text;
mod value;

#[cfg(test)]
mod tests;

use serde::Serialize;

pub use error::{NoStableForm, NoStableReason};

use error::Fault;
use value::ValueWriter;

/// How deep a value may be nested. Every JSON text that `serde_json` reads by default fits.
const MAX_DEPTH: u32 = 128;

/// The canonical JSON of a value: the text that [`stable_hash`](crate::fingerprint::stable_hash) hashes.
///
/// The form is that of RFC 8785, so another language can make the same bytes, with one deviation: integers
/// keep all their digits, where the RFC rounds those beyond 2^53 and two different values would become one.
///
/// - The properties of an object are sorted by the UTF-16 code units of their names; the order in which they
///   were written never matters. There is no white space.
/// - Floating-point numbers are written as ECMAScript writes them, `-0.0` as `0`. An `f32` has the shortest
///   digits that give the same `f32`, so `0.1_f32` and `0.1_f64` are both `0.1`.
/// - Text, options, enums, byte strings and map keys have the form that `serde_json` gives them.
///
/// Sequences keep their order. A `HashSet` therefore has another form each time: use a `BTreeSet`, or a sorted
/// `Vec`. A `HashMap` is fine.
///
/// ```
/// # use hapax_core::fingerprint::canonical_json;
/// #[derive(serde::Serialize)]
/// struct Order { id: u64, amount: f64, note: Option<String> }
///
/// let order = Order { id: 7, amount: 12.50, note: None };
/// assert_eq!(canonical_json(&order)?, br#"{"amount":12.5,"id":7,"note":null}"#);
/// # Ok::<(), hapax_core::fingerprint::NoStableForm>(())
/// ```
///
/// # Errors
///
/// [`NoStableForm`] for what has none; its [`reason`](NoStableForm::reason) says why.
pub fn canonical_json<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, NoStableForm> {
    let mut out = Vec::new();
    value.serialize(ValueWriter::new(&mut out, MAX_DEPTH)).map_err(Fault::into_public)?;
    Ok(out)
}
