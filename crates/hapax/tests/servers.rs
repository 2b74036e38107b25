//! Rows and receipt in one transaction of PostgreSQL, by the example and on bad days.

#![expect(clippy::unwrap_used, reason = "tests")]

use hapax::{
    Added, IdempotencyError, QueueDef, StoreErrorKind,
    postgres::{Transactional, Tx},
};
use hapax_testkit::postgres::{Postgres, missing};
use libtest_mimic::{Arguments, Completion, Trial};
use sqlx::PgPool;
use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

fn main() -> ExitCode {
    let cases: [(&str, fn()); 4] = [
        ("orders_commit_with_their_receipt", orders_commit_with_their_receipt),
        ("rows_go_with_a_receipt_that_is_refused", || on_runtime(rows_go_with_a_receipt_that_is_refused())),
        ("a_job_goes_and_comes_with_the_rows", || on_runtime(a_job_goes_and_comes_with_the_rows())),
        ("a_pool_of_another_database_is_refused", || on_runtime(a_pool_of_another_database_is_refused())),
    ];
    let trials = cases.map(|(name, case)| {
        Trial::ignorable_test(name, move || {
            if let Some(why) = missing() {
                return Ok(Completion::ignored_with(why));
            }
            case();
            Ok(Completion::Completed)
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

fn on_runtime(case: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(case);
}

async fn count(pool: &PgPool) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(pool).await.unwrap()
}

async fn insert(tx: &mut Tx<'_>) -> sqlx::Result<i64> {
    sqlx::query_scalar("INSERT INTO orders DEFAULT VALUES RETURNING id").fetch_one(&mut **tx).await
}

async fn rows_go_with_a_receipt_that_is_refused() {
    let server = Postgres::start();
    let (hapax, pool) =
        (hapax::connect(server.url()).await.unwrap(), PgPool::connect(&server.url()).await.unwrap());
    sqlx::raw_sql("CREATE TABLE orders (id bigserial)").execute(&pool).await.unwrap();
    let orders = Transactional::new(&hapax, &pool).await.unwrap();
    let keys = hapax.idempotency("transaction");
    // The key is taken from the call in the middle of its transaction, and another call ends under it.
    let lost = orders
        .run("c", &1, async |tx| {
            let id = insert(tx).await?;
            keys.force_release("c").await.unwrap();
            assert_eq!(keys.run("c", &1, || async { Ok::<_, Infallible>(7) }).await.unwrap(), Ok(7));
            Ok::<i64, sqlx::Error>(id)
        })
        .await;
    assert!(matches!(lost, Err(IdempotencyError::StoreFailed { .. })), "{lost:?}");
    assert_eq!((count(&pool).await, orders.run("c", &1, insert).await.unwrap().unwrap()), (0, 7));
    // An error rolls back and frees the key at once; a panic does, too.
    let failed = orders
        .run("d", &1, async |tx| {
            insert(tx).await?;
            Err::<i64, _>(sqlx::Error::RowNotFound)
        })
        .await;
    assert!(matches!(failed, Ok(Err(sqlx::Error::RowNotFound))), "{failed:?}");
    let call = orders.clone();
    let panics = tokio::spawn(async move {
        call.run("d", &1, async |tx| {
            let id = insert(tx).await?;
            Ok::<i64, sqlx::Error>(id.checked_div(0).unwrap())
        })
        .await
        .map(drop)
    });
    assert!(panics.await.unwrap_err().is_panic());
    assert!(hapax.close().await.is_clean());
    assert!(matches!(orders.run("d", &1, insert).await, Ok(Ok(_))));
    assert_eq!(count(&pool).await, 1);
}

static CONFIRM: QueueDef<i64> = QueueDef::new("confirm");

async fn a_job_goes_and_comes_with_the_rows() {
    let server = Postgres::start();
    let (hapax, pool) =
        (hapax::connect(server.url()).await.unwrap(), PgPool::connect(&server.url()).await.unwrap());
    sqlx::raw_sql("CREATE TABLE orders (id bigserial)").execute(&pool).await.unwrap();
    let orders = Transactional::new(&hapax, &pool).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    let id = insert(&mut tx).await.unwrap();
    orders.add_in(&mut tx, &CONFIRM, &id).await.unwrap();
    tx.rollback().await.unwrap();
    assert!(hapax.queue().stats(&CONFIRM).await.unwrap().iter().all(|stats| stats.added == 0));
    let mut tx = pool.begin().await.unwrap();
    let id = insert(&mut tx).await.unwrap();
    orders.add_in(&mut tx, &CONFIRM, &id).await.unwrap();
    let urgent = hapax.queue().add(&CONFIRM, &id).job_id("urgent");
    let added = orders.add_job_in(&mut tx, urgent).await.unwrap();
    assert!(matches!(added, Added::New { .. }), "{added:?}");
    tx.commit().await.unwrap();
    let stats = hapax.queue().stats(&CONFIRM).await.unwrap();
    assert_eq!(stats.iter().map(|stats| stats.ready).collect::<Vec<_>>(), [2]);
    assert!(hapax.close().await.is_clean());
}

async fn a_pool_of_another_database_is_refused() {
    let server = Postgres::start();
    let (hapax, here) =
        (hapax::connect(server.url()).await.unwrap(), PgPool::connect(&server.url()).await.unwrap());
    sqlx::raw_sql("CREATE DATABASE other").execute(&here).await.unwrap();
    let options = here.connect_options().as_ref().clone().database("other");
    let other = PgPool::connect_with(options).await.unwrap();
    let error = Transactional::new(&hapax, &other).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Config);
    // A store of its own in there makes it no better.
    let url = format!("{}/other", server.url().trim_end_matches("/postgres"));
    let _theirs = hapax::connect(url).await.unwrap();
    assert_eq!(Transactional::new(&hapax, &other).await.unwrap_err().kind(), StoreErrorKind::Config);
    let memory = hapax::connect("memory:").await.unwrap();
    assert_eq!(Transactional::new(&memory, &here).await.unwrap_err().kind(), StoreErrorKind::Unsupported);
}

/// Where cargo put the example: beside the folder of this test.
fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    profile.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

fn orders_commit_with_their_receipt() {
    let server = Postgres::start();
    let example = built("orders_postgres");
    assert!(example.exists(), "not built: `cargo build -p hapax --all-features --examples`");
    // The second time everything is a replay, but what was refused.
    for _ in 0..2 {
        let output = Command::new(&example).env("DATABASE_URL", server.url()).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}\n{out}{err}", output.status);
        let expected = "placed: OrderId(1)\nthe same again: OrderId(1)\nserved: Some(OrderId(2))\n\
                        the same again: Some(OrderId(2))\ntoo many: None\n";
        assert_eq!(out, expected);
    }
}
