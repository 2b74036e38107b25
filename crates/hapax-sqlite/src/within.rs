//! A receipt that commits with the caller's own rows, which lie in the same file.
//!
//! The transaction has a connection of its own and takes SQLite's lock of writers as another process would: the store's
//! writer waits meanwhile, and so does every other process.

use crate::{
    connect::Place,
    error::Failure,
    schema,
    step::{Moment, Step},
    store::SqliteStore,
};
use hapax_core::{
    Clock, StoreResult,
    idempotency::{Complete, Completed},
};
use rusqlite::{Connection, DropBehavior, Transaction, TransactionBehavior};
use std::{fmt, panic::resume_unwind, sync::Arc};
use tokio::runtime::Handle;

const BEGIN: &str = "begin a transaction";

/// A transaction in which the caller's rows are written, and the receipt is not yet. Dropped, it is rolled back.
#[must_use = "dropping it rolls back"]
pub struct OpenTransaction {
    conn: Connection,
    place: Place,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for OpenTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenTransaction").field("path", &self.place.path).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Runs `work` in a transaction of the store's database, on a thread for blocking work, and leaves the transaction
    /// open for [`OpenTransaction::complete_in`]. An error of `work` rolls back.
    ///
    /// No other call and no other process can write until the transaction ends: keep it short. Tables of hapax are not
    /// to be touched. Where another process writes, it is waited for within the store's time-out.
    ///
    /// Codes: `store.timeout` (locked for too long), `store.unavailable`, `store.version`. Dropped before its end, `work`
    /// still runs to its own, and is then rolled back. A panic of `work` rolls back and goes on here.
    pub async fn transaction<T, E, F>(&self, work: F) -> StoreResult<Result<(T, OpenTransaction), E>>
    where
        T: Send + 'static,
        E: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> Result<T, E> + Send + 'static,
    {
        let (place, clock) = (self.readers.place().clone(), Arc::clone(self.readers.clock()));
        blocking(BEGIN, move || {
            let conn = place.patiently(|| place.second_writer())?;
            let mut tx = place.patiently(|| {
                let tx = Transaction::new_unchecked(&conn, TransactionBehavior::Immediate)?;
                schema::may_write(&conn, &place.path)?;
                Ok(tx)
            })?;
            // It outlives this borrow of its connection.
            tx.set_drop_behavior(DropBehavior::Ignore);
            let outcome = work(&tx);
            drop(tx);
            Ok(outcome.map(|value| (value, OpenTransaction { conn, place, clock })))
        })
        .await
    }
}

impl OpenTransaction {
    /// Keeps the receipt and commits, when the answer is [`Completed::Stored`]; rolls back on any other, because the
    /// effect belongs to another call then.
    ///
    /// Codes: as above. Dropped before its end, the transaction may have been committed or not: the key tells.
    pub async fn complete_in(self, req: &Complete) -> StoreResult<Completed> {
        let req = req.clone();
        blocking(Complete::OP, move || {
            let Self { conn, place, clock } = self;
            let failure = |error| place.failure(error);
            let boot_id = clock.boot_id();
            let moment = Moment { conn: &conn, now: clock.read(), boot_id: &boot_id };
            let answer = req.take(&moment).map_err(failure)?;
            if answer == Completed::Stored {
                conn.execute_batch("COMMIT").map_err(|error| Failure::of_commit(&place.path, error))?;
            }
            Ok(answer)
        })
        .await
    }
}

async fn blocking<T: Send + 'static>(
    op: &'static str,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> StoreResult<T> {
    let runtime = Handle::try_current().map_err(|_| Failure::no_runtime().error(op))?;
    match runtime.spawn_blocking(work).await {
        Ok(done) => done.map_err(|failure| failure.error(op)),
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => Err(Failure::gone().error(op)),
        },
    }
}
