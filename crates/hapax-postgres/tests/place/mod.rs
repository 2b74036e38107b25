//! Where the keys of a case are: a schema, which cases that come later get again.

use super::{PostgresStore, given};
use hapax_conformance::BoxError;
use hapax_core::{BackendUrl, Token, registry::ConnectOptions};
use hapax_postgres::PostgresOptions;
use hapax_testkit::{Proxy, postgres::SharedPostgres};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};
use std::time::Duration;

/// Empties what is in the schema `$schema`: making one takes longer than most cases.
const CLEAR: &str = "
DO $$
DECLARE
    part record;
BEGIN
    FOR part IN
        SELECT c.oid::regclass AS name, c.relkind AS kind FROM pg_class c
        WHERE c.relnamespace = to_regnamespace('$schema') AND c.relname NOT IN ('meta', 'still')
            AND (c.relkind = 'S' OR (c.relkind = 'r' AND pg_relation_size(c.oid) > 0))
    LOOP
        IF part.kind = 'S' THEN
            EXECUTE format('ALTER SEQUENCE %s RESTART', part.name);
        ELSE
            EXECUTE format('TRUNCATE %s CASCADE', part.name);
        END IF;
    END LOOP;
    IF to_regclass('$schema.meta') IS NOT NULL THEN
        DELETE FROM $schema.meta WHERE name = 'secret';
    END IF;
END
$$";

/// What is done to a schema, and must not be met by who wants another.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Usual,
    /// Its clock stands still.
    Still,
}

/// A schema for each case.
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) schema: String,
    pub(crate) server: Option<SharedPostgres>,
    /// Nobody else gets the schema while this connection lives.
    _hold: Option<PgConnection>,
}

impl Place {
    /// A schema that nobody has had, and nobody gets later: a request that was cut off may still arrive.
    pub(crate) fn alone() -> Result<Self, BoxError> {
        let server = given().is_none().then(SharedPostgres::join);
        let url = server.as_ref().map(SharedPostgres::url).or_else(given).unwrap_or_default();
        let schema = format!("case_{}", Token::random()?.version());
        Ok(Self { url, schema, server, _hold: None })
    }

    /// A schema that is empty, though others may have had it.
    pub(crate) async fn of(kind: Kind) -> Result<Self, BoxError> {
        let place = Self::alone()?;
        if place.server.is_none() {
            return Ok(place);
        }
        let mut conn = PgConnection::connect(&place.url).await?;
        let (name, lock) = match kind {
            Kind::Usual => ("usual", 1),
            Kind::Still => ("still", 2),
        };
        let sql = format!(
            "SELECT n FROM generate_series(1, 1000) AS n WHERE pg_try_advisory_lock({lock}, n) LIMIT 1"
        );
        let number: i32 = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_one(&mut conn).await?.try_get(0)?;
        let schema = format!("{name}_{number}");
        // What a case left under way.
        let others = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE pid <> pg_backend_pid() AND query LIKE '%\"{schema}\".%'"
        );
        sqlx::raw_sql(AssertSqlSafe(others)).execute(&mut conn).await?;
        sqlx::raw_sql(AssertSqlSafe(CLEAR.replace("$schema", &schema))).execute(&mut conn).await?;
        Ok(Self { schema, _hold: Some(conn), ..place })
    }

    pub(crate) async fn client(&self, url: &str, more: &str) -> Result<PostgresStore, BoxError> {
        // Cases run side by side, and a machine may be busy.
        let url = format!("{url}?timeout=30s&schema={}{more}", self.schema);
        let options = PostgresOptions::from_url(&BackendUrl::parse(&url)?, &ConnectOptions::default())?;
        Ok(PostgresStore::connect(options).await?)
    }

    pub(crate) async fn through_proxy(&self) -> Result<(Proxy, PostgresStore), BoxError> {
        let server = self.server.as_ref().ok_or("the server has to be one of our own")?;
        let proxy = Proxy::before(server.port());
        let url = format!("postgres://postgres@127.0.0.1:{}/postgres", proxy.port());
        let store = self.client(&url, "").await?;
        Ok((proxy, store))
    }

    /// The ends of leases and results come nearer.
    pub(crate) async fn elapse(&self, by: Duration) {
        let (schema, by) = (&self.schema, by.as_millis());
        let sql = format!(
            "UPDATE {schema}.idempotency SET until = until - {by}; \
             UPDATE {schema}.idempotency SET late.until = (late).until - {by} WHERE (late).token IS NOT NULL"
        );
        self.run(&sql).await;
    }

    pub(crate) async fn run(&self, sql: &str) {
        let mut conn = PgConnection::connect(&self.url).await.expect("the server is there");
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut conn).await.expect("the statement is one");
    }

    /// From now on its clock stands still: its functions ask a table for the time.
    pub(crate) async fn stop_clock(&self) -> Result<(), BoxError> {
        drop(self.client(&self.url, "").await?);
        let schema = &self.schema;
        let now = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        self.run(&format!(
            "CREATE TABLE IF NOT EXISTS {schema}.still (ms bigint); DELETE FROM {schema}.still; \
             INSERT INTO {schema}.still VALUES ({now}); \
             CREATE OR REPLACE FUNCTION {schema}.now_ms() RETURNS bigint LANGUAGE sql VOLATILE \
             AS 'SELECT ms FROM {schema}.still'; \
             CREATE OR REPLACE FUNCTION {schema}.now_us() RETURNS bigint LANGUAGE sql VOLATILE \
             AS 'SELECT ms * 1000 FROM {schema}.still'"
        ))
        .await;
        Ok(())
    }
}
