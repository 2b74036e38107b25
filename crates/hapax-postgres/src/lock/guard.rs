//! Writes of holders, told apart by their fences where they arrive: in the caller's own transaction.

use super::row::unreadable;
use crate::{call::Call, error::Failure, store::PostgresStore, value::Value};
use hapax_core::{
    IntoKey, Key, Namespace, StoreError, StoreErrorKind, StoreResult,
    lock::{Fence, Guarded},
    registry::ConnectOptions,
};
use sqlx::{Connection as _, PgConnection, Row as _};
use std::time::Duration;

const OP: &str = "admit a write";
/// Where hapax is when nobody says otherwise.
const SCHEMA: &str = "hapax";

/// Whether a holder may write to a resource, as a part of the caller's transaction: once for each fence, and not when a
/// larger one has written. A holder whose lease passed while it was paused changes nothing when it wakes.
///
/// The schema is `hapax`, and the namespace `default`; [`admit_in`](PostgresStore::admit_in) is for others. `conn` is a
/// connection to the database of the store with a transaction open; a `&mut Transaction` of sqlx is one too. Other writers
/// to the resource wait until it ends. Write and commit when it is [`Guarded::Applied`]; otherwise roll back.
///
/// ```no_run
/// # async fn example(pool: &sqlx::PgPool, fence: hapax_core::lock::Fence) -> Result<(), Box<dyn std::error::Error>> {
/// use hapax_core::lock::Guarded;
///
/// let mut tx = pool.begin().await?;
/// match hapax_postgres::admit(&mut tx, "account:7", fence).await? {
///     Guarded::Applied => {
///         sqlx::query("UPDATE account SET closed = true WHERE id = 7").execute(&mut *tx).await?;
///         tx.commit().await?;
///     }
///     Guarded::Repeat => { /* this holder has written before */ }
///     Guarded::Stale => { /* a newer holder has written: stop */ }
/// }
/// # Ok(())
/// # }
/// ```
///
/// Codes: `store.unavailable`, `store.timeout`, `store.auth`, `store.version`, `store.corrupt` (there is no such schema), and
/// `store.config` for a resource that can be no key. After an error roll back. Dropped before its end, the
/// transaction may hold the fence or not: roll back.
pub async fn admit(conn: &mut PgConnection, resource: impl IntoKey, fence: Fence) -> StoreResult<Guarded> {
    let resource = key(resource)?;
    let place = format!("the database of the transaction (schema `{SCHEMA}`)");
    let at = At { schema: SCHEMA, place: &place, prepared: false, limit: ConnectOptions::TIMEOUT };
    at.ask(conn, &Namespace::default(), &resource, fence).await
}

impl PostgresStore {
    /// [`admit`] in the schema of this store, in any namespace.
    pub async fn admit_in(
        &self,
        conn: &mut PgConnection,
        namespace: &Namespace,
        resource: impl IntoKey,
        fence: Fence,
    ) -> StoreResult<Guarded> {
        let resource = key(resource)?;
        let prepared = self.sessions.options.is_prepared();
        let at = At { schema: self.schema(), place: &self.sessions.place, prepared, limit: self.limit() };
        at.ask(conn, namespace, &resource, fence).await
    }
}

fn key(resource: impl IntoKey) -> StoreResult<Key> {
    resource.into_key().map_err(|error| {
        let reason = "the resource can be no key";
        StoreError::new(StoreErrorKind::Config, crate::error::BACKEND, OP, reason).with_source(error)
    })
}

/// Where fences are kept.
struct At<'a> {
    schema: &'a str,
    place: &'a str,
    prepared: bool,
    limit: Duration,
}

impl At<'_> {
    async fn ask(
        &self,
        conn: &mut PgConnection,
        namespace: &Namespace,
        resource: &Key,
        fence: Fence,
    ) -> StoreResult<Guarded> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(Failure::no_runtime().error(OP));
        }
        let values = [
            Value::bytes(namespace.as_str().as_bytes()),
            Value::bytes(resource.as_str().as_bytes()),
            Value::Big(i64::try_from(fence.get()).unwrap_or(i64::MAX)),
        ];
        let is_within = conn.is_in_transaction();
        let call = Call::one(self.schema, "admit", &values);
        let sent = call.send_bound(conn, self.prepared);
        let answer = match tokio::time::timeout(self.limit, sent).await {
            Ok(rows) => rows.and_then(|rows| {
                match rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get::<&str, _>(0)? {
                    "applied" => Ok(Guarded::Applied),
                    "repeat" => Ok(Guarded::Repeat),
                    "stale" => Ok(Guarded::Stale),
                    _ => Err(unreadable("no answer to a fence")),
                }
            }),
            Err(_) => {
                return Err(Self::said(Failure::timeout(self.place, self.limit).maybe_applied(), is_within));
            }
        };
        answer.map_err(|error| Self::said(Failure::of(self.place, error), is_within))
    }

    /// What fails within a transaction goes with it.
    fn said(failure: Failure, is_within: bool) -> StoreError {
        let failure = if is_within { failure.undone() } else { failure };
        failure.error(OP)
    }
}
