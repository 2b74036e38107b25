//! An order, its stock and its receipt commit together, or not at all.
//! `DATABASE_URL=postgres://localhost/shop cargo run -p hapax --features postgres --example orders_postgres`
#![deny(unused_must_use)]
#![expect(clippy::print_stdout, reason = "an example")]

use hapax::postgres::{Claim, Transactional, Tx};
use serde::{Deserialize, Serialize};
use sqlx::{PgPool, Row as _};

#[derive(Serialize)]
struct Cart {
    id: &'static str,
    sku: &'static str,
    pieces: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct OrderId(i64);

/// Once per cart, however often it is called and wherever it is interrupted.
async fn place(orders: &Transactional, cart: &Cart) -> anyhow::Result<OrderId> {
    Ok(orders.run(["order", cart.id], cart, async |tx| insert(tx, cart).await).await??)
}

/// The same by hand: a cart that cannot be served is written down, and may be tried again.
async fn place_or_refuse(
    orders: &Transactional,
    pool: &PgPool,
    cart: &Cart,
) -> anyhow::Result<Option<OrderId>> {
    let reservation = match orders.claim(["order", cart.id], cart).await? {
        Claim::Replayed(id) => return Ok(Some(id)),
        Claim::New(reservation) => reservation,
    };
    // An early return rolls back and frees the key.
    let mut tx = pool.begin().await?;
    let taken = "UPDATE example_stock SET pieces = pieces - $2 WHERE sku = $1 AND pieces >= $2";
    let taken = sqlx::query(taken).bind(cart.sku).bind(cart.pieces).execute(&mut *tx).await?;
    if taken.rows_affected() == 0 {
        let refusal = "INSERT INTO example_refusals (cart) VALUES ($1)";
        sqlx::query(refusal).bind(cart.id).execute(&mut *tx).await?;
        reservation.release_in(&mut tx).await?;
        tx.commit().await?;
        return Ok(None);
    }
    let id = insert(&mut tx, cart).await?;
    reservation.complete_in(&mut tx, &id).await?;
    tx.commit().await?;
    Ok(Some(id))
}

async fn insert(tx: &mut Tx<'_>, cart: &Cart) -> sqlx::Result<OrderId> {
    let sql = "INSERT INTO example_orders (cart) VALUES ($1) RETURNING id";
    Ok(OrderId(sqlx::query(sql).bind(cart.id).fetch_one(&mut **tx).await?.try_get(0)?))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("DATABASE_URL")?;
    let (hapax, pool) = (hapax::connect(&url).await?, PgPool::connect(&url).await?);
    sqlx::raw_sql(
        "CREATE TABLE IF NOT EXISTS example_orders (id bigserial PRIMARY KEY, cart text NOT NULL UNIQUE); \
         CREATE TABLE IF NOT EXISTS example_refusals (cart text NOT NULL); \
         CREATE TABLE IF NOT EXISTS example_stock (sku text PRIMARY KEY, pieces integer NOT NULL); \
         INSERT INTO example_stock VALUES ('tea', 3) ON CONFLICT DO NOTHING",
    )
    .execute(&pool)
    .await?;
    let orders = Transactional::new(&hapax, &pool).await?;
    let cart = |id, pieces| Cart { id, sku: "tea", pieces };
    println!("placed: {:?}", place(&orders, &cart("c0", 1)).await?);
    println!("the same again: {:?}", place(&orders, &cart("c0", 1)).await?);
    println!("served: {:?}", place_or_refuse(&orders, &pool, &cart("c1", 2)).await?);
    println!("the same again: {:?}", place_or_refuse(&orders, &pool, &cart("c1", 2)).await?);
    println!("too many: {:?}", place_or_refuse(&orders, &pool, &cart("c2", 2)).await?);
    let _ = hapax.close().await;
    Ok(())
}
