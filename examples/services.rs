//! A program of services: it charges what it is asked for, each order once, and stops in order, by itself or at Ctrl-C.
//! `cargo run -p hapax --example services [ORDER…]`
#![deny(unused_must_use)]
#![expect(clippy::print_stdout, reason = "an example")]

use hapax::{
    EffectExt, Hapax,
    service::{App, Ctx, Report},
};
use std::{io, time::Duration};

/// Who loads the store stops before it is closed.
async fn store(ctx: Ctx) -> anyhow::Result<Hapax> {
    let hapax = hapax::connect("sqlite:shop.db").await?;
    let closing = hapax.clone();
    // What could not be stored is in the report, and in the exit code.
    ctx.on_stop(async move || closing.close().await);
    Ok(hapax)
}

async fn till(ctx: Ctx) -> anyhow::Result<()> {
    let hapax = ctx.load(store).await?;
    let running = ctx.clone();
    let task = tokio::spawn(async move {
        let ended = charge_all(&running, &hapax).await;
        // Without its work the program has nothing to do, however it ended.
        running.stop_app();
        ended
    });
    ctx.on_stop(async move || task.await);
    Ok(())
}

async fn charge_all(ctx: &Ctx, hapax: &Hapax) -> anyhow::Result<()> {
    let idem = hapax.idempotency("charge");
    let orders: Vec<String> = std::env::args().skip(1).collect();
    for order in orders {
        // The order that is being charged is charged to the end; no other one is begun.
        if ctx.is_stopping() {
            break;
        }
        let charge = idem.run(&order, &order, || charge(&order).by_default()).await??;
        println!("{order}: {charge}");
    }
    Ok(())
}

async fn charge(order: &str) -> io::Result<String> {
    // The bank takes its time.
    tokio::time::sleep(Duration::from_millis(20)).await;
    if order.contains("bad") { Err(io::ErrorKind::InvalidInput.into()) } else { Ok(format!("ch_{order}")) }
}

#[tokio::main]
async fn main() -> Report {
    let app = App::new().boot("till", till).name("store", store);
    app.stop_within(Duration::from_secs(10)).run().await
}
