//! The steps of [`machine`] on a small state, and a way to leave one rule out.

use bytes::Bytes;
use hapax_core::{
    BootTime, Fingerprint, Now, Span, Timestamp, Token,
    idempotency::{
        Complete, Completed, Dropped, Entry, Extended, Kind, Pending, Receipt, Reserve, Reserved, Resolution,
        Resolve, Resolved, Retake, Retaken, Settled, Write,
        machine::{self, Slot},
    },
};
use hapax_core::{Key, Name, Namespace, Scope};
use std::sync::LazyLock;

/// Who made a token: an owner, or (the last number) whoever settles an outcome by hand.
pub(crate) type Who = u8;

/// Time stands still: what passes is the end of a lease or of a result, moved to the present.
const NOW: Now = Now { wall: Timestamp::from_millis(1_000_000), boot: BootTime::from_millis(1_000_000) };

/// A result in the model.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Outcome {
    pub(crate) who: Who,
    pub(crate) kind: Kind,
    /// Its time is over.
    pub(crate) over: bool,
}

/// What lies under the key, as small as it can be hashed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Cell {
    Vacant,
    Pending { who: Who, live: bool, late: Option<Outcome> },
    Settled(Outcome),
}

/// One rule that is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Without {
    /// None is.
    Nothing,
    /// An owner's unknown does not hide a success that lies beside it.
    SuccessOverOwnUnknown,
    /// `drop_unknown` is refused when a success lies there.
    DropIsChecked,
    /// `retake_unknown` keeps the unknown beside the reservation.
    RetakeKeeps,
    /// A pending record that ends while a result lies beside it is that result.
    LateIsPromoted,
    /// A late success replaces a late unknown.
    LateSuccessReplaces,
    /// A success replaces an unknown record.
    SuccessReplaces,
    /// A result is kept although another holds the key.
    LateIsKept,
    /// Only the token that holds the key releases it.
    ReleaseIsFenced,
    /// A lease that has passed is not revived.
    ExtendNeedsLife,
    /// A verdict by hand needs an unknown record.
    VerdictNeedsUnknown,
}

fn token(who: Who) -> Token {
    Token::from_bytes([who + 1; 16])
}

fn who(token: &Token) -> Who {
    token.as_bytes()[0] - 1
}

fn name() -> Name {
    static NAME: LazyLock<Name> = LazyLock::new(|| {
        Name::new(&Namespace::default(), &Scope::new("model").unwrap(), &Key::new("k").unwrap())
    });
    NAME.clone()
}

fn settled(outcome: Outcome) -> Settled {
    Settled {
        token: token(outcome.who),
        fingerprint: Fingerprint::ANY,
        kind: outcome.kind,
        receipt: Receipt::new("model", Bytes::new()),
        first_at: NOW.wall,
        completed_at: NOW.wall,
        until: if outcome.over { NOW.wall } else { NOW.wall.after(Span::MAX.get()) },
    }
}

fn outcome(settled: &Settled) -> Outcome {
    Outcome { who: who(&settled.token), kind: settled.kind, over: settled.until <= NOW.wall }
}

impl Cell {
    fn slot(self) -> Slot {
        Some(match self {
            Self::Vacant => return None,
            Self::Settled(outcome) => Entry::Settled(settled(outcome)),
            Self::Pending { who, live, late } => Entry::Pending(Pending {
                token: token(who),
                fingerprint: Fingerprint::ANY,
                until: if live { NOW.boot.after(Span::MIN.get()) } else { NOW.boot },
                first_at: NOW.wall,
                late: late.map(|late| Box::new(settled(late))),
            }),
        })
    }

    fn of(slot: &Slot) -> Self {
        match slot {
            None => Self::Vacant,
            Some(Entry::Settled(settled)) => Self::Settled(outcome(settled)),
            Some(Entry::Pending(p)) => Self::Pending {
                who: who(&p.token),
                live: p.until > NOW.boot,
                late: p.late.as_deref().map(outcome),
            },
            Some(Entry::Unreadable) => unreachable!("no step makes one"),
        }
    }

    /// What a reader sees: a reservation that is over has given its place to what lies beside it.
    pub(crate) fn seen(self) -> Self {
        let mut slot = self.slot();
        machine::settle(&mut slot, &NOW);
        Self::of(&slot)
    }

    /// Whether a call would be told that the key is in flight.
    pub(crate) fn reads_pending(self) -> bool {
        machine::read(&self.slot(), &NOW).is_some_and(|record| record.is_pending())
    }

    /// Whether a result of this kind or a better one is kept, in whatever place.
    pub(crate) fn keeps(self, kind: Kind) -> bool {
        let kept = match self {
            Self::Vacant => None,
            Self::Settled(outcome) => Some(outcome),
            Self::Pending { late, .. } => late,
        };
        kept.is_some_and(|kept| !kept.over && (kept.kind == Kind::Done || kind == Kind::Unknown))
    }
}

/// The steps, with a rule left out. That is done around the functions: they have no switches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules(pub(crate) Without);

impl Rules {
    fn step<A>(self, cell: &mut Cell, step: impl FnOnce(&mut Slot) -> A) -> A {
        let mut slot = cell.slot();
        if self.0 == Without::LateIsPromoted && matches!(cell, Cell::Pending { live: false, .. }) {
            slot = None;
        }
        let answer = step(&mut slot);
        *cell = Cell::of(&slot);
        answer
    }

    pub(crate) fn reserve(self, cell: &mut Cell, who: Who) -> Reserved {
        let req =
            Reserve { name: name(), token: token(who), fingerprint: Fingerprint::ANY, lease: Span::MIN };
        self.step(cell, |slot| machine::reserve(slot, &req, &NOW))
    }

    pub(crate) fn complete(self, cell: &mut Cell, who: Who, kind: Kind) -> Completed {
        let (receipt, ttl) = (Receipt::new("model", Bytes::new()), Span::MAX);
        let req =
            Complete { name: name(), token: token(who), fingerprint: Fingerprint::ANY, kind, receipt, ttl };
        let before = *cell;
        match (self.0, &mut *cell) {
            (Without::SuccessOverOwnUnknown, Cell::Pending { who: holder, late, .. }) if *holder == who => {
                *late = None;
            }
            (Without::LateIsKept, Cell::Pending { who: holder, live: true, .. }) if *holder != who => {
                return Completed::StoredLate;
            }
            _ => {}
        }
        let answer = self.step(cell, |slot| machine::complete(slot, &req, &NOW));
        match (self.0, before, &mut *cell) {
            (
                Without::LateSuccessReplaces,
                Cell::Pending { late: Some(first), .. },
                Cell::Pending { late: Some(late), .. },
            ) if !first.over => *late = first,
            (Without::SuccessReplaces, Cell::Settled(first), Cell::Settled(now)) if !first.over => {
                *now = first;
            }
            _ => {}
        }
        answer
    }

    pub(crate) fn release(self, cell: &mut Cell, who: Who) -> Write {
        let holder = match *cell {
            Cell::Pending { who: holder, .. } if self.0 == Without::ReleaseIsFenced => holder,
            _ => who,
        };
        self.without_late(cell, holder);
        self.step(cell, |slot| machine::release(slot, &token(holder), &NOW))
    }

    pub(crate) fn force_release(self, cell: &mut Cell) -> Write {
        if let Cell::Pending { who, .. } = *cell {
            self.without_late(cell, who);
        }
        self.step(cell, |slot| machine::force_release(slot, &NOW))
    }

    fn without_late(self, cell: &mut Cell, by: Who) {
        match cell {
            Cell::Pending { who, late, .. } if *who == by && self.0 == Without::LateIsPromoted => {
                *late = None;
            }
            _ => {}
        }
    }

    pub(crate) fn extend(self, cell: &mut Cell, who: Who) -> Extended {
        match cell {
            Cell::Pending { who: holder, live, .. }
                if *holder == who && self.0 == Without::ExtendNeedsLife =>
            {
                *live = true;
            }
            _ => {}
        }
        self.step(cell, |slot| machine::extend(slot, &token(who), Span::MIN, &NOW))
    }

    pub(crate) fn retake(self, cell: &mut Cell, who: Who) -> Retaken {
        let req = Retake { name: name(), token: token(who), fingerprint: Fingerprint::ANY, lease: Span::MIN };
        let fresh = !matches!(*cell, Cell::Pending { who: holder, live: true, .. } if holder == who);
        let answer = self.step(cell, |slot| machine::retake_unknown(slot, &req, &NOW));
        if let (Without::RetakeKeeps, true, Retaken::Yours { .. }, Cell::Pending { late, .. }) =
            (self.0, fresh, &answer, &mut *cell)
        {
            *late = None;
        }
        answer
    }

    pub(crate) fn drop_unknown(self, cell: &mut Cell, who: Who) -> Dropped {
        match (self.0, &mut *cell) {
            (Without::DropIsChecked, Cell::Pending { who: holder, live: true, late }) if *holder == who => {
                *late = None;
            }
            _ => {}
        }
        self.step(cell, |slot| machine::drop_unknown(slot, &token(who), &NOW))
    }

    /// A verdict by hand on the record of `seen`, or on whatever is unknown.
    pub(crate) fn resolve(self, cell: &mut Cell, hand: Who, seen: Option<Who>, happened: bool) -> Resolved {
        let resolution = if happened {
            Resolution::Happened { receipt: Receipt::new("model", Bytes::new()), ttl: Span::MAX }
        } else {
            Resolution::DidNot
        };
        let version = seen.map(|who| token(who).version());
        let req = Resolve { name: name(), token: token(hand), version, resolution };
        if let (Without::VerdictNeedsUnknown, Cell::Settled(outcome)) = (self.0, &mut *cell) {
            outcome.kind = Kind::Unknown;
        }
        self.step(cell, |slot| machine::resolve(slot, &req, &NOW))
    }
}
