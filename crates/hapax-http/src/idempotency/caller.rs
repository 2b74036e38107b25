//! Whose key it is.

use hapax_engine::limit::Secret;
use sha2::{Digest, Sha256};

/// Goes before a digest. A plain name that begins so gets another one.
const HASHED: char = '~';

/// Who sends a request: text, or [`Secret`] text, of which the store sees a digest alone. None, and an empty text, are
/// a caller that is not known, whose key cannot be kept apart from others'.
#[diagnostic::on_unimplemented(
    message = "`{Self}` names no caller",
    label = "expected `String`, `&'static str`, `Secret<String>`, or an `Option` of one",
    note = "for a service whose callers need not be told apart: `|_| \"everybody\"`"
)]
pub trait IntoCaller {
    /// The caller, as a part of the key.
    fn into_caller(self) -> Option<String>;
}

impl IntoCaller for String {
    fn into_caller(self) -> Option<String> {
        match self.chars().next()? {
            HASHED => Some(format!("{HASHED}{self}")),
            _ => Some(self),
        }
    }
}

impl IntoCaller for &'static str {
    fn into_caller(self) -> Option<String> {
        self.to_owned().into_caller()
    }
}

impl<C: IntoCaller> IntoCaller for Option<C> {
    fn into_caller(self) -> Option<String> {
        self?.into_caller()
    }
}

impl<C: IntoCaller> IntoCaller for Secret<C> {
    fn into_caller(self) -> Option<String> {
        let plain = self.0.into_caller()?;
        let digest: [u8; 32] = Sha256::digest(format!("hapax http caller 1\0{plain}")).into();
        Some(format!("{HASHED}{}", hex::encode(digest.get(..16).unwrap_or(&digest))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_caller_is_a_digest_that_no_plain_one_meets() {
        let secret = Secret("token").into_caller().unwrap();
        assert_eq!(secret.len(), 33);
        assert!(!secret.contains("token"));
        assert_eq!(Secret("token".to_owned()).into_caller().as_ref(), Some(&secret));
        assert_ne!(secret.clone().into_caller(), Some(secret));
    }

    #[test]
    fn nobody_is_not_a_caller() {
        assert_eq!(None::<String>.into_caller(), None);
        assert_eq!("".into_caller(), None);
        assert_eq!(Some(Secret("")).into_caller(), None);
    }
}
