//! Drivers of the application beside the stores of hapax. Nothing here needs a database to compile: `sqlx::query!` would,
//! so rows are derived.

use hapax::{
    core::idempotency::{Complete, Completed},
    postgres::PostgresStore,
};
use sqlx::{FromRow, PgPool, SqlitePool};

#[derive(Debug, FromRow)]
struct Order {
    id: i64,
    state: State,
}

#[derive(Debug, PartialEq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "lowercase")]
enum State {
    Open,
    Paid,
}

/// The transaction is one of the application's own sqlx, which must be the sqlx of the store.
async fn pay(pool: &PgPool, store: &PostgresStore, receipt: &Complete) -> anyhow::Result<Vec<Order>> {
    let mut tx = pool.begin().await?;
    let sql = "UPDATE orders SET state = 'paid' WHERE state = 'open' RETURNING id, state";
    let orders: Vec<Order> = sqlx::query_as(sql).fetch_all(&mut *tx).await?;
    let kept = store.complete_in(&mut tx, receipt).await?;
    anyhow::ensure!(kept == Completed::Stored, "somebody else has done it");
    tx.commit().await?;
    Ok(orders)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let _effect = pay;
    let hapax = hapax::connect("memory:").await?;
    let cache = SqlitePool::connect("sqlite::memory:").await?;
    let order: Order = sqlx::query_as("SELECT 7 AS id, 'paid' AS state").fetch_one(&cache).await?;
    anyhow::ensure!(order.state == State::Paid && order.state != State::Open);
    let files = rusqlite::Connection::open_in_memory()?;
    let id: i64 = files.query_row("SELECT 7", [], |row| row.get(0))?;
    anyhow::ensure!(order.id == id);
    anyhow::ensure!(hapax.close().await.is_clean());
    Ok(())
}
