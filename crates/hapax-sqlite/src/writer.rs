//! The one connection that writes, and the queue before it.
//!
//! Whoever finds the writer idle becomes it: in one piece of blocking work that takes what is queued, commit by commit,
//! and ends with the queue. There is no thread of its own and no timer: a lone call waits for nobody, and calls that
//! come while a commit is under way share the next.

use crate::{
    batch::Batch,
    commit::{Committer, Run, Start},
    connect::Place,
    error::Failure,
    patience::{Patience, real_time},
    queue::Bell,
    step::{Moment, Step, Unwanted},
    unit::{Call, Home, Unit},
};
use hapax_core::StoreResult;
use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::runtime::Handle;

/// A step about more rows is not taken on the thread of its caller.
const INLINE_ROWS: usize = 8;
/// A caller that comes back so soon spares itself the start of a thread.
const LINGER: Duration = Duration::from_micros(60);

pub(crate) struct Writer {
    place: Place,
    /// Used by the holder of the [`Turn`], and for a look by whoever finds it free.
    committer: Mutex<Committer>,
    state: Mutex<State>,
    commits: Arc<AtomicU64>,
    looks: Arc<AtomicU32>,
    moved: Arc<AtomicBool>,
    inline: bool,
    bell: Bell,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Box<dyn Unit>>,
    /// Whether somebody holds the turn.
    taken: bool,
    /// When the last turn ended, and whether the next began soon after it.
    ended: Option<Instant>,
    is_quick: bool,
}

/// The right to use the connection.
struct Turn {
    writer: Arc<Writer>,
    over: bool,
}

impl Turn {
    /// Ends the turn, unless there is more to do.
    fn finish(mut self) -> Option<Self> {
        let mut state = locked(&self.writer.state);
        if !state.queue.is_empty() {
            drop(state);
            return Some(self);
        }
        state.taken = false;
        state.ended = Some(real_time());
        drop(state);
        self.over = true;
        None
    }
}

impl Drop for Turn {
    /// A turn that ends out of order, by a panic or with its runtime, leaves nobody waiting.
    fn drop(&mut self) {
        if !self.over {
            let left: Vec<_> = {
                let mut state = locked(&self.writer.state);
                state.taken = false;
                state.queue.drain(..).collect()
            };
            for unit in left {
                unit.answer(&Failure::gone());
            }
        }
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("path", &self.place.path).finish_non_exhaustive()
    }
}

impl Writer {
    pub(crate) fn new(place: Place, committer: Committer, inline: bool, bell: Bell) -> Self {
        let (commits, looks, moved) = (committer.commits(), committer.looks(), committer.moved());
        Self {
            place,
            committer: Mutex::new(committer),
            state: Mutex::default(),
            commits,
            looks,
            moved,
            inline,
            bell,
        }
    }

    /// How many transactions with changes it has committed.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// What an owner hears about what it holds. Where the file is no longer in its place it holds nothing that others see: it is
    /// told so, as it would be of any other loss.
    pub(crate) fn told<A>(&self, answer: StoreResult<A>, fenced: A) -> StoreResult<A> {
        if answer.is_err() && self.moved.load(Ordering::Relaxed) { Ok(fenced) } else { answer }
    }

    /// Reads on the connection that writes, soon after it was opened or has committed and where nobody is at it. Its cache holds what it
    /// wrote, while a reader would fetch those pages from the log again. That also sets the time at which the log was last
    /// read, and then the next commit's sync takes a third longer. `None`: it is for the readers.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Moment<'_>) -> rusqlite::Result<T>) -> Option<T> {
        if self.looks.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let committer = self.committer.try_lock().ok()?;
        // Only written under the lock.
        self.looks.store(self.looks.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
        committer.look(look)
    }

    /// Takes one step, on this thread where that is the way and nobody else is at it.
    pub(crate) async fn one<S: Step + Clone>(self: &Arc<Self>, step: &S) -> StoreResult<S::Answer> {
        match self.here(step)? {
            Some(answer) => Ok(answer),
            None => self.queued(step).await,
        }
    }

    /// As [`one`](Self::one), for a step that is the store's own.
    pub(crate) async fn owned<S: Step>(self: &Arc<Self>, step: S) -> StoreResult<S::Answer> {
        match self.here(&step)? {
            Some(answer) => Ok(answer),
            None => self.queue(step).await,
        }
    }

    /// Takes one step by way of the queue.
    pub(crate) async fn queued<S: Step + Clone>(self: &Arc<Self>, step: &S) -> StoreResult<S::Answer> {
        self.queue(step.clone()).await
    }

    async fn queue<S: Step>(self: &Arc<Self>, step: S) -> StoreResult<S::Answer> {
        let mut answers = self.many(vec![step]).await;
        answers.pop().unwrap_or_else(|| Err(Failure::gone().error(S::OP)))
    }

    /// Takes one step on this thread. `None`: it has to be queued.
    pub(crate) fn here<S: Step>(self: &Arc<Self>, step: &S) -> StoreResult<Option<S::Answer>> {
        if !self.inline || step.rows() > INLINE_ROWS {
            return Ok(None);
        }
        let runtime = Handle::try_current().map_err(|_| Failure::no_runtime().error(S::OP))?;
        let Some(turn) = self.idle() else { return Ok(None) };
        let (run, tidy) = {
            let mut committer = locked(&self.committer);
            (committer.alone(step), committer.wants_checkpoint())
        };
        // Others may have come meanwhile, and a checkpoint waits for the disk: work for another thread.
        Self::start(if tidy { Some(turn) } else { turn.finish() }, &runtime);
        match run {
            Run::Done(answer) => {
                if answer.as_ref().is_ok_and(|answer| step.wakes(answer)) {
                    self.bell.ring();
                }
                answer.map(Some)
            }
            Run::Busy => Ok(None),
        }
    }

    /// Takes the steps of one call, each with its own answer.
    pub(crate) async fn many<S: Step>(self: &Arc<Self>, steps: Vec<S>) -> Vec<StoreResult<S::Answer>> {
        let count = steps.len();
        let all = |failure: Failure| (0..count).map(|_| Err(failure.error(S::OP))).collect();
        if count == 0 {
            return Vec::new();
        }
        let Ok(runtime) = Handle::try_current() else { return all(Failure::no_runtime()) };
        let limit = self.place.timeout;
        let home = Home { writer: Arc::downgrade(self), runtime: runtime.clone() };
        let (call, mut ticket) = Call::new(steps, limit, home);
        let turn = {
            let mut state = locked(&self.state);
            state.queue.push_back(Box::new(call));
            self.turn(&mut state)
        };
        Self::start(turn, &runtime);
        // The writer keeps to the deadline too. This is for a disk that hangs, and for a runtime that has no thread
        // left for blocking work.
        let failure = match tokio::time::timeout(limit, &mut ticket.reply).await {
            Ok(Ok(delivery)) => return delivery.read(),
            Ok(Err(_)) => Failure::gone(),
            Err(_) => {
                ticket.reply.close();
                if let Ok(delivery) = ticket.reply.try_recv() {
                    return delivery.read();
                }
                Failure::timeout(&self.place.path, limit)
            }
        };
        all(if ticket.departed() { failure.maybe_applied() } else { failure })
    }

    /// Frees reservations and locks that nobody wants, before anything that is queued: a caller that asks again under the same
    /// token must not lose what it is given then.
    pub(crate) fn release(self: &Arc<Self>, unwanted: Vec<Unwanted>, home: Home) {
        let runtime = home.runtime.clone();
        let call = Call::unasked(unwanted, self.place.timeout, home);
        let turn = {
            let mut state = locked(&self.state);
            state.queue.push_front(Box::new(call));
            self.turn(&mut state)
        };
        Self::start(turn, &runtime);
    }

    /// The turn, unless somebody has it.
    fn turn(self: &Arc<Self>, state: &mut State) -> Option<Turn> {
        let taken = std::mem::replace(&mut state.taken, true);
        if !taken {
            state.is_quick = state.ended.is_some_and(|ended| real_time() - ended < LINGER);
        }
        (!taken).then(|| Turn { writer: Arc::clone(self), over: false })
    }

    /// The turn, when the writer has nothing to do.
    fn idle(self: &Arc<Self>) -> Option<Turn> {
        let mut state = locked(&self.state);
        if state.queue.is_empty() { self.turn(&mut state) } else { None }
    }

    fn start(turn: Option<Turn>, runtime: &Handle) {
        if let Some(turn) = turn {
            // A runtime that shuts down drops the work, and with it the turn.
            drop(runtime.spawn_blocking(move || drain(turn)));
        }
    }

    /// The first unit in the queue that is still wanted.
    pub(crate) fn pop(&self) -> Option<Box<dyn Unit>> {
        loop {
            let unit = locked(&self.state).queue.pop_front()?;
            if unit.deadline() <= real_time() {
                unit.answer(&Failure::timeout(&self.place.path, self.place.timeout));
            } else if unit.is_wanted() {
                return Some(unit);
            } else {
                unit.answer(&Failure::gone());
            }
        }
    }

    /// Puts units back to where they came from, in their order.
    pub(crate) fn put_back(&self, units: impl DoubleEndedIterator<Item = Box<dyn Unit>>) {
        let mut state = locked(&self.state);
        units.rev().for_each(|unit| state.queue.push_front(unit));
    }

    /// Waits a moment for a caller who has just been answered, where callers have been so quick before. Others would
    /// pay for nothing. One who commits on its own thread would be kept from it, call after call.
    fn linger(&self) {
        if !self.inline && locked(&self.state).is_quick {
            let until = real_time() + LINGER;
            while locked(&self.state).queue.is_empty() && real_time() < until {
                std::thread::yield_now();
            }
        }
    }

    /// Lets those go who wait no longer.
    fn let_go(&self) {
        let now = real_time();
        let mut gone = Vec::new();
        {
            let mut state = locked(&self.state);
            for unit in std::mem::take(&mut state.queue) {
                if unit.is_wanted() && unit.deadline() > now {
                    state.queue.push_back(unit);
                } else {
                    gone.push(unit);
                }
            }
        }
        let failure = Failure::timeout(&self.place.path, self.place.timeout);
        for unit in gone {
            unit.answer(&failure);
        }
    }

    /// One commit, or one try for it.
    fn cycle(&self, committer: &mut Committer, patience: &mut Patience, alone: &mut usize) {
        // The lock first: all who come while other processes hold it share the commit, and who goes away meanwhile
        // leaves no trace.
        match committer.begin() {
            Ok(()) => patience.rest(),
            Err(Start::Busy) => {
                patience.pause();
                return self.let_go();
            }
            Err(Start::Failed(failure)) => {
                let all = std::mem::take(&mut locked(&self.state).queue);
                for unit in all {
                    unit.answer(&failure);
                }
                return;
            }
        }
        let mut batch = Batch::new(if *alone > 0 { 1 } else { Batch::MOST_STEPS });
        let run = batch.fill(self, committer);
        match run {
            Ok(()) if batch.steps() == 0 => committer.roll_back(),
            Ok(()) => match committer.commit(batch.bytes()) {
                Ok(()) => {
                    *alone = alone.saturating_sub(batch.steps());
                    if batch.keep() {
                        self.bell.ring();
                    }
                }
                Err(failure) if failure.is_maybe_applied() => batch.doubt(&failure),
                Err(failure) => *alone = batch.undo(&failure, *alone),
            },
            Err(error) => {
                committer.roll_back();
                *alone = batch.undo(&committer.failure(error), *alone);
            }
        }
        batch.hand_back(self);
    }
}

/// Takes what is queued until nothing is.
fn drain(turn: Turn) {
    let writer = Arc::clone(&turn.writer);
    let (mut patience, mut alone, mut next) = (Patience::new(), 0, Some(turn));
    while let Some(turn) = next {
        {
            let mut committer = locked(&writer.committer);
            committer.checkpoint();
            writer.cycle(&mut committer, &mut patience, &mut alone);
        }
        writer.linger();
        next = turn.finish();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SqliteOptions, SqliteStore};
    use hapax_core::{
        Applied, Fingerprint, Key, Name, Namespace, Scope, Span, StoreErrorKind, SystemClock, Token,
        idempotency::{Complete, Completed, IdempotencyStore, Kind, Receipt, Reserve, Reserved},
    };
    use std::time::Duration;

    fn reserve(key: &str) -> Reserve {
        Reserve {
            name: Name::new(&Namespace::default(), &Scope::new("test").unwrap(), &Key::new(key).unwrap()),
            token: Token::random().unwrap(),
            fingerprint: Fingerprint::ANY,
            lease: Span::new(Duration::from_mins(1)).unwrap(),
        }
    }

    fn complete(req: &Reserve, bytes: usize) -> Complete {
        Complete {
            name: req.name.clone(),
            token: req.token,
            fingerprint: req.fingerprint,
            kind: Kind::Done,
            receipt: Receipt::new("test", vec![7; bytes]),
            ttl: Span::MAX,
        }
    }

    fn pages(store: &SqliteStore, sql: &str) -> i64 {
        locked(&store.writer.committer).conn().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    #[tokio::test]
    async fn a_full_disk_reaches_only_whom_it_concerns() {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::new(folder.path().join("store.db"));
        let store = SqliteStore::open(options, Arc::new(SystemClock)).await.unwrap();
        let reqs: Vec<_> = (0..10).map(|n| reserve(&n.to_string())).collect();
        for answer in store.reserve_many(&reqs).await {
            assert!(matches!(answer.unwrap(), Reserved::Yours { .. }));
        }
        // Room for the small receipts, not for the one of four pages.
        let most = pages(&store, "PRAGMA page_count") + 2;
        assert_eq!(pages(&store, &format!("PRAGMA max_page_count = {most}")), most);
        let results: Vec<_> =
            reqs.iter().enumerate().map(|(n, req)| complete(req, if n == 4 { 15_000 } else { 50 })).collect();
        for (n, answer) in store.complete_many(&results).await.into_iter().enumerate() {
            if n == 4 {
                let error = answer.unwrap_err();
                assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Unavailable, Applied::No));
                assert!(error.to_string().contains("is full"), "{error}");
            } else {
                assert_eq!(answer.unwrap(), Completed::Stored);
            }
        }
        // With room again, the same call goes through.
        pages(&store, "PRAGMA max_page_count = 1000000");
        assert_eq!(store.complete(&results[4]).await.unwrap(), Completed::Stored);
    }

    #[tokio::test]
    async fn looks_after_a_commit_are_made_where_it_was_made() {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::new(folder.path().join("store.db"));
        let store = SqliteStore::open(options.clone(), Arc::new(SystemClock)).await.unwrap();
        let other = SqliteStore::open(options, Arc::new(SystemClock)).await.unwrap();
        let looks = || std::iter::from_fn(|| store.writer.look(|_| Ok(()))).take(1_000).count();
        assert!((1..1_000).contains(&looks()), "the first are, and not all");
        let granted = store.reserve(&reserve("a")).await.unwrap();
        let elsewhere = other.reserve(&reserve("b")).await.unwrap();
        assert!(matches!((granted, elsewhere), (Reserved::Yours { .. }, Reserved::Yours { .. })));
        let again = reserve("b");
        assert!(store.writer.look(|at| again.look(at)).unwrap().is_some(), "what others commit is seen");
        let committer = locked(&store.writer.committer);
        assert!(store.writer.look(|_| Ok(())).is_none(), "a look waits for nobody");
        drop(committer);
        assert!((1..1_000).contains(&looks()), "readers come into their own");
    }

    /// Answers the thread that takes it.
    #[derive(Clone)]
    struct Whereabouts;

    impl Step for Whereabouts {
        type Answer = std::thread::ThreadId;
        const OP: &'static str = "tell where it is";

        fn name(&self) -> Option<&Name> {
            None
        }
        fn take(&self, _: &Moment<'_>) -> rusqlite::Result<Self::Answer> {
            Ok(std::thread::current().id())
        }
    }

    #[tokio::test]
    async fn calls_come_back_to_their_own_thread() {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::new(folder.path().join("store.db")).inline(true);
        let store = SqliteStore::open(options, Arc::new(SystemClock)).await.unwrap();
        let here = std::thread::current().id();
        for _ in 0..20 {
            // As a checkpoint does: another thread has the turn, and calls come as fast as it answers.
            assert_ne!(store.writer.queued(&Whereabouts).await.unwrap(), here);
            let mut calls = 0;
            while store.writer.one(&Whereabouts).await.unwrap() != here {
                calls += 1;
                assert!(calls < 1_000, "they stay with the other thread");
            }
        }
    }

    #[tokio::test]
    async fn a_transaction_left_open_by_a_panic_is_undone() {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::new(folder.path().join("store.db"));
        let store = SqliteStore::open(options, Arc::new(SystemClock)).await.unwrap();
        locked(&store.writer.committer)
            .conn()
            .execute_batch("BEGIN IMMEDIATE; DELETE FROM hapax_meta")
            .unwrap();
        assert!(matches!(store.reserve(&reserve("k")).await.unwrap(), Reserved::Yours { .. }));
    }
}
