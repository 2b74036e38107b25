//! One service of a running application: how far it is, its hooks, and what will be reported of it.

use crate::{
    error::ServiceError,
    hook::Hook,
    report::{Problem, State},
};
use std::{
    any::Any,
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{sync::watch, task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

/// What a service is to those who load it.
pub(crate) type Value = Arc<dyn Any + Send + Sync>;

/// A factory may ask again and again for one that cannot start.
const KNOWN_REFUSALS: usize = 32;

/// How far a service is, for those who wait for it.
#[derive(Clone)]
pub(crate) enum Progress {
    Starting,
    Ready(Value),
    /// Its hooks have run.
    Failed(ServiceError),
    Stopped,
}

pub(crate) struct Service {
    pub(crate) id: usize,
    pub(crate) name: &'static str,
    /// How often it has been started, this time included.
    pub(crate) starts: u32,
    pub(crate) progress: watch::Sender<Progress>,
    /// When its start is over at the latest, if there is such a time.
    pub(crate) start_by: watch::Sender<Option<Instant>>,
    /// Its start is given up: the application stops.
    pub(crate) give_up: CancellationToken,
    /// Nothing that loaded it is left: it may stop.
    pub(crate) may_stop: CancellationToken,
    pub(crate) began: Instant,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    hooks: Vec<Hook>,
    /// Hooks are not kept any more, but run when they come.
    closed: bool,
    stop_within: Option<Duration>,
    stop_by: Option<Instant>,
    invalid: Option<ServiceError>,
    refused: VecDeque<ServiceError>,
    task: Option<JoinHandle<()>>,
    record: Record,
}

/// What will be reported.
#[derive(Clone, Default)]
pub(crate) struct Record {
    pub(crate) start: Option<Duration>,
    pub(crate) stop: Option<Duration>,
    pub(crate) state: Option<State>,
    pub(crate) problems: Vec<Problem>,
}

impl Service {
    pub(crate) fn new(id: usize, name: &'static str, starts: u32) -> Arc<Self> {
        Arc::new(Self {
            id,
            name,
            starts,
            progress: watch::Sender::new(Progress::Starting),
            start_by: watch::Sender::new(None),
            give_up: CancellationToken::new(),
            may_stop: CancellationToken::new(),
            began: Instant::now(),
            inner: Mutex::default(),
        })
    }

    // Nothing of the user's runs, or is dropped, under this lock.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_starting(&self) -> bool {
        matches!(*self.progress.borrow(), Progress::Starting)
    }

    pub(crate) fn has_failed(&self) -> bool {
        matches!(*self.progress.borrow(), Progress::Failed(_))
    }

    /// Keeps a hook, or gives it back when it is too late for that.
    pub(crate) fn keep(&self, hook: Hook) -> Result<(), Hook> {
        let mut inner = self.lock();
        if inner.closed {
            return Err(hook);
        }
        inner.hooks.push(hook);
        Ok(())
    }

    /// The hook that came last. Once there is none, later ones are not kept.
    pub(crate) fn next_hook(&self) -> Option<Hook> {
        let mut inner = self.lock();
        let hook = inner.hooks.pop();
        inner.closed = hook.is_none();
        hook
    }

    /// No hook is kept any more; how many had not run.
    pub(crate) fn drop_hooks(&self) -> usize {
        let left = {
            let mut inner = self.lock();
            inner.closed = true;
            std::mem::take(&mut inner.hooks)
        };
        left.len()
    }

    pub(crate) fn set_stop_within(&self, limit: Duration) {
        self.lock().stop_within = Some(limit);
    }

    pub(crate) fn stop_within(&self) -> Option<Duration> {
        self.lock().stop_within
    }

    pub(crate) fn set_stop_by(&self, by: Instant) {
        self.lock().stop_by = Some(by);
    }

    pub(crate) fn stop_by(&self) -> Option<Instant> {
        self.lock().stop_by
    }

    /// Something that its factory asked for cannot be.
    pub(crate) fn set_invalid(&self, error: ServiceError) {
        self.lock().invalid.get_or_insert(error);
    }

    pub(crate) fn take_invalid(&self) -> Option<ServiceError> {
        self.lock().invalid.take()
    }

    /// A service that it asked for was not given to it. Of those, the last ones are known while it starts.
    pub(crate) fn was_refused(&self, error: &ServiceError) {
        if self.is_starting() {
            let mut inner = self.lock();
            inner.refused.push_front(error.clone());
            inner.refused.truncate(KNOWN_REFUSALS);
        }
    }

    pub(crate) fn refused(&self) -> VecDeque<ServiceError> {
        self.lock().refused.clone()
    }

    pub(crate) fn set_task(&self, task: JoinHandle<()>) {
        self.lock().task = Some(task);
    }

    pub(crate) fn take_task(&self) -> Option<JoinHandle<()>> {
        self.lock().task.take()
    }

    pub(crate) fn record(&self) -> Record {
        self.lock().record.clone()
    }

    pub(crate) fn note(&self, change: impl FnOnce(&mut Record)) {
        change(&mut self.lock().record);
    }

    /// Forgets everything of the user's: what it gave out, and the hooks.
    pub(crate) fn clear(&self) {
        let last = self.progress.send_replace(Progress::Stopped);
        drop(last);
        self.drop_hooks();
    }
}
