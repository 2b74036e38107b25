//! tower layers around a handler.
//!
//! The jobs of a worker go through one service, one after the other until it is ready and called, and side by side from
//! then on. What stands around the layers (the lease, time limits, keys) knows nothing of them: they are a handler.

use super::{
    job::told,
    raw::{Halt, Handler, Outcome, RawJob},
};
use futures_util::future::poll_fn;
use hapax_core::{BoxError, BoxFuture, async_trait};
use std::{
    convert::Infallible,
    fmt,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::sync::Mutex;
use tower_layer::Layer;
use tower_service::Service;

/// The handler of a worker as a tower service, which [`WorkerBuilder::layer`](super::WorkerBuilder::layer) wraps. It is
/// always ready and never fails: how a job ends is its [`Outcome`].
#[derive(Clone)]
pub struct JobService {
    handler: Arc<dyn Handler>,
    /// No layer stands between it and the handler.
    innermost: bool,
}

impl fmt::Debug for JobService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobService").finish_non_exhaustive()
    }
}

impl Service<RawJob> for JobService {
    type Response = Outcome;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Outcome, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, job: RawJob) -> Self::Future {
        let (handler, innermost) = (Arc::clone(&self.handler), self.innermost);
        Box::pin(async move {
            if innermost {
                job.turn.begin();
            }
            Ok(handler.handle(job).await)
        })
    }
}

/// A handler with a layer around it.
pub(super) struct Layered<S> {
    service: Mutex<S>,
    keeps_time: bool,
}

impl<S> Layered<S> {
    pub(super) fn new<L: Layer<JobService, Service = S>>(
        layer: &L,
        handler: Arc<dyn Handler>,
        innermost: bool,
    ) -> Self {
        let keeps_time = handler.keeps_time();
        Self { service: Mutex::new(layer.layer(JobService { handler, innermost })), keeps_time }
    }
}

#[async_trait]
impl<S> Handler for Layered<S>
where
    S: Service<RawJob, Response = Outcome> + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    fn keeps_time(&self) -> bool {
        self.keeps_time
    }

    async fn handle(&self, job: RawJob) -> Outcome {
        let (turn, control, uid) = (job.turn.clone(), job.control.clone(), job.taken.uid);
        let not_now = |why: &dyn fmt::Display| {
            tracing::debug!("job {uid} is put off: {why}");
            Outcome::Snooze { by: Duration::ZERO }
        };
        let start = async {
            let mut service = self.service.lock().await;
            poll_fn(|cx| service.poll_ready(cx).map_err(Into::into)).await?;
            Ok::<_, BoxError>(service.call(job))
        };
        let started = tokio::select! {
            halt = control.halted() => {
                if halt == Halt::Stopping {
                    // It has not begun: the worker gives it back.
                    std::future::pending::<()>().await;
                }
                return not_now(&halt);
            }
            started = tokio::time::timeout(turn.patience, start) => started,
        };
        let ended = match started {
            Ok(Ok(call)) => call.await.map_err(Into::into),
            Ok(Err(error)) => Err(error),
            Err(_) => return not_now(&"the layers around its handler were not ready for the whole lease"),
        };
        ended.unwrap_or_else(|error: BoxError| {
            let error = told(&*error);
            if turn.has_begun() { Outcome::Broken { error } } else { not_now(&error) }
        })
    }
}
