//! Connections that are kept for the next message.
//!
//! The pool bounds how many connections there are, idle ones and those at work together. A connection comes back only from a
//! transaction that ended in step with the server; whatever else happens to it, it is closed.

use super::connection::Connection;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    runtime::{Handle, Id},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::AbortHandle,
    time::{Instant, sleep_until},
};

/// When connections go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) connections: usize,
    pub(super) idle: Duration,
    pub(super) lifetime: Duration,
    pub(super) messages: u32,
}

#[derive(Debug)]
pub(super) struct Pool {
    limits: Limits,
    permits: Arc<Semaphore>,
    parked: Mutex<Parking>,
}

#[derive(Debug, Default)]
struct Parking {
    /// The one that was used last is last.
    connections: Vec<Parked>,
    /// Closes what has been idle for too long. Ends with the last idle connection.
    sweeper: Option<AbortHandle>,
}

#[derive(Debug)]
struct Parked {
    connection: Connection,
    since: Instant,
    /// A connection is driven by the runtime it was opened on.
    runtime: Option<Id>,
}

/// The right to have one connection.
#[derive(Debug)]
pub(super) struct Turn {
    pool: Arc<Pool>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Pool {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        let permits = Arc::new(Semaphore::new(limits.connections));
        Arc::new(Self { limits, permits, parked: Mutex::default() })
    }

    /// Waits for a turn, first come, first served.
    pub(super) async fn turn(self: &Arc<Self>) -> Turn {
        // It is never closed.
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        Turn { pool: Arc::clone(self), _permit: permit }
    }

    /// Closes what is idle.
    pub(super) fn clear(&self) {
        let idle = std::mem::take(&mut self.parked().connections);
        for parked in idle {
            bye(parked.connection);
        }
    }

    fn parked(&self) -> MutexGuard<'_, Parking> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes what has been idle too long; when to look again.
    fn sweep(&self) -> Option<Instant> {
        let mut parking = self.parked();
        let now = Instant::now();
        let (old, young): (Vec<_>, Vec<_>) =
            parking.connections.drain(..).partition(|parked| parked.since + self.limits.idle <= now);
        parking.connections = young;
        let next = parking.connections.iter().map(|parked| parked.since + self.limits.idle).min();
        if next.is_none() {
            parking.sweeper = None;
        }
        drop(parking);
        for parked in old {
            bye(parked.connection);
        }
        next
    }
}

impl Turn {
    /// A connection that is idle and still there.
    pub(super) fn idle(&self) -> Option<Connection> {
        let runtime = Handle::try_current().ok().map(|handle| handle.id());
        loop {
            let mut parking = self.pool.parked();
            let Some(at) = parking.connections.iter().rposition(|parked| parked.runtime == runtime) else {
                // Those of other runtimes count, too.
                let spare = self.pool.permits.available_permits().min(parking.connections.len());
                let over = parking.connections.len() - spare;
                let closed: Vec<_> = parking.connections.drain(..over).collect();
                drop(parking);
                drop(closed);
                return None;
            };
            let Parked { mut connection, since, .. } = parking.connections.remove(at);
            drop(parking);
            let now = Instant::now();
            let is_old = since + self.pool.limits.idle <= now
                || connection.since + self.pool.limits.lifetime <= now
                || connection.used >= self.pool.limits.messages;
            // A server that has closed it meanwhile may have said so.
            if is_old {
                bye(connection);
            } else if connection.is_reusable() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection for the next message, if it can be used again.
    pub(super) fn park(self, mut connection: Connection) {
        let pool = &self.pool;
        let is_spent = connection.used >= pool.limits.messages
            || connection.since + pool.limits.lifetime <= Instant::now();
        if !connection.is_reusable() {
            return;
        }
        if is_spent {
            return bye(connection);
        }
        let Ok(handle) = Handle::try_current() else { return };
        let mut parking = pool.parked();
        let parked = Parked { connection, since: Instant::now(), runtime: Some(handle.id()) };
        parking.connections.push(parked);
        if parking.sweeper.as_ref().is_none_or(AbortHandle::is_finished) {
            let weak = Arc::downgrade(pool);
            let sweeper = handle.spawn(async move {
                while let Some(next) = weak.upgrade().and_then(|pool| pool.sweep()) {
                    sleep_until(next).await;
                }
            });
            parking.sweeper = Some(sweeper.abort_handle());
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(sweeper) = self.parked().sweeper.take() {
            sweeper.abort();
        }
        self.clear();
    }
}

/// Nobody waits for the answer: it could not change what became of any message.
fn bye(mut connection: Connection) {
    connection.wire.quit();
}
