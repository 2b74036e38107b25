//! Stores in a folder of their own, and requests.

use hapax_core::{
    Clock, Fingerprint, Key, ManualClock, Name, Namespace, Now, Scope, Span, SystemClock, Token,
    idempotency::{Complete, IdempotencyStore, Kind, Receipt, Record, RecordState, Reserve, Reserved},
};
use hapax_sqlite::{SqliteOptions, SqliteStore};
use std::{
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};
use tempfile::TempDir;

pub(crate) const LEASE: Duration = Duration::from_mins(1);
pub(crate) const TTL: Duration = Duration::from_hours(24);

/// A time-out that a test waits for. Nothing else is asked of a store that has it: a slow disk is no failure.
pub(crate) const SHORT: Duration = Duration::from_millis(150);

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

pub(crate) fn file(folder: &TempDir) -> PathBuf {
    folder.path().join("store.db")
}

pub(crate) async fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(SqliteOptions::new(path), Arc::new(SystemClock)).await.unwrap()
}

pub(crate) async fn open_with(options: SqliteOptions) -> SqliteStore {
    SqliteStore::open(options, Arc::new(SystemClock)).await.unwrap()
}

pub(crate) async fn open_on(path: &Path, clock: &ManualClock) -> SqliteStore {
    let clock: Arc<dyn Clock> = Arc::new(clock.clone());
    SqliteStore::open(SqliteOptions::new(path), clock).await.unwrap()
}

/// A connection that knows nothing of hapax.
pub(crate) fn raw(path: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(path).unwrap()
}

/// A connection that holds the lock of writers until it is dropped.
pub(crate) fn locked(path: &Path) -> rusqlite::Connection {
    let conn = raw(path);
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    conn
}

pub(crate) fn name(key: &str) -> Name {
    Name::new(&Namespace::default(), &Scope::new("test").unwrap(), &Key::new(key).unwrap())
}

pub(crate) fn span(duration: Duration) -> Span {
    Span::new(duration).unwrap()
}

pub(crate) fn reserve(key: &str) -> Reserve {
    Reserve {
        name: name(key),
        token: Token::random().unwrap(),
        fingerprint: Fingerprint::of_bytes(key.as_bytes()),
        lease: span(LEASE),
    }
}

pub(crate) fn complete(req: &Reserve) -> Complete {
    with_receipt(req, b"paid".to_vec())
}

pub(crate) fn with_receipt(req: &Reserve, bytes: Vec<u8>) -> Complete {
    Complete {
        name: req.name.clone(),
        token: req.token,
        fingerprint: req.fingerprint,
        kind: Kind::Done,
        receipt: Receipt::new("test", bytes),
        ttl: span(TTL),
    }
}

pub(crate) fn is_yours(answer: &Reserved) -> bool {
    matches!(answer, Reserved::Yours { .. })
}

pub(crate) fn is_done(record: Option<&Record>) -> bool {
    record.is_some_and(|record| matches!(record.state, RecordState::Settled { kind: Kind::Done, .. }))
}

/// Reserves and completes.
pub(crate) async fn settle(store: &SqliteStore, key: &str) {
    let req = reserve(key);
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    let _ = store.complete(&complete(&req)).await.unwrap();
}

/// Waits for a condition; fails after 20 s.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waited = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(20), waited).await.is_ok(), "never so: {what}");
}

pub(crate) fn file_in_env(name: &str) -> PathBuf {
    PathBuf::from(std::env::var_os(name).unwrap())
}

/// `HAPAX_TEST_LONG=1` asks for the full counts.
pub(crate) fn rounds(short: usize, long: usize) -> usize {
    if std::env::var_os("HAPAX_TEST_LONG").is_some_and(|value| value == "1") { long } else { short }
}

/// Polls a call once, waits until its step is committed, and drops it with the answer unread.
pub(crate) async fn abandon(store: &SqliteStore, path: &Path, call: impl Future) {
    let before = store.commits();
    {
        let mut call = pin!(call);
        // Else the answer might be there at once.
        let other = locked(path);
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(other);
        until("the step is committed", async || store.commits() > before).await;
    }
}

/// The machine after a restart: its clock of leases may show less or more than before.
#[derive(Debug)]
pub(crate) struct Restarted(ManualClock);

impl Restarted {
    pub(crate) async fn open(path: &Path, clock: &ManualClock) -> SqliteStore {
        SqliteStore::open(SqliteOptions::new(path), Arc::new(Self(clock.clone()))).await.unwrap()
    }
}

impl Clock for Restarted {
    fn read(&self) -> Now {
        self.0.read()
    }
    fn boot_id(&self) -> Arc<str> {
        Arc::from("another life")
    }
}
