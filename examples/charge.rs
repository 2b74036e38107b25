//! Charging a card: every answer told apart, and the forms a call can take. `cargo run -p hapax --example charge`
#![deny(unused_must_use)]
#![expect(clippy::print_stdout, reason = "an example")]

use bank::{Bank, BankError, Charge};
use hapax::{
    BoxError, Class, Classify, Codec, EffectExt, Fingerprint, Idempotency, IdempotencyError, Verdict,
    stable_hash,
};
use std::time::Duration;

#[derive(Clone, serde::Serialize)]
struct Order {
    tenant: String,
    id: String,
    cents: u64,
}

/// What a shop shows.
#[derive(Debug, PartialEq)]
enum Page {
    Thanks { charge: String, again: bool },
    Declined(String),
    TryAgain(Duration),
    WeWillMailYou,
    Sorry(String),
}

/// A call in flight is waited for, an unknown outcome is looked up at the bank.
async fn checkout(idem: &Idempotency, bank: &Bank, order: &Order) -> Page {
    let answer = idem
        .run(["charge", &order.tenant, &order.id], order, || {
            bank.charge(order).failed_when(BankError::is_declined)
        })
        .timeout(Duration::from_secs(20))
        .wait(Duration::from_secs(5))
        .resolver(|| async {
            match bank.find(&order.id).await {
                Ok(Some(charge)) => Verdict::Happened(charge),
                Ok(None) => Verdict::DidNot,
                Err(_) => Verdict::CantTell,
            }
        })
        .detailed()
        .await;
    match answer {
        Ok(Ok(answer)) => Page::Thanks { charge: answer.value.id, again: answer.replay.is_some() },
        // Certain: nothing was charged, and the key is free.
        Ok(Err(declined)) => Page::Declined(declined.to_string()),
        Err(IdempotencyError::InFlight { retry_after, .. }) => Page::TryAgain(retry_after),
        // Nobody knows: the key stays taken until somebody finds out.
        Err(IdempotencyError::Unknown { .. }) => Page::WeWillMailYou,
        Err(error) => Page::Sorry(error.to_string()),
    }
}

/// Several steps under one key, with an error type of the shop's own, which says what each error means.
async fn checkout_in_steps(idem: &Idempotency, bank: &Bank, order: &Order) -> Result<Charge, BoxError> {
    let charge = idem
        .run(["checkout", &order.id], order, async || -> Result<Charge, CheckoutError> {
            if order.cents == 0 {
                return Err(CheckoutError::EmptyCart);
            }
            let charge = bank.charge(order).await?;
            bank.send_invoice(&charge).await?;
            Ok(charge)
        })
        .await??;
    Ok(charge)
}

#[derive(Debug, thiserror::Error)]
enum CheckoutError {
    #[error("the cart is empty")]
    EmptyCart,
    #[error(transparent)]
    Bank(#[from] BankError),
}

impl Classify for CheckoutError {
    fn class(&self) -> Class {
        match self {
            Self::EmptyCart => Class::Failed,
            Self::Bank(error) if error.is_declined() => Class::Failed,
            Self::Bank(_) => Class::Unknown,
        }
    }
}

/// Goes on when its caller is gone, once it has begun; gives up when its lease is lost; hands the bank a key that is
/// the same for every attempt.
async fn charge_detached(idem: &Idempotency, bank: Bank, order: Order) -> anyhow::Result<Charge> {
    let (key, fingerprint) = (format!("detached:{}", order.id), stable_hash(&order));
    let effect = |lease: hapax::Lease| {
        async move {
            tokio::select! {
                charge = bank.charge_with_key(&order, lease.provider_key()) => charge,
                () = lease.lost() => Err(BankError::Timeout),
            }
        }
        .always_unknown()
    };
    Ok(idem.run_with(key, fingerprint, effect).detached().await??)
}

/// Results in a form of their own, for one handle.
#[derive(Clone)]
struct Cents;

impl Codec<u64> for Cents {
    const NAME: &'static str = "cents/1";
    fn encode(&self, cents: &u64) -> Result<bytes::Bytes, BoxError> {
        Ok(bytes::Bytes::copy_from_slice(&cents.to_le_bytes()))
    }
    fn decode(&self, bytes: &[u8]) -> Result<u64, BoxError> {
        Ok(u64::from_le_bytes(bytes.try_into()?))
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let hapax = hapax::connect("memory:").await?;
    let (idem, bank) = (hapax.idempotency("shop"), Bank::default());
    let order = |id: &str, cents| Order { tenant: "t1".into(), id: id.into(), cents };

    let first = order("o1", 4200);
    println!("charged:          {:?}", checkout(&idem, &bank, &first).await);
    println!("the same again:   {:?}", checkout(&idem, &bank, &first).await);
    println!("another amount:   {:?}", checkout(&idem, &bank, &order("o1", 1)).await);
    println!("no money:         {:?}", checkout(&idem, &bank, &order("o2", bank::TOO_MUCH)).await);

    let slow = order("o3", bank::SLOW);
    let (one, two) = tokio::join!(checkout(&idem, &bank, &slow), checkout(&idem, &bank, &slow));
    println!("two at once:      {one:?} and {two:?}");

    let lost = order("o4", bank::REPLY_IS_LOST);
    println!("the reply lost:   {:?}", checkout(&idem, &bank, &lost).await);
    println!("looked up:        {:?}", checkout(&idem, &bank, &lost).await);

    let steps = checkout_in_steps(&idem, &bank, &order("o5", 100)).await.map_err(|e| anyhow::anyhow!(e))?;
    println!("in steps:         {}", steps.id);
    println!(
        "no steps:         {:?}",
        checkout_in_steps(&idem, &bank, &order("o6", 0)).await.map_err(|e| e.to_string())
    );
    println!("detached:         {}", charge_detached(&idem, bank.clone(), order("o7", 300)).await?.id);

    let orders: Vec<_> = (0..20).map(|n| order(&format!("batch{n}"), 100 + n)).collect();
    let charge = |order| bank.charge(order).unknown_when(|e| !e.is_declined());
    let answers =
        idem.run_many(&orders, |order| ["charge", &order.tenant, &order.id], charge).concurrency(4).await;
    println!(
        "a batch:          {} of {}",
        answers.iter().filter(|a| matches!(a, Ok(Ok(_)))).count(),
        answers.len()
    );

    let cents = idem.with_codec(Cents);
    let refund =
        cents.run("refund:o1", Fingerprint::ANY, || async { Ok::<_, std::convert::Infallible>(4200) });
    println!("another codec:    {}", refund.await??);

    let by_hand = order("o8", bank::REPLY_IS_LOST);
    let left = idem.run("by-hand", &by_hand, || bank.charge(&by_hand).always_unknown()).await;
    anyhow::ensure!(left.is_err_and(|error| error.is_unknown()));
    idem.resolve("by-hand").happened(&Charge { id: "found in the bank's own list".into() }).await?;
    let settled = idem.run("by-hand", &by_hand, || bank.charge(&by_hand).always_unknown()).await??;
    println!("settled by hand:  {}", settled.id);

    println!("the bank charged {} times", bank.charges());
    anyhow::ensure!(hapax.close().await.is_clean(), "a receipt could not be stored");
    Ok(())
}

/// A bank inside this program: some amounts make trouble.
mod bank {
    use super::Order;
    use std::{
        collections::HashMap,
        sync::{Arc, Mutex, PoisonError},
        time::Duration,
    };

    pub(crate) const TOO_MUCH: u64 = 1_000_000;
    pub(crate) const SLOW: u64 = 777;
    pub(crate) const REPLY_IS_LOST: u64 = 888;

    #[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
    pub(crate) struct Charge {
        pub(crate) id: String,
    }

    #[derive(Debug, thiserror::Error)]
    pub(crate) enum BankError {
        #[error("the card was declined")]
        Declined,
        #[error("the bank did not answer in time")]
        Timeout,
    }

    impl BankError {
        pub(crate) fn is_declined(&self) -> bool {
            matches!(self, Self::Declined)
        }
    }

    #[derive(Clone, Default)]
    pub(crate) struct Bank {
        charges: Arc<Mutex<HashMap<String, Charge>>>,
    }

    impl Bank {
        pub(crate) async fn charge(&self, order: &Order) -> Result<Charge, BankError> {
            if order.cents == SLOW {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            if order.cents >= TOO_MUCH {
                return Err(BankError::Declined);
            }
            let charge = {
                let mut charges = self.charges.lock().unwrap_or_else(PoisonError::into_inner);
                let id = format!("ch_{}", charges.len() + 1);
                charges.insert(order.id.clone(), Charge { id: id.clone() });
                Charge { id }
            };
            if order.cents == REPLY_IS_LOST { Err(BankError::Timeout) } else { Ok(charge) }
        }

        pub(crate) async fn charge_with_key(&self, order: &Order, key: &str) -> Result<Charge, BankError> {
            // A bank that deduplicates would look here whether it has seen the key.
            if key.is_empty() { Err(BankError::Declined) } else { self.charge(order).await }
        }

        pub(crate) async fn send_invoice(&self, _charge: &Charge) -> Result<(), BankError> {
            tokio::task::yield_now().await;
            Ok(())
        }

        pub(crate) async fn find(&self, order: &str) -> Result<Option<Charge>, BankError> {
            tokio::task::yield_now().await;
            Ok(self.charges.lock().unwrap_or_else(PoisonError::into_inner).get(order).cloned())
        }

        pub(crate) fn charges(&self) -> usize {
            self.charges.lock().unwrap_or_else(PoisonError::into_inner).len()
        }
    }
}
