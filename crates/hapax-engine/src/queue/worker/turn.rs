//! One run of a handler: it always ends, by an outcome, by a panic, or by its time-out.

use crate::queue::raw::{Handler, Outcome, RawJob, Settled};
use futures_util::FutureExt;
use std::{any::Any, panic::AssertUnwindSafe, sync::Arc, time::Duration};

/// Runs a handler. Dropping the future drops the handler.
pub(in crate::queue) async fn run_handler(
    handler: &Arc<dyn Handler>,
    job: RawJob,
    limit: Option<Duration>,
) -> Settled {
    // The future is made in there, too: a handler may panic before it returns one.
    let running = AssertUnwindSafe(async { handler.settle(job).await }).catch_unwind();
    let ended = match limit {
        Some(limit) => match tokio::time::timeout(limit, running).await {
            Ok(ended) => ended,
            Err(_) => return Outcome::Broken { error: format!("it took longer than {limit:?}") }.into(),
        },
        None => running.await,
    };
    ended.unwrap_or_else(|panic| {
        Outcome::Broken { error: format!("the handler panicked: {}", text(&*panic)) }.into()
    })
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a text")
}
