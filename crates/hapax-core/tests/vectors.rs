//! The vectors that any other implementation can check itself against; `vectors/stable_hash.py` makes them.

#![expect(clippy::unwrap_used, reason = "tests")]

use hapax_core::fingerprint::{Fingerprint, canonical_json, stable_hash};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Vectors {
    version: u16,
    values: Vec<ValueVector>,
    numbers: Vec<NumberVector>,
    bytes: Vec<BytesVector>,
}

#[derive(Deserialize)]
struct ValueVector {
    name: String,
    input: String,
    canonical: String,
    sha256: String,
}

#[derive(Deserialize)]
struct NumberVector {
    ieee754: String,
    text: String,
}

#[derive(Deserialize)]
struct BytesVector {
    hex: String,
    fingerprint: Text,
}

/// A fingerprint as it is kept: as text.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Text(Fingerprint);

impl TryFrom<String> for Text {
    type Error = hapax_core::fingerprint::InvalidFingerprint;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map(Self)
    }
}

fn vectors() -> Vectors {
    let vectors: Vectors = serde_json::from_str(include_str!("vectors/stable_hash.json")).unwrap();
    assert_eq!(vectors.version, Fingerprint::VERSION);
    vectors
}

#[test]
fn values_have_the_canonical_text_and_digest_of_the_vectors() {
    let vectors = vectors();
    assert!(!vectors.values.is_empty());
    for ValueVector { name, input, canonical, sha256 } in vectors.values {
        let value: Value = serde_json::from_str(&input).unwrap();
        assert_eq!(String::from_utf8(canonical_json(&value).unwrap()).unwrap(), canonical, "{name}");
        assert_eq!(stable_hash(&value).unwrap().to_string(), format!("1:{sha256}"), "{name}");
    }
}

#[test]
fn canonical_text_is_its_own_canonical_text() {
    for ValueVector { name, canonical, .. } in vectors().values {
        let value: Value = serde_json::from_str(&canonical).unwrap();
        assert_eq!(canonical_json(&value).unwrap(), canonical.as_bytes(), "{name}");
    }
}

#[test]
fn numbers_have_the_text_of_the_vectors() {
    let vectors = vectors();
    assert!(!vectors.numbers.is_empty());
    for NumberVector { ieee754, text } in vectors.numbers {
        let number = f64::from_bits(u64::from_str_radix(&ieee754, 16).unwrap());
        assert_eq!(String::from_utf8(canonical_json(&number).unwrap()).unwrap(), text, "{ieee754}");
    }
}

#[test]
fn bytes_have_the_fingerprints_of_the_vectors() {
    let vectors = vectors();
    assert!(!vectors.bytes.is_empty());
    for BytesVector { hex, fingerprint } in vectors.bytes {
        let bytes: Vec<u8> =
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
        assert_eq!(Fingerprint::of_bytes(&bytes), fingerprint.0, "{hex}");
    }
}
