//! The one rough edge: `?` in an async block, and nothing that says into what.
mod shop;
use hapax::{EffectExt, Idempotency};
use shop::{Charge, Order, charge};

async fn buy(idem: &Idempotency, order: &Order) -> anyhow::Result<Charge> {
    let effect = || {
        async {
            let charge = charge(order).await?;
            Ok(charge)
        }
        .unknown_when(|e| e.is_timeout())
    };
    Ok(idem.run("k", order, effect).await??)
}

fn main() {
    let _ = buy;
}
