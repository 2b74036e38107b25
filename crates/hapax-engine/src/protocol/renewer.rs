//! Renewal of every lease of one store, in one call a tick.
//!
//! A renewal that fails is no loss: it is repeated. A lease is lost when the store says so, or when its deadline
//! (counted from before the last request that was granted) is nearer than the margin. Calls run beside the loop, so
//! that a store that hangs hides neither a loss nor the turn of another lease.

use super::{
    call,
    lease::{LeaseView, Loss},
    runner::Runner,
    terms::Terms,
};
use futures_util::stream::{FuturesUnordered, StreamExt};
use hapax_core::{
    BootTime, BoxFuture, Clock, Name, Span, StoreResult, Token,
    idempotency::{Extended, IdempotencyStore},
    lock::LockStore,
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};
use tokio::sync::{Notify, watch};

/// The loop looks at least so often, so that it ends soon after the last lease.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A clock that a test moves wakes nobody.
const MANUAL_PAUSE: Duration = Duration::from_millis(5);

/// Whose leases are renewed.
#[derive(Clone, Debug)]
pub(crate) enum Leases {
    /// Those of keys.
    Keys(Arc<dyn IdempotencyStore>),
    /// Those of locks.
    Locks(Arc<dyn LockStore>),
}

impl Leases {
    fn extend<'a>(
        &'a self,
        name: &'a Name,
        token: &'a Token,
        lease: Span,
    ) -> BoxFuture<'a, StoreResult<Extended>> {
        match self {
            Self::Keys(store) => (**store).extend(name, token, lease),
            Self::Locks(store) => (**store).extend(name, token, lease),
        }
    }

    fn extend_many<'a>(&'a self, all: &'a [Request]) -> BoxFuture<'a, Vec<StoreResult<Extended>>> {
        match self {
            Self::Keys(store) => (**store).extend_many(all),
            Self::Locks(store) => (**store).extend_many(all),
        }
    }

    fn code(&self, loss: Loss) -> &'static str {
        match self {
            Self::Keys(_) => loss.code(),
            Self::Locks(_) => "lock.lost",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Renewer {
    leases: Leases,
    clock: Arc<dyn Clock>,
    timeout: Duration,
    state: Mutex<State>,
    changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    next_id: u64,
    running: bool,
    entries: HashMap<u64, Entry>,
    /// When the loop looks again by itself.
    wakes_at: Option<BootTime>,
}

#[derive(Debug)]
struct Entry {
    name: Name,
    token: Token,
    terms: Terms,
    /// When to renew; none while the store is being asked.
    next: Option<BootTime>,
    /// No renewal after this.
    ceiling: Option<BootTime>,
    /// The effect has ended: a loss concerns nobody any more.
    effect_ended: bool,
    view: watch::Sender<LeaseView>,
}

/// Renews one lease while it lives.
#[derive(Debug)]
pub(crate) struct Renewal {
    renewer: Arc<Renewer>,
    id: u64,
}

impl Renewal {
    /// From here on a loss is no news.
    pub(crate) fn effect_ended(&self) {
        if let Some(entry) = self.renewer.state().entries.get_mut(&self.id) {
            entry.effect_ended = true;
        }
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        self.renewer.state().entries.remove(&self.id);
    }
}

impl Renewer {
    pub(crate) fn new(leases: Leases, clock: Arc<dyn Clock>, timeout: Duration) -> Arc<Self> {
        Arc::new(Self { leases, clock, timeout, state: Mutex::default(), changed: Arc::default() })
    }

    /// Keeps the lease of `token`, granted by a request sent at `asked`.
    pub(crate) fn keep(
        self: &Arc<Self>,
        runner: &Runner,
        (name, token): (Name, Token),
        terms: Terms,
        asked: BootTime,
    ) -> (Renewal, watch::Receiver<LeaseView>) {
        let deadline = asked.after(terms.lease.get());
        let (view, seen) = watch::channel(LeaseView { deadline, lost: None });
        let (next, ceiling) = (asked.after(terms.tick()), terms.ceiling.map(|ceiling| asked.after(ceiling)));
        let mut state = self.state();
        let id = state.next_id;
        state.next_id += 1;
        let entry = Entry { name, token, terms, next: Some(next), ceiling, effect_ended: false, view };
        state.entries.insert(id, entry);
        if !state.running {
            state.running = true;
            runner.spawn(renew(Arc::downgrade(self)));
        } else if state.wakes_at.is_none_or(|at| next < at) {
            self.changed.notify_one();
        }
        (Renewal { renewer: Arc::clone(self), id }, seen)
    }

    /// One renewal out of turn, which takes `limit` at most.
    pub(crate) async fn extend_now(&self, renewal: &Renewal, limit: Duration) {
        let request = self.state().entries.get_mut(&renewal.id).map(Entry::take);
        let Some((name, token, lease)) = request else { return };
        let asked = self.clock.boot();
        let answer = call::one(limit, "extend", self.leases.extend(&name, &token, lease)).await;
        self.settle(renewal.id, &answer, asked);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the losers, takes who is due, and answers when to look again.
    fn look(&self) -> Look {
        let now = self.clock.boot();
        let mut state = self.state();
        let (mut due, mut wake) = (Vec::new(), None::<BootTime>);
        for (id, entry) in &mut state.entries {
            let view = *entry.view.borrow();
            if view.lost.is_some() {
                continue;
            }
            let lost_at = view.deadline.before(entry.terms.margin());
            if entry.ceiling.is_some_and(|ceiling| now >= ceiling) {
                entry.lose(Loss::Ceiling, &self.leases);
                continue;
            }
            if now >= lost_at {
                entry.lose(Loss::Expired, &self.leases);
                continue;
            }
            if entry.next.is_some_and(|next| next <= now.after(entry.terms.slack())) {
                due.push((*id, entry.take()));
            }
            let times = [wake, entry.next, entry.ceiling, Some(lost_at)];
            wake = times.into_iter().flatten().min();
        }
        state.wakes_at = wake;
        Look { now, due, wake: wake.map_or(LONGEST_PAUSE, |at| at.since(now)) }
    }

    fn settle(&self, id: u64, answer: &StoreResult<Extended>, asked: BootTime) {
        let mut state = self.state();
        let Some(entry) = state.entries.get_mut(&id) else { return };
        match answer {
            Ok(Extended::Until(_)) => {
                let deadline = asked.after(entry.terms.lease.get());
                entry.next = Some(asked.after(entry.terms.tick()));
                entry.view.send_if_modified(|view| {
                    let later = view.lost.is_none() && view.deadline < deadline;
                    if later {
                        view.deadline = deadline;
                    }
                    later
                });
            }
            Ok(Extended::Fenced) => entry.lose(Loss::Fenced, &self.leases),
            Err(error) => {
                tracing::debug!(key = ?entry.name, %error, "a lease could not be renewed yet");
                entry.next = Some(self.clock.boot().after(entry.terms.again()));
            }
        }
    }

    /// Whether there is nothing to renew; the next lease then starts a new loop.
    fn is_idle(&self) -> bool {
        let mut state = self.state();
        state.running = !state.entries.is_empty();
        !state.running
    }

    /// The call that renews who is due. It does not hold the renewer: a keeper that is dropped ends the loop.
    fn extend(&self, look: Look) -> impl Future<Output = Renewed> + Send + use<> {
        let (ids, requests): (Vec<_>, Vec<_>) = look.due.into_iter().unzip();
        let shortest = requests.iter().map(|(_, _, lease)| lease.get()).min().unwrap_or(self.timeout);
        let (leases, limit) = (self.leases.clone(), self.timeout.min(shortest / 4));
        async move {
            let answers = call::many(limit, "extend", ids.len(), leases.extend_many(&requests)).await;
            Renewed { asked: look.now, answers: ids.into_iter().zip(answers).collect() }
        }
    }
}

impl Entry {
    /// To renew it now: nobody else does until there is an answer.
    fn take(&mut self) -> Request {
        self.next = None;
        (self.name.clone(), self.token, self.terms.lease)
    }

    fn lose(&self, loss: Loss, leases: &Leases) {
        let told = self.view.send_if_modified(|view| {
            let first = view.lost.is_none();
            view.lost = view.lost.or(Some(loss));
            first
        });
        if told && !self.effect_ended {
            tracing::warn!(key = ?self.name, code = leases.code(loss), "the lease is lost while its effect runs");
        }
    }
}

type Request = (Name, Token, Span);

/// What the loop has to do.
struct Look {
    now: BootTime,
    due: Vec<(u64, Request)>,
    /// Until something is due, or would be lost.
    wake: Duration,
}

/// What the store said to those who were due.
struct Renewed {
    asked: BootTime,
    answers: Vec<(u64, StoreResult<Extended>)>,
}

async fn renew(renewer: Weak<Renewer>) {
    let mut calls = FuturesUnordered::new();
    while let Some(this) = renewer.upgrade() {
        let look = this.look();
        if this.is_idle() {
            // A call that is under way renews a key that has ended: nobody waits for it.
            return;
        }
        let most = if this.clock.is_manual() { MANUAL_PAUSE } else { LONGEST_PAUSE };
        let pause = look.wake.clamp(Duration::from_millis(1), most);
        if !look.due.is_empty() {
            calls.push(this.extend(look));
        }
        let changed = Arc::clone(&this.changed);
        drop(this);
        tokio::select! {
            Some(Renewed { asked, answers }) = calls.next() => {
                let Some(this) = renewer.upgrade() else { return };
                for (id, answer) in &answers {
                    this.settle(*id, answer, asked);
                }
            }
            () = changed.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}
