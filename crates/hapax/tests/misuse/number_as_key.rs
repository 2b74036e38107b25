//! A bare number: of what?
mod shop;
use hapax::{EffectExt, Idempotency};
use shop::{Charge, Order, charge};

async fn buy(idem: &Idempotency, order: &Order) -> anyhow::Result<Charge> {
    Ok(idem.run(7u64, order, || charge(order).unknown_when(|e| e.is_timeout())).await??)
}

fn main() {
    let _ = buy;
}
