//! Services that cannot start.

use crate::support::{note, noted, notes, pass, plain};
use hapax_core::{BoxError, Category, Coded, Retry};
use hapax_service::{App, Ctx, ServiceError, ServiceErrorKind, State, StopCause};
use std::{cell::Cell, error::Error as _, io};

thread_local! {
    static TRIES: Cell<u32> = const { Cell::new(0) };
}

async fn broken(ctx: Ctx) -> io::Result<u8> {
    TRIES.set(TRIES.get() + 1);
    noted(&ctx, "broken");
    pass(1).await;
    Err(io::Error::other("no route"))
}

async fn middle(ctx: Ctx) -> anyhow::Result<u8> {
    Ok(ctx.load(broken).await?)
}

#[derive(Debug, thiserror::Error)]
enum Own {
    #[error(transparent)]
    Service(#[from] ServiceError),
}

async fn top(ctx: Ctx) -> Result<u8, Own> {
    noted(&ctx, "top");
    Ok(ctx.load(middle).await?)
}

fn names(app: App) -> App {
    app.name("middle", middle).name("broken", broken)
}

#[tokio::test(start_paused = true)]
async fn failed_start_is_told_with_the_way_to_it_through_any_error_type() {
    let report = names(App::new().boot("top", top)).run_until(std::future::pending::<()>()).await;
    assert_eq!((report.cause, report.exit_code()), (StopCause::StartFailed, 69));
    let problem = report.problem.as_ref().unwrap();
    assert_eq!(problem.code, "service.start_failed");
    assert_eq!(problem.message, "service `broken` could not start (top -> middle -> broken): no route");
    let states = report.services.iter().map(|service| (service.service, service.state));
    let failed = State::StartFailed;
    assert_eq!(states.collect::<Vec<_>>(), [("top", failed), ("middle", failed), ("broken", failed)]);
}

#[tokio::test(start_paused = true)]
async fn error_of_a_failed_start_answers_as_every_error_of_hapax() {
    let (loaded, _) = names(App::new().name("top", top)).run_with(async |ctx| ctx.load(top).await).await;
    let error = loaded.unwrap().unwrap_err();
    assert_eq!((error.code(), error.category()), ("service.start_failed", Category::Unavailable));
    assert_eq!((error.kind(), error.retry()), (ServiceErrorKind::Failed, Retry::Never));
    assert_eq!((error.service(), error.path()), ("broken", ["top", "middle", "broken"].as_slice()));
    assert_eq!(error.source().unwrap().to_string(), "no route");
}

#[tokio::test(start_paused = true)]
async fn words_that_a_service_adds_are_kept() {
    use anyhow::Context as _;
    async fn wordy(ctx: Ctx) -> anyhow::Result<u8> {
        ctx.load(broken).await.context("for the catalogue")
    }
    let report = names(App::new().boot("wordy", wordy)).run_until(std::future::pending::<()>()).await;
    let message = report.problem.unwrap().message;
    let expected = "service `broken` could not start (wordy -> broken): for the catalogue: \
                    service `broken` could not start: no route";
    assert_eq!(message, expected);
}

#[tokio::test(start_paused = true)]
async fn failure_of_its_own_is_not_mistaken_for_that_of_a_service_it_did_without() {
    async fn proud(ctx: Ctx) -> Result<(), BoxError> {
        ctx.load(broken).await.unwrap_err();
        Err("something else".into())
    }
    let report = names(App::new().boot("proud", proud)).run_until(std::future::pending::<()>()).await;
    assert_eq!(report.problem.unwrap().message, "service `proud` could not start: something else");
}

#[tokio::test(start_paused = true)]
async fn what_had_started_is_stopped_in_order_when_a_start_fails() {
    async fn early(ctx: Ctx) -> anyhow::Result<()> {
        ctx.load(plain).await?;
        noted(&ctx, "early");
        Ok(())
    }
    let app = names(App::new().boot("early", early).boot("broken", broken));
    // `broken` is booted, so it has its name already.
    assert_eq!(app.run_with(async |_| ()).await.1.problem.unwrap().code, "service.invalid");
    let report = App::new().boot("early", early).boot("broken", broken).run_until(pass(9)).await;
    assert_eq!(report.cause, StopCause::StartFailed);
    assert_eq!(notes(), ["+broken", "+plain", "+early", "-broken", "-early", "-plain"]);
    assert_eq!(report.service("early").unwrap().state, State::Stopped);
}

#[tokio::test(start_paused = true)]
async fn everybody_who_waits_is_told_after_the_hooks_have_run_and_whoever_comes_later_is_told_the_same() {
    let (errors, _) = App::new()
        .run_with(async |ctx| {
            let load = || async {
                let error = ctx.load(broken).await.unwrap_err();
                note("told");
                error.to_string()
            };
            let (a, b) = tokio::join!(load(), load());
            [a, b, load().await]
        })
        .await;
    let [a, b, later] = errors.unwrap();
    assert!(a == b && b == later);
    assert_eq!(notes(), ["+broken", "-broken", "told", "told", "told"]);
    assert_eq!(TRIES.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn failed_service_is_started_again_when_that_is_asked_for() {
    async fn third_time(ctx: Ctx) -> io::Result<u32> {
        TRIES.set(TRIES.get() + 1);
        noted(&ctx, "try");
        if TRIES.get() < 3 { Err(io::Error::other("not yet")) } else { Ok(TRIES.get()) }
    }
    let (loaded, report) = App::new()
        .name("third", third_time)
        .run_with(async |ctx| {
            ctx.load(third_time).await.unwrap_err();
            ctx.retry_start(third_time).await.unwrap_err();
            assert_eq!(ctx.retry_start(third_time).await.unwrap(), 3);
            // One that is there stays.
            assert_eq!(ctx.retry_start(third_time).await.unwrap(), 3);
            ctx.load(third_time).await.unwrap()
        })
        .await;
    assert_eq!(loaded, Some(3));
    assert!(report.is_clean());
    // A service that is tried for days is one line.
    assert_eq!(report.services.len(), 1);
    let third = report.service("third").unwrap();
    assert_eq!((third.state, third.starts), (State::Stopped, 3));
    assert_eq!(notes(), ["+try", "-try", "+try", "-try", "+try", "-try"]);
}

#[tokio::test(start_paused = true)]
async fn service_that_another_can_do_without_fails_alone() {
    async fn modest(ctx: Ctx) -> anyhow::Result<()> {
        noted(&ctx, "modest");
        if ctx.load(broken).await.is_err() {
            note("without");
        }
        Ok(())
    }
    let report = App::new().boot("modest", modest).run_until(pass(5)).await;
    assert!(report.is_clean() && report.start.is_some(), "{report}");
    assert_eq!(notes(), ["+modest", "+broken", "-broken", "without", "-modest"]);
}

#[tokio::test(start_paused = true)]
async fn panic_in_a_factory_is_the_failure_of_that_service() {
    async fn panics(ctx: Ctx) -> anyhow::Result<()> {
        noted(&ctx, "panics");
        panic!("on purpose {}", 1);
    }
    fn panics_at_once(_: Ctx) -> hapax_core::BoxFuture<'static, anyhow::Result<()>> {
        panic!("at once");
    }
    let (errors, report) = App::new()
        .name("panics", panics)
        .name("at once", panics_at_once)
        .run_with(async |ctx| {
            ctx.load(plain).await.unwrap();
            [ctx.load(panics).await.unwrap_err(), ctx.load(panics_at_once).await.unwrap_err()]
        })
        .await;
    for (error, text) in errors.unwrap().iter().zip(["on purpose 1", "at once"]) {
        assert_eq!((error.code(), error.source().unwrap().to_string().as_str()), ("service.panicked", text));
    }
    assert!(report.is_clean(), "{report}");
    assert_eq!(notes(), ["+plain", "+panics", "-panics", "-plain"]);
    let report = App::new().boot("panics", panics).run_until(pass(1)).await;
    assert_eq!(report.problem.unwrap().message, "service `panics` panicked while it started: on purpose 1");
}

#[tokio::test(start_paused = true)]
async fn hook_that_fails_does_not_hide_why_the_start_failed() {
    async fn both(ctx: Ctx) -> io::Result<()> {
        ctx.on_stop(async || Err::<(), _>(io::Error::other("the hook, too")));
        Err(io::Error::other("the start"))
    }
    let report = App::new().boot("both", both).run_until(pass(1)).await;
    let problems = &report.service("both").unwrap().problems;
    let codes: Vec<_> = problems.iter().map(|problem| problem.code).collect();
    assert_eq!(codes, ["service.start_failed", "service.stop_failed"]);
    assert_eq!(report.problem.unwrap().message, "service `both` could not start: the start");
}

#[tokio::test(start_paused = true)]
async fn main_that_panics_goes_on_panicking_once_everything_has_stopped() {
    use futures_util::FutureExt as _;
    let main = async |ctx: Ctx| {
        ctx.load(plain).await.unwrap();
        panic!("in main");
    };
    let app = std::panic::AssertUnwindSafe(App::new().run_with(main));
    let payload = app.catch_unwind().await.map(|(_, report)| report).unwrap_err();
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"in main"));
    assert_eq!(notes(), ["+plain", "-plain"]);
}

#[tokio::test(start_paused = true)]
async fn task_of_a_start_that_failed_holds_up_no_stop() {
    async fn fails_once(ctx: Ctx) -> io::Result<()> {
        TRIES.set(TRIES.get() + 1);
        if TRIES.get() > 1 {
            return Ok(());
        }
        tokio::spawn(async move {
            pass(1).await;
            ctx.load(plain).await.unwrap();
        });
        Err(io::Error::other("not yet"))
    }
    let (_, report) = App::new()
        .run_with(async |ctx| {
            ctx.load(fails_once).await.unwrap_err();
            ctx.retry_start(fails_once).await.unwrap();
            pass(2).await;
        })
        .await;
    assert!(report.is_clean() && report.stop.is_zero(), "{report}");
    assert_eq!(notes(), ["+plain", "-plain"]);
}
