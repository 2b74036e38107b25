//! Waking those who wait for jobs, or for a lock.

use super::book::Book;
use crate::{connect::Place, error::is_busy, queue::state, step::Moment, store::SqliteStore};
use hapax_core::{StoreResult, queue::Wait};
use rusqlite::Connection;
use std::time::Duration;
use tokio::{
    sync::{Mutex, watch},
    time::Instant,
};

const OP: &str = "wait for jobs";
/// So often somebody who waits looks whether another process has written: nothing else tells.
const POLL: Duration = Duration::from_millis(50);
/// A time on the wall clock is looked at again after so long: somebody may set it.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Rings when this process has committed something that somebody who waits may want.
#[derive(Clone, Debug)]
pub(crate) struct Bell(watch::Sender<()>);

impl Bell {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(()))
    }

    pub(crate) fn ring(&self) {
        self.0.send_replace(());
    }
}

/// Sees what other processes commit, while anybody waits.
#[derive(Debug)]
pub(crate) struct Lookout {
    bell: Bell,
    place: Place,
    /// A connection, and what it saw last. Of those who wait, the one that has it looks for all.
    seen: Mutex<Option<(Connection, i64)>>,
}

impl Lookout {
    pub(crate) fn new(bell: Bell, place: Place) -> Self {
        Self { bell, place, seen: Mutex::new(None) }
    }

    /// Rings when the database changes. Ends only by being dropped.
    async fn look_out(&self) {
        let mut seen = self.seen.lock().await;
        loop {
            match self.look(&mut seen) {
                Ok(true) => self.bell.ring(),
                Ok(false) => {}
                Err(error) if is_busy(&error) => {}
                // Whatever it is, those who wait meet it when they look for themselves.
                Err(error) => {
                    tracing::debug!(%error, path = %self.place.path.display(), "the database could not be looked at");
                    *seen = None;
                    self.bell.ring();
                }
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn look(&self, seen: &mut Option<(Connection, i64)>) -> rusqlite::Result<bool> {
        let version = |conn: &Connection| {
            conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get::<_, i64>(0))
        };
        if let Some((conn, before)) = seen {
            let now = version(conn)?;
            return Ok(std::mem::replace(before, now) != now);
        }
        let conn = self.place.reader()?;
        let now = version(&conn)?;
        *seen = Some((conn, now));
        Ok(true)
    }
}

impl SqliteStore {
    /// Waits until a step of the group may find something.
    pub(super) async fn await_jobs(&self, req: &Wait) -> StoreResult<()> {
        let (limit, req) = (req.limit, req.clone());
        self.await_change(OP, limit, move |at| next(at, &req)).await
    }

    /// Waits until `next` says that there is no more to wait for, or the limit is over. It says how long it may be, or
    /// that it takes somebody who writes.
    pub(crate) async fn await_change(
        &self,
        op: &'static str,
        limit: Duration,
        next: impl Fn(&Moment<'_>) -> rusqlite::Result<Option<Duration>> + Clone + Send + 'static,
    ) -> StoreResult<()> {
        let start = Instant::now();
        let mut rung = self.bell.0.subscribe();
        loop {
            let waited = start.elapsed();
            let Some(left) = limit.checked_sub(waited).filter(|left| !left.is_zero()) else {
                return Ok(());
            };
            let next = match self.readers.here(op, &next)? {
                Some(next) => next,
                None => self.readers.elsewhere(op, next.clone()).await?,
            };
            if next.is_some_and(|next| next.is_zero()) {
                return Ok(());
            }
            let again = if self.readers.clock().is_manual() { POLL } else { LOOK_AGAIN };
            tokio::select! {
                _ = rung.changed() => {}
                () = tokio::time::sleep(next.unwrap_or(left).min(left).min(again)) => {}
                () = self.lookout.look_out() => {}
            }
        }
    }
}

/// In how long a step of the group may find something; `None`: not unless somebody writes.
fn next(at: &Moment<'_>, req: &Wait) -> rusqlite::Result<Option<Duration>> {
    let Some(book) = Book::load(at, &req.queue)? else { return Ok(None) };
    let Some(sub) = book.find(&req.group).and_then(|group| book.subs.get(group)) else { return Ok(None) };
    if sub.paused {
        return Ok(None);
    }
    let lost = if sub.running > 0 {
        state::holders(at, sub.id)?.into_iter().map(|holder| holder.left).min()
    } else {
        None
    };
    let limits = book.queue.limits;
    let is_full = limits.concurrency.is_some_and(|most| sub.running >= i64::from(most));
    if sub.waiting == 0 || is_full {
        return Ok(lost);
    }
    let now = at.now.wall;
    let start = match state::oldest(at, sub.id)? {
        None => state::next_due(at.conn, sub.id, now)?.map(|due| due.since(now)),
        Some(_) => Some(limits.rate.map_or(Duration::ZERO, |rate| {
            let mut bucket = sub.bucket;
            if bucket.admits(rate, now, 1) > 0 { Duration::ZERO } else { bucket.next(rate) }
        })),
    };
    Ok([start, lost].into_iter().flatten().min())
}
