//! Steps of many callers in one command.
//!
//! Who calls while other calls are under way lets every other task that is ready have its turn first, and takes what
//! they bring along. Who calls alone waits for nobody.

use crate::{
    error::Failure,
    lines::{Berth, Lines},
    script::Script,
    step::Outgoing,
    store,
};
use redis::Value;
use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::oneshot;

/// A step that waits to leave, and who waits for it.
struct Waiting {
    step: Outgoing,
    tell: oneshot::Sender<Result<Value, Failure>>,
}

/// What waits on one connection.
#[derive(Default)]
pub(crate) struct Gather {
    under_way: AtomicUsize,
    groups: Mutex<Vec<(&'static str, Vec<Waiting>)>>,
}

impl fmt::Debug for Gather {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gather").field("under_way", &self.under_way).finish_non_exhaustive()
    }
}

impl Gather {
    /// Counts a call for as long as the guard lives. Answers whether others are under way.
    pub(crate) fn enter(&self) -> (bool, impl Drop + '_) {
        struct Leave<'a>(&'a AtomicUsize);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        (self.under_way.fetch_add(1, Ordering::Relaxed) > 0, Leave(&self.under_way))
    }

    fn groups(&self) -> MutexGuard<'_, Vec<(&'static str, Vec<Waiting>)>> {
        // Nothing that holds it can panic between two changes.
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers whether it is the first of its group.
    fn add(&self, op: &'static str, waiting: Waiting) -> bool {
        let mut groups = self.groups();
        match groups.iter_mut().find(|(known, _)| *known == op) {
            Some((_, group)) => {
                group.push(waiting);
                group.len() == 1
            }
            None => {
                groups.push((op, vec![waiting]));
                true
            }
        }
    }

    /// Those that wait; whoever has gone meanwhile is left out.
    fn drain(&self, op: &'static str) -> Vec<Waiting> {
        let mut groups = self.groups();
        let group = groups.iter_mut().find(|(known, _)| *known == op).map(|(_, group)| std::mem::take(group));
        drop(groups);
        let mut group = group.unwrap_or_default();
        group.retain(|waiting| !waiting.tell.is_closed());
        group
    }
}

/// What all steps of a group share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) op: &'static str,
    pub(crate) script: &'static Script,
    pub(crate) resend: bool,
    pub(crate) kept: bool,
}

/// Sends a step with those that are ready in the same turn.
///
/// A task does it, and not the first caller: that one may be left alone by whoever polls it, and the others with it.
pub(crate) async fn together(
    lines: &Arc<Lines>,
    berth: &Arc<Berth>,
    group: Group,
    step: Outgoing,
) -> Result<Value, Failure> {
    let (tell, answer) = oneshot::channel();
    if berth.gather.add(group.op, Waiting { step, tell }) {
        let (lines, berth) = (Arc::clone(lines), Arc::clone(berth));
        tokio::spawn(async move {
            tokio::task::yield_now().await;
            leave(&lines, &berth.gather, group).await;
        });
    }
    answer.await.unwrap_or_else(|_| Err(Failure::gone()))
}

async fn leave(lines: &Lines, gather: &Gather, group: Group) {
    let waiting = gather.drain(group.op).into_iter().map(|waiting| (waiting.step, waiting.tell));
    let (steps, tell): (Vec<_>, Vec<_>) = waiting.unzip();
    for (tell, answer) in tell.into_iter().zip(store::send(lines, group, steps).await) {
        // Who went away meanwhile hears nothing. A reservation nobody wants is its caller's to release.
        let _ = tell.send(answer);
    }
}
