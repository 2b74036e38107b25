//! Steps of many callers in one statement, so that one commit serves all of them.
//!
//! Who calls alone waits for nobody. Who calls while others are under way waits until one of two connections is free, and
//! leaves with what has gathered by then: the slower the server, the more share a commit. No statement takes more than its
//! share of those under way, so that both connections have something to do.

use crate::{
    ask::{Ask, Shape},
    batch::{Answered, MOST_STEPS, Placed, statements},
    error::{Failure, Remedy},
    sessions::{Berth, Lane},
    store::PostgresStore,
};
use futures_util::future::join_all;
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};
use tokio::{
    sync::{OwnedSemaphorePermit, oneshot},
    time::Instant,
};

/// A larger receipt goes alone.
const LARGE: usize = 16 * 1024;
/// Fewer are not worth a statement of their own.
const FEW: usize = 8;

/// Who waits for an answer.
struct Waiting {
    tell: oneshot::Sender<Result<Answered, Failure>>,
    deadline: Instant,
    /// Set when it leaves.
    is_out: Arc<AtomicBool>,
}

/// What waits to leave, of one kind.
#[derive(Default)]
struct Group {
    waiting: VecDeque<Placed<Waiting>>,
    /// A task is on its way to take some of them.
    is_led: bool,
}

/// What waits on the connections of one runtime.
pub(crate) struct Gather {
    slots: usize,
    under_way: AtomicUsize,
    groups: Mutex<Vec<(&'static str, Group)>>,
}

impl Gather {
    pub(crate) fn new(slots: usize) -> Self {
        Self { slots, under_way: AtomicUsize::new(0), groups: Mutex::default() }
    }

    /// Counts a call for as long as the guard lives. Answers whether others are under way.
    fn enter(&self) -> (bool, impl Drop + '_) {
        struct Leave<'a>(&'a AtomicUsize);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        (self.under_way.fetch_add(1, Ordering::Relaxed) > 0, Leave(&self.under_way))
    }

    fn groups(&self) -> MutexGuard<'_, Vec<(&'static str, Group)>> {
        // Nothing that holds it can panic between two changes.
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers whether somebody has to lead.
    fn add(&self, ask: Ask, waiting: Waiting) -> bool {
        let mut groups = self.groups();
        let function = ask.shape.function;
        if groups.iter().all(|(known, _)| *known != function) {
            groups.push((function, Group::default()));
        }
        let Some((_, group)) = groups.iter_mut().find(|(known, _)| *known == function) else { return false };
        group.waiting.push_back((ask, waiting));
        !std::mem::replace(&mut group.is_led, true)
    }

    /// Those that leave now, and whether others stay behind, who need another leader. Whoever has gone meanwhile is left
    /// out.
    fn take(&self, function: &'static str) -> (Vec<Placed<Waiting>>, bool) {
        let share = self.under_way.load(Ordering::Relaxed).div_ceil(self.slots).clamp(FEW, MOST_STEPS);
        let mut groups = self.groups();
        let Some((_, group)) = groups.iter_mut().find(|(known, _)| *known == function) else {
            return (Vec::new(), false);
        };
        group.waiting.retain(|(_, waiting)| !waiting.tell.is_closed());
        let count = share.min(group.waiting.len());
        let taken: Vec<_> = group.waiting.drain(..count).collect();
        for (_, waiting) in &taken {
            waiting.is_out.store(true, Ordering::Relaxed);
        }
        group.is_led = !group.waiting.is_empty();
        (taken, group.is_led)
    }
}

impl PostgresStore {
    /// The answer to a step, which leaves alone or with others.
    pub(crate) async fn gathered(&self, ask: Ask) -> Result<Answered, Failure> {
        let (berth, deadline) = (self.sessions.berth()?, Instant::now() + self.limit());
        let (are_others, _under_way) = berth.gather.enter();
        // What waits with others is small, since it is moved about: the futures of whoever goes alone are not in it.
        if ask.bytes > LARGE {
            return Box::pin(self.apart(&ask, deadline)).await;
        }
        if !are_others && let Ok(slot) = Arc::clone(&berth.slots).try_acquire_owned() {
            return Box::pin(self.lone(&ask, deadline, slot)).await;
        }
        let (tell, answer) = oneshot::channel();
        let is_out = Arc::new(AtomicBool::new(false));
        let shape = ask.shape;
        if berth.gather.add(ask, Waiting { tell, deadline, is_out: Arc::clone(&is_out) }) {
            self.lead(&berth, shape);
        }
        match tokio::time::timeout_at(deadline, answer).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(Failure::gone())),
            Err(_) => {
                let failure = Failure::timeout(&self.sessions.place, self.limit());
                Err(if is_out.load(Ordering::Relaxed) { failure.maybe_applied() } else { failure })
            }
        }
    }

    /// Nobody else is there. Where the row is locked it makes room for those who come meanwhile.
    async fn lone(
        &self,
        ask: &Ask,
        deadline: Instant,
        slot: OwnedSemaphorePermit,
    ) -> Result<Answered, Failure> {
        let asks = std::slice::from_ref(ask);
        let answer = self.together(asks, deadline, Lane::Slot(&slot)).await;
        drop(slot);
        match answer {
            Ok(rows) => {
                rows.into_iter().next().unwrap_or_else(|| Err(Failure::nonsense(&self.sessions.place)))
            }
            Err(failure) if failure.remedy == Remedy::Look => match ask.shape.busy {
                Some(busy) => self.ask_function(ask, busy, deadline).await,
                None => self.apart(ask, deadline).await,
            },
            Err(failure) => Err(failure),
        }
    }

    /// A task sends what has gathered, and not a caller: that one may be left alone by whoever polls it, and the others
    /// with it.
    fn lead(&self, berth: &Arc<Berth>, shape: Shape) {
        let (store, berth) = (self.clone(), Arc::clone(berth));
        tokio::spawn(async move {
            // Every task that is ready has its turn, and its step comes along.
            tokio::task::yield_now().await;
            // It is never closed.
            let Ok(slot) = Arc::clone(&berth.slots).acquire_owned().await else { return };
            let (taken, are_left) = berth.gather.take(shape.function);
            if are_left {
                store.lead(&berth, shape);
            }
            let mut alone = Vec::new();
            for statement in statements(taken) {
                store.leave(statement, &slot, &mut alone).await;
            }
            drop(slot);
            join_all(alone.into_iter().map(|(ask, waiting)| {
                let store = &store;
                async move { drop(waiting.tell.send(store.apart(&ask, waiting.deadline).await)) }
            }))
            .await;
        });
    }

    /// Sends one statement and tells everybody what came of it, but those who have to be asked for alone.
    async fn leave(
        &self,
        statement: Vec<Placed<Waiting>>,
        slot: &OwnedSemaphorePermit,
        alone: &mut Vec<Placed<Waiting>>,
    ) {
        let (asks, waiting): (Vec<_>, Vec<_>) = statement.into_iter().unzip();
        // Whose time is over before says so itself.
        let Some(deadline) = waiting.iter().map(|waiting| waiting.deadline).max() else { return };
        let answers = match self.together(&asks, deadline, Lane::Slot(slot)).await {
            Err(failure) if failure.is_of_one() => {
                alone.extend(asks.into_iter().zip(waiting));
                return;
            }
            Err(failure) => waiting.iter().map(|_| Err(failure.clone())).collect(),
            Ok(answers) => answers,
        };
        for (waiting, answer) in waiting.into_iter().zip(answers) {
            // Who went away meanwhile hears nothing. A reservation nobody wants is its caller's to release.
            let _ = waiting.tell.send(answer);
        }
    }
}
