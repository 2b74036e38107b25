//! The stop that comes while services start, and the time before the first hook.

use crate::support::{note, noted, notes, pass, plain, secs};
use hapax_core::Coded;
use hapax_service::{App, Ctx, State};
use std::{future::pending, io};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn stop_while_services_start_stops_what_has_started_in_order() {
    async fn store(ctx: Ctx) -> anyhow::Result<()> {
        noted(&ctx, "store");
        Ok(())
    }
    async fn hangs(ctx: Ctx) -> anyhow::Result<()> {
        ctx.load(store).await?;
        noted(&ctx, "hangs");
        pending().await
    }
    async fn waits(ctx: Ctx) -> anyhow::Result<()> {
        noted(&ctx, "waits");
        ctx.load(hangs).await?;
        note("never");
        Ok(())
    }
    let app = App::new().boot("waits", waits).name("hangs", hangs).name("store", store);
    let report = app.run_until(pass(1)).await;
    assert!(report.is_clean() && report.start.is_none(), "{report}");
    assert_eq!(notes(), ["+waits", "+store", "+hangs", "-waits", "-hangs", "-store"]);
    let state = |name| report.service(name).unwrap().state;
    assert_eq!(
        [state("waits"), state("hangs"), state("store")],
        [State::Cancelled, State::Cancelled, State::Stopped]
    );
    // Who waits is told at once; the one that hangs had a fifth of the time.
    assert_eq!(report.stop, secs(5));
}

#[tokio::test(start_paused = true)]
async fn factory_that_listens_ends_when_it_likes() {
    async fn listens(ctx: Ctx) -> io::Result<()> {
        noted(&ctx, "listens");
        tokio::select! {
            () = ctx.stopping() => Err(io::ErrorKind::Interrupted.into()),
            () = pass(100) => Ok(()),
        }
    }
    let report = App::new().boot("listens", listens).run_until(pass(1)).await;
    assert_eq!((report.stop, report.is_clean()), (secs(0), true), "{report}");
    assert_eq!(report.service("listens").unwrap().state, State::Cancelled);
    assert_eq!(notes(), ["+listens", "-listens"]);
}

#[tokio::test(start_paused = true)]
async fn factory_that_comes_to_its_end_in_time_is_stopped_as_any_other() {
    async fn finishes(ctx: Ctx) -> io::Result<()> {
        noted(&ctx, "finishes");
        pass(3).await;
        note("made");
        ctx.on_stop(async || note("-made"));
        Ok(())
    }
    let report = App::new().boot("finishes", finishes).run_until(pass(1)).await;
    assert_eq!(report.service("finishes").unwrap().state, State::Stopped);
    assert_eq!(notes(), ["+finishes", "made", "-made", "-finishes"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_starts_once_the_stop_has_begun() {
    async fn late(ctx: Ctx) -> io::Result<()> {
        let hook = ctx.clone();
        ctx.on_stop(async move || note(hook.load(plain).await.unwrap_err().code()));
        Ok(())
    }
    assert!(App::new().boot("late", late).run_with(async |_| ()).await.1.is_clean());
    assert_eq!(notes(), ["service.stopping"]);
}

async fn worker(ctx: Ctx) -> io::Result<()> {
    for n in 0..3 {
        let stopping = ctx.stopping();
        tokio::spawn(async move {
            stopping.await;
            note(format!("task {n} told"));
        });
    }
    let began = Instant::now();
    let flag = ctx.clone();
    assert!(!ctx.is_stopping());
    ctx.on_stop(async move || {
        assert!(flag.is_stopping());
        note(format!("hook after {:?}", began.elapsed()));
    });
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn stopping_is_over_before_any_hook_runs() {
    assert!(App::new().boot("worker", worker).run_until(pass(1)).await.is_clean());
    assert_eq!(notes(), ["task 0 told", "task 1 told", "task 2 told", "hook after 1s"]);
}

#[tokio::test(start_paused = true)]
async fn first_hook_waits_for_the_drain() {
    let report = App::new().boot("worker", worker).drain_for(secs(4)).run_until(pass(1)).await;
    assert!(report.is_clean());
    assert_eq!(notes()[3], "hook after 5s");
    // It is a part of the time to stop.
    let app = App::new().boot("worker", worker).drain_for(secs(4)).stop_within(secs(2)).run_until(pass(1));
    assert_eq!(app.await.stop, secs(2));
}

#[tokio::test(start_paused = true)]
async fn application_that_was_not_ready_has_nothing_to_drain() {
    async fn hangs(_: Ctx) -> io::Result<()> {
        pending().await
    }
    let report = App::new().boot("hangs", hangs).drain_for(secs(20)).run_until(async {}).await;
    assert_eq!((report.stop, report.is_clean()), (secs(5), true), "{report}");
}
