//! The rules of [`hapax_core::idempotency::machine`], told apart into what a step finds, what it writes, and what it says.
//!
//! The core's functions know one instant; here something is over by the earliest that the server's clock may show, and
//! lasts from the latest on. Otherwise they are the same, and the suite of all stores holds both to each other.

use crate::{
    clock::Moment,
    value::{end, lease},
};
use hapax_core::{
    BootTime, Now, Span, Timestamp, Token,
    idempotency::{
        Complete, Completed, Dropped, Entry, Extended, Kind, Pending, Record, Reserve, Reserved, Resolution,
        Resolve, Resolved, Retake, Retaken, Settled, Write, machine::Slot,
    },
};

/// What becomes of the document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    Keep,
    /// It goes.
    Forget,
    /// It goes, although it cannot be read.
    Remove,
    /// The late result becomes the record.
    Promote,
    /// It is reserved; nothing lies beside it.
    Hold(Pending),
    /// It is reserved; the result that is the record, or lies beside a reservation that is over, lies beside it.
    HoldBeside(Pending),
    /// The result becomes the record.
    Settle(Settled),
    /// The result is kept beside the reservation.
    Late(Settled),
    /// Nothing lies beside the reservation any more.
    DropLate,
    /// The lease ends then.
    Until(Timestamp),
}

/// The slot brought up to the moment, and what that alone changes.
pub(crate) fn settle(found: &Slot, at: &Moment) -> (Slot, Change) {
    match found {
        Some(Entry::Pending(p)) if is_over(p.until, at) => match live(p.late.as_deref(), at) {
            Some(late) => (Some(Entry::Settled(late.clone())), Change::Promote),
            None => (None, Change::Forget),
        },
        Some(Entry::Settled(s)) if s.until <= at.over => (None, Change::Forget),
        other => (other.clone(), Change::Keep),
    }
}

fn is_over(until: BootTime, at: &Moment) -> bool {
    end(until) <= at.over
}

fn live<'a>(late: Option<&'a Settled>, at: &Moment) -> Option<&'a Settled> {
    late.filter(|late| late.until > at.over)
}

/// Every instant is on the server's clock, so nothing needs to be converted.
pub(crate) fn record(entry: &Entry) -> Record {
    Record::of(entry, &Now { wall: Timestamp::from_millis(0), boot: BootTime::from_millis(0) })
}

pub(crate) fn read(found: &Slot, at: &Moment) -> Option<Record> {
    settle(found, at).0.as_ref().map(record)
}

/// What a fresh reservation is.
pub(crate) fn fresh(req: &Reserve, at: &Moment) -> Pending {
    let until = lease(at.now.after(req.lease.get()));
    Pending { token: req.token, fingerprint: req.fingerprint, until, first_at: at.now, late: None }
}

pub(crate) fn yours(p: &Pending) -> Reserved {
    Reserved::Yours { until: end(p.until), first_at: p.first_at }
}

pub(crate) fn reserve(found: &Slot, req: &Reserve, at: &Moment) -> (Change, Reserved) {
    let (slot, change) = settle(found, at);
    match slot {
        Some(Entry::Pending(p)) if p.token == req.token => (change, yours(&p)),
        Some(entry) => (change, Reserved::Held(record(&entry))),
        None => {
            let made = fresh(req, at);
            let answer = yours(&made);
            (Change::Hold(made), answer)
        }
    }
}

/// The result that a completion brings.
pub(crate) fn result(req: &Complete, first_at: Timestamp, at: &Moment) -> Settled {
    Settled {
        token: req.token,
        fingerprint: req.fingerprint,
        kind: req.kind,
        receipt: req.receipt.clone(),
        first_at,
        completed_at: at.now,
        until: at.now.after(req.ttl.get()),
    }
}

pub(crate) fn complete(found: &Slot, req: &Complete, at: &Moment) -> (Change, Completed) {
    let first_at = match found {
        Some(Entry::Pending(p)) if p.token == req.token => p.first_at,
        _ => at.now,
    };
    let (slot, change) = settle(found, at);
    let made = result(req, first_at, at);
    match slot {
        None => (Change::Settle(made), Completed::Stored),
        Some(Entry::Pending(p)) if p.token == req.token => {
            // An owner's unknown does not hide a success that lies beside it.
            let hides = live(p.late.as_deref(), at).is_some_and(|late| late.kind == Kind::Done);
            let change =
                if hides && req.kind == Kind::Unknown { Change::Promote } else { Change::Settle(made) };
            (change, Completed::Stored)
        }
        Some(Entry::Pending(p)) => {
            let gives_way = |late: &Settled| late.kind == Kind::Unknown && req.kind == Kind::Done;
            let takes = live(p.late.as_deref(), at).is_none_or(gives_way);
            (if takes { Change::Late(made) } else { change }, Completed::StoredLate)
        }
        Some(Entry::Settled(s)) if s.token == req.token => (change, Completed::AlreadyDone),
        Some(entry) => {
            let earlier = Completed::Superseded(record(&entry));
            match entry {
                Entry::Settled(s) if s.kind == Kind::Unknown && req.kind == Kind::Done => {
                    (Change::Settle(Settled { first_at: s.first_at, ..made }), earlier)
                }
                _ => (change, earlier),
            }
        }
    }
}

pub(crate) fn release(found: &Slot, token: &Token, at: &Moment) -> (Change, Write) {
    match found {
        Some(Entry::Pending(p)) if p.token == *token => (ended(p, at), Write::Applied),
        _ => (Change::Keep, Write::Fenced),
    }
}

pub(crate) fn force_release(found: &Slot, at: &Moment) -> (Change, Write) {
    let (slot, change) = settle(found, at);
    match slot {
        Some(Entry::Pending(p)) => (ended(&p, at), Write::Applied),
        _ => (change, Write::Fenced),
    }
}

pub(crate) fn extend(found: &Slot, token: &Token, lease: Span, at: &Moment) -> (Change, Extended) {
    match found {
        Some(Entry::Pending(p)) if p.token == *token && !is_over(p.until, at) => {
            let (held, asked) = (end(p.until), at.now.after(lease.get()));
            if asked > held {
                (Change::Until(asked), Extended::Until(asked))
            } else {
                (Change::Keep, Extended::Until(held))
            }
        }
        _ => (Change::Keep, Extended::Fenced),
    }
}

pub(crate) fn retake_unknown(found: &Slot, req: &Retake, at: &Moment) -> (Change, Retaken) {
    let (slot, change) = settle(found, at);
    match slot {
        Some(Entry::Pending(p)) if p.token == req.token => {
            (change, Retaken::Yours { until: end(p.until), first_at: p.first_at })
        }
        Some(Entry::Settled(s)) if s.kind == Kind::Unknown => {
            let (until, first_at) = (at.now.after(req.lease.get()), s.first_at);
            let (token, fingerprint) = (req.token, req.fingerprint);
            let held = Pending { token, fingerprint, until: lease(until), first_at, late: Some(Box::new(s)) };
            (Change::HoldBeside(held), Retaken::Yours { until, first_at })
        }
        other => (change, Retaken::Changed(other.as_ref().map(record))),
    }
}

pub(crate) fn drop_unknown(found: &Slot, token: &Token, at: &Moment) -> (Change, Dropped) {
    match found {
        Some(Entry::Pending(p)) if p.token == *token && !is_over(p.until, at) => {
            match (live(p.late.as_deref(), at), &p.late) {
                (Some(late), _) if late.kind == Kind::Done => (Change::Keep, Dropped::Refused),
                (_, Some(_)) => (Change::DropLate, Dropped::Dropped),
                (_, None) => (Change::Keep, Dropped::Dropped),
            }
        }
        _ => (Change::Keep, Dropped::Fenced),
    }
}

pub(crate) fn resolve(found: &Slot, req: &Resolve, at: &Moment) -> (Change, Resolved) {
    let (slot, change) = settle(found, at);
    if matches!(req.resolution, Resolution::Forget) {
        return forget(slot.as_ref(), change, req);
    }
    match slot {
        // A verdict whose reply was lost.
        Some(Entry::Settled(s)) if s.token == req.token => (change, Resolved::Applied),
        Some(Entry::Settled(s))
            if s.kind == Kind::Unknown && req.version.is_none_or(|version| version == s.token.version()) =>
        {
            let change = match &req.resolution {
                Resolution::DidNot | Resolution::Forget => Change::Forget,
                Resolution::Happened { receipt, ttl } => Change::Settle(Settled {
                    token: req.token,
                    fingerprint: s.fingerprint,
                    kind: Kind::Done,
                    receipt: receipt.clone(),
                    first_at: s.first_at,
                    completed_at: at.now,
                    until: at.now.after(ttl.get()),
                }),
            };
            (change, Resolved::Applied)
        }
        other => (change, Resolved::Changed(other.as_ref().map(record))),
    }
}

/// Only what was seen: a verdict that arrives twice must not meet what came after the first.
fn forget(slot: Option<&Entry>, change: Change, req: &Resolve) -> (Change, Resolved) {
    let found = slot.map(record);
    match (&found, slot) {
        (Some(there), Some(entry)) if !there.is_pending() && req.version == Some(there.version()) => {
            let change = if *entry == Entry::Unreadable { Change::Remove } else { Change::Forget };
            (change, Resolved::Applied)
        }
        _ => (change, Resolved::Changed(found)),
    }
}

fn ended(p: &Pending, at: &Moment) -> Change {
    if live(p.late.as_deref(), at).is_some() { Change::Promote } else { Change::Forget }
}
