//! Calls of many callers in one write.
//!
//! Who calls while other calls are under way lets every other task that is ready have its turn first, and takes what
//! they bring along. Who calls alone waits for nobody.

use crate::{
    error::Failure,
    lines::{Berth, Lines},
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

/// So many leave together in any case.
const LEAST: usize = 8;

/// What leaves together with others of its kind.
pub(crate) trait Parcel: Sized + Send + 'static {
    /// What those that leave together share.
    type Kind: Copy + PartialEq + Send + 'static;

    /// Of the calls that are under way, so great a part leaves at once: callers whose answers come together call together
    /// again, and then either they wait for the server or it for them. With several parts both are busy. The fewer the
    /// parts, the less a write costs; the more a server has to do for each, the more of them pay.
    const PARTS: usize;

    /// Where they gather.
    fn gather(berth: &Berth) -> &Gather<Self>;

    /// Sends them in one round trip; an answer for each.
    fn leave(
        lines: &Lines,
        kind: Self::Kind,
        parcels: Vec<Self>,
    ) -> impl Future<Output = Vec<Result<Value, Failure>>> + Send;

    /// Sends one.
    fn leave_alone(
        lines: &Lines,
        kind: Self::Kind,
        parcel: Self,
    ) -> impl Future<Output = Result<Value, Failure>> + Send;
}

/// Something that waits to leave, and who waits for it.
struct Waiting<P> {
    parcel: P,
    tell: oneshot::Sender<Result<Value, Failure>>,
}

/// Kinds, and who waits of each. There are a handful.
type Groups<P> = Vec<(<P as Parcel>::Kind, Vec<Waiting<P>>)>;

/// What waits on one connection.
pub(crate) struct Gather<P: Parcel> {
    groups: Mutex<Groups<P>>,
}

impl<P: Parcel> Default for Gather<P> {
    fn default() -> Self {
        Self { groups: Mutex::default() }
    }
}

impl<P: Parcel> fmt::Debug for Gather<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gather").finish_non_exhaustive()
    }
}

impl<P: Parcel> Gather<P> {
    fn groups(&self) -> MutexGuard<'_, Groups<P>> {
        // Nothing that holds it can panic between two changes.
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers whether it is the first of its group.
    fn add(&self, kind: P::Kind, waiting: Waiting<P>) -> bool {
        let mut groups = self.groups();
        match groups.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, group)) => {
                group.push(waiting);
                group.len() == 1
            }
            None => {
                groups.push((kind, vec![waiting]));
                true
            }
        }
    }

    /// Those that wait, so many at most; whoever has gone meanwhile is left out. Answers whether some are left.
    fn take(&self, kind: P::Kind, most: usize) -> (Vec<Waiting<P>>, bool) {
        let mut groups = self.groups();
        let Some((_, group)) = groups.iter_mut().find(|(known, _)| *known == kind) else {
            return (Vec::new(), false);
        };
        group.retain(|waiting| !waiting.tell.is_closed());
        let rest = if group.len() > most { group.split_off(most) } else { Vec::new() };
        let is_left = !rest.is_empty();
        (std::mem::replace(group, rest), is_left)
    }
}

/// Calls on one connection that have no answer yet.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    calls: AtomicUsize,
}

impl Traffic {
    /// Counts a call for as long as the guard lives. Answers whether others are under way.
    pub(crate) fn enter(&self) -> (bool, impl Drop + '_) {
        struct Leave<'a>(&'a AtomicUsize);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        (self.calls.fetch_add(1, Ordering::Relaxed) > 0, Leave(&self.calls))
    }
}

/// Sends it with those that are ready in the same turn.
pub(crate) async fn together<P: Parcel>(
    lines: &Arc<Lines>,
    berth: &Arc<Berth>,
    kind: P::Kind,
    parcel: P,
) -> Result<Value, Failure> {
    let (tell, answer) = oneshot::channel();
    if P::gather(berth).add(kind, Waiting { parcel, tell }) {
        leave_soon::<P>(Arc::clone(lines), Arc::clone(berth), kind);
    }
    answer.await.unwrap_or_else(|_| Err(Failure::gone()))
}

/// A task does it, and not the first caller: that one may be left alone by whoever polls it, and the others with it.
fn leave_soon<P: Parcel>(lines: Arc<Lines>, berth: Arc<Berth>, kind: P::Kind) {
    tokio::spawn(async move {
        tokio::task::yield_now().await;
        let most = (berth.traffic.calls.load(Ordering::Relaxed) / P::PARTS).max(LEAST);
        let (waiting, is_left) = P::gather(&berth).take(kind, most);
        if is_left {
            leave_soon::<P>(Arc::clone(&lines), Arc::clone(&berth), kind);
        }
        let (parcels, tell): (Vec<_>, Vec<_>) =
            waiting.into_iter().map(|waiting| (waiting.parcel, waiting.tell)).unzip();
        for (tell, answer) in tell.into_iter().zip(P::leave(&lines, kind, parcels).await) {
            // Who went away meanwhile hears nothing. A reservation nobody wants is its caller's to release.
            let _ = tell.send(answer);
        }
    });
}
