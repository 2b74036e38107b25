//! `?` in an effect, with a type for the end of the block.
#[path = "../shop/mod.rs"]
mod shop;
use hapax::{EffectExt, Idempotency};
use shop::{BankError, Order, charge};

async fn buy(idem: &Idempotency, order: &Order) -> anyhow::Result<()> {
    let effect = || {
        async {
            let charge = charge(order).await?;
            Ok::<_, BankError>(charge)
        }
        .unknown_when(|e| e.is_timeout())
    };
    idem.run("a", order, effect).await??;
    let effect = || {
        async {
            charge(order).await?;
            charge(order).await
        }
        .unknown_when(BankError::is_timeout)
    };
    idem.run("b", order, effect).await??;
    Ok(())
}

#[tokio::main]
async fn main() {
    let (idem, order) = (hapax::Hapax::memory().idempotency("shop"), Order { id: "o1".into(), cents: 1 });
    tokio::spawn(async move { buy(&idem, &order).await }).await.unwrap().unwrap();
}
