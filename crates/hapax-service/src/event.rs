//! What happens to services, as it happens.

use crate::{
    error::ServiceError,
    report::{State, StopCause},
};
use futures_core::Stream;
use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::sync::mpsc;

/// Something that happened to a service, or to the application.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The factory of a service was called.
    #[non_exhaustive]
    Starting {
        /// Its name.
        service: &'static str,
    },
    /// A service is there.
    #[non_exhaustive]
    Ready {
        /// Its name.
        service: &'static str,
        /// From the first load on.
        took: Duration,
    },
    /// A service could not start, and its hooks have run.
    #[non_exhaustive]
    StartFailed {
        /// Its name.
        service: &'static str,
        /// Why.
        error: ServiceError,
    },
    /// All services of [`App::boot`](crate::App::boot) are there.
    #[non_exhaustive]
    Booted {
        /// From the call of `run` on.
        took: Duration,
    },
    /// The application stops: [`Ctx::stopping`](crate::Ctx::stopping) is over, no hook has run.
    #[non_exhaustive]
    Draining {
        /// Why.
        cause: StopCause,
    },
    /// The hooks of a service are run.
    #[non_exhaustive]
    Stopping {
        /// Its name.
        service: &'static str,
    },
    /// A service has ended.
    #[non_exhaustive]
    Stopped {
        /// Its name.
        service: &'static str,
        /// How.
        state: State,
        /// What its hooks took.
        took: Duration,
    },
    /// The application has ended: the last event.
    #[non_exhaustive]
    Ended {
        /// As in [`Report::exit_code`](crate::Report::exit_code).
        exit_code: u8,
    },
}

/// What happens from here on: a stream, or [`next`](Self::next) without one.
#[derive(Debug)]
pub struct Events(mpsc::UnboundedReceiver<Event>);

impl Events {
    /// The next one; `None` after the last. Cancel safe: an event is given out or kept.
    pub async fn next(&mut self) -> Option<Event> {
        self.0.recv().await
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.0.poll_recv(cx)
    }
}

/// Those who listen. There are a few events per service, so that nobody has to keep up with them.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Vec<mpsc::UnboundedSender<Event>>);

impl Listeners {
    pub(crate) fn add(&mut self) -> Events {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.0.push(sender);
        Events(receiver)
    }

    pub(crate) fn tell(&self, event: &Event) {
        log(event);
        for listener in &self.0 {
            // Who has stopped listening does not care.
            let _ = listener.send(event.clone());
        }
    }
}

fn log(event: &Event) {
    match event {
        Event::Starting { service } => tracing::debug!(service, "service starts"),
        Event::Ready { service, took } => tracing::info!(service, ?took, "service is ready"),
        Event::StartFailed { service, error } => {
            let (code, error) = (hapax_core::Coded::code(error), crate::error::in_full(error));
            tracing::error!(service, code, error, "service could not start");
        }
        Event::Booted { took } => tracing::info!(?took, "application is ready"),
        Event::Draining { cause } => tracing::info!(%cause, "application stops"),
        Event::Stopping { service } => tracing::debug!(service, "service stops"),
        Event::Stopped { service, state, took } => {
            tracing::info!(service, %state, ?took, "service has stopped");
        }
        Event::Ended { exit_code } => tracing::info!(exit_code, "application has stopped"),
    }
}
