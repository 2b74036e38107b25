//! The end of a worker.

use super::run::Run;
use crate::{protocol::call, queue::raw::Halt};
use hapax_core::queue::{GiveBack, Taken};
use std::time::Duration;
use tokio::time::Instant;

/// How long handlers have after they were told to stop.
const GRACE: Duration = Duration::from_secs(1);

impl Run<'_> {
    /// Takes no more: ends what runs within the drain time, and gives the rest back.
    pub(super) async fn drain(&mut self) {
        let until = call::from_now(self.core.options.drain);
        let mut told = false;
        while !self.handlers.is_empty() || !self.ended.is_empty() {
            if !self.ended.is_empty() {
                let answered = self.step(0).await;
                let failed = answered.answer.is_err();
                self.answered(answered).await;
                if !failed {
                    // It may have been the last.
                    continue;
                }
                if Instant::now() >= until {
                    break;
                }
            }
            let limit = if told { until + GRACE } else { until };
            let rest = self.resting.take();
            tokio::select! {
                Some(ended) = self.handlers.join_next() => self.joined(ended),
                () = tokio::time::sleep_until(rest.unwrap_or_else(Instant::now)), if rest.is_some() => {}
                () = tokio::time::sleep_until(limit) => {
                    if told {
                        break;
                    }
                    told = true;
                    self.core.held.halt_all(Halt::Stopping);
                }
            }
        }
        self.handlers.shutdown().await;
        self.ran.given_back += u64::try_from(self.core.held.list().len()).unwrap_or(u64::MAX);
        self.give_back(&[], true).await;
    }

    pub(super) async fn give_back(&mut self, jobs: &[Taken], leave: bool) {
        let listed = |job: &Taken| (job.uid, job.delivery);
        let jobs = if leave { self.core.held.list() } else { jobs.iter().map(listed).collect() };
        let core = &self.core;
        let (queue, group, consumer) = (core.queue.clone(), core.group.clone(), core.consumer.clone());
        let req = GiveBack { queue, group, consumer, jobs, leave };
        core.figures.given_back(req.jobs.len());
        let step = core.store.give_back(&req);
        let answer = call::one(core.call_limit(), "give jobs back", step).await;
        core.figures.answered("give_back", &answer);
        if let Err(error) = answer {
            tracing::warn!(%error, code = "queue.store_failed", "jobs could not be given back: their lease ends by itself");
        }
    }
}
