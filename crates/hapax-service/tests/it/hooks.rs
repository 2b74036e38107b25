//! Hooks that do not do what they should.

use crate::support::{note, noted, notes, pass, plain};
use hapax_service::{App, Ctx, State};
use std::io;

fn panics_at_once() -> std::future::Ready<()> {
    panic!("at once")
}

#[tokio::test(start_paused = true)]
async fn hook_that_fails_or_panics_is_reported_and_everything_else_stops() {
    async fn service(ctx: Ctx) -> anyhow::Result<()> {
        ctx.load(plain).await?;
        noted(&ctx, "service");
        ctx.on_stop(async || Err::<(), _>(io::Error::other("disk full")));
        ctx.on_stop(async || -> () { panic!("on purpose") });
        ctx.on_stop(panics_at_once);
        Ok(())
    }
    let report = App::new().boot("service", service).run_with(async |_| ()).await.1;
    assert_eq!(report.exit_code(), 70);
    let service = report.service("service").unwrap();
    assert_eq!(service.state, State::StopFailed);
    let problems: Vec<_> =
        service.problems.iter().map(|problem| (problem.code, problem.message.as_str())).collect();
    let expected = [
        ("service.panicked", "a stop hook of service `service` panicked: at once"),
        ("service.panicked", "a stop hook of service `service` panicked: on purpose"),
        ("service.stop_failed", "a stop hook of service `service` failed: disk full"),
    ];
    assert_eq!(problems, expected);
    assert_eq!(notes(), ["+plain", "+service", "-service", "-plain"]);
}

#[tokio::test(start_paused = true)]
async fn hook_that_comes_while_hooks_run_is_next() {
    async fn service(ctx: Ctx) -> io::Result<()> {
        ctx.on_stop(async || note("first"));
        let again = ctx.clone();
        ctx.on_stop(async move || {
            again.on_stop(async || note("from a hook"));
            note("last");
        });
        Ok(())
    }
    assert!(App::new().boot("service", service).run_with(async |_| ()).await.1.is_clean());
    assert_eq!(notes(), ["last", "from a hook", "first"]);
}

#[tokio::test(start_paused = true)]
async fn hook_that_comes_when_its_service_has_stopped_runs_and_is_waited_for() {
    async fn store(ctx: Ctx) -> io::Result<()> {
        ctx.on_stop(async || pass(2).await);
        Ok(())
    }
    async fn service(ctx: Ctx) -> anyhow::Result<()> {
        ctx.load(store).await?;
        let stopping = ctx.stopping();
        tokio::spawn(async move {
            stopping.await;
            pass(1).await;
            ctx.on_stop(async || {
                pass(3).await;
                note("late");
                Err::<(), _>(io::Error::other("too late"))
            });
        });
        Ok(())
    }
    let report = App::new().boot("service", service).run_with(async |_| ()).await.1;
    assert_eq!(notes(), ["late"]);
    let service = report.service("service").unwrap();
    assert_eq!((service.state, service.problems[0].code), (State::StopFailed, "service.stop_failed"));
}

#[tokio::test(start_paused = true)]
async fn value_that_panics_when_it_is_dropped_fails_its_service_alone() {
    #[derive(Clone)]
    struct Explosive;
    impl Drop for Explosive {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    async fn service(ctx: Ctx) -> anyhow::Result<std::sync::Arc<Explosive>> {
        ctx.load(plain).await?;
        Ok(std::sync::Arc::new(Explosive))
    }
    let report = App::new().boot("service", service).run_until(pass(1)).await;
    assert_eq!(report.service("service").unwrap().state, State::StopFailed, "{report}");
    assert_eq!(notes(), ["+plain", "-plain"]);
}
