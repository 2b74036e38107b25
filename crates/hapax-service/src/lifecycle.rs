//! One service, from the call of its factory to the end of its last hook: a task for each.

use crate::{
    Ctx,
    container::Container,
    error::{Panic, ServiceError, ServiceErrorKind, in_full},
    event::Event,
    graph::ROOT,
    hook::{Hook, HookFault},
    report::{Problem, State},
    service::{Progress, Service, Value},
};
use hapax_core::{BoxError, BoxFuture};
use std::{sync::Arc, time::Duration};
use tokio::{
    task::JoinError,
    time::{Instant, timeout_at},
};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

type Started = Result<Result<Value, BoxError>, JoinError>;

/// How long a factory or a hook that was dropped is waited for. One that is dropped at an await is gone at once; one that blocks its
/// thread cannot be dropped.
const GONE: Duration = Duration::from_millis(100);

/// Starts the service, and stops it when it may.
pub(crate) async fn live(
    container: Arc<Container>,
    service: Arc<Service>,
    ctx: Ctx,
    factory: Box<dyn FnOnce(Ctx) -> BoxFuture<'static, Result<Value, BoxError>> + Send>,
) {
    container.tell(&Event::Starting { service: service.name });
    let span = tracing::info_span!("service", name = service.name);
    // A task of its own: a factory that panics, or blocks, does so there. It is called there, too.
    let factory = async move { factory(ctx).await };
    let mut start = AbortOnDropHandle::new(container.runtime.spawn(factory.instrument(span)));
    let (error, state) = tokio::select! {
        biased;
        started = &mut start => match ended(&service, started) {
            Ok(value) => {
                let took = service.began.elapsed();
                service.note(|record| record.start = Some(took));
                container.tell(&Event::Ready { service: service.name, took });
                service.progress.send_replace(Progress::Ready(value));
                return stop_when_told(container, service).await;
            }
            Err(error) => (error, State::StartFailed),
        },
        () = time_is_up(&service) => {
            // Which may be that of a service that it waits for.
            let mut path = vec![service.name];
            path.extend(container.graph().way_to_the_slowest(service.id));
            (ServiceError::new(ServiceErrorKind::TimedOut, path), State::StartFailed)
        }
        () = service.give_up.cancelled() => {
            (ServiceError::new(ServiceErrorKind::Stopping, vec![service.name]), State::Cancelled)
        }
    };
    // What a factory says that was told to stop is no failure of its own.
    let cancelled = container.stopping.is_cancelled() && error.kind() != ServiceErrorKind::Panicked;
    let state = if cancelled { State::Cancelled } else { state };
    if !start.is_finished() {
        start.abort();
        let _ = timeout_at(Instant::now() + GONE, &mut start).await;
    }
    unwind(&container, &service).await;
    service.note(|record| {
        record.state = Some(state);
        record.problems.insert(0, Problem::of(&error));
    });
    if state == State::StartFailed {
        container.tell(&Event::StartFailed { service: service.name, error: error.clone() });
    } else {
        let took = service.record().stop.unwrap_or_default();
        container.tell(&Event::Stopped { service: service.name, state, took });
    }
    service.progress.send_replace(Progress::Failed(error));
}

fn ended(service: &Service, started: Started) -> Result<Value, ServiceError> {
    let error = match started {
        Ok(Ok(value)) => return service.take_invalid().map_or(Ok(value), Err),
        Ok(Err(error)) => ServiceError::of_factory(service.name, error, &service.refused()),
        Err(gone) => match gone.try_into_panic() {
            Ok(payload) => {
                ServiceError::because(ServiceErrorKind::Panicked, service.name, Panic::of(&*payload))
            }
            // The runtime ends.
            Err(_) => ServiceError::new(ServiceErrorKind::Stopping, vec![service.name]),
        },
    };
    Err(service.take_invalid().unwrap_or(error))
}

/// Over when the start takes longer than it may, also when that is said while it runs.
async fn time_is_up(service: &Service) {
    let mut start_by = service.start_by.subscribe();
    loop {
        let by = *start_by.borrow_and_update();
        let passed = async {
            match by {
                Some(by) => tokio::time::sleep_until(by).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = passed => return,
            changed = start_by.changed() => if changed.is_err() { return },
        }
    }
}

/// Waits until nothing is left that needs the service, and stops it.
pub(crate) async fn stop_when_told(container: Arc<Container>, service: Arc<Service>) {
    service.may_stop.cancelled().await;
    let tell = |event| {
        // The application itself is no service.
        if service.id != ROOT {
            container.tell(&event);
        }
    };
    tell(Event::Stopping { service: service.name });
    let state = unwind(&container, &service).await;
    // What it gave out goes before what it was made of.
    drop(service.progress.send_replace(Progress::Stopped));
    service.note(|record| record.state = Some(state));
    let took = service.record().stop.unwrap_or_default();
    tell(Event::Stopped { service: service.name, state, took });
}

/// Runs the hooks of a service, within its time.
async fn unwind(container: &Arc<Container>, service: &Arc<Service>) -> State {
    let began = Instant::now();
    let limit = service.stop_within().or(container.limits.each_stop).unwrap_or(container.limits.stop);
    let by = container.stop_by.get().map_or(began + limit, |all| (began + limit).min(*all));
    service.set_stop_by(by);
    let hooks = Arc::clone(service);
    let run = async move {
        let mut clean = true;
        while let Some(hook) = hooks.next_hook() {
            clean &= run_hook(&hooks, hook).await;
        }
        clean
    };
    let span = tracing::info_span!("service", name = service.name);
    let mut run = AbortOnDropHandle::new(container.runtime.spawn(run.instrument(span)));
    let state = match timeout_at(by, &mut run).await {
        Ok(Ok(true)) => State::Stopped,
        Ok(_) => State::StopFailed,
        Err(_) => {
            run.abort();
            let _ = timeout_at(Instant::now() + GONE, &mut run).await;
            let left = service.drop_hooks();
            let took = began.elapsed().as_millis();
            let text = format!(
                "service `{}` had not stopped after {took} ms; {left} more hooks did not run",
                service.name
            );
            note_problem(service, Problem::new("service.stop_timeout", text));
            State::StopTimedOut
        }
    };
    service.note(|record| record.stop = Some(began.elapsed()));
    state
}

/// Whether it did what it should; if not, that is noted.
pub(crate) async fn run_hook(service: &Service, hook: Hook) -> bool {
    let name = service.name;
    let problem = match hook.run().await {
        Ok(()) => return true,
        Err(HookFault::Failed(error)) => {
            let text = format!("a stop hook of service `{name}` failed: {}", in_full(&*error));
            Problem::new("service.stop_failed", text)
        }
        Err(HookFault::Panicked(panic)) => {
            Problem::new("service.panicked", format!("a stop hook of service `{name}` panicked: {panic}"))
        }
    };
    note_problem(service, problem);
    // A hook that comes late finds the state decided.
    service.note(|record| {
        if record.state == Some(State::Stopped) {
            record.state = Some(State::StopFailed);
        }
    });
    false
}

fn note_problem(service: &Service, problem: Problem) {
    let Problem { code, message } = &problem;
    tracing::error!(service = service.name, code, message, "service did not stop as it should");
    service.note(|record| record.problems.push(problem));
}
