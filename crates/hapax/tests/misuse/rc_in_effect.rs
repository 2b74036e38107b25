//! An effect that cannot cross threads.
mod shop;
use hapax::{EffectExt, Idempotency};
use shop::{Charge, Order, charge};
use std::rc::Rc;

async fn buy(idem: &Idempotency, order: &Order) -> anyhow::Result<Charge> {
    let shared = Rc::new(1);
    let effect = || {
        async {
            let charge = charge(order).await;
            drop(shared);
            charge
        }
        .unknown_when(|e| e.is_timeout())
    };
    Ok(idem.run("k", order, effect).await??)
}

fn main() {
    let _ = buy;
}
