//! A business row and its receipt in one transaction, killed at random moments.

use crate::support::{Place, complete, is_yours, reserve};
use hapax_core::{
    Token,
    idempotency::{Completed, IdempotencyStore},
};
use hapax_postgres::PostgresStore;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use std::time::Duration;
use tokio::time::Instant;

crate::list!("kills";
    row_and_receipt_of_a_killed_transaction_are_never_apart,
);

/// How often: `HAPAX_TEST_LONG` asks for the full count.
fn rounds() -> usize {
    if std::env::var_os("HAPAX_TEST_LONG").is_some() { 1000 } else { 25 }
}

/// Who dies.
#[derive(Clone, Copy, Debug)]
enum Victim {
    /// The server's process of the transaction.
    Session,
    /// The caller, and its connection with it.
    Caller,
}

/// On which side of the commit the kills fell.
#[derive(Debug, Default)]
struct Met {
    before: usize,
    after: usize,
    /// The caller was told that it committed.
    told: usize,
}

#[expect(clippy::print_stdout, reason = "the counts are a result")]
async fn row_and_receipt_of_a_killed_transaction_are_never_apart() {
    for victim in [Victim::Session, Victim::Caller] {
        let (place, rounds) = (Place::new(), rounds().div_ceil(2));
        let store = place.store().await;
        place.run("CREATE TABLE S.orders (id text PRIMARY KEY)").await;
        let mut killer = place.raw().await;
        let mut window = typical(&place, &store).await * 2;
        let mut met = Met::default();
        for round in 0..rounds {
            let key = format!("k-{round}");
            let told = killed(&place, &store, &key, victim, window.mul_f64(random()), &mut killer).await;
            let rows = place.number(&format!("SELECT count(*) FROM S.orders WHERE id = '{key}'")).await;
            let done =
                format!("SELECT count(*) FROM S.idempotency WHERE S.key_of(name) = '{key}' AND state = 1");
            assert_eq!(rows, place.number(&done).await, "{victim:?}, {key}");
            assert!(rows == 1 || !told, "{victim:?}, {key}: a commit that was told is gone");
            met.told += usize::from(told);
            // So that about as many moments lie before the commit as after it, however fast the machine is just now.
            if rows == 1 {
                met.after += 1;
                window = window.mul_f64(0.8);
            } else {
                met.before += 1;
                window = window.mul_f64(1.25);
            }
        }
        let apart = "SELECT count(*) FROM S.orders o FULL JOIN (SELECT convert_from(S.key_of(name), 'UTF8') AS id \
                     FROM S.idempotency WHERE state = 1) r ON r.id = o.id WHERE o.id IS NULL OR r.id IS NULL";
        assert_eq!(place.number(apart).await, 0);
        println!("{victim:?}: {rounds} kills: {met:?}");
        assert!(met.before > 0 && met.after > 0, "{victim:?}: the kills fell on one side: {met:?}");
    }
}

/// How long the transaction takes here.
async fn typical(place: &Place, store: &PostgresStore) -> Duration {
    let mut took = Vec::new();
    for n in 0..5 {
        let (key, mut conn) = (format!("warm-{n}"), place.raw().await);
        let req = reserve(&key);
        assert!(is_yours(&store.reserve(&req).await.unwrap()));
        let begun = Instant::now();
        order(&mut conn, place, store, &complete(&req), &key).await.unwrap();
        took.push(begun.elapsed());
    }
    took.into_iter().min().unwrap()
}

/// Reserves, and does the rest in a transaction during which the victim dies. Answers whether the caller was told that
/// it committed; what became of it is decided by then.
async fn killed(
    place: &Place,
    store: &PostgresStore,
    key: &str,
    victim: Victim,
    moment: Duration,
    killer: &mut PgConnection,
) -> bool {
    let req = reserve(key);
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    let mut conn = place.raw().await;
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut conn).await.unwrap();
    let result = complete(&req);
    let work = async move { order(&mut conn, place, store, &result, key).await.is_ok() };
    let told = match victim {
        Victim::Caller => {
            tokio::select! {
                told = work => told,
                // The future goes, and the connection that it owns.
                () = passed(moment) => false,
            }
        }
        Victim::Session => {
            let kill = async {
                passed(moment).await;
                let sql = format!("SELECT pg_terminate_backend({pid})");
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *killer).await.unwrap();
            };
            tokio::join!(work, kill).0
        }
    };
    let gone = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}");
    let deadline = Instant::now() + Duration::from_secs(20);
    while sqlx::query_scalar::<_, i64>(AssertSqlSafe(gone.clone())).fetch_one(&mut *killer).await.unwrap() > 0
    {
        assert!(Instant::now() < deadline, "the session of {key} never ended");
    }
    told
}

/// The business row and the receipt.
async fn order(
    conn: &mut PgConnection,
    place: &Place,
    store: &PostgresStore,
    result: &hapax_core::idempotency::Complete,
    key: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut tx = conn.begin().await?;
    let insert = format!("INSERT INTO {}.orders VALUES ('{key}')", place.schema);
    sqlx::raw_sql(AssertSqlSafe(insert)).execute(&mut *tx).await?;
    let kept = store.complete_in(&mut tx, result).await?;
    assert_eq!(kept, Completed::Stored);
    Ok(tx.commit().await?)
}

/// Lets others go on until so much time has passed; timers are too coarse for what takes a millisecond.
async fn passed(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        tokio::task::yield_now().await;
    }
}

/// From 0 to 1.
fn random() -> f64 {
    let [a, b, ..] = *Token::random().unwrap().as_bytes();
    f64::from(u16::from_be_bytes([a, b])) / f64::from(u16::MAX)
}
