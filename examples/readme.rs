//! The example of the README: a card is charged once, however often this runs.
#![deny(unused_must_use)]
#![expect(clippy::print_stdout, clippy::redundant_closure_for_method_calls, reason = "an example")]

use hapax::EffectExt;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let hapax = hapax::connect("sqlite:shop.db").await?;
    let order = Order { id: "o1".into(), cents: 4200 };
    let charge = hapax
        .idempotency("charge")
        .run(&order.id, &order, || stripe::charge(&order).unknown_when(|e| e.is_timeout()))
        .await??;
    println!("{}", charge.id);
    anyhow::ensure!(hapax.close().await.is_clean(), "a receipt could not be stored");
    Ok(())
}

#[derive(serde::Serialize)]
struct Order {
    id: String,
    cents: u64,
}

/// What a client of your payment provider looks like.
mod stripe {
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(serde::Serialize, serde::Deserialize)]
    pub(crate) struct Charge {
        pub(crate) id: String,
    }

    #[derive(Debug, thiserror::Error)]
    pub(crate) enum Error {
        #[error("stripe did not answer in time")]
        Timeout,
        #[error("the card was declined")]
        Declined,
    }

    impl Error {
        pub(crate) fn is_timeout(&self) -> bool {
            matches!(self, Self::Timeout)
        }
    }

    pub(crate) async fn charge(order: &super::Order) -> Result<Charge, Error> {
        static CHARGES: AtomicU64 = AtomicU64::new(1);
        tokio::task::yield_now().await;
        match order.cents {
            0 => Err(Error::Declined),
            1_000_000.. => Err(Error::Timeout),
            _ => Ok(Charge {
                id: format!("ch_{}_{}", std::process::id(), CHARGES.fetch_add(1, Ordering::Relaxed)),
            }),
        }
    }
}
