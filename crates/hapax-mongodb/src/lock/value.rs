//! A lock as a document, and back.
//!
//! ```text
//! _id       namespace, scope and key
//! form      1
//! fence     the last one given, or the seed of the next
//! held      token, fence, holder, since, until      while it is held
//! released  the token of the last release
//! used_at   of the last grant, release or seed
//! ends      when nobody holds it any more, and its fence need not be remembered
//! gone_at   when the server may remove it by itself; decides nothing
//! ```
//!
//! Instants are milliseconds since 1970 by the server's clock.

use crate::{
    error::Failure,
    value::{FORM, end, instant, later, lease, number as read, token, token_of},
    write::Write,
};
use hapax_core::{
    StoreErrorKind, Timestamp, Token,
    lock::{FENCE_KEPT, Fence, Held, Holder, Lock, machine::Slot},
};
use mongodb::bson::{Bson, Document, doc};

pub(super) fn number(fence: Fence) -> i64 {
    i64::try_from(fence.get()).unwrap_or(i64::MAX)
}

/// What lies under a name. What this version would not have written so is an error: nothing is guessed.
pub(super) fn slot(found: Option<&Document>, place: &str) -> Result<Slot, Failure> {
    let Some(document) = found else { return Ok(None) };
    let unreadable = || {
        let reason = format!(
            "a lock on {place} cannot be read: a newer hapax, or another program, wrote it; remove it there, and mind that \
             its fence goes with it"
        );
        Failure::new(StoreErrorKind::Corrupt, reason)
    };
    lock(document).map(Some).ok_or_else(unreadable)
}

pub(super) fn lock(document: &Document) -> Option<Lock> {
    if read(document, "form")? != i64::from(FORM) {
        return None;
    }
    let held = match document.get("held") {
        None => None,
        Some(Bson::Document(part)) => Some(held(part)?),
        Some(_) => return None,
    };
    let released = match document.get("released") {
        None => None,
        Some(_) => Some(token_of(document, "released")?),
    };
    Some(Lock { fence: fence(document)?, held, released, used_at: instant(document, "used_at")? })
}

fn held(part: &Document) -> Option<Held> {
    Some(Held {
        token: token_of(part, "token")?,
        fence: fence(part)?,
        holder: Holder::new(part.get_str("holder").ok()?),
        since: instant(part, "since")?,
        until: lease(instant(part, "until")?),
    })
}

fn fence(part: &Document) -> Option<Fence> {
    Fence::new(u64::try_from(read(part, "fence")?).ok()?).ok()
}

fn of_holder(held: &Held) -> Document {
    doc! {
        "token": token(&held.token),
        "fence": number(held.fence),
        "holder": held.holder.as_str(),
        "since": held.since.as_millis(),
        "until": end(held.until).as_millis(),
    }
}

/// When nobody holds it and its fence need not be remembered.
fn ends(lock: &Lock) -> Timestamp {
    let kept = lock.fence.as_time().max(lock.used_at).after(FENCE_KEPT);
    lock.held.as_ref().map_or(kept, |held| kept.max(end(held.until)))
}

/// Of a grant where there was no holder.
pub(super) fn granted(lock: &Lock) -> Document {
    let mut set = doc! { "fence": number(lock.fence), "used_at": lock.used_at.as_millis() };
    if let Some(held) = &lock.held {
        set.insert("held", of_holder(held));
    }
    doc! { "$set": set, "$max": later(ends(lock)) }
}

pub(super) fn lasting(until: Timestamp) -> Document {
    doc! { "$set": { "held.until": until.as_millis() }, "$max": later(until) }
}

pub(super) fn given_back(owner: &Token, now: Timestamp) -> Document {
    doc! {
        "$unset": { "held": "" },
        "$set": { "released": token(owner), "used_at": now.as_millis() },
        "$max": later(now.after(FENCE_KEPT)),
    }
}

/// What makes the change, where the document is still what was found; none where there is nothing to write.
pub(super) fn change(id: &str, found: &Slot, after: &Slot) -> Option<Write> {
    let lock = after.as_ref().filter(|_| found != after)?;
    let mut set = doc! { "fence": number(lock.fence), "used_at": lock.used_at.as_millis() };
    let mut unset = Document::new();
    match &lock.held {
        Some(held) => set.insert("held", of_holder(held)),
        None => unset.insert("held", ""),
    };
    match &lock.released {
        Some(released) => set.insert("released", token(released)),
        None => unset.insert("released", ""),
    };
    let Some(found) = found else {
        let mut document = doc! { "_id": id, "form": FORM };
        document.extend(set);
        document.extend(later(ends(lock)));
        return Some(Write::Insert(document));
    };
    let mut update = doc! { "$set": set, "$max": later(ends(lock)) };
    if !unset.is_empty() {
        update.insert("$unset", unset);
    }
    Some(Write::Update { filter: seen(id, found), update, upsert: false })
}

/// Finds a lock that nobody has changed since.
fn seen(id: &str, lock: &Lock) -> Document {
    let absent = || Bson::from(doc! { "$exists": false });
    let mut filter = doc! {
        "_id": id,
        "form": FORM,
        "fence": number(lock.fence),
        "used_at": lock.used_at.as_millis(),
        "released": lock.released.as_ref().map_or_else(absent, |released| token(released).into()),
    };
    match &lock.held {
        Some(held) => {
            filter.insert("held.token", token(&held.token));
            filter.insert("held.until", end(held.until).as_millis());
        }
        None => drop(filter.insert("held", absent())),
    }
    filter
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::BootTime;

    fn sample(is_held: bool, is_released: bool) -> Lock {
        let held = Held {
            token: Token::from_bytes([1; 16]),
            fence: Fence::new(7).unwrap(),
            holder: Holder::new("wörker"),
            since: Timestamp::from_millis(5),
            until: BootTime::from_millis(1_764_550_000_000),
        };
        Lock {
            fence: Fence::MAX,
            held: is_held.then_some(held),
            released: is_released.then_some(Token::from_bytes([2; 16])),
            used_at: Timestamp::from_millis(6),
        }
    }

    #[test]
    fn locks_come_back_as_they_were() {
        for (is_held, is_released) in [(false, false), (true, false), (false, true), (true, true)] {
            let lock = sample(is_held, is_released);
            let Some(Write::Insert(document)) = change("id", &None, &Some(lock.clone())) else {
                panic!("no insert")
            };
            assert_eq!(super::lock(&document), Some(lock.clone()));
            assert_eq!(change("id", &Some(lock.clone()), &Some(lock)), None);
        }
    }

    #[test]
    fn what_another_version_or_program_wrote_is_unreadable() {
        let Some(Write::Insert(sound)) = change("id", &None, &Some(sample(true, true))) else {
            panic!("no insert")
        };
        let changes: [fn(&mut Document); 7] = [
            |d| drop(d.insert("form", 2)),
            |d| drop(d.insert("fence", 0)),
            |d| drop(d.remove("used_at")),
            |d| drop(d.insert("held", Bson::Null)),
            |d| drop(d.insert("released", "x")),
            |d| drop(d.get_document_mut("held").unwrap().insert("until", "soon")),
            |d| drop(d.get_document_mut("held").unwrap().remove("token")),
        ];
        for change in changes {
            let mut document = sound.clone();
            change(&mut document);
            let failure = slot(Some(&document), "x").unwrap_err();
            assert_eq!(failure.kind, StoreErrorKind::Corrupt, "{document}");
        }
    }

    #[test]
    fn a_write_finds_only_what_was_seen() {
        let (held, free) = (sample(true, true), sample(false, true));
        let Some(Write::Update { filter, update, upsert: false }) = change("id", &Some(held), &Some(free))
        else {
            panic!("no update")
        };
        let seen = doc! {
            "_id": "id", "form": 1, "fence": number(Fence::MAX), "used_at": 6_i64, "released": "02".repeat(16),
            "held.token": "01".repeat(16), "held.until": 1_764_550_000_000_i64,
        };
        assert_eq!(filter, seen);
        assert!(update.get_document("$unset").unwrap().contains_key("held"));
    }
}
