//! What the canonical form is, what it refuses, and what holds for every value.

mod forms;
mod laws;
mod refusals;

use serde::Serialize;

use super::canonical_json;

fn text<T: Serialize + ?Sized>(value: &T) -> String {
    String::from_utf8(canonical_json(value).unwrap()).unwrap()
}

/// The struct in which `serde_json` passes on a number as text, when its feature `arbitrary_precision` is on.
#[derive(Serialize)]
#[serde(rename = "$serde_json::private::Number")]
struct NumberText {
    #[serde(rename = "$serde_json::private::Number")]
    text: &'static str,
}
