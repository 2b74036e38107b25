//! Where work goes that must outlive its caller: renewal, refused completions, releases after a drop.
//!
//! One thread with a runtime of its own, started at first need, so that a blocked or ended runtime of the application
//! does not cost a lease. Under a clock that a test moves the work runs as tasks of the test's runtime instead.

use hapax_core::BoxFuture;
use std::sync::{Mutex, PoisonError};
use tokio::{
    runtime::Handle,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinSet,
};

type Work = BoxFuture<'static, ()>;

#[derive(Debug)]
pub(crate) struct Runner {
    as_tasks: bool,
    thread: Mutex<Option<UnboundedSender<Work>>>,
}

impl Runner {
    pub(crate) fn new(as_tasks: bool) -> Self {
        Self { as_tasks, thread: Mutex::default() }
    }

    /// Runs `work` to its end, unless the process ends before.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if self.as_tasks
            && let Ok(handle) = Handle::try_current()
        {
            drop(handle.spawn(work));
            return;
        }
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let work: Work = Box::pin(work);
        let refused = match thread.as_ref() {
            Some(sender) => sender.send(work).err().map(|refused| refused.0),
            None => Some(work),
        };
        if let Some(work) = refused {
            *thread = start(work);
        }
    }
}

fn start(first: Work) -> Option<UnboundedSender<Work>> {
    let (sender, receiver) = unbounded_channel();
    // The channel is open: its receiver is right here.
    let _ = sender.send(first);
    let spawned = std::thread::Builder::new().name("hapax".into()).spawn(move || run(receiver));
    if let Err(error) = spawned {
        tracing::error!(%error, code = "store.internal", "no thread for background work: leases are not renewed");
        return None;
    }
    Some(sender)
}

fn run(mut work: UnboundedReceiver<Work>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, code = "store.internal", "no runtime for background work: leases are not renewed");
            return;
        }
    };
    runtime.block_on(async move {
        let mut tasks = JoinSet::new();
        let mut open = true;
        // Ends when the keeper is gone and everything it left is done.
        while open || !tasks.is_empty() {
            tokio::select! {
                next = work.recv(), if open => match next {
                    Some(next) => drop(tasks.spawn(next)),
                    None => open = false,
                },
                Some(ended) = tasks.join_next() => if let Err(error) = ended {
                    tracing::error!(%error, code = "store.internal", "background work ended early");
                },
            }
        }
    });
}
