//! A record as a document, and back.
//!
//! ```text
//! _id       namespace, scope and key
//! form      1
//! first_at  of the reservation, and of the result unless that says otherwise
//! pending   token, fingerprint, until                                          while it is reserved
//! result    token, fingerprint, kind, codec, receipt, completed_at, until      when it has ended
//! late      as `result`, with its own first_at, beside `pending`
//! gone_at   when the server may remove it by itself; decides nothing
//! ```
//!
//! Instants are milliseconds since 1970 by the server's clock. Tokens are text, so that a shell can show and match them.

use bytes::Bytes;
use hapax_core::{
    BootTime, Fingerprint, Timestamp, Token,
    idempotency::{Entry, Kind, Pending, Receipt, Settled, machine::Slot},
};
use mongodb::bson::{Binary, Bson, DateTime, Document, doc, spec::BinarySubtype};

/// The only form that this version knows.
pub(crate) const FORM: i32 = 1;
/// The server removes nothing sooner than this after its end, whatever happens to its clock.
const GRACE: i64 = 60 * 60 * 1000;

pub(crate) fn token(token: &Token) -> String {
    hex::encode(token.as_bytes())
}

pub(crate) fn pending(p: &Pending) -> Document {
    doc! {
        "token": token(&p.token),
        "fingerprint": p.fingerprint.to_string(),
        "until": end(p.until).as_millis(),
    }
}

pub(crate) fn settled(s: &Settled) -> Document {
    let receipt = Binary { subtype: BinarySubtype::Generic, bytes: s.receipt.bytes.to_vec() };
    doc! {
        "token": token(&s.token),
        "fingerprint": s.fingerprint.to_string(),
        "kind": match s.kind {
            Kind::Done => "done",
            Kind::Unknown => "unknown",
        },
        "codec": s.receipt.codec.as_ref(),
        "receipt": receipt,
        "completed_at": s.completed_at.as_millis(),
        "until": s.until.as_millis(),
    }
}

/// With the instant that a result takes from its document.
pub(crate) fn late(s: &Settled) -> Document {
    let mut late = settled(s);
    late.insert("first_at", s.first_at.as_millis());
    late
}

/// The end of a lease, which is on the same clock as everything else.
pub(crate) fn end(until: BootTime) -> Timestamp {
    Timestamp::from_millis(i64::try_from(until.as_millis()).unwrap_or(i64::MAX))
}

pub(crate) fn lease(until: Timestamp) -> BootTime {
    BootTime::from_millis(u64::try_from(until.as_millis()).unwrap_or(0))
}

/// When what ends then may be removed.
pub(crate) fn gone_at(until: Timestamp) -> DateTime {
    DateTime::from_millis(until.as_millis().saturating_add(GRACE))
}

/// Moves the ends of what is kept of a lock or a limit on: it may be removed by whoever prunes, and later by the server.
pub(crate) fn later(ends: Timestamp) -> Document {
    doc! { "ends": ends.as_millis(), "gone_at": gone_at(ends) }
}

/// What lies under a key, as it was written. Whatever this version would not have written so is unreadable.
pub(crate) fn slot(found: Option<&Document>) -> Slot {
    found.map(|document| entry(document).unwrap_or(Entry::Unreadable))
}

fn entry(document: &Document) -> Option<Entry> {
    if number(document, "form")? != i64::from(FORM) {
        return None;
    }
    let part = |name: &str| match document.get(name) {
        None => Some(None),
        Some(Bson::Document(part)) => Some(Some(part)),
        Some(_) => None,
    };
    let first_at = instant(document, "first_at")?;
    match (part("pending")?, part("result")?, part("late")?) {
        (Some(pending), None, late) => {
            let late = match late {
                Some(late) => Some(Box::new(read_settled(late, first_at)?)),
                None => None,
            };
            read_pending(pending, first_at, late).map(Entry::Pending)
        }
        (None, Some(result), None) => read_settled(result, first_at).map(Entry::Settled),
        _ => None,
    }
}

fn read_pending(part: &Document, first_at: Timestamp, late: Option<Box<Settled>>) -> Option<Pending> {
    let until = BootTime::from_millis(u64::try_from(number(part, "until")?).ok()?);
    Some(Pending { token: read_token(part)?, fingerprint: read_fingerprint(part)?, until, first_at, late })
}

fn read_settled(part: &Document, first_at: Timestamp) -> Option<Settled> {
    let first_at = if part.contains_key("first_at") { instant(part, "first_at")? } else { first_at };
    let Bson::Binary(receipt) = part.get("receipt")? else { return None };
    Some(Settled {
        token: read_token(part)?,
        fingerprint: read_fingerprint(part)?,
        kind: match part.get_str("kind").ok()? {
            "done" => Kind::Done,
            "unknown" => Kind::Unknown,
            _ => return None,
        },
        receipt: Receipt::new(part.get_str("codec").ok()?.to_owned(), Bytes::copy_from_slice(&receipt.bytes)),
        first_at,
        completed_at: instant(part, "completed_at")?,
        until: instant(part, "until")?,
    })
}

fn read_token(part: &Document) -> Option<Token> {
    token_of(part, "token")
}

/// A token that was written by [`token`].
pub(crate) fn token_of(part: &Document, name: &str) -> Option<Token> {
    let bytes = hex::decode(part.get_str(name).ok()?).ok()?;
    Some(Token::from_bytes(bytes.try_into().ok()?))
}

fn read_fingerprint(part: &Document) -> Option<Fingerprint> {
    part.get_str("fingerprint").ok()?.parse().ok()
}

pub(crate) fn instant(part: &Document, name: &str) -> Option<Timestamp> {
    number(part, name).map(Timestamp::from_millis)
}

/// A whole number, however wide it came back.
pub(crate) fn number(part: &Document, name: &str) -> Option<i64> {
    match part.get(name)? {
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        #[expect(clippy::cast_possible_truncation, reason = "whole, and far from where it would be cut")]
        Bson::Double(number) if number.fract() == 0.0 && number.abs() < 9e15 => Some(*number as i64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result() -> Settled {
        Settled {
            token: Token::from_bytes([7; 16]),
            fingerprint: Fingerprint::of_bytes(b"x"),
            kind: Kind::Unknown,
            receipt: Receipt::new("c", (0..=255).collect::<Vec<u8>>()),
            first_at: Timestamp::from_millis(-5),
            completed_at: Timestamp::from_millis(6),
            until: Timestamp::from_millis(i64::MAX),
        }
    }

    fn reservation(late: Option<Settled>) -> Pending {
        Pending {
            token: Token::from_bytes([8; 16]),
            fingerprint: Fingerprint::ANY,
            until: BootTime::from_millis(9),
            first_at: Timestamp::from_millis(1),
            late: late.map(Box::new),
        }
    }

    #[test]
    fn records_come_back_as_they_were() {
        let (done, held) = (result(), reservation(Some(result())));
        let document = doc! { "form": 1, "first_at": -5, "result": settled(&done) };
        assert_eq!(slot(Some(&document)), Some(Entry::Settled(done)));
        let document =
            doc! { "form": 1_i64, "first_at": 1.0, "pending": pending(&held), "late": late(&result()) };
        assert_eq!(slot(Some(&document)), Some(Entry::Pending(held)));
        assert_eq!(slot(None), None);
    }

    #[test]
    fn what_another_version_or_program_wrote_is_unreadable() {
        let sound = doc! { "form": 1, "first_at": 1, "pending": pending(&reservation(None)), "late": late(&result()) };
        assert!(matches!(slot(Some(&sound)), Some(Entry::Pending(_))));
        let changes: [fn(&mut Document); 10] = [
            |d| drop(d.remove("form")),
            |d| drop(d.insert("form", 2)),
            |d| drop(d.insert("form", "1")),
            |d| drop(d.remove("first_at")),
            |d| drop(d.remove("pending")),
            |d| drop(d.insert("pending", "x")),
            |d| drop(d.insert("late", Bson::Null)),
            |d| drop(d.insert("result", settled(&result()))),
            |d| drop(d.get_document_mut("pending").unwrap().insert("until", "soon")),
            |d| drop(d.get_document_mut("late").unwrap().insert("kind", "maybe")),
        ];
        for change in changes {
            let mut document = sound.clone();
            change(&mut document);
            assert_eq!(slot(Some(&document)), Some(Entry::Unreadable), "{document}");
        }
    }
}
