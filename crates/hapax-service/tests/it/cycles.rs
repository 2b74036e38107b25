//! Services that load each other. An `async fn` that does is refused by the compiler; a boxed one is not.

use crate::support::{noted, notes, pass, secs};
use hapax_core::{BoxError, BoxFuture, Coded};
use hapax_service::{App, Ctx, ServiceErrorKind};
use tokio::time::timeout;

type Loaded = Result<u8, BoxError>;

fn itself(ctx: Ctx) -> BoxFuture<'static, Loaded> {
    Box::pin(async move {
        noted(&ctx, "itself");
        Ok(ctx.load(itself).await?)
    })
}

fn a(ctx: Ctx) -> BoxFuture<'static, Loaded> {
    Box::pin(async move {
        noted(&ctx, "a");
        pass(1).await;
        Ok(ctx.load(b).await?)
    })
}

fn b(ctx: Ctx) -> BoxFuture<'static, Loaded> {
    Box::pin(async move {
        noted(&ctx, "b");
        pass(1).await;
        Ok(ctx.load(c).await?)
    })
}

fn c(ctx: Ctx) -> BoxFuture<'static, Loaded> {
    Box::pin(async move {
        noted(&ctx, "c");
        pass(1).await;
        Ok(ctx.load(a).await?)
    })
}

fn app() -> App {
    App::new().name("a", a).name("b", b).name("c", c).name("itself", itself)
}

#[tokio::test(start_paused = true)]
async fn cycle_is_told_with_the_way_around() {
    let (loaded, report) = app().run_with(async |ctx| ctx.load(a).await).await;
    let error = loaded.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.code()), (ServiceErrorKind::Cycle, "service.cycle"));
    assert_eq!(error.path(), ["a", "b", "c", "a"]);
    assert_eq!(error.to_string(), "services load each other: a -> b -> c -> a");
    assert!(report.services.iter().all(|service| service.problems[0].code == "service.cycle"), "{report}");
    assert_eq!(notes(), ["+a", "+b", "+c", "-c", "-b", "-a"]);
}

#[tokio::test(start_paused = true)]
async fn service_that_loads_itself_is_told() {
    let (loaded, _) = app().run_with(async |ctx| ctx.load(itself).await).await;
    assert_eq!(loaded.unwrap().unwrap_err().path(), ["itself", "itself"]);
}

#[tokio::test(start_paused = true)]
async fn cycle_that_forms_when_all_load_at_the_same_time_does_not_hang() {
    let app = App::new().boot("a", a).boot("b", b).boot("c", c);
    let report = timeout(secs(60), app.run_until(std::future::pending::<()>())).await.unwrap();
    let problem = report.problem.unwrap();
    assert_eq!(problem.code, "service.cycle");
    // Whoever came last closed it.
    let ways = ["a -> b -> c -> a", "b -> c -> a -> b", "c -> a -> b -> c"];
    assert!(ways.iter().any(|way| problem.message.ends_with(way)), "{}", problem.message);
    let mut all = notes();
    all.sort();
    assert_eq!(all, ["+a", "+b", "+c", "-a", "-b", "-c"]);
}

mod threads {
    use super::*;
    use std::sync::LazyLock;
    use tokio::sync::Barrier;

    static BOTH: LazyLock<Barrier> = LazyLock::new(|| Barrier::new(2));

    fn left(ctx: Ctx) -> BoxFuture<'static, Loaded> {
        Box::pin(async move {
            BOTH.wait().await;
            Ok(ctx.load(right).await?)
        })
    }

    fn right(ctx: Ctx) -> BoxFuture<'static, Loaded> {
        Box::pin(async move {
            BOTH.wait().await;
            Ok(ctx.load(left).await?)
        })
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn two_that_load_each_other_on_two_threads_are_told_and_do_not_hang() {
        for _ in 0..200 {
            let app = App::new().boot("left", left).boot("right", right);
            let report = timeout(secs(30), app.run_until(std::future::pending::<()>())).await.unwrap();
            assert_eq!(report.problem.unwrap().code, "service.cycle");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn load_that_closes_a_circle_when_all_are_ready_is_refused() {
    fn upper(ctx: Ctx) -> BoxFuture<'static, Loaded> {
        Box::pin(async move { Ok(ctx.load(lower).await?) })
    }
    fn lower(ctx: Ctx) -> BoxFuture<'static, Loaded> {
        Box::pin(async move {
            tokio::spawn(async move {
                pass(1).await;
                let error = ctx.load(upper).await.unwrap_err();
                assert_eq!(error.path(), ["upper", "lower", "upper"]);
                noted(&ctx, "told");
            });
            Ok(1)
        })
    }
    let app = App::new().boot("upper", upper).name("lower", lower);
    assert!(app.run_until(pass(2)).await.is_clean());
    assert_eq!(notes(), ["+told", "-told"]);
}
