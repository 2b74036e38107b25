//! What services note while they run. A factory captures nothing, so the notes are those of the thread, which the runtime
//! of a test and its tasks do not leave.

use hapax_service::{App, Ctx};
use std::{cell::RefCell, time::Duration};
use tokio::time::Instant;

thread_local! {
    static NOTES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn note(text: impl Into<String>) {
    NOTES.with_borrow_mut(|notes| notes.push(text.into()));
}

pub(crate) fn notes() -> Vec<String> {
    NOTES.take()
}

pub(crate) fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) async fn pass(seconds: u64) {
    tokio::time::sleep(secs(seconds)).await;
}

/// Notes its name when it starts, and when it stops.
pub(crate) fn noted(ctx: &Ctx, name: &'static str) {
    note(format!("+{name}"));
    ctx.on_stop(async move || note(format!("-{name}")));
}

/// A service without a value that loads nothing.
pub(crate) async fn plain(ctx: Ctx) -> anyhow::Result<()> {
    noted(&ctx, "plain");
    Ok(())
}

/// How long an application took that stops as soon as it is ready.
pub(crate) async fn timed(app: App) -> (hapax_service::Report, Duration) {
    let began = Instant::now();
    let (_, report) = app.run_with(async |_| ()).await;
    (report, began.elapsed())
}
