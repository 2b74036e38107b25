//! Tokens fence a reservation: whoever does not hold the right one changes nothing.

use crate::{StoreError, StoreErrorKind, StoreResult};
use sha2::{Digest, Sha256};
use std::{fmt, str::FromStr};

/// 128 random bits that name one reservation. Made once per logical call, outside any resend, so that a store that
/// finds it again knows its caller. `Debug` shows nothing of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token([u8; 16]);

impl Token {
    /// A new token from the system's random source.
    pub fn random() -> StoreResult<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|e| {
            StoreError::new(
                StoreErrorKind::Internal,
                "hapax",
                "make a token",
                "the system gave no random bytes",
            )
            .with_source(e)
        })?;
        Ok(Self(bytes))
    }

    /// A token that a store kept.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// For stores.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The version of the record that this token wrote. Says nothing about the token.
    pub fn version(&self) -> Version {
        let digest: [u8; 32] = Sha256::digest(self.0).into();
        let first = digest.first_chunk().copied().unwrap_or_default();
        Version(u64::from_be_bytes(first))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Tells one state of a record from the next, so that a verdict by hand meets what its author saw. Sixteen hex digits
/// as text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Version(u64);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The text is no [`Version`].
#[derive(Debug, thiserror::Error)]
#[error("a version is 16 hex digits, as `hapax keys get` prints it")]
#[non_exhaustive]
pub struct InvalidVersion;

impl FromStr for Version {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, InvalidVersion> {
        if text.len() != 16 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(InvalidVersion);
        }
        u64::from_str_radix(text, 16).map(Self).map_err(|_| InvalidVersion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_round_trips_and_tells_tokens_apart() {
        let (a, b) = (Token::random().unwrap(), Token::random().unwrap());
        assert_ne!(a.version(), b.version());
        assert_eq!(a.version().to_string().parse::<Version>().unwrap(), a.version());
        assert!("12".parse::<Version>().is_err());
        assert_eq!(format!("{a:?}"), "Token(…)");
    }
}
