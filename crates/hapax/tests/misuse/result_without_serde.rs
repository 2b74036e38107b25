//! A result that cannot be kept.
mod shop;
use hapax::{EffectExt, Idempotency};
use shop::{BankError, Order};

struct Plain;

async fn plain(_: &Order) -> Result<Plain, BankError> {
    Ok(Plain)
}

async fn buy(idem: &Idempotency, order: &Order) -> anyhow::Result<Plain> {
    Ok(idem.run("k", order, || plain(order).unknown_when(|e| e.is_timeout())).await??)
}

fn main() {
    let _ = buy;
}
