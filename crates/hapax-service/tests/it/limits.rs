//! How long a start and a stop may take.

use crate::support::{note, noted, notes, pass, plain, secs, timed};
use hapax_service::{App, Ctx, State, StopCause};
use std::{future::pending, io};

struct Held(&'static str);

impl Drop for Held {
    fn drop(&mut self) {
        note(format!("{} dropped", self.0));
    }
}

async fn hangs(ctx: Ctx) -> io::Result<()> {
    noted(&ctx, "hangs");
    let _held = Held("start");
    pending().await
}

#[tokio::test(start_paused = true)]
async fn start_that_takes_too_long_is_dropped_before_its_hooks_run() {
    let app = App::new().boot("hangs", hangs).boot("plain", plain).each_start_within(secs(3));
    let report = app.run_until(pending::<()>()).await;
    let problem = report.problem.unwrap();
    assert_eq!(problem.code, "service.start_timeout");
    assert_eq!(problem.message, "service `hangs` did not start within its time");
    assert_eq!(notes(), ["+hangs", "+plain", "start dropped", "-hangs", "-plain"]);
}

#[tokio::test(start_paused = true)]
async fn start_that_waits_for_another_when_its_time_is_up_names_it() {
    async fn waits(ctx: Ctx) -> anyhow::Result<()> {
        ctx.load(hangs).await?;
        Ok(())
    }
    let app = App::new().boot("waits", waits).name("hangs", hangs).each_start_within(secs(3));
    let report = app.run_until(pending::<()>()).await;
    let message = "service `hangs` did not start within its time (waits -> hangs)";
    assert_eq!(report.problem.unwrap().message, message);
}

#[tokio::test(start_paused = true)]
async fn service_may_have_a_limit_of_its_own_for_its_start() {
    async fn patient(ctx: Ctx) -> io::Result<()> {
        ctx.start_within(secs(10));
        pass(9).await;
        Ok(())
    }
    async fn hasty(ctx: Ctx) -> io::Result<()> {
        ctx.start_within(secs(1));
        pending().await
    }
    let began = tokio::time::Instant::now();
    let (loaded, _) = App::new()
        .each_start_within(secs(5))
        .run_with(async |ctx| {
            ctx.load(patient).await.unwrap();
            ctx.load(hasty).await.unwrap_err().to_string()
        })
        .await;
    assert!(loaded.unwrap().ends_with("did not start within its time"));
    assert_eq!(began.elapsed(), secs(10));
}

#[tokio::test(start_paused = true)]
async fn hook_of_a_start_that_was_given_up_runs_at_once() {
    async fn spawns(ctx: Ctx) -> io::Result<()> {
        tokio::spawn(async move {
            pass(5).await;
            ctx.on_stop(async || note("late hook"));
            note("registered");
        });
        pending().await
    }
    let (_, report) = App::new()
        .name("spawns", spawns)
        .each_start_within(secs(1))
        .run_with(async |ctx| {
            ctx.load(spawns).await.unwrap_err();
            pass(9).await;
            note("end");
        })
        .await;
    assert_eq!(notes(), ["registered", "late hook", "end"]);
    assert_eq!(report.service("spawns").unwrap().state, State::StartFailed);
}

#[tokio::test(start_paused = true)]
async fn boot_that_takes_too_long_names_the_service_that_the_others_wait_for() {
    async fn waits(ctx: Ctx) -> anyhow::Result<()> {
        ctx.load(hangs).await?;
        Ok(())
    }
    let app = App::new().boot("plain", plain).boot("waits", waits).name("hangs", hangs).start_within(secs(3));
    let report = app.run_until(pending::<()>()).await;
    let problem = report.problem.as_ref().unwrap();
    assert_eq!((report.cause, problem.code), (StopCause::StartFailed, "service.start_timeout"));
    assert_eq!(problem.message, "service `hangs` did not start within its time (waits -> hangs)");
    assert_eq!(report.service("hangs").unwrap().state, State::Cancelled);
    assert_eq!(notes(), ["+plain", "+hangs", "-plain", "start dropped", "-hangs"]);
}

async fn never_stops(ctx: Ctx) -> anyhow::Result<()> {
    ctx.load(plain).await?;
    let (first, running) = (Held("first"), Held("running"));
    ctx.on_stop(async move || {
        let _held = &first;
        note("does not run");
    });
    ctx.on_stop(async move || {
        let _held = &running;
        pending::<()>().await;
    });
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn service_whose_time_is_up_holds_up_nobody() {
    let (report, took) = timed(App::new().boot("never", never_stops).each_stop_within(secs(2))).await;
    assert_eq!(took, secs(2), "{report}");
    assert_eq!(report.exit_code(), 124);
    let never = report.service("never").unwrap();
    assert_eq!((never.state, never.problems[0].code), (State::StopTimedOut, "service.stop_timeout"));
    let text = "service `never` had not stopped after 2000 ms; 1 more hooks did not run";
    assert_eq!(never.problems[0].message, text);
    assert_eq!(notes(), ["+plain", "running dropped", "first dropped", "-plain"]);
}

#[tokio::test(start_paused = true)]
async fn service_may_have_a_limit_of_its_own_for_its_stop() {
    async fn slow(ctx: Ctx) -> io::Result<()> {
        ctx.stop_within(secs(8));
        ctx.on_stop(async || pass(7).await);
        Ok(())
    }
    let (report, took) = timed(App::new().boot("slow", slow).each_stop_within(secs(2))).await;
    assert_eq!((took, report.is_clean()), (secs(7), true), "{report}");
}

#[tokio::test(start_paused = true)]
async fn application_stops_within_its_time_whatever_its_services_do() {
    async fn slow(ctx: Ctx) -> anyhow::Result<()> {
        ctx.load(never_stops).await?;
        ctx.stop_within(secs(60));
        ctx.on_stop(async || pass(7).await);
        Ok(())
    }
    let app =
        App::new().boot("slow", slow).name("never", never_stops).name("plain", plain).stop_within(secs(10));
    let (report, took) = timed(app).await;
    assert_eq!((took, report.exit_code()), (secs(10), 124), "{report}");
    let state = |name| report.service(name).unwrap().state;
    assert_eq!([state("slow"), state("never")], [State::Stopped, State::StopTimedOut]);
    // It would have been next.
    let plain = report.service("plain").unwrap();
    assert_eq!(plain.state, State::StopTimedOut);
    assert!(plain.problems[0].message.contains("1 hooks did not run"), "{report}");
    assert!(!notes().contains(&"-plain".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn hooks_know_how_much_time_is_left() {
    async fn asks(ctx: Ctx) -> io::Result<()> {
        let hook = ctx.clone();
        assert_eq!(ctx.time_left(), None);
        ctx.on_stop(async move || {
            note(format!("{:?}", hook.time_left().unwrap()));
            pass(1).await;
            note(format!("{:?}", hook.time_left().unwrap()));
        });
        Ok(())
    }
    async fn above(ctx: Ctx) -> anyhow::Result<()> {
        ctx.load(asks).await?;
        ctx.on_stop(async || pass(4).await);
        Ok(())
    }
    let app = App::new().boot("above", above).stop_within(secs(10));
    assert!(timed(app).await.0.is_clean());
    assert_eq!(notes(), ["6s", "5s"]);
    let app = App::new().boot("above", above).stop_within(secs(10)).each_stop_within(secs(5));
    assert!(timed(app).await.0.is_clean());
    assert_eq!(notes(), ["5s", "4s"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn factory_and_hook_that_block_their_threads_hold_up_nobody() {
    use std::sync::{Condvar, Mutex};
    static OVER: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());
    fn block() {
        let over = OVER.0.lock().unwrap();
        drop(OVER.1.wait_while(over, |over| !*over).unwrap());
    }
    async fn blocks_start(_: Ctx) -> io::Result<()> {
        block();
        Ok(())
    }
    async fn blocks_stop(ctx: Ctx) -> io::Result<()> {
        ctx.on_stop(async || block());
        Ok(())
    }
    let limit = std::time::Duration::from_millis(200);
    let app = App::new().boot("start", blocks_start).boot("stop", blocks_stop).each_start_within(limit);
    let report = app.stop_within(limit * 4).each_stop_within(limit).run_until(pending::<()>()).await;
    *OVER.0.lock().unwrap() = true;
    OVER.1.notify_all();
    assert_eq!(report.problem.as_ref().unwrap().code, "service.start_timeout");
    assert_eq!(report.service("stop").unwrap().state, State::StopTimedOut, "{report}");
}
