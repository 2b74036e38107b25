//! The rules of each step, as pure functions over what lies under a key.
//!
//! A step takes the slot of one key, changes it in place, and answers. A store wraps it in whatever makes it atomic.
//! The rules were found, and are kept, by a model check of these very functions (`tests/model.rs`): each that is
//! marked *model* shows a second effect, or an acknowledged result lost, when it is left out.
//!
//! Expiry is a comparison made here and nowhere else: leases on the boot clock, results on the wall clock.

use super::{
    Complete, Completed, Dropped, Entry, Extended, Kind, Pending, Record, Reserve, Reserved, Resolution,
    Resolve, Resolved, Retake, Retaken, Settled, Write,
};
use crate::{Now, Span, Token};

/// What lies under one key.
pub type Slot = Option<Entry>;

/// Brings the slot up to `now`: what is over is gone, and a reservation that is over gives its place to a late result.
///
/// *(model)* A reservation never starts over a kept result: a pending record that ends in any way while a result lies
/// beside it is that result.
pub fn settle(slot: &mut Slot, now: &Now) {
    match slot {
        Some(Entry::Pending(p)) if p.until <= now.boot => end(slot, now),
        Some(Entry::Settled(s)) if s.until <= now.wall => *slot = None,
        _ => {}
    }
}

/// The record in the slot at `now`, without changing it.
pub fn read(slot: &Slot, now: &Now) -> Option<Record> {
    into_record(slot.clone(), now)
}

/// As [`read`], for a slot that is not needed any more.
pub fn into_record(slot: Slot, now: &Now) -> Option<Record> {
    match slot? {
        Entry::Pending(p) if p.until <= now.boot => {
            let late = p.late.filter(|late| late.until > now.wall)?;
            Some(Record::from_settled(*late))
        }
        Entry::Settled(s) if s.until <= now.wall => None,
        entry => Some(Record::from_entry(entry, now)),
    }
}

/// Holds the key pending for the request's token, unless something holds it.
pub fn reserve(slot: &mut Slot, req: &Reserve, now: &Now) -> Reserved {
    settle(slot, now);
    match slot {
        Some(Entry::Pending(p)) if p.token == req.token => {
            Reserved::Yours { until: now.wall_of(p.until), first_at: p.first_at }
        }
        Some(entry) => Reserved::Held(Record::of(entry, now)),
        None => {
            let until = now.boot.after(req.lease.get());
            *slot = Some(Entry::Pending(Pending {
                token: req.token,
                fingerprint: req.fingerprint,
                until,
                first_at: now.wall,
                late: None,
            }));
            Reserved::Yours { until: now.wall_of(until), first_at: now.wall }
        }
    }
}

/// Keeps a result, wherever it can be kept without touching another owner's.
pub fn complete(slot: &mut Slot, req: &Complete, now: &Now) -> Completed {
    let first_at = match slot {
        Some(Entry::Pending(p)) if p.token == req.token => p.first_at,
        _ => now.wall,
    };
    settle(slot, now);
    let result = Settled {
        token: req.token,
        fingerprint: req.fingerprint,
        kind: req.kind,
        receipt: req.receipt.clone(),
        first_at,
        completed_at: now.wall,
        until: now.wall.after(req.ttl.get()),
    };
    match slot {
        None => {
            *slot = Some(Entry::Settled(result));
            Completed::Stored
        }
        Some(Entry::Pending(p)) if p.token == req.token => {
            // *(model)* An owner's unknown does not hide a success that lies beside it.
            let late = p.late.take().filter(|late| late.kind == Kind::Done && req.kind == Kind::Unknown);
            let late = late.filter(|late| late.until > now.wall);
            *slot = Some(Entry::Settled(late.map_or(result, |late| *late)));
            Completed::Stored
        }
        Some(Entry::Pending(p)) => {
            let kept = p.late.as_ref().filter(|late| late.until > now.wall);
            let gives_way = |late: &Settled| late.kind == Kind::Unknown && req.kind == Kind::Done;
            if kept.is_none_or(|late| gives_way(late)) {
                p.late = Some(Box::new(result));
            }
            Completed::StoredLate
        }
        Some(Entry::Settled(s)) if s.token == req.token => Completed::AlreadyDone,
        Some(entry) => {
            let earlier = Record::of(entry, now);
            if let Entry::Settled(s) = entry
                && s.kind == Kind::Unknown
                && req.kind == Kind::Done
            {
                *s = Settled { first_at: s.first_at, ..result };
            }
            Completed::Superseded(earlier)
        }
    }
}

/// Frees the key of `token`, or lets the late result take its place.
pub fn release(slot: &mut Slot, token: &Token, now: &Now) -> Write {
    match slot {
        Some(Entry::Pending(p)) if p.token == *token => {
            end(slot, now);
            Write::Applied
        }
        _ => Write::Fenced,
    }
}

/// Ends a live reservation whoever holds it.
pub fn force_release(slot: &mut Slot, now: &Now) -> Write {
    settle(slot, now);
    match slot {
        Some(Entry::Pending(_)) => {
            end(slot, now);
            Write::Applied
        }
        _ => Write::Fenced,
    }
}

/// Moves the end of a live lease.
pub fn extend(slot: &mut Slot, token: &Token, lease: Span, now: &Now) -> Extended {
    match slot {
        Some(Entry::Pending(p)) if p.token == *token && p.until > now.boot => {
            p.until = p.until.max(now.boot.after(lease.get()));
            Extended::Until(now.wall_of(p.until))
        }
        _ => Extended::Fenced,
    }
}

/// Holds a key of unknown outcome pending while somebody is asked.
///
/// *(model)* The unknown record stays beside the reservation with its own time: a crash or an undecided answer brings
/// it back.
pub fn retake_unknown(slot: &mut Slot, req: &Retake, now: &Now) -> Retaken {
    settle(slot, now);
    match slot {
        Some(Entry::Pending(p)) if p.token == req.token => {
            Retaken::Yours { until: now.wall_of(p.until), first_at: p.first_at }
        }
        Some(Entry::Settled(s)) if s.kind == Kind::Unknown => {
            let (until, first_at) = (now.boot.after(req.lease.get()), s.first_at);
            let late = Some(Box::new(s.clone()));
            let (token, fingerprint) = (req.token, req.fingerprint);
            *slot = Some(Entry::Pending(Pending { token, fingerprint, until, first_at, late }));
            Retaken::Yours { until: now.wall_of(until), first_at }
        }
        other => Retaken::Changed(other.as_ref().map(|entry| Record::of(entry, now))),
    }
}

/// Forgets the unknown result beside a live reservation.
///
/// *(model)* Refused when a success lies there by now.
pub fn drop_unknown(slot: &mut Slot, token: &Token, now: &Now) -> Dropped {
    match slot {
        Some(Entry::Pending(p)) if p.token == *token && p.until > now.boot => match &p.late {
            Some(late) if late.kind == Kind::Done && late.until > now.wall => Dropped::Refused,
            _ => {
                p.late = None;
                Dropped::Dropped
            }
        },
        _ => Dropped::Fenced,
    }
}

/// Settles an unknown outcome by a verdict, or forgets the record that a version names.
pub fn resolve(slot: &mut Slot, req: &Resolve, now: &Now) -> Resolved {
    settle(slot, now);
    if matches!(req.resolution, Resolution::Forget) {
        return forget(slot, req, now);
    }
    match slot {
        // A verdict whose reply was lost.
        Some(Entry::Settled(s)) if s.token == req.token => Resolved::Applied,
        Some(Entry::Settled(s))
            if s.kind == Kind::Unknown && req.version.is_none_or(|version| version == s.token.version()) =>
        {
            *slot = match &req.resolution {
                Resolution::DidNot | Resolution::Forget => None,
                Resolution::Happened { receipt, ttl } => Some(Entry::Settled(Settled {
                    token: req.token,
                    fingerprint: s.fingerprint,
                    kind: Kind::Done,
                    receipt: receipt.clone(),
                    first_at: s.first_at,
                    completed_at: now.wall,
                    until: now.wall.after(ttl.get()),
                })),
            };
            Resolved::Applied
        }
        other => Resolved::Changed(other.as_ref().map(|entry| Record::of(entry, now))),
    }
}

/// Only what was seen: a verdict that arrives twice must not meet what came after the first.
fn forget(slot: &mut Slot, req: &Resolve, now: &Now) -> Resolved {
    let record = slot.as_ref().map(|entry| Record::of(entry, now));
    match &record {
        Some(there) if !there.is_pending() && req.version == Some(there.version()) => {
            *slot = None;
            Resolved::Applied
        }
        _ => Resolved::Changed(record),
    }
}

fn end(slot: &mut Slot, now: &Now) {
    if let Some(Entry::Pending(p)) = slot.take() {
        *slot = promoted(p, now);
    }
}

fn promoted(ended: Pending, now: &Now) -> Slot {
    ended.late.filter(|late| late.until > now.wall).map(|late| Entry::Settled(*late))
}
