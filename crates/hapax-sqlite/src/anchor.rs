//! Spares reads that come fast the way into the system.
//!
//! A read takes a shared lock on the log and gives it back: two calls of the system, half the time of a short read. Within
//! a process SQLite asks the system for the first holder only. So while reads come fast, one more connection holds a read
//! transaction open, and theirs find the lock taken. Each is still a transaction of its own that begins with the call, and
//! sees all that was committed before.
//!
//! What is held keeps every process from starting the log over. Therefore it is taken anew each millisecond, which lets
//! it follow the log, is let go before this process writes the log back, and soon after the last of these reads.

use crate::connect::Place;
use hapax_core::BootTime;
use rusqlite::Connection;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};
use tokio::runtime::Handle;

/// So many reads within a millisecond are fast: fewer would not notice what they are spared.
const FAST: u32 = 32;
/// After this time without fast reads, and at most twice as long, the lock is let go.
const HOLD: Duration = Duration::from_millis(10);

/// Tells when reads come fast.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    at: BootTime,
    reads: u32,
}

impl Pace {
    /// Counts a read. Says once in a millisecond that they come fast.
    pub(crate) fn is_fast(&mut self, now: BootTime) -> bool {
        if self.at != now {
            *self = Self { at: now, reads: 0 };
        }
        self.reads = self.reads.saturating_add(1);
        self.reads == FAST
    }
}

/// The lock, held or not.
#[derive(Debug, Default)]
pub(crate) struct Anchor(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// In a transaction where the lock is held.
    conn: Option<Connection>,
    /// Whether a task is there that lets go, and whether the lock was taken since it looked last.
    is_watched: bool,
    is_fresh: bool,
}

impl Anchor {
    /// Takes the lock, or takes it anew. Without it reads are slower, so whatever is in the way is nobody's failure.
    pub(crate) fn take(self: &Arc<Self>, place: &Place) {
        // Outside of a runtime there is nobody to let go.
        let Ok(runtime) = Handle::try_current() else { return };
        let is_watched = {
            // Who finds it locked is too late.
            let Ok(mut state) = self.0.try_lock() else { return };
            let conn = state.conn.take().map_or_else(|| place.reader(), Ok);
            state.conn = conn.and_then(|conn| hold(&conn).map(|()| conn)).ok();
            state.is_fresh = true;
            std::mem::replace(&mut state.is_watched, true)
        };
        if !is_watched {
            // Not under the lock: a runtime that shuts down drops the task, and the task lets go.
            drop(runtime.spawn(Watch(Arc::downgrade(self)).run()));
        }
    }

    pub(crate) fn let_go(&self) {
        release(&mut self.state());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn is_held(&self) -> bool {
        self.state().conn.as_ref().is_some_and(|conn| !conn.is_autocommit())
    }
}

/// The log as it is now.
fn hold(conn: &Connection) -> rusqlite::Result<()> {
    if !conn.is_autocommit() {
        execute(conn, "COMMIT")?;
    }
    execute(conn, "BEGIN")?;
    conn.prepare_cached("SELECT 1 FROM hapax_meta LIMIT 1")?.query_row([], |_| Ok(()))
}

fn release(state: &mut State) {
    if let Some(conn) = &state.conn
        && !conn.is_autocommit()
        && execute(conn, "COMMIT").is_err()
    {
        // Closed, it holds nothing.
        state.conn = None;
    }
}

fn execute(conn: &Connection, sql: &str) -> rusqlite::Result<()> {
    conn.prepare_cached(sql)?.execute([]).map(drop)
}

/// Lets go when the fast reads have ended, or the runtime.
struct Watch(Weak<Anchor>);

impl Watch {
    async fn run(self) {
        loop {
            tokio::time::sleep(HOLD).await;
            let Some(anchor) = self.0.upgrade() else { return };
            if !std::mem::take(&mut anchor.state().is_fresh) {
                return;
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(anchor) = self.0.upgrade() {
            let mut state = anchor.state();
            state.is_watched = false;
            release(&mut state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SqliteOptions, SqliteStore};
    use hapax_core::{
        Fingerprint, Key, ManualClock, Name, Namespace, Scope, Span, Token,
        idempotency::{IdempotencyStore, Reserve, Reserved},
    };
    use std::path::Path;
    use tokio::time::Instant;

    fn name(key: &str) -> Name {
        Name::new(&Namespace::default(), &Scope::new("test").unwrap(), &Key::new(key).unwrap())
    }

    async fn open(path: &Path) -> SqliteStore {
        // Its time stands still, so all reads are of one millisecond.
        SqliteStore::open(SqliteOptions::new(path), Arc::new(ManualClock::new())).await.unwrap()
    }

    async fn reserve(store: &SqliteStore, key: &str) {
        let (token, fingerprint) = (Token::random().unwrap(), Fingerprint::ANY);
        let lease = Span::new(Duration::from_mins(1)).unwrap();
        let req = Reserve { name: name(key), token, fingerprint, lease };
        assert!(matches!(store.reserve(&req).await.unwrap(), Reserved::Yours { .. }));
    }

    fn read_fast(store: &SqliteStore) {
        // Some looks are made elsewhere.
        for _ in 0..2 * FAST {
            assert!(store.peek(&name("none")).is_none());
        }
        assert!(store.readers.anchor().is_held());
    }

    #[tokio::test]
    async fn a_read_sees_what_was_committed_while_the_lock_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let (store, other) = (open(&path).await, open(&path).await);
        assert!(!store.readers.anchor().is_held());
        read_fast(&store);
        for key in ["a", "b", "c"] {
            reserve(&other, key).await;
            assert!(store.peek(&name(key)).is_some_and(|record| record.is_pending()));
        }
    }

    #[tokio::test]
    async fn the_lock_is_let_go_when_fast_reads_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let store = open(&path).await;
        read_fast(&store);
        reserve(&store, "a").await;
        let deadline = Instant::now() + Duration::from_secs(10);
        while store.readers.anchor().is_held() {
            assert!(Instant::now() < deadline, "it is still held");
            tokio::task::yield_now().await;
        }
        // The log can be started over.
        let other = Connection::open(&path).unwrap();
        let busy: i64 = other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
        assert_eq!(busy, 0);
    }

    #[test]
    fn the_lock_is_not_held_without_a_runtime() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (store, other) = runtime.block_on(async { (open(&path).await, open(&path).await) });
        runtime.block_on(async { read_fast(&store) });
        drop(runtime);
        assert!(!store.readers.anchor().is_held(), "it goes with the runtime");
        for _ in 0..2 * FAST {
            assert!(other.peek(&name("none")).is_none());
        }
        assert!(!other.readers.anchor().is_held(), "nobody would let go");
    }

    #[test]
    fn reads_are_fast_once_in_a_millisecond() {
        let mut pace = Pace::default();
        let mut fast =
            |at, reads: u32| (0..reads).filter(|_| pace.is_fast(BootTime::from_millis(at))).count();
        assert_eq!((fast(1, FAST - 1), fast(2, FAST - 1), fast(2, 1), fast(2, 10 * FAST)), (0, 0, 1, 0));
        assert_eq!(fast(3, FAST), 1);
    }
}
