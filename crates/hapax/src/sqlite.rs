//! The embedded store: its options, raising its layout, effects that are rows in its own file, and writes that compare
//! the [fences](crate::lock::Fence) of locks, in any SQLite file ([`admit`]).

use crate::{
    Claim, Codec, Hapax, Idempotency, IdempotencyError, IntoFingerprint, IntoKey, Json, StoreError,
    StoreErrorKind, connect::TRANSACTION,
};
use hapax_sqlite::rusqlite::Transaction;
pub use hapax_sqlite::*;
use std::sync::Arc;

/// Effects that are rows in the file in which hapax keeps its keys: rows and receipt commit together, or neither does.
///
/// Its keys are those of the scope `transaction`. Cheap to clone.
///
/// ```
/// use hapax::sqlite::Transactional;
/// # async fn example(hapax: hapax::Hapax) -> anyhow::Result<()> {
/// let orders = Transactional::new(&hapax)?;
/// let cart = "c1";
/// let id: i64 = orders
///     .run(["order", cart], &cart, |tx| -> hapax::sqlite::rusqlite::Result<i64> {
///         tx.execute("INSERT INTO orders (cart) VALUES ('c1')", [])?;
///         Ok(tx.last_insert_rowid())
///     })
///     .await??;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Transactional {
    keys: Idempotency,
    store: Arc<SqliteStore>,
}

impl Transactional {
    /// On the store of `hapax`, which has to be SQLite (`store.unsupported`).
    pub fn new(hapax: &Hapax) -> Result<Self, StoreError> {
        let store = hapax.backend().native().ok_or_else(|| {
            let reason = "the keys are not in SQLite, so its transactions cannot keep a receipt: connect to a `sqlite:` URL";
            StoreError::new(StoreErrorKind::Unsupported, "sqlite", "begin a transaction", reason)
        })?;
        Ok(Self { keys: hapax.idempotency(TRANSACTION), store })
    }

    /// Runs `work` once per key, in a transaction on a thread for blocking work: its rows and its receipt commit
    /// together, or neither does. Nothing else can write to the file meanwhile.
    ///
    /// # Errors
    /// The outer `Err` is hapax's, and the transaction is rolled back; only where the disk failed in the middle of the
    /// commit may it have gone through, and the next call tells. The inner one is `work`'s own: rolled back, key freed.
    ///
    /// # Cancel safety
    /// Dropped before its end, both are committed or neither; the key tells. A panic of `work` rolls back and goes on in
    /// the caller.
    pub async fn run<T, E, F>(
        &self,
        key: impl IntoKey,
        fingerprint: impl IntoFingerprint,
        work: F,
    ) -> Result<Result<T, E>, IdempotencyError>
    where
        F: FnOnce(&Transaction<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
        Json: Codec<T>,
    {
        let claimed = match self.keys.claim(key, fingerprint).await? {
            Claim::Replayed(value) => return Ok(Ok(value)),
            Claim::New(claimed) => claimed,
        };
        match self.store.transaction(work).await.map_err(IdempotencyError::store_failed)? {
            Ok((value, tx)) => {
                claimed.complete_by(&value, async |receipt| tx.complete_in(receipt).await).await?;
                Ok(Ok(value))
            }
            Err(error) => {
                claimed.release().await;
                Ok(Err(error))
            }
        }
    }
}
