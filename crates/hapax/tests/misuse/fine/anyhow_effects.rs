//! Effects that answer with `anyhow` or a boxed error.
#[path = "../shop/mod.rs"]
mod shop;
use hapax::{BoxError, EffectExt, Idempotency};
use shop::{BankError, Order};

async fn send(_: &Order) -> anyhow::Result<()> {
    Ok(())
}

async fn into_anyhow(idem: &Idempotency, order: &Order) -> anyhow::Result<()> {
    idem.run("a", order, || send(order).unknown_when(|e| e.is::<BankError>())).await??;
    idem.run("b", order, || send(order).by_default()).await??;
    Ok(())
}

async fn into_box(idem: &Idempotency, order: &Order) -> Result<(), BoxError> {
    idem.run("c", order, || send(order).always_unknown()).await??;
    Ok(())
}

#[tokio::main]
async fn main() {
    let (idem, order) = (hapax::Hapax::memory().idempotency("shop"), Order { id: "o1".into(), cents: 1 });
    into_anyhow(&idem, &order).await.unwrap();
    into_box(&idem, &order).await.unwrap();
}
