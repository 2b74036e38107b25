//! The steps that the writer takes, each on the row of one key.

use crate::{lock, row, schema};
use hapax_core::{
    Name, Now, Span, Token,
    idempotency::{
        Complete, Completed, Dropped, Entry, Extended, Reserve, Reserved, Resolution, Resolve, Resolved,
        Retake, Retaken, Write,
        machine::{self, Slot},
    },
};
use rusqlite::{Connection, OptionalExtension};

/// A connection at one moment: in a transaction where something may be written.
#[derive(Debug)]
pub(crate) struct Moment<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) now: Now,
    pub(crate) boot_id: &'a str,
}

impl Moment<'_> {
    /// Runs a rule on what lies under a name, and writes back what it changed.
    fn run<A>(&self, name: &Name, rule: impl FnOnce(&mut Slot, &Now) -> A) -> rusqlite::Result<A> {
        let before = row::load(self.conn, name, self.boot_id)?;
        let mut slot = before.clone();
        let answer = rule(&mut slot, &self.now);
        if slot != before {
            row::store(self.conn, name, self.boot_id, &before, &slot)?;
        }
        Ok(answer)
    }
}

/// One step: owned, because the thread that takes it may outlive its caller.
pub(crate) trait Step: Send + 'static {
    /// What it answers.
    type Answer: Send + 'static;
    /// What it does, for messages.
    const OP: &'static str;

    /// Whose row it changes. A name occurs once in a commit.
    fn name(&self) -> Option<&Name>;

    /// The bytes that it may write, beside a little.
    fn bytes(&self) -> usize {
        0
    }

    /// How many rows it is about, at most.
    fn rows(&self) -> usize {
        1
    }

    /// Answers without writing, where that can be.
    fn look(&self, tx: &Moment<'_>) -> rusqlite::Result<Option<Self::Answer>> {
        let _ = tx;
        Ok(None)
    }

    /// Takes it.
    fn take(&self, tx: &Moment<'_>) -> rusqlite::Result<Self::Answer>;

    /// Whether somebody who waits for jobs, or for a lock, may get one after it.
    fn wakes(&self, answer: &Self::Answer) -> bool {
        let _ = answer;
        false
    }

    /// What has to be released when nobody is there to hear the answer.
    fn unwanted(&self, answer: &Self::Answer) -> Option<Unwanted> {
        let _ = answer;
        None
    }
}

impl Step for Reserve {
    type Answer = Reserved;
    const OP: &'static str = "reserve a key";

    fn name(&self) -> Option<&Name> {
        Some(&self.name)
    }
    fn look(&self, tx: &Moment<'_>) -> rusqlite::Result<Option<Reserved>> {
        let slot = row::load(tx.conn, &self.name, tx.boot_id)?;
        Ok(match &slot {
            // Sent again, or over: what it is to be told, or becomes, the writer decides.
            Some(Entry::Pending(p)) if p.token == self.token || p.until <= tx.now.boot => None,
            _ => machine::into_record(slot, &tx.now).map(Reserved::Held),
        })
    }
    fn take(&self, tx: &Moment<'_>) -> rusqlite::Result<Reserved> {
        tx.run(&self.name, |slot, now| machine::reserve(slot, self, now))
    }
    fn unwanted(&self, answer: &Reserved) -> Option<Unwanted> {
        matches!(answer, Reserved::Yours { .. })
            .then(|| Unwanted::Key(Release(self.name.clone(), self.token)))
    }
}

impl Step for Complete {
    type Answer = Completed;
    const OP: &'static str = "keep a receipt";

    fn name(&self) -> Option<&Name> {
        Some(&self.name)
    }
    fn bytes(&self) -> usize {
        self.receipt.bytes.len() + self.receipt.codec.len()
    }
    fn take(&self, tx: &Moment<'_>) -> rusqlite::Result<Completed> {
        tx.run(&self.name, |slot, now| machine::complete(slot, self, now))
    }
}

impl Step for Retake {
    type Answer = Retaken;
    const OP: &'static str = "take a key of unknown outcome";

    fn name(&self) -> Option<&Name> {
        Some(&self.name)
    }
    fn take(&self, tx: &Moment<'_>) -> rusqlite::Result<Retaken> {
        tx.run(&self.name, |slot, now| machine::retake_unknown(slot, self, now))
    }
    fn unwanted(&self, answer: &Retaken) -> Option<Unwanted> {
        matches!(answer, Retaken::Yours { .. }).then(|| Unwanted::Key(Release(self.name.clone(), self.token)))
    }
}

impl Step for Resolve {
    type Answer = Resolved;
    const OP: &'static str = "resolve a key";

    fn name(&self) -> Option<&Name> {
        Some(&self.name)
    }
    fn bytes(&self) -> usize {
        match &self.resolution {
            Resolution::Happened { receipt, .. } => receipt.bytes.len() + receipt.codec.len(),
            Resolution::DidNot | Resolution::Forget => 0,
        }
    }
    fn take(&self, tx: &Moment<'_>) -> rusqlite::Result<Resolved> {
        tx.run(&self.name, |slot, now| machine::resolve(slot, self, now))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Release(pub(crate) Name, pub(crate) Token);

impl Step for Release {
    type Answer = Write;
    const OP: &'static str = "release a key";

    fn name(&self) -> Option<&Name> {
        Some(&self.0)
    }
    fn take(&self, tx: &Moment<'_>) -> rusqlite::Result<Write> {
        tx.run(&self.0, |slot, now| machine::release(slot, &self.1, now))
    }
}

/// Gives back what nobody is there to have.
#[derive(Debug)]
pub(crate) enum Unwanted {
    Key(Release),
    Lock(lock::Release),
}

impl Step for Unwanted {
    type Answer = Write;
    const OP: &'static str = "release what nobody wants";

    fn name(&self) -> Option<&Name> {
        match self {
            Self::Key(release) => release.name(),
            Self::Lock(release) => release.name(),
        }
    }
    fn take(&self, tx: &Moment<'_>) -> rusqlite::Result<Write> {
        match self {
            Self::Key(release) => release.take(tx),
            Self::Lock(release) => release.take(tx),
        }
    }
    fn wakes(&self, answer: &Write) -> bool {
        match self {
            Self::Key(release) => release.wakes(answer),
            Self::Lock(release) => release.wakes(answer),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Extend(pub(crate) Name, pub(crate) Token, pub(crate) Span);

impl Step for Extend {
    type Answer = Extended;
    const OP: &'static str = "extend a lease";

    fn name(&self) -> Option<&Name> {
        Some(&self.0)
    }
    fn take(&self, tx: &Moment<'_>) -> rusqlite::Result<Extended> {
        tx.run(&self.0, |slot, now| machine::extend(slot, &self.1, self.2, now))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct DropUnknown(pub(crate) Name, pub(crate) Token);

impl Step for DropUnknown {
    type Answer = Dropped;
    const OP: &'static str = "drop an unknown result";

    fn name(&self) -> Option<&Name> {
        Some(&self.0)
    }
    fn take(&self, tx: &Moment<'_>) -> rusqlite::Result<Dropped> {
        tx.run(&self.0, |slot, now| machine::drop_unknown(slot, &self.1, now))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ForceRelease(pub(crate) Name);

impl Step for ForceRelease {
    type Answer = Write;
    const OP: &'static str = "release a key by force";

    fn name(&self) -> Option<&Name> {
        Some(&self.0)
    }
    fn take(&self, tx: &Moment<'_>) -> rusqlite::Result<Write> {
        tx.run(&self.0, machine::force_release)
    }
}

/// Removes a row that is over. Answers whether it is gone.
#[derive(Debug)]
pub(crate) struct Forget(pub(crate) Name);

impl Step for Forget {
    type Answer = bool;
    const OP: &'static str = "prune";

    fn name(&self) -> Option<&Name> {
        Some(&self.0)
    }
    fn take(&self, tx: &Moment<'_>) -> rusqlite::Result<bool> {
        tx.run(&self.0, |slot, now| {
            machine::settle(slot, now);
            slot.is_none()
        })
    }
}

/// Keeps a secret, unless the store has one. Answers the one it has.
#[derive(Clone)]
pub(crate) struct KeepSecret(pub(crate) [u8; 32]);

impl Step for KeepSecret {
    type Answer = [u8; 32];
    const OP: &'static str = "make its secret";

    fn name(&self) -> Option<&Name> {
        None
    }
    fn take(&self, tx: &Moment<'_>) -> rusqlite::Result<[u8; 32]> {
        match secret(tx.conn)? {
            Some(secret) => Ok(secret),
            None => schema::set_meta(tx.conn, "secret", self.0.as_slice()).map(|()| self.0),
        }
    }
}

/// The secret that the store has.
pub(crate) fn secret(conn: &Connection) -> rusqlite::Result<Option<[u8; 32]>> {
    conn.prepare_cached(schema::META)?.query_row(["secret"], |row| row.get(0)).optional()
}
