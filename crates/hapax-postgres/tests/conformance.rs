//! The PostgreSQL store under the suite of all stores: with and without named statements.
#![expect(clippy::expect_used, reason = "tests")]

use hapax_conformance::{BoxError, StoreUnderTest, Suite, async_trait};
use hapax_core::{BackendUrl, Token, registry::ConnectOptions};
use hapax_postgres::{PostgresOptions, PostgresStore};
use hapax_testkit::postgres::{SharedPostgres, missing};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use std::{process::ExitCode, time::Duration};

/// A server to use in place of one of our own.
fn given() -> Option<String> {
    std::env::var("HAPAX_TEST_POSTGRES_URL").ok()
}

/// A schema for each case.
struct Place {
    url: String,
    schema: String,
    _server: Option<SharedPostgres>,
}

impl Place {
    fn new() -> Result<Self, BoxError> {
        let server = given().is_none().then(SharedPostgres::join);
        let url = server.as_ref().map(SharedPostgres::url).or_else(given).unwrap_or_default();
        Ok(Self { url, schema: format!("case_{}", Token::random()?.version()), _server: server })
    }

    async fn client(&self, more: &str) -> Result<PostgresStore, BoxError> {
        // Cases run side by side, and a machine may be busy.
        let url = format!("{}?timeout=30s&schema={}{more}", self.url, self.schema);
        let options = PostgresOptions::from_url(&BackendUrl::parse(&url)?, &ConnectOptions::default())?;
        Ok(PostgresStore::connect(options).await?)
    }

    /// The ends of leases and results come nearer.
    async fn elapse(&self, by: Duration) {
        let (schema, by) = (&self.schema, by.as_millis());
        let sql = format!(
            "UPDATE {schema}.idempotency SET until = until - {by}; \
             UPDATE {schema}.idempotency SET late.until = (late).until - {by} WHERE (late).token IS NOT NULL"
        );
        let mut conn = PgConnection::connect(&self.url).await.expect("the server is there");
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.expect("time passes");
    }
}

macro_rules! store {
    ($name:ident, $more:literal) => {
        struct $name(Place);

        #[async_trait]
        impl StoreUnderTest for $name {
            type Store = PostgresStore;

            async fn fresh() -> Result<Self, BoxError> {
                Place::new().map(Self)
            }

            async fn client(&self) -> Result<PostgresStore, BoxError> {
                self.0.client($more).await
            }

            async fn elapse(&self, by: Duration) {
                self.0.elapse(by).await;
            }

            fn exact_time() -> bool {
                false
            }

            async fn reopen(&self) -> Result<bool, BoxError> {
                // Everything is on the server; the next client makes its own connections.
                Ok(true)
            }

            fn skips(_: &str) -> Option<&'static str> {
                (given().is_none() && missing().is_some()).then_some("PostgreSQL is not installed")
            }
        }
    };
}

store!(Plain, "");
store!(Prepared, "&prepared=on");

fn main() -> ExitCode {
    Suite::new().with::<Plain>("postgres").with::<Prepared>("postgres_prepared").run()
}
