//! The default class walks the chain of an error's sources; a text has none.
mod shop;
use hapax::{EffectExt, Idempotency};
use shop::Order;

async fn buy(idem: &Idempotency, order: &Order) -> Result<u8, hapax::BoxError> {
    let effect = || async { Err::<u8, String>("no".to_owned()) };
    Ok(idem.run("k", order, || effect().by_default()).await??)
}

fn main() {
    let _ = buy;
}
