//! Locks: a document for each, which outlives its lease, since the next fence goes on from it.
//!
//! The rules are those of [`hapax_core::lock::machine`], at the earliest instant that the server's clock may show; a lease
//! lasts from the latest. The write of the usual case is sent first, as for keys.

mod guard;
mod list;
mod step;
mod value;

pub use guard::Guard;

use crate::{clock::Moment, error::Failure, keys, sessions::Sessions, store::MongoStore};
use async_trait::async_trait;
use futures_util::future::join_all;
use hapax_core::{
    Name, Span, StoreResult, Token,
    lock::{
        Acquire, Acquired, Extended, Fence, HolderInfo, ListLocks, LockInfo, LockPage, LockStore, Write,
        machine::Slot,
    },
};
use mongodb::bson::doc;
use std::time::Duration;
use step::{Break, Extend, Release, Seed, Show, Step};
use tokio::time::Instant;

const PRUNE: &str = "forget locks";
/// Looks at a lock that changes under each write.
const ROUNDS: usize = 3;
/// So many renewals are in one command at most.
const MOST: usize = 128;

impl Sessions {
    /// The collection of locks.
    pub(crate) fn locks(&self) -> String {
        format!("{}_lock", self.options.collection)
    }
}

impl MongoStore {
    async fn lock_step<S: Step>(&self, step: &S) -> StoreResult<S::Answer> {
        let deadline = self.sessions.deadline();
        self.lock_taken(step, deadline).await.map_err(|failure| failure.error(S::OP))
    }

    async fn lock_taken<S: Step>(&self, step: &S, deadline: Instant) -> Result<S::Answer, Failure> {
        let (sessions, locks) = (&self.sessions, self.sessions.locks());
        let mut at = sessions.moment(deadline).await?;
        if let Some((usual, answer)) = step.usual(&at)
            && sessions.write_in(&locks, usual, S::RESEND, deadline).await?.is_done()
        {
            return Ok(answer);
        }
        let id = keys::id(step.name());
        let mut is_fresh = false;
        for round in 0..=ROUNDS {
            let document = sessions.look_in(&locks, &id, deadline).await?;
            let found = value::slot(document.as_ref(), &sessions.place)?;
            let mut slot = found.clone();
            let mut answer = step.rule(&mut slot, &at);
            // Nothing is taken over on what the server's clock showed a while ago.
            if !is_fresh && takes_over(&found, &slot, &at) {
                (at, is_fresh) = (sessions.hello(deadline).await?.1, true);
                slot.clone_from(&found);
                answer = step.rule(&mut slot, &at);
            }
            match value::change(&id, &found, &slot) {
                None if !S::CLAIMS => return Ok(answer),
                None => {
                    sessions.write_in(&locks, crate::write::nothing(&id), true, deadline).await?;
                    return Ok(answer);
                }
                Some(_) if round == ROUNDS => {}
                Some(write) => {
                    if sessions.write_in(&locks, write, S::RESEND, deadline).await?.is_done() {
                        return Ok(answer);
                    }
                }
            }
        }
        S::NEVER_STILL.ok_or_else(|| Failure::never_still(&sessions.place))
    }

    /// Renews in one trip what is held as it should be; none where one of them is not.
    async fn extended(&self, reqs: &[Extend<'_>]) -> Result<Option<Vec<Extended>>, Failure> {
        let deadline = self.sessions.deadline();
        let at = self.sessions.moment(deadline).await?;
        let (writes, answers): (Vec<_>, Vec<_>) = reqs.iter().filter_map(|req| req.usual(&at)).unzip();
        let count = writes.len();
        let written = self.sessions.write_many_in(&self.sessions.locks(), writes, true, deadline).await?;
        Ok((written.count == count && written.failed.is_empty()).then_some(answers))
    }

    async fn forgotten(&self, limit: usize) -> Result<usize, Failure> {
        let deadline = self.sessions.deadline();
        let over = self.sessions.hello(deadline).await?.1.over;
        self.sessions.remove_due(&self.sessions.locks(), over, limit, deadline).await
    }
}

/// Whether the change rests on a lease being over.
fn takes_over(found: &Slot, after: &Slot, at: &Moment) -> bool {
    let held = |slot: &Slot| slot.as_ref().and_then(|lock| lock.held.clone());
    let before = held(found);
    before.as_ref().is_some_and(|held| held.until <= step::now(at).boot) && held(after) != before
}

#[async_trait]
impl LockStore for MongoStore {
    async fn acquire(&self, req: &Acquire) -> StoreResult<Acquired> {
        self.lock_step(req).await
    }

    async fn extend(&self, name: &Name, token: &Token, lease: Span) -> StoreResult<Extended> {
        self.lock_step(&Extend(name, *token, lease)).await
    }

    async fn release(&self, name: &Name, token: &Token) -> StoreResult<Write> {
        self.lock_step(&Release(name, *token)).await
    }

    async fn show(&self, name: &Name) -> StoreResult<LockInfo> {
        self.lock_step(&Show(name)).await
    }

    async fn list(&self, req: &ListLocks) -> StoreResult<LockPage> {
        self.lock_page(req).await
    }

    async fn break_lock(&self, name: &Name) -> StoreResult<Option<HolderInfo>> {
        self.lock_step(&Break(name)).await
    }

    async fn seed_fence(&self, name: &Name, least: Fence) -> StoreResult<Fence> {
        self.lock_step(&Seed(name, least)).await
    }

    /// At once: the server tells nobody of a change, unless it is asked to tell of all of them.
    async fn wait(&self, _: &Name, _: Duration) -> StoreResult<()> {
        Ok(())
    }

    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        self.forgotten(limit).await.map_err(|failure| failure.error(PRUNE))
    }

    async fn extend_many(&self, reqs: &[(Name, Token, Span)]) -> Vec<StoreResult<Extended>> {
        let steps: Vec<_> = reqs.iter().map(|(name, token, lease)| Extend(name, *token, *lease)).collect();
        let mut answers = Vec::with_capacity(reqs.len());
        for chunk in steps.chunks(MOST) {
            // To be sent again, each for itself, where the server only counted.
            match self.extended(chunk).await {
                Ok(Some(all)) => answers.extend(all.into_iter().map(Ok)),
                _ => answers.extend(join_all(chunk.iter().map(|step| self.lock_step(step))).await),
            }
        }
        answers
    }
}
