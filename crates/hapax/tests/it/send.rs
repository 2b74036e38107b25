//! What must be `Send` on a runtime of many threads, in the shapes that users write. Each of these is spawned, so that
//! a future that is not would not compile, and run, so that the shape also works.

use hapax::{
    BoxError, Classified, EffectExt, Fingerprint, Hapax, Idempotency, IdempotencyError, Lease, Verdict,
    async_trait, stable_hash,
};
use std::{convert::Infallible, error::Error, future::Future, io, sync::Arc, time::Duration};

/// A user's own port, with a future of its own for each implementation.
trait Gateway: Send + Sync {
    fn charge(&self, cents: u64) -> impl Future<Output = io::Result<u64>> + Send;
}

/// The same as a trait object.
#[async_trait]
trait DynGateway: Send + Sync {
    async fn charge(&self, cents: u64) -> io::Result<u64>;
}

struct Fake;

impl Gateway for Fake {
    async fn charge(&self, cents: u64) -> io::Result<u64> {
        tokio::task::yield_now().await;
        Ok(cents)
    }
}

#[async_trait]
impl DynGateway for Fake {
    async fn charge(&self, cents: u64) -> io::Result<u64> {
        Gateway::charge(self, cents).await
    }
}

#[derive(Clone)]
struct Shop<G> {
    idem: Idempotency,
    gateway: Arc<G>,
    dynamic: Arc<dyn DynGateway>,
}

impl<G: Gateway + 'static> Shop<G> {
    /// Everything borrowed, generic callee, one call inside another.
    async fn nested(&self, user: &str, cents: u64) -> Result<u64, BoxError> {
        let outer = async || -> Result<u64, Classified<BoxError>> {
            let steps = async {
                let charge = || self.gateway.charge(cents).always_unknown();
                let inner = self.idem.run(["inner", user], &(user, cents), charge).await??;
                Ok::<u64, BoxError>(inner + 1)
            };
            steps.always_unknown().await
        };
        let charged = self.idem.run(["outer", user], &cents, outer).await??;
        Ok(charged)
    }

    /// A trait object, a mutable borrow in an effect, two calls joined.
    async fn joined(&self, cents: u64) -> Result<u64, BoxError> {
        let a = self.idem.run("dyn", &cents, || self.dynamic.charge(cents).always_unknown()).await??;
        let mut seen = Vec::new();
        let b = self.idem.run("mut", &1, async || {
            seen.push(self.gateway.charge(cents).await);
            Ok::<_, Infallible>(1u64)
        });
        let c = self.idem.run("other", &1, || async { Ok::<_, Infallible>(1u64) });
        let (Ok(b), Ok(c)) = tokio::try_join!(b, c)?;
        Ok(a + b + c + seen.len() as u64)
    }

    /// Every setting, and a resolver that borrows.
    async fn with_settings(&self, cents: u64) -> Result<u64, BoxError> {
        let call = self
            .idem
            .run_with("settings", &cents, |lease: Lease| {
                async move {
                    tokio::select! {
                        charge = self.gateway.charge(cents) => charge,
                        () = lease.lost() => Err(io::ErrorKind::TimedOut.into()),
                    }
                    .map_err(|e| Box::new(e) as Box<dyn Error + Send + Sync>)
                }
                .by_default()
            })
            .lease(Duration::from_secs(10))
            .ttl(Duration::from_secs(100))
            .unknown_ttl(Duration::from_secs(100))
            .timeout(Duration::from_secs(20))
            .wait(Duration::from_secs(5))
            .resolver(|| async {
                match self.gateway.charge(cents).await {
                    Ok(cents) => Verdict::Happened(cents),
                    Err(_) => Verdict::CantTell,
                }
            })
            .run_when_store_is_down()
            .detailed();
        Ok(call.await??.value)
    }

    /// A batch that borrows its items.
    async fn batch(&self, orders: &[(u64, String)]) -> usize {
        let charge = |order: &(u64, String)| self.gateway.charge(order.0).always_unknown();
        let charge = |order| charge(order);
        let answers =
            self.idem.run_many(orders, |order| ["batch", &order.1].map(str::to_owned).concat(), charge);
        answers.concurrency(2).await.into_iter().filter(|answer| matches!(answer, Ok(Ok(_)))).count()
    }
}

/// As an HTTP handler is: generic, spawned, with its own error.
fn handler<G: Gateway + 'static>(shop: Shop<G>) -> tokio::task::JoinHandle<Result<u64, String>> {
    tokio::spawn(async move {
        let run = async || -> Result<u64, BoxError> {
            let orders = [(1, "a".to_owned()), (2, "b".to_owned())];
            let batch = shop.batch(&orders).await as u64;
            Ok(shop.nested("ada", 7).await? + shop.joined(7).await? + shop.with_settings(7).await? + batch)
        };
        run().await.map_err(|error| error.to_string())
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shapes_of_users_are_send() {
    let idem = Hapax::memory().idempotency("test");
    let shop = Shop { idem, gateway: Arc::new(Fake), dynamic: Arc::new(Fake) };
    assert_eq!(handler(shop).await.unwrap(), Ok((7 + 1) + (7 + 1 + 1 + 1) + 7 + 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_futures_that_can_be_spawned_as_they_are() {
    let idem = Hapax::memory().idempotency("test");
    let call = tokio::spawn(idem.run("k", &1, async || Ok::<_, Infallible>(7)));
    assert_eq!(call.await.unwrap().unwrap(), Ok(7));
    let detached = idem.run("k", &1, async || Ok::<_, Infallible>(8)).detached();
    assert_eq!(tokio::spawn(detached).await.unwrap().unwrap(), Ok(7));
    let batch = idem.run_many([1, 2], |n| format!("k{n}"), async |n: u8| Ok::<_, Infallible>(n));
    assert_eq!(tokio::spawn(batch.into_future()).await.unwrap().len(), 2);
    let raced = tokio::select! {
        answer = idem.run("k", &1, async || Ok::<_, Infallible>(9)) => answer,
        () = std::future::pending() => unreachable!("the other one ends"),
    };
    assert_eq!(raced.unwrap(), Ok(7));
}

#[tokio::test]
async fn questions_of_both_layers_convert_into_common_error_types() {
    async fn into_anyhow(idem: &Idempotency) -> anyhow::Result<u64> {
        let effect = || async { anyhow::Ok(7) };
        let value = idem.run("k", &1, || effect().always_unknown()).await??;
        Ok(value)
    }
    async fn into_box(idem: &Idempotency) -> Result<u64, BoxError> {
        let effect = || async { Ok::<_, BoxError>(7) };
        let value = idem.run("k", &1, || effect().always_unknown()).await??;
        Ok(value)
    }
    async fn into_own(idem: &Idempotency) -> Result<u64, Own> {
        let effect = || async { Ok::<_, io::Error>(7) };
        Ok(idem.run("k", &1, || effect().by_default()).await??)
    }
    #[derive(Debug, thiserror::Error)]
    enum Own {
        #[error(transparent)]
        Hapax(#[from] IdempotencyError),
        #[error(transparent)]
        Io(#[from] io::Error),
    }
    let idem = Hapax::memory().idempotency("test");
    let all =
        (into_anyhow(&idem).await.unwrap(), into_box(&idem).await.unwrap(), into_own(&idem).await.unwrap());
    assert_eq!(all, (7, 7, 7));
}

#[tokio::test]
async fn closures_are_taken_in_every_form() {
    async fn item() -> Result<u8, Infallible> {
        Ok(1)
    }
    let idem = Hapax::memory().idempotency("test");
    let owned = String::from("owned");
    idem.run("a", &1, || async { Ok::<_, Infallible>(1) }).await.unwrap().unwrap();
    idem.run("b", &1, async || Ok::<_, Infallible>(1)).await.unwrap().unwrap();
    idem.run("c", stable_hash(&1), item).await.unwrap().unwrap();
    idem.run_with("d", Fingerprint::ANY, |_| item()).await.unwrap().unwrap();
    idem.run_with("e", &1, async |lease| Ok::<_, Infallible>(lease.is_lost())).await.unwrap().unwrap();
    let (key, moved) = (["f", &owned], owned.clone());
    idem.run(key, &owned, async move || Ok::<_, Infallible>(moved.len())).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn question_marks_in_an_effect_need_one_type() {
    async fn buy(idem: &Idempotency) -> anyhow::Result<u64> {
        let charge = async || -> io::Result<u64> { Ok(7) };
        let at_the_end = || {
            async {
                let charged = charge().await?;
                Ok::<_, io::Error>(charged)
            }
            .unknown_when(|e| e.kind() == io::ErrorKind::TimedOut)
        };
        let first = idem.run("a", &1, at_the_end).await??;
        let by_the_tail = || {
            async {
                charge().await?;
                charge().await
            }
            .failed_when(|e| e.kind() == io::ErrorKind::PermissionDenied)
        };
        let second = idem.run("b", &1, by_the_tail).await??;
        let on_the_closure = async || -> Result<u64, Classified<anyhow::Error>> {
            async { Ok(charge().await? + 1) }.always_unknown().await
        };
        let third = idem.run("c", &1, on_the_closure).await??;
        Ok(first + second + third)
    }
    let idem = Hapax::memory().idempotency("test");
    assert_eq!(tokio::spawn(async move { buy(&idem).await }).await.unwrap().unwrap(), 7 + 7 + 8);
}

#[tokio::test]
async fn calls_are_raced_and_joined_as_they_are() -> anyhow::Result<()> {
    let idem = Hapax::memory().idempotency("test");
    let limit = Duration::from_mins(1);
    assert_eq!(tokio::time::timeout(limit, idem.run("a", &1, async || Ok::<_, Infallible>(2))).await???, 2);
    let (b, c) = tokio::join!(
        idem.run("b", &1, async || Ok::<_, Infallible>(2)),
        idem.run("c", &1, async || Ok::<_, Infallible>(3)),
    );
    assert_eq!((b??, c??), (2, 3));
    Ok(())
}
