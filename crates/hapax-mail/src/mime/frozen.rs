//! What is fixed before the first attempt, so that every attempt sends the same bytes.

use super::RenderError;
use crate::Message;
use hapax_core::{Fingerprint, StoreError, StoreErrorKind, StoreResult, Timestamp};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The id, date and boundaries of one mail. Made once, before its first attempt.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frozen {
    /// `<id@domain>`.
    pub message_id: String,
    /// When it was first to be sent.
    pub date: Timestamp,
    /// 1 to 40 letters and digits that the boundaries between parts are made of. Nobody who writes the text may know
    /// them beforehand.
    pub boundary_seed: String,
}

/// What a mail's id is made from.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Identity<'a> {
    /// The secret of the store, so that nobody can guess an id, or find out a key by trying.
    pub secret: &'a [u8],
    /// The namespace of the record.
    pub namespace: &'a str,
    /// The scope of the record.
    pub scope: &'a str,
    /// The idempotency key.
    pub key: &'a str,
    /// The fingerprint of the message.
    pub fingerprint: &'a Fingerprint,
}

impl<'a> Identity<'a> {
    /// All five.
    pub fn new(
        secret: &'a [u8],
        namespace: &'a str,
        scope: &'a str,
        key: &'a str,
        fingerprint: &'a Fingerprint,
    ) -> Self {
        Self { secret, namespace, scope, key, fingerprint }
    }

    fn value(&self) -> String {
        derived(self.secret, [self.namespace, self.scope, self.key], self.fingerprint)
    }
}

impl std::fmt::Debug for Identity<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("scope", &self.scope).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Frozen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frozen").field("date", &self.date).finish_non_exhaustive()
    }
}

impl Frozen {
    /// Given values. [`render`](super::render) refuses an id or seed that could not stand in a mail.
    pub fn new(message_id: impl Into<String>, date: Timestamp, boundary_seed: impl Into<String>) -> Self {
        Self { message_id: message_id.into(), date, boundary_seed: boundary_seed.into() }
    }

    /// For a message with a key: derived, the same in every process that has the secret. The caller's own id wins.
    pub fn derived(message: &Message, identity: &Identity<'_>, date: Timestamp) -> Self {
        Self::from_value(message, identity.value(), date)
    }

    /// For a message without a key: random. The caller's own id wins.
    pub fn random(message: &Message, date: Timestamp) -> StoreResult<Self> {
        Ok(Self::from_value(message, random()?, date))
    }

    /// As [`random`](Self::random), for bytes that are given: the id is used if they have none.
    pub fn random_at(domain: &str, date: Timestamp) -> StoreResult<Self> {
        let value = random()?;
        Ok(Self::new(format!("<{value}@{domain}>"), date, value))
    }

    fn from_value(message: &Message, value: String, date: Timestamp) -> Self {
        let message_id = match message.message_id() {
            Some(own) => own.to_owned(),
            None => format!("<{value}@{}>", from_domain(message)),
        };
        Self::new(message_id, date, value)
    }

    pub(super) fn check(&self) -> Result<(), RenderError> {
        let seed = &self.boundary_seed;
        if seed.is_empty() || seed.len() > 40 || !seed.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Err(RenderError::BadSeed);
        }
        self.check_id()
    }

    pub(crate) fn check_id(&self) -> Result<(), RenderError> {
        let inner = self.message_id.strip_prefix('<').and_then(|id| id.strip_suffix('>'));
        let fits = |id: &str| {
            id.len() <= 900 && id.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'<' | b'>'))
        };
        if inner.is_some_and(|id| id.contains('@') && fits(id)) {
            Ok(())
        } else {
            Err(RenderError::BadMessageId)
        }
    }
}

fn from_domain(message: &Message) -> &str {
    message.from().first().map_or("localhost", |author| author.ascii_domain())
}

/// The `Message-ID` of a mail under a key: the first 26 base32 characters of an HMAC-SHA-256 over namespace, scope, key
/// and fingerprint, at the author's domain. Whoever does not have the secret can neither guess it nor test a key
/// against it.
pub fn derive_message_id(
    secret: &[u8],
    namespace: &str,
    scope: &str,
    key: &str,
    fingerprint: &Fingerprint,
    from_domain: &str,
) -> String {
    format!("<{}@{from_domain}>", derived(secret, [namespace, scope, key], fingerprint))
}

fn derived(secret: &[u8], names: [&str; 3], fingerprint: &Fingerprint) -> String {
    // HMAC takes a secret of any length, so this cannot fail.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else { return String::new() };
    let fingerprint = fingerprint.to_string();
    for part in ["hapax mail message-id 1"].into_iter().chain(names).chain([fingerprint.as_str()]) {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part.as_bytes());
    }
    base32(&mac.finalize().into_bytes())
}

fn random() -> StoreResult<String> {
    let mut bytes = [0; 17];
    getrandom::fill(&mut bytes).map_err(|e| {
        StoreError::new(
            StoreErrorKind::Internal,
            "hapax",
            "make a message id",
            "the system gave no random bytes",
        )
        .with_source(e)
    })?;
    Ok(base32(&bytes))
}

/// 26 characters, 130 bits, of `a`–`z` and `2`–`7`: RFC 4648 in lower case, without padding.
fn base32(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut out = String::with_capacity(26);
    let (mut bits, mut held) = (0_u32, 0_u32);
    for byte in bytes {
        bits = (bits << 8) | u32::from(*byte);
        held += 8;
        while held >= 5 && out.len() < 26 {
            held -= 5;
            let index = (bits >> held) & 31;
            out.push(ALPHABET.get(index as usize).copied().map_or('a', char::from));
        }
        if out.len() == 26 {
            break;
        }
        bits &= (1 << held) - 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base32_is_that_of_the_rfc() {
        // RFC 4648 §10, "foobar" padded with zeros to 17 bytes.
        let mut bytes = [0; 17];
        bytes[..6].copy_from_slice(b"foobar");
        assert!(base32(&bytes).starts_with("mzxw6ytboi"));
        assert_eq!(base32(&bytes).len(), 26);
        assert_eq!(base32(&[0xff; 32]), "7".repeat(26));
    }

    #[test]
    fn random_ids_differ() {
        let at = Timestamp::from_millis(0);
        let (a, b) =
            (Frozen::random_at("example.com", at).unwrap(), Frozen::random_at("example.com", at).unwrap());
        assert_ne!(a.message_id, b.message_id);
        assert!(a.check().is_ok());
    }

    #[test]
    fn ids_and_seeds_that_could_break_a_mail_are_refused() {
        let at = Timestamp::from_millis(0);
        for id in ["", "a@b", "<a>", "<a@b>\r\nBcc: c", "<a @b>", "<é@b>", "<a@b>>"] {
            assert_eq!(Frozen::new(id, at, "abc").check(), Err(RenderError::BadMessageId), "{id}");
        }
        for seed in ["", "a\"", "a b", "ä", &"a".repeat(41)] {
            assert_eq!(Frozen::new("<a@b>", at, seed).check(), Err(RenderError::BadSeed), "{seed}");
        }
    }
}
