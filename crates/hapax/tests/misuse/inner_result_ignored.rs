//! One question mark: the failure of the effect is overlooked.
#![deny(unused_must_use)]
mod shop;
use hapax::{EffectExt, Idempotency};
use shop::{Order, charge};

async fn buy(idem: &Idempotency, order: &Order) -> anyhow::Result<()> {
    idem.run("k", order, || charge(order).unknown_when(|e| e.is_timeout())).await?;
    Ok(())
}

fn main() {
    let _ = buy;
}
