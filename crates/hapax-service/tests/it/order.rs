//! In which order services stop.

use crate::support::{note, noted, notes, pass, secs};
use hapax_core::BoxFuture;
use hapax_service::{App, Ctx};
use std::sync::Arc;
use tokio::time::Instant;

async fn store(ctx: Ctx) -> anyhow::Result<u8> {
    noted(&ctx, "store");
    Ok(7)
}

#[tokio::test(start_paused = true)]
async fn service_stops_before_what_it_loaded_however_early_its_hooks_came() {
    async fn worker(ctx: Ctx) -> anyhow::Result<()> {
        noted(&ctx, "worker");
        assert_eq!(ctx.load(store).await?, 7);
        Ok(())
    }
    let report = App::new().boot("worker", worker).name("store", store).run_until(pass(1)).await;
    assert!(report.is_clean(), "{report}");
    assert_eq!(notes(), ["+worker", "+store", "-worker", "-store"]);
    assert_eq!(report.service("worker").unwrap().loads, ["store"]);
}

#[tokio::test(start_paused = true)]
async fn hooks_of_a_service_run_last_in_first_out() {
    async fn service(ctx: Ctx) -> anyhow::Result<()> {
        for n in 1..=3 {
            ctx.on_stop(async move || note(n.to_string()));
        }
        Ok(())
    }
    assert!(App::new().boot("service", service).run_with(async |_| ()).await.1.is_clean());
    assert_eq!(notes(), ["3", "2", "1"]);
}

async fn left(ctx: Ctx) -> anyhow::Result<()> {
    ctx.load(store).await?;
    ctx.on_stop(async || pass(1).await);
    noted(&ctx, "left");
    Ok(())
}

async fn right(ctx: Ctx) -> anyhow::Result<()> {
    ctx.load(store).await?;
    ctx.on_stop(async || pass(2).await);
    noted(&ctx, "right");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn shared_service_starts_once_and_stops_when_the_last_of_those_that_loaded_it_has_stopped() {
    async fn top(ctx: Ctx) -> anyhow::Result<()> {
        tokio::try_join!(ctx.load(left), ctx.load(right), ctx.load(store))?;
        ctx.on_stop(async || pass(1).await);
        noted(&ctx, "top");
        Ok(())
    }
    let report = App::new().boot("top", top).boot("left", left).run_with(async |_| ()).await.1;
    assert!(report.is_clean(), "{report}");
    let notes = notes();
    let (starts, stops) = notes.split_at(4);
    assert_eq!((&*starts[0], &*starts[3]), ("+store", "+top"));
    assert_eq!(stops, ["-top", "-left", "-right", "-store"]);
    // The top, then both sides at the same time.
    assert_eq!(report.stop, secs(3));
    assert_eq!(report.services.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn services_that_have_nothing_to_do_with_each_other_stop_side_by_side() {
    let began = Instant::now();
    let report = App::new().boot("left", left).boot("right", right).run_with(async |_| ()).await.1;
    assert!(report.is_clean(), "{report}");
    assert_eq!(began.elapsed(), secs(2));
    assert_eq!(report.service("left").unwrap().stop, Some(secs(1)));
}

#[tokio::test(start_paused = true)]
async fn service_that_a_task_loads_later_stops_after_the_service_of_the_task() {
    async fn lazy(ctx: Ctx) -> anyhow::Result<()> {
        noted(&ctx, "lazy");
        let later = ctx.clone();
        tokio::spawn(async move {
            pass(1).await;
            later.load(store).await.unwrap();
        });
        Ok(())
    }
    async fn independent(ctx: Ctx) -> anyhow::Result<()> {
        ctx.load(store).await?;
        Ok(())
    }
    let app = App::new().boot("lazy", lazy);
    assert!(app.run_until(pass(2)).await.is_clean());
    assert_eq!(notes(), ["+lazy", "+store", "-lazy", "-store"]);
    // It may have been there for long when the task asks for it.
    let app = App::new().boot("independent", independent).boot("lazy", lazy);
    assert!(app.run_until(pass(2)).await.is_clean());
    assert_eq!(notes(), ["+lazy", "+store", "-lazy", "-store"]);
}

#[tokio::test(start_paused = true)]
async fn value_is_dropped_after_the_hooks_of_its_service_and_before_what_it_loaded_stops() {
    struct Noting;
    impl Drop for Noting {
        fn drop(&mut self) {
            note("value dropped");
        }
    }
    async fn holder(ctx: Ctx) -> anyhow::Result<Arc<Noting>> {
        noted(&ctx, "holder");
        ctx.load(store).await?;
        Ok(Arc::new(Noting))
    }
    assert!(App::new().boot("holder", holder).run_with(async |_| ()).await.1.is_clean());
    assert_eq!(notes(), ["+holder", "+store", "-holder", "value dropped", "-store"]);
}

/// Of many services, each loads some of those before it, all at once.
mod many {
    use super::*;
    use std::{collections::HashMap, sync::Mutex};

    static STOPPED: Mutex<Vec<u8>> = Mutex::new(Vec::new());
    const COUNT: u8 = 24;

    /// A function for each number. Boxed: each of them names all the others.
    fn numbered<const N: u8>(ctx: Ctx) -> BoxFuture<'static, anyhow::Result<u8>> {
        Box::pin(async move {
            ctx.on_stop(async || {
                tokio::task::yield_now().await;
                STOPPED.lock().unwrap().push(N);
            });
            macro_rules! load {
                ($($n:literal)*) => {
                    $(if needs(N, $n) { ctx.load(numbered::<$n>).await?; })*
                };
            }
            load!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22);
            Ok(N)
        })
    }

    fn needs(n: u8, other: u8) -> bool {
        other < n && (u32::from(n) * 31 + u32::from(other) * 17) % 3 == 0
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn of_many_services_on_many_threads_each_stops_before_what_it_loaded() {
        let report = App::new()
            .boot("a", numbered::<23>)
            .boot("b", numbered::<22>)
            .boot("c", numbered::<21>)
            .boot("d", numbered::<20>)
            .run_with(async |_| ())
            .await
            .1;
        assert!(report.is_clean(), "{report}");
        let stopped = STOPPED.lock().unwrap().clone();
        assert!(stopped.len() > 12, "{stopped:?}");
        let places: HashMap<u8, usize> = stopped.iter().enumerate().map(|(at, n)| (*n, at)).collect();
        assert_eq!(places.len(), stopped.len(), "one stopped twice");
        for n in 0..COUNT {
            for other in (0..n).filter(|other| needs(n, *other)) {
                if let (Some(at), Some(before)) = (places.get(&other), places.get(&n)) {
                    assert!(before < at, "{other} stopped before {n}: {stopped:?}");
                }
            }
        }
    }
}
