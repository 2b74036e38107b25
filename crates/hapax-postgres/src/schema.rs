//! What the database must hold, and making it so.

use crate::{
    error::{self, Failure},
    sessions::Sessions,
};
use hapax_core::{StoreErrorKind, error::needs_newer};
use sqlx::{AssertSqlSafe, Connection as _, Error, PgConnection, Row as _};
use std::collections::HashMap;

/// In the order in which they need each other.
const V1: &[&str] = &[
    include_str!("schema/v1/tables.sql"),
    include_str!("schema/v1/rules.sql"),
    include_str!("schema/v1/reserve.sql"),
    include_str!("schema/v1/complete.sql"),
    include_str!("schema/v1/release.sql"),
    include_str!("schema/v1/many.sql"),
    include_str!("schema/v1/extend.sql"),
    include_str!("schema/v1/unknown.sql"),
    include_str!("schema/v1/look.sql"),
    include_str!("schema/v1/prune.sql"),
    include_str!("schema/v1/secret.sql"),
    include_str!("schema/queue/tables.sql"),
    include_str!("schema/queue/rules.sql"),
    include_str!("schema/queue/add.sql"),
    include_str!("schema/queue/step.sql"),
    include_str!("schema/queue/beat.sql"),
    include_str!("schema/queue/groups.sql"),
    include_str!("schema/queue/manage.sql"),
    include_str!("schema/queue/look.sql"),
    include_str!("schema/queue/schedules.sql"),
    include_str!("schema/lock/tables.sql"),
    include_str!("schema/lock/rules.sql"),
    include_str!("schema/lock/step.sql"),
    include_str!("schema/lock/look.sql"),
    include_str!("schema/lock/admit.sql"),
    include_str!("schema/limit/tables.sql"),
    include_str!("schema/limit/count.sql"),
    include_str!("schema/limit/decide.sql"),
];
/// The oldest server whose functions can pin their plans (`plan_cache_mode`).
pub(crate) const OLDEST: i64 = 120_000;
/// So that `hapax doctor` sees when one was changed, or is gone.
const KEEP_DIGESTS: &str = "\
    INSERT INTO meta (name, value)
    SELECT 'function:' || p.proname, md5(p.prosrc || coalesce(p.proconfig::text, ''))
    FROM pg_catalog.pg_proc p WHERE p.pronamespace = pg_catalog.current_schema()::regnamespace";
/// The newest layout that this version reads.
const READER: i64 = 1;
/// The newest layout that this version writes.
const WRITER: i64 = 1;
/// Stands among what a store says of itself, where its user has half of the rights.
const HALF: &str = "half of the rights";
/// `hapax`: who makes a schema holds this lock.
const LOCK: i64 = 0x68_6170_6178;

/// How much is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    /// And nothing can be made here.
    Standby,
    /// Nor here.
    TooOld,
    Nothing,
    Schema,
    Store,
}

/// Makes the schema where it is missing, and checks any other.
pub(crate) async fn prepare(sessions: &Sessions, conn: &mut PgConnection) -> Result<(), Failure> {
    let schema = sessions.options.schema.as_str();
    let failed = |error| Failure::of(&sessions.place, error).undone();
    match found(conn, schema).await.map_err(failed)? {
        Found::Standby => return Err(error::standby(&sessions.place)),
        Found::TooOld => {
            let reason =
                format!("{} is older than PostgreSQL {}: use a later one", sessions.place, OLDEST / 10_000);
            return Err(Failure::new(StoreErrorKind::Version, reason));
        }
        Found::Store => {}
        Found::Nothing | Found::Schema => make(conn, schema).await.map_err(failed)?,
    }
    let meta = meta(conn, schema).await.map_err(failed)?;
    if meta.contains_key(HALF) {
        let reason = format!(
            "the user may insert into `{schema}.idempotency` on {}, and not update or delete: GRANT ALL ON ALL TABLES IN \
             SCHEMA {schema} TO the user",
            sessions.place
        );
        return Err(Failure::new(StoreErrorKind::Auth, reason));
    }
    check(&meta, &format!("the schema `{schema}` on {}", sessions.place))
}

async fn found(conn: &mut PgConnection, schema: &str) -> Result<Found, Error> {
    // By the catalogue, which everybody may read.
    let sql = format!(
        "SELECT (SELECT count(*) FROM pg_catalog.pg_namespace n WHERE n.nspname = '{schema}'), \
         (SELECT count(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = '{schema}' AND c.relname = 'meta'), pg_catalog.pg_is_in_recovery(), \
         pg_catalog.current_setting('server_version_num')::bigint"
    );
    let row = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(conn).await?;
    let row = row.first().ok_or(Error::RowNotFound)?;
    if row.try_get::<i64, _>(3)? < OLDEST {
        return Ok(Found::TooOld);
    }
    Ok(match (row.try_get::<bool, _>(2)?, row.try_get::<i64, _>(0)?, row.try_get::<i64, _>(1)?) {
        (true, ..) => Found::Standby,
        (_, 0, _) => Found::Nothing,
        (_, _, 0) => Found::Schema,
        _ => Found::Store,
    })
}

async fn make(conn: &mut PgConnection, schema: &str) -> Result<(), Error> {
    // Read committed, so that who waited for the lock sees what was made meanwhile.
    let mut tx = conn.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE").await?;
    run(&mut tx, format!("SELECT pg_advisory_xact_lock({LOCK})")).await?;
    let there = found(&mut tx, schema).await?;
    if there == Found::Store {
        return tx.commit().await;
    }
    if there == Found::Nothing {
        run(&mut tx, format!("CREATE SCHEMA \"{schema}\"")).await?;
    }
    // The functions keep this path: no schema of a caller can come between.
    run(&mut tx, format!("SET LOCAL search_path = \"{schema}\", pg_temp")).await?;
    for part in V1 {
        run(&mut tx, (*part).to_owned()).await?;
    }
    run(&mut tx, KEEP_DIGESTS.to_owned()).await?;
    tx.commit().await
}

async fn run(conn: &mut PgConnection, sql: String) -> Result<(), Error> {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await.map(drop)
}

async fn meta(conn: &mut PgConnection, schema: &str) -> Result<HashMap<String, String>, Error> {
    // Who may reserve and not complete would run effects whose receipts nobody keeps. Who may only read may look.
    let may = |right: &str| {
        format!(
            "coalesce(pg_catalog.has_table_privilege(pg_catalog.to_regclass('\"{schema}\".idempotency'), '{right}'), true)"
        )
    };
    let sql = format!(
        "SELECT name, value FROM \"{schema}\".meta WHERE name <> 'secret' UNION ALL \
         SELECT '{HALF}', '' WHERE {} AND NOT ({} AND {})",
        may("INSERT"),
        may("UPDATE"),
        may("DELETE")
    );
    let rows = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(conn).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// Whether this version may read and write the store.
fn check(meta: &HashMap<String, String>, place: &str) -> Result<(), Failure> {
    let number = |name: &str| {
        meta.get(name).and_then(|value| value.parse::<i64>().ok()).ok_or_else(|| {
            let reason = format!("{place} does not say its `{name}`: restore it from a backup");
            Failure::new(StoreErrorKind::Corrupt, reason)
        })
    };
    let (layout, reader, writer) = (number("layout")?, number("min_reader")?, number("min_writer")?);
    if reader <= READER && writer <= WRITER {
        return Ok(());
    }
    Err(Failure::new(StoreErrorKind::Version, needs_newer(place, layout, reader.max(writer), WRITER)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_says_what_it_needs() {
        let meta = |reader: &str, writer: &str| {
            let values = [("layout", "3"), ("min_reader", reader), ("min_writer", writer)];
            check(&values.map(|(name, value)| (name.to_owned(), value.to_owned())).into(), "x")
        };
        let kind = |found: Result<(), Failure>| found.err().map(|failure| failure.kind);
        assert_eq!(kind(meta("1", "1")), None);
        assert_eq!(kind(meta("2", "1")), Some(StoreErrorKind::Version));
        assert_eq!(kind(meta("1", "2")), Some(StoreErrorKind::Version));
        assert_eq!(kind(meta("1", "x")), Some(StoreErrorKind::Corrupt));
    }
}
