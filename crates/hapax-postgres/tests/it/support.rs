//! Stores in a schema of their own, and requests.

use hapax_core::{
    BackendUrl, Fingerprint, Key, Name, Namespace, Scope, Span, StoreError, StoreResult, Token,
    idempotency::{Complete, Kind, Receipt, Record, RecordState, Reserve, Reserved},
    registry::ConnectOptions,
};
use hapax_postgres::{PostgresOptions, PostgresStore};
use hapax_testkit::postgres::SharedPostgres;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};
use std::time::Duration;

pub(crate) const LEASE: Duration = Duration::from_mins(1);
pub(crate) const TTL: Duration = Duration::from_hours(24);

/// A schema on the server of all tests.
pub(crate) struct Place {
    server: SharedPostgres,
    pub(crate) schema: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { server: SharedPostgres::join(), schema: unique("it") }
    }

    /// Of the superuser, or of another role.
    pub(crate) fn url(&self, role: &str, more: &str) -> String {
        let port = self.port();
        format!("postgres://{role}@127.0.0.1:{port}/postgres?schema={}{more}", self.schema)
    }

    pub(crate) fn port(&self) -> u16 {
        self.server.port()
    }

    pub(crate) async fn store(&self) -> PostgresStore {
        self.with("").await
    }

    pub(crate) async fn with(&self, more: &str) -> PostgresStore {
        open(&self.url("postgres", more)).await.unwrap()
    }

    /// A connection that knows nothing of hapax.
    pub(crate) async fn raw(&self) -> PgConnection {
        PgConnection::connect(&self.server.url()).await.unwrap()
    }

    /// Runs statements in which `S` stands for the schema.
    pub(crate) async fn run(&self, sql: &str) {
        self.run_on(&mut self.raw().await, sql).await;
    }

    pub(crate) async fn run_on(&self, conn: &mut PgConnection, sql: &str) {
        let sql = sql.replace("S.", &format!("{}.", self.schema));
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await.unwrap();
    }

    /// One number that a query gives.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let sql = sql.replace("S.", &format!("{}.", self.schema));
        let row = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_one(&mut self.raw().await).await.unwrap();
        row.get(0)
    }

    /// Makes every lease and result end so much earlier.
    pub(crate) async fn elapse(&self, by: Duration) {
        self.run(&format!("UPDATE S.idempotency SET until = until - {}", by.as_millis())).await;
    }

    /// A new role that may log in, and what else is said of `$role`.
    pub(crate) async fn role(&self, more: &str) -> String {
        let role = unique("r");
        self.run(&format!("CREATE ROLE {role} LOGIN")).await;
        if !more.is_empty() {
            self.run(&more.replace("$role", &role)).await;
        }
        role
    }
}

fn unique(what: &str) -> String {
    format!("{what}_{}", Token::random().unwrap().version())
}

pub(crate) async fn open(url: &str) -> StoreResult<PostgresStore> {
    let options = PostgresOptions::from_url(&BackendUrl::parse(url)?, &ConnectOptions::default())?;
    PostgresStore::connect(options).await
}

pub(crate) async fn refused(url: &str) -> StoreError {
    match open(url).await {
        Err(error) => error,
        Ok(store) => panic!("{store:?} was opened"),
    }
}

pub(crate) fn name(key: &str) -> Name {
    Name::new(&Namespace::default(), &Scope::new("test").unwrap(), &Key::new(key).unwrap())
}

pub(crate) fn reserve(key: &str) -> Reserve {
    Reserve {
        name: name(key),
        token: Token::random().unwrap(),
        fingerprint: Fingerprint::of_bytes(key.as_bytes()),
        lease: Span::new(LEASE).unwrap(),
    }
}

pub(crate) fn complete(req: &Reserve) -> Complete {
    Complete {
        name: req.name.clone(),
        token: req.token,
        fingerprint: req.fingerprint,
        kind: Kind::Done,
        receipt: Receipt::new("test", b"paid".to_vec()),
        ttl: Span::new(TTL).unwrap(),
    }
}

pub(crate) fn is_yours(answer: &Reserved) -> bool {
    matches!(answer, Reserved::Yours { .. })
}

pub(crate) fn is_done(record: Option<&Record>) -> bool {
    record.is_some_and(|record| matches!(record.state, RecordState::Settled { kind: Kind::Done, .. }))
}
