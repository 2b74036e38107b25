//! A caller of queues that insists: it repeats a call whose answer it did not get, as a worker does.

mod ledger;
mod step;

pub use ledger::HandedOut;

use crate::insisting::{Faults, TRIES, may_pass};
use async_trait::async_trait;
use hapax_core::{
    Namespace, StoreResult, Timestamp,
    idempotency::{IdempotencyStore, Write},
    queue::{
        Added, Beat, Beaten, Books, Cancelled, Consumer, Due, Edit, EventPage, GiveBack, Group, JobInfo,
        JobPage, JobRef, JobState, Limits, ListJobs, NewJob, OnConflict, Put, QueueId, QueueName, QueueStats,
        QueueStore, ReadEvents, Redrive, Redriven, Schedule, ScheduleName, Schedules, Step, Stepped,
        Subscribed, Uid, Wait,
    },
};
use std::{collections::HashSet, sync::Arc};

/// In a request of more, each job is not looked up before: no fault is put on it.
const MANY: usize = 16;

/// A client of a store of queues whose requests meet faults, and that answers as one whose requests do not.
///
/// What a lost answer said is made up for as a worker does: a finish that is [fenced](Write::Fenced) at the second try
/// was done at the first, and jobs that were handed out in a lost answer are given back by a beat that does not list
/// them, and come again. Where only a look at the store tells what a lost answer said, the look is taken before. So
/// this is for cases in which one caller at a time changes the queue. Waits and clean-ups meet no faults.
#[derive(Debug)]
pub struct InsistingQueues<F> {
    inner: Arc<dyn QueueStore>,
    faults: F,
    handed_out: HandedOut,
}

impl<F: Faults> InsistingQueues<F> {
    /// A client, and what is in its way. All clients of one store share what they were handed out.
    pub fn new(inner: Arc<dyn QueueStore>, faults: F, handed_out: &HandedOut) -> Self {
        Self { inner, faults, handed_out: handed_out.clone() }
    }

    /// Makes a call that meets a fault, and repeats it; and whether the fault happened.
    async fn once_more<T, C>(&self, call: impl Fn() -> C + Send) -> (StoreResult<T>, bool)
    where
        T: Send,
        C: Future<Output = StoreResult<T>> + Send,
    {
        let before = self.faults.happened();
        self.faults.arm();
        let first = call().await;
        self.faults.disarm();
        let answer = self.until_answered(first, call).await;
        (answer, self.faults.happened() != before)
    }

    async fn until_answered<T, C>(&self, first: StoreResult<T>, call: impl Fn() -> C + Send) -> StoreResult<T>
    where
        T: Send,
        C: Future<Output = StoreResult<T>> + Send,
    {
        let mut answer = first;
        for _ in 1..TRIES {
            if !answer.as_ref().is_err_and(may_pass) {
                break;
            }
            answer = call().await;
        }
        answer
    }

    /// The same for a call that answers alike the second time.
    async fn alike<T, C>(&self, call: impl Fn() -> C + Send) -> StoreResult<T>
    where
        T: Send,
        C: Future<Output = StoreResult<T>> + Send,
    {
        self.once_more(call).await.0
    }

    /// The same for a call whose answer was known before.
    async fn foreseen<T, C>(&self, told: T, call: impl Fn() -> C + Send) -> StoreResult<T>
    where
        T: Send,
        C: Future<Output = StoreResult<T>> + Send,
    {
        let (answer, happened) = self.once_more(call).await;
        answer.map(|answer| if happened { told } else { answer })
    }

    /// Whether a hand-out is the consumer's, so that what it says of the job counts.
    async fn is_ours(
        &self,
        queue: &QueueId,
        group: &Group,
        who: &Consumer,
        (uid, delivery): (Uid, u64),
    ) -> bool {
        let at = (queue.clone(), group.clone(), uid);
        if !self.handed_out.is_last(&at, who, delivery) {
            return false;
        }
        let found = self.inner.find(queue, &JobRef::Uid(uid)).await.unwrap_or_default();
        found.iter().any(|job| {
            job.state == JobState::Running
                && job.group.as_ref() == Some(group)
                && job.consumer.as_ref() == Some(who)
        })
    }

    /// How many of these jobs are dead letters of the group, or of all.
    async fn dead(&self, queue: &QueueId, group: Option<&Group>, uids: &[Uid]) -> StoreResult<Vec<u64>> {
        let mut counts = Vec::new();
        for uid in uids.iter().collect::<HashSet<_>>() {
            let found = self.inner.find(queue, &JobRef::Uid(*uid)).await?;
            let is_meant = |job: &&JobInfo| group.is_none() || job.group.as_ref() == group;
            let dead = found.iter().filter(is_meant).filter(|job| job.state == JobState::Dead);
            // A dead letter has its payload; what is only remembered has none, and no group.
            let letters = dead.filter(|job| job.group.is_some() || !job.payload.is_empty()).count();
            counts.push(u64::try_from(letters).unwrap_or(u64::MAX));
        }
        Ok(counts)
    }
}

/// All jobs of a group.
fn all_jobs(stats: &QueueStats) -> u64 {
    stats.ready + stats.delayed + stats.running + stats.dead
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<F: Faults> QueueStore for InsistingQueues<F> {
    async fn add(&self, queue: &QueueId, jobs: &[NewJob]) -> StoreResult<Vec<Added>> {
        // What was replaced is a duplicate the second time.
        if jobs.iter().any(|job| job.on_conflict == OnConflict::Replace) {
            return self.inner.add(queue, jobs).await;
        }
        self.alike(|| self.inner.add(queue, jobs)).await
    }
    async fn subscribe(&self, queue: &QueueId, group: &Group) -> StoreResult<Subscribed> {
        let groups = self.inner.stats(&queue.namespace, Some(&queue.name)).await?;
        let told = if groups.iter().any(|stats| stats.group.as_ref() == Some(group)) {
            Subscribed::Known
        } else if groups.iter().any(|stats| stats.group.is_some()) {
            Subscribed::Another
        } else {
            Subscribed::First
        };
        self.foreseen(told, || self.inner.subscribe(queue, group)).await
    }
    async fn unsubscribe(&self, queue: &QueueId, group: &Group) -> StoreResult<Option<u64>> {
        let groups = self.inner.stats(&queue.namespace, Some(&queue.name)).await?;
        let told = groups.iter().find(|stats| stats.group.as_ref() == Some(group)).map(all_jobs);
        self.foreseen(told, || self.inner.unsubscribe(queue, group)).await
    }
    async fn step(&self, req: &Step) -> StoreResult<Stepped> {
        self.stepped(req).await
    }
    async fn beat(&self, req: &Beat) -> StoreResult<Beaten> {
        if req.since.is_some() {
            // How many it freed, only its own answer tells.
            return self.inner.beat(req).await;
        }
        self.alike(|| self.inner.beat(req)).await
    }
    async fn give_back(&self, req: &GiveBack) -> StoreResult<Vec<Write>> {
        let is_many = req.jobs.len() > MANY;
        let mut ours = Vec::new();
        for job in req.jobs.iter().take(MANY) {
            ours.push(self.is_ours(&req.queue, &req.group, &req.consumer, *job).await);
        }
        let (answers, happened) = if is_many {
            (self.inner.give_back(req).await, false)
        } else {
            self.once_more(|| self.inner.give_back(req)).await
        };
        let mut answers = answers?;
        if happened {
            for (answer, _) in answers.iter_mut().zip(ours).filter(|(_, is_ours)| *is_ours) {
                *answer = Write::Applied;
            }
        }
        for ((uid, _), _) in req.jobs.iter().zip(&answers).filter(|(_, answer)| **answer == Write::Applied) {
            self.handed_out.over(&(req.queue.clone(), req.group.clone(), *uid));
        }
        Ok(answers)
    }
    async fn wait(&self, req: &Wait) -> StoreResult<()> {
        self.inner.wait(req).await
    }
    async fn find(&self, queue: &QueueId, job: &JobRef) -> StoreResult<Vec<JobInfo>> {
        self.alike(|| self.inner.find(queue, job)).await
    }
    async fn list(&self, req: &ListJobs) -> StoreResult<JobPage> {
        self.alike(|| self.inner.list(req)).await
    }
    async fn stats(&self, namespace: &Namespace, queue: Option<&QueueName>) -> StoreResult<Vec<QueueStats>> {
        self.alike(|| self.inner.stats(namespace, queue)).await
    }
    async fn books(&self, queue: Option<&QueueId>) -> StoreResult<Books> {
        self.inner.books(queue).await
    }
    async fn events(&self, req: &ReadEvents) -> StoreResult<EventPage> {
        self.alike(|| self.inner.events(req)).await
    }
    async fn cancel(&self, queue: &QueueId, job: &JobRef) -> StoreResult<Cancelled> {
        let mut told = Cancelled::default();
        for found in self.inner.find(queue, job).await? {
            match found.state {
                JobState::Ready | JobState::Delayed => told.removed += 1,
                JobState::Running => told.told += 1,
                // Where it is over somewhere, the second answer is that of the first.
                _ => return self.inner.cancel(queue, job).await,
            }
        }
        self.foreseen(told, || self.inner.cancel(queue, job)).await
    }
    async fn reschedule(&self, queue: &QueueId, job: &JobRef, due: Due) -> StoreResult<u64> {
        self.alike(|| self.inner.reschedule(queue, job, due)).await
    }
    async fn pause(&self, queue: &QueueId, group: Option<&Group>, paused: bool) -> StoreResult<u64> {
        self.alike(|| self.inner.pause(queue, group, paused)).await
    }
    async fn redrive(&self, req: &Redrive) -> StoreResult<Vec<Redriven>> {
        if req.uids.len() > MANY {
            return self.inner.redrive(req).await;
        }
        let mut were_dead = Vec::new();
        for uid in &req.uids {
            were_dead.push(self.dead(&req.queue, req.group.as_ref(), std::slice::from_ref(uid)).await?);
        }
        let (answers, happened) = self.once_more(|| self.inner.redrive(req)).await;
        let mut answers = answers?;
        for ((answer, uid), was_dead) in answers.iter_mut().zip(&req.uids).zip(were_dead) {
            if happened && *answer == Redriven::NotDead && was_dead.iter().sum::<u64>() == 1 {
                *answer = Redriven::Ready;
            }
            if *answer == Redriven::Ready {
                self.handed_out.begins_anew(&req.queue, uid);
            }
        }
        Ok(answers)
    }
    async fn edit(&self, req: &Edit) -> StoreResult<bool> {
        self.alike(|| self.inner.edit(req)).await
    }
    async fn drop_dead(&self, queue: &QueueId, group: Option<&Group>, uids: &[Uid]) -> StoreResult<u64> {
        if uids.len() > MANY {
            return self.inner.drop_dead(queue, group, uids).await;
        }
        let told = self.dead(queue, group, uids).await?.iter().sum();
        self.foreseen(told, || self.inner.drop_dead(queue, group, uids)).await
    }
    async fn purge(&self, queue: &QueueId) -> StoreResult<u64> {
        let groups = self.inner.stats(&queue.namespace, Some(&queue.name)).await?;
        self.foreseen(groups.iter().map(all_jobs).sum(), || self.inner.purge(queue)).await
    }
    async fn set_limits(&self, queue: &QueueId, limits: &Limits) -> StoreResult<()> {
        self.alike(|| self.inner.set_limits(queue, limits)).await
    }
    async fn limits(&self, queue: &QueueId) -> StoreResult<Limits> {
        self.alike(|| self.inner.limits(queue)).await
    }
    async fn prune(&self, limit: usize) -> StoreResult<usize> {
        self.inner.prune(limit).await
    }
    async fn put_schedule(&self, namespace: &Namespace, schedule: &Schedule) -> StoreResult<Put> {
        self.alike(|| self.inner.put_schedule(namespace, schedule)).await
    }
    async fn schedules(&self, req: &Schedules) -> StoreResult<Vec<Schedule>> {
        self.alike(|| self.inner.schedules(req)).await
    }
    async fn remove_schedule(
        &self,
        namespace: &Namespace,
        name: &ScheduleName,
        seen: Option<&Schedule>,
    ) -> StoreResult<bool> {
        let is_meant = |there: &Schedule| {
            seen.is_none_or(|seen| (&seen.owner, seen.revision) == (&there.owner, there.revision))
        };
        let told = self.schedule(namespace, name).await?.as_ref().is_some_and(is_meant);
        self.foreseen(told, || self.inner.remove_schedule(namespace, name, seen)).await
    }
    async fn advance_schedule(
        &self,
        namespace: &Namespace,
        name: &ScheduleName,
        from: Timestamp,
        to: Timestamp,
    ) -> StoreResult<bool> {
        let told = self.schedule(namespace, name).await?.is_some_and(|schedule| schedule.next == from);
        self.foreseen(told, || self.inner.advance_schedule(namespace, name, from, to)).await
    }
    fn joins(&self, keys: &Arc<dyn IdempotencyStore>) -> bool {
        self.inner.joins(keys)
    }
}

impl<F: Faults> InsistingQueues<F> {
    async fn schedule(&self, namespace: &Namespace, name: &ScheduleName) -> StoreResult<Option<Schedule>> {
        let req = Schedules { namespace: namespace.clone(), by: None };
        Ok(self.inner.schedules(&req).await?.into_iter().find(|schedule| schedule.name == *name))
    }
}
