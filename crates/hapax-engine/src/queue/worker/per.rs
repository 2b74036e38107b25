//! A rate for each value of a field: jobs whose value has had its share are put off until their turn.
//!
//! The share is counted in the store's rate limits, so it holds over all workers. When a job's turn is, each worker reckons for
//! itself: put off until the bucket has one more, ten thousand jobs of one tenant would all come back at that instant, for one
//! to pass. So those that a worker puts off get one turn after the other.

use super::core::Core;
use crate::{protocol::call, queue::raw::RawJob};
use hapax_core::{
    BootTime, StoreResult,
    limit::{Check, Decide, LimitKey, LimitStore, Quota},
    queue::{PerRate, QueueId},
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// For so long a worker believes what it has read of the bounds.
const FRESH: Duration = Duration::from_secs(2);
/// A job whose share could not be asked for is put off by this.
const UNKNOWN: Duration = Duration::from_secs(1);
/// Turns that are over are forgotten when there are more than this.
const MOST_TURNS: usize = 1024;

/// What a worker knows of the rate of its queue.
pub(super) struct Shares {
    limits: Arc<dyn LimitStore>,
    known: Mutex<Known>,
    /// Held by whoever reads the bounds, for all.
    reads: tokio::sync::Mutex<()>,
    turns: Mutex<HashMap<LimitKey, BootTime>>,
}

#[derive(Clone, Default)]
struct Known {
    per: Per,
    read: Option<BootTime>,
}

/// The rate of the queue.
#[derive(Clone, Default)]
enum Per {
    /// It could not be read yet.
    #[default]
    Unknown,
    None,
    Rate(Arc<PerRate>),
}

fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shares {
    pub(super) fn new(limits: Arc<dyn LimitStore>) -> Self {
        Self {
            limits,
            known: Mutex::default(),
            reads: tokio::sync::Mutex::default(),
            turns: Mutex::default(),
        }
    }

    /// For how long the job has to be put off. `None`: it may run, and is counted.
    pub(super) async fn wait(&self, core: &Core, job: &RawJob) -> Option<Duration> {
        let per = match self.rate(core).await {
            Per::Rate(per) => per,
            Per::None => return None,
            Per::Unknown => return Some(UNKNOWN),
        };
        let key = key(&core.queue, job, per.pointer())?;
        let asked = self.ask(core, &per, &key).await;
        let wait = asked.unwrap_or_else(|error| {
            tracing::warn!(queue = %core.queue.name, %error, code = "queue.store_failed", "a rate could not be asked for");
            Some(UNKNOWN)
        })?;
        Some(self.turn(&key, core.clock.boot(), wait, per.each()))
    }

    /// The rate, as the store says it now and then. What was known holds while it cannot be read.
    async fn rate(&self, core: &Core) -> Per {
        if let Some(per) = self.fresh(core) {
            return per;
        }
        let _reads = self.reads.lock().await;
        if let Some(per) = self.fresh(core) {
            return per;
        }
        let step = core.store.limits(&core.queue);
        let answer = call::one(core.call_limit(), "read the bounds of a queue", step).await;
        let mut known = locked(&self.known);
        known.read = Some(core.clock.boot());
        match answer {
            Ok(limits) => known.per = limits.per.map_or(Per::None, |per| Per::Rate(Arc::new(per))),
            Err(error) => {
                tracing::warn!(queue = %core.queue.name, %error, code = "queue.store_failed", "bounds could not be read");
            }
        }
        known.per.clone()
    }

    fn fresh(&self, core: &Core) -> Option<Per> {
        let known = locked(&self.known);
        let is_fresh = known.read.is_some_and(|read| core.clock.boot().since(read) < FRESH);
        is_fresh.then(|| known.per.clone())
    }

    /// `None`: there is one left, and the job has it.
    async fn ask(&self, core: &Core, per: &PerRate, key: &LimitKey) -> StoreResult<Option<Duration>> {
        let quota = Quota::token_bucket(per.count(), per.window().get());
        let checks = vec![Check::new(key.clone(), quota)];
        let req = Decide { namespace: core.queue.namespace.clone(), checks, dry_run: false };
        let decided = call::one(core.call_limit(), "decide on a limit", self.limits.decide(&req)).await?;
        let answer = decided.answers.first().copied().ok_or_else(|| call::missing("decide on a limit"))?;
        Ok((!answer.allowed).then(|| Duration::from_millis(answer.retry_after_ms)))
    }

    /// How long until the turn of one more job that has to wait.
    fn turn(&self, key: &LimitKey, now: BootTime, wait: Duration, each: Duration) -> Duration {
        let mut turns = locked(&self.turns);
        if turns.len() > MOST_TURNS {
            turns.retain(|_, next| *next > now);
        }
        let soonest = now.after(wait);
        let turn = turns.get(key).map_or(soonest, |next| soonest.max(*next));
        turns.insert(key.clone(), turn.after(each.max(Duration::from_millis(1))));
        turn.since(now)
    }
}

/// Names the share of a job. `None`: it has no such value, or is no JSON.
fn key(queue: &QueueId, job: &RawJob, pointer: &str) -> Option<LimitKey> {
    let payload: serde_json::Value = serde_json::from_slice(&job.taken.payload).ok()?;
    let value = match payload.pointer(pointer)? {
        serde_json::Value::Null => return None,
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut name = String::from("queue");
    for part in [queue.name.as_str(), job.group.as_str(), pointer, &value] {
        name.push(':');
        LimitKey::push_escaped(&mut name, part);
    }
    LimitKey::new(&name).ok()
}
