//! The requests that cases send. Names, tokens and durations have defaults here, so that a case shows only what it is
//! about.

use hapax_core::{
    Fingerprint, Key, Name, Namespace, Scope, Span, Token,
    idempotency::{Complete, Kind, Receipt, Reserve, Resolution, Resolve, Retake},
};
use std::time::Duration;

/// Of every lease, unless a case says otherwise. No case takes so long, however slow its store is.
pub(crate) const LEASE: Duration = Duration::from_mins(5);
/// Of every result, unless a case says otherwise.
pub(crate) const TTL: Duration = Duration::from_hours(1);

/// Owners, in the order of their coming.
pub(crate) const A: Token = token('A');
pub(crate) const B: Token = token('B');
pub(crate) const C: Token = token('C');
pub(crate) const D: Token = token('D');
/// Who asks about an unknown outcome.
pub(crate) const R: Token = token('R');
/// Who settles one by hand.
pub(crate) const H: Token = token('H');

/// The token that is shown as this letter.
pub(crate) const fn token(letter: char) -> Token {
    Token::from_bytes([letter as u8; 16])
}

/// A token for each number.
pub(crate) fn nth_token(n: usize) -> Token {
    let mut bytes = [b'#'; 16];
    for (to, from) in bytes.iter_mut().zip(n.to_be_bytes()) {
        *to = from;
    }
    Token::from_bytes(bytes)
}

/// The nearest duration that a store accepts.
pub(crate) fn span(duration: Duration) -> Span {
    Span::new(duration).unwrap_or(if duration.is_zero() { Span::MIN } else { Span::MAX })
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[expect(clippy::expect_used, reason = "the suite's own texts are valid names")]
pub(crate) fn name_in(namespace: &str, scope: &str, key: &str) -> Name {
    let namespace = Namespace::new(namespace).expect("a namespace");
    Name::new(&namespace, &Scope::new(scope).expect("a scope"), &Key::new(key).expect("a key"))
}

pub(crate) fn name(key: &str) -> Name {
    name_in("suite", "case", key)
}

/// A fingerprint for each text.
pub(crate) fn print(text: &str) -> Fingerprint {
    Fingerprint::of_bytes(text.as_bytes())
}

pub(crate) fn receipt(text: &str) -> Receipt {
    Receipt::new("test/1", text.to_owned())
}

pub(crate) fn reserve(name: &Name, token: Token) -> Reserve {
    Reserve { name: name.clone(), token, fingerprint: print("request"), lease: span(LEASE) }
}

pub(crate) fn done(name: &Name, token: Token, text: &str) -> Complete {
    let (name, receipt) = (name.clone(), receipt(text));
    Complete { name, token, fingerprint: print("request"), kind: Kind::Done, receipt, ttl: span(TTL) }
}

pub(crate) fn unknown(name: &Name, token: Token, text: &str) -> Complete {
    Complete { kind: Kind::Unknown, ..done(name, token, text) }
}

pub(crate) fn retake(name: &Name, token: Token) -> Retake {
    Retake { name: name.clone(), token, fingerprint: print("request"), lease: span(LEASE) }
}

pub(crate) fn happened(name: &Name, token: Token, text: &str) -> Resolve {
    let resolution = Resolution::Happened { receipt: receipt(text), ttl: span(TTL) };
    Resolve { name: name.clone(), token, version: None, resolution }
}

/// Forgets the record that `seen` made.
pub(crate) fn forget(name: &Name, token: Token, seen: Token) -> Resolve {
    Resolve { name: name.clone(), token, version: Some(seen.version()), resolution: Resolution::Forget }
}

pub(crate) fn did_not(name: &Name, token: Token) -> Resolve {
    Resolve { name: name.clone(), token, version: None, resolution: Resolution::DidNot }
}
