//! The error of somebody else has no class: nothing says whether the card may have been charged.
mod shop;
use hapax::Idempotency;
use shop::{Order, charge};

async fn buy(idem: &Idempotency, order: &Order) -> anyhow::Result<()> {
    let charge = idem.run("k", order, || charge(order)).await??;
    println!("{}", charge.id);
    Ok(())
}

fn main() {
    let _ = buy;
}
