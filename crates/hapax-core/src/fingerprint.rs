//! What tells one request from another under the same key.

use std::{fmt, str::FromStr};

use serde::Serialize;
use sha2::{Digest as _, Sha256};

pub use crate::stable::{NoStableForm, NoStableReason, canonical_json};

/// Goes before bytes that are hashed as they are. No JSON text begins with NUL, so bytes never have the
/// fingerprint of a value, not even when they are its canonical JSON.
const BYTES_PREFIX: &[u8] = b"\0hapax bytes\0";

/// Tells one request from another under the same key: a SHA-256, and the version of the rules it was made by.
///
/// A key that comes back with another fingerprint is a mistake of the caller, and is refused.
///
/// As text it is `version:digest`, or `none`:
///
/// ```
/// # use hapax_core::fingerprint::Fingerprint;
/// let fingerprint = Fingerprint::of_bytes(b"order 7");
/// assert!(fingerprint.to_string().starts_with("1:"));
/// assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
/// assert_eq!("none".parse(), Ok(Fingerprint::ANY));
/// ```
// Not `Serialize`: `&fingerprint` would then be data to hash, and compile where the fingerprint was meant.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    version: u16,
    digest: [u8; 32],
}

impl Fingerprint {
    /// Accepts whatever was done under the key before; `none` as text. It is a decision, so it is written down.
    pub const ANY: Self = Self { version: 0, digest: [0; 32] };

    /// The version of the rules that [`stable_hash`] and [`Fingerprint::of_bytes`] follow.
    pub const VERSION: u16 = 1;

    /// The versions that this process can make, and so compare. A later version keeps the one before it here
    /// as long as records of that version live.
    const SUPPORTED: &[u16] = &[Self::VERSION];

    /// The fingerprint of bytes as they are. Never that of a value hashed by [`stable_hash`].
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let hash = Sha256::new().chain_update(BYTES_PREFIX).chain_update(bytes);
        Self::from_digest(Self::VERSION, hash.finalize().into())
    }

    /// The fingerprint with these parts, for a store that keeps them apart. Version 0 is [`Fingerprint::ANY`],
    /// whatever the digest.
    pub const fn from_digest(version: u16, digest: [u8; 32]) -> Self {
        if version == Self::ANY.version { Self::ANY } else { Self { version, digest } }
    }

    /// The version of the rules it was made by; 0 for [`Fingerprint::ANY`].
    pub const fn version(&self) -> u16 {
        self.version
    }

    /// The digest; all zeros for [`Fingerprint::ANY`].
    pub const fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Whether a request with this fingerprint is the one that a record was `stored` for.
    pub fn agrees_with(&self, stored: &Self) -> Agreement {
        // `ANY` has a version of its own, which is not among those that can be made.
        if self.version != stored.version || !Self::SUPPORTED.contains(&stored.version) {
            Agreement::Unknowable
        } else if self.digest == stored.digest {
            Agreement::Same
        } else {
            Agreement::Other
        }
    }
}

/// What comparing a request's [`Fingerprint`] with a stored one told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Agreement {
    /// The same request.
    Same,
    /// Another request: the key was used for something else.
    Other,
    /// They cannot be compared: one is [`Fingerprint::ANY`], or the stored one follows rules that this process
    /// does not know. It counts as the same request.
    Unknowable,
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ANY {
            return f.write_str("none");
        }
        write!(f, "{}:", self.version)?;
        self.digest.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// The text is no [`Fingerprint`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no fingerprint; expected `none`, or a version, a colon and 64 lower-case hex digits")]
#[non_exhaustive]
pub struct InvalidFingerprint {}

impl FromStr for Fingerprint {
    type Err = InvalidFingerprint;

    /// Takes what `Display` gives and nothing else, so that equal fingerprints are equal text.
    fn from_str(text: &str) -> Result<Self, InvalidFingerprint> {
        if text == "none" {
            return Ok(Self::ANY);
        }
        parse(text).ok_or(InvalidFingerprint {})
    }
}

fn parse(text: &str) -> Option<Fingerprint> {
    let (version, digits) = text.split_once(':')?;
    // `u16` would also take a sign and leading zeros; 0 itself is only written `none`.
    if !version.starts_with(|first| matches!(first, '1'..='9')) {
        return None;
    }
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let mut digest = [0; 32];
    if pairs.len() != digest.len() || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in digest.iter_mut().zip(pairs) {
        *byte = hex_digit(*high)? << 4 | hex_digit(*low)?;
    }
    Some(Fingerprint::from_digest(version.parse().ok()?, digest))
}

fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// The fingerprint of plain data: the SHA-256 of its [canonical JSON](canonical_json).
///
/// The order of properties never matters, so a struct, a map and parsed JSON with the same content have the
/// same fingerprint. Another language computes it by hashing the RFC 8785 form of the same JSON.
///
/// ```
/// # use hapax_core::fingerprint::stable_hash;
/// #[derive(serde::Serialize)]
/// struct Charge { currency: &'static str, amount: u32 }
///
/// let charge = Charge { currency: "EUR", amount: 1250 };
/// let json: serde_json::Value = serde_json::from_str(r#"{ "amount": 1250.0, "currency": "EUR" }"#)?;
/// assert_eq!(stable_hash(&charge)?, stable_hash(&json)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`NoStableForm`], with the path of what has none: a number that is not finite, a map whose keys have no
/// order or become the same text, nesting beyond 128 levels.
pub fn stable_hash<T: Serialize + ?Sized>(value: &T) -> Result<Fingerprint, NoStableForm> {
    let text = canonical_json(value)?;
    Ok(Fingerprint::from_digest(Fingerprint::VERSION, Sha256::digest(text).into()))
}

/// What can tell requests apart: `&value` (hashed by [`stable_hash`]), a [`Fingerprint`], or the answer of
/// [`stable_hash`] as it is.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no fingerprint",
    label = "expected a reference to plain data, or a `Fingerprint`",
    note = "pass `&value` to hash its serde form, or `Fingerprint::ANY` to accept any earlier request"
)]
pub trait IntoFingerprint {
    /// Makes the fingerprint.
    ///
    /// # Errors
    ///
    /// [`NoStableForm`] when the data has none.
    fn into_fingerprint(self) -> Result<Fingerprint, NoStableForm>;
}

impl IntoFingerprint for Fingerprint {
    fn into_fingerprint(self) -> Result<Fingerprint, NoStableForm> {
        Ok(self)
    }
}

impl IntoFingerprint for Result<Fingerprint, NoStableForm> {
    fn into_fingerprint(self) -> Result<Fingerprint, NoStableForm> {
        self
    }
}

impl<T: Serialize + ?Sized> IntoFingerprint for &T {
    fn into_fingerprint(self) -> Result<Fingerprint, NoStableForm> {
        stable_hash(self)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eff";

    #[test]
    fn text_is_version_and_lower_case_hex() {
        let text = format!("1:{HEX}");
        let parsed: Fingerprint = text.parse().unwrap();
        assert_eq!(parsed.version(), 1);
        assert_eq!(parsed.digest()[1..3], [1, 2]);
        assert_eq!(parsed.digest()[31], 255);
        assert_eq!(parsed.to_string(), text);
        assert_eq!(format!("{parsed:?}"), format!("Fingerprint({text})"));
    }

    #[test]
    fn any_is_none_as_text() {
        assert_eq!(Fingerprint::ANY.to_string(), "none");
        assert_eq!("none".parse(), Ok(Fingerprint::ANY));
        assert_eq!(Fingerprint::ANY.version(), 0);
    }

    #[test]
    fn version_zero_is_any_whatever_its_digest() {
        assert_eq!(Fingerprint::from_digest(0, [7; 32]), Fingerprint::ANY);
    }

    #[test]
    fn a_version_of_the_future_keeps_its_text() {
        let text = format!("65535:{HEX}");
        assert_eq!(text.parse::<Fingerprint>().unwrap().to_string(), text);
    }

    #[test]
    fn only_the_canonical_text_is_read() {
        let refused = [
            String::new(),
            "None".into(),
            "1".into(),
            "1:".into(),
            HEX.into(),
            format!(":{HEX}"),
            format!("0:{HEX}"),
            format!("01:{HEX}"),
            format!("+1:{HEX}"),
            format!("-1:{HEX}"),
            format!("65536:{HEX}"),
            format!(" 1:{HEX}"),
            format!("1:{HEX}\n"),
            format!("1:{}", HEX.to_uppercase()),
            format!("1:{HEX}0"),
            format!("1:{HEX}00"),
            format!("1:{}", &HEX[1..]),
            format!("1:{}", &HEX[2..]),
            format!("1:+{}", &HEX[1..]),
            format!("1:g{}", &HEX[1..]),
            format!("1:{}é", &HEX[2..]),
        ];
        for text in refused {
            assert_eq!(text.parse::<Fingerprint>(), Err(InvalidFingerprint {}), "{text:?}");
        }
    }

    #[test]
    fn equal_digests_of_the_current_version_are_the_same_request() {
        let one = Fingerprint::of_bytes(b"one");
        assert_eq!(one.agrees_with(&Fingerprint::of_bytes(b"one")), Agreement::Same);
        assert_eq!(one.agrees_with(&Fingerprint::of_bytes(b"two")), Agreement::Other);
    }

    #[test]
    fn any_on_either_side_is_unknowable() {
        let one = Fingerprint::of_bytes(b"one");
        let any = Fingerprint::ANY;
        for (request, stored) in [(any, one), (one, any), (any, any)] {
            assert_eq!(request.agrees_with(&stored), Agreement::Unknowable);
        }
    }

    #[test]
    fn a_version_this_process_cannot_make_is_unknowable() {
        let one = Fingerprint::of_bytes(b"one");
        let later = Fingerprint::from_digest(2, *one.digest());
        for (request, stored) in [(one, later), (later, one), (later, later)] {
            assert_eq!(request.agrees_with(&stored), Agreement::Unknowable);
        }
    }

    #[test]
    fn bytes_never_have_the_fingerprint_of_a_value() {
        for json in ["null", "1", r#""text""#, "[]", "{}"] {
            let value: serde_json::Value = serde_json::from_str(json).unwrap();
            assert_eq!(canonical_json(&value).unwrap(), json.as_bytes());
            assert_ne!(stable_hash(&value).unwrap(), Fingerprint::of_bytes(json.as_bytes()));
        }
    }

    #[test]
    fn what_api_calls_take_becomes_a_fingerprint() {
        fn made(from: impl IntoFingerprint) -> Fingerprint {
            from.into_fingerprint().unwrap()
        }
        let data = BTreeSet::from([1, 2]);
        let expected = stable_hash(&data).unwrap();
        assert_eq!(made(&data), expected);
        assert_eq!(made(stable_hash(&data)), expected);
        assert_eq!(made(expected), expected);
        assert_eq!(made(Fingerprint::ANY), Fingerprint::ANY);
        assert_eq!(made("text"), stable_hash("text").unwrap());
        assert_eq!(made(&[1, 2][..]), expected);
        assert!((&f64::NAN).into_fingerprint().is_err());
        assert!(stable_hash(&f64::NAN).into_fingerprint().is_err());
    }

    proptest! {
        #[test]
        fn text_round_trips(version: u16, digest: [u8; 32]) {
            let fingerprint = Fingerprint::from_digest(version, digest);
            prop_assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
        }

        #[test]
        fn reading_text_never_panics_and_never_takes_two_texts_for_one(text in "[0-9a-f:+none]{0,70}") {
            if let Ok(fingerprint) = text.parse::<Fingerprint>() {
                prop_assert_eq!(fingerprint.to_string(), text);
            }
        }
    }
}
