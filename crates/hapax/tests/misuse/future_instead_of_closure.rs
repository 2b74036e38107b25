//! The effect itself, where the closure that makes it belongs: it might have begun outside the reservation.
mod shop;
use hapax::{EffectExt, Idempotency};
use shop::{Charge, Order, charge};

async fn buy(idem: &Idempotency, order: &Order) -> anyhow::Result<Charge> {
    Ok(idem.run("k", order, charge(order).unknown_when(|e| e.is_timeout())).await??)
}

fn main() {
    let _ = buy;
}
