//! Workers and handlers over the queues in memory, on paused time.

mod adding;
mod ahead;
mod ends;
mod faulty;
mod figures;
mod idempotent;
mod late;
mod layers;
mod life;
mod own_keys;
mod progress;
mod schedule_sets;
mod schedules;
mod shares;

use crate::support::PausedClock;
use faulty::Unsteady;
use hapax_core::{
    Backend, Namespace,
    memory::{MemoryQueues, MemoryStore},
    queue::{JobInfo, JobRef, JobState, ListJobs, QueueStats, QueueStore},
};
use hapax_engine::{
    Idempotency, Keeper,
    queue::{Job, JobError, Queue, QueueDef, RawQueue},
};
use serde::{Deserialize, Serialize};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Mail {
    to: String,
}

fn mail(to: &str) -> Mail {
    Mail { to: to.into() }
}

static MAIL: QueueDef<Mail> = QueueDef::new("mail").parse(|mail| match mail.to.trim() {
    "" => Err("nobody to write to".into()),
    to => Ok(Mail { to: to.to_owned() }),
});

/// One store of queues and keys. Needs a runtime whose time is paused.
struct Post {
    store: Arc<Unsteady>,
    keys: Arc<MemoryStore>,
    clock: PausedClock,
}

impl Post {
    fn new() -> Self {
        let clock = PausedClock::new();
        let keys = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
        let queues = MemoryQueues::new(Arc::new(clock.clone())).with_keys(Arc::clone(&keys));
        Self { store: Arc::new(Unsteady::new(queues)), keys, clock }
    }

    fn backend(&self) -> Backend {
        Backend::new("memory", Arc::clone(&self.keys) as _)
            .with_queue(Arc::clone(&self.store) as _)
            .with_clock(Arc::new(self.clock.clone()))
    }

    /// What a process holds.
    fn queue(&self) -> Queue {
        Queue::of(&self.backend(), Duration::from_secs(5))
    }

    fn idempotency(&self) -> Idempotency {
        Idempotency::on(Keeper::of(&self.backend(), Duration::from_secs(5)), Ok(Namespace::default()), "any")
    }

    fn raw(&self) -> RawQueue {
        self.queue().raw("mail").unwrap()
    }

    async fn stats(&self) -> QueueStats {
        self.store.stats(&Namespace::default(), None).await.unwrap().remove(0)
    }

    /// Ready, delayed, running, dead.
    async fn figures(&self) -> [u64; 4] {
        let stats = self.stats().await;
        [stats.ready, stats.delayed, stats.running, stats.dead]
    }

    async fn listed(&self, state: JobState) -> Vec<JobInfo> {
        let req = ListJobs { queue: self.raw().id().clone(), group: None, state, after: None, limit: 100 };
        self.store.list(&req).await.unwrap().jobs
    }

    async fn find(&self, id: &str) -> Option<JobInfo> {
        let job = JobRef::Uid(id.parse().unwrap());
        self.store.find(self.raw().id(), &job).await.unwrap().pop()
    }
}

/// Counts the runs of a handler.
#[derive(Clone, Debug, Default)]
struct Runs(Arc<AtomicU32>);

impl Runs {
    fn next(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A handler that is done at once.
async fn done(runs: Runs, job: Job<Mail>) -> Result<String, JobError> {
    runs.next();
    Ok(format!("to {}", job.data.to))
}
