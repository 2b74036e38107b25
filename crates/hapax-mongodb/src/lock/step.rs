//! The steps on a lock: the write that settles the usual case, and the rule for anything else that is found.

use super::value;
use crate::{clock::Moment, keys, value::lease, write::Write};
use hapax_core::{
    Name, Now, Span, Token,
    lock::{
        Acquire, Acquired, Extended, Fence, HolderInfo, LockInfo, Write as Answered,
        machine::{self, Slot},
    },
};
use mongodb::bson::doc;
use std::time::Duration;

/// One step, on the document of one lock.
pub(super) trait Step: Sync {
    type Answer: Send;
    /// What it does, for messages.
    const OP: &'static str;
    /// Whether a write may be sent once more when its reply was lost: it knows its own token.
    const RESEND: bool = true;
    /// Whether it may find that nothing is left to do without having written: that has to be confirmed before it is told.
    const CLAIMS: bool = false;
    /// What it says when every try met another state, where that is an answer.
    const NEVER_STILL: Option<Self::Answer> = None;

    fn name(&self) -> &Name;

    /// The write of the usual case, and the answer where it is done. Otherwise nothing has changed.
    fn usual(&self, at: &Moment) -> Option<(Write, Self::Answer)> {
        let _ = at;
        None
    }

    /// What becomes of what was found.
    fn rule(&self, slot: &mut Slot, at: &Moment) -> Self::Answer;
}

/// What is over is over then. Both readings are on the server's clock.
pub(super) fn now(at: &Moment) -> Now {
    Now { wall: at.over, boot: lease(at.over) }
}

/// A lease from the latest instant that it may be, counted from the earliest.
fn stretched(span: Span, at: &Moment) -> Span {
    Span::new(span.get() + at.now.since(at.over)).unwrap_or(Span::MAX)
}

fn rule_of_acquire(req: &Acquire, slot: &mut Slot, at: &Moment) -> Acquired {
    machine::acquire(slot, &Acquire { lease: stretched(req.lease, at), ..req.clone() }, &now(at))
}

impl Step for Acquire {
    type Answer = Acquired;
    const OP: &'static str = "acquire a lock";
    // Whoever came first each time has it, or had it.
    const NEVER_STILL: Option<Acquired> = Some(Acquired::Busy { rest: Duration::from_millis(1) });

    fn name(&self) -> &Name {
        &self.name
    }
    fn usual(&self, at: &Moment) -> Option<(Write, Acquired)> {
        let mut slot = None;
        let answer = rule_of_acquire(self, &mut slot, at);
        let lock = slot?;
        let filter = doc! {
            "_id": keys::id(&self.name),
            "form": crate::value::FORM,
            "held": { "$exists": false },
            "fence": { "$lt": value::number(lock.fence) },
            "released": { "$ne": crate::value::token(&self.token) },
        };
        Some((Write::Update { filter, update: value::granted(&lock), upsert: true }, answer))
    }
    fn rule(&self, slot: &mut Slot, at: &Moment) -> Acquired {
        rule_of_acquire(self, slot, at)
    }
}

/// Makes the lease of a holder longer.
pub(super) struct Extend<'a>(pub(super) &'a Name, pub(super) Token, pub(super) Span);

impl Step for Extend<'_> {
    type Answer = Extended;
    const OP: &'static str = "extend a lock";

    fn name(&self) -> &Name {
        self.0
    }
    fn usual(&self, at: &Moment) -> Option<(Write, Extended)> {
        let until = at.now.after(self.2.get());
        let mut filter = of_holder(self.0, &self.1);
        filter.insert("held.until", doc! { "$gt": at.over.as_millis(), "$lte": until.as_millis() });
        Some((Write::Update { filter, update: value::lasting(until), upsert: false }, Extended::Until(until)))
    }
    fn rule(&self, slot: &mut Slot, at: &Moment) -> Extended {
        machine::extend(slot, &self.1, stretched(self.2, at), &now(at))
    }
}

/// Gives a lock back.
pub(super) struct Release<'a>(pub(super) &'a Name, pub(super) Token);

impl Step for Release<'_> {
    type Answer = Answered;
    const OP: &'static str = "release a lock";

    fn name(&self) -> &Name {
        self.0
    }
    fn usual(&self, at: &Moment) -> Option<(Write, Answered)> {
        let mut filter = of_holder(self.0, &self.1);
        filter.insert("held.until", doc! { "$gt": at.over.as_millis() });
        let update = value::given_back(&self.1, now(at).wall);
        Some((Write::Update { filter, update, upsert: false }, Answered::Applied))
    }
    fn rule(&self, slot: &mut Slot, at: &Moment) -> Answered {
        machine::release(slot, &self.1, &now(at))
    }
}

/// Takes a lock away.
pub(super) struct Break<'a>(pub(super) &'a Name);

impl Step for Break<'_> {
    type Answer = Option<HolderInfo>;
    const OP: &'static str = "break a lock";
    // Sent again, it might take it from the next holder.
    const RESEND: bool = false;

    fn name(&self) -> &Name {
        self.0
    }
    fn rule(&self, slot: &mut Slot, at: &Moment) -> Option<HolderInfo> {
        machine::break_lock(slot, &now(at))
    }
}

/// Makes the next fence larger.
pub(super) struct Seed<'a>(pub(super) &'a Name, pub(super) Fence);

impl Step for Seed<'_> {
    type Answer = Fence;
    const OP: &'static str = "seed a fence";
    const CLAIMS: bool = true;

    fn name(&self) -> &Name {
        self.0
    }
    fn rule(&self, slot: &mut Slot, at: &Moment) -> Fence {
        machine::seed_fence(slot, self.1, &now(at))
    }
}

/// Who holds a lock.
pub(super) struct Show<'a>(pub(super) &'a Name);

impl Step for Show<'_> {
    type Answer = LockInfo;
    const OP: &'static str = "look at a lock";

    fn name(&self) -> &Name {
        self.0
    }
    fn rule(&self, slot: &mut Slot, at: &Moment) -> LockInfo {
        machine::show(slot, &now(at))
    }
}

fn of_holder(name: &Name, token: &Token) -> mongodb::bson::Document {
    doc! {
        "_id": keys::id(name),
        "form": crate::value::FORM,
        "held.token": crate::value::token(token),
    }
}
