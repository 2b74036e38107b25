//! An order, its stock and its receipt commit together, or not at all.
//! `DATABASE_URL=postgres://localhost/shop cargo run -p hapax --features postgres --example orders_postgres`
#![deny(unused_must_use)]
#![expect(clippy::print_stdout, reason = "an example")]

use anyhow::{bail, ensure};
use hapax::{
    BackendUrl, Key,
    core::{
        Name, Namespace, Scope, Span, Token,
        idempotency::{
            Complete, Completed, IdempotencyStore, Kind, Receipt, RecordState, Reserve, Reserved, Write,
        },
        registry::ConnectOptions,
    },
    postgres::{PostgresOptions, PostgresStore},
    stable_hash,
};
use sqlx::{Connection as _, PgConnection, Row as _};
use std::{fmt, time::Duration};

#[derive(serde::Serialize)]
struct Cart {
    id: &'static str,
    sku: &'static str,
    pieces: i32,
}

enum Outcome {
    Ordered(i64),
    SoldOut,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ordered(id) => write!(f, "order {id}"),
            Self::SoldOut => f.write_str("sold out"),
        }
    }
}

/// Longer than the transaction can take: nobody renews this lease.
const LEASE: Duration = Duration::from_mins(1);
const TTL: Duration = Duration::from_hours(24);

async fn place(store: &PostgresStore, conn: &mut PgConnection, cart: &Cart) -> anyhow::Result<Outcome> {
    let name = Name::new(&Namespace::default(), &Scope::new("order")?, &Key::new(cart.id)?);
    let fingerprint = stable_hash(cart)?;
    // A transaction of its own, so that a second call is told at once, and does not wait for the first.
    let req = Reserve { name, token: Token::random()?, fingerprint, lease: Span::new(LEASE)? };
    if let Reserved::Held(record) = store.reserve(&req).await? {
        ensure!(record.fingerprint == fingerprint, "the key was used for another cart");
        return match record.state {
            RecordState::Settled { kind: Kind::Done, receipt, .. } => {
                Ok(Outcome::Ordered(serde_json::from_slice(&receipt.bytes)?))
            }
            _ => bail!("another call is at it"),
        };
    }
    // Whatever ends this early rolls the transaction back. The key is free when the lease has passed.
    let mut tx = conn.begin().await?;
    let sql = "UPDATE example_stock SET pieces = pieces - $2 WHERE sku = $1 AND pieces >= $2";
    let taken = sqlx::query(sql).bind(cart.sku).bind(cart.pieces).execute(&mut *tx).await?;
    if taken.rows_affected() == 0 {
        // Also a part of the transaction: the note of it and the free key come together.
        sqlx::query("INSERT INTO example_refusals (cart) VALUES ($1)")
            .bind(cart.id)
            .execute(&mut *tx)
            .await?;
        let freed = store.release_in(&mut tx, &req.name, &req.token).await?;
        ensure!(freed == Write::Applied, "the lease has passed, and the call is another's");
        tx.commit().await?;
        return Ok(Outcome::SoldOut);
    }
    let sql = "INSERT INTO example_orders (cart) VALUES ($1) RETURNING id";
    let id: i64 = sqlx::query(sql).bind(cart.id).fetch_one(&mut *tx).await?.try_get(0)?;
    let receipt = Receipt::new("json/1", serde_json::to_vec(&id)?);
    let Reserve { name, token, .. } = req;
    let result = Complete { name, token, fingerprint, kind: Kind::Done, receipt, ttl: Span::new(TTL)? };
    // Anything but `Stored` says that the effect is another call's: this one must not commit.
    match store.complete_in(&mut tx, &result).await? {
        Completed::Stored => tx.commit().await?,
        other => bail!("rolled back: {other:?}"),
    }
    Ok(Outcome::Ordered(id))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("DATABASE_URL")?;
    let options = PostgresOptions::from_url(&BackendUrl::parse(&url)?, &ConnectOptions::default())?;
    let store = PostgresStore::connect(options).await?;
    let mut conn = PgConnection::connect(&url).await?;
    sqlx::raw_sql(
        "CREATE TABLE IF NOT EXISTS example_orders (id bigserial PRIMARY KEY, cart text NOT NULL UNIQUE); \
         CREATE TABLE IF NOT EXISTS example_refusals (cart text NOT NULL); \
         CREATE TABLE IF NOT EXISTS example_stock (sku text PRIMARY KEY, pieces integer NOT NULL); \
         INSERT INTO example_stock VALUES ('tea', 3) ON CONFLICT DO NOTHING",
    )
    .execute(&mut conn)
    .await?;
    let cart = Cart { id: "c1", sku: "tea", pieces: 2 };
    println!("ordered: {}", place(&store, &mut conn, &cart).await?);
    println!("the same again: {}", place(&store, &mut conn, &cart).await?);
    let other = Cart { id: "c2", sku: "tea", pieces: 2 };
    println!("too many: {}", place(&store, &mut conn, &other).await?);
    let left: i32 = sqlx::query("SELECT pieces FROM example_stock").fetch_one(&mut conn).await?.try_get(0)?;
    println!("left: {left}");
    Ok(())
}
