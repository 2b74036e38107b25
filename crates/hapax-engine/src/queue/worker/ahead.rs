//! Jobs that a worker has taken, and whose handlers have not begun.

use super::{ends::Facts, run::Run};
use crate::queue::{
    Settings,
    raw::{Control, Halt, Outcome, RawJob, Turn},
};
use hapax_core::{BootTime, Timestamp, queue::Taken};
use std::{collections::VecDeque, time::Duration};
use tokio::time::Instant;

/// A job that waits for longer is given back: others may have room.
const PATIENCE: Duration = Duration::from_secs(1);

/// Those jobs, in the order in which they start.
#[derive(Default)]
pub(super) struct Ahead {
    jobs: VecDeque<Waiting>,
    /// Handlers were too slow for what was taken ahead, and none has ended since.
    pub(super) is_idle: bool,
}

struct Waiting {
    taken: Taken,
    control: Control,
    /// The store's clock as it was taken.
    now: Timestamp,
    since: Instant,
}

impl Ahead {
    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// When the first has waited for too long.
    pub(super) fn until(&self) -> Option<Instant> {
        self.jobs.front().map(|job| job.since + PATIENCE)
    }

    /// Takes out all of them.
    pub(super) fn take(&mut self) -> Vec<Taken> {
        self.jobs.drain(..).map(|job| job.taken).collect()
    }
}

impl Run<'_> {
    /// They are this worker's from now on.
    pub(super) fn accept(&mut self, jobs: Vec<Taken>, asked: BootTime, now: Timestamp) {
        let (since, until) = (Instant::now(), asked.after(self.core.lease.get()));
        for taken in jobs {
            let control = self.core.held.insert(&taken, until);
            self.ahead.jobs.push_back(Waiting { taken, control, now, since });
        }
    }

    /// Starts as many as there are handlers for.
    pub(super) fn start_next(&mut self) {
        while self.handlers.len() < self.core.options.concurrency
            && let Some(job) = self.ahead.jobs.pop_front()
        {
            self.start(job);
        }
    }

    fn start(&mut self, Waiting { taken, control, now, .. }: Waiting) {
        let core = &self.core;
        let halted = control.halt();
        let settings = Settings::read(&taken.settings);
        let limit =
            settings.timeout_ms.map(Duration::from_millis).into_iter().chain(core.options.max_runtime).min();
        let (queue, group) = (core.queue.name.clone(), core.group.clone());
        let turn = Turn::new(core.lease.get());
        let job = RawJob { taken, settings, queue, group, limit, control, turn };
        match halted {
            None => self.run(job, now),
            // It waited too long for that, and is another worker's.
            Some(Halt::Lost) => self.ran.lost += 1,
            // The store removes a cancelled job whatever its end is.
            Some(Halt::Cancelled | Halt::Stopping) => {
                core.held.over(&job.taken.uid, job.taken.delivery);
                let facts = Facts::new(job, core.options.max_snooze, now);
                self.ended.push(facts.judge(Outcome::Snooze { by: Duration::ZERO }.into()));
            }
        }
    }

    /// Gives back what waits, for whoever has room.
    pub(super) async fn give_up_ahead(&mut self) {
        let jobs = self.ahead.take();
        for job in &jobs {
            self.core.held.remove(&job.uid, job.delivery);
        }
        if !jobs.is_empty() {
            self.ahead.is_idle = true;
            self.ran.given_back += u64::try_from(jobs.len()).unwrap_or(u64::MAX);
            self.give_back(&jobs, false).await;
        }
    }
}
