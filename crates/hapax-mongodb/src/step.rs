//! The steps: the write that settles the usual case, and what is made of anything else that is found.

use crate::{
    clock::Moment,
    rules::{self, Change},
    write::{self, Write},
};
use hapax_core::{
    Name, Span, Token,
    idempotency::{
        Complete, Completed, Dropped, Extended, Receipt, Record, Reserve, Reserved, Resolution, Resolve,
        Resolved, Retake, Retaken, Write as Answered, machine::Slot,
    },
};

/// One step, on the document of one key.
pub(crate) trait Step: Sync {
    /// What it answers.
    type Answer: Send;
    /// What it does, for messages.
    const OP: &'static str;
    /// Whether a write may be sent once more when its reply was lost: it knows its own token.
    const RESEND: bool = true;
    /// Whether a command of many tells for each whether it was done: where a statement can only be done or fail.
    const TELLS: bool = true;

    /// Whether it may find that an earlier call under its token has done it. Where no write of its own has waited for
    /// the majority, that has to be confirmed before it is told.
    const CLAIMS: bool = false;

    /// Whose document it changes.
    fn name(&self) -> &Name;

    /// The receipt that it brings.
    fn receipt(&self) -> Option<&Receipt> {
        None
    }

    /// The write of the usual case, and the answer where it is done. Otherwise nothing has changed.
    fn usual(&self, at: &Moment) -> Option<(Write, Self::Answer)> {
        let _ = at;
        None
    }

    /// What becomes of what was found, and the answer where it does.
    fn decide(&self, found: &Slot, at: &Moment) -> (Change, Self::Answer);
}

impl Step for Reserve {
    type Answer = Reserved;
    const OP: &'static str = "reserve a key";

    fn name(&self) -> &Name {
        &self.name
    }
    fn usual(&self, at: &Moment) -> Option<(Write, Reserved)> {
        Some((write::reserve(self, at), rules::yours(&rules::fresh(self, at))))
    }
    fn decide(&self, found: &Slot, at: &Moment) -> (Change, Reserved) {
        rules::reserve(found, self, at)
    }
}

impl Step for Complete {
    type Answer = Completed;
    const OP: &'static str = "keep a receipt";

    fn name(&self) -> &Name {
        &self.name
    }
    fn receipt(&self) -> Option<&Receipt> {
        Some(&self.receipt)
    }
    fn usual(&self, at: &Moment) -> Option<(Write, Completed)> {
        Some((write::complete(self, at), Completed::Stored))
    }
    fn decide(&self, found: &Slot, at: &Moment) -> (Change, Completed) {
        rules::complete(found, self, at)
    }
}

/// Frees the key of a token.
pub(crate) struct Release<'a>(pub(crate) &'a Name, pub(crate) Token);

impl Step for Release<'_> {
    type Answer = Answered;
    const OP: &'static str = "release a key";
    // Sent again, it would say that the token was fenced.
    const RESEND: bool = false;
    const TELLS: bool = false;

    fn name(&self) -> &Name {
        self.0
    }
    fn usual(&self, _: &Moment) -> Option<(Write, Answered)> {
        Some((write::release(self.0, &self.1), Answered::Applied))
    }
    fn decide(&self, found: &Slot, at: &Moment) -> (Change, Answered) {
        rules::release(found, &self.1, at)
    }
}

/// Ends a reservation whoever holds it.
pub(crate) struct ForceRelease<'a>(pub(crate) &'a Name);

impl Step for ForceRelease<'_> {
    type Answer = Answered;
    const OP: &'static str = "end a reservation";
    // Sent again, it would say that there was none.
    const RESEND: bool = false;

    fn name(&self) -> &Name {
        self.0
    }
    fn decide(&self, found: &Slot, at: &Moment) -> (Change, Answered) {
        rules::force_release(found, at)
    }
}

/// Moves the end of a live lease.
pub(crate) struct Extend<'a>(pub(crate) &'a Name, pub(crate) Token, pub(crate) Span);

impl Step for Extend<'_> {
    type Answer = Extended;
    const OP: &'static str = "extend a lease";
    const TELLS: bool = false;

    fn name(&self) -> &Name {
        self.0
    }
    fn usual(&self, at: &Moment) -> Option<(Write, Extended)> {
        let until = at.now.after(self.2.get());
        Some((write::extend(self.0, &self.1, self.2, at), Extended::Until(until)))
    }
    fn decide(&self, found: &Slot, at: &Moment) -> (Change, Extended) {
        rules::extend(found, &self.1, self.2, at)
    }
}

impl Step for Retake {
    type Answer = Retaken;
    const OP: &'static str = "take a key of unknown outcome";
    const CLAIMS: bool = true;

    fn name(&self) -> &Name {
        &self.name
    }
    fn decide(&self, found: &Slot, at: &Moment) -> (Change, Retaken) {
        rules::retake_unknown(found, self, at)
    }
}

/// Forgets the unknown result beside a reservation.
pub(crate) struct DropUnknown<'a>(pub(crate) &'a Name, pub(crate) Token);

impl Step for DropUnknown<'_> {
    type Answer = Dropped;
    const OP: &'static str = "drop an unknown outcome";
    const CLAIMS: bool = true;

    fn name(&self) -> &Name {
        self.0
    }
    fn decide(&self, found: &Slot, at: &Moment) -> (Change, Dropped) {
        rules::drop_unknown(found, &self.1, at)
    }
}

impl Step for Resolve {
    type Answer = Resolved;
    const OP: &'static str = "settle an unknown outcome";
    const CLAIMS: bool = true;

    fn name(&self) -> &Name {
        &self.name
    }
    fn receipt(&self) -> Option<&Receipt> {
        match &self.resolution {
            Resolution::Happened { receipt, .. } => Some(receipt),
            Resolution::DidNot | Resolution::Forget => None,
        }
    }
    fn decide(&self, found: &Slot, at: &Moment) -> (Change, Resolved) {
        rules::resolve(found, self, at)
    }
}

/// What is under a key.
pub(crate) struct Read<'a>(pub(crate) &'a Name);

impl Step for Read<'_> {
    type Answer = Option<Record>;
    const OP: &'static str = "read a key";

    fn name(&self) -> &Name {
        self.0
    }
    fn decide(&self, found: &Slot, at: &Moment) -> (Change, Option<Record>) {
        (Change::Keep, rules::read(found, at))
    }
}
