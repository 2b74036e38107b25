//! What `hapax doctor` sees of a server.

use crate::support::{Place, open};
use hapax_core::doctor::{Examine as _, Severity};
use hapax_postgres::PostgresStore;
use hapax_testkit::postgres::Postgres;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use std::time::Duration;
use tokio::time::Instant;

crate::list!("doctor", &["pg_basebackup"];
    a_server_that_does_not_sync_is_found,
    changed_functions_and_keys_are_found,
    missing_rights_are_named_one_by_one,
    replicas_are_looked_at,
    a_server_that_became_a_standby_is_found,
);

type Found = Vec<(&'static str, Severity, String)>;

async fn found(store: &PostgresStore) -> Found {
    let findings = store.examine().await.unwrap().findings;
    let said = |reason: &str, remedy: &str| format!("{reason}: {remedy}");
    findings.into_iter().map(|f| (f.check, f.severity, said(&f.reason, &f.remedy))).collect()
}

/// Leaves out what is so on every server of the tests, which do not sync.
async fn found_beside(store: &PostgresStore) -> Found {
    let mut found = found(store).await;
    found.retain(|(check, ..)| *check != "persistence");
    found
}

fn is(found: &Found, check: &str, severity: Severity, word: &str) {
    let is_it =
        |(c, s, said): &(&str, Severity, String)| *c == check && *s == severity && said.contains(word);
    assert!(found.iter().any(is_it), "no {severity} of {check} with {word}: {found:?}");
}

async fn a_server_that_does_not_sync_is_found() {
    let place = Place::new();
    let role = place.role("ALTER ROLE $role SUPERUSER; ALTER ROLE $role SET synchronous_commit = off").await;
    let seen = found(&open(&place.url(&role, "")).await.unwrap()).await;
    is(&seen, "persistence", Severity::Error, "`fsync`");
    is(&seen, "persistence", Severity::Warning, "`full_page_writes`");
    is(&seen, "persistence", Severity::Warning, "ALTER ROLE");
    let server = Postgres::start_with(&["fsync=on", "full_page_writes=on"]);
    let store = open(&server.url()).await.unwrap();
    assert_eq!(found(&store).await, []);
    let examined = store.examine().await.unwrap();
    assert!(examined.store_time.is_some() && examined.facts.iter().any(|(name, _)| *name == "version"));
}

async fn changed_functions_and_keys_are_found() {
    let place = Place::new();
    let store = place.store().await;
    assert_eq!(found_beside(&store).await, []);
    place.run("DROP FUNCTION S.prune; ALTER FUNCTION S.extend SET enable_seqscan = on").await;
    place.run("ALTER TABLE S.idempotency SET (autovacuum_enabled = false)").await;
    place.run("ALTER TABLE S.idempotency DROP CONSTRAINT idempotency_pkey").await;
    let seen = found_beside(&store).await;
    is(&seen, "functions", Severity::Error, "extend, prune");
    is(&seen, "autovacuum", Severity::Warning, "RESET (autovacuum_enabled)");
    is(&seen, "index", Severity::Error, "ADD PRIMARY KEY");
    assert_eq!(seen.len(), 3);
}

async fn missing_rights_are_named_one_by_one() {
    let place = Place::new();
    drop(place.store().await);
    let role = place.role("GRANT USAGE ON SCHEMA S. TO $role".replace("S.", &place.schema).as_str()).await;
    place.run(&format!("GRANT SELECT ON ALL TABLES IN SCHEMA {} TO {role}", place.schema)).await;
    place.run("REVOKE EXECUTE ON FUNCTION S.reserve FROM PUBLIC").await;
    let store = open(&place.url(&role, "")).await.unwrap();
    let seen = found_beside(&store).await;
    let schema = &place.schema;
    for right in [
        format!("INSERT ON \"{schema}\".idempotency"),
        format!("UPDATE ON \"{schema}\".idempotency"),
        format!("DELETE ON \"{schema}\".idempotency"),
        format!("INSERT ON \"{schema}\".meta"),
        format!("EXECUTE ON FUNCTION \"{schema}\".reserve"),
    ] {
        is(&seen, "rights", Severity::Error, &format!("GRANT {right} TO {role}"));
    }
    // What it says to do is enough.
    let (.., said) = seen.first().unwrap();
    let (_, remedy) = said.split_once(": GRANT").unwrap();
    place.run(&format!("GRANT{remedy}")).await;
    assert_eq!(found_beside(&store).await, []);
}

async fn set(server: &Postgres, setting: &str) {
    let mut conn = PgConnection::connect(&server.url()).await.unwrap();
    for sql in [format!("ALTER SYSTEM SET {setting}"), "SELECT pg_reload_conf()".to_owned()] {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
    }
}

async fn until(store: &PostgresStore, what: &str, holds: impl Fn(&Found) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let seen = found_beside(store).await;
        if holds(&seen) {
            return;
        }
        assert!(Instant::now() < deadline, "never {what}: {seen:?}");
    }
}

async fn replicas_are_looked_at() {
    let primary = Postgres::start();
    let store = open(&primary.url()).await.unwrap();
    let standby = primary.standby();
    let has = |severity: Severity, word: &'static str| {
        move |seen: &Found| {
            seen.iter().any(|(check, s, said)| *check == "replicas" && *s == severity && said.contains(word))
        }
    };
    until(&store, "a standby that nobody waits for", has(Severity::Warning, "synchronous_standby_names"))
        .await;
    set(&primary, "synchronous_standby_names = '*'").await;
    until(&store, "sound", Vec::is_empty).await;
    drop(standby);
    until(&store, "waiting for nobody", has(Severity::Error, "none is connected")).await;
}

async fn a_server_that_became_a_standby_is_found() {
    let mut server = Postgres::start();
    let store = open(&server.url()).await.unwrap();
    server.demote();
    is(&found(&store).await, "role", Severity::Error, "name the primary");
}
