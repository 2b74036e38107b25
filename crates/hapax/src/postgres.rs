//! The PostgreSQL store, its options, and effects that are rows in its own database.

use crate::{
    Added, Claimed, Codec, Hapax, Idempotency, IdempotencyError, IntoFingerprint, IntoKey, Json, Queue,
    QueueDef, QueueError, StoreError, StoreErrorKind, connect::TRANSACTION,
};
use hapax_engine::queue::Add;
pub use hapax_postgres::*;
use serde::{Serialize, de::DeserializeOwned};
use sqlx::{PgPool, Postgres, Transaction};
use std::sync::Arc;

const BEGIN: &str = "begin a transaction";

/// A transaction of the caller's.
pub type Tx<'c> = Transaction<'c, Postgres>;

/// Effects that are rows in the database in which hapax keeps its keys: rows and receipt commit together, or neither
/// does. Its keys are those of the scope `transaction`. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Transactional {
    keys: Idempotency,
    queue: Queue,
    store: Arc<PostgresStore>,
    pool: PgPool,
}

impl Transactional {
    /// On the store of `hapax` and a pool of the application's.
    ///
    /// Codes: `store.unsupported` where the keys are not in PostgreSQL, `store.config` where the pool leads to another
    /// database, and those of a connection that cannot be had.
    pub async fn new(hapax: &Hapax, pool: &PgPool) -> Result<Self, StoreError> {
        let fault = |kind, reason| StoreError::new(kind, "postgres", BEGIN, reason);
        let store: Arc<PostgresStore> = hapax.backend().native().ok_or_else(|| {
            let reason = "the keys are not in PostgreSQL, so its transactions cannot keep a receipt: connect to a `postgres:` URL";
            fault(StoreErrorKind::Unsupported, reason)
        })?;
        let mut conn = pool.acquire().await.map_err(unavailable)?;
        if !store.is_home(&mut conn).await? {
            let reason = "the pool leads to another database than the one in which hapax keeps its keys: a receipt \
                          commits only with rows of the same database";
            return Err(fault(StoreErrorKind::Config, reason));
        }
        let (keys, queue) = (hapax.idempotency(TRANSACTION), hapax.queue());
        Ok(Self { keys, queue, store, pool: pool.clone() })
    }

    /// Runs `work` once per key, in a transaction: its rows and its receipt commit together, or neither does.
    ///
    /// # Errors
    /// The outer `Err` is hapax's. Where the connection broke in the middle of the commit, both may be there: the next
    /// call under the key tells. The inner one is `work`'s own: rolled back, key freed.
    ///
    /// # Cancel safety
    /// Dropped before the commit: rolled back, key freed. In the middle of it: both are there, or neither.
    pub async fn run<T, E, F>(
        &self,
        key: impl IntoKey,
        fingerprint: impl IntoFingerprint,
        work: F,
    ) -> Result<Result<T, E>, IdempotencyError>
    where
        F: AsyncFnOnce(&mut Tx<'_>) -> Result<T, E>,
        Json: Codec<T>,
    {
        let reservation = match self.claim(key, fingerprint).await? {
            Claim::Replayed(value) => return Ok(Ok(value)),
            Claim::New(reservation) => reservation,
        };
        let failed = |error| IdempotencyError::store_failed(unavailable(error));
        let mut tx = self.pool.begin().await.map_err(failed)?;
        match work(&mut tx).await {
            Ok(value) => {
                reservation.complete_in(&mut tx, &value).await?;
                tx.commit()
                    .await
                    .map_err(|error| IdempotencyError::store_failed(unavailable(error).maybe_applied()))?;
                Ok(Ok(value))
            }
            Err(error) => {
                // What it wrote goes before somebody else may begin.
                drop(tx.rollback().await);
                reservation.release().await;
                Ok(Err(error))
            }
        }
    }

    /// Holds a key and renews it, for a transaction of your own; or answers what an earlier call answered.
    ///
    /// # Errors
    /// Those of [`Idempotency::claim`].
    ///
    /// # Cancel safety
    /// A key that was granted meanwhile is freed.
    pub async fn claim<T>(
        &self,
        key: impl IntoKey,
        fingerprint: impl IntoFingerprint,
    ) -> Result<Claim<T>, IdempotencyError>
    where
        Json: Codec<T>,
    {
        Ok(match self.keys.claim(key, fingerprint).await? {
            crate::Claim::New(claimed) => Claim::New(Reservation { claimed, store: Arc::clone(&self.store) }),
            crate::Claim::Replayed(value) => Claim::Replayed(value),
        })
    }

    /// The job is in the queue when, and only when, `tx` commits: no worker sees it before. Other jobs under its job id, and in
    /// a queue of a largest length all others, wait for `tx`: commit soon.
    ///
    /// # Errors
    /// Those of [`Queue::add`]. Roll back; `?` does.
    ///
    /// # Cancel safety
    /// Dropped before its end, `tx` may hold the job or not: roll back.
    pub async fn add_in<T: Serialize + DeserializeOwned>(
        &self,
        tx: &mut Tx<'_>,
        def: &'static QueueDef<T>,
        payload: &T,
    ) -> Result<Added, QueueError> {
        self.add_job_in(tx, self.queue.add(def, payload)).await
    }

    /// The same with the options of the job: its id, its delay, … `add` is one of [`Hapax::queue`].
    pub async fn add_job_in(&self, tx: &mut Tx<'_>, add: Add) -> Result<Added, QueueError> {
        add.by(async |queue, jobs| self.store.add_in(tx, queue, jobs).await).await
    }
}

/// Answer to [`Transactional::claim`].
#[must_use = "a key that is held is freed when it is dropped"]
#[derive(Debug)]
pub enum Claim<T> {
    /// The key is ours.
    New(Reservation<T>),
    /// An earlier call answered this.
    Replayed(T),
}

/// A key that is ours. Nothing has happened under it yet: dropped, it is freed.
#[must_use = "dropping it frees its key"]
#[derive(Debug)]
pub struct Reservation<T> {
    claimed: Claimed<T>,
    store: Arc<PostgresStore>,
}

impl<T> Reservation<T>
where
    Json: Codec<T>,
{
    /// The receipt commits with `tx`. Renewal ends here: commit soon. If `tx` rolls back, the key is free when its lease
    /// has passed.
    ///
    /// # Errors
    /// `idempotency.store_failed`: also where the key is another call's by now. Roll back; `?` does.
    ///
    /// # Cancel safety
    /// Dropped before its end, `tx` may hold the receipt or not: roll back.
    pub async fn complete_in(self, tx: &mut Tx<'_>, value: &T) -> Result<(), IdempotencyError> {
        let Self { claimed, store } = self;
        claimed.complete_by(value, async |receipt| store.complete_in(tx, receipt).await).await
    }

    /// The key is free when, and only when, `tx` commits: for a refusal that is written down. Otherwise as
    /// [`complete_in`](Self::complete_in).
    pub async fn release_in(self, tx: &mut Tx<'_>) -> Result<(), IdempotencyError> {
        let Self { claimed, store } = self;
        claimed.release_by(async |name, token| store.release_in(tx, name, token).await).await
    }

    /// Frees the key now. What the store refuses is retried in the background until the lease has passed.
    pub async fn release(self) {
        self.claimed.release().await;
    }
}

fn unavailable(error: sqlx::Error) -> StoreError {
    let reason = "the transaction could not be begun or committed";
    StoreError::new(StoreErrorKind::Unavailable, "postgres", BEGIN, reason).with_source(error)
}
