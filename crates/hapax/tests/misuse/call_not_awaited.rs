//! Nothing runs, of any of these.
#![deny(unused_must_use)]
mod shop;
use hapax::{EffectExt, Hapax, Idempotency};
use shop::{Order, charge};

async fn buy(hapax: &Hapax, idem: &Idempotency, order: &Order) {
    idem.run("k", order, || charge(order).always_unknown());
    idem.run("k", order, || charge(order).always_unknown()).detailed();
    idem.run_many([order], |order| &*order.id, |order| charge(order).always_unknown());
    hapax.close();
    hapax::connect("memory:");
}

fn main() {
    let _ = buy;
}
