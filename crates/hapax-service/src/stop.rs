//! The stop of the whole application: who loads stops before what is loaded, everything else side by side.

use crate::{
    container::Container,
    graph::ROOT,
    report::{Problem, ServiceReport, State},
    service::Service,
};
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::task::AbortOnDropHandle;

/// A factory that still runs when the stop begins has this part of the time for it, and no more than this.
const GRACE_PART: u32 = 5;
const GRACE_MAX: Duration = Duration::from_secs(5);

/// Nothing is started any more from here on, and everybody who waits for the stop is told.
pub(crate) fn begin(container: &Container) {
    let began = Instant::now();
    container.graph().closed = true;
    let _ = container.stop_by.set(began + container.limits.stop);
    container.stopping.cancel();
}

/// Waits until everything has stopped, or the time is up.
pub(crate) async fn in_order(container: &Arc<Container>, drain: Duration) {
    let began = Instant::now();
    let by = container.stop_by.get().copied().unwrap_or(began);
    let give_up_at = began + (container.limits.stop / GRACE_PART).min(GRACE_MAX);
    let (services, loads) = {
        let graph = container.graph();
        (graph.services(), graph.edges())
    };
    let by_id: BTreeMap<usize, &Arc<Service>> =
        services.iter().map(|service| (service.id, service)).collect();
    // Tasks that wait for the stop come first, before hooks take away what they work with.
    tokio::task::yield_now().await;
    if !drain.is_zero() {
        sleep_until((began + drain).min(by)).await;
    }

    let mut needed: BTreeMap<usize, usize> = services.iter().map(|service| (service.id, 0)).collect();
    for id in loads.values().flatten() {
        needed.entry(*id).and_modify(|count| *count += 1);
    }
    let ended = |service: Arc<Service>| async move {
        service.may_stop.cancel();
        if let Some(task) = service.take_task() {
            // Its own task does not fail; dropping what a service gave out may.
            if AbortOnDropHandle::new(task).await.is_err() {
                let text = format!("service `{}` panicked when what it gave out was dropped", service.name);
                give_up(&service, State::StopFailed, Problem::new("service.panicked", text));
            }
        }
        service
    };
    let free = |count: &usize| *count == 0;
    let first = services.iter().filter(|service| needed.get(&service.id).is_some_and(free));
    let mut stops: FuturesUnordered<_> = first.map(|service| ended(Arc::clone(service))).collect();
    let mut given_up = false;
    let in_time = loop {
        tokio::select! {
            stopped = stops.next() => {
                let Some(stopped) = stopped else { break true };
                for id in loads.get(&stopped.id).into_iter().flatten() {
                    let Some(count) = needed.get_mut(id) else { continue };
                    *count -= 1;
                    if *count == 0 {
                        stops.extend(by_id.get(id).map(|service| ended(Arc::clone(service))));
                    }
                }
            }
            () = sleep_until(give_up_at), if !given_up => {
                given_up = true;
                for service in &services {
                    service.give_up.cancel();
                }
            }
            () = sleep_until(by) => break false,
        }
    };
    drop(stops);
    container.late.close();
    let late = timeout_at(by, container.late.wait()).await.is_ok();
    for service in &services {
        let left = service.drop_hooks();
        if !in_time {
            let text = format!(
                "the time of the application was up before service `{}` had stopped; {left} hooks did not run",
                service.name
            );
            give_up(service, State::StopTimedOut, Problem::new("service.stop_timeout", text));
        }
    }
    if let (false, Some(root)) = (late, services.first()) {
        let text = "a stop hook that was registered after its service had stopped did not end in time";
        root.note(|record| {
            record.state = Some(State::StopTimedOut);
            record.problems.push(Problem::new("service.stop_timeout", text));
        });
    }
}

/// Of a service that has not come to an end of its own.
fn give_up(service: &Service, state: State, problem: Problem) {
    if service.record().state.is_some() {
        return;
    }
    let Problem { code, message } = &problem;
    tracing::error!(service = service.name, code, message, "service did not stop as it should");
    service.note(|record| {
        record.state = Some(state);
        record.problems.push(problem);
    });
}

/// What became of each service.
pub(crate) fn reports(container: &Container) -> Vec<ServiceReport> {
    let graph = container.graph();
    let services = graph.services();
    // The application itself is no service, unless something went wrong with what it registered.
    let told = |service: &&Arc<Service>| service.id != ROOT || !service.record().problems.is_empty();
    let report = |service: &Arc<Service>| {
        let record = service.record();
        ServiceReport {
            service: service.name,
            state: record.state.unwrap_or(State::StopTimedOut),
            starts: service.starts,
            start: record.start,
            stop: record.stop,
            loads: graph.names_of_loads(service.id),
            problems: record.problems,
        }
    };
    services.iter().filter(told).map(report).collect()
}
