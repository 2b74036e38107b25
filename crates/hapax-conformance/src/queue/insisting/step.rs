//! A step whose answer gets lost.

use super::{InsistingQueues, MANY};
use crate::insisting::Faults;
use hapax_core::{
    Span, StoreResult,
    idempotency::{Completed, Write},
    queue::{Beat, Finished, JobRef, Step, Stepped},
};
use std::time::Duration;

impl<F: Faults> InsistingQueues<F> {
    pub(super) async fn stepped(&self, req: &Step) -> StoreResult<Stepped> {
        let mut ours = Vec::new();
        for finish in req.finishes.iter().take(MANY) {
            let job = (finish.uid, finish.delivery);
            ours.push(self.is_ours(&req.queue, &req.group, &req.consumer, job).await);
        }
        let mut stepped = if self.is_spared(req, &ours).await? {
            self.inner.step(req).await?
        } else {
            self.step_with_fault(req, &ours).await?
        };
        for (finish, finished) in req.finishes.iter().zip(&stepped.finished) {
            if finished.job == Write::Applied {
                self.handed_out.over(&(req.queue.clone(), req.group.clone(), finish.uid));
            }
        }
        self.handed_out.note(&req.queue, &req.group, &req.consumer, &mut stepped.jobs);
        Ok(stepped)
    }

    /// Where nothing tells afterwards what a lost answer said.
    async fn is_spared(&self, req: &Step, ours: &[bool]) -> StoreResult<bool> {
        // What became of the key of a lost job, only its own answer tells.
        let key_alone = req.finishes.iter().zip(ours).any(|(finish, ours)| finish.key.is_some() && !ours);
        if req.finishes.len() > MANY || req.want > 2 * MANY || key_alone {
            return Ok(true);
        }
        if req.want == 0 {
            return Ok(false);
        }
        // A start is counted and told, whoever hears of it.
        let limits = self.inner.limits(&req.queue).await?;
        if limits.rate.is_some() || limits.events > 0 {
            return Ok(true);
        }
        // The beat that frees what nobody knows of would keep these, whose lease is over.
        let held = self.handed_out.held(&req.queue, &req.group, &req.consumer);
        if held.is_empty() {
            return Ok(false);
        }
        let now = self.inner.beat(&Beat { held: Vec::new(), since: None, ..beat(req) }).await?.now;
        for (uid, _) in held {
            for job in self.inner.find(&req.queue, &JobRef::Uid(uid)).await? {
                if job.consumer.as_ref() == Some(&req.consumer) && job.at <= now {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    async fn step_with_fault(&self, req: &Step, ours: &[bool]) -> StoreResult<Stepped> {
        let before = self.faults.happened();
        self.faults.arm();
        let answer = self.inner.step(req).await;
        self.faults.disarm();
        if self.faults.happened() == before {
            return answer;
        }
        let ended = Step { want: 0, ..req.clone() };
        let mut stepped = self.until_answered(answer, || self.inner.step(&ended)).await?;
        for (finished, _) in stepped.finished.iter_mut().zip(ours).filter(|(_, ours)| **ours) {
            first_time(finished);
        }
        if req.want > 0 {
            let again = self.handed_out_again(req, &stepped).await?;
            stepped = Stepped { finished: stepped.finished, ..again };
        }
        Ok(stepped)
    }

    /// Beats as a worker that knows of nothing that came since; then it asks once more.
    async fn handed_out_again(&self, req: &Step, heard: &Stepped) -> StoreResult<Stepped> {
        let ended = |uid| {
            let mut pairs = req.finishes.iter().zip(&heard.finished);
            pairs.any(|(finish, finished)| finish.uid == uid && finished.job == Write::Applied)
        };
        let mut held = self.handed_out.held(&req.queue, &req.group, &req.consumer);
        held.retain(|(uid, _)| !ended(*uid));
        let first = Beat { held, since: None, ..beat(req) };
        let since = self.inner.beat(&first).await?.now.after(Duration::from_millis(1));
        let freed = self.inner.beat(&Beat { since: Some(since), ..first }).await?.freed;
        let again = self.inner.step(&Step { finishes: Vec::new(), ..req.clone() }).await?;
        if freed > 0 {
            let at = |uid| (req.queue.clone(), req.group.clone(), uid);
            let mut uids: Vec<_> = heard.jobs.iter().chain(&again.jobs).map(|job| job.uid).collect();
            uids.sort_unstable();
            uids.dedup();
            for uid in uids {
                self.handed_out.gave_back(at(uid));
            }
        }
        Ok(again)
    }
}

fn first_time(finished: &mut Finished) {
    finished.job = Write::Applied;
    if finished.key == Some(Completed::AlreadyDone) {
        finished.key = Some(Completed::Stored);
    }
}

/// One that makes no lease longer.
fn beat(req: &Step) -> Beat {
    Beat {
        queue: req.queue.clone(),
        group: req.group.clone(),
        consumer: req.consumer.clone(),
        held: Vec::new(),
        lease: Span::MIN,
        since: None,
        progress: Vec::new(),
    }
}
