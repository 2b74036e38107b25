//! Applications that are dropped, and what is left of them.

use crate::support::{note, notes, pass, secs};
use hapax_service::{App, Ctx};
use std::{future::pending, io, sync::Arc};
use tokio::time::timeout;

struct Held;

impl Drop for Held {
    fn drop(&mut self) {
        note("dropped");
    }
}

/// What it gives out holds its context, which knows everything else.
#[derive(Clone)]
struct Value {
    _ctx: Ctx,
    _held: Arc<Held>,
}

async fn holder(ctx: Ctx) -> io::Result<Value> {
    let hook = ctx.clone();
    ctx.on_stop(async move || drop(hook));
    Ok(Value { _ctx: ctx, _held: Arc::new(Held) })
}

async fn hangs(ctx: Ctx) -> anyhow::Result<()> {
    let _value = ctx.load(holder).await?;
    let _held = Held;
    pending().await
}

#[tokio::test(start_paused = true)]
async fn application_that_is_dropped_leaves_nothing_running_and_nothing_behind() {
    let app = App::new().boot("hangs", hangs).run_until(pending::<()>());
    assert!(timeout(secs(1), app).await.is_err());
    pass(1).await;
    assert_eq!(notes(), ["dropped", "dropped"]);
}

#[tokio::test(start_paused = true)]
async fn application_that_has_ended_leaves_nothing_behind() {
    let report = App::new().boot("holder", holder).run_until(pass(1)).await;
    assert!(report.is_clean());
    assert_eq!(notes(), ["dropped"]);
}

#[test]
fn applications_can_be_spawned() {
    fn spawned<T: Send + 'static>(_: impl Future<Output = T> + Send + 'static) {}
    let app = || App::new().boot("hangs", hangs).boot("holder", holder);
    spawned(app().run());
    spawned(app().run_until(async {}));
    spawned(app().run_with(async |ctx| ctx.load(hangs).await));
}
