//! Requests with defaults.

use hapax_core::{
    Fingerprint, Key, Name, Namespace, Scope, Span, Token,
    idempotency::{Complete, Kind, Receipt, Reserve, Retake},
};
use std::time::Duration;

pub(crate) const LEASE: Duration = Duration::from_mins(1);
pub(crate) const TTL: Duration = Duration::from_hours(1);

pub(crate) fn span(duration: Duration) -> Span {
    Span::new(duration).unwrap()
}

pub(crate) fn token(n: u8) -> Token {
    Token::from_bytes([n; 16])
}

pub(crate) fn name(key: &str) -> Name {
    Name::new(&Namespace::default(), &Scope::new("memory").unwrap(), &Key::new(key).unwrap())
}

pub(crate) fn reserve(key: &str, owner: u8) -> Reserve {
    Reserve { name: name(key), token: token(owner), fingerprint: Fingerprint::ANY, lease: span(LEASE) }
}

pub(crate) fn retake(key: &str, owner: u8) -> Retake {
    Retake { name: name(key), token: token(owner), fingerprint: Fingerprint::ANY, lease: span(LEASE) }
}

pub(crate) fn complete(key: &str, owner: u8, kind: Kind) -> Complete {
    let receipt = Receipt::new("test/1", "result");
    Complete {
        name: name(key),
        token: token(owner),
        fingerprint: Fingerprint::ANY,
        kind,
        receipt,
        ttl: span(TTL),
    }
}
