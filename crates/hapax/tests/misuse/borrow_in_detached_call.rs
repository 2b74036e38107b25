//! A call that outlives its caller borrows from it.
mod shop;
use hapax::{EffectExt, Idempotency};
use shop::{Charge, Order, charge};

async fn buy(idem: &Idempotency) -> anyhow::Result<Charge> {
    let order = Order { id: "o1".into(), cents: 1 };
    Ok(idem.run("k", &order, || charge(&order).unknown_when(|e| e.is_timeout())).detached().await??)
}

fn main() {
    let _ = buy;
}
