//! The store: opening it, and its steps within a caller's transaction.

use crate::{
    answer::Answer,
    ask::Ask,
    call::Call,
    error::{BACKEND, Failure},
    options::PostgresOptions,
    prune::Position,
    queue::Ear,
    schema,
    sessions::Sessions,
    step::{Release, Step},
    stranger,
};
use hapax_core::{
    Name, StoreError, StoreErrorKind, StoreResult, Token,
    idempotency::{Complete, Completed, Write},
};
use sqlx::{Connection as _, PgConnection, postgres::PgRow};
use std::{
    fmt,
    sync::{Arc, Mutex, OnceLock, atomic::AtomicUsize},
    time::Duration,
};

const OPEN: &str = "open the store";
/// The largest receipt: in a statement it takes twice as much, and a message of PostgreSQL has 1 GiB at most.
const MOST_BYTES: usize = 128 * 1024 * 1024;

/// Keys, queues, locks and rate limits in a PostgreSQL database. See the [crate](crate) for what it promises.
///
/// Its methods are called from within a tokio runtime whose timers and input are enabled; from outside of one they
/// answer an error. A call that is dropped may have been done; its connection is closed.
#[derive(Clone)]
pub struct PostgresStore {
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) secret: Arc<OnceLock<[u8; 32]>>,
    pub(crate) position: Arc<Mutex<Position>>,
    /// So many statements that reserved many keys found all of them free, one after the other: the next is then asked in a
    /// way that spares the server a look.
    pub(crate) free_before: Arc<AtomicUsize>,
    pub(crate) ear: Arc<Ear>,
}

impl PostgresStore {
    /// Connects, and makes the schema where it is missing. Many processes may do so at once.
    ///
    /// Codes: `store.unavailable`, `store.timeout`, `store.auth`, `store.config`, `store.version`, `store.corrupt`.
    pub async fn connect(options: PostgresOptions) -> StoreResult<Self> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(Failure::no_runtime().error(OPEN));
        }
        let ear = Arc::new(Ear::new(options.listener(), &options.schema));
        let (limit, sessions) = (options.timeout, Sessions::new(options));
        let opened = async {
            let mut session = sessions.connect().await?;
            schema::prepare(&sessions, &mut session.conn).await?;
            sessions.keep(session)
        };
        let opened = tokio::select! {
            opened = tokio::time::timeout(limit, opened) => {
                opened.unwrap_or_else(|_| Err(Failure::silent(&sessions.place, limit)))
            }
            // One that waits for more, as others do, would cost all of the time and say nothing.
            kind = stranger::known(&sessions.options, limit / 5) => Err(Failure::foreign(&sessions.place, Some(kind))),
        };
        opened.map_err(|failure| failure.error(OPEN))?;
        Ok(Self {
            sessions: Arc::new(sessions),
            secret: Arc::default(),
            position: Arc::default(),
            free_before: Arc::default(),
            ear,
        })
    }

    /// `complete` as a part of the caller's transaction: the receipt is kept when, and only when, its other rows are.
    ///
    /// `conn` is a connection to the database of the store with a transaction open; a `&mut Transaction` of sqlx is one
    /// too. Whatever the answer is, roll back unless it is [`Completed::Stored`]: the effect belongs to somebody else
    /// then. After an error roll back too; in a transaction that sqlx began, [`applied`](StoreError::applied) is then
    /// always *no*.
    /// The row of the key stays locked until the transaction ends; who reserves it meanwhile is told that the key is
    /// held.
    ///
    /// Codes: `store.unavailable`, `store.timeout`, `store.auth`, `store.version`. Dropped before its end, the
    /// transaction may hold the receipt or not: roll back.
    pub async fn complete_in(&self, conn: &mut PgConnection, req: &Complete) -> StoreResult<Completed> {
        self.within(conn, req).await
    }

    /// `release` as a part of the caller's transaction: the key is free when, and only when, it commits. See
    /// [`complete_in`](Self::complete_in); roll back unless it is [`Write::Applied`].
    pub async fn release_in(
        &self,
        conn: &mut PgConnection,
        name: &Name,
        token: &Token,
    ) -> StoreResult<Write> {
        self.within(conn, &Release(name, *token)).await
    }

    async fn within<S: Step>(&self, conn: &mut PgConnection, step: &S) -> StoreResult<S::Answer> {
        if let Some(error) = refusal(step) {
            return Err(error);
        }
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(Failure::no_runtime().error(S::OP));
        }
        let (limit, place) = (self.limit(), &self.sessions.place);
        let is_within = conn.is_in_transaction();
        // Bound: the caller's connection may log what it sends.
        let values = step.values();
        let call = Call::one(self.schema(), S::FUNCTION, &values);
        let sent = call.send_bound(conn, self.sessions.options.is_prepared());
        let rows = match tokio::time::timeout(limit, sent).await {
            Ok(rows) => rows.map_err(|error| Failure::of(place, error)),
            Err(_) => Err(Failure::timeout(place, limit).maybe_applied()),
        };
        let answer = rows.and_then(|rows| {
            let row = rows.first().ok_or_else(|| Failure::nonsense(place))?;
            self.answer_of(step, row)
        });
        answer.map_err(|failure| {
            let failure = if is_within { failure.undone() } else { failure };
            failure.error(S::OP)
        })
    }

    /// Takes one step, together with those of other callers where there are any.
    pub(crate) async fn one<S: Step>(&self, step: &S) -> StoreResult<S::Answer> {
        if let Some(error) = refusal(step) {
            return Err(error);
        }
        let row = self.gathered(Ask::of(step)).await;
        row.and_then(|row| self.answer_of(step, &row)).map_err(|failure| failure.error(S::OP))
    }

    pub(crate) fn answer_of<S: Step>(&self, step: &S, row: &PgRow) -> Result<S::Answer, Failure> {
        let place = &self.sessions.place;
        let answer = Answer::read(row).map_err(|error| Failure::of(place, error))?;
        step.read(answer).ok_or_else(|| Failure::nonsense(place))
    }

    pub(crate) fn schema(&self) -> &str {
        &self.sessions.options.schema
    }

    pub(crate) fn limit(&self) -> Duration {
        self.sessions.options.timeout
    }
}

/// What is wrong with a step before it is sent.
pub(crate) fn refusal<S: Step>(step: &S) -> Option<StoreError> {
    let bytes = step.receipt().map(|receipt| receipt.bytes.len().saturating_add(receipt.codec.len()))?;
    (bytes > MOST_BYTES).then(|| {
        let reason = format!("the receipt has {bytes} bytes, and {MOST_BYTES} are the most");
        StoreError::new(StoreErrorKind::Unsupported, BACKEND, S::OP, reason)
    })
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("options", &self.sessions.options).finish_non_exhaustive()
    }
}
