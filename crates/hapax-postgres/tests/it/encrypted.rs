//! Connections under TLS.

use crate::support::{complete, is_yours, name, open, refused, reserve};
use hapax_core::{
    Applied, StoreErrorKind,
    idempotency::{Completed, IdempotencyStore},
};
use hapax_testkit::postgres::Postgres;
use sqlx::{Connection as _, PgConnection, Row as _};

crate::list!("encrypted", &["openssl"];
    an_encrypted_connection_works,
    statements_are_named_on_an_encrypted_connection,
    a_certificate_of_an_unknown_authority_is_refused,
    a_plain_connection_to_an_encrypted_server_says_so,
    an_encrypted_connection_to_a_plain_server_says_so,
);

fn url(server: &Postgres, host: &str, more: &str) -> String {
    format!("postgres://postgres@{host}:{}/postgres?{more}", server.port())
}

async fn an_encrypted_connection_works() {
    let server = Postgres::start_encrypted();
    let authority = server.authority().display().to_string();
    let verified = format!("sslmode=verify-full&sslrootcert={authority}");
    for (host, more) in [
        ("127.0.0.1", "sslmode=require"),
        ("127.0.0.1", &verified),
        ("localhost", &verified),
        ("127.0.0.1", ""),
    ] {
        let (store, req) =
            (open(&url(&server, host, more)).await.unwrap(), reserve(&format!("{host} {more}")));
        assert!(is_yours(&store.reserve(&req).await.unwrap()));
        assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::Stored);
    }
}

async fn statements_are_named_on_an_encrypted_connection() {
    let server = Postgres::start_encrypted();
    let url = url(&server, "localhost", "sslmode=require");
    let store = open(&url).await.unwrap();
    for _ in 0..100 {
        assert_eq!(store.read(&name("k")).await.unwrap(), None);
    }
    let sql = "SELECT count(*) FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) \
        WHERE ssl AND position('.read($1)' IN query) > 0 AND pid <> pg_backend_pid()";
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let named: i64 = sqlx::raw_sql(sql).fetch_one(&mut conn).await.unwrap().get(0);
    assert_eq!(named, i64::from(cfg!(target_os = "linux")));
}

async fn a_certificate_of_an_unknown_authority_is_refused() {
    let server = Postgres::start_encrypted();
    for mode in ["verify-full", "verify-ca"] {
        let error = refused(&url(&server, "127.0.0.1", &format!("sslmode={mode}"))).await;
        assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Config, Applied::No), "{error}");
        assert!(error.to_string().contains("`sslrootcert=FILE`"), "{error}");
    }
    let error = refused(&url(&server, "127.0.0.1", "sslmode=verify-full&sslrootcert=/nonexistent")).await;
    assert_eq!(error.kind(), StoreErrorKind::Config, "{error}");
    assert!(error.to_string().contains("sslrootcert"), "{error}");
}

async fn a_plain_connection_to_an_encrypted_server_says_so() {
    let server = Postgres::start_encrypted();
    let error = refused(&url(&server, "127.0.0.1", "sslmode=disable")).await;
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Auth, Applied::No));
    assert!(error.to_string().contains("`sslmode=require`"), "{error}");
}

async fn an_encrypted_connection_to_a_plain_server_says_so() {
    let server = Postgres::start();
    for mode in ["require", "verify-full"] {
        let error = refused(&url(&server, "127.0.0.1", &format!("sslmode={mode}"))).await;
        assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Config, Applied::No), "{error}");
        assert!(error.to_string().contains("`sslmode=disable`"), "{error}");
    }
}
