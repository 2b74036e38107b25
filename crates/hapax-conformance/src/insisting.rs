//! A caller that insists: it repeats a call whose answer it did not get, as a real one does.

use async_trait::async_trait;
use hapax_core::{
    Name, Span, StoreError, StoreErrorKind, StoreResult, Token,
    idempotency::{
        Complete, Completed, Dropped, Extended, IdempotencyStore, Kind, List, Page, Record, RecordState,
        Reserve, Reserved, Resolve, Resolved, Retake, Retaken, Write,
    },
};
use std::{collections::HashSet, fmt};

/// A call is made so many times at most.
pub(crate) const TRIES: usize = 4;
/// In a batch of more, the records are not looked up before: no fault is put on results and releases there.
const BATCH: usize = 64;

/// Where faults come from: a proxy before the server, say.
pub trait Faults: Send + Sync + fmt::Debug + 'static {
    /// Puts a fault on the request that comes next.
    fn arm(&self);
    /// Takes it away if it has not happened.
    fn disarm(&self);
    /// How many have happened.
    fn happened(&self) -> usize;
}

/// A client of a store whose requests meet faults, and that answers as one whose requests do not.
///
/// A fault is put on a step only where sending it twice answers alike, or where the answer tells that it was done the
/// first time: then a result that was [there already](Completed::AlreadyDone) was stored, and a
/// [fenced](Write::Fenced) release applied. Which of the two it is, a look at the record before the step tells; so this
/// is for cases in which nobody else changes the key meanwhile. Resolvers and verdicts meet no faults.
#[derive(Debug)]
pub struct Insisting<S, F> {
    inner: S,
    faults: F,
}

/// What may happen to a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plan {
    /// No fault.
    Spare,
    /// A fault; the answer is that of the last try.
    Plain,
    /// A fault; after one, the step was done at the first try.
    Done,
}

impl<S: IdempotencyStore, F: Faults> Insisting<S, F> {
    /// A client, and what is in its way.
    pub fn new(inner: S, faults: F) -> Self {
        Self { inner, faults }
    }

    /// What is in its way.
    pub fn faults(&self) -> &F {
        &self.faults
    }

    /// Makes a call, and repeats it; and whether a fault happened meanwhile.
    async fn one<T, C>(&self, plan: Plan, call: impl Fn() -> C + Send) -> (StoreResult<T>, bool)
    where
        T: Send,
        C: Future<Output = StoreResult<T>> + Send,
    {
        if plan == Plan::Spare {
            return (call().await, false);
        }
        let before = self.faults.happened();
        self.faults.arm();
        let mut answer = call().await;
        self.faults.disarm();
        for _ in 1..TRIES {
            if !answer.as_ref().is_err_and(may_pass) {
                break;
            }
            answer = call().await;
        }
        (answer, self.faults.happened() != before)
    }

    /// The same for a batch, whose members are repeated one by one.
    async fn many<'a, R, T, D>(
        &self,
        reqs: &'a [R],
        call: impl Future<Output = Vec<StoreResult<T>>> + Send,
        single: impl Fn(&'a R) -> D + Send + Sync,
    ) -> (Vec<StoreResult<T>>, bool)
    where
        R: Sync,
        T: Send,
        D: Future<Output = StoreResult<T>> + Send,
    {
        let before = self.faults.happened();
        self.faults.arm();
        let mut answers = call.await;
        self.faults.disarm();
        for (answer, req) in answers.iter_mut().zip(reqs) {
            for _ in 1..TRIES {
                if !answer.as_ref().is_err_and(may_pass) {
                    break;
                }
                *answer = single(req).await;
            }
        }
        (answers, self.faults.happened() != before)
    }

    async fn plan_complete(&self, req: &Complete) -> Plan {
        let Ok(found) = self.inner.read(&req.name).await else { return Plan::Spare };
        let is_mine = found.as_ref().is_some_and(|record| record.version() == req.token.version());
        match found.map(|record| record.state) {
            None => Plan::Done,
            // An unknown may have made way for a success beside it, which the second one meets.
            Some(RecordState::Pending) if is_mine && req.kind == Kind::Unknown => Plan::Spare,
            Some(RecordState::Pending) if is_mine => Plan::Done,
            // It takes its place; the second one finds itself.
            Some(RecordState::Settled { kind: Kind::Unknown, .. }) if !is_mine && req.kind == Kind::Done => {
                Plan::Spare
            }
            Some(RecordState::Pending | RecordState::Settled { .. }) => Plan::Plain,
            Some(_) => Plan::Spare,
        }
    }

    async fn plan_release(&self, name: &Name, token: &Token) -> Plan {
        match self.inner.read(name).await {
            Ok(Some(record)) if record.is_pending() && record.version() == token.version() => Plan::Done,
            // A lease that is over may be freed or gone.
            Ok(None) | Err(_) => Plan::Spare,
            Ok(Some(_)) => Plan::Plain,
        }
    }
}

/// What another try may find otherwise.
pub(crate) fn may_pass(error: &StoreError) -> bool {
    matches!(error.kind(), StoreErrorKind::Unavailable | StoreErrorKind::Timeout)
}

/// What a caller makes of an answer to a step that was done at the first try.
trait Told: Sized {
    fn the_first_time(self) -> Self;
}

impl Told for Completed {
    fn the_first_time(self) -> Self {
        if self == Self::AlreadyDone { Self::Stored } else { self }
    }
}

impl Told for Write {
    fn the_first_time(self) -> Self {
        Self::Applied
    }
}

fn told<T: Told>(plan: Plan, happened: bool, answer: StoreResult<T>) -> StoreResult<T> {
    if plan == Plan::Done && happened { answer.map(T::the_first_time) } else { answer }
}

/// Whether none of a batch is to be spared, and none is there twice.
fn is_armed<'a>(plans: &[Plan], names: impl ExactSizeIterator<Item = &'a Name>) -> bool {
    let size = names.len();
    size == plans.len() && !plans.contains(&Plan::Spare) && names.collect::<HashSet<_>>().len() == size
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: IdempotencyStore, F: Faults> IdempotencyStore for Insisting<S, F> {
    async fn reserve(&self, req: &Reserve) -> StoreResult<Reserved> {
        self.one(Plan::Plain, || self.inner.reserve(req)).await.0
    }
    async fn complete(&self, req: &Complete) -> StoreResult<Completed> {
        let plan = self.plan_complete(req).await;
        let (answer, happened) = self.one(plan, || self.inner.complete(req)).await;
        told(plan, happened, answer)
    }
    async fn release(&self, name: &Name, token: &Token) -> StoreResult<Write> {
        let plan = self.plan_release(name, token).await;
        let (answer, happened) = self.one(plan, || self.inner.release(name, token)).await;
        told(plan, happened, answer)
    }
    async fn extend(&self, name: &Name, token: &Token, lease: Span) -> StoreResult<Extended> {
        self.one(Plan::Plain, || self.inner.extend(name, token, lease)).await.0
    }
    async fn retake_unknown(&self, req: &Retake) -> StoreResult<Retaken> {
        self.inner.retake_unknown(req).await
    }
    async fn drop_unknown(&self, name: &Name, token: &Token) -> StoreResult<Dropped> {
        self.inner.drop_unknown(name, token).await
    }
    async fn resolve(&self, req: &Resolve) -> StoreResult<Resolved> {
        self.inner.resolve(req).await
    }
    async fn force_release(&self, name: &Name) -> StoreResult<Write> {
        self.inner.force_release(name).await
    }
    async fn read(&self, name: &Name) -> StoreResult<Option<Record>> {
        self.one(Plan::Plain, || self.inner.read(name)).await.0
    }
    fn token(&self) -> StoreResult<Token> {
        self.inner.token()
    }
    fn peek(&self, name: &Name) -> Option<Record> {
        self.inner.peek(name)
    }
    async fn list(&self, req: &List) -> StoreResult<Page> {
        self.one(Plan::Plain, || self.inner.list(req)).await.0
    }
    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        self.inner.prune(limit).await
    }
    async fn reserve_many(&self, reqs: &[Reserve]) -> Vec<StoreResult<Reserved>> {
        self.many(reqs, self.inner.reserve_many(reqs), |req| self.inner.reserve(req)).await.0
    }
    async fn complete_many(&self, reqs: &[Complete]) -> Vec<StoreResult<Completed>> {
        let mut plans = Vec::new();
        for req in reqs.iter().take(BATCH) {
            plans.push(self.plan_complete(req).await);
        }
        let call = self.inner.complete_many(reqs);
        if !is_armed(&plans, reqs.iter().map(|req| &req.name)) {
            return call.await;
        }
        let (answers, happened) = self.many(reqs, call, |req| self.inner.complete(req)).await;
        answers.into_iter().zip(plans).map(|(answer, plan)| told(plan, happened, answer)).collect()
    }
    async fn extend_many(&self, reqs: &[(Name, Token, Span)]) -> Vec<StoreResult<Extended>> {
        let call = self.inner.extend_many(reqs);
        self.many(reqs, call, |(name, token, lease)| self.inner.extend(name, token, *lease)).await.0
    }
    async fn release_many(&self, reqs: &[(Name, Token)]) -> Vec<StoreResult<Write>> {
        let mut plans = Vec::new();
        for (name, token) in reqs.iter().take(BATCH) {
            plans.push(self.plan_release(name, token).await);
        }
        let call = self.inner.release_many(reqs);
        if !is_armed(&plans, reqs.iter().map(|(name, _)| name)) {
            return call.await;
        }
        let (answers, happened) =
            self.many(reqs, call, |(name, token)| self.inner.release(name, token)).await;
        answers.into_iter().zip(plans).map(|(answer, plan)| told(plan, happened, answer)).collect()
    }
    async fn secret(&self) -> StoreResult<Option<[u8; 32]>> {
        self.one(Plan::Plain, || self.inner.secret()).await.0
    }
}
