use super::PausedClock;
use async_trait::async_trait;
use hapax_core::{
    Clock, Name, Span, StoreError, StoreErrorKind, StoreResult, Token,
    idempotency::{
        Complete, Completed, Dropped, Entry, Extended, IdempotencyStore, List, Page, Record, Reserve,
        Reserved, Resolve, Resolved, Retake, Retaken, Write,
    },
    memory::MemoryStore,
};
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::task::yield_now;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    Reserve,
    Complete,
    Release,
    Extend,
    Retake,
    DropUnknown,
    Resolve,
    ForceRelease,
    Read,
}

/// What goes wrong with a step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// It certainly did not happen.
    Refused,
    /// This store cannot do it, now or ever.
    Unsupported,
    /// It did not happen, and the store cannot tell.
    Missed,
    /// It happened, and the reply was lost.
    ReplyLost,
    /// It does not happen, and no answer comes.
    Hangs,
    /// It happens, and no answer comes.
    HangsAfter,
    /// It happens after a while.
    AppliedLate(Duration),
    /// It happens, and the answer takes a while.
    AnswersLate(Duration),
    /// It happens, and the process is suspended before it has the answer.
    Suspends(Duration),
    /// Of a batch, the last answer is missing.
    Short,
    /// The store panics.
    Panics,
    /// A record of another version lies there.
    Unreadable,
}

/// The memory store, with faults by script, and a log of what it was asked.
#[derive(Debug)]
pub(crate) struct Scripted {
    inner: MemoryStore,
    clock: PausedClock,
    yields: bool,
    script: Mutex<Script>,
}

#[derive(Debug, Default)]
struct Script {
    next: HashMap<Op, VecDeque<Fault>>,
    always: HashMap<Op, Fault>,
    log: Vec<(Op, usize)>,
    /// How many of a kind are under way, and how many were at once.
    under_way: HashMap<Op, (usize, usize)>,
}

/// One step under way.
struct UnderWay<'a>(&'a Scripted, Op);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut script = self.0.script.lock().unwrap_or_else(PoisonError::into_inner);
        script.under_way.entry(self.1).or_default().0 -= 1;
    }
}

impl Scripted {
    pub(crate) fn new(clock: PausedClock) -> Self {
        let inner = MemoryStore::new(Arc::new(clock.clone()));
        Self { inner, clock, yields: false, script: Mutex::default() }
    }

    pub(crate) fn yielding(mut self) -> Self {
        self.yields = true;
        self
    }

    /// The store without faults and log.
    pub(crate) fn inner(&self) -> &MemoryStore {
        &self.inner
    }

    /// The next step of this kind goes wrong; said twice, the next two do.
    pub(crate) fn next(&self, op: Op, fault: Fault) {
        self.script.lock().unwrap().next.entry(op).or_default().push_back(fault);
    }

    /// Every step of this kind goes wrong.
    pub(crate) fn always(&self, op: Op, fault: Fault) {
        self.script.lock().unwrap().always.insert(op, fault);
    }

    /// All is well again.
    pub(crate) fn heal(&self) {
        let mut script = self.script.lock().unwrap();
        script.next.clear();
        script.always.clear();
    }

    /// How often it was asked to do this, a batch being once.
    pub(crate) fn count(&self, op: Op) -> usize {
        self.script.lock().unwrap().log.iter().filter(|(logged, _)| *logged == op).count()
    }

    /// How many keys each of these calls was about.
    pub(crate) fn sizes(&self, op: Op) -> Vec<usize> {
        let script = self.script.lock().unwrap();
        script.log.iter().filter(|(logged, _)| *logged == op).map(|(_, n)| *n).collect()
    }

    /// How many of these it was doing at once, at most.
    pub(crate) fn at_once(&self, op: Op) -> usize {
        self.script.lock().unwrap().under_way.get(&op).map_or(0, |(_, most)| *most)
    }

    pub(crate) async fn record(&self, name: &Name) -> Option<Record> {
        self.inner.read(name).await.unwrap()
    }

    fn begin(&self, op: Op, keys: usize) -> (Option<Fault>, UnderWay<'_>) {
        let mut script = self.script.lock().unwrap();
        script.log.push((op, keys));
        let (now, most) = script.under_way.entry(op).or_default();
        *now += 1;
        *most = (*most).max(*now);
        let next = script.next.get_mut(&op).and_then(VecDeque::pop_front);
        (next.or_else(|| script.always.get(&op).copied()), UnderWay(self, op))
    }

    async fn before(&self, op: Op, fault: Option<Fault>) -> StoreResult<()> {
        if self.yields {
            yield_now().await;
        }
        match fault {
            Some(Fault::Refused) => return Err(failure(op)),
            Some(Fault::Unsupported) => {
                let reason = "the receipt is too large";
                return Err(StoreError::new(StoreErrorKind::Unsupported, "scripted", "keep it", reason));
            }
            Some(Fault::Missed) => return Err(failure(op).maybe_applied()),
            Some(Fault::Hangs) => std::future::pending().await,
            Some(Fault::AppliedLate(by)) => tokio::time::sleep(by).await,
            Some(Fault::Panics) => panic!("a scripted panic of the store"),
            _ => {}
        }
        Ok(())
    }

    async fn after(&self, op: Op, fault: Option<Fault>) -> StoreResult<()> {
        if self.yields {
            yield_now().await;
        }
        match fault {
            Some(Fault::ReplyLost) => return Err(failure(op).maybe_applied()),
            Some(Fault::HangsAfter) => std::future::pending().await,
            Some(Fault::AnswersLate(by)) => tokio::time::sleep(by).await,
            Some(Fault::Suspends(by)) => self.clock.suspend(by),
            _ => {}
        }
        Ok(())
    }

    async fn step<T>(&self, op: Op, apply: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        let (fault, _under_way) = self.begin(op, 1);
        self.before(op, fault).await?;
        let answer = apply.await;
        self.after(op, fault).await?;
        answer
    }

    async fn batch<T>(
        &self,
        op: Op,
        keys: usize,
        apply: impl Future<Output = Vec<StoreResult<T>>>,
    ) -> Vec<StoreResult<T>> {
        let (fault, _under_way) = self.begin(op, keys);
        if self.before(op, fault).await.is_err() {
            let maybe = matches!(fault, Some(Fault::Missed));
            let each = || if maybe { failure(op).maybe_applied() } else { failure(op) };
            return (0..keys).map(|_| Err(each())).collect();
        }
        let mut answers = apply.await;
        if self.after(op, fault).await.is_err() {
            return (0..keys).map(|_| Err(failure(op).maybe_applied())).collect();
        }
        if matches!(fault, Some(Fault::Short)) {
            answers.pop();
        }
        answers
    }
}

fn failure(op: Op) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "scripted", "work", format!("no {op:?} today"))
}

#[async_trait]
impl IdempotencyStore for Scripted {
    async fn reserve(&self, req: &Reserve) -> StoreResult<Reserved> {
        let apply = self.inner.reserve(req);
        let (fault, _under_way) = self.begin(Op::Reserve, 1);
        self.before(Op::Reserve, fault).await?;
        if matches!(fault, Some(Fault::Unreadable)) {
            return Ok(Reserved::Held(Record::of(&Entry::Unreadable, &self.clock.read())));
        }
        let answer = apply.await;
        self.after(Op::Reserve, fault).await?;
        answer
    }
    async fn complete(&self, req: &Complete) -> StoreResult<Completed> {
        self.step(Op::Complete, self.inner.complete(req)).await
    }
    async fn release(&self, name: &Name, token: &Token) -> StoreResult<Write> {
        self.step(Op::Release, self.inner.release(name, token)).await
    }
    async fn extend(&self, name: &Name, token: &Token, lease: Span) -> StoreResult<Extended> {
        self.step(Op::Extend, self.inner.extend(name, token, lease)).await
    }
    async fn retake_unknown(&self, req: &Retake) -> StoreResult<Retaken> {
        self.step(Op::Retake, self.inner.retake_unknown(req)).await
    }
    async fn drop_unknown(&self, name: &Name, token: &Token) -> StoreResult<Dropped> {
        self.step(Op::DropUnknown, self.inner.drop_unknown(name, token)).await
    }
    async fn resolve(&self, req: &Resolve) -> StoreResult<Resolved> {
        self.step(Op::Resolve, self.inner.resolve(req)).await
    }
    async fn force_release(&self, name: &Name) -> StoreResult<Write> {
        self.step(Op::ForceRelease, self.inner.force_release(name)).await
    }
    async fn read(&self, name: &Name) -> StoreResult<Option<Record>> {
        self.step(Op::Read, self.inner.read(name)).await
    }
    async fn list(&self, req: &List) -> StoreResult<Page> {
        self.inner.list(req).await
    }
    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        self.inner.prune(limit).await
    }
    async fn reserve_many(&self, reqs: &[Reserve]) -> Vec<StoreResult<Reserved>> {
        self.batch(Op::Reserve, reqs.len(), self.inner.reserve_many(reqs)).await
    }
    async fn complete_many(&self, reqs: &[Complete]) -> Vec<StoreResult<Completed>> {
        self.batch(Op::Complete, reqs.len(), self.inner.complete_many(reqs)).await
    }
    async fn extend_many(&self, reqs: &[(Name, Token, Span)]) -> Vec<StoreResult<Extended>> {
        self.batch(Op::Extend, reqs.len(), self.inner.extend_many(reqs)).await
    }
    async fn release_many(&self, reqs: &[(Name, Token)]) -> Vec<StoreResult<Write>> {
        self.batch(Op::Release, reqs.len(), self.inner.release_many(reqs)).await
    }
}
