//! A step of a worker's loop: what it sends, and what becomes of the answer.

use super::{
    core::Mode,
    ends::{Came, Ended, Facts},
    run::{PAUSE, Run},
    turn::run_handler,
};
use crate::{
    protocol::call,
    queue::raw::{Halt, RawJob},
};
use futures_util::future::{BoxFuture, FutureExt, join_all};
use hapax_core::{
    Applied, BootTime, StoreResult, Timestamp,
    idempotency::Write,
    queue::{End, MOST, Step, Stepped},
};
use std::sync::Arc;
use tokio::time::Instant;

/// The answer to a step, and the jobs that it ended.
pub(super) struct Answered {
    pub(super) ended: Vec<Ended>,
    pub(super) answer: StoreResult<Stepped>,
    pub(super) asked: BootTime,
}

impl Run<'_> {
    /// Ends what has ended, and takes as many as there is room for.
    pub(super) fn step(&mut self, room: usize) -> BoxFuture<'static, Answered> {
        let (core, asked) = (Arc::clone(&self.core), self.core.clock.boot());
        let rest = self.ended.split_off(self.ended.len().min(MOST));
        let mut ended = std::mem::replace(&mut self.ended, rest);
        async move {
            if !core.joint {
                keys_first(&mut ended).await;
            }
            let finishes = ended.iter().map(|ended| {
                let mut finish = ended.finish.clone();
                finish.key = ended.ending.as_ref().map(|ending| Box::new(ending.complete.clone()));
                finish
            });
            let req = Step {
                queue: core.queue.clone(),
                group: core.group.clone(),
                consumer: core.consumer.clone(),
                finishes: finishes.collect(),
                want: room,
                lease: core.lease,
                max_losses: core.options.max_losses,
            };
            let answer = call::one(core.call_limit(), "take jobs", core.store.step(&req)).await;
            Answered { ended, answer, asked }
        }
        .boxed()
    }

    pub(super) async fn answered(&mut self, answered: Answered) {
        let Answered { mut ended, answer, asked } = answered;
        self.core.figures.answered("step", &answer);
        let stepped = match answer {
            Ok(stepped) => stepped,
            Err(error) => {
                if error.applied() == Applied::Unknown {
                    self.core.held.doubt();
                }
                // They are sent again: a finish that arrived is fenced the second time.
                for ended in &mut ended {
                    ended.sent |= error.applied() == Applied::Unknown;
                }
                ended.append(&mut self.ended);
                self.ended = ended;
                return self.failed(&error);
            }
        };
        self.pause = PAUSE;
        for (ended, finished) in ended.into_iter().zip(stepped.finished) {
            self.core.held.remove(&ended.finish.uid, ended.finish.delivery);
            self.count(&ended, finished.job);
            if let (Some(ending), Some(completed)) = (ended.ending, finished.key) {
                let _kept = ending.reservation.ended_by(Ok(completed));
            }
        }
        self.shown.send_replace((self.ran, false));
        self.core.figures.taken(stepped.jobs.len());
        self.core.time.set(stepped.now, self.core.clock.boot());
        self.next_due = stepped.next_due.map(|due| (due, stepped.now));
        self.idle = stepped.jobs.len() < self.room();
        self.left = self.left.saturating_sub(stepped.jobs.len());
        if self.mode == Mode::Once {
            self.left = 0;
        }
        // What took too long to come here may be another worker's before its handler is through; and one who stops starts
        // nothing more.
        let late = self.core.clock.boot().since(asked) >= self.core.lease.get() / 2;
        if (late || self.core.stop.is_cancelled()) && !stepped.jobs.is_empty() {
            self.give_back(&stepped.jobs, false).await;
        } else {
            self.accept(stepped.jobs, asked, stepped.now);
        }
    }

    /// Runs the handler of a job.
    pub(super) fn run(&mut self, job: RawJob, now: Timestamp) {
        let core = Arc::clone(&self.core);
        let limit = job.limit.filter(|_| !core.handler.keeps_time());
        self.handlers.spawn(async move {
            let facts = Facts::new(job.clone(), core.options.max_snooze, now);
            let (uid, delivery) = (job.taken.uid, job.taken.delivery);
            if let Some(by) = core.shares.wait(&core, &job).await {
                core.held.over(&uid, delivery);
                return facts.put_off(by);
            }
            let (running, begun) = (core.figures.running(), Instant::now());
            let judged = match &core.once {
                Some(once) => once.run(&core.handler, job, limit).await,
                None => run_handler(&core.handler, job, limit).await,
            };
            core.figures.took(begun.elapsed());
            drop(running);
            core.held.over(&uid, delivery);
            facts.judge(judged)
        });
    }

    fn count(&mut self, ended: &Ended, job: Write) {
        if job == Write::Fenced && !ended.sent {
            self.core.figures.lost();
            tracing::warn!(
                code = "queue.lease_lost",
                "job {} ended here and is another worker's by now",
                ended.finish.uid
            );
            self.ran.lost += 1;
            return;
        }
        let dead = match &ended.finish.end {
            End::Dead { reason, .. } => Some(*reason),
            _ => None,
        };
        self.core.figures.ended(ended.came.as_str(), dead);
        self.ran.replayed += u64::from(ended.replayed && ended.came == Came::Done);
        match ended.came {
            Came::Retried | Came::Snoozed | Came::Dead if ended.halted == Some(Halt::Cancelled) => {
                self.ran.cancelled += 1;
            }
            Came::Done => self.ran.done += 1,
            Came::Discarded => {
                self.ran.done += 1;
                self.ran.discarded += 1;
            }
            Came::Retried => self.ran.retried += 1,
            Came::Snoozed => self.ran.snoozed += 1,
            Came::Dead => self.ran.dead += 1,
        }
    }
}

/// Where keys and jobs are in different places: the keys first, so that a job which runs again finds its key done.
async fn keys_first(ended: &mut [Ended]) {
    // Side by side: stores gather what is ready at once.
    let endings = ended.iter_mut().filter_map(|ended| ended.ending.take());
    let completions = endings.map(|ending| ending.reservation.end_now(ending.complete));
    let _all_kept = join_all(completions).await;
}
