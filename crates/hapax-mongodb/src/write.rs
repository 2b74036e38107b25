//! The writes: each is conditional on what was seen, or on the usual case, and leaves anything else as it is.

use crate::{
    clock::Moment,
    keys,
    rules::{self, Change},
    value,
};
use hapax_core::{
    Name, Span, Timestamp, Token,
    idempotency::{Complete, Entry, Pending, Reserve, Settled, machine::Slot},
};
use mongodb::bson::{Document, doc};

/// One statement of a command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Write {
    /// A document, where there is none of its `_id`.
    Insert(Document),
    /// What the filter finds; with `upsert`, also a document where there is none of its `_id`.
    Update { filter: Document, update: Document, upsert: bool },
    /// What the filter finds.
    Delete(Document),
}

/// How a statement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrote {
    Yes,
    /// The filter found nothing.
    No,
    /// There is a document of that `_id`: the server says so, or it says only that some unique index stood in the way.
    Duplicate {
        is_told: bool,
    },
}

impl Wrote {
    pub(crate) fn is_done(self) -> bool {
        self == Self::Yes
    }
}

/// Reserves a key under which there is nothing.
pub(crate) fn reserve(req: &Reserve, at: &Moment) -> Write {
    insert(&keys::id(&req.name), held(&rules::fresh(req, at)))
}

/// Keeps the result of whoever holds the key, with nothing beside it, or of anybody where there is nothing.
pub(crate) fn complete(req: &Complete, at: &Moment) -> Write {
    let made = rules::result(req, at.now, at);
    let mut filter = of_holder(&req.name, &req.token);
    filter.insert("late", absent());
    Write::Update {
        filter,
        update: doc! {
            "$set": {
                "form": value::FORM,
                "result": value::settled(&made),
                "gone_at": value::gone_at(made.until),
            },
            "$unset": { "pending": "" },
            "$setOnInsert": { "first_at": made.first_at.as_millis() },
        },
        upsert: true,
    }
}

/// Frees the key of whoever holds it, with nothing beside it.
pub(crate) fn release(name: &Name, token: &Token) -> Write {
    let mut filter = of_holder(name, token);
    filter.insert("late", absent());
    Write::Delete(filter)
}

/// Moves the end of a live lease that ends sooner.
pub(crate) fn extend(name: &Name, token: &Token, lease: Span, at: &Moment) -> Write {
    let until = at.now.after(lease.get());
    let mut filter = of_holder(name, token);
    filter.insert("pending.until", doc! { "$gt": at.over.as_millis(), "$lte": until.as_millis() });
    Write::Update { filter, update: lasting(until), upsert: false }
}

/// Changes nothing, and waits until the majority has all that was written before.
pub(crate) fn nothing(id: &str) -> Write {
    let filter = doc! { "_id": id, "form": "none" };
    Write::Update { filter, update: doc! { "$set": { "form": value::FORM } }, upsert: false }
}

/// What makes the change, where the document is still what was found; none where there is nothing to write.
pub(crate) fn change(id: &str, found: &Slot, change: &Change) -> Option<Write> {
    let Some(entry) = found else {
        return match change {
            Change::Hold(p) => Some(insert(id, held(p))),
            Change::Settle(s) => Some(insert(id, ended(s))),
            _ => None,
        };
    };
    if *change == Change::Remove {
        return Some(Write::Delete(unreadable(id)));
    }
    let filter = seen(id, entry)?;
    let update = match change {
        Change::Keep | Change::Remove => return None,
        Change::Forget => return Some(Write::Delete(filter)),
        Change::Promote => doc! { "$rename": { "late": "result" }, "$unset": { "pending": "" } },
        Change::Hold(p) => doc! { "$set": held(p), "$unset": { "result": "", "late": "" } },
        Change::HoldBeside(p) => {
            let mut set = held(p);
            set.remove("gone_at");
            let mut update = doc! { "$set": set, "$max": { "gone_at": value::gone_at(value::end(p.until)) } };
            // Otherwise it lies there already, beside a reservation that is over.
            if matches!(entry, Entry::Settled(_)) {
                update.insert("$rename", doc! { "result": "late" });
            }
            update
        }
        Change::Settle(s) => doc! { "$set": ended(s), "$unset": { "pending": "", "late": "" } },
        Change::Late(s) => {
            doc! { "$set": { "late": value::late(s) }, "$max": { "gone_at": value::gone_at(s.until) } }
        }
        Change::DropLate => doc! { "$unset": { "late": "" } },
        Change::Until(until) => lasting(*until),
    };
    Some(Write::Update { filter, update, upsert: false })
}

fn insert(id: &str, fields: Document) -> Write {
    let mut document = doc! { "_id": id };
    document.extend(fields);
    Write::Insert(document)
}

fn held(p: &Pending) -> Document {
    doc! {
        "form": value::FORM,
        "first_at": p.first_at.as_millis(),
        "pending": value::pending(p),
        "gone_at": value::gone_at(value::end(p.until)),
    }
}

fn ended(s: &Settled) -> Document {
    doc! {
        "form": value::FORM,
        "first_at": s.first_at.as_millis(),
        "result": value::settled(s),
        "gone_at": value::gone_at(s.until),
    }
}

fn lasting(until: Timestamp) -> Document {
    doc! {
        "$set": { "pending.until": until.as_millis() },
        "$max": { "gone_at": value::gone_at(until) },
    }
}

fn absent() -> Document {
    doc! { "$exists": false }
}

fn of_holder(name: &Name, token: &Token) -> Document {
    doc! {
        "_id": keys::id(name),
        "form": value::FORM,
        "pending.token": value::token(token),
        "result": absent(),
    }
}

/// Finds a record that nobody has changed since. Whoever changes one gives it another token, end, or late result.
fn seen(id: &str, entry: &Entry) -> Option<Document> {
    let mut filter = doc! { "_id": id, "form": value::FORM };
    match entry {
        Entry::Pending(p) => {
            filter.insert("pending.token", value::token(&p.token));
            filter.insert("pending.until", value::end(p.until).as_millis());
            filter.insert("result", absent());
            match &p.late {
                Some(late) => filter.insert("late.token", value::token(&late.token)),
                None => filter.insert("late", absent()),
            };
        }
        Entry::Settled(s) => {
            filter.insert("result.token", value::token(&s.token));
            filter.insert("result.until", s.until.as_millis());
            filter.insert("pending", absent());
        }
        Entry::Unreadable => return None,
    }
    Some(filter)
}

/// Finds what could not be read, which has nothing that names it: anything but a reservation, which may have come since.
fn unreadable(id: &str) -> Document {
    doc! { "_id": id, "$nor": [{ "form": value::FORM, "pending.token": { "$exists": true } }] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::{BootTime, Fingerprint};

    #[test]
    fn nothing_is_written_over_what_cannot_be_read() {
        let found = Some(Entry::Unreadable);
        for change in [Change::Forget, Change::Promote, Change::DropLate] {
            assert_eq!(super::change("id", &found, &change), None);
        }
    }

    #[test]
    fn a_write_finds_only_what_was_seen() {
        let p = Pending {
            token: Token::from_bytes([1; 16]),
            fingerprint: Fingerprint::ANY,
            until: BootTime::from_millis(9),
            first_at: Timestamp::from_millis(3),
            late: None,
        };
        let Some(Write::Delete(filter)) = change("id", &Some(Entry::Pending(p)), &Change::Forget) else {
            panic!("no deletion")
        };
        let seen = doc! {
            "_id": "id", "form": 1, "pending.token": "01".repeat(16), "pending.until": 9_i64,
            "result": { "$exists": false }, "late": { "$exists": false },
        };
        assert_eq!(filter, seen);
    }
}
